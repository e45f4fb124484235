package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// This file holds what only runtimes ask of the server, which keep their own history
// and compact it by themselves.

// Reanchor implements adapters.Host.
func (h *host) Reanchor(ctx context.Context) (string, error) {
	type restated struct {
		text string
		err  error
	}
	v, err := h.a.send(ctx, message{query: func(a *actor) any {
		text, err := compaction.Reanchor(a.facts(), a.state.context, a.unread())
		return restated{text, err}
	}})
	if err != nil {
		return "", err
	}
	r := v.(restated)
	return r.text, r.err
}
