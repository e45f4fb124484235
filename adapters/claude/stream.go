package claude

import (
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file makes updates of what the model says: events while it streams, and a whole
// frame for each block when it is complete.

// textKey is the key of a text: of the n-th block of a message.
func textKey(id string, n int) string { return fmt.Sprintf("%s:%d", id, n) }

// stream takes an event of the Messages API. Those of sub-agents are no part of this
// thread.
func (r *run) stream(f *frame) error {
	e := f.Event
	if e == nil || f.child() {
		return nil
	}
	switch e.Type {
	case "message_start":
		if e.Message == nil {
			return nil
		}
		r.report()
		r.current, r.model, r.blocks, r.begun = e.Message.ID, e.Message.Model, 0, usage{}
		if e.Message.Usage != nil {
			r.begun = *e.Message.Usage
		}
	case "content_block_delta":
		key := textKey(r.current, e.Index)
		switch e.Delta.Type {
		case "text_delta":
			return r.line.Delta(key, transcript.AgentMessage{}, e.Delta.Text)
		case "thinking_delta":
			return r.line.Delta(key, transcript.Reasoning{}, e.Delta.Thinking)
		}
	case "message_delta":
		if e.Usage != nil {
			r.measure(*e.Usage)
		}
	}
	return nil
}

// measure notes what the newest request of the main loop used: what the context holds
// now. Figures that are not told at the end were told at the beginning; those of an
// answer that was cut off are zero.
func (r *run) measure(u usage) {
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input, u.CacheRead, u.CacheWrite = r.begun.Input, r.begun.CacheRead, r.begun.CacheWrite
	}
	input := u.Input + u.CacheRead + u.CacheWrite
	if input == 0 {
		return
	}
	r.s.mu.Lock()
	r.s.context = input + u.Output
	window := r.s.window
	r.s.mu.Unlock()
	r.usage = &adapters.UsageReported{Window: window, Usage: adapters.Usage{
		InputTokens: input, CachedInputTokens: u.CacheRead, CacheWriteInputTokens: u.CacheWrite, OutputTokens: u.Output,
	}}
}

// synthetic is the model of messages that Claude Code makes itself.
const synthetic = "<synthetic>"

// assistant takes a frame with blocks that are complete.
func (r *run) assistant(f *frame) error {
	m := f.Message
	if m == nil || f.child() {
		return nil
	}
	if m.Model == synthetic && len(f.Error) > 0 && string(f.Error) != "null" {
		r.cause = stringIn(f.Error)
		return nil // the result says it
	}
	if m.ID != r.current { // it was not streamed
		r.current, r.blocks = m.ID, 0
	}
	for _, b := range m.blocks() {
		key := textKey(m.ID, r.blocks)
		r.blocks++
		var err error
		switch b.Type {
		case "text":
			err = r.line.Text(key, transcript.AgentMessage{}, b.Text)
		case "thinking":
			err = r.line.Text(key, transcript.Reasoning{}, b.Thinking)
		case "redacted_thinking":
		case "tool_use", "server_tool_use", "mcp_tool_use":
			err = r.called(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// user takes a frame with results of tools. What else it holds is the conversation's
// own bookkeeping.
func (r *run) user(f *frame) error {
	if f.Message == nil {
		return nil
	}
	if f.Synthetic && r.own != nil && r.own.summary == "" {
		r.own.summary = textOf(f.Message.Content)
		return nil
	}
	for _, b := range f.Message.blocks() {
		if b.Type != "tool_result" {
			continue
		}
		if f.child() && !r.line.Has(b.ToolUseID) { // of a sub-agent; one that was asked about is ours too
			continue
		}
		if err := r.returned(b, f.ToolResult); err != nil {
			return err
		}
	}
	return nil
}
