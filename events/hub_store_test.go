package events_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// A slow journal has committed an append before it says so.
type slowToSay struct {
	*mem.Journal
	committed, say chan struct{}
}

func (s *slowToSay) Append(ctx context.Context, a events.Append) (int64, error) {
	head, err := s.Journal.Append(ctx, a)
	if a.Expect > 0 {
		close(s.committed)
		<-s.say
	}
	return head, err
}

// Who subscribes at a cursor that the hub has not published yet is told of the
// item that opened there, and gets its text.
func TestSubscribingBetweenCommitAndPublication(t *testing.T) {
	j := &slowToSay{mem.New(), make(chan struct{}), make(chan struct{})}
	h := newHub(t, j)
	h.add("a", note("1"))
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		h.add("a", event("opens", "i", ""))
		h.extend("a", "i", "text")
	})
	<-j.committed
	info, err := j.Info(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		for range 10_000 { // let the follower come as far as it can
			runtime.Gosched()
		}
		close(j.say)
	})
	got := strings.Join(h.until(events.FollowQuery{Thread: "a", After: &events.Cursor{Journal: info.JournalID, N: 2}},
		func(_ int, m events.Message) bool { return m.Kind != events.KindDelta }), "; ")
	if got != "repeat a/2 opens i; a/2 i[0]+text" && got != "repeat a/2 opens i; live; a/2 i[0]+text" {
		t.Fatalf("messages: %s", got)
	}
}
