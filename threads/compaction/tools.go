package compaction

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A verb is what a tool call does, as far as its name and arguments tell.
type verb uint8

const (
	verbOther verb = iota
	verbRead
	verbEdit
	verbRun
	verbSearch
	verbPlan
	verbChild // starts another agent
)

// An action is what a call, a command or a file change did, read from its
// arguments. Tools are recognised by the words of their names and the keys of
// their arguments, not by a list of products.
type action struct {
	verb   verb
	paths  []string // read or edited
	cmd    string
	main   string // the one argument that says the most
	text   string // the new text of an edit
	plan   *transcript.Plan
	fields []field
	whole  bool // a read of the complete file
}

// A field is one top-level argument of a call, in document order.
type field struct{ key, text string }

// verbWords are looked up in the name of a tool, in this order.
var verbWords = []struct {
	word string
	verb verb
}{
	{"todo", verbPlan},
	{"plan", verbPlan},
	{"task", verbChild},
	{"agent", verbChild},
	{"delegate", verbChild},
	{"edit", verbEdit},
	{"write", verbEdit},
	{"patch", verbEdit},
	{"replace", verbEdit},
	{"create", verbEdit},
	{"insert", verbEdit},
	{"delete", verbEdit},
	{"grep", verbSearch},
	{"glob", verbSearch},
	{"search", verbSearch},
	{"find", verbSearch},
	{"list", verbSearch},
	{"fetch", verbSearch},
	{"read", verbRead},
	{"view", verbRead},
	{"open", verbRead},
	{"cat", verbRead},
	{"bash", verbRun},
	{"shell", verbRun},
	{"exec", verbRun},
	{"command", verbRun},
	{"run", verbRun},
	{"terminal", verbRun},
}

func verbOf(name string) verb {
	name = strings.ToLower(name)
	for _, w := range verbWords {
		if strings.Contains(name, w.word) {
			return w.verb
		}
	}
	if name == "ls" {
		return verbSearch
	}
	return verbOther
}

// isPathKey reports whether an argument of this name holds a path.
func isPathKey(key string) bool {
	switch key {
	case "path", "file", "filename", "file_path", "filePath", "filepath", "fileName", "file_name", "notebook_path", "target_file", "absolute_path", "target":
		return true
	}
	return false
}

// isMainKey reports whether an argument says what the call is about.
func isMainKey(key string) bool {
	switch key {
	case "command", "cmd", "pattern", "query", "url", "script", "description", "prompt", "skill", "regex", "glob":
		return true
	}
	return isPathKey(key)
}

func isNewTextKey(key string) bool {
	switch key {
	case "new_string", "newText", "new_str", "new_text", "content", "file_text", "insert_text", "text", "new_source", "replacement", "contents":
		return true
	}
	return false
}

// readCall reads what a call does.
func readCall(c transcript.ToolCall) action {
	a := action{verb: verbOf(c.Name)}
	a.fields = topFields(c.Arguments)
	if a.fields == nil {
		a.main = oneLine(string(c.Arguments), 200)
		return a
	}
	a.whole = true
	sub := ""
	for _, f := range a.fields {
		switch {
		case isPathKey(f.key):
			a.paths = append(a.paths, f.text)
		case f.key == "command" || f.key == "cmd" || f.key == "script":
			a.cmd = f.text
		case isNewTextKey(f.key):
			a.text = f.text
		case f.key == "offset" || f.key == "limit" || f.key == "view_range" || f.key == "start_line":
			a.whole = false
		}
		if a.main == "" && isMainKey(f.key) {
			a.main = f.text
		}
	}
	if a.verb == verbEdit && a.cmd != "" && len(a.paths) > 0 { // an editor with sub-commands
		sub, a.cmd, a.main = a.cmd, "", a.paths[0]
		if sub == "view" {
			a.verb = verbRead
		}
	}
	if a.verb == verbPlan {
		a.plan = planOf(c.Arguments)
	}
	if a.verb == verbOther && a.cmd != "" {
		a.verb = verbRun
	}
	if a.verb == verbEdit || a.verb == verbRun {
		a.addPatch()
	}
	if a.main == "" && len(a.fields) > 0 {
		a.main = a.fields[0].text
	}
	return a
}

// about says in at most n code points what the call was about. Of a path the end
// is what tells.
func (a *action) about(n int) string {
	s := oneLine(a.main, unbounded)
	if len(a.paths) > 0 && a.main == a.paths[0] && utf8.RuneCountInString(s) > n {
		return "…" + tailOf(s, n-1)
	}
	return oneLine(s, n)
}

// addPatch finds the paths and the added lines of a patch in the arguments.
func (a *action) addPatch() {
	for _, f := range a.fields {
		if !strings.Contains(f.text, "*** ") && !strings.Contains(f.text, "+++ ") {
			continue
		}
		paths, added := patchPaths(f.text)
		if len(paths) > 0 {
			a.verb, a.paths, a.text = verbEdit, append(a.paths, paths...), added
			if a.main == "" || a.main == f.text {
				a.main = strings.Join(paths, " ")
			}
		}
	}
}

// patchPaths lists the files that a patch touches, and its added lines.
func patchPaths(s string) (paths []string, added string) {
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		path, ok := "", false
		for _, p := range []string{"*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ", "+++ b/", "+++ "} {
			if path, ok = strings.CutPrefix(line, p); ok {
				break
			}
		}
		switch {
		case ok && path != "/dev/null":
			paths = append(paths, strings.TrimSpace(path))
		case strings.HasPrefix(line, "+"):
			b.WriteString(line[1:] + "\n")
		}
	}
	return paths, b.String()
}

// readCommand reads a command that a runtime reported.
func readCommand(c transcript.Command) action {
	return action{verb: verbRun, cmd: c.Command, main: c.Command}
}

// readChange reads a file change that a runtime reported.
func readChange(c transcript.FileChange) action {
	a := action{verb: verbEdit}
	var added strings.Builder
	for _, ch := range c.Changes {
		if ch.Path != "" {
			a.paths = append(a.paths, ch.Path)
		}
		for line := range strings.Lines(ch.Diff) {
			if strings.HasPrefix(line, "+") {
				added.WriteString(line[1:])
			}
		}
	}
	a.text, a.main = added.String(), strings.Join(a.paths, " ")
	return a
}

// topFields returns the top-level arguments in document order, nil if raw is no
// JSON object.
func topFields(raw transcript.RawJSON) []field {
	dec := json.NewDecoder(bytes.NewReader(raw))
	tok, err := dec.Token()
	if d, ok := tok.(json.Delim); err != nil || !ok || d != '{' {
		return nil
	}
	fields := []field{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil
		}
		fields = append(fields, field{key.(string), valueText(v)})
	}
	return fields
}

// valueText shows one argument: a string as it is, a list of strings joined by
// blanks, anything else as JSON.
func valueText(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	switch v[0] {
	case '"':
		var s string
		if json.Unmarshal(v, &s) == nil {
			return s
		}
	case '[':
		var list []string
		if json.Unmarshal(v, &list) == nil {
			return strings.Join(list, " ")
		}
	}
	return string(v)
}

// planOf reads the list of steps from the arguments of a planning tool.
func planOf(raw transcript.RawJSON) *transcript.Plan {
	var args map[string]json.RawMessage
	if json.Unmarshal(raw, &args) != nil {
		return nil
	}
	for _, key := range []string{"todos", "plan", "steps", "items", "tasks"} {
		var steps []struct {
			Step, Content, Title, Text, Task, Description, Status, State string
		}
		if v, ok := args[key]; !ok || json.Unmarshal(v, &steps) != nil {
			continue
		}
		p := &transcript.Plan{}
		for _, s := range steps {
			step := cmp.Or(s.Step, s.Content, s.Title, s.Text, s.Task, s.Description)
			if step != "" {
				p.Steps = append(p.Steps, transcript.PlanStep{Step: step, Status: planStatus(cmp.Or(s.Status, s.State))})
			}
		}
		return p
	}
	return nil
}

func planStatus(s string) string {
	switch strings.ToLower(s) {
	case "in_progress", "inprogress", "in-progress", "active", "doing":
		return "inProgress"
	case "completed", "complete", "done":
		return "completed"
	case "", "pending", "todo", "open":
		return "pending"
	}
	return s
}

// declWords begin lines that declare something, in the languages that agents
// write most.
var declWords = []string{
	"func ", "type ", "class ", "def ", "async def ", "export ", "interface ", "struct ", "enum ", "trait ", "impl ",
	"fn ", "pub ", "function ", "async function ", "public ", "private ", "protected ", "static ", "const ", "var ", "let ", "module ", "package ", "resource ", "# ", "## ",
}

// declarations returns up to n lines of s that declare something.
func declarations(s string, n int) []string {
	var out []string
	for line := range strings.Lines(s) {
		t := strings.TrimSpace(line)
		for _, w := range declWords {
			if strings.HasPrefix(t, w) {
				out = append(out, oneLine(strings.TrimRight(t, " {:"), 110))
				break
			}
		}
		if len(out) == n {
			break
		}
	}
	return out
}

// errorWords mark a line of output that reports a fault.
var errorWords = []string{"error", "fail", "panic", "exception", "fatal", "cannot", "undefined", "not found", "denied", "traceback", "no such"}

// errorLine returns the first line of an output that reports a fault, else its
// first line.
func errorLine(out string) string {
	seen := 0
	for line := range strings.Lines(out) {
		if seen++; seen > 400 {
			break
		}
		low := strings.ToLower(line)
		for _, w := range errorWords {
			if strings.Contains(low, w) {
				return oneLine(line, 200)
			}
		}
	}
	return oneLine(firstLine(out), 200)
}
