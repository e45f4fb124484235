package compaction

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of the verification.
const (
	needleChars   = 160
	maxIntroduced = 30
	maxMissing    = 20
)

// A fact is something of the summarised range that must not be lost. It is kept
// if its needle stands in the new context; of a name, if it stands in the
// checkpoint, because the tail mentions it anyhow but does not explain it.
type fact struct {
	needle string // one line, blanks collapsed
	line   string // appended to the checkpoint if it is missing
	name   bool
}

// verify counts the facts that the new context holds, appends missing ones to
// the checkpoint as far as it may grow, and counts again.
func (p *planner) verify(l *ledger, text string, room int) (string, Fidelity) {
	facts := p.facts(l)
	left := min(p.limit, room-p.settle()) - runeTokens(text)
	missing := p.missing(facts, text)
	if len(missing) > 0 {
		also := &section{title: "\n## Also\n"}
		for i, f := range missing {
			also.lines = append(also.lines, line{f.line, i})
		}
		also.take(left*4 - 4)
		closing := p.in.Facts.closing()
		text = strings.TrimSuffix(text, closing) + also.String() + closing
		missing = p.missing(missing, text)
	}
	f := Fidelity{Kept: len(facts) - len(missing), Total: len(facts), Missing: []string{}}
	for _, m := range missing[:min(len(missing), maxMissing)] {
		f.Missing = append(f.Missing, m.needle)
	}
	return text, f
}

// missing returns the facts that neither the checkpoint nor the retained items
// hold.
func (p *planner) missing(facts []fact, text string) []fact {
	notes := oneLine(text, unbounded)
	var tail string
	var out []fact
	for _, f := range facts {
		if strings.Contains(notes, f.needle) || strings.Contains(notes, needle(neutralise(f.needle))) {
			continue
		}
		if tail == "" {
			tail = p.tailLine()
		}
		if f.name || !strings.Contains(tail, f.needle) {
			out = append(out, f)
		}
	}
	return out
}

// tailLine is everything that the retained items say, on one line.
func (p *planner) tailLine() string {
	var b strings.Builder
	b.WriteByte(' ')
	for i := range p.nodes {
		n := &p.nodes[i]
		switch {
		case !n.kept:
		case n.now.form == transcript.FormWhole:
			b.WriteString(n.text + "\n")
		default:
			b.WriteString(n.text[:len(n.text)-len(n.body)] + n.now.text + "\n")
		}
	}
	return oneLine(b.String(), unbounded)
}

// needle is the beginning of s on one line, without a trace of being cut.
func needle(s string) string {
	s = oneLine(s, needleChars)
	return strings.TrimSpace(strings.TrimSuffix(s, "…"))
}

// facts extracts, mechanically, what must survive: the last user request, what
// the user demanded, changed files, commands that fail, open steps, and names
// that the tail uses without having introduced them.
func (p *planner) facts(l *ledger) []fact {
	var out []fact
	add := func(n, line string) {
		if n = needle(n); n != "" {
			out = append(out, fact{needle: n, line: line})
		}
	}
	if p.ask >= 0 {
		add(p.nodes[p.ask].text, quote(headOf(p.nodes[p.ask].text, 2*needleChars)))
	}
	for _, r := range l.byWeight() {
		out = append(out, fact{needle: oneLine(r.Text, unbounded), line: quote(r.Text)})
	}
	for _, f := range slices.Backward(l.Files) {
		if f.Edits > 0 {
			add(lastTwo(f.Path), quote(f.Path))
		}
	}
	for _, r := range slices.Backward(l.Runs) {
		if r.Failed {
			add(headOf(oneLine(r.Command, 120), 100), runLine(r))
		}
	}
	for _, s := range l.Plan {
		if s.Status != "completed" {
			add(s.Step, quote(s.Step))
		}
	}
	return append(out, p.introduced()...)
}

// lastTwo is a path's name and folder, which is how people and models refer to a
// file.
func lastTwo(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return path
	}
	return path[strings.LastIndexByte(path[:i], '/')+1:]
}

// sentences splits at line ends and at full stops of any script.
func sentences(s string) []string {
	var out []string
	start := 0
	cut := func(end int) {
		if t := strings.TrimSpace(s[start:end]); t != "" {
			out = append(out, t)
		}
		start = end
	}
	for i, r := range s {
		switch r {
		case '\n':
			cut(i)
		case '。', '！', '？', '।', '؟':
			cut(i + utf8.RuneLen(r))
		case '.', '!', '?':
			if i+1 < len(s) && s[i+1] == ' ' {
				cut(i + 1)
			}
		}
	}
	cut(len(s))
	return out
}

// introduced finds names that retained calls and texts of the agent use, and
// that a summarised item introduced. The line is the one that did.
func (p *planner) introduced() []fact {
	used := map[string]int{}
	var order []string
	for i := range p.nodes {
		n := &p.nodes[i]
		if !n.kept || !n.byAgent() {
			continue
		}
		shown := n.text
		if n.now.form != transcript.FormWhole {
			shown = n.now.text
		}
		for m := range names(shown) {
			if used[m.name]++; used[m.name] == 1 {
				order = append(order, m.name)
			}
		}
	}
	found := p.introductions(used)
	order = slices.DeleteFunc(order, func(n string) bool { return found[n].line == "" })
	slices.SortStableFunc(order, func(a, b string) int { return used[b] - used[a] })
	var out []fact
	for _, n := range order[:min(len(order), maxIntroduced)] {
		out = append(out, fact{needle: n, line: quote(n + ": " + found[n].line), name: true})
	}
	return out
}

func (n *node) byAgent() bool {
	switch n.kind {
	case transcript.KindAgentMessage, transcript.KindReasoning, transcript.KindToolCall, transcript.KindFileChange, transcript.KindCommand:
		return true
	default:
		return false
	}
}
