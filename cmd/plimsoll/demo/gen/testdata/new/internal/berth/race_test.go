package berth_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"harbour.example/api/internal/berth"
)

// TestOneWindowGoesToOneShip lets many agents ask for the same berth and window
// at the same time: exactly one may get it, the others must hear that it is
// taken. Before HARB-2187 was fixed two of them got it now and then.
func TestOneWindowGoesToOneShip(t *testing.T) {
	a, st := setup(t)
	const agents = 32
	start := make(chan struct{})
	errs := make(chan error, agents)
	var wg sync.WaitGroup
	for n := range agents {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			_, err := a.AssignTo(context.Background(), "B-07", osprey.IMO, fmt.Sprintf("agent-%d", n), day(0))
			errs <- err
		}()
	}
	close(start)
	wg.Wait()
	close(errs)
	won := 0
	for err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, berth.ErrBerthTaken):
			t.Errorf("error %v, want taken", err)
		}
	}
	if won != 1 {
		t.Errorf("%d agents got B-07, want 1", won)
	}
	if list, _ := st.Bookings(context.Background(), "B-07"); len(list) != 1 {
		t.Errorf("%d bookings of B-07 overlap", len(list))
	}
}

// TestAssignSpreadsOverTheBerths is the same without a chosen berth: as many
// ships get a place as there are berths that fit, and no berth has two.
func TestAssignSpreadsOverTheBerths(t *testing.T) {
	a, st := setup(t)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			a.Assign(context.Background(), brisa.IMO, fmt.Sprintf("agent-%d", n), day(0))
		}()
	}
	wg.Wait()
	for _, name := range []string{"B-01", "B-02", "B-07", "B-11"} {
		if list, _ := st.Bookings(context.Background(), name); len(list) != 1 {
			t.Errorf("%d bookings of %s, want 1", len(list), name)
		}
	}
}
