package berth_test

import (
	"context"
	"testing"
	"time"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/store"
)

// slowStore blocks in Bookings of one berth until it is released.
type slowStore struct {
	*store.Memory
	name    string
	entered chan struct{}
	release chan struct{}
}

func (s *slowStore) Bookings(ctx context.Context, name string) ([]berth.Booking, error) {
	if name == s.name {
		close(s.entered)
		<-s.release
	}
	return s.Memory.Bookings(ctx, name)
}

// TestBerthsDoNotWaitForEachOther: a slow query for B-11 must not keep B-07
// from being booked.
func TestBerthsDoNotWaitForEachOther(t *testing.T) {
	_, mem := setup(t)
	st := &slowStore{Memory: mem, name: "B-11", entered: make(chan struct{}), release: make(chan struct{})}
	a := berth.NewAssigner(st, time.Minute)
	slow := make(chan error, 1)
	go func() {
		_, err := a.AssignTo(context.Background(), "B-11", osprey.IMO, "agent-1", day(0))
		slow <- err
	}()
	<-st.entered
	fast := make(chan error, 1)
	go func() {
		_, err := a.AssignTo(context.Background(), "B-07", osprey.IMO, "agent-2", day(0))
		fast <- err
	}()
	select {
	case err := <-fast:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Second):
		t.Error("B-07 waits for B-11")
	}
	close(st.release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
}
