package agent

import (
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// replacement stands for bytes that are no UTF-8; JSON could not carry them.
const replacement = string(utf8.RuneError)

// part is a text item while it grows.
type part struct {
	kind transcript.Kind
	id   transcript.ItemID // empty until it was started
	text strings.Builder   // what was streamed of it
	cut  string            // the first bytes of a character whose rest has not come
}

// body returns the item's body with a text.
func (p *part) body(text string) transcript.Body {
	if p.kind == transcript.KindReasoning {
		return transcript.Reasoning{Text: text}
	}
	return transcript.AgentMessage{Text: text}
}

// whole returns as much of the text so far as ends with a whole character, and
// keeps the rest for the next call.
func (p *part) whole(text string) string {
	if p.cut != "" {
		text = p.cut + text
		p.cut = ""
	}
	for i := 1; i <= min(utf8.UTFMax-1, len(text)); i++ {
		tail := text[len(text)-i:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if !utf8.FullRuneInString(tail) {
			text, p.cut = text[:len(text)-i], tail
		}
		break
	}
	return strings.ToValidUTF8(text, replacement)
}

// rest returns what stands for a character that never got complete.
func (p *part) rest() string {
	if p.cut == "" {
		return ""
	}
	p.cut = ""
	return replacement
}
