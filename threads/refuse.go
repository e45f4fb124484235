package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// RefuseTurn tells the clients of a thread why what they asked for was not done:
// by a turn without items that fails at once, since they wait for a turn, or, while
// the thread is at work, by a warning.
func (s *Service) RefuseTurn(ctx context.Context, id transcript.ThreadID, why string) error {
	if err := checkText("why", why, maxFact); err != nil {
		return err
	}
	_, err := s.do(ctx, id, message{cmd: inUse{command: refuseTurn{why}}})
	return err
}

type refuseTurn struct{ why string }

func (c refuseTurn) decide(s *state, env env) (decision, error) {
	if rests := s.mustRest() == nil; !rests { // it is told beside what runs
		return decision{payloads: []Payload{WarningRaised{c.why}}}, nil
	}
	turn := transcript.Turn{ID: transcript.TurnID(env.newID()), Kind: transcript.TurnUser, Status: transcript.TurnInProgress, StartedAt: env.now}
	ended := turn
	ended.Status, ended.CompletedAt = transcript.TurnFailed, env.now
	ended.Error = &transcript.TurnError{Message: c.why, Code: string(fault.Refused)}
	return decision{payloads: []Payload{
		StatusChanged{Status: StatusActive},
		TurnStarted{Turn: turn},
		StatusChanged{Status: StatusIdle},
		ErrorRaised{TurnID: turn.ID, Error: *ended.Error},
		TurnCompleted{Turn: ended},
	}}, nil
}
