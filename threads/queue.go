package threads

import (
	"context"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Queue returns what waits for its turn, in order.
func (s *Service) Queue(ctx context.Context, id transcript.ThreadID) ([]QueuedTurn, error) {
	return query(ctx, s, id, func(a *actor) []QueuedTurn { return append([]QueuedTurn{}, a.state.Queue...) })
}

// DeleteQueued takes an input out of the queue; false if it is not there.
func (s *Service) DeleteQueued(ctx context.Context, id transcript.ThreadID, turn transcript.TurnID) (bool, error) {
	return ask[bool](ctx, s, id, dequeue{turn})
}

// dequeue is DeleteQueued. The input never becomes a turn.
type dequeue struct{ turn transcript.TurnID }

func (c dequeue) decide(s *state, _ env) (decision, error) {
	rest, found := s.queueWithout(c.turn)
	d := decision{answer: func(*state) any { return found }}
	if found {
		d.payloads = []Payload{QueueChanged{Queue: rest}}
	}
	return d, nil
}

// queueWithout returns the queue without an input, and whether that was in it.
func (s *state) queueWithout(turn transcript.TurnID) ([]QueuedTurn, bool) {
	i := slices.IndexFunc(s.Queue, func(q QueuedTurn) bool { return q.TurnID == turn })
	if i < 0 {
		return s.Queue, false
	}
	return slices.Delete(append([]QueuedTurn{}, s.Queue...), i, i+1), true
}
