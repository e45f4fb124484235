package compaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// phasesOf records the phases that a job enters.
func phasesOf(job *Job) *[]Phase {
	var entered []Phase
	job.Enter = func(_ context.Context, p Phase, _ Route) error {
		entered = append(entered, p)
		return nil
	}
	return &entered
}

func longInput() Input {
	return Input{Entries: script("u a", 40, 2_000), Budget: 4_000, Writer: WriterExtractive}
}

func TestRunTakesTheRouteThatIsThere(t *testing.T) {
	refusal := Ability{Refusal: &Refusal{Code: "noEndpoint", Reason: "the endpoint has no compaction", Remedy: "use route local"}}
	native := Ability{Native: "compactEndpoint"}
	done := func(context.Context, string) (NativeDone, error) { return NativeDone{Info: NativeInfo{Form: "x"}}, nil }
	all := []Phase{PhaseHooking, PhaseRunning, PhaseCommitting}
	for name, c := range map[string]struct {
		job     Job
		outcome Outcome
		route   Route
		writer  Writer
		code    string
		skipped []Skip
		phases  []Phase
	}{
		"native preferred":    {Job{Ability: native, Native: done}, Completed, RouteNative, "", "", []Skip{}, all},
		"native asked for":    {Job{Route: RouteNative, Ability: native, Native: done}, Completed, RouteNative, "", "", []Skip{}, all},
		"local asked for":     {Job{Route: RouteLocal, Ability: native, Native: done}, Completed, RouteLocal, WriterExtractive, "", []Skip{}, all},
		"native refused":      {Job{Route: RouteNative, Ability: refusal}, Refused, RouteNative, "", "noEndpoint", []Skip{}, nil},
		"native not there":    {Job{Ability: refusal}, Completed, RouteLocal, WriterExtractive, "", []Skip{{"native", "noEndpoint", "the endpoint has no compaction"}}, all},
		"native says nothing": {Job{Route: RouteNative}, Refused, RouteNative, "", codeNoNative, []Skip{}, nil},
		"fixed asked for":     {Job{Route: RouteLocal, Writer: WriterFixed}, Completed, RouteLocal, WriterFixed, "", []Skip{}, all},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Input = longInput()
			entered := phasesOf(&c.job)
			v := Run(t.Context(), c.job)
			if v.Outcome != c.outcome || v.Route != c.route || v.Writer != c.writer || v.Code != c.code {
				t.Errorf("got %s{%s} by %s/%s, want %s{%s} by %s/%s", v.Outcome, v.Code, v.Route, v.Writer, c.outcome, c.code, c.route, c.writer)
			}
			if d := cmp.Diff(c.skipped, v.Skipped); d != "" {
				t.Error(d)
			}
			if !slices.Equal(*entered, c.phases) {
				t.Errorf("phases %v, want %v", *entered, c.phases)
			}
			if v.Outcome == Completed && (v.Composed == nil) == (v.Native == nil) {
				t.Error("not exactly one of Composed and Native is set")
			}
			if v.Outcome == Refused && (v.Reason == "" || v.Remedy == "") {
				t.Errorf("refused without reason or remedy: %+v", v)
			}
		})
	}
}

func TestRunEndsAtAFailure(t *testing.T) {
	broken := func(context.Context, string) (NativeDone, error) {
		return NativeDone{}, fault.New(fault.Unavailable, "the provider is gone")
	}
	v := Run(t.Context(), Job{Input: longInput(), Ability: Ability{Native: "x"}, Native: broken})
	if v.Outcome != Failed || v.Code != string(fault.Unavailable) || v.Reason != "the provider is gone" || v.Native != nil {
		t.Errorf("native failure ends as %+v", v)
	}
	full := fault.New(fault.Full, "the disk is full")
	for _, at := range []Phase{PhaseHooking, PhaseRunning, PhaseCommitting} {
		job := Job{Route: RouteLocal, Input: longInput()}
		job.Enter = func(_ context.Context, p Phase, _ Route) error {
			if p == at {
				return full
			}
			return nil
		}
		if v := Run(t.Context(), job); v.Outcome != Failed || v.Code != string(fault.Full) || v.Composed != nil {
			t.Errorf("a full disk at %s ends as %s{%s}", at, v.Outcome, v.Code)
		}
	}
}

func TestOnlyAHookCanDeny(t *testing.T) {
	for at, want := range map[Phase]Outcome{PhaseHooking: Denied, PhaseRunning: Failed} {
		job := Job{Route: RouteLocal, Input: longInput()}
		job.Enter = func(_ context.Context, p Phase, _ Route) error {
			if p == at {
				return fault.New(fault.Denied, "not on a Friday")
			}
			return nil
		}
		if v := Run(t.Context(), job); v.Outcome != want || v.Reason != "not on a Friday" {
			t.Errorf("denied while entering %s: %s{%s}, %q", at, v.Outcome, v.Code, v.Reason)
		}
	}
}

func TestRunIsInterruptedInEveryPhase(t *testing.T) {
	for _, at := range []Phase{PhaseHooking, PhaseRunning, PhaseCommitting} {
		ctx, cancel := context.WithCancel(t.Context())
		job := Job{Route: RouteLocal, Input: longInput()}
		job.Enter = func(ctx context.Context, p Phase, _ Route) error {
			if p == at {
				cancel()
			}
			return ctx.Err()
		}
		if v := Run(ctx, job); v.Outcome != Interrupted || v.Composed != nil {
			t.Errorf("cancelled while entering %s: %s", at, v.Outcome)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	hang := func(ctx context.Context, _ string) (NativeDone, error) {
		cancel()
		<-ctx.Done()
		return NativeDone{}, errors.New("aborted")
	}
	if v := Run(ctx, Job{Input: longInput(), Ability: Ability{Native: "x"}, Native: hang}); v.Outcome != Interrupted {
		t.Errorf("a native compaction that is cancelled ends as %s", v.Outcome)
	}
}

// A link that fails, panics or breaks the contract is skipped with its reason,
// and the next one is tried.
func TestRunSkipsBrokenWriters(t *testing.T) {
	defer func() { compose = Compose }()
	breakAs := func(how func(Input, *Composed) (*Composed, error), writers ...Writer) {
		compose = func(in Input) (*Composed, error) {
			c, err := Compose(in)
			if slices.Contains(writers, in.Writer) {
				return how(in, c)
			}
			return c, err
		}
	}
	fails := func(Input, *Composed) (*Composed, error) { return nil, errors.New("no words") }
	panics := func(Input, *Composed) (*Composed, error) { panic("index out of range") }
	nothing := func(Input, *Composed) (*Composed, error) { return nil, nil }
	breaks := func(_ Input, c *Composed) (*Composed, error) {
		c.Summarized = c.Summarized[1:]
		return c, nil
	}
	for code, how := range map[string]func(Input, *Composed) (*Composed, error){codeWriterFailed: fails, codePanic: panics, codeInvalid: breaks} {
		breakAs(how, WriterExtractive)
		v := Run(t.Context(), Job{Route: RouteLocal, Input: longInput()})
		if v.Outcome != Completed || v.Writer != WriterFixed || len(v.Skipped) != 1 || v.Skipped[0].Link != "checkpoint(extractive)" || v.Skipped[0].Code != code || v.Skipped[0].Reason == "" {
			t.Errorf("%s: %s by %s, skipped %v", code, v.Outcome, v.Writer, v.Skipped)
		}
	}
	breakAs(nothing, WriterExtractive, WriterFixed)
	v := Run(t.Context(), Job{Route: RouteLocal, Input: longInput()})
	if v.Outcome != Failed || len(v.Skipped) != 2 || v.Code != codeWriterFailed || v.Reason == "" {
		t.Errorf("no writer left: %+v", v)
	}
}

func TestRunLeavesASmallContextAlone(t *testing.T) {
	var entered []Phase
	job := Job{Route: RouteLocal, Input: Input{Entries: script("u a", 1, 100)}}
	job.Enter = func(_ context.Context, p Phase, _ Route) error { entered = append(entered, p); return nil }
	v := Run(t.Context(), job)
	if v.Outcome != Unchanged || v.Code != CodeNothingToCompact || v.Composed.Kept != nil {
		t.Errorf("got %+v", v)
	}
	if slices.Contains(entered, PhaseCommitting) {
		t.Error("nothing to commit, but committing was entered")
	}
	if err := entered[len(entered)-1].CanEnd(v.Outcome); err != nil {
		t.Error(err)
	}
}

func TestRunHitsAFailpointInEachPhase(t *testing.T) {
	var hits []string
	defer failpoint.Arm(func(name string) { hits = append(hits, name) })()
	Run(t.Context(), Job{Route: RouteLocal, Input: longInput()})
	if want := []string{"compaction/hooking", "compaction/running", "compaction/committing"}; !slices.Equal(hits, want) {
		t.Errorf("failpoints %v, want %v", hits, want)
	}
}

func TestRunReportsAnItemWithoutBody(t *testing.T) {
	in := Input{Entries: []transcript.Entry{{Item: transcript.Item{ID: "x"}}}}
	if v := Run(t.Context(), Job{Route: RouteLocal, Input: in}); v.Outcome != Failed || len(v.Skipped) != 2 {
		t.Errorf("got %+v", v)
	}
}

// Whoever is told that nothing was done is told why, and what would help; a
// budget that is named does work, and a smaller one does not.
func TestUnchangedCarriesReasonAndRemedy(t *testing.T) {
	entries := script("u a", 20, 2_000)
	done := mustCompose(t, Input{Entries: entries, Budget: 4_000})
	for name, c := range map[string]struct {
		in     Input
		code   string
		remedy string
	}{
		"fits":              {Input{Entries: entries, Budget: 20_000}, CodeNothingToCompact, "go on as it is, or ask for a budget of "},
		"fits, and is base": {Input{Entries: script("u", 1, 50), Base: 9_000, Budget: 20_000}, CodeNothingToCompact, "go on as it is"},
		"nothing new":       {Input{Entries: nextContext(entries, done, "c"), Budget: 4_000}, CodeNothingToCompact, ""},
		"repeated":          {Input{Entries: nextContext(entries, done, "c"), Budget: done.After - 1}, "", ""},
		"base too large":    {Input{Entries: entries, Base: 9_000, Budget: 8_000}, CodeOverheadExceedsBudget, "ask for a budget of "},
		"budget tiny":       {Input{Entries: entries, Budget: 100}, CodeOverheadExceedsBudget, "ask for a budget of "},
		"open prompt":       {Input{Entries: entries, Budget: 600, Open: openOf(entries, 38)}, CodeOverheadExceedsBudget, "ask for a budget of "},
		"base is it all":    {Input{Entries: script("u a", 1, 50), Base: 9_000, Budget: 900}, CodeOverheadExceedsBudget, "make the instructions and tools smaller"},
		"nothing to gain":   {Input{Entries: script("u", 1, 50), Budget: 10}, CodeOverheadExceedsBudget, "start a new thread"},
	} {
		v := Run(t.Context(), Job{Route: RouteLocal, Input: c.in})
		if v.Outcome != Unchanged {
			if c.code != "" {
				t.Errorf("%s: outcome %s", name, v.Outcome)
			}
			continue
		}
		if v.Reason == "" || v.Remedy == "" || c.code != "" && v.Code != c.code || !strings.Contains(v.Remedy, c.remedy) {
			t.Errorf("%s: {%s} reason %q, remedy %q", name, v.Code, v.Reason, v.Remedy)
		}
		var n int
		if _, err := fmt.Sscanf(v.Remedy, "go on as it is, or ask for a budget of %d tokens", &n); err == nil {
			c.in.Budget = n
			if got := mustCompose(t, c.in); got.Outcome != Completed {
				t.Errorf("%s: with the budget of %d that was named it ends as %s", name, n, got.Outcome)
			}
		}
		if _, err := fmt.Sscanf(v.Remedy, "ask for a budget of %d tokens", &n); err != nil {
			continue
		}
		for budget, want := range map[int]Outcome{n: Completed, n - 1: Unchanged} {
			c.in.Budget = budget
			if got := mustCompose(t, c.in); got.Outcome != want {
				t.Errorf("%s: a budget of %d is said to be the smallest, but %d ends as %s", name, n, budget, got.Outcome)
			}
		}
	}
}

// Nobody can make smaller what a program brings along.
func TestARemedyForARuntimeIsOneThatItsUserCanFollow(t *testing.T) {
	in := Input{Entries: script("u a", 1, 50), Base: 9_000, Budget: 900}
	for remedy, job := range map[string]Job{
		"go on as it is, and compact again when the thread is longer": {Route: RouteLocal, Input: in, Runtime: true},
		"raise the line in [compaction] of config.toml":               {Route: RouteLocal, Input: in, Runtime: true, Auto: &Auto{Fire: 5_000}},
	} {
		v := Run(t.Context(), job)
		if v.Code != CodeOverheadExceedsBudget || !strings.HasPrefix(v.Remedy, remedy) {
			t.Errorf("%s: %s", v.Code, v.Remedy)
		}
	}
}

func TestLookingForASmallestBudgetCanBeInterrupted(t *testing.T) {
	defer func() { compose = Compose }()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	compose = func(in Input) (*Composed, error) {
		if calls++; calls == 3 {
			cancel()
		}
		return Compose(in)
	}
	in := Input{Entries: script("u a", 20, 2_000), Budget: 100}
	if v := Run(ctx, Job{Route: RouteLocal, Input: in}); v.Outcome != Interrupted || calls > 4 {
		t.Errorf("%s after %d attempts", v.Outcome, calls)
	}
}
