package adaptertest

import (
	"context"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Overflowed implements adapters.Host.
func (h *Host) Overflowed(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
	h.mu.Lock()
	h.mustTurn("Overflowed")
	h.checkSettled("an overflow is reported")
	h.overflows = append(h.overflows, o)
	err := h.over(ctx)
	h.mu.Unlock()
	if err != nil {
		return adapters.Context{}, err
	}
	if o.Err == nil {
		h.r.Errorf("an overflow without the error of the provider")
	}
	if h.OnOverflow == nil {
		return adapters.Context{}, &adapters.Error{Class: adapters.ClassOverflow, Message: "the request does not fit", Err: o.Err}
	}
	return h.OnOverflow(ctx, o)
}

// Lighten implements adapters.Host.
func (h *Host) Lighten(ctx context.Context, heavy adapters.Heavy) (int, error) {
	h.mu.Lock()
	h.mustTurn("Lighten")
	h.checkSettled("images are left out")
	err := h.over(ctx)
	h.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case heavy.Excess <= 0 || heavy.Excess > heavy.Bytes || len(heavy.Images) == 0:
		h.r.Errorf("too many bytes, of which nothing must go: %+v", heavy)
	case h.OnLighten != nil:
		return h.OnLighten(ctx, heavy)
	}
	return 0, nil
}

// Overflows returns what was reported of requests that did not fit.
func (h *Host) Overflows() []adapters.Overflow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.overflows)
}

// Warnings returns what the user was warned of.
func (h *Host) Warnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.warned)
}

// Shrink draws a boundary: from now on notes stand in each context for what was
// before the last message of the user.
func (h *Host) Shrink(notes string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, it := range h.items {
		if it.Body.Kind() == transcript.KindUserMessage {
			h.begin = i
		}
	}
	h.notes = &transcript.Entry{Form: transcript.FormWhole, Item: transcript.Item{
		ID: "notes", Body: transcript.Checkpoint{Version: "suite", Text: notes},
	}}
}

// Room is an OnOverflow that draws a boundary and adds the note that the server
// adds: that the last answer was cut, or that the turn goes on.
func (h *Host) Room(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
	h.Shrink("what was done so far")
	note := "the history was compacted; go on"
	if o.Length {
		note = "the last answer was cut; go on where it ended"
	}
	h.mu.Lock()
	h.add(&item{Item: transcript.Item{ID: h.newID(), Turn: h.turn, Body: transcript.Notice{Source: "goOn", Text: note}}})
	h.mu.Unlock()
	return h.Context(ctx)
}

// warn records a warning. Callers hold mu.
func (h *Host) warn(message string) {
	h.warned = append(h.warned, message)
	switch {
	case message == "":
		h.r.Errorf("a warning says nothing")
	case !h.WantWarnings:
		h.r.Errorf("the session warns: %s", message)
	}
}
