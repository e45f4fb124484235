package pi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// message is any message of an entry; its role says which fields it has.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"` // a string or a list of blocks
	Model        string          `json:"model"`
	StopReason   string          `json:"stopReason"`
	ErrorMessage string          `json:"errorMessage"`
	ToolCallID   string          `json:"toolCallId"`
	IsError      bool            `json:"isError"`
	Command      string          `json:"command"` // bashExecution
	Code         string          `json:"code"`    // pythonExecution (omp)
	Output       string          `json:"output"`
	ExitCode     *int            `json:"exitCode"`
	Cancelled    bool            `json:"cancelled"`
	Excluded     bool            `json:"excludeFromContext"`
	Summary      string          `json:"summary"`
	raw          json.RawMessage
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Data      string          `json:"data"`
	MimeType  string          `json:"mimeType"`
	raw       json.RawMessage
}

func blocks(content json.RawMessage) []block {
	if session.Absent(content) {
		return nil
	}
	return session.Blocks(content, func(b *block, raw json.RawMessage) { b.raw = raw })
}

func (rd *reader) message(e *entry, ref session.Ref, at time.Time) {
	var m message
	if err := json.Unmarshal(e.Message, &m); err != nil {
		rd.b.Warn(e.line, "message has another shape than expected: %v", err) // the other fields are decoded
	}
	m.raw = e.Message
	switch m.Role {
	case "user":
		rd.user(&m, ref, at)
	case "assistant":
		rd.assistant(&m, ref, at)
	case "toolResult":
		rd.b.Add(ref, at, transcript.ToolResult{CallID: transcript.CallID(m.ToolCallID), Output: rd.parts(m.Content, e.line), IsError: m.IsError})
	case "bashExecution", "pythonExecution":
		rd.command(&m, ref, at)
	case "system":
		rd.b.Skip("message/system") // the base, which is rebuilt for every request
	case "custom", "hookMessage", "developer", "fileMention":
		rd.notice("custom", m.Content, ref, at)
	case "branchSummary", "compactionSummary":
		rd.text(m.Role, m.Summary, ref, at)
	default:
		if session.Absent(m.raw) {
			rd.b.Warn(e.line, "entry has no message and was skipped")
			return
		}
		rd.b.Add(ref, at, transcript.Opaque{Origin: session.SourcePi, Raw: m.raw})
	}
}

func (rd *reader) user(m *message, ref session.Ref, at time.Time) {
	parts := rd.parts(m.Content, ref.Line)
	text := transcript.PartsText(parts)
	if rd.b.Blank("user", text) {
		return
	}
	rd.b.Prompt()
	rd.b.Title(text)
	rd.b.Add(ref, at, transcript.UserMessage{Content: parts})
}

func (rd *reader) assistant(m *message, ref session.Ref, at time.Time) {
	if m.Model != "" {
		rd.b.Session().Model = m.Model
	}
	for i, b := range blocks(m.Content) {
		ref.Block = i
		switch b.Type {
		case "text":
			if !rd.b.Blank("assistant", b.Text) {
				rd.b.Add(ref, at, transcript.AgentMessage{Text: b.Text})
			}
		case "thinking":
			if !rd.b.Blank("thinking", b.Thinking) {
				rd.b.Add(ref, at, transcript.Reasoning{Text: b.Thinking})
			}
		case "toolCall":
			rd.b.Add(ref, at, transcript.ToolCall{CallID: transcript.CallID(b.ID), Name: b.Name, Arguments: session.Arguments(b.Arguments)})
		default:
			if len(b.raw) > 0 {
				rd.b.Add(ref, at, transcript.Opaque{Origin: session.SourcePi, Raw: b.raw})
			}
		}
	}
	rd.stop(m)
}

// stop notes how the model's last answer of a turn ended, which is how the turn
// did; a good answer after a failed one makes up for it.
func (rd *reader) stop(m *message) {
	switch m.StopReason {
	case "aborted":
		rd.b.EndTurn(transcript.TurnInterrupted, nil)
	case "error":
		rd.b.EndTurn(transcript.TurnFailed, &transcript.TurnError{Message: m.ErrorMessage, Code: "provider"})
	case "stop", "length":
		rd.b.EndTurn(transcript.TurnCompleted, nil)
	default: // the turn goes on
		rd.b.ReopenTurn()
	}
}

// command adds a command that the user ran, with its output.
func (rd *reader) command(m *message, ref session.Ref, at time.Time) {
	if m.Excluded {
		rd.b.Skip("message/" + m.Role + " outside the context")
		return
	}
	status := "completed"
	if m.Cancelled || m.ExitCode != nil && *m.ExitCode != 0 {
		status = "failed"
	}
	rd.b.Add(ref, at, transcript.Command{Command: m.Command + m.Code, Cwd: rd.b.Session().Cwd, Output: m.Output, ExitCode: m.ExitCode, Status: status})
}

// parts is content as parts; a block that is neither text nor an image keeps its
// JSON.
func (rd *reader) parts(content json.RawMessage, line int) []transcript.Part {
	parts := []transcript.Part{}
	for _, b := range blocks(content) {
		switch b.Type {
		case "text":
			parts = append(parts, transcript.Part{Type: transcript.PartText, Text: b.Text})
		case "image":
			parts = append(parts, rd.image(b, line))
		default:
			parts = append(parts, transcript.Part{Type: transcript.PartText, Text: string(b.raw)})
		}
	}
	if len(parts) == 0 {
		return transcript.TextParts("")
	}
	return parts
}

func (rd *reader) image(b block, line int) transcript.Part {
	if strings.HasPrefix(b.Data, "blob:") { // omp keeps large images beside the file
		rd.b.Warn(line, "an image is stored outside the file and was replaced by a marker")
		return transcript.Part{Type: transcript.PartText, Text: "[image " + b.MimeType + " " + b.Data + "]"}
	}
	return rd.b.Media(line, "image", b.MimeType, b.Data)
}
