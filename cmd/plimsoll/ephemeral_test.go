package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func boundedTo(max int) *bounded {
	return &bounded{Journal: mem.New(), max: max, held: map[string]int{}}
}

func TestEphemeralThreadsFillABoundedJournal(t *testing.T) {
	t.Parallel()
	j := boundedTo(100 << 10)
	text := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 10<<10))
	write := func(thread string, expect int64) error {
		_, err := j.Append(t.Context(), events.Append{Thread: thread, Expect: expect, Events: []events.Event{{Type: "t", Data: []byte(text)}}})
		return err
	}
	n := int64(0)
	for ; ; n++ {
		if err := write("a", n); err != nil {
			if !errors.Is(err, events.ErrFull) {
				t.Fatal(err)
			}
			break
		}
		if n > 20 {
			t.Fatal("it is never full")
		}
	}
	if n != 9 {
		t.Errorf("%d events of 10 KiB fit into 100 KiB, want 9", n)
	}
	if err := write("b", 0); !errors.Is(err, events.ErrFull) {
		t.Errorf("another thread: %v", err)
	}
	if err := write("a", 3); !errors.Is(err, events.ErrFull) && !errors.Is(err, events.ErrConflict) {
		t.Errorf("at a wrong head: %v", err)
	}
	if _, err := j.Append(t.Context(), events.Append{Thread: "a", Expect: n, Events: []events.Event{{Type: "deleted", Data: []byte(`{}`)}}, Delete: true}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if j.used != 0 || len(j.held) != 0 {
		t.Errorf("%d bytes are held by nobody", j.used)
	}
	for i := range int64(100) { // what is refused takes no room
		if err := write("c", i+7); !errors.Is(err, events.ErrConflict) {
			t.Fatal(err)
		}
	}
	if err := write("c", 0); err != nil {
		t.Error(err)
	}
}

// Clients are told what is full, and what makes room there.
func TestAFullBoundedJournalSaysThatItIsMemory(t *testing.T) {
	t.Parallel()
	svc, err := threads.Open(t.Context(), threads.Config{Journal: boundedTo(1 << 20), Providers: ephemeralProviders()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := svc.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for {
		_, err = svc.CreateThread(t.Context(), threads.CreateParams{Name: strings.Repeat("x", 200)})
		if err != nil {
			break
		}
	}
	if got := fault.MessageOf(err); fault.CodeOf(err) != fault.Full || !strings.Contains(got, "hold 1 MiB at most, in memory") || strings.Contains(got, "disk") {
		t.Errorf("%s: %q", fault.CodeOf(err), got)
	}
}
