package upstream

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// chatWire is OpenAI's chat completions (platform docs, "Chat Completions API").
var chatWire = wire{
	path:   "/v1/chat/completions",
	stream: "text/event-stream",
	read:   readChat,
	encode: func(a answer) encoder { return &chatEncoder{answer: a} },
}

func readChat(body []byte, _ http.Header) (request, error) {
	var r struct {
		Model               string `json:"model"`
		Stream              bool   `json:"stream"`
		MaxTokens           int    `json:"max_tokens"`
		MaxCompletionTokens int    `json:"max_completion_tokens"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, err
	}
	req := request{model: r.Model, stream: r.Stream, usage: r.StreamOptions.IncludeUsage, maxOutput: max(r.MaxTokens, r.MaxCompletionTokens)}
	if n := len(r.Messages); n > 0 {
		req.last = texts(r.Messages[n-1])
	}
	return req, nil
}

type chatEncoder struct {
	answer
	begun bool
}

// frame is an event with a delta.
func (e *chatEncoder) frame(delta object, finish any) []byte {
	if !e.begun {
		e.begun = true
		delta["role"] = "assistant"
	}
	return sseFrame(e.chunk([]any{object{"index": 0, "delta": delta, "finish_reason": finish}}, nil))
}

func (e *chatEncoder) chunk(choices []any, u any) object {
	c := object{"id": e.id, "object": "chat.completion.chunk", "created": created, "model": e.model, "choices": choices}
	if u != nil {
		c["usage"] = u
	}
	return c
}

func (e *chatEncoder) text(thinking bool, s string) []byte {
	if thinking {
		return e.frame(object{e.reasoning: s}, nil)
	}
	return e.frame(object{"content": s}, nil)
}

func (e *chatEncoder) refuse(s string) []byte { return e.frame(object{"refusal": s}, nil) }

// fail is an error in place of a chunk, as OpenRouter and vLLM send it.
func (e *chatEncoder) fail(code, text string) []byte {
	return sseFrame(object{"error": object{"message": text, "type": code, "code": code}})
}

func (e *chatEncoder) call(n int, c call, args []string) []byte {
	var b bytes.Buffer
	head := object{"index": n, "type": "function", "function": object{"name": c.name, "arguments": args[0]}}
	if c.id != "" {
		head["id"] = c.id
	}
	b.Write(e.frame(object{"tool_calls": []any{head}}, nil))
	for _, a := range args[1:] {
		b.Write(e.frame(object{"tool_calls": []any{object{"index": n, "function": object{"arguments": a}}}}, nil))
	}
	return b.Bytes()
}

func (e *chatEncoder) usage(u usage) []byte { return sseFrame(e.chunk([]any{}, e.report(u))) }

func (e *chatEncoder) report(u usage) object {
	o := object{
		"prompt_tokens": u.input, "completion_tokens": u.output, "total_tokens": u.input + u.output,
		"prompt_tokens_details":     object{"cached_tokens": u.cached},
		"completion_tokens_details": object{"reasoning_tokens": u.reasoning},
	}
	if e.server.name == "deepseek" {
		delete(o, "prompt_tokens_details")
		o["prompt_cache_hit_tokens"], o["prompt_cache_miss_tokens"] = u.cached, u.input-u.cached
	}
	return o
}

func (e *chatEncoder) finish(reason string) []byte { return e.frame(object{}, reason) }

func (e *chatEncoder) done() []byte { return []byte("data: [DONE]\n\n") }

func (e *chatEncoder) whole(r reply) []byte {
	m := object{"role": "assistant", "content": r.text}
	if r.thinking != "" {
		m[e.reasoning] = r.thinking
	}
	if r.refusal != "" {
		m["refusal"] = r.refusal
	}
	var calls []any
	for _, c := range r.calls {
		o := object{"type": "function", "function": object{"name": c.name, "arguments": c.args}}
		if c.id != "" {
			o["id"] = c.id
		}
		calls = append(calls, o)
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	o := object{
		"id": e.id, "object": "chat.completion", "created": created, "model": e.model,
		"choices": []any{object{"index": 0, "message": m, "finish_reason": orNull(r.finish)}},
	}
	if r.usage != nil {
		o["usage"] = e.report(*r.usage)
	}
	return encodeJSON(o)
}

// created is when everything here was made: answers are the same every time.
const created = 1_767_225_600

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func sseFrame(v any) []byte {
	return append(append([]byte("data: "), encodeJSON(v)...), "\n\n"...)
}
