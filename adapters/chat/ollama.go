package chat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// ollamaWindow is what a model is loaded with where neither the configuration nor
// the server names a window. Ollama's own choice on a small machine, 4,096, holds
// no agent's tools.
const ollamaWindow = 16_384

// The messages of Ollama's own wire (Ollama, docs/api.md).
type ollamaMessage struct {
	Role     string       `json:"role"`
	Content  string       `json:"content"`
	Thinking string       `json:"thinking,omitempty"`
	Images   [][]byte     `json:"images,omitempty"` // base64 without a prefix
	Calls    []ollamaCall `json:"tool_calls,omitempty"`
	ToolName string       `json:"tool_name,omitempty"`
	CallID   string       `json:"tool_call_id,omitempty"`
}

type ollamaCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string             `json:"name"`
		Arguments transcript.RawJSON `json:"arguments"` // an object, not a text
	} `json:"function"`
}

// ollamaBody returns the request for /api/chat. truncate and shift are off and the
// window is named: only so does Ollama say that a prompt is too long instead of
// dropping its beginning.
func (pl plan) ollamaBody() ([]byte, error) {
	var o, options object
	o.set("model", pl.model)
	o.set("messages", pl.ollamaMessages())
	if len(pl.tools) > 0 {
		var tools []wireTool
		for _, t := range pl.tools {
			tools = append(tools, pl.tool(t))
		}
		o.set("tools", tools)
	}
	o.set("stream", true)
	o.set("truncate", false)
	o.set("shift", false)
	if set := effortForms[pl.p.effort]; set != nil && pl.effort != "" && !pl.without.has(refusedEffort) {
		set(&o, pl.effort)
	}
	if pl.load > 0 {
		options.set("num_ctx", pl.load)
	}
	if pl.max > 0 {
		options.set("num_predict", pl.max)
	}
	o.set("options", &options)
	b, err := transcript.Encode(&o)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "a tool's schema is no JSON")
	}
	return b, nil
}

func (pl plan) ollamaMessages() []ollamaMessage {
	var out []ollamaMessage
	for _, m := range pl.messages {
		if m.Role == prompt.Tool {
			for _, p := range m.Parts {
				out = append(out, ollamaMessage{Role: "tool", ToolName: p.Name, CallID: p.CallID, Content: output(p)})
			}
			continue
		}
		w := ollamaMessage{Role: string(m.Role), Content: joined(m.Parts)}
		if w.Content == "" {
			w.Content = kindText(m.Parts, prompt.Image, "\n")
		}
		if pl.p.echo != "" {
			w.Thinking = kindText(m.Parts, prompt.Reasoning, "")
		}
		for _, p := range m.Parts {
			switch p.Kind {
			case prompt.Image:
				w.Images = append(w.Images, p.Data)
			case prompt.Call:
				c := ollamaCall{ID: p.CallID}
				c.Function.Name, c.Function.Arguments = p.Name, p.Arguments
				w.Calls = append(w.Calls, c)
			default:
			}
		}
		out = append(out, w)
	}
	return out
}

// ollamaLine is one line of the answer.
type ollamaLine struct {
	Error   json.RawMessage `json:"error"`
	Message struct {
		Content  json.RawMessage `json:"content"`
		Thinking json.RawMessage `json:"thinking"`
		Calls    []struct {
			ID       idText `json:"id"`
			Function struct {
				Index     *int            `json:"index"`
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done   bool   `json:"done"`
	Reason string `json:"done_reason"`
	Prompt count  `json:"prompt_eval_count"`
	Eval   count  `json:"eval_count"`
}

// line takes one line of a native stream. An error is the end of the answer.
func (d *decoder) line(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	var l ollamaLine
	if err := lenient(data, &l); err != nil {
		return notJSON(d.redact(data))
	}
	if present(l.Error) {
		return failure(0, d.redact(data))
	}
	if raw := l.Message.Thinking; len(raw) > 2 && raw[0] == '"' {
		if err := d.think(unquote(raw, &d.carried)); err != nil {
			return err
		}
	}
	if err := d.text(l.Message.Content, false); err != nil {
		return err
	}
	// Calls come whole, several in a line or one in each, all of them numbered 0 by
	// some versions: each one is a call of its own.
	for _, c := range l.Message.Calls {
		next := len(d.calls.order)
		call := callDelta{Index: &next, ID: c.ID}
		call.Function.Name, call.Function.Arguments = c.Function.Name, c.Function.Arguments
		if err := d.calls.add([]callDelta{call}); err != nil {
			return err
		}
	}
	d.tally.take(adapters.Usage{InputTokens: int(l.Prompt), OutputTokens: int(l.Eval)})
	return d.ended(l)
}

// ended takes the end of a native stream. A request that only loaded or unloaded
// the model was answered by nobody.
func (d *decoder) ended(l ollamaLine) error {
	if !l.Done {
		return nil
	}
	d.done = true
	switch l.Reason {
	case "load", "unload":
		return &adapters.Error{Class: adapters.ClassServer, Message: fmt.Sprintf("Ollama answered nothing: it was asked to %s the model", l.Reason)}
	}
	d.finish = fold(l.Reason)
	return nil
}
