package compaction

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Where no route was asked for, a native compaction that turns out not to be possible, or
// that lost the history, is a link that is skipped; where it was asked for it is the end.
// What else may come of one is its end either way.
func TestTheChainGoesOnAfterANativeCompactionThatIsNone(t *testing.T) {
	refused := &NativeError{Outcome: Refused, Code: "switchedOff", Reason: "it is off", Remedy: "switch it on"}
	lossy := &NativeError{Outcome: Failed, Code: "nativeInvalid", Reason: "nothing is left", Remedy: "use route local", Lossy: true}
	for name, c := range map[string]struct {
		err     *NativeError
		route   Route
		trigger Trigger
		want    Outcome
		goesOn  bool
	}{
		"refused":                     {refused, "", "", Completed, true},
		"refused, native asked":       {refused, RouteNative, "", Refused, false},
		"lossy":                       {lossy, "", "", Completed, true},
		"lossy, native asked":         {lossy, RouteNative, "", Failed, false},
		"failed":                      {&NativeError{Outcome: Failed, Code: "x"}, "", "", Failed, false},
		"failed in an overflow":       {&NativeError{Outcome: Failed, Code: "x"}, "", TriggerOverflow, Completed, true},
		"nothing to do":               {&NativeError{Outcome: Unchanged, Code: CodeNothingToCompact}, "", "", Unchanged, false},
		"nothing to do, overflow":     {&NativeError{Outcome: Unchanged, Code: CodeNothingToCompact}, "", TriggerOverflow, Completed, true},
		"uncertain, also overflow":    {&NativeError{Outcome: Uncertain, Code: "x"}, "", TriggerOverflow, Uncertain, false},
		"denied by a hook of its own": {&NativeError{Outcome: Denied, Code: "denied"}, "", TriggerLength, Denied, false},
	} {
		t.Run(name, func(t *testing.T) {
			spent := &Usage{InputTokens: 9, OutputTokens: 1}
			job := Job{Input: longInput(), Trigger: c.trigger, Route: c.route, Ability: Ability{Native: "x"}}
			job.Native = func(context.Context, string) (NativeDone, error) {
				return NativeDone{Usage: spent, Warnings: []string{"slow"}}, c.err
			}
			entered := phasesOf(&job)
			v := Run(t.Context(), job)
			if v.Outcome != c.want || (v.Composed != nil && v.Outcome == Completed) != c.goesOn || v.Native != nil {
				t.Fatalf("verdict %+v", v)
			}
			if c.goesOn {
				want := []Skip{{string(RouteNative), c.err.Code, c.err.Reason}}
				if d := cmp.Diff(want, v.Skipped[:1]); d != "" || v.Route != RouteLocal {
					t.Errorf("route %s, skipped %s", v.Route, d)
				}
			} else if v.Code != c.err.Code || v.Reason != c.err.Reason || v.Remedy != c.err.Remedy || v.Route != RouteNative {
				t.Errorf("verdict %+v", v)
			}
			if v.Usage == nil || *v.Usage != *spent || !slices.Contains(v.Warnings, "slow") {
				t.Errorf("what it cost and warned of is lost: %+v, %v", v.Usage, v.Warnings)
			}
			if n := slices.Contains(*entered, PhaseCommitting); n != c.goesOn {
				t.Errorf("phases %v", *entered)
			}
			if !c.goesOn && PhaseRunning.CanEnd(v.Outcome) != nil {
				t.Errorf("a running compaction cannot end %s", v.Outcome)
			}
		})
	}
}

// What somebody wanted to end, and ended otherwise first, is what it is.
func TestAnEndOfTheProviderCountsAlsoAfterACancel(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Outcome
	}{
		"completed":    {nil, Completed},
		"uncertain":    {&NativeError{Outcome: Uncertain, Code: "x"}, Uncertain},
		"lossy":        {&NativeError{Outcome: Failed, Code: "nativeInvalid", Lossy: true}, Failed},
		"it just ends": {context.Canceled, Interrupted},
		"it fails":     {&NativeError{Outcome: Failed, Code: "x"}, Interrupted},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		job := Job{Input: longInput(), Ability: Ability{Native: "x"}}
		job.Native = func(context.Context, string) (NativeDone, error) { cancel(); return NativeDone{}, c.err }
		if v := Run(ctx, job); v.Outcome != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestUsagesOfOneCompactionAddUp(t *testing.T) {
	var none *Usage
	a, b := Usage{InputTokens: 1, OutputTokens: 2, Requests: 3, DurationMs: 4, CostUSD: new(0.5)}, Usage{InputTokens: 10, OutputTokens: 20, Requests: 30, DurationMs: 40, CostUSD: new(0.25)}
	if d := cmp.Diff(&a, none.plus(a)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&Usage{11, 22, 33, 44, new(0.75)}, a.plus(b)); d != "" {
		t.Error(d)
	}
	b.CostUSD = nil
	if sum := a.plus(b); sum.CostUSD != nil {
		t.Errorf("a sum with an unknown part costs %v", *sum.CostUSD)
	}
}

// Notes of nothing are no compaction, and nobody is asked for them.
func TestAnEmptyThreadIsNotCompactedNatively(t *testing.T) {
	for _, route := range []Route{"", RouteNative} {
		asked := 0
		v := Run(t.Context(), Job{
			Route: route, Ability: Ability{Native: "x"},
			Native:   func(context.Context, string) (NativeDone, error) { asked++; return NativeDone{}, nil },
			PreHooks: func(context.Context) (string, []string, error) { asked++; return "", nil, nil },
		})
		if v.Outcome != Unchanged || v.Code != CodeNothingToCompact || v.Native != nil || v.Reason == "" || asked > 0 {
			t.Errorf("route %q: %+v, %d were asked", route, v, asked)
		}
	}
}
