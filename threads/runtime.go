package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// This file holds what only runtimes ask of the server, which keep their own history
// and compact it by themselves.

// Reanchor implements adapters.Host: how things stand, with the pins. A thread whose
// pins are not what was pinned has nothing to say about them.
func (h *host) Reanchor(ctx context.Context) (string, error) {
	type restated struct {
		text string
		err  error
	}
	v, err := h.a.send(ctx, message{query: func(a *actor) any {
		if err := a.state.checkPins(); err != nil {
			return restated{"", err}
		}
		return restated{joined(pinsText(a.state.Pins), a.restate()), nil}
	}})
	if err != nil {
		return "", err
	}
	r := v.(restated)
	if r.err != nil {
		return "", fault.Wrap(fault.CodeOf(r.err), r.err, "restate the thread: %s", fault.MessageOf(r.err))
	}
	return r.text, nil
}
