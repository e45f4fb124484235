package threads

import (
	"context"
	"errors"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// errCancelled is the cause of a compaction that a client ended.
var errCancelled = errors.New("cancelled by a client")

// CancelCompaction ends a compaction that has not ended, or has not even begun: its
// outcome is cancelled and the context stays as it is. It returns the terminal
// record, at once: nobody waits for a writer that does not stop. Only the native
// compaction of a provider may be about to take effect, so its record ends when the
// session has let go of it; that is awaited.
func (s *Service) CancelCompaction(ctx context.Context, id transcript.ThreadID, cid transcript.CompactionID) (CompactAck, error) {
	ack, err := ask[CompactAck](ctx, s, id, cancelCompaction{cid})
	if err == nil && !ack.Record.Terminal() {
		ack, err = s.awaitCompaction(ctx, id, cid)
	}
	return ack, err
}

// cancelCompaction is CancelCompaction.
type cancelCompaction struct{ id transcript.CompactionID }

func (c cancelCompaction) decide(s *state, env env) (decision, error) {
	rec := s.compaction(c.id)
	switch {
	case rec == nil:
		return decision{}, fault.New(fault.NotFound, "thread %s has no compaction %s", s.ID, c.id)
	case rec.Terminal():
		return decision{}, fault.New(fault.Conflict, "compaction %s has ended already: it is %s", c.id, *rec.Outcome)
	case rec.Trigger == compaction.TriggerProvider:
		return decision{}, fault.New(fault.Refused, "compaction %s is the provider's own and nobody else's to cancel; interrupt turn %s to stop it", c.id, rec.TurnID)
	case rec.Phase == compaction.PhaseCommitting:
		return decision{}, fault.New(fault.Conflict, "compaction %s is being committed and cannot be cancelled any more; undo it instead", c.id)
	}
	if rec.Route != nil && *rec.Route == compaction.RouteNative && rec.Phase == compaction.PhaseRunning {
		return decision{effects: []effect{cancelRun{}}, answer: recordOf(c.id)}, nil
	}
	v := compaction.Verdict{Outcome: compaction.Cancelled, Reason: errCancelled.Error()}
	if rec.Route != nil {
		v.Route = *rec.Route
	}
	d, err := endCompaction{id: c.id, verdict: v}.decide(s, env)
	if err != nil {
		return decision{}, err
	}
	d.effects = append([]effect{cancelRun{}}, d.effects...)
	d.answer = recordOf(c.id)
	return d, nil
}

// cancelRun stops the run of a compaction that a client cancelled.
type cancelRun struct{}

func (cancelRun) effect() {}

// cancelledBy is the verdict of a run as its cause has it: what a client ended is
// cancelled, and not interrupted.
func cancelledBy(ctx context.Context, v compaction.Verdict) compaction.Verdict {
	if v.Outcome == compaction.Interrupted && errors.Is(context.Cause(ctx), errCancelled) {
		v.Outcome, v.Reason = compaction.Cancelled, errCancelled.Error()
	}
	return v
}

// abandonedBy is the verdict of a run that did not stop in time. Its record may have
// ended before.
func abandonedBy(rec *compaction.Record, cause error) compaction.Verdict {
	v := compaction.Verdict{Outcome: compaction.Interrupted, Code: "abandoned", Reason: "the session did not stop in time"}
	if errors.Is(cause, errCancelled) {
		v.Outcome = compaction.Cancelled
	}
	if rec != nil && rec.Route != nil {
		v.Route = *rec.Route
	}
	return v
}
