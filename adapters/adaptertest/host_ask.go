package adaptertest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Asked returns the questions so far.
func (h *Host) Asked() []adapters.Question {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// Park makes the host leave a turn as it is when its run ends, as a server does
// that stops while the turn waits for answers.
func (h *Host) Park() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parked = true
}

// Continue goes on with the turn that was parked.
func (h *Host) Continue(ctx context.Context, s adapters.Session) (adapters.End, error) {
	h.mu.Lock()
	h.running, h.parked, h.goesOn = true, false, true
	for _, it := range h.items {
		it.ran = it.ran && it.answered
	}
	in := adapters.TurnInput{Turn: h.turn, Continue: true, Approval: "on-request", Sandbox: "workspace-write"}
	h.mu.Unlock()
	return h.run(ctx, s, in)
}

// Ask implements adapters.Host.
func (h *Host) Ask(ctx context.Context, q adapters.Question) (adapters.Answer, error) {
	h.mu.Lock()
	h.mustTurn("Ask")
	h.checkQuestion(q)
	h.asked = append(h.asked, q)
	err := h.over(ctx)
	h.mu.Unlock()
	if err != nil {
		return adapters.Answer{}, err
	}
	if h.OnAsk == nil {
		return adapters.Answer{Decision: adapters.Decline}, nil
	}
	a, err := h.OnAsk(ctx, q)
	if err == nil && a.Decision == adapters.Cancel {
		h.mu.Lock()
		h.stopped = true
		h.stop()
		h.mu.Unlock()
	}
	return a, err
}

// checkQuestion reports a question about nothing, and starts the item of one that
// is not open yet. Callers hold mu.
func (h *Host) checkQuestion(q adapters.Question) {
	var about transcript.Item
	switch q := q.(type) {
	case adapters.CommandApproval:
		about = q.Item
		if q.Command == "" || q.Cwd == "" {
			h.r.Errorf("a question names no command or no folder: %+v", q)
		}
	case adapters.FileApproval:
		about = q.Item
	default:
		h.r.Errorf("unknown question %T", q)
		return
	}
	it := h.byID[about.ID]
	switch {
	case it == nil:
		if about.Body != nil && !slices.Contains([]transcript.Kind{transcript.KindCommand, transcript.KindFileChange}, about.Body.Kind()) {
			h.r.Errorf("item %s, which a question starts, is a %s; it must be a command or a file change", about.ID, about.Body.Kind())
		}
		h.start(about)
	case !it.open || it.answered:
		h.r.Errorf("a question is about item %s, which is complete", about.ID)
	}
}

// runAsking is the tool AskTool: it asks, and does nothing.
func (h *Host) runAsking(ctx context.Context, call transcript.Item) (transcript.ToolResult, error) {
	var args struct{ Command, Cwd string }
	if err := json.Unmarshal(call.Body.(transcript.ToolCall).Arguments, &args); err != nil {
		return transcript.ToolResult{}, err
	}
	a, err := h.Ask(ctx, adapters.CommandApproval{Item: call, Command: args.Command, Cwd: args.Cwd})
	if err != nil {
		return transcript.ToolResult{}, err
	}
	if !a.Decision.Allows() {
		return transcript.ToolResult{Output: transcript.TextParts("declined"), IsError: true}, nil
	}
	return transcript.ToolResult{Output: transcript.TextParts("ran " + args.Command)}, nil
}
