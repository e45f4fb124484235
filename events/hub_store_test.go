package events_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
)

// A watched journal notes the open texts that are stored, and can make storing
// slow or fail.
type watched struct {
	*mem.Journal
	mu    sync.Mutex
	puts  []put
	delay time.Duration
	err   error
}

type put struct {
	at   time.Time
	text events.OpenText
}

func (w *watched) PutOpen(ctx context.Context, thread string, open events.OpenText) error {
	w.mu.Lock()
	w.puts = append(w.puts, put{time.Now(), open})
	delay, err := w.delay, w.err
	w.mu.Unlock()
	time.Sleep(delay) // of a synctest bubble
	if err != nil {
		return err
	}
	return w.Journal.PutOpen(ctx, thread, open)
}

func (w *watched) stores() []put {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.puts)
}

func (w *watched) set(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (h *hub) stored(thread string) string {
	h.t.Helper()
	open, err := h.j.Open(context.Background(), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, o := range open {
		out = append(out, o.Item+"="+o.Text)
	}
	return strings.Join(out, " ")
}

func TestOpenTextIsStoredAtMostFourTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{Journal: mem.New()}
		h := newHub(t, w)
		h.add("a", event("opens", "i", ""), event("opens", "j", ""))
		total := map[string]string{}
		for ms := range 3000 { // a delta every millisecond for 3 s
			item := []string{"i", "j"}[ms%2]
			h.extend("a", item, "x")
			total[item] += "x"
			time.Sleep(time.Millisecond)
			if ms%100 == 99 { // at most 250 ms are not stored yet
				for o := range strings.FieldsSeq(h.stored("a")) {
					item, text, _ := strings.Cut(o, "=")
					if lost := len(total[item]) - len(text); lost > 126 {
						t.Fatalf("after %d ms: %d of %d bytes of %s are not stored", ms, lost, len(total[item]), item)
					}
				}
			}
		}
		last := map[string]time.Time{}
		for _, p := range w.stores() {
			if since := p.at.Sub(last[p.text.Item]); since < events.FlushInterval {
				t.Errorf("stored %s again after %v", p.text.Item, since)
			}
			last[p.text.Item] = p.at
		}
		if n := len(w.stores()); n < 20 || n > 24 {
			t.Errorf("stored %d times in 3 s", n)
		}
		time.Sleep(events.FlushInterval)
		n := len(w.stores())
		time.Sleep(time.Minute)
		if len(w.stores()) != n {
			t.Error("stored again what had not changed")
		}
		if got := h.stored("a"); got != "i="+total["i"]+" j="+total["j"] {
			t.Errorf("stored %d bytes", len(got))
		}
	})
}

// A text that grows while it is being stored, however long that takes, is stored
// once per interval too, and does not keep the end of another waiting.
func TestTextThatGrowsWhileItIsStoredWaitsForTheNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{Journal: mem.New(), delay: 10 * time.Millisecond}
		h := newHub(t, w)
		h.add("a", event("opens", "i", ""), event("opens", "j", ""))
		h.extend("a", "j", "text")
		for range 1000 { // a delta every millisecond
			h.extend("a", "i", "x")
			time.Sleep(time.Millisecond)
		}
		if n := len(w.stores()); n < 4 || n > 5 {
			t.Fatalf("stored %d times", n)
		}
		start := time.Now()
		h.add("a", event("closes", "j", "text"))
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Fatalf("the end of a text took %v", took)
		}
	})
}

// However storing a text and closing its item meet, the row stays gone.
func TestStoringNeverBringsBackAClosedText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{Journal: mem.New(), delay: 20 * time.Millisecond}
		h := newHub(t, w)
		for i := range 60 { // close before, while and after the text is stored
			item := fmt.Sprint("i", i)
			h.add("a", event("opens", item, ""))
			h.extend("a", item, "text")
			time.Sleep(220*time.Millisecond + time.Duration(i)*time.Millisecond)
			if i%2 == 0 {
				h.add("a", event("closes", item, "text"))
			} else {
				head, err := h.Append(t.Context(), events.Append{
					Thread: "a", Expect: h.heads["a"],
					Events: []events.Event{note("x")}, Closed: []string{item},
				})
				if err != nil {
					t.Fatal(err)
				}
				h.heads["a"] = head
			}
			time.Sleep(time.Second)
			if got := h.stored("a"); got != "" {
				t.Fatalf("round %d: %q came back", i, got)
			}
		}
		if n := len(w.stores()); n < 20 || n > 50 {
			t.Fatalf("stored %d times: the test did not meet both sides", n)
		}
	})
}

func TestStoredTextEndsAtARune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, mem.New())
		h.add("a", event("opens", "i", ""))
		if at, err := h.Extend("a", "i", "a\xe4\xbd"); at != 0 || err != nil {
			t.Fatal(at, err)
		}
		time.Sleep(time.Second)
		if got := h.stored("a"); got != "i=a" {
			t.Fatalf("stored %q", got)
		}
		if at, err := h.Extend("a", "i", "\xa0!"); at != 3 || err != nil {
			t.Fatal(at, err)
		}
		time.Sleep(time.Second)
		if got := h.stored("a"); got != "i=a你!" {
			t.Fatalf("stored %q", got)
		}
	})
}

func TestTextThatCouldNotBeStoredIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{Journal: mem.New(), err: events.ErrFull}
		h := newHub(t, w)
		failed := make(chan error, 100)
		h.FlushFailed = func(thread string, err error) { failed <- err }
		h.add("a", event("opens", "i", ""))
		h.extend("a", "i", "text")
		time.Sleep(1100 * time.Millisecond)
		if n := len(failed); n != 4 {
			t.Fatalf("told %d times", n)
		}
		if err := <-failed; !errors.Is(err, events.ErrFull) {
			t.Fatal(err)
		}
		w.set(nil)
		time.Sleep(time.Second)
		if got := h.stored("a"); got != "i=text" {
			t.Fatalf("stored %q", got)
		}
		h.add("a", event("closes", "i", "text"))
	})
}

// An append that fails but is there reaches followers as if nothing had been;
// one that is not there leaves its item open. S4, S5.
func TestAppendOfUnknownOutcome(t *testing.T) {
	broken := errors.New("broken")
	for _, persist := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			j := mem.New()
			h := newHub(t, j)
			h.add("a", event("opens", "i", ""))
			h.extend("a", "i", "text")
			got := h.until(events.FollowQuery{Thread: "a"}, func(n int, m events.Message) bool {
				if m.Kind == events.KindLive {
					j.FailNext(broken, persist)
					a := events.Append{Thread: "a", Expect: 1, Events: []events.Event{event("closes", "i", "text!"), event("opens", "j", "")}}
					if _, err := h.Append(t.Context(), a); !errors.Is(err, broken) {
						t.Fatal(err)
					}
					info, err := j.Info(t.Context(), "a")
					if err != nil {
						t.Fatal(err)
					}
					if h.heads["a"] = info.Head; info.Head == 1 {
						h.extend("a", "i", "!")
						h.add("a", a.Events...)
					}
					h.extend("a", "j", "next")
				}
				return !strings.HasSuffix(brief(m), "next")
			})
			same(t, fmt.Sprint("persist ", persist), got, "a/1 opens i", "a/1 i[0]+text", "live",
				"a/1 i[4]+!", "a/2 closes itext!", "a/3 opens j", "a/3 j[0]+next")
			time.Sleep(time.Second)
			if got := h.stored("a"); got != "j=next" {
				t.Fatalf("stored %q", got)
			}
		})
	}
}

// S4: what was committed before a crash is delivered by the next process.
func TestCommittedButUnpublishedIsDeliveredAfterRestart(t *testing.T) {
	j := mem.New()
	h := newHub(t, j)
	h.add("a", note("1"))
	if _, err := j.Append(t.Context(), events.Append{Thread: "a", Expect: 1, Events: []events.Event{note("2")}}); err != nil {
		t.Fatal(err)
	}
	next := newHub(t, j)
	same(t, "thread", next.until(events.FollowQuery{Thread: "a"}, toLive), "a/1 note 1", "a/2 note 2", "live")
	same(t, "all threads", next.until(events.FollowQuery{}, toLive), "a/1 note 1", "a/2 note 2", "live")
}

// S5: what fails for good is never seen.
func TestRefusedAppendIsNeverSeen(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", note("1"))
		got := h.until(events.FollowQuery{Thread: "a"}, func(n int, m events.Message) bool {
			if m.Kind == events.KindLive {
				_, err := h.Append(t.Context(), events.Append{Thread: "a", Events: []events.Event{event("opens", "i", "")}})
				if !errors.Is(err, events.ErrConflict) {
					t.Fatal(err)
				}
				if _, err := h.Extend("a", "i", "x"); !errors.Is(err, events.ErrNotFound) {
					t.Fatal(err)
				}
				h.add("a", note("2"))
			}
			return m.Cursor.N < 2
		})
		same(t, "messages", got, "a/1 note 1", "live", "a/2 note 2")
	})
}

// An item that an append lists as closed is over, whether it has any text or
// not: it takes no more, nobody is told of it, and nothing of it is stored.
func TestListedAsClosedEndsAnItem(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", event("opens", "empty", ""), event("opens", "cut", ""), event("opens", "full", ""), event("opens", "kept", ""))
		h.extend("a", "cut", "\xe4\xbd") // less than a rune
		h.extend("a", "full", "text")
		live := h.listen(events.FollowQuery{Thread: "a", After: h.at("a")})
		h.expect(live, "repeat a/1 opens empty", "repeat a/2 opens cut", "repeat a/3 opens full", "a/3 full[0]+text", "repeat a/4 opens kept", "live")
		h.addClosing("a", "empty", "cut", "full", "never opened")
		h.checkEnded("a", "kept", "empty", "cut", "full")
		h.extend("a", "kept", "goes on")
		h.expect(live, "a/5 note over", "a/4 kept[0]+goes on")
		same(t, "at the head", h.until(events.FollowQuery{Thread: "a", After: h.at("a")}, toLive), "repeat a/4 opens kept", "a/4 kept[0]+goes on", "live")
		h.addClosing("a", "kept")
		h.checkEnded("a", "", "kept")
		same(t, "at the head, again", h.until(events.FollowQuery{Thread: "a", After: h.at("a")}, toLive), "live")
		h.checkStored("a", "")
	})
}

// checkStored checks which texts the hub leaves behind.
func (h *hub) checkStored(thread, want string) {
	h.t.Helper()
	if err := h.Hub.Close(); err != nil { // stores what is open
		h.t.Fatal(err)
	}
	if got := h.stored(thread); got != want {
		h.t.Fatalf("stored %q, want %q", got, want)
	}
}

// Text that a follower did not get before its item ended is not told after.
func TestNoTextComesAfterTheEndOfItsItem(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", event("opens", "i", ""), event("opens", "j", ""))
		got := h.until(events.FollowQuery{Thread: "a"}, func(n int, m events.Message) bool {
			switch n {
			case 3: // live
				h.extend("a", "i", "text")
				h.addClosing("a", "i")
			case 4:
				h.extend("a", "j", "other")
			}
			return n < 5
		})
		same(t, "messages", got, "a/1 opens i", "a/2 opens j", "live", "a/3 note over", "a/2 j[0]+other")
	})
}

// It is over also if the append said that it failed but is there, and goes on
// if it is not.
func TestListedAsClosedByAnAppendOfUnknownOutcome(t *testing.T) {
	broken := errors.New("broken")
	for _, persist := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			j := mem.New()
			h := newHub(t, j)
			h.add("a", event("opens", "empty", ""), event("opens", "full", ""))
			h.extend("a", "full", "text")
			time.Sleep(time.Second)
			j.FailNext(broken, persist)
			_, err := h.Append(t.Context(), events.Append{
				Thread: "a", Expect: 2, Events: []events.Event{note("over")}, Closed: []string{"empty", "full"},
			})
			if !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if h.heads["a"] = h.at("a").N; h.heads["a"] == 2 {
				h.extend("a", "empty", "goes on")
				h.addClosing("a", "empty", "full")
			}
			h.checkEnded("a", "", "empty", "full")
			time.Sleep(time.Second)
			if got := h.stored("a"); got != "" {
				t.Fatalf("persist %v: stored %q", persist, got)
			}
			same(t, "at the head", h.until(events.FollowQuery{Thread: "a", After: h.at("a")}, toLive), "live")
		})
	}
}

func (h *hub) addClosing(thread string, items ...string) {
	h.t.Helper()
	head, err := h.Append(context.Background(), events.Append{
		Thread: thread, Expect: h.heads[thread], Events: []events.Event{note("over")}, Closed: items,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.heads[thread] = head
}

// checkEnded checks that items take no text and that only open ones are open.
func (h *hub) checkEnded(thread, open string, ended ...string) {
	h.t.Helper()
	var names []string
	for _, o := range h.OpenTexts(thread) {
		names = append(names, o.Item)
	}
	if got := strings.Join(names, " "); got != open {
		h.t.Fatalf("open: %q, want %q", got, open)
	}
	for _, item := range ended {
		if _, err := h.Extend(thread, item, "x"); !errors.Is(err, events.ErrNotFound) {
			h.t.Fatalf("%s takes text: %v", item, err)
		}
	}
}
