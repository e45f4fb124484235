package threads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// An engine is a runtime whose program the test plays: what a turn, a compaction and a
// recovery do is a function, and what its sessions were told is kept over restarts.
type engine struct {
	window  int
	run     func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error)
	compact func(ctx context.Context, in adapters.CompactInput, h adapters.Host) (adapters.NativeResult, error)
	recover func(ctx context.Context, c adapters.Unfinished) (adapters.NativeResult, error)
	opens   func(p adapters.OpenParams) error
	names   func(p adapters.OpenParams) string // of native sessions; nil: one for all
	close   func() error

	mu     sync.Mutex // guards what follows
	opened []adapters.OpenParams
	inputs []adapters.TurnInput
	asked  []adapters.CompactInput
}

func (e *engine) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: "e1", ContextWindow: e.window, WindowSource: "builtin"}}, nil
}

func (e *engine) Probe(context.Context) adapters.Probe { return adapters.Probe{} }

func (e *engine) Open(_ context.Context, p adapters.OpenParams) (adapters.Session, error) {
	e.mu.Lock()
	e.opened = append(e.opened, p)
	e.mu.Unlock()
	if e.opens != nil {
		if err := e.opens(p); err != nil {
			return nil, err
		}
	}
	s := &engineSession{e: e, id: "native-" + string(p.Thread)}
	if e.names != nil {
		s.id = e.names(p)
	}
	if e.recover != nil {
		return recoveringSession{s}, nil
	}
	return s, nil
}

// told returns the inputs of the turns so far.
func (e *engine) told() []adapters.TurnInput {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]adapters.TurnInput{}, e.inputs...)
}

type engineSession struct {
	e  *engine
	id string
}

func (s *engineSession) NativeID() string    { return s.id }
func (s *engineSession) Base() adapters.Base { return adapters.Base{} }
func (s *engineSession) Steer(context.Context, []transcript.Part) error {
	return adapters.ErrNotSteerable
}
func (s *engineSession) Interrupt(context.Context) error { return nil }
func (s *engineSession) Compaction() adapters.Ability {
	return adapters.Ability{Native: &adapters.Native{Form: "engine"}}
}

func (s *engineSession) Close() error {
	if s.e.close != nil {
		return s.e.close()
	}
	return nil
}

func (s *engineSession) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	s.e.mu.Lock()
	s.e.inputs = append(s.e.inputs, in)
	s.e.mu.Unlock()
	return s.e.run(ctx, in, h)
}

func (s *engineSession) Compact(ctx context.Context, in adapters.CompactInput, h adapters.Host) (adapters.NativeResult, error) {
	s.e.mu.Lock()
	s.e.asked = append(s.e.asked, in)
	s.e.mu.Unlock()
	return s.e.compact(ctx, in, h)
}

type recoveringSession struct{ *engineSession }

func (s recoveringSession) Recover(ctx context.Context, c adapters.Unfinished) (adapters.NativeResult, error) {
	return s.e.recover(ctx, c)
}

// says is a turn that answers, and reports tokens for its context.
func says(h adapters.Host, text string, tokens int) adapters.End {
	end := adapters.End{Updates: []adapters.Update{
		adapters.ItemCompleted{Item: transcript.Item{ID: h.NewItemID(), Body: transcript.AgentMessage{Text: text}}},
	}}
	if tokens > 0 {
		end.Updates = append(end.Updates, adapters.UsageReported{Usage: adapters.Usage{InputTokens: tokens - 10, OutputTokens: 10}})
	}
	return end
}

func newEngine() *engine {
	e := &engine{window: 100_000}
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		return says(h, "done", 40_000), nil
	}
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		return adapters.NativeResult{Form: "engine"}, nil
	}
	return e
}

// driving returns a bench whose provider is a runtime.
func driving(t *testing.T, e *engine, change ...func(*threads.Config)) *bench {
	t.Helper()
	return newBench(t, append([]func(*threads.Config){func(c *threads.Config) {
		c.Providers = []threads.Provider{{Name: "engine", Kind: "engine", Adapter: e}}
	}}, change...)...)
}

// said plays one turn.
func (b *bench) said(id transcript.ThreadID, text string) transcript.TurnID {
	b.t.Helper()
	ack := b.start(id, text)
	b.await(id, ended(ack.Turn.ID))
	return ack.Turn.ID
}

func text(p *string) string {
	if p == nil {
		return "null"
	}
	return *p
}

func TestErrorsOfANativeCompactionAreItsOutcomes(t *testing.T) {
	native, either := compaction.RouteNative, compaction.Route("")
	for name, c := range map[string]struct {
		err    error
		route  compaction.Route
		want   string // outcome and code
		turn   transcript.TurnStatus
		reason string
	}{
		"nothing to compact": {fmt.Errorf("%w: not enough messages", adapters.ErrNothingToCompact), native, "unchanged nothingToCompact", transcript.TurnCompleted, "not enough messages"},
		"a hook of its own":  {fault.New(fault.Denied, "not on Fridays"), native, "denied denied", transcript.TurnFailed, "not on Fridays"},
		"refused after all": {
			&adapters.RefusedError{Refusal: adapters.Refusal{Code: "switchedOff", Reason: "compaction is switched off", Remedy: "switch it on"}},
			native, "refused switchedOff", transcript.TurnFailed, "compaction is switched off",
		},
		"uncertain": {fmt.Errorf("the child died: %w", adapters.ErrUncertain), native, "uncertain nativeUncertain", transcript.TurnFailed, "the child died"},
		"uncertain, joined": {
			errors.Join(adapters.ErrUncertain, errors.New("the child died"), errors.Join(adapters.ErrUncertain, errors.New("its file is gone"))),
			native, "uncertain nativeUncertain", transcript.TurnFailed, "compacted; the child died; its file is gone",
		},
		"lossy":               {fmt.Errorf("%w: the summary is empty", adapters.ErrLossy), native, "failed nativeInvalid", transcript.TurnFailed, "the summary is empty"},
		"did not happen":      {adapters.ErrNotCompacted, native, "failed notCompacted", transcript.TurnFailed, "history is as it was"},
		"the model is down":   {&adapters.Error{Class: adapters.ClassOverloaded, Message: "try later"}, native, "failed serverOverloaded", transcript.TurnFailed, "try later"},
		"the model overflows": {&adapters.Error{Class: adapters.ClassOverflow, Message: "too long"}, either, "failed contextWindowExceeded", transcript.TurnFailed, "too long"},
		"uncertain, no route": {adapters.ErrUncertain, either, "uncertain nativeUncertain", transcript.TurnFailed, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
				return adapters.NativeResult{Usage: &adapters.Usage{InputTokens: 70, OutputTokens: 7}}, c.err
			}
			b := driving(t, e)
			id := b.create()
			b.said(id, "hello")
			rec := b.compact(threads.CompactParams{Thread: id, Route: c.route})
			if got := string(*rec.Outcome) + " " + text(rec.Code); got != c.want || !strings.Contains(text(rec.Reason), c.reason) || rec.Remedy == nil {
				t.Errorf("record %s", mustJSON(t, rec))
			}
			if rec.Usage == nil || rec.Usage.InputTokens != 70 || rec.Usage.OutputTokens != 7 {
				t.Errorf("what the failure cost is not in the record: %+v", rec.Usage)
			}
			if strings.Contains(text(rec.Reason), "adapters:") {
				t.Errorf("the reason shows a name of ours: %s", *rec.Reason)
			}
			turn, err := b.svc.ReadTurn(t.Context(), id, rec.TurnID)
			if err != nil || turn.Turn.Status != c.turn {
				t.Errorf("the turn is %s, %v", turn.Turn.Status, err)
			}
			b.said(id, "the thread goes on")
		})
	}
}

// Usage of a compaction is spent and counts in the totals; it says nothing about how
// full the context is.
func TestWhatANativeCompactionCostsIsInTheTotals(t *testing.T) {
	e := newEngine()
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		return adapters.NativeResult{Form: "engine", Usage: &adapters.Usage{InputTokens: 39_000, OutputTokens: 900}, After: 6_000, Warnings: []string{"one image was left out"}}, nil
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	rec := b.compact(threads.CompactParams{Thread: id})
	want := &compaction.Usage{InputTokens: 39_000, OutputTokens: 900}
	if diff := cmp.Diff(want, rec.Usage); diff != "" || *rec.Outcome != compaction.Completed {
		t.Errorf("record %s", mustJSON(t, rec))
	}
	if diff := cmp.Diff([]string{"one image was left out"}, rec.Warnings); diff != "" {
		t.Error(diff)
	}
	us := b.usages(id)
	last := us[len(us)-1]
	if last.Total.InputTokens != 39_990+39_000 || last.Total.OutputTokens != 10+900 || last.Context != 6_000 || last.Source != "provider" {
		t.Errorf("usage %s", mustJSON(t, last))
	}
}

// Sizes are what the provider told, also where it tells of growth; what it did not
// tell stays unknown, and no older number stands for it.
func TestSizesOfANativeCompactionAreTheProvidersOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		told          adapters.NativeResult
		before, after int
		occupancy     threads.Occupancy
	}{
		"nothing":  {adapters.NativeResult{}, 40_000, 0, threads.Occupancy{Window: 100_000, Source: "unknown"}},
		"after":    {adapters.NativeResult{After: 9_000}, 40_000, 9_000, threads.Occupancy{Context: 9_000, Window: 100_000, Source: "provider"}},
		"both":     {adapters.NativeResult{Before: 41_234, After: 9_000}, 41_234, 9_000, threads.Occupancy{Context: 9_000, Window: 100_000, Source: "provider"}},
		"it grew":  {adapters.NativeResult{After: 45_000}, 40_000, 45_000, threads.Occupancy{Context: 45_000, Window: 100_000, Source: "provider"}},
		"a window": {adapters.NativeResult{After: 9_000, Window: 64_000}, 40_000, 9_000, threads.Occupancy{Context: 9_000, Window: 64_000, Source: "provider"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
				tc.told.Form = "engine"
				return tc.told, nil
			}
			b := driving(t, e)
			id := b.create()
			b.said(id, "hello")
			rec := b.compact(threads.CompactParams{Thread: id})
			if rec.Before == nil || rec.Before.Tokens != tc.before || rec.Before.Source != "provider" {
				t.Errorf("before is %s", mustJSON(t, rec.Before))
			}
			if tc.after == 0 && rec.After != nil || tc.after > 0 && (rec.After == nil || rec.After.Tokens != tc.after || rec.After.Source != "provider") {
				t.Errorf("after is %s", mustJSON(t, rec.After))
			}
			if tc.told.Window > 0 && (*rec.After.Window != tc.told.Window || *rec.After.WindowSource != "provider") {
				t.Errorf("the window is %s", mustJSON(t, rec.After))
			}
			for range 2 {
				got := b.read(id).Occupancy
				got.Base = 0
				if diff := cmp.Diff(tc.occupancy, got); diff != "" {
					t.Error(diff)
				}
				b.restart()
			}
			c, err := b.svc.ReadContext(t.Context(), id, nil)
			if err != nil || len(c.Entries) != 2 || transcript.Text(c.Entries[0].Item.Body) != "hello" {
				t.Errorf("what was said before is not readable any more: %v, %d entries", err, len(c.Entries))
			}
			b.said(id, "and on")
			if got := b.read(id).Occupancy; got.Context != 40_000 || got.Source != "provider" {
				t.Errorf("after the next report the occupancy is %+v", got)
			}
		})
	}
}

// A provider that has not counted yet has no size before either.
func TestANativeCompactionBeforeAnyReportHasNoSize(t *testing.T) {
	e := newEngine()
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		return says(h, "done", 0), nil
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	if rec := b.compact(threads.CompactParams{Thread: id}); rec.Before != nil || rec.After != nil || *rec.Outcome != compaction.Completed {
		t.Errorf("record %s", mustJSON(t, rec))
	}
}

// A window that a provider reports counts for its model, in every thread, larger or
// smaller, until it reports another one: it is no guess that wears off.
func TestAReportedWindowCounts(t *testing.T) {
	e := newEngine()
	window := 95_000
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end := says(h, "done", 0)
		end.Updates = append(end.Updates, adapters.UsageReported{Usage: adapters.Usage{InputTokens: 1_000}, Window: window})
		return end, nil
	}
	b := driving(t, e)
	id := b.create()
	for _, w := range []int{95_000, 95_000, 272_000, 60_000} {
		window = w
		b.said(id, "hello")
		us := b.usages(id)
		if last := us[len(us)-1]; last.Window != w {
			t.Errorf("a report with the window %d says %s", w, mustJSON(t, last))
		}
		if got := b.read(b.create()).Occupancy.Window; got != w {
			t.Errorf("another thread has the window %d, want %d", got, w)
		}
	}
	taught := 0
	for _, u := range b.usages(id) {
		if u.Learned != nil {
			taught++
			if u.Learned.Source != "provider" {
				t.Errorf("learned %+v", u.Learned)
			}
		}
	}
	if taught != 3 {
		t.Errorf("%d reports were news, want 3", taught)
	}
	b.restart()
	if got := b.read(id).Occupancy.Window; got != 60_000 {
		t.Errorf("after a restart the window is %d", got)
	}
}

// What a user bounds by configuration stays bounded.
func TestASmallerConfiguredWindowStays(t *testing.T) {
	e := newEngine()
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		return adapters.End{Updates: []adapters.Update{adapters.UsageReported{Usage: adapters.Usage{InputTokens: 1_000}, Window: 200_000}}}, nil
	}
	b := driving(t, e, func(c *threads.Config) { c.Providers[0].Adapter = configured{e} })
	id := b.create()
	b.said(id, "hello")
	if got := b.read(id).Occupancy.Window; got != 100_000 {
		t.Errorf("the window is %d", got)
	}
}

type configured struct{ *engine }

func (c configured) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	ms, err := c.engine.Models(ctx)
	ms[0].WindowSource = "config"
	return ms, err
}

// What a provider reports while it compacts belongs to the compaction's turn, in
// order, before its end.
func TestUpdatesOfANativeCompactionComeBeforeItsEnd(t *testing.T) {
	e := newEngine()
	e.compact = func(ctx context.Context, _ adapters.CompactInput, h adapters.Host) (adapters.NativeResult, error) {
		it := transcript.Item{ID: h.NewItemID(), Body: transcript.AgentMessage{}}
		for _, u := range []adapters.Update{
			adapters.Warned{Message: "this takes a while"},
			adapters.ItemStarted{Item: it},
			adapters.TextDelta{Item: it.ID, Text: "sum"},
			adapters.ItemCompleted{Item: transcript.Item{ID: it.ID, Body: transcript.AgentMessage{Text: "summing up"}}},
		} {
			if err := h.Emit(ctx, u); err != nil {
				return adapters.NativeResult{}, err
			}
		}
		return adapters.NativeResult{Form: "engine"}, nil
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	n := len(b.payloads(id))
	rec := b.compact(threads.CompactParams{Thread: id})
	want := []string{
		"thread/status/changed active", "turn/started compact", "item/started contextCompaction",
		"thread/compaction/updated requested", "thread/compaction/updated hooking", "thread/compaction/updated running",
		"warning", "item/started agentMessage", `item/completed agentMessage "summing up"`,
		"thread/compaction/updated committing", "thread/compaction/updated terminal completed", "thread/tokenUsage/updated",
		`item/completed contextCompaction ""`, "thread/status/changed idle", "turn/completed completed",
	}
	if diff := cmp.Diff(want, strings.Split(b.log(id), "\n")[n:]); diff != "" {
		t.Error(diff)
	}
	for _, p := range b.payloads(id)[n:] {
		if it, ok := p.(threads.ItemCompleted); ok && it.Item.Turn != rec.TurnID {
			t.Errorf("item %s is of turn %s", it.Item.ID, it.Item.Turn)
		}
	}
}

// A compaction that the provider completed is completed, although somebody wanted it
// to end at that moment.
func TestACompletionThatRacesAnInterruptIsACompletion(t *testing.T) {
	e := newEngine()
	reached := make(chan struct{})
	e.compact = func(ctx context.Context, _ adapters.CompactInput, _ adapters.Host) (adapters.NativeResult, error) {
		close(reached)
		<-ctx.Done()
		return adapters.NativeResult{Form: "engine"}, nil
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	ack, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Record.TurnID); err != nil {
		t.Fatal(err)
	}
	b.await(id, ended(ack.Record.TurnID))
	if rec := b.records(id)[0]; *rec.Outcome != compaction.Completed {
		t.Errorf("record %s", mustJSON(t, rec))
	}
}

// A session that compacts may ask what the context is; it gets it, and nothing compacts
// inside of a compaction.
func TestASessionThatCompactsNeverWaitsForItself(t *testing.T) {
	e := newEngine()
	e.compact = func(ctx context.Context, _ adapters.CompactInput, h adapters.Host) (adapters.NativeResult, error) {
		c, err := h.Context(ctx)
		if err != nil || len(c.Entries) != 2 {
			t.Errorf("the context has %d entries, %v", len(c.Entries), err)
		}
		if _, err := h.Overflowed(ctx, adapters.Overflow{Requested: 9, Limit: 8}); !errors.Is(err, adapters.ErrOverflow) {
			t.Errorf("an overflow in it: %v", err)
		}
		if n, err := h.Lighten(ctx, adapters.Heavy{Bytes: 9, Excess: 8}); n != 0 || err != nil {
			t.Errorf("lightened by %d, %v", n, err)
		}
		return adapters.NativeResult{Form: "engine"}, nil
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	if rec := b.compact(threads.CompactParams{Thread: id}); *rec.Outcome != compaction.Completed || len(b.records(id)) != 1 {
		t.Errorf("record %s", mustJSON(t, rec))
	}
}

// Whoever has read that a window was reported finds it to count, however long the thread
// that heard of it takes to go on.
func TestAReportedWindowCountsOnceItCanBeRead(t *testing.T) {
	e := newEngine()
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end := says(h, "done", 0)
		end.Updates = append(end.Updates, adapters.UsageReported{Usage: adapters.Usage{InputTokens: 1_000}, Window: 95_000})
		return end, nil
	}
	b := driving(t, e)
	id := b.create()
	_, release := holdAt(t, "commit/after/item/completed")
	defer release()
	ack := b.start(id, "hello")
	b.await(id, ended(ack.Turn.ID))
	if got := b.read(b.create()).Occupancy.Window; got != 95_000 {
		t.Errorf("another thread has the window %d", got)
	}
}
