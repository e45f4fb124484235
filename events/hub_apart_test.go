package events_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
)

// A held journal stops calls, each where a test said, until they are let go.
type held struct {
	events.Journal
	mu    sync.Mutex
	stops map[place]*stop
}

// A place is a call on a thread, or on all of them.
type place struct{ call, thread string }

// The calls that can be stopped; an append with nothing of it done, or with
// all of it in the journal and not yet said.
const (
	before  = "append, before its commit"
	after   = "append, after its commit"
	info    = "info"
	infoOf  = "info, before its answer"
	read    = "read"
	readAll = "read all"
	allRead = "read all, before its answer"
)

// A stop stops the first call at its place.
type stop struct {
	reached, free chan struct{}
	once          sync.Once
}

func (s *stop) release() { s.once.Do(func() { close(s.free) }) }

func (j *held) stop(t *testing.T, call, thread string) *stop {
	s := &stop{reached: make(chan struct{}), free: make(chan struct{})}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stops[place{call, thread}] = s
	t.Cleanup(s.release) // before the hub is closed, which waits for appends
	return s
}

func (j *held) pass(call, thread string) {
	j.mu.Lock()
	s := j.stops[place{call, thread}]
	delete(j.stops, place{call, thread})
	j.mu.Unlock()
	if s != nil {
		close(s.reached)
		<-s.free
	}
}

func (j *held) Append(ctx context.Context, a events.Append) (int64, error) {
	j.pass(before, a.Thread)
	head, err := j.Journal.Append(ctx, a)
	j.pass(after, a.Thread)
	return head, err
}

func (j *held) Info(ctx context.Context, thread string) (events.ThreadInfo, error) {
	j.pass(info, thread)
	got, err := j.Journal.Info(ctx, thread)
	j.pass(infoOf, thread)
	return got, err
}

func (j *held) Read(ctx context.Context, thread string, after int64, limit int) ([]events.Event, error) {
	j.pass(read, thread)
	return j.Journal.Read(ctx, thread, after, limit)
}

func (j *held) ReadAll(ctx context.Context, after int64, limit int) ([]events.Event, int64, error) {
	j.pass(readAll, "")
	evs, head, err := j.Journal.ReadAll(ctx, after, limit)
	j.pass(allRead, "")
	return evs, head, err
}

func newHeld(t *testing.T, inner events.Journal) (*hub, *held) {
	j := &held{Journal: inner, stops: map[place]*stop{}}
	return newHub(t, j), j
}

func bothHeld(t *testing.T, test func(t *testing.T, h *hub, j *held)) {
	for name, open := range map[string]func(*testing.T) events.Journal{
		"mem":    func(*testing.T) events.Journal { return mem.New() },
		"sqlite": openSQLite,
	} {
		t.Run(name, func(t *testing.T) {
			h, j := newHeld(t, open(t))
			test(t, h, j)
		})
	}
}

// patience is how long something may take that must not wait for anything.
const patience = 90 * time.Second

func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	receive(t, what, done)
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s waits for another", what)
		panic("unreachable")
	}
}

// start begins an append that the test will stop, and returns what ends when
// it has returned.
func (h *hub) start(thread string, evs ...events.Event) <-chan error {
	done := make(chan error, 1)
	a := events.Append{Thread: thread, Expect: h.heads[thread], Events: evs}
	h.heads[thread] += int64(len(evs))
	go func() {
		_, err := h.Append(context.Background(), a)
		done <- err
	}()
	return done
}

func (h *hub) finish(done <-chan error) {
	h.t.Helper()
	if err := receive(h.t, "an append that was let go", done); err != nil {
		h.t.Fatal(err)
	}
}

// listen follows in the background until the test ends or closes the hub.
func (h *hub) listen(q events.FollowQuery) <-chan string {
	out := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	h.t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		for m, err := range h.Follow(ctx, q) {
			if errors.Is(err, events.ErrClosed) {
				return
			}
			if err != nil {
				h.t.Error(err)
				return
			}
			out <- brief(m)
		}
	})
	return out
}

func (h *hub) expect(from <-chan string, want ...string) {
	h.t.Helper()
	var got []string
	for range want {
		got = append(got, receive(h.t, "a follower, for "+want[len(got)]+",", from))
	}
	same(h.t, "messages", got, want...)
}

// at is the cursor of what the journal has, published or not.
func (h *hub) at(thread string) *events.Cursor {
	h.t.Helper()
	c, err := h.Head(context.Background(), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	return &c
}

// Whatever a follower asks of the journal, and however long it takes, appends
// to its thread and to others go on, and so does who follows them. It misses
// nothing of that.
func TestFollowingDelaysNobody(t *testing.T) {
	for _, c := range []struct {
		name, thread, call, of string
		want                   []string
	}{
		{"when it asks where a thread is", "a", info, "a", []string{"a/1 note 1", "a/2 opens i", "a/3 note 2", "a/2 i[0]+text", "live"}},
		{"when it reads a thread", "a", read, "a", []string{"a/1 note 1", "a/2 opens i", "a/3 note 2", "a/2 i[0]+text", "live"}},
		{
			"when it asks where all threads are", "", readAll, "",
			[]string{"a/1 note 1", "a/2 opens i", "b/1 note 1", "a/3 note 2", "b/2 note 2", "c/1 note 1", "a/2 i[0]+text", "live"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothHeld(t, func(t *testing.T, h *hub, j *held) {
				h.add("a", note("1"), event("opens", "i", ""))
				h.add("b", note("1"))
				stop := j.stop(t, c.call, c.of)
				got := h.listen(events.FollowQuery{Thread: c.thread})
				receive(t, "the follower", stop.reached)
				soon(t, "an append to the thread", func() { h.add("a", note("2")) })
				soon(t, "an append to another", func() { h.add("b", note("2")) })
				soon(t, "an append to a new one", func() { h.add("c", note("1")) })
				soon(t, "a text", func() { h.extend("a", "i", "text") })
				for _, thread := range []string{"a", "b", ""} {
					soon(t, "following "+thread, func() { h.until(events.FollowQuery{Thread: thread}, toLive) })
				}
				stop.release()
				h.expect(got, c.want...)
				h.add("a", note("3"))
				h.expect(got, "a/4 note 3")
			})
		})
	}
}

// What is published while a follower asks where it begins is not missed, whether
// the journal's answer has it or not.
func TestNothingIsMissedWhileFollowingBegins(t *testing.T) {
	for _, c := range []place{{info, "a"}, {infoOf, "a"}, {readAll, ""}, {allRead, ""}} {
		t.Run(c.call, func(t *testing.T) {
			bothHeld(t, func(t *testing.T, h *hub, j *held) {
				h.add("a", note("1"))
				at := h.at(c.thread)
				stop := j.stop(t, c.call, c.thread)
				got := h.listen(events.FollowQuery{Thread: c.thread, After: at})
				receive(t, "the follower", stop.reached)
				h.add("a", event("opens", "i", ""))
				h.extend("a", "i", "text")
				stop.release()
				h.expect(got, "a/2 opens i", "a/2 i[0]+text", "live")
			})
		})
	}
}

// However long an append takes, threads beside it go on: who appends to them,
// who follows them, and who begins to follow, be it all threads or the one of
// the append. Once it is through, all get it, once.
func TestLongAppendDelaysNobodyElse(t *testing.T) {
	for where, seen := range map[string][]string{before: nil, after: {"a/2 note import"}} {
		t.Run(where, func(t *testing.T) {
			bothHeld(t, func(t *testing.T, h *hub, j *held) {
				h.add("a", note("1"))
				h.add("b", event("opens", "i", ""))
				all, own, other := h.listen(events.FollowQuery{}), h.listen(events.FollowQuery{Thread: "a"}), h.listen(events.FollowQuery{Thread: "b"})
				h.expect(all, "a/1 note 1", "b/1 opens i", "live")
				h.expect(own, "a/1 note 1", "live")
				h.expect(other, "b/1 opens i", "live")
				stop := j.stop(t, where, "a")
				long := h.start("a", note("import"))
				receive(t, "the append", stop.reached)
				soon(t, "an append to another", func() { h.add("b", note("2")) })
				h.expect(other, "b/2 note 2")
				h.expect(all, append(seen, "b/2 note 2")...) // in the order of their commits
				soon(t, "a text", func() { h.extend("b", "i", "text") })
				h.expect(other, "b/1 i[0]+text")
				h.expect(all, "b/1 i[0]+text")
				soon(t, "an append to a new one", func() { h.add("c", note("1")) })
				h.expect(all, "c/1 note 1")
				for _, thread := range []string{"a", "b", "c", ""} {
					soon(t, "following "+thread, func() {
						h.until(events.FollowQuery{Thread: thread}, toLive)
						h.until(events.FollowQuery{Thread: thread, After: h.at(thread)}, toLive)
					})
				}
				stop.release()
				h.finish(long)
				h.expect(own, "a/2 note import")
				if seen == nil {
					h.expect(all, "a/2 note import")
				}
				h.add("a", note("end"))
				h.expect(own, "a/3 note end")
				h.expect(all, "a/3 note end")
			})
		})
	}
}

// Who begins to follow at a cursor that the hub has not published yet goes live
// without waiting, and is told of the item that opened there once it has, with
// all of its text.
func TestSubscribingBetweenCommitAndPublication(t *testing.T) {
	for _, thread := range []string{"a", ""} {
		bothHeld(t, func(t *testing.T, h *hub, j *held) {
			h.add("a", note("1"))
			h.add("b", event("opens", "k", ""))
			stop := j.stop(t, after, "a")
			opening := h.start("a", event("opens", "i", ""), event("opens", "j", ""), event("closes", "j", ""))
			receive(t, "the append", stop.reached)
			at := h.at(thread)
			first := h.listen(events.FollowQuery{Thread: thread, After: at})
			if thread == "" {
				h.expect(first, "repeat b/1 opens k")
			}
			h.expect(first, "live")
			stop.release()
			h.finish(opening)
			h.expect(first, "repeat a/2 opens i")
			h.extend("a", "i", "te")
			h.expect(first, "a/2 i[0]+te")
			second := h.listen(events.FollowQuery{Thread: thread, After: at})
			if thread == "" {
				h.expect(second, "repeat b/1 opens k")
			}
			h.expect(second, "repeat a/2 opens i", "a/2 i[0]+te", "live")
			h.add("a", event("closes", "i", "text"), event("opens", "i", ""))
			for _, f := range []<-chan string{first, second} {
				h.expect(f, "a/2 i[2]+xt", "a/5 closes itext", "a/6 opens i")
			}
			h.extend("a", "i", "new")
			for _, f := range []<-chan string{first, second} {
				h.expect(f, "a/6 i[0]+new")
			}
		})
	}
}

// A text is never told after its end: not even to who began between the commit
// of its opening and its publication, and then reads its end from the journal
// before that is published either.
func TestRepeatComesBeforeTheEndOfItsItem(t *testing.T) {
	bothHeld(t, func(t *testing.T, h *hub, j *held) {
		h.add("b", note("1"))
		stop := j.stop(t, after, "a")
		opening := h.start("a", event("opens", "i", ""))
		receive(t, "the append", stop.reached)
		got := h.listen(events.FollowQuery{After: h.at("")})
		h.expect(got, "live")
		reading := j.stop(t, readAll, "")
		large := strings.Repeat("x", 200<<10) // not kept in memory
		h.add("b", note(large))
		receive(t, "the follower", reading.reached)
		stop.release()
		h.finish(opening)
		h.extend("a", "i", "text")
		stop = j.stop(t, after, "a")
		closing := h.start("a", event("closes", "i", "text!"))
		receive(t, "the append", stop.reached)
		reading.release()
		h.expect(got, "repeat a/1 opens i", "b/2 note "+large, "a/1 i[0]+text!", "a/2 closes itext!")
		stop.release()
		h.finish(closing)
		h.add("a", note("end"))
		h.expect(got, "a/3 note end")
	})
}

// What was appended before a text grew comes before the text, also to who
// learns late that it may have the text.
func TestLateRepeatKeepsTextBehindEvents(t *testing.T) {
	bothHeld(t, func(t *testing.T, h *hub, j *held) {
		h.add("a", note("1"))
		stop := j.stop(t, after, "a")
		opening := h.start("a", event("opens", "i", ""))
		receive(t, "the append", stop.reached)
		var next func() (events.Message, error, bool)
		next, end := iter.Pull2(h.Follow(t.Context(), events.FollowQuery{Thread: "a", After: h.at("a")}))
		defer end()
		want := func(s string) {
			t.Helper()
			if m, err, _ := next(); err != nil || brief(m) != s {
				t.Fatalf("got %s, %v, want %s", brief(m), err, s)
			}
		}
		want("live")
		stop.release()
		h.finish(opening)
		h.add("a", note("2"))
		h.extend("a", "i", "text")
		want("repeat a/2 opens i")
		want("a/3 note 2")
		want("a/2 i[0]+text")
	})
}

// While a commit that ends a text takes its time, the texts of other threads
// are stored.
func TestLongEndOfATextDelaysNoOtherText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, j := newHeld(t, mem.New())
		h.add("a", event("opens", "i", ""), event("opens", "j", ""))
		h.add("b", event("opens", "i", ""))
		stop := j.stop(t, before, "a")
		h.extend("a", "i", "text")
		h.extend("a", "j", "goes on")
		closing := h.start("a", event("closes", "i", "text!"))
		<-stop.reached
		for _, text := range []string{"one ", "two ", "three"} {
			h.extend("b", "i", text)
			time.Sleep(2 * events.FlushInterval)
		}
		if got := h.stored("b"); got != "i=one two three" {
			t.Fatalf("stored %q", got)
		}
		stop.release()
		h.finish(closing)
		time.Sleep(2 * events.FlushInterval)
		if got := h.stored("a"); got != "j=goes on" {
			t.Fatalf("stored %q", got)
		}
	})
}

// An append may stop waiting for the one before it; then it changed nothing.
func TestAppendThatStopsWaitingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, j := newHeld(t, mem.New())
		h.add("a", note("1"))
		stop := j.stop(t, before, "a")
		long := h.start("a", note("2"))
		<-stop.reached
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() {
			_, err := h.Append(ctx, events.Append{Thread: "a", Expect: 2, Events: []events.Event{note("given up")}})
			given <- err
		}()
		next := h.start("a", note("3"))
		synctest.Wait()
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		stop.release()
		h.finish(long)
		h.finish(next)
		same(t, "messages", h.until(events.FollowQuery{Thread: "a"}, toLive), "a/1 note 1", "a/2 note 2", "a/3 note 3", "live")
	})
}

func TestCloseWaitsForAppendsThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, j := newHeld(t, mem.New())
		h.add("a", event("opens", "i", ""))
		h.extend("a", "i", "text")
		stop := j.stop(t, before, "a")
		long := h.start("a", event("closes", "i", ""))
		<-stop.reached
		closed := make(chan error, 1)
		go func() { closed <- h.Close() }()
		synctest.Wait()
		if len(closed) > 0 {
			t.Fatal("closed while an append runs")
		}
		if _, err := h.Append(t.Context(), events.Append{Thread: "b", Events: []events.Event{note("x")}}); !errors.Is(err, events.ErrClosed) {
			t.Fatal(err)
		}
		stop.release()
		h.finish(long)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if at, text := h.at("a"), h.stored("a"); at.N != 2 || text != "" {
			t.Fatalf("closed at %d with %q stored", at.N, text)
		}
	})
}
