package codex

import (
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file makes updates of the items that codex begins and completes.

// emptyOf is the text that a method of codex streams.
func emptyOf(method string) transcript.Body {
	if method == "item/reasoning/summaryTextDelta" {
		return transcript.Reasoning{}
	}
	return transcript.AgentMessage{}
}

// started opens an item. Of what has no shape of ours the end is enough.
func (r *run) started(v *itemView) error {
	var err error
	switch v.Type {
	case "agentMessage":
		r.line.Begin(v.ID, transcript.AgentMessage{})
	case "reasoning":
		r.line.Begin(v.ID, transcript.Reasoning{})
	case "commandExecution":
		_, err = r.line.Show(v.ID, v.command())
	case "fileChange":
		_, err = r.line.Show(v.ID, v.change())
	case "mcpToolCall", "dynamicToolCall":
		_, err = r.line.Show(v.ID, r.s.call(v))
	case "contextCompaction":
		err = r.compactionBegan(v.ID)
	}
	return err
}

// call is a tool call, by an id of its own.
func (s *session) call(v *itemView) transcript.ToolCall {
	return transcript.ToolCall{CallID: s.calls.Unique(v.ID), Name: v.toolName(), Arguments: v.arguments()}
}

// completed closes an item.
func (r *run) completed(v *itemView) error {
	switch v.Type {
	case "userMessage", "hookPrompt":
		return nil // the server has its own
	case "agentMessage":
		return r.line.Text(v.ID, transcript.AgentMessage{}, v.Text)
	case "reasoning":
		return r.line.Text(v.ID, transcript.Reasoning{}, v.reasoning())
	case "commandExecution":
		return r.line.Complete(v.ID, v.command())
	case "fileChange":
		return r.line.Complete(v.ID, v.change())
	case "mcpToolCall", "dynamicToolCall":
		var call transcript.ToolCall
		if !r.line.Has(v.ID) {
			call = r.s.call(v)
		}
		return r.line.Answer(v.ID, call, v.result())
	case "contextCompaction":
		return r.compactionEnded(v.ID)
	}
	return r.line.Whole(v.opaque())
}
