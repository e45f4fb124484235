package compaction

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// runKey joins runs of the same command.
func runKey(cmd string) string {
	if rest, ok := strings.CutPrefix(cmd, "cd "); ok {
		if _, after, ok := strings.Cut(rest, "&& "); ok {
			cmd = after
		}
	}
	return oneLine(cmd, 160)
}

// collector gathers facts from nodes into tables.
type collector struct {
	files *table[fileFact]
	runs  *table[runFact]
	calls map[transcript.CallID]string // call → key in runs
	fails []string                     // keys of runs that failed last, oldest first
}

// collect adds the facts of the nodes that are new since the last checkpoint.
// What was retained by it is in the folded ledger already, from a time when it
// was whole.
func (p *planner) collect() {
	l := fold(p.prev)
	c := collector{
		files: newTable(l.Files, func(f fileFact) string { return f.Path }),
		runs:  newTable(l.Runs, func(r runFact) string { return runKey(r.Command) }),
		calls: map[transcript.CallID]string{},
	}
	for _, r := range l.Runs {
		if r.Failed {
			c.fails = append(c.fails, runKey(r.Command))
		}
	}
	for i := range p.nodes {
		c.add(&p.nodes[i], i >= l.Kept)
	}
	l.Files = capFiles(c.files)
	l.Runs = c.runs.newest(maxRuns)
	p.led = l
	switch {
	case p.in.Facts.Plan != nil:
		l.Plan = p.in.Facts.Plan.Steps
	case p.plan >= 0:
		l.Plan = p.nodes[p.plan].steps()
	}
}

// steps are those of a plan or of a call of a planning tool.
func (n *node) steps() []transcript.PlanStep {
	if b, ok := n.item.Body.(transcript.Plan); ok {
		return b.Steps
	}
	return n.act.plan.Steps
}

// capFiles bounds the list; files that were changed stay longest.
func capFiles(t *table[fileFact]) []fileFact {
	all, reads, edits := t.newest(len(t.rows)), 0, 0
	out := []fileFact{}
	for _, f := range slices.Backward(all) {
		if f.Edits > 0 {
			edits++
			if edits > maxEdits {
				continue
			}
		} else if reads++; reads > maxReads {
			continue
		}
		out = append(out, f)
	}
	slices.Reverse(out)
	return out
}

// add records what one node did. An old node only tells which call a new result
// belongs to.
func (c *collector) add(n *node, isNew bool) {
	if r, ok := n.item.Body.(transcript.ToolResult); ok {
		if key := c.calls[r.CallID]; key != "" && isNew {
			c.finish(key, n)
		}
		return
	}
	if n.act == nil {
		return
	}
	if n.act.verb == verbRun && n.act.cmd != "" {
		key := runKey(n.act.cmd)
		if isNew {
			c.runs.put(key, runFact{Command: clipRun(n.act.cmd)})
		}
		if b, ok := n.item.Body.(transcript.ToolCall); ok {
			c.calls[b.CallID] = key
		} else if isNew {
			c.finish(key, n)
		}
		return
	}
	if isNew && !n.vain && (n.act.verb == verbRead || n.act.verb == verbEdit) {
		c.touch(n.act)
	}
}

func clipRun(cmd string) string { return oneLine(cmd, 300) }

// finish records how a run ended. One that was refused or stopped has not run.
func (c *collector) finish(key string, n *node) {
	r, ok := c.runs.get(key)
	if !ok {
		return
	}
	r.Done, r.Failed, r.Error, r.Refused, r.Cleared = true, n.failed, "", n.refused, false
	r.Exit = n.exitStatus()
	switch {
	case n.refused:
		r.Failed = false
	case n.body == transcript.AbortedText || strings.Contains(headOf(n.body, 120), "running in background"):
		r.Done, r.Failed = false, false
	case n.failed:
		r.Error = errorLine(n.body)
	}
	c.runs.set(key, r)
	c.fails = slices.DeleteFunc(c.fails, func(k string) bool { return k == key })
	switch {
	case r.Failed:
		c.fails = append(c.fails, key)
		c.fails = c.fails[max(0, len(c.fails)-maxRuns):]
	case r.Done && !r.Refused:
		c.clear(r.Command)
	}
}

// exitStatus is what a command's result says of its status, nil if it says nothing.
func (n *node) exitStatus() *int {
	if c, ok := n.item.Body.(transcript.Command); ok {
		return c.ExitCode
	}
	lines := 0
	for l := range strings.Lines(headOf(n.body, 600)) {
		if lines++; lines > 6 {
			break
		}
		l = strings.ToLower(l)
		for _, word := range []string{"exit code", "exit status", "exited with code", "exit_code"} {
			if _, rest, ok := strings.Cut(l, word); ok {
				return leadingNumber(strings.TrimLeft(rest, " :=\""))
			}
		}
	}
	return nil
}

// leadingNumber reads the number that s begins with.
func leadingNumber(s string) *int {
	end := 0
	for end < len(s) && end < 5 && (s[end] >= '0' && s[end] <= '9' || end == 0 && s[end] == '-') {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return nil
	}
	return &n
}

// clear notes which failures the passing of a command makes obsolete.
func (c *collector) clear(passed string) {
	c.fails = slices.DeleteFunc(c.fails, func(key string) bool {
		r, ok := c.runs.get(key)
		if !ok || !clears(passed, r.Command) {
			return !ok
		}
		r.Failed, r.Error, r.Cleared = false, "", true
		c.runs.set(key, r)
		return true
	})
}

// touch records a read or an edit of files.
func (c *collector) touch(a *action) {
	for _, path := range a.paths {
		if path == "" || len(path) > 1_000 {
			continue
		}
		path = oneLine(path, 1_000)
		f, _ := c.files.get(path)
		f.Path = path
		if a.verb == verbEdit {
			f.Edits++
			f.Sigs = newestSigs(f.Sigs, declarations(a.text, 3))
			c.changed()
		}
		c.files.put(path, f)
	}
}

// changed marks earlier runs: they say nothing about the files as they are now.
func (c *collector) changed() {
	for i := len(c.runs.rows) - 1; i >= 0 && !c.runs.rows[i].Stale; i-- {
		c.runs.rows[i].Stale = true
	}
}

// newestSigs appends lines and keeps the newest five, each once.
func newestSigs(old, more []string) []string {
	out := slices.Clone(old)
	for _, s := range more {
		if i := slices.Index(out, s); i >= 0 {
			out = slices.Delete(out, i, i+1)
		}
		out = append(out, s)
	}
	return out[max(0, len(out)-5):]
}
