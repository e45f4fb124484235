package berth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sort"
	"time"
)

// A Store keeps what the assigner decides on. Both implementations are in
// package store.
type Store interface {
	Ship(ctx context.Context, imo string) (Ship, error)
	Berths(ctx context.Context) ([]Berth, error)
	Bookings(ctx context.Context, berth string) ([]Booking, error)
	Insert(ctx context.Context, b Booking) error
	Delete(ctx context.Context, id string) error
}

// An Assigner books berths.
type Assigner struct {
	store   Store
	holdFor time.Duration
	now     func() time.Time
	holds   map[string]hold // berth name to the hold on it
}

// A hold keeps a berth for an agent who is still filling in the form.
type hold struct {
	agent string
	until time.Time
}

// NewAssigner returns an Assigner whose holds last for holdFor.
func NewAssigner(s Store, holdFor time.Duration) *Assigner {
	return &Assigner{store: s, holdFor: holdFor, now: time.Now, holds: map[string]hold{}}
}

// Hold keeps a berth for an agent. A second call of the same agent extends it.
func (a *Assigner) Hold(ctx context.Context, name, agent string) (time.Time, error) {
	now := a.now()
	if h, ok := a.holds[name]; ok && h.agent != agent && now.Before(h.until) {
		return time.Time{}, fmt.Errorf("hold %s: %w", name, ErrBerthTaken)
	}
	until := now.Add(a.holdFor)
	a.holds[name] = hold{agent, until}
	return until, nil
}

// Release ends the hold of an agent, if it is theirs.
func (a *Assigner) Release(name, agent string) {
	if h, ok := a.holds[name]; ok && h.agent == agent {
		delete(a.holds, name)
	}
}

// Assign books the best free berth for a ship.
func (a *Assigner) Assign(ctx context.Context, imo, agent string, w Window) (Booking, error) {
	if err := w.Validate(a.now()); err != nil {
		return Booking{}, err
	}
	ship, err := a.store.Ship(ctx, imo)
	if err != nil {
		return Booking{}, fmt.Errorf("assign: %w", err)
	}
	candidates, err := a.candidates(ctx, ship)
	if err != nil {
		return Booking{}, err
	}
	if len(candidates) == 0 {
		return Booking{}, fmt.Errorf("assign %s: %w", imo, ErrNoBerth)
	}
	for _, b := range candidates {
		free, err := a.free(ctx, b.Name, agent, w)
		if err != nil {
			return Booking{}, err
		}
		if !free {
			continue
		}
		return a.book(ctx, b.Name, imo, agent, w)
	}
	return Booking{}, fmt.Errorf("assign %s: %w", imo, ErrBerthTaken)
}

// AssignTo books one particular berth, which the agent has chosen on the map.
func (a *Assigner) AssignTo(ctx context.Context, name, imo, agent string, w Window) (Booking, error) {
	if err := w.Validate(a.now()); err != nil {
		return Booking{}, err
	}
	ship, err := a.store.Ship(ctx, imo)
	if err != nil {
		return Booking{}, fmt.Errorf("assign: %w", err)
	}
	candidates, err := a.candidates(ctx, ship)
	if err != nil {
		return Booking{}, err
	}
	for _, b := range candidates {
		if b.Name != name {
			continue
		}
		free, err := a.free(ctx, name, agent, w)
		if err != nil {
			return Booking{}, err
		}
		if !free {
			return Booking{}, fmt.Errorf("assign %s to %s: %w", imo, name, ErrBerthTaken)
		}
		return a.book(ctx, name, imo, agent, w)
	}
	return Booking{}, fmt.Errorf("assign %s to %s: %w", imo, name, ErrNoBerth)
}

// Cancel removes a booking.
func (a *Assigner) Cancel(ctx context.Context, id string) error {
	if err := a.store.Delete(ctx, id); err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	return nil
}

// candidates are the berths that the ship fits, in the order of the rules.
func (a *Assigner) candidates(ctx context.Context, s Ship) ([]Berth, error) {
	all, err := a.store.Berths(ctx)
	if err != nil {
		return nil, fmt.Errorf("list berths: %w", err)
	}
	var fit []Berth
	for _, b := range all {
		if b.Fits(s) {
			fit = append(fit, b)
		}
	}
	sort.Slice(fit, func(i, j int) bool {
		if fit[i].LengthM != fit[j].LengthM {
			return fit[i].LengthM < fit[j].LengthM
		}
		return fit[i].Name < fit[j].Name
	})
	return fit, nil
}

// free reports whether nobody else has the berth in the window.
func (a *Assigner) free(ctx context.Context, name, agent string, w Window) (bool, error) {
	if h, ok := a.holds[name]; ok && h.agent != agent && a.now().Before(h.until) {
		return false, nil
	}
	bookings, err := a.store.Bookings(ctx, name)
	if err != nil {
		return false, fmt.Errorf("bookings of %s: %w", name, err)
	}
	for _, b := range bookings {
		if b.Window.Overlaps(w) {
			return false, nil
		}
	}
	return true, nil
}

func (a *Assigner) book(ctx context.Context, name, imo, agent string, w Window) (Booking, error) {
	b := Booking{ID: newID(), Berth: name, IMO: imo, Window: w, Made: a.now(), Agent: agent}
	if err := a.store.Insert(ctx, b); err != nil {
		return Booking{}, fmt.Errorf("book %s: %w", name, err)
	}
	delete(a.holds, name)
	return b, nil
}

func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return "bk_" + hex.EncodeToString(b[:])
}
