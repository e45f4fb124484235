package mem_test

import (
	"context"
	"errors"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/journaltest"
	"github.com/plimsoll-dev/plimsoll/events/mem"
)

func TestConformance(t *testing.T) {
	journaltest.Run(t, journaltest.Backend{
		Open: func(*testing.T) events.Journal { return mem.New() },
		Reopen: func(t *testing.T, j events.Journal) events.Journal {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j.(*mem.Journal).Reopen()
			return j
		},
	})
}

// A caller that got an error learns from Info and Read what happened, and can
// then go on, whichever it was.
func TestFailedAppendIsRecoveredThroughInfoAndRead(t *testing.T) {
	broken := errors.New("broken")
	for _, persist := range []bool{false, true} {
		j := mem.New()
		add := func(expect int64, s string) error {
			_, err := j.Append(context.Background(), events.Append{
				Thread: "a", Expect: expect,
				Events: []events.Event{{Type: "t", Data: []byte(s)}},
			})
			return err
		}
		if err := add(0, "1"); err != nil {
			t.Fatal(err)
		}
		j.FailNext(broken, persist)
		if err := add(5, "9"); !errors.Is(err, events.ErrConflict) {
			t.Fatalf("a conflict used up the fault: %v", err)
		}
		if err := add(1, "2"); !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
		info, err := j.Info(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if persist {
			want = 2
		}
		if info.Head != want {
			t.Fatalf("persist %v: head %d", persist, info.Head)
		}
		if info.Head == 1 {
			err = add(1, "2")
		}
		if err != nil || add(2, "3") != nil {
			t.Fatal("cannot go on", err)
		}
		evs, err := j.Read(context.Background(), "a", 0, 10)
		if err != nil || len(evs) != 3 || string(evs[1].Data) != "2" {
			t.Fatalf("events %v, %v", evs, err)
		}
	}
}
