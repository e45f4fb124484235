package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// wireChunk is one event of a stream, or a whole answer that was not streamed.
// What differs in type between servers stays raw.
type wireChunk struct {
	Error   json.RawMessage `json:"error"`
	Code    json.RawMessage `json:"code"`
	Status  json.RawMessage `json:"status"`
	Message json.RawMessage `json:"message"`
	Object  string          `json:"object"`

	Choices []wireChoice    `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Timings timings         `json:"timings"`
	Groq    struct {
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"`
	} `json:"x_groq"`
}

type wireChoice struct {
	Index   int             `json:"index"`
	Delta   *wireDelta      `json:"delta"`
	Message *wireDelta      `json:"message"` // the whole, where a server does not stream or sums up
	Finish  json.RawMessage `json:"finish_reason"`
	Usage   json.RawMessage `json:"usage"` // Moonshot
	Error   json.RawMessage `json:"error"` // OpenRouter
}

// wireDelta is what is new. Thoughts have three names; some servers use two of
// them for the same text.
type wireDelta struct {
	Content   json.RawMessage `json:"content"`
	Refusal   json.RawMessage `json:"refusal"`
	Thoughts1 json.RawMessage `json:"reasoning_content"`
	Thoughts2 json.RawMessage `json:"reasoning"`
	Thoughts3 json.RawMessage `json:"reasoning_text"`
	Details   []struct {
		Text    string `json:"text"`
		Summary string `json:"summary"`
	} `json:"reasoning_details"`
	Calls []callDelta `json:"tool_calls"`
	Call  *struct {   // before there were several
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function_call"`
}

// A decoder turns the events of one stream of chat completions into an answer.
type decoder struct {
	*answer
	redact  func(text []byte) []byte // before a text is cut: what is left of a key is not known any more
	carry   []byte                   // half of a character of the text
	carried []byte                   // and of the thoughts
}

// done is what ends a stream.
var done = []byte("[DONE]")

// event takes the data of one event. An error is the end of the answer.
func (d *decoder) event(name string, data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	if bytes.Equal(data, done) {
		d.done = true
		return nil
	}
	var c wireChunk
	if err := lenient(data, &c); err != nil {
		if name == "error" {
			return failure(0, d.redact(data))
		}
		return notJSON(d.redact(data))
	}
	if said := c.failed(name, data); said != nil {
		if d.finish != "" && d.finish != finishFailed && (d.visible || len(d.calls.order) > 0) {
			return nil // the answer was complete before
		}
		return failure(0, d.redact(said))
	}
	return d.chunk(c)
}

// notJSON is the error of an event that cannot be read. It is told, because what
// was in it is missing from the answer.
func notJSON(data []byte) error {
	return &adapters.Error{
		Class: adapters.ClassServer, Message: fmt.Sprintf("the server sent what is no JSON in the middle of its answer: %s", excerpt(data)),
	}
}

// lenient decodes JSON; a field of another type than expected is left out instead
// of costing the rest.
func lenient(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, is := errors.AsType[*json.UnmarshalTypeError](err); is && data[0] == '{' {
		return nil
	}
	return err
}

// failed returns what an event says of the error that it reports, in any of the shapes in use: an
// error event, an error that is an object or a text, at the top or in the choice,
// or bare code, status and message.
func (c wireChunk) failed(name string, data []byte) []byte {
	if name == "error" || present(c.Error) || present(c.Groq.Error) || c.Object == "error" {
		return data
	}
	for _, ch := range c.Choices {
		if present(ch.Error) {
			return ch.Error
		}
	}
	if len(c.Choices) == 0 && !present(c.Usage) && (present(c.Code) || present(c.Status)) && (present(c.Message) || present(c.Code) && present(c.Status)) {
		return data
	}
	return nil
}

// present reports a value that says something.
func present(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "{}", "0", "false":
		return false
	}
	return true
}

// chunk takes an event that is no error.
func (d *decoder) chunk(c wireChunk) error {
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue // nobody asked for alternatives
		}
		if err := d.choice(ch); err != nil {
			return err
		}
	}
	d.tally.report(c.Groq.Usage)
	d.tally.report(c.Usage)
	d.tally.time(c.Timings)
	if d.finish == finishFailed {
		return &adapters.Error{Class: adapters.ClassServer, Message: "the server broke off its answer"}
	}
	return nil
}

func (d *decoder) choice(ch wireChoice) error {
	for i, delta := range []*wireDelta{ch.Delta, ch.Message} {
		if delta == nil {
			continue
		}
		if err := d.delta(delta, i == 1); err != nil {
			return err
		}
	}
	d.tally.report(ch.Usage)
	var reason string
	if json.Unmarshal(ch.Finish, &reason) == nil {
		if f := fold(reason); f != "" {
			d.finish = f
		}
	}
	return nil
}

// delta takes what is new, thoughts first: a chunk that holds both has them in
// that order.
func (d *decoder) delta(w *wireDelta, whole bool) error {
	if text := w.thoughts(&d.carried); text != "" {
		if whole {
			text = d.thoughts.rest(text)
		}
		if err := d.think(text); err != nil {
			return err
		}
	}
	if err := d.text(w.Content, whole); err != nil {
		return err
	}
	if err := d.text(w.Refusal, false); err != nil {
		return err
	}
	if w.Call != nil {
		c := callDelta{Index: new(int)}
		c.Function.Name, c.Function.Arguments = w.Call.Name, w.Call.Arguments
		w.Calls = append(w.Calls, c)
	}
	if whole && len(d.calls.order) > 0 {
		return nil // a summary of what was streamed
	}
	return d.calls.add(w.Calls)
}

// rest returns what a text that was said again as a whole adds.
func (g *growing) rest(whole string) string {
	return strings.TrimPrefix(whole, g.sofar.String())
}

// thoughts returns the first of the fields that says something.
func (w *wireDelta) thoughts(carry *[]byte) string {
	for _, raw := range []json.RawMessage{w.Thoughts1, w.Thoughts2, w.Thoughts3} {
		if len(raw) < 3 || raw[0] != '"' {
			continue
		}
		if text := unquote(raw, carry); text != "" || len(*carry) > 0 {
			return text
		}
	}
	var b strings.Builder
	for _, part := range w.Details {
		b.WriteString(part.Text + part.Summary)
	}
	return b.String()
}

// wirePart is an element of a content that is a list (Mistral).
type wirePart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking json.RawMessage `json:"thinking"` // text, or a list again
}

// text takes a content: text, a list of parts, or nothing.
func (d *decoder) text(raw json.RawMessage, whole bool) error {
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		return d.say(unquote(raw, &d.carry), whole)
	case '{', '[':
		return d.parts(raw, false)
	}
	return nil
}

// parts takes a list of parts, or a single one.
func (d *decoder) parts(raw json.RawMessage, thinking bool) error {
	if raw[0] == '{' {
		raw = append(append(json.RawMessage{'['}, raw...), ']')
	}
	var parts []wirePart
	if err := lenient(raw, &parts); err != nil && len(parts) == 0 {
		return nil
	}
	for _, p := range parts {
		var err error
		switch {
		case len(p.Thinking) > 0 && p.Thinking[0] == '"':
			var none []byte
			err = d.think(unquote(p.Thinking, &none))
		case len(p.Thinking) > 0 && p.Thinking[0] == '[' && !thinking:
			err = d.parts(p.Thinking, true)
		case thinking:
			err = d.think(p.Text)
		default:
			err = d.say(p.Text, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// over says how the stream ended: eof is what ended it, nil or io.EOF where it was
// simply over. Without a finish and without [DONE] the answer was cut.
func (d *decoder) over() error {
	if d.finish == "" && !d.done {
		return cut("the answer ended before it was complete")
	}
	return nil
}
