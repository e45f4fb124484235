package claudecode

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// block is one content block. What is not in it stays in raw.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type      string `json:"type"` // base64 | url | file
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
	raw json.RawMessage
}

func blocks(content json.RawMessage) []block {
	return session.Blocks(content, func(b *block, raw json.RawMessage) { b.raw = raw })
}

func (rd *reader) assistant(rec *record, ref session.Ref, at time.Time) {
	if rec.Message.Model == "<synthetic>" {
		rd.b.Skip("assistant/synthetic")
		return
	}
	if rec.Message.Model != "" {
		rd.b.Session().Model = rec.Message.Model
	}
	for i, b := range blocks(rec.Message.Content) {
		ref.Block = i
		switch b.Type {
		case "text":
			if rd.b.Blank("assistant", b.Text) {
				continue
			}
			rd.b.Add(ref, at, transcript.AgentMessage{Text: b.Text})
		case "thinking":
			if rd.b.Blank("thinking", b.Thinking) {
				continue
			}
			rd.b.Add(ref, at, transcript.Reasoning{Text: b.Thinking})
		case "tool_use":
			rd.b.Add(ref, at, transcript.ToolCall{CallID: transcript.CallID(b.ID), Name: b.Name, Arguments: session.Arguments(b.Input)})
		default:
			rd.opaque(b, ref, at)
		}
	}
}

// opaque keeps a block that only its origin understands.
func (rd *reader) opaque(b block, ref session.Ref, at time.Time) {
	if session.Absent(b.raw) {
		rd.b.Warn(ref.Line, "message has no content")
		return
	}
	rd.b.Add(ref, at, transcript.Opaque{Origin: session.SourceClaudeCode, Raw: b.raw})
}

func (rd *reader) user(rec *record, ref session.Ref, at time.Time) {
	content := blocks(rec.Message.Content)
	if rec.IsCompactSummary {
		rd.summary(content, ref, at)
		return
	}
	// Text that came with a result steered the running turn; several texts of one
	// record begin one turn.
	prompted := slices.ContainsFunc(content, func(b block) bool { return b.Type == "tool_result" })
	for i, b := range content {
		ref.Block = i
		switch {
		case b.Type == "text" && rd.b.Blank("user", b.Text), b.Type == "image" && joinsText(content, i):
		case b.Type == "text" && (rec.IsMeta || isMeta(b.Text)):
			rd.b.Add(ref, at, transcript.Notice{Source: "meta", Text: b.Text})
		case b.Type == "text" && isInterrupt(b.Text):
			rd.b.Add(ref, at, transcript.UserMessage{Content: transcript.TextParts(b.Text)})
			rd.b.EndTurn(transcript.TurnInterrupted, nil)
		case b.Type == "text" || b.Type == "image":
			if !prompted {
				rd.b.Prompt()
				prompted = true
			}
			rd.b.Title(promptTitle(b.Text))
			rd.b.Add(ref, at, transcript.UserMessage{Content: rd.parts(content, i, ref.Line)})
		case b.Type == "tool_result":
			rd.b.Add(ref, at, transcript.ToolResult{CallID: transcript.CallID(b.ToolUseID), Output: rd.output(b.Content, ref.Line), IsError: b.IsError})
		default:
			rd.opaque(b, ref, at)
		}
	}
}

// joinsText reports whether the image at i is part of the message of a text
// block before it. Each text block is a message of its own, with the images
// that follow it.
func joinsText(content []block, i int) bool {
	for i--; i >= 0 && content[i].Type == "image"; i-- {
	}
	return i >= 0 && content[i].Type == "text" && strings.TrimSpace(content[i].Text) != "" && !isMeta(content[i].Text) && !isInterrupt(content[i].Text)
}

// parts returns the block at i with the images that belong to it.
func (rd *reader) parts(content []block, i, line int) []transcript.Part {
	parts := []transcript.Part{rd.part(content[i], line)}
	if content[i].Type == "text" {
		for i++; i < len(content) && content[i].Type == "image"; i++ {
			parts = append(parts, rd.part(content[i], line))
		}
	}
	return parts
}

// output is the content of a tool result as parts.
func (rd *reader) output(content json.RawMessage, line int) []transcript.Part {
	if session.Absent(content) {
		return transcript.TextParts("")
	}
	parts := []transcript.Part{}
	for _, b := range blocks(content) {
		parts = append(parts, rd.part(b, line))
	}
	return parts
}

func (rd *reader) part(b block, line int) transcript.Part {
	switch {
	case b.Type == "text":
		return transcript.Part{Type: transcript.PartText, Text: b.Text}
	case b.Source.Type == "base64":
		return rd.b.Media(line, b.Type, b.Source.MediaType, b.Source.Data)
	case b.Source.URL != "":
		return transcript.Part{Type: transcript.PartText, Text: "[" + b.Type + " " + b.Source.URL + "]"}
	}
	return transcript.Part{Type: transcript.PartText, Text: string(b.raw)}
}

// summary takes the text that replaced what a compaction dropped.
func (rd *reader) summary(content []block, ref session.Ref, at time.Time) {
	var parts []transcript.Part
	for _, b := range content {
		parts = append(parts, rd.part(b, ref.Line))
	}
	text := transcript.PartsText(parts)
	if rd.b.Blank("summary", text) || rd.b.Checkpoint(ref, at, text) {
		return
	}
	rd.b.Warn(ref.Line, "a summary without a compaction before it was taken as a notice")
	rd.b.Add(ref, at, transcript.Notice{Source: "summary", Text: text})
}

// queued adds what the user typed while a turn was running: part of that turn.
func (rd *reader) queued(rec *record, ref session.Ref, at time.Time) {
	content := blocks(rec.Attachment.Prompt)
	for i, b := range content {
		ref.Block = i
		switch {
		case b.Type == "text" && rd.b.Blank("user", b.Text), b.Type == "image" && joinsText(content, i):
		case b.Type == "text" && (rec.IsMeta || isMeta(b.Text)):
			rd.b.Add(ref, at, transcript.Notice{Source: "meta", Text: b.Text})
		case b.Type == "text" || b.Type == "image":
			rd.b.Add(ref, at, transcript.UserMessage{Content: rd.parts(content, i, ref.Line)})
		default:
			rd.opaque(b, ref, at)
		}
	}
}

// isMeta reports whether user text is the program's own: commands that it ran
// locally, and their output.
func isMeta(text string) bool {
	return strings.HasPrefix(text, "<command-name>") || strings.HasPrefix(text, "<local-command") || strings.HasPrefix(text, "<bash-")
}

// isInterrupt reports whether user text is the mark of an interrupted turn.
func isInterrupt(text string) bool {
	return strings.HasPrefix(text, "[Request interrupted by user")
}

var (
	reminder    = regexp.MustCompile(`(?s)<system-reminder>.*?</system-reminder>`)
	commandName = regexp.MustCompile(`(?s)<command-name>\s*(.*?)\s*</command-name>`)
	commandArgs = regexp.MustCompile(`(?s)<command-args>\s*(.*?)\s*</command-args>`)
)

// promptTitle is what a prompt reads like to its author: without the reminders
// that the program puts in, and with a slash command as it was typed.
func promptTitle(text string) string {
	if m := commandName.FindStringSubmatch(text); m != nil && strings.HasPrefix(text, "<command-message>") {
		title := m[1]
		if args := commandArgs.FindStringSubmatch(text); args != nil {
			title += " " + args[1]
		}
		return title
	}
	return reminder.ReplaceAllString(text, "")
}
