package compaction

import (
	"context"
	"errors"
	"slices"
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
	done := func(context.Context) (NativeDone, error) { return NativeDone{Info: NativeInfo{Form: "x"}}, nil }
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
	broken := func(context.Context) (NativeDone, error) {
		return NativeDone{}, fault.New(fault.Unavailable, "the provider is gone")
	}
	v := Run(t.Context(), Job{Ability: Ability{Native: "x"}, Native: broken})
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
	hang := func(ctx context.Context) (NativeDone, error) {
		cancel()
		<-ctx.Done()
		return NativeDone{}, errors.New("aborted")
	}
	if v := Run(ctx, Job{Ability: Ability{Native: "x"}, Native: hang}); v.Outcome != Interrupted {
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
