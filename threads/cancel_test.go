package threads_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// request starts a compaction and does not wait for it.
func (b *bench) ask(p threads.CompactParams) transcript.CompactionID {
	b.t.Helper()
	ack, err := b.svc.StartCompaction(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return ack.Record.CompactionID
}

func (b *bench) cancel(id transcript.ThreadID, c transcript.CompactionID) compaction.Record {
	b.t.Helper()
	ack, err := b.svc.CancelCompaction(b.t.Context(), id, c)
	if err != nil {
		b.t.Fatal(err)
	}
	return ack.Record
}

// stubborn is a hook that does not stop when it is told to.
type stubborn struct {
	entered chan struct{}
	release chan struct{}
}

func (s stubborn) PreCompact(context.Context, threads.HookEvent) (string, []string, error) {
	close(s.entered)
	<-s.release
	return "", nil, nil
}
func (stubborn) PostCompact(context.Context, threads.HookEvent) []string { return nil }

func TestACancelledCompactionEndsAtOnceAlsoIfItsWriterHangs(t *testing.T) {
	b := newBench(t)
	b.puppet.unfit = nil
	id := b.laden()
	was := mustJSON(t, b.entries(id))
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Writer: compaction.WriterModel})
	b.request() // of the writer; nobody answers it
	began := time.Now()
	rec := b.cancel(id, cid)
	if *rec.Outcome != compaction.Cancelled || rec.CompletedAt == nil || time.Since(began) > time.Second {
		t.Errorf("after %s the record is %s", time.Since(began), mustJSON(t, rec))
	}
	if mustJSON(t, b.entries(id)) != was {
		t.Error("a cancelled compaction changed the context")
	}
	if lines := b.log(id); !strings.Contains(lines, "turn/completed interrupted") || strings.Contains(lines, "error") {
		t.Errorf("events:\n%s", lines)
	}
	b.turn(id, "it goes on", "yes")
}

func TestACancelledCompactionWaitsForNobody(t *testing.T) {
	hook := stubborn{make(chan struct{}), make(chan struct{})}
	b := newBench(t, func(c *threads.Config) { c.Hooks = hook })
	id := b.laden()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Writer: compaction.WriterExtractive})
	<-hook.entered
	if rec := b.cancel(id, cid); *rec.Outcome != compaction.Cancelled {
		t.Errorf("the compaction ended %s", *rec.Outcome)
	}
	close(hook.release)
	b.turn(id, "it goes on", "yes")
	if n := strings.Count(b.log(id), "thread/compaction/updated terminal"); n != 1 {
		t.Errorf("the compaction ended %d times", n)
	}
}

func TestACompactionIsCancelledBeforeItBegins(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	turn := b.start(id, "work")
	req := b.request()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	if rec := b.cancel(id, cid); *rec.Outcome != compaction.Cancelled || rec.StartedAt != nil {
		t.Errorf("the record is %s", mustJSON(t, rec))
	}
	req.answer(t, "done")
	b.await(id, ended(turn.Turn.ID))
	if strings.Contains(b.log(id), "turn/started compact") {
		t.Error("it began all the same")
	}
	next := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Writer: compaction.WriterExtractive, Wait: true})
	if next == cid {
		t.Error("the cancelled one is returned as the running one")
	}
}

func TestOnlyWhatRunsCanBeCancelled(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	rec := b.shrink(id, threads.CompactParams{})
	n := len(b.payloads(id))
	for cid, want := range map[transcript.CompactionID]fault.Code{rec.CompactionID: fault.Conflict, "nothing": fault.NotFound} {
		if _, err := b.svc.CancelCompaction(t.Context(), id, cid); fault.CodeOf(err) != want {
			t.Errorf("%s: %v", cid, err)
		}
	}
	if len(b.payloads(id)) != n {
		t.Error("it was journaled")
	}
}

// A ship's own compaction takes as long as the test wants.
type ownCompacter struct {
	adapters.Session
	begun  chan struct{}
	hangs  bool // it does not stop when it is told to
	sunken chan struct{}
}

func (ownCompacter) Compaction() adapters.Ability {
	return adapters.Ability{Native: &adapters.Native{Form: "ship"}}
}

func (n ownCompacter) Compact(ctx context.Context, _ adapters.CompactInput, _ adapters.Host) (adapters.NativeResult, error) {
	n.begun <- struct{}{}
	if n.hangs {
		<-n.sunken
	}
	<-ctx.Done()
	return adapters.NativeResult{}, context.Cause(ctx)
}

func TestANativeCompactionIsCancelledWhenItsSessionLetsGo(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		n := ownCompacter{begun: make(chan struct{}), hangs: hangs, sunken: make(chan struct{})}
		b := newBench(t, func(c *threads.Config) {
			inner := c.Providers[0].Adapter
			c.Providers[0].Adapter = wrapped{inner, func(s adapters.Session) adapters.Session { n.Session = s; return n }}
			c.StopAfter = 50 * time.Millisecond
		})
		id := b.create()
		b.turn(id, "hello", "hi")
		cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteNative})
		<-n.begun
		if rec := b.cancel(id, cid); *rec.Outcome != compaction.Cancelled || *rec.Route != compaction.RouteNative {
			t.Errorf("hangs %v: the record is %s", hangs, mustJSON(t, rec))
		}
		b.turn(id, "it goes on", "yes")
		close(n.sunken)
	}
}

func TestATurnGoesOnWhenItsCompactionIsCancelled(t *testing.T) {
	b := newBench(t)
	b.puppet.unfit = nil
	id := b.laden()
	turn := b.start(id, "work")
	req := b.request()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Writer: compaction.WriterModel})
	req.callsTool(t, "nothing", `{}`)
	if w := b.request(); !w.Writer {
		t.Fatal("the compaction did not begin at the step boundary")
	}
	if rec := b.cancel(id, cid); *rec.Outcome != compaction.Cancelled || rec.TurnID != turn.Turn.ID {
		t.Errorf("the record is %s", mustJSON(t, rec))
	}
	next := b.request()
	if next.Writer || len(next.Entries) != len(req.Entries)+2 {
		t.Errorf("the next request has %d entries, the one before had %d", len(next.Entries), len(req.Entries))
	}
	next.answer(t, "done")
	b.await(id, ended(turn.Turn.ID))
}
