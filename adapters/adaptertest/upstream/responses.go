package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// responsesWire is OpenAI's Responses as codex speaks it (codex 0.171, observed;
// platform docs, "Streaming events"): it is always a stream, and an item is told whole
// when it is done.
var responsesWire = wire{
	path:     "/v1/responses",
	stream:   "text/event-stream",
	read:     readResponses,
	failure:  openAIFailure,
	overflow: longInput,
	custom:   true,
	encode:   func(a answer) encoder { return &responsesEncoder{answer: a} },
}

// longInput is how the endpoint says that a request is over the window.
func longInput(excess) (int, object) {
	return 400, object{"error": object{
		"message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
		"type":    "invalid_request_error", "param": "input", "code": "context_length_exceeded",
	}}
}

// codexAbout is the header, and the client_metadata, in which codex says what a request
// is for (codex 0.171, observed).
const codexAbout = "X-Codex-Turn-Metadata"

func readResponses(body []byte, h http.Header) (request, error) {
	var r struct {
		Model     string            `json:"model"`
		Stream    *bool             `json:"stream"`
		MaxOutput int               `json:"max_output_tokens"`
		Input     json.RawMessage   `json:"input"`
		About     map[string]string `json:"client_metadata"`
		Previous  string            `json:"previous_response_id"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, err
	}
	req := request{model: r.Model, stream: r.Stream == nil || *r.Stream, usage: true, maxOutput: max(0, r.MaxOutput)}
	var meta struct {
		Kind string `json:"request_kind"`
	}
	_ = json.Unmarshal([]byte(cmp.Or(h.Get(codexAbout), r.About[strings.ToLower(codexAbout)])), &meta) // another client says nothing
	req.writer = meta.Kind == "compaction"
	var items []json.RawMessage
	if json.Unmarshal(r.Input, &items) != nil {
		req.last = texts(r.Input) // a text is a message
	} else if n := len(items); n > 0 {
		if r.Previous == "" {
			req.wrong = unpairedItems(items)
		}
		req.last = texts(items[n-1])
		var item struct{ Type string }
		_ = json.Unmarshal(items[n-1], &item) // what is not there is another item
		req.writer = req.writer || item.Type == "compaction_trigger"
	}
	return req, nil
}

// A responsesEncoder writes the events of one response. Text that follows text is of
// one item, which is done when another one begins.
type responsesEncoder struct {
	answer
	begun bool
	seq   int
	items []object // that are done
	open  object   // the item that grows; nil if there is none
	part  string   // the type of its part
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
	fields["type"], fields["sequence_number"] = kind, e.seq
	e.seq++
	fmt.Fprintf(b, "event: %s\n", kind)
	b.Write(sseFrame(fields))
}

// The parts of items, and the events of each.
const (
	partText    = "output_text"
	partRefusal = "refusal"
	partSummary = "summary_text"
)

var partEvents = map[string]struct{ added, delta, full, done string }{
	partText:    {"response.content_part.added", "response.output_text.delta", "response.output_text.done", "response.content_part.done"},
	partRefusal: {"response.content_part.added", "response.refusal.delta", "response.refusal.done", "response.content_part.done"},
	partSummary: {"response.reasoning_summary_part.added", "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "response.reasoning_summary_part.done"},
}

func (e *responsesEncoder) text(thinking bool, s string) []byte {
	if thinking {
		return e.grow(partSummary, s)
	}
	return e.grow(partText, s)
}

func (e *responsesEncoder) refuse(s string) []byte { return e.grow(partRefusal, s) }

// grow adds a text to the open item if it has a part of that type, else to a new one.
func (e *responsesEncoder) grow(part, s string) []byte {
	var b bytes.Buffer
	if e.open != nil && e.part != part {
		e.close(&b)
	}
	if e.open == nil {
		e.begin(&b, part)
	}
	e.said.WriteString(s)
	e.event(&b, partEvents[part].delta, e.about(object{"delta": s}))
	return b.Bytes()
}

// about adds to the fields of an event the place of the part that is open.
func (e *responsesEncoder) about(fields object) object {
	fields["item_id"], fields["output_index"] = e.open["id"], len(e.items)
	if e.part == partSummary {
		fields["summary_index"] = 0
	} else {
		fields["content_index"] = 0
	}
	return fields
}

func (e *responsesEncoder) begin(b *bytes.Buffer, part string) {
	e.said.Reset()
	e.part = part
	if part == partSummary {
		e.open = object{"type": "reasoning", "id": e.itemID("rs"), "summary": []any{}, "encrypted_content": "scripted"}
	} else {
		e.open = object{"type": "message", "id": e.itemID("msg"), "role": "assistant", "status": "in_progress", "content": []any{}}
	}
	e.event(b, "response.output_item.added", object{"output_index": len(e.items), "item": e.open})
	e.event(b, partEvents[part].added, e.about(object{"part": partOf(part, "")}))
}

// partOf is a part with its text.
func partOf(part, s string) object {
	switch part {
	case partRefusal:
		return object{"type": part, "refusal": s}
	case partText:
		return object{"type": part, "text": s, "annotations": []any{}}
	default:
		return object{"type": part, "text": s}
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
	whole := partOf(e.part, e.said.String())
	field := "text"
	if e.part == partRefusal {
		field = "refusal"
	}
	e.event(b, partEvents[e.part].full, e.about(object{field: e.said.String()}))
	e.event(b, partEvents[e.part].done, e.about(object{"part": whole}))
	item := e.open
	e.open = nil
	if e.part == partSummary {
		item["summary"] = []any{whole}
	} else {
		item["status"], item["content"] = "completed", []any{whole}
	}
	e.finished(b, item)
}

func (e *responsesEncoder) finished(b *bytes.Buffer, item object) {
	e.event(b, "response.output_item.done", object{"output_index": len(e.items), "item": item})
	e.items = append(e.items, item)
}

// call writes the call of a function, or of a custom tool, whose input is a text. A
// name such as space/name is that of a tool in a namespace.
func (e *responsesEncoder) call(_ int, c call, args []string) []byte {
	var b bytes.Buffer
	e.close(&b)
	kind, field, delta, id := "function_call", "arguments", "response.function_call_arguments", e.itemID("fc")
	if c.custom {
		kind, field, delta, id = "custom_tool_call", "input", "response.custom_tool_call_input", e.itemID("ctc")
	}
	item := object{"type": kind, "id": id, "call_id": c.id, "name": c.name, field: "", "status": "in_progress"}
	if space, name, is := strings.Cut(c.name, "/"); is {
		item["namespace"], item["name"] = space, name
	}
	e.event(&b, "response.output_item.added", object{"output_index": len(e.items), "item": item})
	for _, a := range args {
		e.event(&b, delta+".delta", object{"item_id": id, "output_index": len(e.items), "delta": a})
	}
	e.event(&b, delta+".done", object{"item_id": id, "output_index": len(e.items), field: c.args})
	item[field], item["status"] = c.args, "completed"
	e.finished(&b, item)
	return b.Bytes()
}

// compaction is the item by which a provider's own compaction answers.
func (e *responsesEncoder) compaction(text string) []byte {
	var b bytes.Buffer
	e.close(&b)
	item := object{"type": "compaction", "id": e.itemID("cmp"), "encrypted_content": text}
	e.event(&b, "response.output_item.added", object{"output_index": len(e.items), "item": item})
	e.finished(&b, item)
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

// done is response.incomplete for an answer that was cut; codex takes that for a stream
// that broke (codex 0.171, observed).
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

// fail is response.failed; the item that grows is never done.
func (e *responsesEncoder) fail(code, text string) []byte {
	var b bytes.Buffer
	o := e.response()
	o["status"], o["error"] = "failed", object{"code": code, "message": text}
	e.event(&b, "response.failed", object{"response": o})
	return b.Bytes()
}

// response is the whole of it.
func (e *responsesEncoder) response() object {
	items := e.items
	if items == nil {
		items = []object{}
	}
	o := object{"id": e.id, "object": "response", "created_at": created, "model": e.model, "status": "completed", "output": items}
	switch e.why {
	case "length":
		o["status"], o["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case "content_filter":
		o["status"], o["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	if u := e.told; u != nil {
		o["usage"] = object{
			"input_tokens": u.input, "input_tokens_details": object{"cached_tokens": u.cached, "cache_write_tokens": u.written},
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
	if r.refusal != "" {
		e.refuse(r.refusal)
	}
	for i, c := range r.calls {
		e.call(i, c, []string{c.args})
	}
	e.told, e.why = r.usage, r.finish
	e.done()
	return encodeJSON(e.response())
}
