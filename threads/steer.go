package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// SteerTurn puts an input into the running turn, which must be expect. It fails
// with Busy and a NotSteerable as data while the thread is compacted.
func (s *Service) SteerTurn(ctx context.Context, p StartTurnParams, expect transcript.TurnID) (TurnAck, error) {
	p.Mode = ModeSteer
	if err := checkInput(p.Input); err != nil {
		return TurnAck{}, err
	}
	blobs, err := s.blobs(ctx, "input", p.Input, p.Images)
	if err != nil {
		return TurnAck{}, err
	}
	return ask[TurnAck](ctx, s, p.Thread, steerInto{acceptInput{p, requestHash(steerHashed{p.hashed(), expect}), blobs}, expect})
}

// steerHashed is what an idempotency key of SteerTurn stands for.
type steerHashed struct {
	StartTurnParams
	Expect transcript.TurnID
}

// NotSteerable is the data of the fault of a steer that came during a compaction.
type NotSteerable struct{ TurnKind transcript.TurnKind }

// steerInto is SteerTurn. The texts of its faults are codex's (codex 0.171,
// observed); on the last one clients queue the input instead.
type steerInto struct {
	acceptInput
	expect transcript.TurnID
}

func (c steerInto) decide(s *state, env env) (decision, error) {
	if _, again, err := s.repeated(c.p.IdempotencyKey, c.hash); again || err != nil {
		return c.acceptInput.decide(s, env)
	}
	turn := s.activeTurn()
	switch {
	case turn != nil && (turn.Kind == transcript.TurnCompact || s.compacting() != nil):
		return decision{}, &fault.Error{Code: fault.Busy, Message: "cannot steer a compact turn", Data: NotSteerable{transcript.TurnCompact}}
	case turn == nil:
		return decision{}, fault.New(fault.Invalid, "no active turn to steer")
	case turn.ID != c.expect:
		return decision{}, fault.New(fault.Invalid, "expected active turn id `%s` but found `%s`", c.expect, turn.ID)
	}
	return c.acceptInput.decide(s, env)
}
