package codex

import (
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file makes updates of the items that codex begins and completes.

// started opens an item. A text is opened by its first words.
func (r *run) started(v *itemView) error {
	switch v.Type {
	case "agentMessage":
		r.add(v.ID, &item{Item: r.item(transcript.AgentMessage{})})
	case "reasoning":
		r.add(v.ID, &item{Item: r.item(transcript.Reasoning{})})
	case "commandExecution":
		return r.show(v.ID, &item{Item: r.item(v.command())})
	case "fileChange":
		return r.show(v.ID, &item{Item: r.item(v.change())})
	case "mcpToolCall", "dynamicToolCall":
		call := transcript.ToolCall{CallID: r.s.callID(v.ID), Name: v.toolName(), Arguments: v.arguments()}
		return r.show(v.ID, &item{Item: r.item(call)})
	case "contextCompaction":
		return r.compactionBegan(v.ID)
	}
	return nil // of what has no shape of ours the end is enough
}

func (r *run) add(id string, it *item) {
	if r.open[id] == nil {
		r.order = append(r.order, id)
	}
	r.open[id] = it
}

// show opens an item at the host.
func (r *run) show(id string, it *item) error {
	it.shown = true
	r.add(id, it)
	return r.emit(adapters.ItemStarted{Item: it.Item})
}

// callID makes the id of a call unique within the session.
func (s *session) callID(id string) transcript.CallID {
	s.mu.Lock()
	defer s.mu.Unlock()
	unique := id
	for n := 2; unique == "" || s.calls[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	s.calls[unique] = true
	return transcript.CallID(unique)
}

// delta streams a piece of a text. One of an item that was never begun begins a
// message.
func (r *run) delta(id, text string) error {
	if text == "" {
		return nil
	}
	it := r.open[id]
	if it == nil {
		it = &item{Item: r.item(transcript.AgentMessage{})}
		r.add(id, it)
	}
	it.text = append(it.text, text...)
	if it.shown {
		return r.host.Emit(r.ctx, adapters.TextDelta{Item: it.ID, Text: text})
	}
	it.shown = true
	return r.emit(adapters.ItemStarted{Item: it.Item}, adapters.TextDelta{Item: it.ID, Text: text})
}

// completed closes an item.
func (r *run) completed(v *itemView) error {
	switch v.Type {
	case "userMessage", "hookPrompt":
		return nil // the server has its own
	case "agentMessage":
		return r.textDone(v.ID, v.Text)
	case "reasoning":
		return r.textDone(v.ID, v.reasoning())
	case "commandExecution":
		return r.done(v.ID, v.command())
	case "fileChange":
		return r.done(v.ID, v.change())
	case "mcpToolCall", "dynamicToolCall":
		return r.callDone(v)
	case "contextCompaction":
		return r.compactionEnded(v.ID)
	}
	return r.emit(adapters.ItemCompleted{Item: r.item(v.opaque())})
}

// textDone completes a text. What codex had not streamed of it comes as one more
// delta; if it streamed another text, that one stays, since it was shown.
func (r *run) textDone(id, text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	it := r.open[id]
	if it == nil && text == "" {
		return nil
	}
	if it == nil {
		it = &item{Item: r.item(transcript.AgentMessage{})}
		r.add(id, it)
	}
	if rest, ok := strings.CutPrefix(text, string(it.text)); ok && rest != "" {
		if err := r.delta(id, rest); err != nil {
			return err
		}
	}
	delete(r.open, id)
	if !it.shown {
		return nil
	}
	it.Body = withText(it.Body, string(it.text))
	r.hold(adapters.ItemCompleted{Item: it.Item})
	return nil
}

// withText is a body that grows by deltas, with its text.
func withText(b transcript.Body, text string) transcript.Body {
	switch b := b.(type) {
	case transcript.AgentMessage:
		b.Text = text
		return b
	case transcript.Reasoning:
		b.Text = text
		return b
	default:
		return b
	}
}

// done completes a command or a change of files.
func (r *run) done(id string, b transcript.Body) error {
	it := r.open[id]
	if it == nil {
		return r.emit(adapters.ItemCompleted{Item: r.item(b)})
	}
	delete(r.open, id)
	it.Body = b
	return r.emit(adapters.ItemCompleted{Item: it.Item})
}

// callDone answers a call that codex ran. One that the host ran has its answer.
func (r *run) callDone(v *itemView) error {
	it := r.open[v.ID]
	if it == nil {
		call := transcript.ToolCall{CallID: r.s.callID(v.ID), Name: v.toolName(), Arguments: v.arguments()}
		it = &item{Item: r.item(call)}
		if err := r.emit(adapters.ItemStarted{Item: it.Item}); err != nil {
			return err
		}
	}
	delete(r.open, v.ID)
	if it.ran {
		return nil
	}
	call, ok := it.Body.(transcript.ToolCall)
	if !ok {
		return nil
	}
	return r.emit(adapters.ItemCompleted{Item: r.item(v.result(call.CallID))})
}
