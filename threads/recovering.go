package threads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file finds out what became of a native compaction whose end nobody saw: the
// server was killed, or its session was abandoned. The provider is asked for it. Until
// it has answered, or the time for that is over, the compaction's turn goes on and
// inputs wait in the queue; a server that dies meanwhile asks again.

// recoverWithin is the default of Config.RecoverWithin.
const recoverWithin = time.Minute

// recoverCompaction asks the provider.
type recoverCompaction struct{ id transcript.CompactionID }

func (recoverCompaction) effect() {}

// askable reports whether only the provider can tell how a compaction ended: it was
// asked for one, in a turn that is for nothing else.
func (s *state) askable(r *compaction.Record) bool {
	turn := s.activeTurn()
	return s.unseen(r) && turn.Kind == transcript.TurnCompact
}

// unseen is askable for a thread whose server died: also of a compaction for an overflow,
// while which no session runs the turn.
func (s *state) unseen(r *compaction.Record) bool {
	turn := s.activeTurn()
	return r != nil && !r.Terminal() && r.Trigger != compaction.TriggerProvider &&
		r.Route != nil && *r.Route == compaction.RouteNative &&
		(r.Phase == compaction.PhaseRunning || r.Phase == compaction.PhaseCommitting) &&
		turn != nil && turn.ID == r.TurnID && (turn.Kind == transcript.TurnCompact || r.Trigger.Recovers())
}

// keepsHistory reports whether the thread's provider keeps its own history, so that
// something may have happened there that the journal does not know. Of one that is
// not configured any more nobody can say that it does not.
func (a *actor) keepsHistory() bool {
	p, ok := a.svc.provider(a.state.Settings.Provider)
	return !ok || isRuntime(p)
}

// recoverNow begins to ask the provider.
func (a *actor) recoverNow(id transcript.CompactionID) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	r := &running{compaction: id, cancel: cancel, recovers: true}
	a.compact = r
	settings := a.state.Settings
	a.work.Go(func() { a.runRecovery(ctx, r, settings) })
	a.after(a.svc.cfg.RecoverWithin+a.svc.cfg.StopAfter, func(a *actor) {
		if a.compact == r {
			a.abandon()
			a.receive(message{cmd: endRecovery{r, a.unheard("the session did not answer in time")}})
		}
	})
}

// runRecovery is the goroutine of one recovery.
func (a *actor) runRecovery(ctx context.Context, r *running, settings Settings) {
	end := endRecovery{run: r}
	err := guard(func() (err error) {
		end.verdict, err = a.recoverWith(ctx, r.compaction, settings)
		return err
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
	case errors.Is(cause, errClosing):
		end.verdict = nil // the next server asks
	case cause != nil:
		end.verdict = uncertain("nobody waited for the provider's answer: " + cause.Error())
	default:
		a.svc.log.Error("recover compaction", "thread", a.id, "compaction", r.compaction, "err", err)
		end.verdict = uncertain(messageOf(err))
	}
	a.tell(end)
}

// uncertain is the verdict where nobody can tell.
func uncertain(reason string) *compaction.Verdict {
	return &compaction.Verdict{
		Outcome: compaction.Uncertain, Route: compaction.RouteNative, Code: codeNativeUncertain,
		Reason: "the server did not see how the compaction ended: " + reason,
		Remedy: "go on: the next report of the provider shows the size of its context",
	}
}

// unheard is the verdict of a recovery that is given up; nil if the thread is given up
// with it, so that the next load asks again.
func (a *actor) unheard(reason string) *compaction.Verdict {
	if a.closing || a.failed != nil || a.retired {
		return nil
	}
	return uncertain(reason)
}

// recoverWith asks the provider and returns how the compaction ended. An error means
// that it could not be asked.
func (a *actor) recoverWith(ctx context.Context, id transcript.CompactionID, settings Settings) (*compaction.Verdict, error) {
	limit := a.svc.cfg.RecoverWithin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	type look struct {
		rec     compaction.Record
		session string
	}
	v, err := a.send(ctx, message{query: func(a *actor) any {
		return look{valueOf(a.state.compaction(id)), a.state.Native.ID}
	}})
	if err != nil {
		return nil, err
	}
	rec, asked := v.(look).rec, v.(look).session
	failpoint.Hit("recovery/asking")
	sess, err := a.openSession(ctx, settings)
	if err != nil {
		return uncertain("the provider's session could not be opened: " + messageOf(causeOf(ctx, err))), leftOpen(ctx)
	}
	r, ok := sess.Session.(adapters.Recoverer)
	switch {
	case sess.NativeID() != asked: // a fresh one knows nothing of it
		return uncertain("the provider does not know the session any more that was to be compacted"), nil
	case !ok:
		return uncertain("the provider has no way to tell"), nil
	}
	res, err := r.Recover(ctx, adapters.Unfinished{ID: id, StartedAt: transcript.FromMillis(startedAt(rec))})
	failpoint.Hit("recovery/answered")
	if err != nil {
		return notRecovered(causeOf(ctx, err)), leftOpen(ctx)
	}
	done := nativeDone(res)
	verdict := &compaction.Verdict{Outcome: compaction.Completed, Route: compaction.RouteNative, Native: &done}
	verdict.Warnings = append(done.Warnings, "the server did not see the compaction end; the provider told of it afterwards")
	if rec.Phase != compaction.PhaseCommitting {
		_, err = a.send(context.WithoutCancel(ctx), message{cmd: enterPhase{id: id, phase: compaction.PhaseCommitting, route: compaction.RouteNative}})
	}
	return verdict, err
}

// leftOpen is why a verdict is left to the next server: this one is closing.
func leftOpen(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errClosing) {
		return errClosing
	}
	return nil
}

// causeOf is why something failed: what ended its context, if that is what happened.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fault.Wrap(fault.Cancelled, err, "%s", cause)
	}
	return err
}

func startedAt(r compaction.Record) int64 {
	if r.StartedAt != nil {
		return *r.StartedAt
	}
	return r.RequestedAt
}

// notRecovered is the verdict where the provider does not say that it compacted. Only
// its word that it did not makes that sure.
func notRecovered(err error) *compaction.Verdict {
	switch {
	case errors.Is(err, adapters.ErrNotCompacted):
		v := failedVerdict(err, compaction.NativeDone{})
		v.Reason = "the server did not see how the compaction ended; the provider says that it did not happen"
		return &v
	case errors.Is(err, adapters.ErrLossy):
		v := failedVerdict(err, compaction.NativeDone{})
		return &v
	case errors.Is(err, adapters.ErrUncertain):
		return uncertain(detailed(err, adapters.ErrUncertain, "the provider cannot tell either"))
	}
	return uncertain(messageOf(err))
}

// endRecovery is the end of a recovery. Without a verdict the compaction stays open.
type endRecovery struct {
	run     *running
	verdict *compaction.Verdict
}

func (c endRecovery) ended(a *actor) {
	if a.compact == c.run {
		c.run.cancel(nil)
		a.compact = nil
	}
}

func (c endRecovery) decide(s *state, env env) (decision, error) {
	if c.verdict == nil {
		return decision{}, nil
	}
	d, err := endCompaction{id: c.run.compaction, verdict: *c.verdict}.decide(s, env)
	turn := s.activeTurn()
	if err != nil || turn == nil || turn.Kind == transcript.TurnCompact {
		return d, err
	}
	end, err := endTurn{turn: turn.ID, stopped: true, died: true}.decide(s, env) // it died with its server
	d.payloads, d.effects = append(d.payloads, end.payloads...), append(d.effects, end.effects...)
	return d, err
}

// abandonCompaction lets go of a run that does not stop. A native one may still take
// effect: the provider is asked, or the next server asks it. The session is closed only
// if that is what does not stop: otherwise a turn may be using it.
func (a *actor) abandonCompaction(r *running, cause error) {
	r.over, a.abandoned = true, true
	a.svc.log.Warn("a compaction does not stop and is not waited for", "thread", a.id, "compaction", r.compaction)
	if a.compact != r {
		return // another one has taken its place
	}
	rec := a.state.running()
	if own := a.state.compaction(r.compaction); own != nil && own.Route != nil && *own.Route == compaction.RouteNative {
		a.abandon()
	}
	switch {
	case rec == nil || rec.CompactionID != r.compaction || !a.state.askable(rec) || !a.keepsHistory():
		a.receive(message{cmd: endCompaction{id: r.compaction, run: r, verdict: abandonedBy(rec, cause)}})
	case r.recovers:
		a.receive(message{cmd: endRecovery{r, a.unheard("the session did not stop in time")}})
	case a.closing || a.failed != nil || a.retired:
		a.receive(message{cmd: endRecovery{run: r}})
	default:
		r.cancel(nil)
		a.perform(recoverCompaction{r.compaction})
	}
}
