package prompt

import (
	"encoding/base64"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// frameBytes and frameTokens are what a part costs beside its contents.
const (
	frameBytes  = 48
	frameTokens = 4
)

// Bytes is about what messages take as JSON, images in base64.
func Bytes(ms []Message) int { return bytesBy(ms, escaped) }

// within reports whether messages have at most limit bytes. It looks at every
// character only if that can matter.
func within(ms []Message, limit int) bool {
	return bytesBy(ms, func(s string) int { return 6 * len(s) }) <= limit || Bytes(ms) <= limit
}

func bytesBy(ms []Message, length func(string) int) int {
	n := 0
	for _, m := range ms {
		n += frameBytes
		for _, p := range m.Parts {
			n += partBytesBy(p, length)
		}
	}
	return n
}

func partBytes(p Part) int { return partBytesBy(p, escaped) }

func partBytesBy(p Part, length func(string) int) int {
	n := frameBytes + len(p.CallID) + len(p.Name) + length(string(p.Arguments)) + len(p.Raw)
	switch p.Kind {
	case Image:
		n += base64.StdEncoding.EncodedLen(len(p.Data))
	case Opaque: // its text is not sent
	default:
		n += length(p.Text)
	}
	for _, o := range p.Output {
		n += partBytesBy(o, length)
	}
	return n
}

// escaped is the length of a string in JSON.
func escaped(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

// Tokens is what messages cost by transcript.EstimateText, images by what an image
// costs.
func Tokens(ms []Message) int {
	n := 0
	for _, m := range ms {
		for _, p := range m.Parts {
			n += partTokens(p)
		}
	}
	return n
}

func partTokens(p Part) int {
	n := frameTokens
	switch p.Kind {
	case Image:
		return transcript.Estimate(transcript.Image{})
	case Opaque:
		n += transcript.EstimateText(string(p.Raw))
	case Call:
		n += transcript.EstimateText(p.Name + string(p.Arguments))
	default:
		n += transcript.EstimateText(p.Text)
	}
	for _, o := range p.Output {
		n += partTokens(o)
	}
	return n
}
