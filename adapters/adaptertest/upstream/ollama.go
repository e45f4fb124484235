package upstream

import (
	"encoding/json"
	"net/http"
)

// ollamaWire is Ollama's native chat (its docs, api.md "Generate a chat
// completion"): a stream of JSON lines, unless it is asked for none.
var ollamaWire = wire{
	path:   "/api/chat",
	stream: "application/x-ndjson",
	read:   readOllama,
	refuse: func(o object) object {
		if e, is := o["error"].(object); is {
			return object{"error": e["message"]}
		}
		return o
	},
	encode: func(a answer) encoder { return &ollamaEncoder{answer: a} },
}

func readOllama(body []byte, _ http.Header) (request, error) {
	r := struct {
		Model   string `json:"model"`
		Stream  *bool  `json:"stream"`
		Options struct {
			NumPredict int `json:"num_predict"`
		} `json:"options"`
		Messages []json.RawMessage `json:"messages"`
	}{}
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, err
	}
	req := request{model: r.Model, stream: r.Stream == nil || *r.Stream, usage: true, maxOutput: max(0, r.Options.NumPredict)}
	if n := len(r.Messages); n > 0 {
		req.last = texts(r.Messages[n-1])
	}
	return req, nil
}

// An ollamaEncoder tells usage and reason in its last line, which done writes.
type ollamaEncoder struct {
	answer
	reason string
	told   *usage
}

func (e *ollamaEncoder) line(message object) object {
	message["role"] = "assistant"
	if message["content"] == nil {
		message["content"] = ""
	}
	return object{"model": e.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false}
}

func jsonLine(o object) []byte { return append(encodeJSON(o), '\n') }

func (e *ollamaEncoder) text(thinking bool, s string) []byte {
	if thinking {
		return jsonLine(e.line(object{"thinking": s}))
	}
	return jsonLine(e.line(object{"content": s}))
}

// refuse is text: the wire has no word for it.
func (e *ollamaEncoder) refuse(s string) []byte { return e.text(false, s) }

func (e *ollamaEncoder) fail(_, text string) []byte { return jsonLine(object{"error": text}) }

// call is always whole on this wire.
func (e *ollamaEncoder) call(n int, c call, _ []string) []byte {
	return jsonLine(e.line(object{"tool_calls": []any{ollamaCall(n, c)}}))
}

func ollamaCall(n int, c call) object {
	o := object{"function": object{"index": n, "name": c.name, "arguments": arguments(c.args)}}
	if c.id != "" {
		o["id"] = c.id
	}
	return o
}

func (e *ollamaEncoder) usage(u usage) []byte {
	e.told = &u
	return nil
}

func (e *ollamaEncoder) finish(reason string) []byte {
	if reason == "tool_calls" { // it has no word for it
		reason = "stop"
	}
	e.reason = reason
	return nil
}

func (e *ollamaEncoder) done() []byte { return jsonLine(e.last(e.line(object{}))) }

func (e *ollamaEncoder) last(o object) object {
	o["done"] = true
	if e.reason != "" {
		o["done_reason"] = e.reason
	}
	if e.told != nil {
		o["prompt_eval_count"], o["eval_count"] = e.told.input, e.told.output
	}
	return o
}

func (e *ollamaEncoder) whole(r reply) []byte {
	m := object{"content": r.text + r.refusal}
	if r.thinking != "" {
		m["thinking"] = r.thinking
	}
	var calls []any
	for i, c := range r.calls {
		calls = append(calls, ollamaCall(i, c))
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	e.finish(r.finish)
	e.told = r.usage
	return encodeJSON(e.last(e.line(m)))
}
