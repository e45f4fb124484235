// Package berth decides which berth a ship gets and for how long.
//
// The rules, in order: the ship must fit in length and draught; the berth must
// be free for the whole window; of several the shortest one is taken, so that
// the long berths stay free for the long ships; ties go to the name that sorts
// first, which makes the answer reproducible.
package berth

import (
	"errors"
	"fmt"
	"time"
)

// A Ship is what the assigner has to know of a ship.
type Ship struct {
	IMO      string  `json:"imo"` // seven digits
	Name     string  `json:"name"`
	LengthM  int     `json:"lengthM"`
	DraughtM float64 `json:"draughtM"`
}

// A Berth is a place at the quay.
type Berth struct {
	Name     string  `json:"name"`
	LengthM  int     `json:"lengthM"`
	DraughtM float64 `json:"draughtM"`
}

// Fits reports whether a ship may lie at the berth at all. Five metres of the
// quay stay free for the mooring lines.
func (b Berth) Fits(s Ship) bool {
	return s.LengthM+5 <= b.LengthM && s.DraughtM <= b.DraughtM
}

// A Window is the time a ship stays, from inclusive, to exclusive.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Overlaps reports whether two windows have a moment in common.
func (w Window) Overlaps(o Window) bool {
	return w.From.Before(o.To) && o.From.Before(w.To)
}

// Validate reports what is wrong with a window as seen at now.
func (w Window) Validate(now time.Time) error {
	switch {
	case !w.From.Before(w.To):
		return fmt.Errorf("%w: it ends before it begins", ErrBadWindow)
	case w.To.Sub(w.From) > 14*24*time.Hour:
		return fmt.Errorf("%w: it is longer than 14 days", ErrBadWindow)
	case w.To.Before(now):
		return fmt.Errorf("%w: it is over", ErrBadWindow)
	}
	return nil
}

// A Booking gives a berth to a ship for a window.
type Booking struct {
	ID     string    `json:"id"`
	Berth  string    `json:"berth"`
	IMO    string    `json:"imo"`
	Window Window    `json:"window"`
	Made   time.Time `json:"made"`
	Agent  string    `json:"agent"`
}

// The errors of this package. The API maps each to one public code.
var (
	ErrNoBerth    = errors.New("no berth fits")
	ErrBerthTaken = errors.New("berth is taken")
	ErrBadWindow  = errors.New("window is not valid")
	ErrNoShip     = errors.New("no such ship")
	ErrNoBooking  = errors.New("no such booking")
)
