package events_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
)

// A client is what a front end does with a sequence: it keeps the cursor of
// the last message and the texts of the items of this connection.
type client struct {
	cursor *events.Cursor
	seen   []string // events, as "thread/seq"
	texts  map[string]string
	live   int
	deltas int
	thread string
}

func (c *client) connect() { c.texts, c.live = map[string]string{}, 0 }

// take checks every rule that one message can break.
func (c *client) take(m events.Message) error {
	switch m.Kind {
	case events.KindLive:
		if c.live++; c.live > 1 {
			return errors.New("live twice")
		}
	case events.KindDelta:
		return c.takeDelta(m.Delta)
	case events.KindEvent:
		if err := c.takeEvent(m); err != nil {
			return err
		}
	case events.KindReset:
		return fmt.Errorf("reset: %w", m.Reset)
	case events.KindHeartbeat: // says nothing
	}
	c.cursor = &m.Cursor
	return nil
}

func (c *client) takeDelta(d events.Delta) error {
	c.deltas++
	key := d.Opened.Thread + "/" + d.Item
	text, open := c.texts[key]
	switch {
	case !open:
		return fmt.Errorf("delta of %s, which is not open", key)
	case d.Offset != int64(len(text)):
		return fmt.Errorf("delta of %s at %d, have %d", key, d.Offset, len(text))
	case d.Text == "" || !utf8.ValidString(d.Text):
		return fmt.Errorf("delta %q", d.Text)
	}
	c.texts[key] = text + d.Text
	return nil
}

func (c *client) takeEvent(m events.Message) error {
	if !m.Repeat {
		c.seen = append(c.seen, fmt.Sprintf("%s/%d", m.Event.Thread, m.Event.Seq))
	}
	change := textOf(m.Event)
	key := m.Event.Thread + "/" + change.Item
	text, open := c.texts[key]
	switch change.Op {
	case events.TextOpens:
		if open {
			return fmt.Errorf("%s opens twice", key)
		}
		c.texts[key] = ""
	case events.TextCloses:
		if open && text != change.Text {
			return fmt.Errorf("%s has %q, closes with %q", key, text, change.Text)
		}
		delete(c.texts, key)
	default:
		if m.Repeat {
			return errors.New("a repeat that opens nothing")
		}
	}
	return nil
}

// A script does random things to two threads.
type script struct {
	h     *hub
	rt    *rapid.T
	open  map[string]string // text so far, by "thread/item"
	order []string          // every event, in order
}

func (s *script) add(thread string, ev events.Event) {
	s.h.add(thread, ev)
	s.order = append(s.order, fmt.Sprintf("%s/%d", thread, s.h.heads[thread]))
}

func (s *script) step() {
	thread := rapid.SampledFrom([]string{"a", "b"}).Draw(s.rt, "thread")
	item := rapid.SampledFrom([]string{"i", "j"}).Draw(s.rt, "item")
	key := thread + "/" + item
	text, open := s.open[key]
	switch {
	case s.h.heads[thread] == 0 || rapid.IntRange(0, 4).Draw(s.rt, "note") == 0:
		s.add(thread, note("x"))
	case !open:
		s.add(thread, event("opens", item, ""))
		s.open[key] = ""
	case rapid.IntRange(0, 3).Draw(s.rt, "close") == 0 && utf8.ValidString(text):
		s.add(thread, event("closes", item, text+rapid.SampledFrom([]string{"", "…end"}).Draw(s.rt, "rest")))
		delete(s.open, key)
	default:
		more := s.piece(text)
		s.h.extend(thread, item, more)
		s.open[key] = text + more
	}
}

// piece is the next piece of a text, cut anywhere, also inside a rune.
func (s *script) piece(text string) string {
	const whole = "a你😀é"
	at := len(text) % len(whole)
	return whole[at : at+rapid.IntRange(1, len(whole)-at).Draw(s.rt, "bytes")]
}

// Wherever a client stops and resumes, it gets every event once and in order,
// and every text adds up. S3, S10.
func TestResumingAnywhereLosesAndRepeatsNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := mem.New()
		h := &hub{events.NewHub(j, textOf), t, j, map[string]int64{}}
		defer h.Close()
		s := &script{h: h, rt: rt, open: map[string]string{}}
		s.add("a", note("x"))
		clients := []*client{{thread: "a"}, {thread: ""}}
		for range rapid.IntRange(1, 8).Draw(rt, "connections") {
			for range rapid.IntRange(0, 10).Draw(rt, "meanwhile") {
				s.step()
			}
			c := rapid.SampledFrom(clients).Draw(rt, "client")
			s.connect(c, rapid.IntRange(0, 20).Draw(rt, "messages"))
		}
		for _, c := range clients {
			s.connect(c, -1)
			var want []string
			for _, id := range s.order {
				if c.thread == "" || strings.HasPrefix(id, c.thread+"/") {
					want = append(want, id)
				}
			}
			if got := strings.Join(c.seen, " "); got != strings.Join(want, " ") {
				rt.Fatalf("client of %q saw %s, want %s", c.thread, got, strings.Join(want, " "))
			}
			for key, text := range c.texts {
				if want := s.open[key]; !strings.HasPrefix(want, text) || len(want)-len(text) > 3 {
					rt.Fatalf("open text of %s is %q, want %q", key, text, want)
				}
			}
		}
	})
}

// connect follows for n messages, doing things in between; with n < 0 until
// it is live.
func (s *script) connect(c *client, n int) {
	c.connect()
	if n == 0 {
		return
	}
	for m, err := range s.h.Follow(context.Background(), events.FollowQuery{Thread: c.thread, After: c.cursor}) {
		if err == nil {
			err = c.take(m)
		}
		if err != nil {
			s.rt.Fatal(err)
		}
		if n--; n == 0 || n < 0 && c.live > 0 {
			return
		}
		if n > 0 {
			for range rapid.IntRange(0, 3).Draw(s.rt, "steps") {
				s.step()
			}
			if c.live > 0 {
				s.add("a", note("so that something comes")) // both clients see it
			}
		}
	}
}

// S2: a client that does not read costs the producer nothing and gets one
// delta, not 20,000.
func TestSlowFollowerGetsOneDelta(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", event("opens", "i", ""))
		next, stop := iter.Pull2(h.Follow(t.Context(), events.FollowQuery{Thread: "a"}))
		defer stop()
		if _, _, ok := next(); !ok { // the opening; now it does not read
			t.Fatal("the opening is missing")
		}
		var want strings.Builder
		for i := range 20_000 {
			s := fmt.Sprint(i, " ")
			want.WriteString(s)
			h.extend("a", "i", s)
		}
		if m, _, _ := next(); m.Kind != events.KindDelta || m.Delta.Text != want.String() {
			t.Fatalf("got kind %d with %d bytes, want %d", m.Kind, len(m.Delta.Text), want.Len())
		}
		if m, _, _ := next(); m.Kind != events.KindLive {
			t.Fatalf("got %s", brief(m))
		}
		h.extend("a", "i", "then ")
		h.extend("a", "i", "more")
		if m, _, _ := next(); brief(m) != fmt.Sprintf("a/1 i[%d]+then more", want.Len()) {
			t.Fatalf("got %s", brief(m))
		}
	})
}

// P161: what happens between a snapshot and the subscription to it is neither
// lost nor told twice.
func TestNothingFallsBetweenSnapshotAndSubscription(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", note("1"))
		const n = 300
		var wg sync.WaitGroup
		var written atomic.Int64
		wg.Go(func() {
			for range n {
				h.add("a", note("x"))
				written.Add(1)
			}
		})
		for written.Load() < n {
			asOf, err := h.Head(t.Context(), "a") // the snapshot is of here
			if err != nil {
				t.Fatal(err)
			}
			next := asOf.N + 1
			h.until(events.FollowQuery{Thread: "a", After: &asOf}, func(k int, m events.Message) bool {
				if m.Kind == events.KindEvent {
					if m.Event.Seq != next {
						t.Errorf("seq %d after a snapshot at %d, want %d", m.Event.Seq, asOf.N, next)
					}
					next++
				}
				return k < 20 && next <= n
			})
		}
		wg.Wait()
	})
}

// A follower goes live although there is always more.
func TestLiveComesOnceUnderConstantAppends(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		h.add("a", note("1"), note("2"))
		lives := 0
		h.until(events.FollowQuery{Thread: "a"}, func(n int, m events.Message) bool {
			if m.Kind == events.KindLive {
				if lives++; m.Cursor.N > 3 {
					t.Errorf("live at %d, the backlog ended at 2", m.Cursor.N)
				}
			}
			h.add("a", note("more"))
			return n < 600
		})
		if lives != 1 {
			t.Fatalf("live %d times", lives)
		}
	})
}

func TestHeartbeatsFillSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, mem.New())
		h.add("a", note("1"))
		start := time.Now()
		var at []string
		h.until(events.FollowQuery{Thread: "a", Heartbeat: 15 * time.Second}, func(n int, m events.Message) bool {
			at = append(at, fmt.Sprintf("%v %s", time.Since(start), brief(m)))
			if n == 3 {
				time.Sleep(4 * time.Second)
				h.add("a", note("2"))
			}
			return n < 6
		})
		same(t, "messages", at, "0s a/1 note 1", "0s live", "15s heartbeat", "19s a/2 note 2", "34s heartbeat", "49s heartbeat")
	})
}

func TestEndOfContextEndsTheSequenceSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, mem.New())
		h.add("a", note("1"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() {
			for _, err := range h.Follow(ctx, events.FollowQuery{Thread: "a"}) {
				if err != nil {
					t.Error(err)
				}
			}
			ended = true
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !ended {
			t.Fatal("still following")
		}
	})
}

func TestCloseEndsFollowersAndRefusesWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, mem.New())
		h.add("a", event("opens", "i", ""))
		h.extend("a", "i", "not stored yet")
		ends := make(chan error, 2)
		for _, thread := range []string{"a", ""} {
			go func() {
				for _, err := range h.Follow(t.Context(), events.FollowQuery{Thread: thread}) {
					if err != nil {
						ends <- err
					}
				}
			}()
			synctest.Wait()
		}
		if err := errors.Join(h.Close(), h.Close()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 2 {
			if err := <-ends; !errors.Is(err, events.ErrClosed) {
				t.Fatalf("a follower ended with %v", err)
			}
		}
		if _, err := h.Append(t.Context(), events.Append{Thread: "a", Expect: 1, Events: []events.Event{note("x")}}); !errors.Is(err, events.ErrClosed) {
			t.Error(err)
		}
		if _, err := h.Extend("a", "i", "x"); !errors.Is(err, events.ErrClosed) {
			t.Error(err)
		}
		open, err := h.j.Open(t.Context(), "a")
		if err != nil || len(open) != 1 || open[0].Text != "not stored yet" {
			t.Fatalf("open texts %v, %v", open, err)
		}
	})
}

// A counting journal notes how many bytes of events one read returned at most.
type counting struct {
	*mem.Journal
	most atomic.Int64
}

func (c *counting) Read(ctx context.Context, thread string, after int64, limit int) ([]events.Event, error) {
	evs, err := c.Journal.Read(ctx, thread, after, limit)
	var n int64
	for _, e := range evs {
		n += int64(len(e.Data))
	}
	c.most.Store(max(c.most.Load(), n))
	return evs, err
}

// A follower that does not read holds one page, and pages of large events are
// short.
func TestPagesOfLargeEventsAreShort(t *testing.T) {
	j := &counting{Journal: mem.New()}
	h := newHub(t, j)
	for range 300 {
		h.add("a", note(strings.Repeat("x", 60<<10)))
	}
	n := len(h.until(events.FollowQuery{Thread: "a"}, toLive))
	if n != 301 || j.most.Load() > 2<<20 {
		t.Fatalf("%d messages, %d bytes on a page", n, j.most.Load())
	}
}

// The size of a page is a guess from the events before it. Where it is wrong, a
// follower that does not read holds no more for that.
func TestLargeEventsAfterSmallOnesAreHeldOneByOne(t *testing.T) {
	const followers, small, large, size = 8, 300, 40, 512 << 10
	h := newHub(t, openSQLite(t))
	for range small {
		h.add("a", note("x"))
	}
	for range large {
		h.add("a", note(strings.Repeat("x", size)))
	}
	for _, thread := range []string{"a", ""} {
		before := heap()
		var next []func() (events.Message, error, bool)
		for range followers {
			pull, stop := iter.Pull2(h.Follow(t.Context(), events.FollowQuery{Thread: thread}))
			defer stop()
			for range small + 1 { // to the first large one
				if m, err, ok := pull(); err != nil || !ok || m.Kind != events.KindEvent {
					t.Fatalf("got %v, %v, %v", m.Kind, err, ok)
				}
			}
			next = append(next, pull)
		}
		if held := heap() - before; held > followers*(3<<20) {
			t.Errorf("followers of %q hold %d bytes each", thread, held/followers)
		}
		for i, pull := range next { // and they get the others
			for n := range large - 1 {
				if m, err, ok := pull(); err != nil || !ok || m.Cursor.N != int64(small+n+2) {
					t.Fatalf("follower %d got %v, %v, %v", i, m.Cursor, err, ok)
				}
			}
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
