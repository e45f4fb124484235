package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// A wire is a format in which models are asked and answer.
type wire struct {
	path   string
	stream string // content type of a stream
	// read finds in a body what a player has to know.
	read func(body []byte, h http.Header) (request, error)
	// refuse puts an error of OpenAI's shape into the wire's own; nil: it is that.
	refuse func(object) object
	// failure is the error of a status, in OpenAI's shape; nil: a plain one.
	failure func(status int) object
	// overflow is that of the wire's own provider, if the cassette names no server.
	overflow func(excess) (status int, body object)
	custom   bool // it has tools whose input is a text
	// encode returns the encoder of one answer.
	encode func(a answer) encoder
}

// wires by their paths.
var wires = map[string]wire{}

func init() {
	for _, w := range []wire{chatWire, ollamaWire, responsesWire, messagesWire} {
		wires[w.path] = w
	}
}

// A request is what all wires have in common.
type request struct {
	model     string
	stream    bool
	usage     bool // it wants to be told the usage in a stream
	maxOutput int
	last      string // text of its last message
	wrong     string // why its provider would refuse it; empty if it would not
	writer    bool   // a program asks for the summary of a compaction of its own
}

// An answer is what an encoder knows of the answer that it encodes.
type answer struct {
	id, model string
	reasoning string // the field of thinking
	server    server
	input     usage // what is known of the usage when the answer begins
}

// An encoder writes the pieces of one answer, each as the bytes of whole frames.
type encoder interface {
	text(thinking bool, s string) []byte
	// refuse writes that the model refuses, and why.
	refuse(s string) []byte
	// call writes the n-th call, its arguments in pieces.
	call(n int, c call, args []string) []byte
	usage(u usage) []byte
	finish(reason string) []byte
	done() []byte
	// fail breaks the answer off with an error, after which nothing comes.
	fail(code, text string) []byte
	// whole is the answer to a request that wants no stream.
	whole(r reply) []byte
}

// A compacter is an encoder of a wire that has an item for a provider's own compaction.
type compacter interface {
	compaction(text string) []byte
}

// A reply is a whole answer.
type reply struct {
	text, thinking string
	refusal        string
	calls          []call
	usage          *usage
	finish         string
}

// object makes the JSON of a frame. Keys are in the order of the alphabet, which no
// client minds.
type object = map[string]any

// encodeJSON writes a value as servers do: without escapes that only HTML needs.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // strings, numbers, and JSON that was checked
		panic(fmt.Sprintf("upstream: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// arguments are those of a call as a JSON value; what is none stays a string.
func arguments(s string) any {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return s
}

// texts returns the strings in a JSON value, one a line, to look for texts as the
// user wrote them.
func texts(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v)
			b.WriteByte('\n')
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(v[k])
			}
		}
	}
	walk(v)
	return b.String()
}
