package threads

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A session is the thread's open session with its provider.
type session struct {
	adapters.Session
	base int // tokens of its Base, by transcript.Ruler
}

// perform does one effect of a decision that is durable.
func (a *actor) perform(e effect) {
	switch e := e.(type) {
	case runTurn:
		a.begin(adapters.TurnInput{Turn: e.turn, Input: e.input})
	case continueTurn:
		a.begin(adapters.TurnInput{Turn: e.turn, Continue: true})
	case steerTurn:
		a.steer(e)
	case stopTurn:
		if a.turn != nil {
			a.turn.stopping = true
		}
		a.stopTurn(errInterrupted)
	case startCompaction:
		a.compactNow(e.id)
	case stopCompaction:
		a.stopCompaction(errInterrupted)
	case cancelRun:
		a.stopCompaction(errCancelled)
	case resumeContext:
		a.answerBoundary()
	case retire:
		a.retired = true
	}
}

// stopWork ends whatever runs, for the given cause.
func (a *actor) stopWork(cause error) {
	a.stopCompaction(cause)
	a.stopTurn(cause)
}

// begin starts the session on a turn.
func (a *actor) begin(in adapters.TurnInput) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.turn = &running{turn: in.Turn, cancel: cancel}
	a.readTo = len(a.state.Transcript.Items)
	settings := a.state.Settings
	in.Approval, in.Sandbox = settings.ApprovalPolicy, settings.Sandbox
	_, tools := offered(a.state.Tools, a.svc.cfg.Tools)
	a.work.Go(func() { a.runTurn(ctx, in, settings, &host{a: a, turn: in.Turn, tools: tools}) })
}

// runTurn is the goroutine of one turn: it drives the session to the turn's end
// and reports it.
func (a *actor) runTurn(ctx context.Context, in adapters.TurnInput, settings Settings, h *host) {
	var end adapters.End
	err := guard(func() error {
		sess, err := a.openSession(ctx, settings)
		if err != nil {
			return err
		}
		end, err = sess.Run(ctx, in, h)
		return errors.Join(err, checkUpdates(end.Updates))
	})
	failpoint.Hit("turn/returned")
	done := endTurn{turn: in.Turn, end: end}
	switch {
	case err == nil:
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		done.stopped, done.end = true, adapters.End{}
	default:
		a.svc.log.Warn("turn failed", "thread", a.id, "turn", in.Turn, "err", err)
		done.err, done.end = turnError(err), adapters.End{}
	}
	done.partial = a.partialTexts()
	a.tell(done)
}

// guard runs f and turns a panic into an error: a session must not take the
// server with it.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// turnError is how a failure of a session reaches clients.
func turnError(err error) *transcript.TurnError {
	if errors.Is(err, adapters.ErrOverflow) {
		return &transcript.TurnError{Code: "contextWindowExceeded", Message: err.Error()}
	}
	return &transcript.TurnError{Code: string(fault.CodeOf(err)), Message: fault.MessageOf(err)}
}

// partialTexts returns what was streamed of the items that are still open.
func (a *actor) partialTexts() map[transcript.ItemID]string {
	texts := map[transcript.ItemID]string{}
	for _, o := range a.svc.hub.OpenTexts(string(a.id)) {
		texts[transcript.ItemID(o.Item)] = o.Text
	}
	return texts
}

// openSession returns the thread's session, opening it on first use. Turns and
// compactions do not overlap, so two goroutines never open one at once.
func (a *actor) openSession(ctx context.Context, settings Settings) (*session, error) {
	type look struct {
		sess  *session
		tools []adapters.ToolSpec
	}
	v, err := a.send(ctx, message{query: func(a *actor) any {
		tools, _ := offered(a.state.Tools, a.svc.cfg.Tools)
		return look{a.session, tools}
	}})
	if err != nil {
		return nil, err
	}
	found := v.(look)
	if found.sess != nil {
		return found.sess, nil
	}
	p, ok := a.svc.provider(settings.Provider)
	if !ok {
		return nil, fault.New(fault.Unavailable, "provider %q is not configured any more", settings.Provider)
	}
	opened, err := p.Adapter.Open(ctx, adapters.OpenParams{Thread: a.id, Model: settings.Model, Cwd: settings.Cwd, Tools: found.tools})
	if err != nil {
		return nil, fmt.Errorf("open session with %s: %w", settings.Provider, err)
	}
	sess := &session{opened, baseTokens(opened.Base())}
	_, err = a.send(ctx, message{query: func(a *actor) any { a.session = sess; return nil }})
	if err != nil {
		// The actor may have taken it all the same.
		a.tell(timed(func(a *actor) {
			if a.session == sess {
				a.session = nil
			}
		}))
		return nil, errors.Join(err, opened.Close())
	}
	return sess, nil
}

// baseTokens is what the base of each request weighs.
func baseTokens(b adapters.Base) int {
	n := transcript.Tokens(transcript.Notice{Text: b.System})
	for _, t := range b.Tools {
		n += transcript.Tokens(transcript.Notice{Text: t.Name + t.Description + string(t.Schema)})
	}
	return n
}

// steer gives the session more input. What it takes is read; what it cannot take
// any more keeps the turn going: see endTurn.
func (a *actor) steer(e steerTurn) {
	if a.session == nil || a.turn == nil {
		return
	}
	sess, svc, id := a.session, a.svc, a.id
	ctx, said := a.ctx, len(a.state.Transcript.Items)
	a.steers++
	a.work.Go(func() {
		err := guard(func() error { return sess.Steer(ctx, e.input) })
		if err != nil {
			svc.log.Info("steer", "thread", id, "err", err)
		}
		a.tell(timed(func(a *actor) { a.steered(said, err) }))
	})
}

// steered notes that a steer returned, and then hears the end of the turn if it
// came in between.
func (a *actor) steered(said int, err error) {
	a.steers = max(0, a.steers-1)
	if err == nil {
		a.readTo = max(a.readTo, said)
	}
	if a.steers == 0 && a.lastEnd != nil {
		m := *a.lastEnd
		a.lastEnd = nil
		a.receive(m)
	}
}

// stopTurn interrupts the running session; one that does not stop is abandoned.
func (a *actor) stopTurn(cause error) {
	r := a.turn
	if r == nil {
		return
	}
	sess := a.session
	a.work.Go(func() {
		if sess != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.svc.cfg.StopAfter/2)
			defer cancel()
			if err := sess.Interrupt(ctx); err != nil {
				a.svc.log.Info("interrupt session", "thread", a.id, "err", err)
			}
		}
		r.cancel(cause)
	})
	a.after(a.svc.cfg.StopAfter, func(a *actor) {
		if a.turn == r {
			a.abandon()
			a.steers, a.lastEnd = 0, nil
			a.receive(message{cmd: endTurn{turn: r.turn, stopped: true, partial: a.partialTexts()}})
		}
	})
}

// stopCompaction cancels the running compaction.
func (a *actor) stopCompaction(cause error) {
	r := a.compact
	if r == nil {
		return
	}
	r.cancel(cause)
	a.after(a.svc.cfg.StopAfter, func(a *actor) {
		if a.compact == r { // its record may have ended long ago: then it only lets the thread go on
			a.abandon()
			a.receive(message{cmd: endCompaction{id: r.compaction, verdict: compaction.Verdict{
				Outcome: compaction.Interrupted, Code: "abandoned", Reason: "the session did not stop in time",
			}}})
		}
	})
}

// after runs f on the actor's goroutine later, unless the actor ended.
func (a *actor) after(d time.Duration, f func(a *actor)) {
	time.AfterFunc(d, func() { a.tell(timed(f)) })
}

// abandon lets go of a session that does not obey. It is closed in the
// background, which may take for ever: nobody waits for it.
func (a *actor) abandon() {
	sess := a.session
	a.session, a.abandoned = nil, true
	if sess == nil {
		return
	}
	a.svc.log.Error("session abandoned", "thread", a.id)
	go func() {
		if err := sess.Close(); err != nil {
			a.svc.log.Warn("close abandoned session", "thread", a.id, "err", err)
		}
	}()
}

// compactNow starts the run of a compaction whose request is journaled.
func (a *actor) compactNow(id transcript.CompactionID) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.compact = &running{compaction: id, cancel: cancel}
	a.preamble() // as large as it is now
	run := compactionRun{
		carried: a.carried.tokens,
		id:      id, request: a.state.CompactRequests[id], settings: a.state.Settings,
		covered: len(a.state.Transcript.Items),
		input: compaction.Input{
			Entries: append([]transcript.Entry{}, a.state.context...),
			Open:    a.unread(),
			Base:    a.base(),
			Window:  a.window,
			Facts:   a.facts(),
		},
	}
	a.work.Go(func() { a.runCompaction(ctx, run) })
}

// unread returns what no compaction may touch in the middle of a turn: what the
// model has not read yet, the prompt it works on, and calls without a result.
func (a *actor) unread() map[transcript.ItemID]bool {
	turn := a.state.activeTurn()
	if turn == nil || turn.Kind != transcript.TurnUser {
		return nil
	}
	open := map[transcript.ItemID]bool{}
	for _, it := range a.state.Transcript.Items[a.readTo:] {
		open[it.ID] = true
	}
	for _, call := range a.state.calls {
		open[call] = true
	}
	for _, it := range slices.Backward(a.state.Transcript.Items) {
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
		Plan: a.state.Plan, Checks: a.svc.cfg.Checks, Window: a.window,
	}
	if s.Sandbox == "workspace-write" && s.Cwd != "" {
		f.WritableRoots = []string{s.Cwd}
	}
	return f
}

// A compactionRun is everything that the run of a compaction needs, taken from
// the state before it starts.
type compactionRun struct {
	id       transcript.CompactionID
	request  CompactRequest
	settings Settings
	covered  int
	carried  int // tokens of the preamble, which is a part of the base
	input    compaction.Input
}

// runCompaction is the goroutine of one compaction.
func (a *actor) runCompaction(ctx context.Context, run compactionRun) {
	done := endCompaction{id: run.id, covered: run.covered}
	err := guard(func() error {
		sess, err := a.openSession(ctx, run.settings)
		if err != nil && (run.request.Route == compaction.RouteNative || ctx.Err() != nil) {
			return err
		}
		can := unreachable(err)
		if err == nil {
			run.input.Base, can = sess.base+run.carried, ability(sess.Compaction())
		}
		run.input.Budget = run.request.Budget
		done.verdict = compaction.Run(ctx, compaction.Job{
			Route: run.request.Route, Writer: run.request.Writer, Input: run.input, Ability: can,
			Enter: func(ctx context.Context, p compaction.Phase, r compaction.Route) error {
				_, err := a.send(ctx, message{cmd: enterPhase{run.id, p, r}})
				return err
			},
			Native: func(ctx context.Context) (compaction.NativeDone, error) {
				res, err := sess.Compact(ctx, run.id, &host{a: a})
				return nativeDone(res), err
			},
		})
		return nil
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		done.verdict = compaction.Verdict{Outcome: compaction.Interrupted, Reason: context.Cause(ctx).Error()}
	default:
		a.svc.log.Error("compaction failed", "thread", a.id, "compaction", run.id, "err", err)
		done.verdict = compaction.Verdict{Outcome: compaction.Failed, Code: string(fault.CodeOf(err)), Reason: fault.MessageOf(err)}
	}
	done.verdict = cancelledBy(ctx, done.verdict)
	failpoint.Hit("compaction/verdict")
	a.tell(done)
}

// unreachable is the ability of a session that could not be opened: a local
// compaction does not need it.
func unreachable(err error) compaction.Ability {
	return compaction.Ability{Refusal: &compaction.Refusal{
		Code: "sessionUnavailable", Reason: "the provider's session could not be opened: " + fault.MessageOf(err), Remedy: adapters.UseLocal,
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

func nativeDone(r adapters.NativeResult) compaction.NativeDone {
	done := compaction.NativeDone{Info: compaction.NativeInfo{Form: r.Form}}
	if r.Disclosed != nil {
		done.Info.Disclosed = &r.Disclosed
	}
	if r.Usage != nil {
		done.Usage = &compaction.Usage{InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens}
	}
	return done
}
