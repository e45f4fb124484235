package threads_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// long is a history of n turns with two items each, as events.
func long(t testing.TB, n int) []events.Event {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	var evs []events.Event
	add := func(p threads.Payload) {
		data, err := transcript.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, events.Event{Type: p.EventType(), Data: data, At: at})
	}
	for i := range n {
		turn := transcript.Turn{ID: transcript.TurnID(fmt.Sprint("turn-", i)), Kind: transcript.TurnUser, Status: transcript.TurnCompleted, StartedAt: at, CompletedAt: at}
		say := func(what string, b transcript.Body) {
			add(threads.ItemCompleted{Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint(what, i)), Turn: turn.ID, StartedAt: at, CompletedAt: at, Body: b}})
		}
		begun := turn
		begun.Status, begun.CompletedAt = transcript.TurnInProgress, time.Time{}
		add(threads.TurnStarted{Turn: begun})
		say("u", transcript.UserMessage{Content: transcript.TextParts(fmt.Sprint("question ", i))})
		say("a", transcript.AgentMessage{Text: fmt.Sprint("answer ", i, " ", big("x", 25))})
		add(threads.TurnCompleted{Turn: turn})
	}
	return evs
}

// loadLong opens a service on a journal with a thread of 50,000 items, which is
// not loaded.
func loadLong(t testing.TB) (*threads.Service, *counting, transcript.ThreadID) {
	t.Helper()
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "long.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	counts := &counting{Journal: j}
	svc, err := threads.Open(t.Context(), threads.Config{
		Journal: counts, Providers: []threads.Provider{{Name: "puppet", Kind: "puppet", Adapter: agent.New(newPuppet())}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	r, err := svc.CreateThread(t.Context(), threads.CreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	id := r.Thread.ID
	unload := func() {
		if err := svc.Unload(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	unload()
	if _, err := j.Append(t.Context(), events.Append{Thread: string(id), Expect: r.AsOf.N, Events: long(t, 25_000)}); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.ReadThread(t.Context(), id); err != nil { // folds it, and its unloading makes a snapshot
		t.Fatal(err)
	}
	unload()
	return svc, counts, id
}

// resume does what a client does that comes back: it joins, and reads the newest
// page of turns and of items.
func resume(t testing.TB, svc *threads.Service, id transcript.ThreadID) (items int) {
	t.Helper()
	j, err := svc.Join(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	turns, err := svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: j.TurnsCursor, Limit: 25, Desc: true}, View: threads.ItemsSummary})
	if err != nil || len(turns.Turns) != 25 || turns.Turns[0].ID != "turn-24999" {
		t.Fatalf("%d turns, %v", len(turns.Turns), err)
	}
	page, err := svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Cursor: j.ItemsCursor, Limit: 100, Desc: true}})
	if err != nil || len(page.Items) != 100 {
		t.Fatalf("%d items, %v", len(page.Items), err)
	}
	return len(page.Items)
}

// Coming back to a long thread writes nothing and reads no event that its
// snapshot holds.
func TestResumeOfALongThreadWritesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	svc, counts, id := loadLong(t)
	commits := counts.count()
	began := time.Now()
	resume(t, svc, id)
	t.Logf("joined a thread of 50,000 items that was not loaded, and read its newest page, in %v", time.Since(began))
	if n := counts.count() - commits; n != 0 {
		t.Errorf("resuming took %d commits, want none", n)
	}
}

func BenchmarkResumeOfALongThread(b *testing.B) {
	svc, _, id := loadLong(b)
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			resume(b, svc, id)
			b.StopTimer()
			if err := svc.Unload(b.Context(), id); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("loaded", func(b *testing.B) {
		resume(b, svc, id) // loads it
		for b.Loop() {
			resume(b, svc, id)
		}
	})
}

func BenchmarkForkAndRevertOfALongThread(b *testing.B) {
	svc, _, id := loadLong(b)
	b.Run("fork", func(b *testing.B) {
		for b.Loop() {
			r, err := svc.Fork(b.Context(), threads.ForkParams{Thread: id, LastTurn: "turn-24998"})
			if err != nil || r.Thread.Items != 49_998 {
				b.Fatalf("%d items, %v", r.Thread.Items, err)
			}
			b.StopTimer()
			if err := svc.DeleteThread(b.Context(), r.Thread.ID); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("revert", func(b *testing.B) {
		for i := 24_999; b.Loop(); i-- {
			if _, err := svc.Revert(b.Context(), id, transcript.TurnID(fmt.Sprint("turn-", i))); err != nil {
				b.Fatal(err)
			}
		}
	})
}
