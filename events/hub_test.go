package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// body is the data of the events of these tests.
type body struct {
	Item string `json:"item"`
	Text string `json:"text"`
}

// textOf is the rule that these tests give to their hubs.
func textOf(e events.Event) events.TextChange {
	var b body
	if err := json.Unmarshal(e.Data, &b); err != nil {
		panic(err) // only these tests write events
	}
	switch e.Type {
	case "opens":
		return events.TextChange{Op: events.TextOpens, Item: b.Item}
	case "closes":
		return events.TextChange{Op: events.TextCloses, Item: b.Item, Text: b.Text}
	}
	return events.TextChange{}
}

func event(kind, item, text string) events.Event {
	data, err := json.Marshal(body{item, text})
	if err != nil {
		panic(err) // strings always encode
	}
	return events.Event{Type: kind, Data: data}
}

func note(text string) events.Event { return event("note", "", text) }

// A hub under test, with the heads of the threads that it wrote.
type hub struct {
	*events.Hub
	t     *testing.T
	j     events.Journal
	heads map[string]int64
}

func newHub(t *testing.T, j events.Journal) *hub {
	h := &hub{events.NewHub(j, textOf), t, j, map[string]int64{}}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), j.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func openSQLite(t *testing.T) events.Journal {
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "plimsoll.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (h *hub) add(thread string, evs ...events.Event) {
	h.t.Helper()
	head, err := h.Append(context.Background(), events.Append{Thread: thread, Expect: h.heads[thread], Events: evs})
	if err != nil {
		h.t.Fatal(err)
	}
	h.heads[thread] = head
}

func (h *hub) remove(thread string) {
	h.t.Helper()
	_, err := h.Append(context.Background(), events.Append{
		Thread: thread, Expect: h.heads[thread],
		Events: []events.Event{note("deleted")}, Delete: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) extend(thread, item, text string) {
	h.t.Helper()
	if _, err := h.Extend(thread, item, text); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) trim(thread string, seq int64) {
	h.t.Helper()
	err := h.j.PutSnapshot(context.Background(), thread, events.Snapshot{Seq: seq, Data: []byte("s")})
	if err == nil {
		err = h.j.Trim(context.Background(), thread, seq)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// brief writes a message in one line.
func brief(m events.Message) string {
	switch m.Kind {
	case events.KindEvent:
		var b body
		if err := json.Unmarshal(m.Event.Data, &b); err != nil {
			panic(err)
		}
		s := fmt.Sprintf("%s/%d %s %s%s", m.Event.Thread, m.Event.Seq, m.Event.Type, b.Item, b.Text)
		if m.Repeat {
			s = "repeat " + s
		}
		return s
	case events.KindDelta:
		return fmt.Sprintf("%s/%d %s[%d]+%s", m.Delta.Opened.Thread, m.Delta.Opened.Seq, m.Delta.Item, m.Delta.Offset, m.Delta.Text)
	case events.KindLive:
		return "live"
	case events.KindReset:
		return fmt.Sprintf("reset %s %d", m.Reset.Reason, m.Reset.Oldest)
	case events.KindHeartbeat:
		return "heartbeat"
	}
	return fmt.Sprintf("kind %d", m.Kind)
}

// until follows and calls at with every message, whose answer says whether to
// go on, and returns the messages in brief.
func (h *hub) until(q events.FollowQuery, at func(n int, m events.Message) bool) (got []string) {
	h.t.Helper()
	for m, err := range h.Follow(h.t.Context(), q) {
		if err != nil {
			h.t.Fatal(err)
		}
		if got = append(got, brief(m)); !at(len(got), m) {
			break
		}
	}
	return got
}

func toLive(_ int, m events.Message) bool { return m.Kind != events.KindLive }

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// both runs a test on the hub over either journal.
func both(t *testing.T, test func(t *testing.T, h *hub)) {
	t.Run("mem", func(t *testing.T) { test(t, newHub(t, mem.New())) })
	t.Run("sqlite", func(t *testing.T) { test(t, newHub(t, openSQLite(t))) })
}

// S1: 5,000 events while nobody listened, then all of them, once, in order.
func TestFollowerGetsAllItMissed(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		const n = 5000
		for len(h.heads) == 0 || h.heads["a"] < n {
			h.add("a", note("1"), note("2"), note("3"), note("4"), note("5"))
		}
		for _, thread := range []string{"a", ""} {
			next := int64(0)
			h.until(events.FollowQuery{Thread: thread}, func(_ int, m events.Message) bool {
				if m.Kind == events.KindLive {
					return false
				}
				if next++; m.Event.Seq != next {
					t.Fatalf("seq %d, want %d", m.Event.Seq, next)
				}
				return true
			})
			if next != n {
				t.Fatalf("%d events, want %d", next, n)
			}
		}
	})
}

func TestFollowerSeesTextGrow(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", note("first"), event("opens", "i", ""))
		h.extend("a", "i", "hel\xe4\xbd")
		got := h.until(events.FollowQuery{Thread: "a"}, func(n int, m events.Message) bool {
			switch n {
			case 4: // live
				h.extend("a", "i", "\xa0lo")
			case 5:
				h.extend("a", "i", " the")
				h.extend("a", "i", "re")
			case 6:
				h.add("a", note("between"))
				h.extend("a", "i", "!")
			case 8:
				h.add("a", event("closes", "i", "hel你lo there! and more"))
			}
			return n < 10
		})
		same(t, "messages", got, "a/1 note first", "a/2 opens i", "a/2 i[0]+hel", "live", "a/2 i[3]+你lo", "a/2 i[8]+ there",
			"a/3 note between", "a/2 i[14]+!", "a/2 i[15]+ and more", "a/4 closes ihel你lo there! and more")
	})
}

// An item that is open is told again, with its whole text, wherever one
// subscribes; what comes after goes on from there. S10.
func TestSubscribingInsideAText(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("b", event("opens", "i", ""))
		h.add("a", event("opens", "i", ""))
		h.add("a", note("x"), event("opens", "j", ""))
		h.extend("a", "i", "text ")
		h.extend("b", "i", "other")
		head, err := h.Head(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		extendOnce := func(n int, m events.Message) bool {
			if m.Kind == events.KindLive {
				h.extend("a", "i", "goes on")
			}
			return n < 5
		}
		same(t, "at the head", h.until(events.FollowQuery{Thread: "a", After: &head}, extendOnce),
			"repeat a/1 opens i", "a/1 i[0]+text ", "repeat a/3 opens j", "live", "a/1 i[5]+goes on")
		head.N = 1
		same(t, "after the first", h.until(events.FollowQuery{Thread: "a", After: &head}, toLive),
			"repeat a/1 opens i", "a/1 i[0]+text goes on", "a/2 note x", "a/3 opens j", "live")
		same(t, "from the beginning", h.until(events.FollowQuery{Thread: "a"}, toLive),
			"a/1 opens i", "a/2 note x", "a/3 opens j", "a/1 i[0]+text goes on", "live")
		if head, err = h.Head(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		same(t, "all threads", h.until(events.FollowQuery{After: &head}, toLive),
			"repeat b/1 opens i", "b/1 i[0]+other", "repeat a/1 opens i", "a/1 i[0]+text goes on", "repeat a/3 opens j", "live")
		head.N--
		same(t, "all threads, one back", h.until(events.FollowQuery{After: &head}, toLive),
			"repeat b/1 opens i", "b/1 i[0]+other", "repeat a/1 opens i", "a/1 i[0]+text goes on", "a/3 opens j", "live")
	})
}

func TestClosingOfAnItemOpenedBeforeTheCursorHasNoDelta(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", event("opens", "i", ""))
		h.extend("a", "i", "text")
		at, err := h.Head(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		h.add("a", event("closes", "i", "text!"))
		same(t, "after the opening", h.until(events.FollowQuery{Thread: "a", After: &at}, toLive), "a/2 closes itext!", "live")
		same(t, "from the beginning", h.until(events.FollowQuery{Thread: "a"}, toLive),
			"a/1 opens i", "a/1 i[0]+text!", "a/2 closes itext!", "live")
	})
}

// S6, S7, S8: a cursor that is not served is told so, with the one to go on
// from; nothing else is delivered.
func TestCursorsThatCannotBeServed(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", note("1"), note("2"), note("3"))
		h.add("b", event("opens", "i", ""))
		h.extend("b", "i", "x")
		for _, thread := range []string{"a", ""} {
			head, err := h.Head(t.Context(), thread)
			if err != nil {
				t.Fatal(err)
			}
			check := func(name string, c events.Cursor, want string) {
				t.Helper()
				var last events.Message
				got := h.until(events.FollowQuery{Thread: thread, After: &c}, func(_ int, m events.Message) bool { last = m; return true })
				same(t, name, got, want)
				rest := h.until(events.FollowQuery{Thread: thread, After: &last.Cursor}, toLive)
				if strings.Contains(strings.Join(rest, ";"), "reset") {
					t.Fatalf("%s: going on from %v: %v", name, last.Cursor, rest)
				}
			}
			oldest := int64(0)
			if thread == "" {
				oldest = 2 // trimmed in the round before
			}
			check("another journal", events.Cursor{Journal: "zzzzzzzz", N: 1}, fmt.Sprint("reset journalChanged ", oldest))
			check("ahead", events.Cursor{Journal: head.Journal, N: head.N + 1}, fmt.Sprint("reset ahead ", oldest))
			h.trimOnce("a", 2)
			check("expired", events.Cursor{Journal: head.Journal, N: 1}, "reset expired 2")
			check("expired beginning", events.Cursor{Journal: head.Journal}, "reset expired 2")
			same(t, "from the beginning", h.until(events.FollowQuery{Thread: thread}, toLive), "reset expired 2")
			check("ahead of a trimmed one", events.Cursor{Journal: head.Journal, N: head.N + 1}, "reset ahead 2")
		}
	})
}

func (h *hub) trimOnce(thread string, seq int64) {
	h.t.Helper()
	info, err := h.j.Info(context.Background(), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	if info.Oldest <= seq {
		h.trim(thread, seq)
	}
}

func TestUnknownThreadIsNotFound(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		for _, err := range h.Follow(t.Context(), events.FollowQuery{Thread: "nobody"}) {
			if !errors.Is(err, events.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if _, err := h.Extend("nobody", "i", "x"); !errors.Is(err, events.ErrNotFound) {
			t.Fatal(err)
		}
	})
}

func TestDeletionEndsTheSequence(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", note("1"), event("opens", "i", ""))
		h.add("b", note("1"))
		h.extend("a", "i", "secret")
		all := h.until(events.FollowQuery{}, func(n int, m events.Message) bool {
			if m.Kind == events.KindLive {
				got := h.until(events.FollowQuery{Thread: "a"}, func(_ int, m events.Message) bool {
					if m.Kind == events.KindLive {
						h.remove("a")
					}
					return true
				})
				same(t, "live", got, "a/1 note 1", "a/2 opens i", "a/2 i[0]+secret", "live", "a/3 note deleted")
				h.add("b", note("2"))
			}
			return brief(m) != "b/2 note 2"
		})
		same(t, "all threads", all, "a/1 note 1", "a/2 opens i", "b/1 note 1", "a/2 i[0]+secret", "live", "a/3 note deleted", "b/2 note 2")
		same(t, "afterwards", h.until(events.FollowQuery{Thread: "a"}, func(int, events.Message) bool { return true }),
			"a/3 note deleted", "live")
		if _, err := h.Extend("a", "i", "x"); !errors.Is(err, events.ErrNotFound) {
			t.Fatal(err)
		}
	})
}

// A follower that lags behind a deletion gets the deletion, not what is gone.
func TestLaggingFollowerGetsTheDeletionOnly(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		for range 3 {
			h.add("a", note("x"))
		}
		got := h.until(events.FollowQuery{Thread: "a"}, func(n int, m events.Message) bool {
			if m.Kind == events.KindLive {
				for range 1000 {
					h.add("a", note("y"))
				}
				h.remove("a")
			}
			return true
		})
		same(t, "messages", got, "a/1 note x", "a/2 note x", "a/3 note x", "live", "a/1004 note deleted")
	})
}

func TestWhatIsDeletedIsNotDeliveredFromMemory(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("b", note("1"))
		got := h.until(events.FollowQuery{}, func(_ int, m events.Message) bool {
			if m.Kind == events.KindLive {
				h.add("a", note("secret"))
				h.add("a", note("secret"))
				h.remove("a")
			}
			return m.Event.Thread != "a"
		})
		same(t, "messages", got, "b/1 note 1", "live", "a/3 note deleted")
	})
}
