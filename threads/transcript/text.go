package transcript

import (
	"bytes"
	"encoding/json"
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
	type level struct{ object, key bool }
	var stack []level
	for {
		tok, err := dec.Token()
		if err != nil {
			if len(stack) > 0 || len(lines) == 0 && len(bytes.TrimSpace(raw)) > 0 && !json.Valid(raw) {
				return string(raw)
			}
			return strings.Join(lines, "\n")
		}
		top := len(stack) - 1
		switch t := tok.(type) {
		case json.Delim:
			switch t {
			case '{':
				stack = append(stack, level{object: true, key: true})
			case '[':
				stack = append(stack, level{})
			default:
				stack = stack[:top]
				if top > 0 && stack[top-1].object {
					stack[top-1].key = true
				}
			}
			continue
		case string:
			if top >= 0 && stack[top].object && stack[top].key {
				stack[top].key = false
				continue
			}
			lines = append(lines, t)
		case json.Number:
			lines = append(lines, t.String())
		case bool:
			lines = append(lines, map[bool]string{true: "true", false: "false"}[t])
		case nil:
			lines = append(lines, "null")
		}
		if top >= 0 && stack[top].object {
			stack[top].key = true
		}
	}
}
