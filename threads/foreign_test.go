package threads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// staged is a turn in steps: each of them is done when the test says so.
type staged struct {
	steps chan func(ctx context.Context, h adapters.Host) (end *adapters.End, err error)
	done  chan error
}

func newStaged(e *engine) *staged {
	s := &staged{make(chan func(context.Context, adapters.Host) (*adapters.End, error)), make(chan error)}
	e.run = func(ctx context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		for {
			select {
			case step := <-s.steps:
				end, err := step(ctx, h)
				if end != nil || err != nil {
					if end == nil {
						end = &adapters.End{}
					}
					return *end, err
				}
			case <-ctx.Done():
				return adapters.End{}, ctx.Err()
			}
		}
	}
	return s
}

// emit has the session report something, and returns when that is durable.
func (s *staged) emit(t *testing.T, updates ...adapters.Update) {
	t.Helper()
	s.steps <- func(ctx context.Context, h adapters.Host) (*adapters.End, error) {
		s.done <- h.Emit(ctx, updates...)
		return nil, nil
	}
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

func (s *staged) end(end adapters.End, err error) {
	s.steps <- func(context.Context, adapters.Host) (*adapters.End, error) { return &end, err }
}

func counts(tokens int) adapters.Update {
	return adapters.UsageReported{Usage: adapters.Usage{InputTokens: tokens - 10, OutputTokens: 10}}
}

func message(id, text string) adapters.Update {
	return adapters.ItemCompleted{Item: transcript.Item{ID: transcript.ItemID(id), Body: transcript.AgentMessage{Text: text}}}
}

func TestAProvidersOwnCompactionIsRecorded(t *testing.T) {
	e := newEngine()
	turn := newStaged(e)
	b := driving(t, e)
	id := b.create()
	ack := b.start(id, "a long task")
	turn.emit(t, counts(90_000))
	n := len(b.payloads(id))
	turn.emit(t, adapters.CompactionBegan{})
	turn.emit(t, adapters.Warned{Message: "compacting"})
	turn.emit(t, adapters.CompactionEnded{Result: adapters.NativeResult{
		Form: "auto", Disclosed: transcript.RawJSON(`{"pre":90000}`), After: 12_000, Usage: &adapters.Usage{InputTokens: 90_100, OutputTokens: 1_500}, Warnings: []string{"images went"},
	}})
	turn.end(adapters.End{Updates: []adapters.Update{message("m1", "done"), counts(13_000)}}, nil)
	b.await(id, ended(ack.Turn.ID))
	want := []string{
		"item/started contextCompaction", "thread/compaction/updated requested", "thread/compaction/updated hooking", "thread/compaction/updated running",
		"warning", "thread/compaction/updated committing", "thread/compaction/updated terminal completed", "thread/tokenUsage/updated",
		`item/completed contextCompaction ""`, `item/completed agentMessage "done"`, "thread/tokenUsage/updated", "thread/status/changed idle", "turn/completed completed",
	}
	if diff := cmp.Diff(want, strings.Split(b.log(id), "\n")[n:]); diff != "" {
		t.Error(diff)
	}
	recs := b.records(id)
	if len(recs) != 1 {
		t.Fatalf("records %s", mustJSON(t, recs))
	}
	r := recs[0]
	if r.Trigger != compaction.TriggerProvider || *r.Route != compaction.RouteNative || r.TurnID != ack.Turn.ID || r.Native.Form != "auto" || string(*r.Native.Disclosed) != `{"pre":90000}` ||
		r.Before.Tokens != 90_000 || r.After.Tokens != 12_000 || r.Checkpoint != nil || r.Writer != nil || r.StartedAt == nil || r.Usage.InputTokens != 90_100 || !slices.Equal(r.Warnings, []string{"images went"}) {
		t.Errorf("record %s", mustJSON(t, r))
	}
	us := b.usages(id)
	if at := us[len(us)-2]; at.Context != 12_000 || at.Source != "provider" || at.Total.InputTokens != 89_990+90_100 {
		t.Errorf("after it the usage is %s", mustJSON(t, at))
	}
	if last := us[len(us)-1]; last.Context != 13_000 || last.Total.InputTokens != 89_990+90_100+12_990 {
		t.Errorf("at the end the usage is %s", mustJSON(t, last))
	}
	if again := b.compact(threads.CompactParams{Thread: id}); again.CompactionID == r.CompactionID || again.Trigger != compaction.TriggerManual {
		t.Errorf("a later compaction is %s", mustJSON(t, again))
	}
}

// All that a provider tells in one report counts, in order.
func TestAProvidersOwnCompactionMayBeToldInOneReport(t *testing.T) {
	e := newEngine()
	e.run = func(_ context.Context, _ adapters.TurnInput, _ adapters.Host) (adapters.End, error) {
		return adapters.End{Updates: []adapters.Update{
			counts(88_000), adapters.CompactionBegan{}, adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto"}}, message("m1", "done"), counts(20_000),
		}}, nil
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	r := b.records(id)[0]
	if *r.Outcome != compaction.Completed || r.Before.Tokens != 88_000 || r.After != nil {
		t.Errorf("record %s", mustJSON(t, r))
	}
	if got := b.read(id).Occupancy; got.Context != 20_000 {
		t.Errorf("occupancy %+v", got)
	}
	b.settle(id)
	if recs := b.records(id); len(recs) != 1 {
		t.Errorf("the relieved thread is compacted again: %s", outcomes(recs))
	}
}

// What a client asked for waits for the end of the turn, whatever the provider does
// meanwhile; no end of the provider's own is its end.
func TestARequestedCompactionIsNotEndedByTheProvidersOwn(t *testing.T) {
	e := newEngine()
	turn := newStaged(e)
	b := driving(t, e)
	id := b.create()
	ack := b.start(id, "a long task")
	turn.emit(t, counts(50_000))
	asked, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || asked.Record.Phase != compaction.PhaseRequested {
		t.Fatalf("%v, %s", err, mustJSON(t, asked.Record))
	}
	for range 2 {
		turn.emit(t, adapters.CompactionBegan{})
		again, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
		if err != nil || again.Record.CompactionID != asked.Record.CompactionID || again.Record.Phase != compaction.PhaseRequested {
			t.Errorf("%v, %s", err, mustJSON(t, again.Record))
		}
		turn.emit(t, adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto", After: 9_000}})
	}
	if n := len(e.asked); n != 0 {
		t.Fatalf("%d compactions were asked for in the middle of a turn", n)
	}
	turn.end(adapters.End{}, nil)
	b.await(id, ended(ack.Turn.ID))
	b.settle(id)
	recs := b.records(id)
	if len(recs) != 3 || recs[0].CompactionID != asked.Record.CompactionID || *recs[0].Outcome != compaction.Completed || recs[0].Native.Form != "engine" || recs[0].TurnID == ack.Turn.ID {
		t.Errorf("records %s", mustJSON(t, recs))
	}
	if len(e.asked) != 1 || e.asked[0].ID != asked.Record.CompactionID {
		t.Errorf("asked %+v", e.asked)
	}
}

// I6: who asks while the provider compacts by itself gets that one, and its end.
func TestAskingDuringTheProvidersOwnCompactionReturnsIt(t *testing.T) {
	e := newEngine()
	turn := newStaged(e)
	b := driving(t, e)
	id := b.create()
	ack := b.start(id, "a long task")
	turn.emit(t, adapters.CompactionBegan{})
	own := b.records(id)[0]
	p := threads.CompactParams{Thread: id, IdempotencyKey: "k"}
	got, err := b.svc.StartCompaction(t.Context(), p)
	if err != nil || got.Record.CompactionID != own.CompactionID || got.Record.Phase != compaction.PhaseRunning {
		t.Fatalf("%v, %s", err, mustJSON(t, got.Record))
	}
	if _, err := b.svc.CancelCompaction(t.Context(), id, own.CompactionID); fault.CodeOf(err) != fault.Refused {
		t.Errorf("cancelling it: %v", err)
	}
	turn.emit(t, adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto"}})
	turn.end(adapters.End{}, nil)
	b.await(id, ended(ack.Turn.ID))
	b.settle(id)
	p.Wait = true
	if again, err := b.svc.StartCompaction(t.Context(), p); err != nil || again.Record.CompactionID != own.CompactionID {
		t.Errorf("the key answers %v, %s", err, mustJSON(t, again.Record))
	}
}

// Whatever ends the turn ends the provider's own compaction too, once, and claims
// nothing that nobody saw.
func TestTheEndOfATurnEndsTheProvidersOwnCompaction(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(b *bench, s *staged, id transcript.ThreadID, ack threads.TurnAck)
		want compaction.Outcome
		turn transcript.TurnStatus
	}{
		"completed": {func(_ *bench, s *staged, _ transcript.ThreadID, _ threads.TurnAck) { s.end(adapters.End{}, nil) }, compaction.Uncertain, transcript.TurnCompleted},
		"failed": {func(_ *bench, s *staged, _ transcript.ThreadID, _ threads.TurnAck) {
			s.end(adapters.End{}, &adapters.Error{Class: adapters.ClassCut, Message: "the child died"})
		}, compaction.Uncertain, transcript.TurnFailed},
		"interrupted": {func(b *bench, _ *staged, id transcript.ThreadID, ack threads.TurnAck) {
			if err := b.svc.InterruptTurn(b.t.Context(), id, ack.Turn.ID); err != nil {
				b.t.Fatal(err)
			}
		}, compaction.Interrupted, transcript.TurnInterrupted},
		"closed": {func(b *bench, _ *staged, _ transcript.ThreadID, _ threads.TurnAck) { b.restart() }, compaction.Interrupted, transcript.TurnInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			turn := newStaged(e)
			b := driving(t, e)
			id := b.create()
			ack := b.start(id, "a long task")
			turn.emit(t, adapters.CompactionBegan{})
			c.end(b, turn, id, ack)
			b.await(id, ended(ack.Turn.ID))
			recs := b.records(id)
			if len(recs) != 1 || *recs[0].Outcome != c.want || recs[0].Reason == nil {
				t.Errorf("records %s", mustJSON(t, recs))
			}
			read, err := b.svc.ReadTurn(t.Context(), id, ack.Turn.ID)
			if err != nil || read.Turn.Status != c.turn {
				t.Errorf("turn %+v, %v", read.Turn, err)
			}
		})
	}
}

func TestAFailureOfTheProvidersOwnCompactionIsNoneOfOurs(t *testing.T) {
	e := newEngine()
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		return adapters.End{Updates: []adapters.Update{
			adapters.CompactionBegan{},
			adapters.CompactionEnded{Err: &adapters.Error{Class: adapters.ClassServer, Message: "the summary failed"}},
			message(string(h.NewItemID()), "done"), counts(20_000),
		}}, nil
	}
	b := driving(t, e)
	id := b.create()
	for range 4 {
		b.said(id, "hello")
	}
	warnings := 0
	for _, p := range b.payloads(id) {
		switch p := p.(type) {
		case threads.WarningRaised:
			warnings++
		case threads.CompactionUpdated:
			if p.Gate != nil || p.Reanchor != "" {
				t.Errorf("it changes %s", mustJSON(t, p))
			}
		}
	}
	if got := outcomes(b.records(id)); got != strings.TrimSuffix(strings.Repeat("provider failed(internalServerError), ", 4), ", ") {
		t.Errorf("records %s", got)
	}
	if warnings != 1 {
		t.Errorf("%d warnings of the same failure, want the first", warnings)
	}
}

// A completion whose beginning nobody reported is one all the same; a failure without
// a beginning is nothing to tell of.
func TestAnEndWithoutABeginning(t *testing.T) {
	e := newEngine()
	var ends []adapters.Update
	e.run = func(context.Context, adapters.TurnInput, adapters.Host) (adapters.End, error) {
		return adapters.End{Updates: ends}, nil
	}
	b := driving(t, e)
	id := b.create()
	ends = []adapters.Update{adapters.CompactionEnded{Err: errScripted}}
	b.said(id, "hello")
	if recs := b.records(id); len(recs) != 0 {
		t.Errorf("records %s", mustJSON(t, recs))
	}
	ends = []adapters.Update{adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto"}}}
	b.said(id, "hello")
	if recs := b.records(id); len(recs) != 1 || *recs[0].Outcome != compaction.Completed {
		t.Errorf("records %s", mustJSON(t, recs))
	}
}

// asked are hooks that a test answers for.
type asked struct {
	pre  func(threads.HookEvent) (string, []string, error)
	post chan threads.HookEvent
}

func (a asked) PreCompact(_ context.Context, e threads.HookEvent) (string, []string, error) {
	return a.pre(e)
}

func (a asked) PostCompact(_ context.Context, e threads.HookEvent) []string {
	a.post <- e
	return nil
}

func TestHooksAreAskedAboutTheProvidersOwnCompaction(t *testing.T) {
	for name, c := range map[string]struct {
		denies error
		goes   bool // the provider compacts afterwards
		want   string
	}{
		"allowed":                {nil, true, "provider completed"},
		"allowed, not made":      {nil, false, "provider interrupted"},
		"denied":                 {fault.New(fault.Denied, "not now"), false, "provider denied"},
		"the hook breaks":        {errors.New("boom"), false, "provider failed"},
		"denied and made anyway": {fault.New(fault.Denied, "not now"), true, "provider denied, provider completed"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			hooks := asked{post: make(chan threads.HookEvent, 4)}
			var told threads.HookEvent
			hooks.pre = func(ev threads.HookEvent) (string, []string, error) {
				told = ev
				return "keep the names", []string{"slow"}, c.denies
			}
			e.run = func(ctx context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
				wish, err := h.MayCompact(ctx)
				if (err == nil) != (c.denies == nil) || fault.CodeOf(err) == fault.Denied != (fault.CodeOf(c.denies) == fault.Denied) || err == nil && wish != "keep the names" {
					t.Errorf("MayCompact: %q, %v", wish, err)
				}
				if !c.goes {
					return says(h, "done", 20_000), nil
				}
				end := says(h, "done", 20_000)
				end.Updates = append([]adapters.Update{adapters.CompactionBegan{}, adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto"}}}, end.Updates...)
				return end, nil
			}
			b := driving(t, e, func(cfg *threads.Config) { cfg.Hooks = hooks })
			id := b.create()
			b.said(id, "hello")
			if told.Record.Trigger != compaction.TriggerProvider || told.Record.Phase != compaction.PhaseHooking || told.Record.CompactionID == "" || told.Thread != id {
				t.Errorf("the hooks are told of %s", mustJSON(t, told))
			}
			recs := b.records(id)
			var got []string
			for _, r := range recs {
				got = append(got, fmt.Sprint(r.Trigger, " ", *r.Outcome))
			}
			if s := strings.Join(got, ", "); s != c.want || !slices.Contains(recs[0].Warnings, "slow") {
				t.Errorf("records %s", mustJSON(t, recs))
			}
			if c.goes {
				if ev := <-hooks.post; *ev.Record.Outcome != compaction.Completed || ev.Record.Trigger != compaction.TriggerProvider {
					t.Errorf("the post hooks are told of %s", mustJSON(t, ev))
				}
			}
		})
	}
}

// Once per change of the provider's history the next turn restates how things stand,
// unless the adapter has told it.
func TestANativeCompactionIsReanchoredOnce(t *testing.T) {
	for name, told := range map[string]bool{"by the server": false, "by the adapter": true} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			e.compact = func(ctx context.Context, _ adapters.CompactInput, h adapters.Host) (adapters.NativeResult, error) {
				text, err := h.Reanchor(ctx)
				if err != nil || !strings.Contains(text, "state after compaction") {
					t.Errorf("Reanchor: %q, %v", text, err)
				}
				return adapters.NativeResult{Form: "engine", Reanchored: told}, nil
			}
			b := driving(t, e)
			id := b.create()
			b.said(id, "hello")
			b.compact(threads.CompactParams{Thread: id})
			b.restart()
			b.said(id, "first")
			b.said(id, "second")
			notes := 0
			for _, p := range b.payloads(id) {
				if it, ok := p.(threads.ItemCompleted); ok && it.Reanchor {
					notes++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[told]; notes != want {
				t.Errorf("%d notices, want %d", notes, want)
			}
		})
	}
}
