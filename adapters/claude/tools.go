package claude

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file makes items of the tools that Claude Code calls, and of their results.

// An input is what the tools that have a shape of ours are called with.
type input struct {
	Command  string `json:"command"`
	File     string `json:"file_path"`
	Notebook string `json:"notebook_path"`
	Content  string `json:"content"`
	Old      string `json:"old_string"`
	New      string `json:"new_string"`
	Edits    []struct {
		Old string `json:"old_string"`
		New string `json:"new_string"`
	} `json:"edits"`
	Source string `json:"new_source"`
	Todos  []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"todos"`
}

func inputOf(raw json.RawMessage) input {
	var in input
	_ = json.Unmarshal(raw, &in) // what is not there is empty
	return in
}

// bodyOf is the item of a call that has a shape of ours: a command or a change of
// files. False: it is a plain tool call.
func bodyOf(tool string, raw json.RawMessage, cwd string) (transcript.Body, bool) {
	in := inputOf(raw)
	switch tool {
	case "Bash":
		return transcript.Command{Command: in.Command, Cwd: cwd, Status: "inProgress"}, true
	case "Write":
		return proposed(in.File, "add", addition(in.Content)), true
	case "Edit":
		return proposed(in.File, "update", replacement(in.Old, in.New)), true
	case "MultiEdit":
		var diff strings.Builder
		for _, e := range in.Edits {
			diff.WriteString(replacement(e.Old, e.New))
		}
		return proposed(in.File, "update", diff.String()), true
	case "NotebookEdit":
		return proposed(in.Notebook, "update", addition(in.Source)), true
	}
	return nil, false
}

func proposed(path, op, diff string) transcript.FileChange {
	return transcript.FileChange{Status: "inProgress", Changes: []transcript.Change{{Path: path, Op: op, Diff: clip(diff)}}}
}

// addition and replacement are diffs without line numbers, which are not known before
// the change is made.
func addition(text string) string { return marked('+', text) }

func replacement(before, after string) string {
	return "@@\n" + marked('-', before) + marked('+', after)
}

func marked(sign byte, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteByte(sign)
		b.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// arguments are those of a call, as JSON.
func arguments(raw json.RawMessage) transcript.RawJSON {
	if len(raw) == 0 || string(raw) == "null" {
		return transcript.RawJSON("{}")
	}
	return raw
}

// called opens the item of a call.
func (r *run) called(b block) error {
	if b.Name == "TodoWrite" {
		if err := r.line.Emit(adapters.PlanUpdated{Plan: planOf(inputOf(b.Input))}); err != nil {
			return err
		}
	}
	if r.line.Has(b.ID) { // a question opened it
		return nil
	}
	_, err := r.line.Show(b.ID, r.itemOf(b.ID, b.Name, b.Input))
	return err
}

// itemOf is the item of a call.
func (r *run) itemOf(id, tool string, raw json.RawMessage) transcript.Body {
	if body, ok := bodyOf(tool, raw, r.s.params.Cwd); ok {
		return body
	}
	return transcript.ToolCall{CallID: r.s.calls.Unique(id), Name: plainName(tool), Arguments: arguments(raw)}
}

func planOf(in input) transcript.Plan {
	plan := transcript.Plan{Steps: []transcript.PlanStep{}}
	for _, t := range in.Todos {
		status := t.Status
		if status == "in_progress" {
			status = "inProgress"
		}
		plan.Steps = append(plan.Steps, transcript.PlanStep{Step: t.Content, Status: status})
	}
	return plan
}

// A toolResult is the structured form of what a tool did.
type toolResult struct {
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	File     string  `json:"filePath"`
	Type     string  `json:"type"`
	Content  string  `json:"content"`
	Original *string `json:"originalFile"`
	Patch    []struct {
		OldStart int      `json:"oldStart"`
		OldLines int      `json:"oldLines"`
		NewStart int      `json:"newStart"`
		NewLines int      `json:"newLines"`
		Lines    []string `json:"lines"`
	} `json:"structuredPatch"`
}

// returned completes the item of a call.
func (r *run) returned(b block, structured json.RawMessage) error {
	body, open := r.line.Body(b.ToolUseID)
	if !open {
		return nil // of a turn that is over
	}
	if r.unheard(b) {
		r.fail(unavailable(r.s.o.Name, "Claude Code cannot ask for permissions any more (it says: %s)", clip(textOf(b.Content))))
	}
	var res toolResult
	_ = json.Unmarshal(structured, &res) // some are texts
	status := "completed"
	switch {
	case r.wasDenied(b.ToolUseID):
		status = "declined"
	case b.IsError:
		status = "failed"
	}
	switch body := body.(type) {
	case transcript.Command:
		body.Status, body.Output = status, clip(textOf(b.Content))
		if status != "declined" {
			body.ExitCode = exitCode(body.Output, b.IsError)
		}
		return r.line.Complete(b.ToolUseID, body)
	case transcript.FileChange:
		body.Status = status
		if change, ok := res.change(); ok && status == "completed" {
			body.Changes = []transcript.Change{change}
		}
		return r.line.Complete(b.ToolUseID, body)
	}
	return r.line.Answer(b.ToolUseID, transcript.ToolCall{}, transcript.ToolResult{
		IsError: b.IsError, Output: transcript.TextParts(clip(textOf(b.Content))),
	})
}

// maxUnheard is how many calls in a row may fail because Claude Code could not ask.
const maxUnheard = 3

// unheard reports whether calls fail again and again because Claude Code takes its input
// for closed: it would go on so, and pay for it, until somebody looks.
func (r *run) unheard(b block) bool {
	if !b.IsError || !strings.Contains(textOf(b.Content), "Stream closed") {
		r.closed = 0
		return false
	}
	r.closed++
	return r.closed == maxUnheard
}

// change is what was changed in a file, as a diff.
func (t *toolResult) change() (transcript.Change, bool) {
	c := transcript.Change{Path: t.File, Op: "update"}
	if t.File == "" {
		return c, false
	}
	if t.Type == "create" || t.Original == nil {
		c.Op, c.Diff = "add", clip(addition(t.Content))
		return c, t.Content != ""
	}
	var b strings.Builder
	for _, h := range t.Patch {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			b.WriteString(line + "\n")
		}
	}
	c.Diff = clip(b.String())
	return c, c.Diff != ""
}

// exitCode is that of a command. A failure begins with it (2.1.332, observed); one that
// does not has none.
func exitCode(output string, failed bool) *int {
	if !failed {
		return new(int)
	}
	first, _, _ := strings.Cut(output, "\n")
	if _, number, ok := strings.Cut(first, "Exit code "); ok {
		if n, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
			return &n
		}
	}
	return nil
}

// textOf is the text of the content of a message or of a result.
func textOf(raw json.RawMessage) string {
	var list []block
	if json.Unmarshal(raw, &list) != nil {
		return stringIn(raw)
	}
	var out []string
	for _, b := range list {
		if b.Type == "text" || b.Text != "" {
			out = append(out, b.Text)
		} else {
			out = append(out, "["+b.Type+"]")
		}
	}
	return strings.Join(out, "\n")
}
