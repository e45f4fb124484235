package compaction

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// SourceContinue is the source of the notice that GoOn makes.
const SourceContinue = "continue"

// reanchorMax bounds the snapshot after a boundary, in tokens.
const reanchorMax = 800

// Reanchor returns the snapshot that the first request after a boundary carries
// once, as a part of its own: how things stand, as far as the server knows. It is
// made of facts and entries only, so a native compaction gets the same one. The
// result is empty if there is nothing to say, and never over 800 tokens.
func Reanchor(f Facts, entries []transcript.Entry, open map[transcript.ItemID]bool) (string, error) {
	p, err := newPlanner(Input{Entries: entries, Open: open, Facts: f})
	if err != nil {
		return "", err
	}
	p.group()
	p.measureAges()
	p.collect()
	return p.reanchor(reanchorMax), nil
}

// reanchor writes the snapshot within limit tokens, what constrains the agent
// first.
func (p *planner) reanchor(limit int) string {
	f, l := p.in.Facts, p.led
	var lines []string
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, "- "+name+": "+value+"\n")
		}
	}
	add("working directory", oneLine(f.Cwd, 200))
	add("allowed to write below", oneLine(strings.Join(f.WritableRoots, ", "), 400))
	add("mode", oneLine(f.Mode, 60))
	add("approvals", oneLine(f.ApprovalPolicy, 60))
	add("sandbox", oneLine(f.Sandbox, 60))
	add("runtime", oneLine(f.Runtime, 60))
	add("model", oneLine(f.Model, 60))
	if f.Window > 0 {
		add("context window", strconv.Itoa(f.Window)+" tokens")
	}
	if f.MaxOutput > 0 {
		add("longest answer", strconv.Itoa(f.MaxOutput)+" tokens")
	}
	if f.Budget.Limit > 0 {
		add("budget of the task", fmt.Sprintf("%d of %d tokens are used", f.Budget.Used, f.Budget.Limit))
	}
	add("running beside you", few(f.Children, 8, 100))
	add("still running", p.running())
	add("last check", lastCheck(l.Runs, f.Checks))
	add("remaining steps", remaining(f.Plan, l.Plan))
	names := newPathNames(l.Files)
	add("files changed", recentFiles(l.Files, names, true))
	add("read lately", recentFiles(l.Files, names, false))
	if len(lines) == 0 {
		return ""
	}
	s := &sheet{left: limit * 4}
	if !s.add("[state after compaction, noted by the server; not the user's words]\n") {
		return ""
	}
	for _, line := range lines {
		s.add(neutralise(line))
	}
	return s.b.String()
}

// few names the first n of a list, each in at most size code points.
func few(list []string, n, size int) string {
	var out []string
	for _, s := range list[:min(len(list), n)] {
		if s = oneLine(s, size); s != "" {
			out = append(out, s)
		}
	}
	s := strings.Join(out, "; ")
	if more := len(list) - n; more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

// GoOn is the note that follows a boundary in the middle of a turn: the agent is to
// go on with the last request, of which it quotes the beginning. Nobody said it.
func GoOn(entries []transcript.Entry) transcript.Notice {
	const intro = "[noted by the server; not the user's words] The context was compacted in the middle of your turn. The turn goes on: " +
		"continue with the work where it stands, do not begin anew, and do not answer this note."
	note := transcript.Notice{Source: SourceContinue, Text: intro}
	if i := lastRequest(entries); i >= 0 {
		text := transcript.Text(entries[i].Item.Body)
		note.Text += "\nThe request that you work on begins: " + strconv.Quote(oneLine(neutralise(text), 300))
	}
	return note
}

// running lists open calls.
func (p *planner) running() string {
	var out []string
	for i := range p.nodes {
		if n := &p.nodes[i]; n.open && n.act != nil && len(out) < 8 {
			out = append(out, oneLine(firstLine(n.text)+" "+n.act.main, 100))
		}
	}
	return strings.Join(out, "; ")
}

// lastCheck is the last command that verifies the work, and whether its result
// still says something.
func lastCheck(runs []runFact, checks []string) string {
	for _, r := range slices.Backward(runs) {
		if !isCheck(r.Command, checks) {
			continue
		}
		s := oneLine(r.Command, 160)
		status := ""
		if r.Exit != nil {
			status = " (exit status " + strconv.Itoa(*r.Exit) + ")"
		}
		switch {
		case r.Refused:
			return s + " was refused by the user"
		case !r.Done:
			return s + " has no result yet"
		case r.Failed:
			s += " failed" + status + ": " + oneLine(r.Error, 160)
		default:
			s += " passed" + status
		}
		if r.Stale {
			s += "; files changed since"
		}
		return s
	}
	if len(checks) > 0 {
		return "none of " + oneLine(strings.Join(checks, ", "), 160) + " has run"
	}
	return ""
}

func isCheck(cmd string, checks []string) bool {
	cmd = runKey(cmd)
	return slices.ContainsFunc(checks, func(c string) bool { return c != "" && strings.HasPrefix(cmd, c) })
}

// remaining lists the steps that are not done, of the server's plan if it has
// one.
func remaining(known *transcript.Plan, seen []transcript.PlanStep) string {
	if known != nil {
		seen = known.Steps
	}
	var out []string
	for _, s := range seen {
		if s.Status != "completed" && len(out) < 12 {
			out = append(out, oneLine(s.Step, 120)+" ("+oneLine(s.Status, 20)+")")
		}
	}
	return strings.Join(out, "; ")
}

// recentFiles names the files touched last.
func recentFiles(files []fileFact, names pathNames, edited bool) string {
	var out []string
	for _, f := range slices.Backward(files) {
		if (f.Edits > 0) == edited && len(out) < 10 {
			out = append(out, oneLine(names.short(f.Path), 160))
		}
	}
	return strings.Join(out, ", ")
}
