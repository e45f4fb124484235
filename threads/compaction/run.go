package compaction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Ability is what the session can do natively: Native is its form, or Refusal is
// set. A refusal is a value that reaches the client.
type Ability struct {
	Native  string
	Refusal *Refusal
}

// Refusal says why the session cannot compact natively, and what to do instead.
type Refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// A Job is one compaction to run. The function fields are given by the thread.
type Job struct {
	Trigger Trigger // empty: manual
	Route   Route   // as requested; empty: native if there is, else local
	Writer  Writer
	Ability Ability
	Input   Input
	// Auto is set for an automatic compaction, which may end with a prune and must
	// gain something.
	Auto *Auto
	// Models are asked for a checkpoint in order; the first one whose text holds is
	// the writer. NoModel says why there is none.
	Models  []ModelWriter
	NoModel *Refusal
	// Wait pauses before a request that failed for a while is made again. Nil: it is
	// not made again.
	Wait func(ctx context.Context, d time.Duration) error
	// Instructions are the user's, for the model writer's prompt and nothing else.
	Instructions string
	// PreHooks asks those who may deny the compaction (a fault.Denied). What they say
	// for the writer is added to Instructions. Nil: nobody is asked.
	PreHooks func(ctx context.Context) (instructions string, warnings []string, err error)
	// Enter makes a phase and the chosen route durable before Run goes on. An
	// error ends the run; in phase hooking one with code fault.Denied is what a
	// pre hook said.
	Enter func(ctx context.Context, p Phase, r Route) error
	// Rebase makes a result count for a provider that keeps its own history. It is
	// called once, before the phase committing; an error ends the run as failed, with
	// nothing changed. Nil: the context is all there is.
	Rebase func(ctx context.Context, c *Composed) error
	// Runtime: the provider is a program with a history, instructions and tools of its
	// own, so that a remedy must not be about those.
	Runtime bool
	// Native runs the provider's own compaction until its matching completion.
	// Instructions are those of the user and of the hooks. A *NativeError says how it
	// ended instead; what it cost is returned beside it.
	Native func(ctx context.Context, instructions string) (NativeDone, error)
}

// Auto is what the policy says about an automatic compaction, in the units of Input.
type Auto struct {
	Fire    int // the base may not reach it
	Rearm   int // a prune that gets below it is enough
	MinGain int // less is unchanged{noGain}
}

// NativeDone is what a provider disclosed of a compaction that completed. Before and
// After are its own figures, in tokens, 0 if it told none.
type NativeDone struct {
	Info          NativeInfo
	Usage         *Usage
	Before, After int
	Window        int // that it named; 0 if it did not
	Reanchored    bool
	Warnings      []string
}

// A NativeError is a native compaction that did not complete, and how that ends it.
type NativeError struct {
	Outcome              Outcome
	Code, Reason, Remedy string
	// Lossy: the provider lost its history, and another link can make a new one of the
	// journal.
	Lossy bool
}

// Error implements error.
func (e *NativeError) Error() string { return e.Reason }

// A Verdict is how a run ended. Exactly one of Composed and Native is set if the
// outcome is Completed; the thread commits it. Composed is also set if the outcome
// is Unchanged; it then has the sizes and nothing to commit.
type Verdict struct {
	Outcome  Outcome
	Code     string
	Reason   string
	Remedy   string
	Route    Route
	Writer   Writer
	Skipped  []Skip
	Warnings []string
	Composed *Composed
	Native   *NativeDone
	Usage    *Usage // of all that was asked and did not complete natively; nil if nothing was
}

// Codes of the outcomes failed, and of skipped links.
const (
	codeNoNative     = "noNativeCompaction" // the session did not say why
	codeWriterFailed = "writerFailed"
	codeInvalid      = "invalidResult"
	codePanic        = "writerPanicked"
	codeRebaseFailed = "rebaseFailed" // the provider did not take the new context
)

// A runner is one Run.
type runner struct {
	job   Job
	v     Verdict
	wish  string // of the user and the hooks, for the notes
	lost  bool   // the provider lost its history
	quote *attempted
}

// Run takes one compaction from requested to committing, or to its end, and says
// how it ended. It returns in phase committing if the outcome is completed: the
// thread then commits. Run never panics because of a writer, starts no goroutine,
// and returns soon after ctx is done; its outcome is then interrupted. The verdict
// has the usage of the models that were asked, whatever the outcome.
func Run(ctx context.Context, job Job) Verdict {
	r := &runner{job: job, wish: job.Instructions}
	r.v.Skipped, r.v.Warnings = []Skip{}, []string{}
	if r.refused() || !r.enter(ctx, PhaseHooking) || !r.hooks(ctx) || !r.enter(ctx, PhaseRunning) {
		return r.v
	}
	if r.v.Route == RouteNative && r.native(ctx) {
		return r.v
	}
	r.local(ctx)
	return r.v
}

// refused chooses the route. A native compaction that was asked for and does not
// exist here is refused; one that was only preferred is skipped.
func (r *runner) refused() bool {
	native := r.job.Ability.Native != "" && r.job.Native != nil
	why := Refusal{Code: codeNoNative, Reason: "the session cannot compact natively", Remedy: `ask for route local, or set [compaction] route = "local" in config.toml`}
	if r.job.Ability.Refusal != nil {
		why = *r.job.Ability.Refusal
	}
	r.v.Route = RouteLocal
	switch {
	case r.job.Route == RouteLocal:
	case native:
		r.v.Route = RouteNative
	case r.job.Route == RouteNative:
		r.v.Route = RouteNative
		r.v.Outcome, r.v.Code, r.v.Reason, r.v.Remedy = Refused, why.Code, why.Reason, why.Remedy
		return true
	default:
		r.skip(string(RouteNative), why.Code, why.Reason)
	}
	return false
}

// enter makes the next phase durable. It reports false if the run has ended.
func (r *runner) enter(ctx context.Context, p Phase) bool {
	if r.interrupted(ctx) {
		return false
	}
	failpoint.Hit("compaction/" + string(p))
	if r.job.Enter == nil {
		return true
	}
	if err := r.job.Enter(ctx, p, r.v.Route); err != nil {
		switch {
		case r.interrupted(ctx):
		case p == PhaseHooking && fault.CodeOf(err) == fault.Denied:
			r.v.Outcome, r.v.Code, r.v.Reason = Denied, string(fault.Denied), fault.MessageOf(err)
		default:
			r.fail(err)
		}
		return false
	}
	return true
}

func (r *runner) interrupted(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	r.v.Outcome, r.v.Reason = Interrupted, "the compaction was interrupted"
	return true
}

func (r *runner) fail(err error) {
	r.v.Outcome, r.v.Code, r.v.Reason = Failed, string(fault.CodeOf(err)), fault.MessageOf(err)
}

// hooks asks those who may deny. It reports false if the run has ended. Nobody is
// asked about a compaction that will do nothing.
func (r *runner) hooks(ctx context.Context) bool {
	if r.job.PreHooks == nil || r.v.Route == RouteLocal && r.overhead() || r.v.Route == RouteNative && r.empty() {
		return true
	}
	more, warnings, err := r.job.PreHooks(ctx)
	r.v.Warnings = append(r.v.Warnings, warnings...)
	r.wish = strings.TrimSpace(headOf(r.wish, maxWish) + "\n\n" + more)
	switch {
	case r.interrupted(ctx):
	case err == nil:
		return true
	case fault.CodeOf(err) == fault.Denied:
		r.v.Outcome, r.v.Code, r.v.Reason = Denied, string(fault.Denied), fault.MessageOf(err)
	default:
		r.fail(err)
	}
	return false
}

// empty reports whether nothing was said in the thread.
func (r *runner) empty() bool { return len(r.job.Input.Entries) == 0 }

// native waits for the provider's own compaction. It reports false if the chain goes
// on, which it does unless this route was asked for: where the provider refuses after
// all, where it lost its history, and where the turn cannot go on without a smaller
// context. What completed is completed, also if somebody wanted it to end meanwhile. Of
// an empty thread nobody is asked: a provider would make notes of nothing, and say that
// it completed (codex 0.171, observed).
func (r *runner) native(ctx context.Context) bool {
	if r.empty() {
		r.v.Outcome, r.v.Code = Unchanged, CodeNothingToCompact
		r.v.Reason, r.v.Remedy = "nothing was said in the thread yet", "go on as it is"
		return true
	}
	done, err := r.job.Native(ctx, r.wish)
	r.v.Warnings = append(r.v.Warnings, done.Warnings...)
	if err == nil {
		if r.enter(context.WithoutCancel(ctx), PhaseCommitting) {
			r.v.Outcome, r.v.Native = Completed, &done
		}
		return true
	}
	r.v.Usage = done.Usage
	ended, known := errors.AsType[*NativeError](err)
	if !known {
		ended = &NativeError{Outcome: Failed, Code: string(fault.CodeOf(err)), Reason: fault.MessageOf(err)}
	}
	r.lost = ended.Lossy
	switch {
	case r.job.Route != RouteNative && ctx.Err() == nil && r.goesOn(*ended):
		r.skip(string(RouteNative), ended.Code, ended.Reason)
		r.v.Route = RouteLocal
		return false
	case known && (ended.Lossy || ended.Outcome == Uncertain): // true whoever wanted it to end
	case r.interrupted(ctx):
		return true
	}
	r.v.Outcome, r.v.Code, r.v.Reason, r.v.Remedy = ended.Outcome, ended.Code, ended.Reason, ended.Remedy
	return true
}

// goesOn reports whether the next link is tried after a native compaction that ended.
func (r *runner) goesOn(e NativeError) bool {
	switch e.Outcome {
	case Refused:
		return true
	case Failed:
		return e.Lossy || r.job.Trigger.Recovers()
	case Unchanged:
		return r.job.Trigger.Recovers() // it is no end there
	case Completed, Denied, Cancelled, Interrupted, Uncertain:
	}
	return false
}

func (r *runner) skip(link, code, reason string) {
	r.v.Skipped = append(r.v.Skipped, Skip{Link: link, Code: code, Reason: reason})
}

// unchanged ends the run and says why nothing was done, and what would help.
func (r *runner) unchanged(ctx context.Context, in Input, c *Composed) {
	r.v.Outcome, r.v.Code, r.v.Composed, r.v.Writer = Unchanged, c.Code, c, ""
	before, target := r.job.Input.Scale.Tokens(c.Before), r.job.Input.Scale.Tokens(c.Target)
	switch c.Code {
	case CodeNothingToCompact:
		r.v.Reason = fmt.Sprintf("the context has %d tokens, which is within the target of %d", before, target)
		r.v.Remedy = "go on as it is"
		if n := r.lowerBudget(in, c); n > 0 {
			r.v.Remedy += fmt.Sprintf(", or ask for a budget of %d tokens", n)
		}
		if c.Before > c.Target {
			r.v.Reason = "nothing was added since the last compaction"
			r.v.Remedy = "compact again after the next turn, or ask for a smaller budget than the last time"
		}
	case CodeNoGain:
		r.v.Reason = fmt.Sprintf("a compacted context would be no smaller than the %d tokens that there are", before)
		if r.job.Auto != nil {
			r.v.Reason = fmt.Sprintf("a compacted context would not be smaller than the %d tokens that there are by %d", before, r.job.Input.Scale.Tokens(r.job.Auto.MinGain))
		}
		r.v.Remedy = "compact again when the thread is longer"
	default:
		r.v.Reason = fmt.Sprintf("what must survive, with a checkpoint, does not fit into the target of %d tokens", target)
		if r.overhead() {
			r.v.Reason = fmt.Sprintf("instructions and tools alone take %d tokens, and a compaction is due at %d", r.job.Input.Scale.Tokens(in.Base), r.job.Input.Scale.Tokens(r.job.Auto.Fire))
		}
		r.v.Remedy = r.overheadRemedy(ctx, in, c)
		if r.interrupted(ctx) {
			r.v.Code, r.v.Remedy, r.v.Composed = "", "", nil
		}
	}
}

// overheadRemedy names the smallest budget that works for the input.
func (r *runner) overheadRemedy(ctx context.Context, in Input, c *Composed) string {
	if in.Base*2 > c.Before && r.overhead() {
		return r.smallerBase(in)
	}
	if n := smallestBudget(ctx, in, c); n > 0 {
		return fmt.Sprintf("ask for a budget of %d tokens or more", r.job.Input.Scale.Tokens(n)+r.job.Input.Scale.slack())
	}
	if in.Base*2 > c.Before {
		return r.smallerBase(in)
	}
	return fmt.Sprintf("go on as it is, or start a new thread: no budget below the %d tokens that the context has works", r.job.Input.Scale.Tokens(c.Before))
}

// smallerBase says what helps where most of a context is what no compaction shrinks. That
// of a program which brings its own is not the user's to change.
func (r *runner) smallerBase(in Input) string {
	tokens := r.job.Input.Scale.Tokens(in.Base)
	switch {
	case !r.job.Runtime:
		return fmt.Sprintf("make the instructions and tools smaller, which alone take %d tokens, or start a new thread", tokens)
	case r.overhead():
		return fmt.Sprintf("raise the line in [compaction] of config.toml: the program's own instructions and tools take %d tokens", tokens)
	}
	return fmt.Sprintf("go on as it is, and compact again when the thread is longer: the program's own instructions and tools take %d of its tokens, "+
		"which no compaction shrinks", tokens)
}

// lowerBudget is a budget, in tokens, with which a context that is within its target is
// compacted all the same. It returns 0 if none was found, and if nobody asked.
func (r *runner) lowerBudget(in Input, c *Composed) int {
	if r.job.Auto != nil || c.Before > c.Target {
		return 0
	}
	scale := r.job.Input.Scale
	for _, quarters := range []int{2, 3} { // of what can shrink
		n := scale.Tokens(in.Base + (c.Before-in.Base)*quarters/4)
		in.Budget = scale.Units(n)
		if c, code, err := attempt(in); err == nil && code == "" && c.Outcome == Completed {
			return n
		}
	}
	return 0
}

// smallestBudget finds, by bisection, the smallest budget over the target of c
// with which the input can be compacted. It returns 0 if there is none, and when
// ctx is done.
func smallestBudget(ctx context.Context, in Input, c *Composed) int {
	in.PruneTo, in.Recover = 0, false
	works := func(budget int) bool {
		in.Budget = budget
		c, code, err := attempt(in)
		return err == nil && code == "" && c.Outcome == Completed
	}
	low, high := c.Target, c.Before-1  // low does not work, high does
	for high-low > 1 && !works(high) { // near the whole size there may be no gain
		if high = low + (high-low)*3/4; ctx.Err() != nil {
			return 0
		}
	}
	if high-low <= 1 && !works(high) {
		return 0
	}
	for high-low > 1 && ctx.Err() == nil {
		if mid := low + (high-low)/2; works(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	if ctx.Err() != nil {
		return 0
	}
	return high
}

// compose is what a link runs; tests replace it to make links fail.
var compose = Compose

// attempt composes and checks. A panic is an error with a code of its own.
func attempt(in Input) (c *Composed, code string, err error) {
	defer func() {
		if v := recover(); v != nil {
			c, code, err = nil, codePanic, fmt.Errorf("compose: panic: %v", v)
		}
	}()
	c, err = compose(in)
	if err != nil {
		return nil, codeWriterFailed, err
	}
	if c == nil {
		return nil, codeWriterFailed, errors.New("compose: no result")
	}
	if err := Check(in, c); err != nil {
		return nil, codeInvalid, err
	}
	return c, "", nil
}
