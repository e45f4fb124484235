package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// messagesWire is Anthropic's Messages as Claude Code speaks it (Claude Code 2.1.332,
// observed; platform docs, "Streaming Messages").
var messagesWire = wire{
	path:     "/v1/messages",
	stream:   "text/event-stream",
	read:     readMessages,
	failure:  anthropicFailure,
	overflow: tooLongPrompt,
	refuse: func(o object) object {
		e, is := o["error"].(object)
		if !is || o["type"] == "error" {
			return o
		}
		kind, _ := e["type"].(string)
		return object{"type": "error", "error": object{"type": kind, "message": e["message"]}, "request_id": "req_scripted"}
	},
	encode: func(a answer) encoder { return &messagesEncoder{answer: a} },
}

// summaryOrder begins the message by which Claude Code asks for the summary of a
// compaction; it is in no request after it (2.1.332, observed).
const summaryOrder = "CRITICAL: Respond with TEXT ONLY"

func readMessages(body []byte, _ http.Header) (request, error) {
	var r struct {
		Model     string            `json:"model"`
		Stream    bool              `json:"stream"`
		MaxTokens int               `json:"max_tokens"`
		Messages  []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, err
	}
	req := request{model: r.Model, stream: r.Stream, usage: true, maxOutput: max(0, r.MaxTokens), wrong: unpairedMessages(r.Messages)}
	for _, raw := range slices.Backward(r.Messages) {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(raw, &m) == nil && m.Role == "system" {
			continue // what the system says in between is not what is asked
		}
		req.last = cmp.Or(req.last, texts(m.Content))
		req.writer = req.writer || m.Role == "user" && ordersSummary(m.Content) // also before the answers that were cut and go on
	}
	return req, nil
}

// ordersSummary reports whether what a user says holds the order. Results of tools,
// such as the text of a file, do not give it.
func ordersSummary(content json.RawMessage) bool {
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(content, &blocks) != nil {
		var text string
		_ = json.Unmarshal(content, &text) // what is no text orders nothing
		return linesBegin(text, summaryOrder)
	}
	for _, b := range blocks {
		if b.Type == "text" && linesBegin(b.Text, summaryOrder) {
			return true
		}
	}
	return false
}

// linesBegin reports whether one of the lines of a text begins with something.
func linesBegin(text, with string) bool {
	return strings.HasPrefix(text, with) || strings.Contains(text, "\n"+with)
}

// A messagesEncoder writes the events of one message. The usage of the input stands in
// the first event, so it is told when that is sent, or again at the end.
type messagesEncoder struct {
	answer
	begun bool
	block int    // index of the block that is open, or would be next
	open  string // its type; empty if none is
	told  *usage
	why   string

	refused bool // whatever the reason that the cassette gives
}

func (e *messagesEncoder) event(b *bytes.Buffer, kind string, fields object) {
	fields["type"] = kind
	fmt.Fprintf(b, "event: %s\n", kind)
	b.Write(sseFrame(fields))
}

func (e *messagesEncoder) start(b *bytes.Buffer) {
	if e.begun {
		return
	}
	e.begun = true
	u := e.input
	u.output = 1
	e.event(b, "message_start", object{"message": e.message([]any{}, nil, u)})
	e.event(b, "ping", object{})
}

func (e *messagesEncoder) message(content []any, why any, u usage) object {
	return object{
		"id": e.id, "type": "message", "role": "assistant", "model": e.model, "content": content,
		"stop_reason": why, "stop_sequence": nil, "usage": counts(u),
	}
}

// counts is how the wire tells tokens: what is of the cache is not part of the input.
func counts(u usage) object {
	return object{
		"input_tokens": u.input - u.cached - u.written, "cache_read_input_tokens": u.cached, "cache_creation_input_tokens": u.written, "output_tokens": u.output,
	}
}

func (e *messagesEncoder) begin(b *bytes.Buffer, kind string, block object) {
	e.start(b)
	if e.open == kind && kind != "tool_use" {
		return
	}
	e.close(b)
	e.open = kind
	e.event(b, "content_block_start", object{"index": e.block, "content_block": block})
}

// refuse is a text after which the model stops with that reason.
func (e *messagesEncoder) refuse(s string) []byte {
	e.refused = true
	return e.text(false, s)
}

// fail is an error event; the block that is open never ends.
func (e *messagesEncoder) fail(code, text string) []byte {
	var b bytes.Buffer
	e.event(&b, "error", object{"error": object{"type": code, "message": text}, "request_id": "req_scripted"})
	return b.Bytes()
}

func (e *messagesEncoder) close(b *bytes.Buffer) {
	if e.open == "" {
		return
	}
	if e.open == "thinking" {
		e.delta(b, object{"type": "signature_delta", "signature": "c2NyaXB0ZWQ="})
	}
	e.event(b, "content_block_stop", object{"index": e.block})
	e.open = ""
	e.block++
}

func (e *messagesEncoder) delta(b *bytes.Buffer, d object) {
	e.event(b, "content_block_delta", object{"index": e.block, "delta": d})
}

func (e *messagesEncoder) text(thinking bool, s string) []byte {
	var b bytes.Buffer
	if thinking {
		e.begin(&b, "thinking", object{"type": "thinking", "thinking": "", "signature": ""})
		e.delta(&b, object{"type": "thinking_delta", "thinking": s})
	} else {
		e.begin(&b, "text", object{"type": "text", "text": ""})
		e.delta(&b, object{"type": "text_delta", "text": s})
	}
	return b.Bytes()
}

func (e *messagesEncoder) call(_ int, c call, args []string) []byte {
	var b bytes.Buffer
	e.begin(&b, "tool_use", object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{}})
	for _, a := range args {
		e.delta(&b, object{"type": "input_json_delta", "partial_json": a})
	}
	e.close(&b)
	return b.Bytes()
}

func (e *messagesEncoder) usage(u usage) []byte {
	e.told = &u
	return nil
}

// reasons are the wire's words for why a model stopped; others go as they are.
var reasons = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}

func (e *messagesEncoder) finish(reason string) []byte {
	e.why = reason
	if r, known := reasons[reason]; known {
		e.why = r
	}
	if e.refused {
		e.why = "refusal"
	}
	return nil
}

func (e *messagesEncoder) done() []byte {
	var b bytes.Buffer
	e.start(&b)
	e.close(&b)
	u := usage{}
	if e.told != nil {
		u = *e.told
	}
	e.event(&b, "message_delta", object{"delta": object{"stop_reason": orNull(e.why), "stop_sequence": nil}, "usage": counts(u)})
	e.event(&b, "message_stop", object{})
	return b.Bytes()
}

func (e *messagesEncoder) whole(r reply) []byte {
	content := []any{}
	if r.thinking != "" {
		content = append(content, object{"type": "thinking", "thinking": r.thinking, "signature": "c2NyaXB0ZWQ="})
	}
	if text := r.text + r.refusal; text != "" {
		content = append(content, object{"type": "text", "text": text})
	}
	e.refused = r.refusal != ""
	for _, c := range r.calls {
		content = append(content, object{"type": "tool_use", "id": c.id, "name": c.name, "input": arguments(c.args)})
	}
	e.finish(r.finish)
	u := usage{}
	if r.usage != nil {
		u = *r.usage
	}
	return encodeJSON(e.message(content, orNull(e.why), u))
}

// countTokens is what the same wire asks for the size of a request.
func countTokens(_ settings, body []byte) (any, bool) {
	return object{"input_tokens": tokens(string(body))}, true
}

func tooLongPrompt(e excess) (int, object) {
	return 400, object{"error": object{
		"type": "invalid_request_error", "message": fmt.Sprintf("prompt is too long: %d tokens > %d maximum", e.input, e.window),
	}}
}
