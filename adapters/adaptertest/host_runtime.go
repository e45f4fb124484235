package adaptertest

import "context"

// This file holds what a Host answers to runtimes only.

// Reanchor implements adapters.Host.
func (h *Host) Reanchor(ctx context.Context) (string, error) {
	if h.OnReanchor == nil {
		return "", ctx.Err()
	}
	return h.OnReanchor(ctx)
}

// MayCompact implements adapters.Host.
func (h *Host) MayCompact(ctx context.Context) (instructions string, err error) {
	if h.OnMayCompact == nil {
		return "", ctx.Err()
	}
	return h.OnMayCompact(ctx)
}
