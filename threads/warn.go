package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Warn tells the clients of a thread something that stops nothing.
func (s *Service) Warn(ctx context.Context, id transcript.ThreadID, text string) error {
	if err := checkText("warning", text, maxFact); err != nil {
		return err
	}
	_, err := s.do(ctx, id, message{cmd: warn{text}})
	return err
}

type warn struct{ text string }

func (c warn) decide(*state, env) (decision, error) {
	return decision{payloads: []Payload{WarningRaised{c.text}}}, nil
}
