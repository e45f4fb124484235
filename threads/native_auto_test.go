package threads_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// reporting is an engine whose turns report a number of tokens.
func reporting(tokens *int) *engine {
	e := newEngine()
	e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		return says(h, "done", *tokens), nil
	}
	return e
}

// A runtime compacts by itself after a turn that left it over the line, and before an
// input that would cross it, which waits meanwhile. Its reports are all that is known.
func TestARuntimeIsCompactedByThePolicy(t *testing.T) {
	tokens := 40_000
	e := reporting(&tokens)
	b := driving(t, e)
	id := b.create()
	steps := []struct {
		tokens int // that the turn reports
		input  string
		want   string // all compactions so far
	}{
		{84_000, "near the line", ""},
		{20_000, big("input", 4_000), "preTurn completed"},
		{90_000, "over it", "preTurn completed, postTurn completed"},
		{22_000, "relieved", "preTurn completed, postTurn completed"},
		{86_000, "again", "preTurn completed, postTurn completed, postTurn completed"},
	}
	for _, s := range steps {
		tokens = s.tokens
		b.said(id, s.input)
		b.settle(id)
		if got := outcomes(b.records(id)); got != s.want {
			t.Errorf("after a turn that reports %d the compactions are %s, want %s", s.tokens, got, s.want)
		}
	}
	for _, r := range b.records(id) {
		if *r.Route != compaction.RouteNative || r.Before == nil || r.Before.Source != "provider" || r.Checkpoint != nil {
			t.Errorf("record %s", mustJSON(t, r))
		}
	}
	log := b.log(id)
	queued, compacted, turn := strings.Index(log, "thread/queue/changed 1"), strings.Index(log, "terminal completed"), strings.Index(log, "input line 0")
	if queued < 0 || queued > compacted || compacted > turn {
		t.Errorf("the input did not wait for the compaction:\n%s", log)
	}
}

// After a restart the first input is judged before the session is open.
func TestARuntimeIsCompactedBeforeTheFirstInputAfterARestart(t *testing.T) {
	tokens := 80_000
	e := reporting(&tokens)
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	b.compact(threads.CompactParams{Thread: id})
	b.said(id, "hello")
	b.restart()
	tokens = 30_000
	b.said(id, big("input", 8_000))
	if got := outcomes(b.records(id)); got != "manual completed, preTurn completed" {
		t.Errorf("compactions %s", got)
	}
}

// Figures that do not shrink are no reason to compact again, whatever the provider says
// about its compaction.
func TestARuntimeWhoseFiguresNeverShrinkIsLeftAlone(t *testing.T) {
	for name, after := range map[string]int{"tells no size": 0, "tells a small size": 5_000, "tells a large size": 89_000} {
		t.Run(name, func(t *testing.T) {
			tokens := 90_000
			e := reporting(&tokens)
			e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
				return adapters.NativeResult{Form: "engine", After: after}, nil
			}
			b := driving(t, e)
			id := b.create()
			for i := range 12 {
				b.said(id, "go on")
				b.settle(id)
				if i == 6 {
					b.restart()
				}
			}
			if got := outcomes(b.records(id)); got != "postTurn completed" {
				t.Errorf("compactions %s", got)
			}
			tokens = 97_000 // grown by more than 5 %
			b.said(id, "go on")
			b.settle(id)
			if got := outcomes(b.records(id)); got != "postTurn completed, postTurn completed" {
				t.Errorf("after it has grown the compactions are %s", got)
			}
		})
	}
}

// An input that alone is over the line is no loop either: it is compacted for once.
func TestAnInputOverTheLineIsCompactedForOnce(t *testing.T) {
	t.Parallel()
	tokens := 50_000
	e := reporting(&tokens)
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	for range 3 {
		b.said(id, big("input", 90_000))
		b.settle(id)
	}
	if got := outcomes(b.records(id)); strings.Count(got, "preTurn") > 3 {
		t.Errorf("compactions %s", got)
	}
}

func TestNativeFailuresOpenTheBreaker(t *testing.T) {
	tokens := 90_000
	e := reporting(&tokens)
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		return adapters.NativeResult{}, adapters.ErrUncertain
	}
	b := driving(t, e)
	id := b.create()
	for i := range 20 {
		if tokens = 90_000; i%2 == 1 {
			tokens = 30_000 // arms the gate again
		}
		b.said(id, "go on")
		b.settle(id)
	}
	if got := outcomes(b.records(id)); strings.Count(got, "uncertain") != 3 {
		t.Errorf("compactions %s, want three", got)
	}
}

// I10 over random runtimes: between two turns each trigger fires at most once, and none
// does after a turn if the last compaction gained nothing, before the provider's figures
// have grown by 5 %, or shrunk. Every input becomes a turn, everything ends once.
func TestI10RuntimesDoNotLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var figure, own int
		e := newEngine()
		e.window = 10_000
		e.run = func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
			end := says(h, "done", figure)
			if own == 1 {
				end.Updates = append([]adapters.Update{adapters.CompactionBegan{}, adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto", After: r.IntN(2) * 800}}}, end.Updates...)
			}
			return end, nil
		}
		e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
			switch r.IntN(6) {
			case 0:
				return adapters.NativeResult{}, adapters.ErrNothingToCompact
			case 1:
				return adapters.NativeResult{}, adapters.ErrUncertain
			case 2:
				return adapters.NativeResult{}, &adapters.Error{Class: adapters.ClassServer, Message: "down"}
			case 3:
				return adapters.NativeResult{Form: "engine", After: r.IntN(10_000)}, nil
			}
			return adapters.NativeResult{Form: "engine"}, nil
		}
		b := driving(t, e)
		defer func() { b.close(); b.open() }()
		id := b.create()
		turns := rapid.IntRange(2, 12).Draw(rt, "turns")
		figures := []int{3_000, 7_000, 8_000, 8_450, 8_600, 8_800, 9_000, 9_100, 9_700, 12_000}
		exact := rapid.Bool().Draw(rt, "exact")
		if !exact {
			figures = append(figures, 0, 0)
		}
		for i := range turns {
			figure = rapid.SampledFrom(figures).Draw(rt, "figure")
			own = rapid.IntRange(0, 4).Draw(rt, "own")
			b.said(id, fmt.Sprint("turn ", i, " ", big("x", rapid.SampledFrom([]int{1, 2_000, 9_000}).Draw(rt, "input"))))
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				b.restart()
			}
			b.settle(id)
		}
		loopsNever(rt, b, id, exact)
		endsOnce(t, b, id)
		if got := len(e.told()); got != turns {
			rt.Fatalf("%d turns of %d inputs", got, turns)
		}
	})
}

// loopsNever reads the journal and fails on what I10 forbids.
//
// Exact: every turn reported, so that nothing was estimated.
func loopsNever(rt *rapid.T, b *bench, id transcript.ThreadID, exact bool) {
	const minGain, growth, rearm = 1_000, 500, 7_000
	fired := map[compaction.Trigger]int{} // since the last turn began
	last, from := 0, 0                    // tokens that were reported, and those before the last compaction
	gained, at := true, 0                 // what came of it, and the tokens when that was known
	for _, p := range b.payloads(id) {
		switch p := p.(type) {
		case threads.UsageUpdated:
			if p.Model == "" || p.Last.InputTokens == 0 {
				continue
			}
			if last = p.Context; from > 0 {
				gained, at, from = from-last >= minGain, last, 0
			}
			if last < rearm || last >= at+growth {
				gained = true
			}
		case threads.CompactionUpdated:
			rec := p.Record
			if rec.Phase == compaction.PhaseRequested && rec.Trigger.Automatic() && rec.Trigger != compaction.TriggerProvider {
				if fired[rec.Trigger]++; fired[rec.Trigger] > 1 {
					rt.Fatalf("a trigger fires twice between two turns: %s", outcomes(b.records(id)))
				}
				if exact && !gained && rec.Trigger == compaction.TriggerPostTurn {
					rt.Fatalf("a compaction starts although the last one gained nothing: %s", outcomes(b.records(id)))
				}
			}
			switch {
			case !rec.Replaced():
			case rec.Trigger == compaction.TriggerPreTurn: // the input counted too
				from, gained = 0, true
			default:
				from = last
				if rec.Before != nil {
					from = rec.Before.Tokens
				}
			}
		case threads.TurnStarted:
			if p.Turn.Kind == transcript.TurnUser {
				clear(fired)
			}
		default:
		}
	}
}
