package threads

import (
	"context"
	"errors"

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

// MayCompact implements adapters.Host.
func (h *host) MayCompact(ctx context.Context) (instructions string, err error) {
	hooks := h.a.svc.cfg.Hooks
	if hooks == nil {
		return "", ctx.Err()
	}
	v, err := h.a.send(ctx, message{query: func(a *actor) any {
		r := compaction.NewRecord()
		if open := a.state.running(); open != nil {
			r = *open
		}
		r.ThreadID, r.TurnID = a.id, h.turn
		return a.hookEvent(r, a.state.Settings, "")
	}})
	if err != nil {
		return "", err
	}
	failed := guard(func() error {
		instructions, _, err = hooks.PreCompact(ctx, v.(HookEvent))
		return nil
	})
	return instructions, errors.Join(err, failed)
}
