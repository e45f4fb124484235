package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Answer answers a request. The first valid answer wins; a later one fails with
// Conflict and the outcome as data, one that is not valid with Invalid, changing
// nothing.
func (s *Service) Answer(_ context.Context, _ transcript.ThreadID, _ RequestID, _ RequestAnswer, by string) error {
	return fault.New(fault.Unavailable, "not yet")
}

// Ask implements adapters.Host.
func (h *host) Ask(context.Context, adapters.Question) (adapters.Answer, error) {
	return adapters.Answer{}, fault.New(fault.Unavailable, "not yet")
}
