package prompt

import (
	"hash/fnv"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Role says whose turn of the conversation a message is.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool" // the results of the calls of the message before
)

// Kind discriminates a Part.
type Kind string

// The kinds of part.
const (
	Text      Kind = "text"
	Image     Kind = "image"
	Call      Kind = "call"
	Result    Kind = "result"
	Reasoning Kind = "reasoning"
	Opaque    Kind = "opaque"
)

// A Message is one message of a request. A system message is text, a user message
// text and images, an assistant message reasoning, text, opaque items and calls,
// a tool message results.
type Message struct {
	Role  Role
	Parts []Part
}

// A Part is a piece of a message; the fields beside Kind, By and Source belong to
// the kinds that they name.
type Part struct {
	Kind   Kind
	By     transcript.Kind // the body it comes from; empty: this package added it
	Source string          // of a Notice

	// Text of a text or reasoning. Of an image or an opaque item it is what it is
	// told as to who cannot take it; of an opaque item it may be empty.
	Text string

	CallID    string             // call, result
	Name      string             // call, and of a result the tool that was called
	Arguments transcript.RawJSON // call: a JSON object
	Output    []Part             // result: texts and images
	IsError   bool               // result

	MediaType string // image
	Data      []byte // image

	Origin string             // opaque
	Raw    transcript.RawJSON // opaque

	Sum uint64 // reasoning, opaque: of what the provider sent, to see that it is whole
}

// system is the message with the system text.
func system(text string) Message {
	return Message{Role: System, Parts: []Part{{Kind: Text, Text: text}}}
}

// added is a text that this package puts in.
func added(text string) Part { return Part{Kind: Text, Text: text} }

// SumOf is the Sum of a part that is as the provider sent it.
func SumOf(p Part) uint64 {
	h := fnv.New64a()
	for _, s := range []string{string(p.Kind), p.Origin} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	if p.Kind == Opaque {
		_, _ = h.Write(p.Raw)
	} else {
		_, _ = h.Write([]byte(p.Text))
	}
	return h.Sum64()
}

// clone copies messages so far that parts can be replaced in the copy.
func clone(ms []Message) []Message {
	out := slices.Clone(ms)
	for i := range out {
		out[i].Parts = slices.Clone(out[i].Parts)
		for j := range out[i].Parts {
			out[i].Parts[j].Output = slices.Clone(out[i].Parts[j].Output)
		}
	}
	return out
}

// has reports whether a message has a part of a kind.
func (m Message) has(k Kind) bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Kind == k })
}

// texts calls f for each text of the messages that is shown to the model, the
// outputs of results among them, and puts what f returns in its place.
func texts(ms []Message, f func(p Part) string) {
	for _, m := range ms {
		for j := range m.Parts {
			p := &m.Parts[j]
			p.Text = f(*p)
			for k := range p.Output {
				p.Output[k].Text = f(p.Output[k])
			}
		}
	}
}
