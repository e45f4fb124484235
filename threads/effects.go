package threads

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A session is the thread's open session with its provider.
type session struct {
	adapters.Session
	settings Settings    // that it was opened with
	base     int         // tokens of its Base, by transcript.Ruler
	bare     int         // of its Base, by transcript.EstimateText
	adopted  atomic.Bool // the thread uses it, and closes it
}

// perform does one effect of a decision that is durable.
func (a *actor) perform(e effect) {
	switch e := e.(type) {
	case runTurn:
		a.begin(adapters.TurnInput{Turn: e.turn, Input: e.input, Notes: e.notes})
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
	case recoverCompaction:
		a.recoverNow(e.id)
	case stopCompaction:
		a.stopCompaction(errInterrupted)
	case cancelRun:
		a.stopCompaction(errCancelled)
	case resumeContext:
		a.answerBoundary()
	case tellHooks:
		a.tellHooks(e)
	case useSession:
		a.use(e.sess)
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
	in.Approval, in.Sandbox, in.Effort = settings.ApprovalPolicy, settings.Sandbox, settings.Effort
	box := a.toolbox()
	a.work.Go(func() { a.runTurn(ctx, in, settings, &host{a: a, turn: in.Turn, tools: box.client, own: box.own}) })
}

// runTurn is the goroutine of one turn: it drives the session to the turn's end
// and reports it.
func (a *actor) runTurn(ctx context.Context, in adapters.TurnInput, settings Settings, h *host) {
	var end adapters.End
	var native bool
	err := guard(func() error {
		sess, e, err := a.drive(ctx, in, settings, h)
		if sess == nil {
			return err
		}
		end, native = e, sess.Compaction().Native != nil
		return errors.Join(err, checkUpdates(end.Updates))
	})
	failpoint.Hit("turn/returned")
	done := endTurn{turn: in.Turn, end: end, native: native}
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

// messageOf is what clients are told about a failure: the domain's own words, or the
// provider's, which are made to be shown.
func messageOf(err error) string {
	if e, ok := errors.AsType[*adapters.Error](err); ok {
		return e.Message
	}
	return fault.MessageOf(err)
}

// turnError is how a failure of a session reaches clients.
func turnError(err error) *transcript.TurnError {
	if b, ok := errors.AsType[errBudget](err); ok {
		return &transcript.TurnError{Code: codeBudgetExhausted, Message: b.Error()}
	}
	if e, ok := errors.AsType[*adapters.Error](err); ok {
		return &transcript.TurnError{Code: string(e.Class), Message: e.Message}
	}
	if errors.Is(err, adapters.ErrOverflow) {
		return &transcript.TurnError{Code: string(adapters.ClassOverflow), Message: err.Error()}
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
		if !r.over { // its record may have ended long ago: then it only lets the thread go on
			a.abandonCompaction(r, cause)
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
	gone := make(chan struct{})
	a.parting = gone
	go func() {
		defer close(gone)
		if err := sess.Close(); err != nil {
			a.svc.log.Warn("close abandoned session", "thread", a.id, "err", err)
		}
	}()
}
