package upstream

import (
	"encoding/json"
	"fmt"
)

// A pairing follows the calls of a history and their results, which both providers
// refuse to see apart.
type pairing struct {
	open  []string // calls without a result, in their order
	wrong string   // what is wrong first; empty if nothing is
}

func (p *pairing) call(id string) { p.open = append(p.open, id) }

// result closes a call, and reports whether it was open.
func (p *pairing) result(id string) bool {
	for i, o := range p.open {
		if o == id {
			p.open = append(p.open[:i], p.open[i+1:]...)
			return true
		}
	}
	return false
}

func (p *pairing) fail(format string, args ...any) {
	if p.wrong == "" {
		p.wrong = fmt.Sprintf(format, args...)
	}
}

// unpairedItems is what OpenAI says of items of which a call or its output is missing
// (error reports). A request that goes on from a stored response is not looked into.
func unpairedItems(items []json.RawMessage) string {
	var p pairing
	for _, raw := range items {
		var item struct {
			Type string `json:"type"`
			Call string `json:"call_id"`
		}
		_ = json.Unmarshal(raw, &item) // what is no item is no call
		switch item.Type {
		case "function_call", "custom_tool_call":
			p.call(item.Call)
		case "function_call_output", "custom_tool_call_output":
			if !p.result(item.Call) {
				p.fail("No tool call found for function call output with call_id %s.", item.Call)
			}
		}
	}
	if len(p.open) > 0 {
		p.fail("No tool output found for function call %s.", p.open[0])
	}
	return p.wrong
}

// unpairedMessages is what Anthropic says of messages in which a tool use is not
// followed by its result at once (error reports). What the system says in between is no
// message of the conversation.
func unpairedMessages(messages []json.RawMessage) string {
	var p pairing
	user := true
	for i, raw := range messages {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(raw, &m) // what is no message uses no tool
		if m.Role == "system" {
			continue
		}
		if m.Role == "assistant" && user {
			p.unanswered(i)
		}
		user = m.Role != "assistant"
		var blocks []struct {
			Type   string `json:"type"`
			ID     string `json:"id"`
			Result string `json:"tool_use_id"`
		}
		_ = json.Unmarshal(m.Content, &blocks) // a text has none
		for _, b := range blocks {
			switch {
			case b.Type == "tool_use" && !user:
				p.call(b.ID)
			case b.Type == "tool_result" && !p.result(b.Result):
				p.fail("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, b.Result)
			}
		}
	}
	p.unanswered(len(messages))
	return p.wrong
}

// unanswered is called where the results of all calls so far must have come.
func (p *pairing) unanswered(at int) {
	if len(p.open) > 0 {
		p.fail("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", at-1, p.open[0])
	}
	p.open = nil
}
