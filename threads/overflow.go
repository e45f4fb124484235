package threads

import (
	"context"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// LearnedFor is how long a window counts that a provider named in an error: some
// name another one for the same model on another day.
const LearnedFor = 24 * time.Hour

// Overflowed implements adapters.Host.
func (h *host) Overflowed(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
	return adapters.Context{}, &adapters.Error{Class: adapters.ClassOverflow, Message: "the request does not fit the context window", Err: o.Err}
}
