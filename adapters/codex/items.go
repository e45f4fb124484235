package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// origin is that of items which only codex understands.
const origin = "codex"

// maxOutput bounds the output of a command that is kept, in bytes: the beginning and
// the end of a longer one.
const maxOutput = 1 << 20

// status is codex's word for how far a command or a change of files got, in ours.
func status(s string) string {
	switch s {
	case "inProgress", "completed", "failed", "declined":
		return s
	case "":
		return "inProgress"
	}
	return "failed"
}

// command is a commandExecution.
func (v *itemView) command() transcript.Command {
	c := transcript.Command{Command: v.Command, Cwd: v.Cwd, ExitCode: v.ExitCode, Status: status(v.Status)}
	if v.Output != nil {
		c.Output = timeline.Clip(*v.Output, maxOutput)
	}
	return c
}

// change is a fileChange.
func (v *itemView) change() transcript.FileChange {
	c := transcript.FileChange{Status: status(v.Status), Changes: []transcript.Change{}}
	for _, f := range v.Changes {
		op := f.Kind.Type
		if op == "" {
			op = "update"
		}
		c.Changes = append(c.Changes, transcript.Change{Path: f.Path, Op: op, Diff: timeline.Clip(f.Diff, maxOutput)})
	}
	return c
}

// toolName is how a tool of an MCP server is called.
func (v *itemView) toolName() string {
	if v.Server != "" {
		return v.Server + "." + v.Tool
	}
	return v.Tool
}

// arguments are those of a call, as JSON; none are an empty object.
func (v *itemView) arguments() transcript.RawJSON {
	if len(v.Arguments) == 0 || string(v.Arguments) == "null" {
		return transcript.RawJSON("{}")
	}
	return v.Arguments
}

// result is what a call that codex ran came to.
func (v *itemView) result() transcript.ToolResult {
	r := transcript.ToolResult{IsError: v.Status == "failed" || v.Failure != nil || v.Success != nil && !*v.Success}
	var text []string
	if v.Failure != nil {
		text = append(text, v.Failure.Message)
	}
	if v.Result != nil {
		for _, raw := range v.Result.Content {
			var c contentItem
			if json.Unmarshal(raw, &c) == nil && c.Text != "" {
				text = append(text, c.Text)
			} else {
				text = append(text, string(raw))
			}
		}
	}
	for _, c := range v.Contents {
		text = append(text, c.Text)
	}
	r.Output = transcript.TextParts(timeline.Clip(strings.Join(text, "\n"), maxOutput))
	return r
}

// reasoning is the disclosed thinking of a whole item.
func (v *itemView) reasoning() string {
	if len(v.Summary) > 0 {
		return strings.Join(v.Summary, "\n\n")
	}
	var raw []string
	_ = json.Unmarshal(v.Content, &raw) // a message's parts are no texts
	return strings.Join(raw, "\n\n")
}

// opaque is an item that has no shape of ours: kept as it is, with a line that says
// what it was.
func (v *itemView) opaque() transcript.Opaque {
	text := v.Type
	var fields struct {
		Query  string `json:"query"`
		Path   string `json:"path"`
		Review string `json:"review"`
		Prompt string `json:"prompt"`
	}
	_ = json.Unmarshal(v.raw, &fields) // what is not there says nothing
	for _, s := range []string{v.Text, fields.Query, fields.Path, fields.Review, fields.Prompt} {
		if s != "" {
			text = fmt.Sprintf("%s: %s", v.Type, timeline.Clip(s, 2000))
			break
		}
	}
	return transcript.Opaque{Origin: origin, Raw: v.raw, Text: text}
}
