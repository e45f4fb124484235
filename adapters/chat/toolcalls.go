package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// callDelta is a piece of a tool call, or a whole one.
type callDelta struct {
	Index    *int   `json:"index"`
	ID       idText `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	// Some servers leave the function out and put its fields beside the id.
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`

	placed bool // Index is only where it stands in its list
}

// idText is an id that some servers send as a number.
type idText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *idText) UnmarshalJSON(b []byte) error {
	var s string
	switch {
	case json.Unmarshal(b, &s) == nil:
		*t = idText(s)
	default:
		*t = idText(b)
	}
	return nil
}

// openCall is a tool call that may still grow.
type openCall struct {
	id, name string
	args     bytes.Buffer    // in pieces of text
	shape    shape           // of args
	first    json.RawMessage // an object, as it came
	object   map[string]any  // of several pieces of an object, once there are two
	carry    []byte          // a character that a piece cut in two
}

// calls collects the tool calls of one answer.
type calls struct {
	lim   limits
	known func(name string) bool // a tool that the request offers

	order   []*openCall
	byIndex map[int]*openCall
	byID    map[string]*openCall
	current *openCall
	size    int // bytes of arguments, all calls together
	moved   int // bytes that were read or compared, for the test that this is linear
}

// add takes the pieces of one chunk.
func (c *calls) add(deltas []callDelta) error {
	unkeyed := 0
	for _, d := range deltas {
		if d.Index == nil && d.ID == "" {
			unkeyed++
		}
	}
	for i, d := range deltas {
		if d.Function.Name == "" {
			d.Function.Name = d.Name
		}
		if len(d.Function.Arguments) == 0 {
			d.Function.Arguments = d.Arguments
		}
		if unkeyed > 1 && d.Index == nil && d.ID == "" {
			d.Index, d.placed = &i, true // nothing else tells them apart
		}
		call, err := c.open(d)
		if err != nil {
			return err
		}
		if err := c.grow(call, d); err != nil {
			return err
		}
	}
	return nil
}

// open returns the call that a piece belongs to: by its index, else its id, else
// it is the one that is open. A piece that names another call under the key of one
// that is known begins a new one.
func (c *calls) open(d callDelta) (*openCall, error) {
	var call *openCall
	switch {
	case d.Index != nil:
		call = c.byIndex[*d.Index]
	case d.ID != "":
		call = c.byID[string(d.ID)]
		if call == nil && c.current != nil && c.current.id == "" && c.current.name == "" {
			call = c.current
		}
	default:
		call = c.current
	}
	if call == nil || c.another(call, d) {
		if len(c.order) >= c.lim.calls {
			return nil, tooLarge("more than %d tool calls", c.lim.calls)
		}
		call = &openCall{}
		c.order = append(c.order, call)
	}
	c.current = call
	if d.Index != nil {
		c.byIndex[*d.Index] = call
	}
	if d.ID != "" {
		if call.id == "" {
			call.id = string(d.ID)
		}
		c.byID[string(d.ID)] = call
	}
	return call, nil
}

// another reports whether a piece begins a call of its own although its key is
// taken: servers number all calls 0, or send whole ones without any key. Others
// repeat name or arguments of the call that they are at; that begins none.
func (c *calls) another(call *openCall, d callDelta) bool {
	name, args := d.Function.Name, d.Function.Arguments
	switch {
	case name == "" || call.name == "":
		return false
	case d.ID != "" && call.id != "" && string(d.ID) != call.id:
		return true
	case name != call.name && c.known(call.name) && c.known(name):
		return true
	case isEmpty(args):
		return false
	case call.first != nil || args[0] == '{':
		return d.placed || d.Index == nil && call.begun()
	case !call.shape.whole():
		return false
	}
	var none []byte
	return unquote(args, &none) != call.args.String()
}

// isEmpty reports arguments that say nothing.
func isEmpty(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

// grow adds what a piece holds to its call.
func (c *calls) grow(call *openCall, d callDelta) error {
	if name := d.Function.Name; name != "" && name != call.name {
		switch {
		case strings.HasPrefix(name, call.name): // also the first one
			call.name = name
		default:
			call.name += name
		}
	}
	if len(call.name) > c.lim.name || len(call.id) > c.lim.name {
		return tooLarge("a tool call with an id or a name of more than %d bytes", c.lim.name)
	}
	return c.arguments(call, d.Function.Arguments)
}

// arguments takes text, which is appended, or an object, which is merged into what
// was there.
func (c *calls) arguments(call *openCall, raw json.RawMessage) error {
	if isEmpty(raw) {
		return nil
	}
	c.size += len(raw)
	c.moved += len(raw)
	if c.size > c.lim.args {
		return tooLarge("tool arguments of more than %d bytes", c.lim.args)
	}
	if raw[0] == '"' {
		text := unquote(raw, &call.carry)
		if len(text) == call.args.Len() && call.shape.whole() {
			c.moved += len(text)
			if call.args.String() == text {
				return nil // said again as a whole
			}
		}
		call.args.WriteString(text)
		call.shape.feed(text)
		return nil
	}
	switch {
	case raw[0] != '{':
		call.args.Write(raw) // an array or a bare value: the agent says what is wrong with it
	case call.first == nil:
		call.first = bytes.Clone(raw)
	default:
		call.merge(raw)
	}
	return nil
}

// merge adds a further piece of an object.
func (o *openCall) merge(raw json.RawMessage) {
	if o.object == nil {
		_ = decodeNumbers(o.first, &o.object) // it was part of valid JSON
	}
	var piece map[string]any
	_ = decodeNumbers(raw, &piece)
	merge(o.object, piece)
}

// begun reports whether any arguments came.
func (o *openCall) begun() bool { return o.first != nil || o.args.Len() > 0 }

// A shape follows the brackets of a JSON text that arrives in pieces, so that
// nobody has to read it again from the beginning.
type shape struct {
	depth         int
	begun         bool
	text, escaped bool // inside a string; after a backslash
}

// feed takes the next piece.
func (s *shape) feed(piece string) {
	for i := range len(piece) {
		c := piece[i]
		switch {
		case s.escaped:
			s.escaped = false
		case s.text:
			s.escaped, s.text = c == '\\', c != '"'
		case c == '"':
			s.text = true
		case c == '{' || c == '[':
			s.depth++
			s.begun = true
		case c == '}' || c == ']':
			s.depth--
		}
	}
}

// whole reports whether an object or a list was opened and closed.
func (s *shape) whole() bool { return s.begun && s.depth == 0 && !s.text }

// raw returns the arguments as the model gave them.
func (o *openCall) raw() (transcript.RawJSON, error) {
	if len(o.carry) > 0 {
		o.args.WriteString("\uFFFD")
		o.carry = nil
	}
	switch {
	case o.object != nil:
		return transcript.Encode(o.object)
	case o.first != nil && o.args.Len() == 0:
		return o.first, nil
	}
	return o.args.Bytes(), nil
}

// finish returns the calls, in the order in which they began. Of an answer that
// was cut, a call without complete arguments is none: nobody knows what it would
// have said. Ids that are missing or used twice are made, the same ones for the
// same request.
func (c *calls) finish(seed string, cut bool) ([]adapters.CallChunk, error) {
	var out []adapters.CallChunk
	used := map[string]bool{}
	for i, o := range c.order {
		raw, err := o.raw()
		if err != nil {
			return nil, fmt.Errorf("encode tool arguments: %w", err)
		}
		husk := o.id == "" && o.name == "" && len(raw) == 0
		if husk || cut && !json.Valid(raw) {
			continue
		}
		if o.id == "" {
			o.id = madeID(seed, i, o.name)
		}
		id := o.id
		for n := 2; used[id]; n++ {
			id = fmt.Sprintf("%s-%d", o.id, n)
		}
		used[id] = true
		out = append(out, adapters.CallChunk{Call: transcript.ToolCall{
			CallID: transcript.CallID(id), Name: o.name, Arguments: raw,
		}})
	}
	return out, nil
}

// madeID is the id of a call that came without one. seed is different for every
// request of a thread.
func madeID(seed string, i int, name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", seed, i, name))
	return "call_" + hex.EncodeToString(sum[:10])
}

// merge adds the members of src to dst: objects member by member, lists element
// by element; anything else is replaced.
func merge(dst, src map[string]any) {
	for k, v := range src {
		dst[k] = merged(dst[k], v)
	}
}

func merged(old, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if o, is := old.(map[string]any); is {
			merge(o, v)
			return o
		}
	case []any:
		o, is := old.([]any)
		if !is {
			return v
		}
		for i := range v {
			if i == len(o) {
				return append(o, v[i:]...)
			}
			o[i] = merged(o[i], v[i])
		}
		return o
	}
	return v
}

// decodeNumbers decodes without making floats of numbers.
func decodeNumbers(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}
