package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// responsesWire is OpenAI's Responses as codex speaks it (codex 0.171, observed): it
// is always a stream, and an item is told whole when it is done.
var responsesWire = wire{
	path:   "/v1/responses",
	stream: "text/event-stream",
	read:   readResponses,
	encode: func(a answer) encoder { return &responsesEncoder{answer: a} },
}

func readResponses(body []byte, h http.Header) (request, error) {
	var r struct {
		Model     string            `json:"model"`
		Stream    *bool             `json:"stream"`
		MaxOutput int               `json:"max_output_tokens"`
		Input     []json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, err
	}
	req := request{model: r.Model, stream: r.Stream == nil || *r.Stream, usage: true, maxOutput: r.MaxOutput}
	var meta struct {
		Kind string `json:"request_kind"`
	}
	if json.Unmarshal([]byte(h.Get("X-Codex-Turn-Metadata")), &meta) == nil {
		req.writer = meta.Kind == "compaction"
	}
	if n := len(r.Input); n > 0 {
		req.last = texts(r.Input[n-1])
		var item struct{ Type string }
		_ = json.Unmarshal(r.Input[n-1], &item) // what is not there is another item
		req.writer = req.writer || item.Type == "compaction_trigger"
	}
	return req, nil
}

// A responsesEncoder writes the events of one response. Text that follows text is of
// one item, which is done when another one begins.
type responsesEncoder struct {
	answer
	begun bool
	items []object // that are done
	open  object   // the item that grows; nil if there is none
	said  strings.Builder
	told  *usage
	why   string
}

// event is a frame; the first one is preceded by response.created.
func (e *responsesEncoder) event(b *bytes.Buffer, kind string, fields object) {
	if !e.begun {
		e.begun = true
		e.event(b, "response.created", object{"response": object{"id": e.id, "object": "response", "model": e.model, "status": "in_progress"}})
	}
	fields["type"] = kind
	fmt.Fprintf(b, "event: %s\n", kind)
	b.Write(sseFrame(fields))
}

func (e *responsesEncoder) text(thinking bool, s string) []byte {
	var b bytes.Buffer
	kind := "message"
	if thinking {
		kind = "reasoning"
	}
	if e.open != nil && e.open["type"] != kind {
		e.close(&b)
	}
	if e.open == nil {
		e.begin(&b, kind)
	}
	e.said.WriteString(s)
	about := object{"item_id": e.open["id"], "output_index": len(e.items), "delta": s}
	if thinking {
		about["summary_index"] = 0
		e.event(&b, "response.reasoning_summary_text.delta", about)
	} else {
		about["content_index"] = 0
		e.event(&b, "response.output_text.delta", about)
	}
	return b.Bytes()
}

func (e *responsesEncoder) begin(b *bytes.Buffer, kind string) {
	e.said.Reset()
	if kind == "reasoning" {
		e.open = object{"type": kind, "id": e.itemID("rs"), "summary": []any{}, "encrypted_content": "scripted"}
	} else {
		e.open = object{"type": kind, "id": e.itemID("msg"), "role": "assistant", "status": "in_progress", "content": []any{}}
	}
	e.event(b, "response.output_item.added", object{"output_index": len(e.items), "item": e.open})
	if kind == "reasoning" {
		e.event(b, "response.reasoning_summary_part.added", object{
			"item_id": e.open["id"], "output_index": len(e.items), "summary_index": 0, "part": object{"type": "summary_text", "text": ""},
		})
	}
}

func (e *responsesEncoder) itemID(prefix string) string {
	return fmt.Sprintf("%s_%s_%d", prefix, e.id, len(e.items))
}

// close completes the item that grows.
func (e *responsesEncoder) close(b *bytes.Buffer) {
	if e.open == nil {
		return
	}
	item := e.open
	e.open = nil
	if item["type"] == "reasoning" {
		item["summary"] = []any{object{"type": "summary_text", "text": e.said.String()}}
	} else {
		item["status"] = "completed"
		item["content"] = []any{object{"type": "output_text", "text": e.said.String(), "annotations": []any{}}}
	}
	e.finished(b, item)
}

func (e *responsesEncoder) finished(b *bytes.Buffer, item object) {
	e.event(b, "response.output_item.done", object{"output_index": len(e.items), "item": item})
	e.items = append(e.items, item)
}

func (e *responsesEncoder) call(_ int, c call, args []string) []byte {
	var b bytes.Buffer
	e.close(&b)
	item := object{"type": "function_call", "id": e.itemID("fc"), "call_id": c.id, "name": c.name, "arguments": "", "status": "in_progress"}
	e.event(&b, "response.output_item.added", object{"output_index": len(e.items), "item": item})
	for _, a := range args {
		e.event(&b, "response.function_call_arguments.delta", object{"item_id": item["id"], "output_index": len(e.items), "delta": a})
	}
	item["arguments"], item["status"] = c.args, "completed"
	e.finished(&b, item)
	return b.Bytes()
}

// compaction is the item by which a provider's own compaction answers.
func (e *responsesEncoder) compaction(text string) []byte {
	var b bytes.Buffer
	e.close(&b)
	e.finished(&b, object{"type": "compaction", "id": e.itemID("cmp"), "encrypted_content": text})
	return b.Bytes()
}

func (e *responsesEncoder) usage(u usage) []byte {
	e.told = &u
	return nil
}

func (e *responsesEncoder) finish(reason string) []byte {
	e.why = reason
	return nil
}

func (e *responsesEncoder) done() []byte {
	var b bytes.Buffer
	e.close(&b)
	kind := "response.completed"
	if e.why == "length" || e.why == "content_filter" {
		kind = "response.incomplete"
	}
	e.event(&b, kind, object{"response": e.response()})
	return b.Bytes()
}

// response is the whole of it.
func (e *responsesEncoder) response() object {
	o := object{"id": e.id, "object": "response", "created_at": created, "model": e.model, "status": "completed", "output": e.items}
	switch e.why {
	case "length":
		o["status"], o["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case "content_filter":
		o["status"], o["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	if u := e.told; u != nil {
		o["usage"] = object{
			"input_tokens": u.input, "input_tokens_details": object{"cached_tokens": u.cached},
			"output_tokens": u.output, "output_tokens_details": object{"reasoning_tokens": u.reasoning},
			"total_tokens": u.input + u.output,
		}
	}
	return o
}

func (e *responsesEncoder) whole(r reply) []byte {
	if r.thinking != "" {
		e.text(true, r.thinking)
	}
	if r.text != "" {
		e.text(false, r.text)
	}
	for i, c := range r.calls {
		e.call(i, c, []string{c.args})
	}
	e.told, e.why = r.usage, r.finish
	e.done()
	return encodeJSON(e.response())
}
