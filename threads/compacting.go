package threads

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// compactNow starts the run of a compaction whose request is journaled.
func (a *actor) compactNow(id transcript.CompactionID) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	run := &running{compaction: id, cancel: cancel}
	a.compact = run
	settings := a.settingsInUse()
	a.work.Go(func() { a.runCompaction(ctx, run, settings) })
}

func (a *actor) unread() map[transcript.ItemID]bool { return a.state.unread(a.readTo) }

// unread returns what no compaction may touch in the middle of a turn: what the
// model has not read yet, the prompt it works on, and calls without a result.
func (s *state) unread(read int) map[transcript.ItemID]bool {
	turn := s.activeTurn()
	if turn == nil || turn.Kind != transcript.TurnUser {
		return nil
	}
	open := map[transcript.ItemID]bool{}
	for _, it := range s.Transcript.Items[min(read, len(s.Transcript.Items)):] {
		open[it.ID] = true
	}
	for _, call := range s.calls {
		open[call] = true
	}
	for _, it := range slices.Backward(s.Transcript.Items) {
		if it.Turn != turn.ID {
			break
		}
		if it.Body.Kind() == transcript.KindUserMessage {
			open[it.ID] = true
		}
	}
	return open
}

// facts is what the first request of a new epoch restates.
func (a *actor) facts() compaction.Facts {
	s := a.state.Settings
	f := compaction.Facts{
		Cwd: s.Cwd, Runtime: s.Provider, Model: s.Model, ApprovalPolicy: s.ApprovalPolicy, Sandbox: s.Sandbox,
		Plan: a.state.Plan, Checks: a.svc.cfg.Checks, Window: a.window, Recall: a.recallTool(), Mode: s.Mode,
		MaxOutput: a.svc.limits(s.Provider, s.Model).maxOutput, Budget: a.state.Budget,
	}
	if s.Sandbox == "workspace-write" && s.Cwd != "" {
		f.WritableRoots = []string{s.Cwd}
	}
	return f
}

// A compactionRun is everything that the run of a compaction needs, taken from
// the state in one moment once the session is open.
type compactionRun struct {
	record   compaction.Record
	request  CompactRequest
	settings Settings
	auto     automatic
	overflow *overflowed // that the compaction is for; nil if it is for none
	covered  int
	context  adapters.Context
	load     compaction.Load
	counted  bool             // load.Used rests on what the provider counted
	runtime  bool             // the provider has more in its requests than this server knows
	input    compaction.Input // Window and Budget are tokens until it is scaled
	scale    compaction.Scale
	shown    int // units of the images that the model is shown
}

// compactionRun collects what a run needs; nil if the compaction is over.
func (a *actor) compactionRun(id transcript.CompactionID) *compactionRun {
	s := a.state
	rec := s.running()
	if rec == nil || rec.CompactionID != id {
		return nil
	}
	c := a.nextContext()
	au := a.automatic(s.Settings)
	r := &compactionRun{
		record: *rec, request: s.CompactRequests[id], settings: s.Settings, auto: au, covered: len(s.Transcript.Items),
		context: c, load: s.load(au, 0), counted: s.counted(au), runtime: a.keepsHistory(),
		input: compaction.Input{Entries: c.Entries, Open: a.unread(), Base: a.base(), Facts: a.facts()},
	}
	if a.waiting != nil {
		r.overflow = a.waiting.overflow
	}
	return r
}

// countTimeout bounds how long a provider is asked for the size of a context.
const countTimeout = 10 * time.Second

// measure finds the scale of the run. A provider that can tell the size is asked.
func (r *compactionRun) measure(ctx context.Context, sess *session) {
	tokens, counted := r.load.Used, r.counted
	if r.overflow != nil {
		tokens, counted = r.overflow.tokens(r.load), true
	} else if c, ok := counterOf(sess); ok {
		ctx, cancel := context.WithTimeout(ctx, countTimeout)
		defer cancel()
		if n, known, err := c.Count(ctx, r.context); err == nil && known {
			tokens, counted = n, true
			r.load.Used = n
		}
	}
	if r.runtime {
		r.measureRuntime(tokens, counted)
		return
	}
	if !counted {
		tokens = r.auto.bare + textEstimate(r.context.Entries)
	}
	images := 0
	if r.auto.limits.images { // what these cost is a fixed number, which no ratio of texts scales
		images = imagesOf(r.context.Entries)
		if counted {
			tokens = max(tokens-images*transcript.ImageTokens, 1)
		}
	}
	r.scale = compaction.NewScale(tokens, r.input.Base+r.context.Tokens, counted)
	if r.auto.limits.images {
		r.input.Image = r.scale.Units(transcript.ImageTokens)
		r.shown = images * r.input.Image
	}
	r.input.Scale = r.scale
	r.input.Window, r.input.Budget = r.scale.Units(r.load.Window), r.scale.Units(r.request.Budget)
}

// measureRuntime finds the scale for a program, whose requests hold its own system text
// and tools beside the context. What it counts over the estimate of the context is taken
// for those: a part of the base, which a fresh session has too.
func (r *compactionRun) measureRuntime(counted int, known bool) {
	estimate := r.auto.bare + textEstimate(r.context.Entries)
	r.scale = compaction.NewScale(estimate, r.input.Base+r.context.Tokens, false)
	if hidden := counted - estimate; known && hidden > 0 {
		r.input.Base += r.scale.Units(hidden)
		r.load.Base += hidden
	}
	r.input.Scale = r.scale
	r.input.Window, r.input.Budget = r.scale.Units(r.load.Window), r.scale.Units(r.request.Budget)
}

func imagesOf(entries []transcript.Entry) (n int) {
	for _, e := range entries {
		n += transcript.Images(e.Item.Body)
	}
	return n
}

// textEstimate is the estimate of the texts alone. Frames of items are no reason to
// take a ruler of texts for wrong.
func textEstimate(entries []transcript.Entry) (n int) {
	for _, e := range entries {
		n += transcript.EstimateText(transcript.Text(e.Item.Body))
	}
	return n
}

func counterOf(sess *session) (adapters.Counter, bool) {
	if sess == nil {
		return nil, false
	}
	c, ok := sess.Session.(adapters.Counter)
	return c, ok
}

// policy is what the policy says about the run, in the units of its input; nil if
// it is not what the run is about.
func (r *compactionRun) policy() *compaction.Auto {
	if t := r.record.Trigger; !t.Automatic() || t == compaction.TriggerBudget { // the window is no matter of a task's budget
		return nil
	}
	p := r.auto.policy
	return &compaction.Auto{
		Fire: r.scale.Units(p.Fire(r.load)), Rearm: r.scale.Units(p.Rearm(r.load)), MinGain: r.scale.Units(p.MinGain(r.load)),
	}
}

// runCompaction is the goroutine of one compaction.
func (a *actor) runCompaction(ctx context.Context, run *running, settings Settings) {
	id := run.compaction
	done := endCompaction{id: id, run: run}
	err := guard(func() error { return a.compactWith(ctx, settings, &done) })
	switch {
	case err == nil:
	case ctx.Err() != nil:
		done.verdict = compaction.Verdict{Outcome: compaction.Interrupted, Reason: context.Cause(ctx).Error()}
	default:
		a.svc.log.Error("compaction failed", "thread", a.id, "compaction", id, "err", err)
		done.verdict = compaction.Verdict{Outcome: compaction.Failed, Code: string(fault.CodeOf(err)), Reason: messageOf(err)}
	}
	done.verdict = cancelledBy(ctx, done.verdict)
	failpoint.Hit("compaction/verdict")
	if done.rebased == nil {
		a.tell(done)
		return
	}
	if _, err := a.send(context.WithoutCancel(ctx), message{cmd: done}); err != nil {
		a.svc.log.Info("end compaction", "thread", a.id, "compaction", id, "err", err)
	}
	a.discard(done.rebased)
}

// compactWith opens what the compaction needs and runs it to its verdict.
func (a *actor) compactWith(ctx context.Context, settings Settings, done *endCompaction) error {
	sess, unopened := a.openSession(ctx, settings)
	v, err := a.send(ctx, message{query: func(a *actor) any { return a.compactionRun(done.id) }})
	if err != nil {
		return err
	}
	run := v.(*compactionRun)
	if run == nil {
		return fault.New(fault.Cancelled, "compaction %s is over", done.id)
	}
	if unopened != nil && (run.request.Route == compaction.RouteNative || ctx.Err() != nil) {
		return unopened
	}
	can := unreachable(unopened)
	if unopened == nil {
		can = ability(sess.Compaction())
	}
	run.measure(ctx, sess)
	done.covered, done.scale, done.instructions = run.covered, run.scale, run.request.Instructions
	w := &writers{a: a, settings: settings}
	defer w.close()
	job := a.job(run, sess, can, w)
	job.Rebase = a.rebaser(run, done)
	done.verdict = compaction.Run(ctx, job)
	if errors.Is(unopened, adapters.ErrNoSession) && run.request.Route == compaction.RouteLocal && done.verdict.Outcome == compaction.Unchanged {
		return a.replaceLost(ctx, settings)
	}
	return nil
}

// job is the compaction as it is run.
func (a *actor) job(run *compactionRun, sess *session, can compaction.Ability, w *writers) compaction.Job {
	want := run.request.Writer
	if want == "" {
		want = a.svc.cfg.Writer.Writer
	}
	models, none := w.models(want, sess)
	id := run.record.CompactionID
	return compaction.Job{
		Trigger: run.record.Trigger, Route: run.request.Route, Writer: want, Input: run.input, Ability: can, Runtime: run.runtime,
		Auto: run.policy(), Models: models, NoModel: none, Wait: pause, Instructions: run.request.Instructions, PreHooks: a.preHooks(*run),
		Enter: func(ctx context.Context, p compaction.Phase, r compaction.Route) error {
			_, err := a.send(ctx, message{cmd: enterPhase{id, p, r, run.scale, run.shown}})
			return err
		},
		Native: func(ctx context.Context, wish string) (compaction.NativeDone, error) {
			res, err := sess.Compact(ctx, adapters.CompactInput{ID: id, Instructions: wish}, &host{a: a, turn: run.record.TurnID})
			return nativeDone(res), nativeError(err)
		},
	}
}

// unreachable is the ability of a session that could not be opened: a local
// compaction does not need it.
func unreachable(err error) compaction.Ability {
	return compaction.Ability{Refusal: &compaction.Refusal{
		Code: "sessionUnavailable", Reason: "the provider's session could not be opened: " + messageOf(err), Remedy: adapters.UseLocal,
	}}
}

func ability(a adapters.Ability) compaction.Ability {
	if a.Native != nil {
		return compaction.Ability{Native: a.Native.Form}
	}
	r := compaction.Refusal{Code: "nativeUnsupported", Reason: "the provider has no compaction of its own", Remedy: adapters.UseLocal}
	if a.Refusal != nil {
		r = compaction.Refusal(*a.Refusal)
	}
	return compaction.Ability{Refusal: &r}
}
