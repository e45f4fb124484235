package transcript

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text returns what the body says as plain text. It is what rulers measure,
// what search indexes and what checkpoints quote. The text of a call is its
// name, a line feed, and its argument values in order, one a line.
func Text(b Body) string {
	switch b := b.(type) {
	case UserMessage:
		return PartsText(b.Content)
	case AgentMessage:
		return b.Text
	case Reasoning:
		return b.Text
	case ToolCall:
		return b.Name + "\n" + argumentText(b.Arguments)
	case ToolResult:
		return PartsText(b.Output)
	case Command:
		return b.Command + "\n" + b.Output
	case FileChange:
		var s strings.Builder
		for _, c := range b.Changes {
			s.WriteString(c.Op + " " + c.Path + "\n" + c.Diff + "\n")
		}
		return s.String()
	case Plan:
		var s strings.Builder
		for _, p := range b.Steps {
			s.WriteString("[" + p.Status + "] " + p.Step + "\n")
		}
		return s.String()
	case Image:
		return b.Path
	case Notice:
		return b.Text
	case Checkpoint:
		return b.Text
	case ContextCompaction:
		return ""
	case Opaque:
		if b.Text != "" {
			return b.Text
		}
		return string(b.Raw)
	}
	panic("transcript: unknown body")
}

// PartsText joins the text parts with line feeds; an image shows as a marker.
func PartsText(parts []Part) string {
	if len(parts) == 1 && parts[0].Type == PartText {
		return parts[0].Text
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type == PartImage {
			texts = append(texts, "[image "+p.MediaType+"]")
		} else {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Tokens estimates an item's tokens with the ruler chars4: code points of its
// text divided by four, rounded up. Every record that uses it says so.
func Tokens(b Body) int { return (utf8.RuneCountInString(Text(b)) + 3) / 4 }

// Ruler is the name under which Tokens appears in records.
const Ruler = "chars4"

// replaceText returns b with s in place of its text.
func replaceText(b Body, s string) Body {
	switch b := b.(type) {
	case UserMessage:
		b.Content = TextParts(s)
		return b
	case AgentMessage:
		b.Text = s
		return b
	case Reasoning:
		b.Text = s
		return b
	case ToolCall:
		args, err := Encode(map[string]string{"clipped": s})
		if err != nil { // a string always encodes
			panic(err)
		}
		b.Arguments = args
		return b
	case ToolResult:
		b.Output = TextParts(s)
		return b
	case Command:
		b.Output = s
		return b
	case FileChange:
		b.Changes = []Change{{Op: "update", Diff: s}}
		return b
	case Plan:
		b.Steps = []PlanStep{{Step: s, Status: "pending"}}
		return b
	case Notice:
		b.Text = s
		return b
	case Image, Opaque:
		return Notice{Source: "clipped", Text: s}
	case Checkpoint, ContextCompaction:
		return b // never clipped
	}
	panic("transcript: unknown body")
}

// argumentText lists the string and scalar values of a JSON value in document
// order, one a line; a value that does not parse is returned as it is.
func argumentText(raw RawJSON) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var lines []string
	var in nesting
	for {
		tok, err := dec.Token()
		if err != nil {
			if len(in) > 0 || len(lines) == 0 && len(bytes.TrimSpace(raw)) > 0 && !json.Valid(raw) {
				return string(raw)
			}
			return strings.Join(lines, "\n")
		}
		if text, ok := in.scalar(tok); ok {
			lines = append(lines, text)
		}
	}
}

// nesting follows the tokens of a JSON text: what is open around the next one,
// and whether that one is a key.
type nesting []struct{ object, key bool }

// scalar takes the next token and returns its text if it is a value, neither a
// key nor the beginning or end of something.
func (n *nesting) scalar(tok json.Token) (text string, ok bool) {
	switch t := tok.(type) {
	case json.Delim:
		if t == '{' || t == '[' {
			*n = append(*n, struct{ object, key bool }{t == '{', t == '{'})
			return "", false
		}
		*n = (*n)[:len(*n)-1]
	case string:
		if top := len(*n) - 1; top >= 0 && (*n)[top].key {
			(*n)[top].key = false
			return "", false
		}
		text, ok = t, true
	case json.Number:
		text, ok = t.String(), true
	case bool:
		text, ok = strconv.FormatBool(t), true
	case nil:
		text, ok = "null", true
	}
	if top := len(*n) - 1; top >= 0 { // a value has ended; a key may follow
		(*n)[top].key = (*n)[top].object
	}
	return text, ok
}
