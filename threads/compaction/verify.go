package compaction

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of the verification.
const (
	needleChars    = 160
	maxConstraints = 80
	maxIntroduced  = 30
	maxMissing     = 20
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
	for _, s := range slices.Backward(l.constraints()) {
		add(s, quote(s))
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

// demandWords mark a sentence in which the user demands or forbids something, in
// the languages that threads are written in most.
var demandWords = []string{
	"must", "never", "always", "don't", "do not", "dont ", "only ", "please", "should", "prefer", "instead", "make sure", "important", "avoid", "without",
	"nicht", "immer", "niemals", "bitte", "jamais", "toujours", "nunca", "siempre", "sempre", "não ", "apenas",
	"必须", "不要", "禁止", "务必", "一定", "请", "必須", "不可", "ください", "しないで", "必ず", "반드시", "하지 마", "항상",
}

// constraints returns the sentences in which the user demanded something.
func (l *ledger) constraints() []string {
	var out []string
	for _, u := range slices.Backward(l.Users) {
		for _, s := range sentences(u.Text) {
			low := strings.ToLower(s)
			if len(s) < 2_000 && slices.ContainsFunc(demandWords, func(w string) bool { return strings.Contains(low, w) }) {
				out = append(out, s)
			}
			if len(out) == maxConstraints {
				slices.Reverse(out)
				return out
			}
		}
	}
	slices.Reverse(out)
	return out
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
// that a summarised item used first. The line is the one that introduced it.
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
		for name := range names(shown) {
			if used[name]++; used[name] == 1 {
				order = append(order, name)
			}
		}
	}
	lines := p.introductions(used)
	order = slices.DeleteFunc(order, func(n string) bool { return lines[n] == "" })
	slices.SortStableFunc(order, func(a, b string) int { return used[b] - used[a] })
	var out []fact
	for _, n := range order[:min(len(order), maxIntroduced)] {
		out = append(out, fact{needle: n, line: quote(n + ": " + lines[n]), name: true})
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

// introductions maps each of the used names that a summarised item holds to the
// first line that does.
func (p *planner) introductions(used map[string]int) map[string]string {
	lines := map[string]string{}
	if len(used) == 0 {
		return lines
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.kept || n.kind == transcript.KindOpaque {
			continue
		}
		for name, line := range names(n.text) {
			if used[name] > 0 && lines[name] == "" {
				lines[name] = oneLine(line, 140)
			}
		}
	}
	return lines
}

// names yields each identifier in s that is long and composed enough to be a name
// somebody chose, with its line.
func names(s string) iter.Seq2[string, string] {
	return func(yield func(name, line string) bool) {
		for line := range strings.Lines(s) {
			if len(line) > 2_000 {
				continue
			}
			for word := range strings.FieldsFuncSeq(line, notInWord) {
				if len(word) >= 8 && len(word) <= 60 && isComposed(word) && !yield(word, line) {
					return
				}
			}
		}
	}
}

func notInWord(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// isComposed reports camelCase and snake_case words.
func isComposed(w string) bool {
	for i := 1; i < len(w); i++ {
		c, before := w[i], w[i-1]
		if c == '_' && i < len(w)-1 || c >= 'A' && c <= 'Z' && before >= 'a' && before <= 'z' {
			return true
		}
	}
	return false
}
