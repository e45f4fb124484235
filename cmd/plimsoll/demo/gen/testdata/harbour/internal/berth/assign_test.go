package berth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/store"
)

var (
	noon   = time.Date(2040, 5, 11, 12, 0, 0, 0, time.UTC)
	brisa  = berth.Ship{IMO: "9100001", Name: "Brisa", LengthM: 85, DraughtM: 5.1}
	osprey = berth.Ship{IMO: "9100002", Name: "Grey Osprey", LengthM: 142, DraughtM: 7.9}
	titan  = berth.Ship{IMO: "9100003", Name: "Titan of Lund", LengthM: 290, DraughtM: 13.2}
)

func day(n int) berth.Window {
	return berth.Window{From: noon.AddDate(0, 0, n), To: noon.AddDate(0, 0, n+1)}
}

func setup(t *testing.T) (*berth.Assigner, *store.Memory) {
	t.Helper()
	st := store.NewMemory()
	for _, b := range []berth.Berth{
		{Name: "B-01", LengthM: 100, DraughtM: 6},
		{Name: "B-02", LengthM: 100, DraughtM: 6},
		{Name: "B-07", LengthM: 160, DraughtM: 9},
		{Name: "B-11", LengthM: 240, DraughtM: 12},
	} {
		st.PutBerth(b)
	}
	for _, s := range []berth.Ship{brisa, osprey, titan} {
		st.PutShip(s)
	}
	return berth.NewAssigner(st, 10*time.Minute), st
}

func TestAssignTakesTheShortestBerthThatFits(t *testing.T) {
	a, _ := setup(t)
	b, err := a.Assign(context.Background(), brisa.IMO, "agent-1", day(0))
	if err != nil || b.Berth != "B-01" {
		t.Fatalf("berth %q, %v", b.Berth, err)
	}
}

func TestAssignTakesTheNextBerthWhenTheBestIsTaken(t *testing.T) {
	a, _ := setup(t)
	for _, want := range []string{"B-01", "B-02", "B-07", "B-11"} {
		b, err := a.Assign(context.Background(), brisa.IMO, "agent-1", day(0))
		if err != nil || b.Berth != want {
			t.Fatalf("berth %q, want %q, %v", b.Berth, want, err)
		}
	}
	if _, err := a.Assign(context.Background(), brisa.IMO, "agent-1", day(0)); !errors.Is(err, berth.ErrBerthTaken) {
		t.Fatalf("error %v, want taken", err)
	}
}

func TestAssignRefusesAShipThatFitsNowhere(t *testing.T) {
	a, _ := setup(t)
	if _, err := a.Assign(context.Background(), titan.IMO, "agent-1", day(0)); !errors.Is(err, berth.ErrNoBerth) {
		t.Fatalf("error %v, want no berth", err)
	}
}

func TestAssignRefusesAnUnknownShip(t *testing.T) {
	a, _ := setup(t)
	if _, err := a.Assign(context.Background(), "9999999", "agent-1", day(0)); !errors.Is(err, berth.ErrNoShip) {
		t.Fatalf("error %v, want no ship", err)
	}
}

func TestWindowsThatTouchDoNotOverlap(t *testing.T) {
	a, _ := setup(t)
	for n := range 3 {
		b, err := a.AssignTo(context.Background(), "B-07", osprey.IMO, "agent-1", day(n))
		if err != nil || b.Berth != "B-07" {
			t.Fatalf("day %d: %v", n, err)
		}
	}
}

func TestAssignToRefusesATakenBerth(t *testing.T) {
	a, _ := setup(t)
	if _, err := a.AssignTo(context.Background(), "B-07", osprey.IMO, "agent-1", day(0)); err != nil {
		t.Fatal(err)
	}
	_, err := a.AssignTo(context.Background(), "B-07", brisa.IMO, "agent-2", day(0))
	if !errors.Is(err, berth.ErrBerthTaken) {
		t.Fatalf("error %v, want taken", err)
	}
}

func TestAHoldKeepsOthersOut(t *testing.T) {
	a, _ := setup(t)
	if _, err := a.Hold(context.Background(), "B-07", "agent-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Hold(context.Background(), "B-07", "agent-2"); !errors.Is(err, berth.ErrBerthTaken) {
		t.Fatalf("error %v, want taken", err)
	}
	if _, err := a.AssignTo(context.Background(), "B-07", osprey.IMO, "agent-2", day(0)); !errors.Is(err, berth.ErrBerthTaken) {
		t.Fatalf("error %v, want taken", err)
	}
	a.Release("B-07", "agent-1")
	if _, err := a.AssignTo(context.Background(), "B-07", osprey.IMO, "agent-2", day(0)); err != nil {
		t.Fatal(err)
	}
}

func TestBadWindowsAreRefused(t *testing.T) {
	a, _ := setup(t)
	for name, w := range map[string]berth.Window{
		"ends before it begins": {From: noon.Add(time.Hour), To: noon},
		"too long":              {From: noon, To: noon.AddDate(0, 1, 0)},
		"over":                  {From: time.Unix(0, 0), To: time.Unix(3600, 0)},
	} {
		if _, err := a.Assign(context.Background(), brisa.IMO, "agent-1", w); !errors.Is(err, berth.ErrBadWindow) {
			t.Errorf("%s: error %v, want bad window", name, err)
		}
	}
}

func TestCancelFreesTheBerth(t *testing.T) {
	a, _ := setup(t)
	b, err := a.AssignTo(context.Background(), "B-11", osprey.IMO, "agent-1", day(4))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Cancel(context.Background(), b.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.AssignTo(context.Background(), "B-11", brisa.IMO, "agent-2", day(4)); err != nil {
		t.Fatal(err)
	}
	if err := a.Cancel(context.Background(), b.ID); !errors.Is(err, berth.ErrNoBooking) {
		t.Fatalf("error %v, want no booking", err)
	}
}
