package threads_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// letGo is closed when a compaction is not waited for any more.
type letGo struct {
	slog.Handler
	seen chan struct{}
}

func newLetGo() letGo { return letGo{slog.DiscardHandler, make(chan struct{}, 8)} }

func (letGo) Enabled(context.Context, slog.Level) bool { return true }

func (l letGo) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "a compaction does not stop") {
		l.seen <- struct{}{}
	}
	return nil
}

type stubbornOnce struct {
	n       *int
	entered chan struct{}
	release chan struct{}
}

func (s stubbornOnce) PreCompact(ctx context.Context, _ threads.HookEvent) (string, []string, error) {
	if *s.n++; *s.n > 1 {
		return "", nil, nil
	}
	close(s.entered)
	<-s.release
	return "", nil, nil
}
func (stubbornOnce) PostCompact(context.Context, threads.HookEvent) []string { return nil }

// A turn whose compaction was cancelled goes on, also if its hook does not obey.
func TestATurnOutlivesACancelledCompactionThatHangs(t *testing.T) {
	gone := newLetGo()
	hook := stubborn{make(chan struct{}), make(chan struct{})}
	b := newBench(t, never, func(c *threads.Config) { c.Hooks, c.StopAfter, c.Logger = hook, 10*time.Millisecond, slog.New(gone) })
	t.Cleanup(func() { close(hook.release) })
	id := b.laden()
	turn := b.start(id, "work")
	req := b.request()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	req.callsTool(t, "nothing", `{}`)
	<-hook.entered
	b.cancel(id, cid)
	next := b.request()
	<-gone.seen
	select {
	case next.chunks <- adapters.MessageText{Text: "done"}:
		next.send(t, adapters.UsageChunk{Usage: next.usage("done")}, adapters.Done{Stop: adapters.StopEnd})
	case <-time.After(patience):
		t.Error("the request of the turn was cancelled")
	}
	done := b.await(id, ended(turn.Turn.ID)).(threads.TurnCompleted).Turn
	if done.Status != transcript.TurnCompleted {
		t.Errorf("the turn ended %s %+v\n%s", done.Status, done.Error, b.log(id))
	}
}

// The same where the thread was idle: the next turn is begun while the hook hangs.
func TestANewTurnOutlivesACancelledCompactionThatHangs(t *testing.T) {
	gone := newLetGo()
	hook := stubborn{make(chan struct{}), make(chan struct{})}
	b := newBench(t, never, func(c *threads.Config) { c.Hooks, c.StopAfter, c.Logger = hook, 10*time.Millisecond, slog.New(gone) })
	t.Cleanup(func() { close(hook.release) })
	id := b.laden()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	<-hook.entered
	b.cancel(id, cid)
	turn := b.start(id, "work")
	next := b.request()
	<-gone.seen
	select {
	case next.chunks <- adapters.MessageText{Text: "done"}:
		next.send(t, adapters.UsageChunk{Usage: next.usage("done")}, adapters.Done{Stop: adapters.StopEnd})
	case <-time.After(patience):
		t.Error("the request of the new turn was cancelled")
	}
	if done := b.await(id, ended(turn.Turn.ID)).(threads.TurnCompleted).Turn; done.Status != transcript.TurnCompleted {
		t.Errorf("the turn ended %s", done.Status)
	}
}

// A service closes in bounded time, whatever hangs (StopAfter).
func TestASecondCompactionDoesNotHideAHangingOne(t *testing.T) {
	gone := newLetGo()
	hook := stubbornOnce{new(int), make(chan struct{}), make(chan struct{})}
	b := newBench(t, never, func(c *threads.Config) { c.Hooks, c.StopAfter, c.Logger = hook, 10*time.Millisecond, slog.New(gone) })
	id := b.laden()
	turn := b.start(id, "work")
	req := b.request()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	req.callsTool(t, "nothing", `{}`)
	<-hook.entered
	b.cancel(id, cid)
	next := b.request()
	b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	next.callsTool(t, "nothing", `{}`)
	last := b.request() // the second one ran
	last.answer(t, "done")
	b.await(id, ended(turn.Turn.ID))
	<-gone.seen
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.svc.Stop(ctx); err != nil {
		t.Errorf("the service has not stopped: %v", err)
	}
	close(hook.release)
}
