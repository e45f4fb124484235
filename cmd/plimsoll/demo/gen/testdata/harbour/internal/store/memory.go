// Package store keeps ships, berths and bookings.
package store

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/config"
)

// Memory is a store for tests, demos and the staging machine. It is safe for
// concurrent use, but a caller that reads first and then writes has to make
// sure itself that nothing happens in between.
type Memory struct {
	mu       sync.RWMutex
	ships    map[string]berth.Ship
	berths   map[string]berth.Berth
	bookings map[string]berth.Booking
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		ships:    map[string]berth.Ship{},
		berths:   map[string]berth.Berth{},
		bookings: map[string]berth.Booking{},
	}
}

// Seed adds the configured berths.
func Seed(_ context.Context, m *Memory, berths []config.Berth) error {
	for _, b := range berths {
		if b.Name == "" || b.LengthM <= 0 {
			return fmt.Errorf("seed: berth %+v is not complete", b)
		}
		m.PutBerth(berth.Berth{Name: b.Name, LengthM: b.LengthM, DraughtM: b.DraughtM})
	}
	return nil
}

// PutShip adds or replaces a ship.
func (m *Memory) PutShip(s berth.Ship) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ships[s.IMO] = s
}

// PutBerth adds or replaces a berth.
func (m *Memory) PutBerth(b berth.Berth) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.berths[b.Name] = b
}

// Ship implements berth.Store.
func (m *Memory) Ship(_ context.Context, imo string) (berth.Ship, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, ok := m.ships[imo]
	if !ok {
		return berth.Ship{}, fmt.Errorf("ship %s: %w", imo, berth.ErrNoShip)
	}
	return s, nil
}

// Ships returns all ships by name.
func (m *Memory) Ships(_ context.Context) ([]berth.Ship, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]berth.Ship, 0, len(m.ships))
	for _, s := range m.ships {
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// Berths implements berth.Store.
func (m *Memory) Berths(_ context.Context) ([]berth.Berth, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]berth.Berth, 0, len(m.berths))
	for _, b := range m.berths {
		out = append(out, b)
	}
	return out, nil
}

// Bookings implements berth.Store: those of one berth, by begin.
func (m *Memory) Bookings(_ context.Context, name string) ([]berth.Booking, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := []berth.Booking{}
	for _, b := range m.bookings {
		if b.Berth == name {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Window.From.Before(out[j].Window.From) })
	return out, nil
}

// Booking returns one booking.
func (m *Memory) Booking(_ context.Context, id string) (berth.Booking, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.bookings[id]
	if !ok {
		return berth.Booking{}, fmt.Errorf("booking %s: %w", id, berth.ErrNoBooking)
	}
	return b, nil
}

// Insert implements berth.Store.
func (m *Memory) Insert(_ context.Context, b berth.Booking) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bookings[b.ID] = b
	return nil
}

// Delete implements berth.Store.
func (m *Memory) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.bookings[id]; !ok {
		return fmt.Errorf("booking %s: %w", id, berth.ErrNoBooking)
	}
	delete(m.bookings, id)
	return nil
}
