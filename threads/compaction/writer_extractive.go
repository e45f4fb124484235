package compaction

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A section is a part of an extractive checkpoint. Its lines come in order of
// importance; those that fit are shown in the order of their positions.
type section struct {
	title string
	lines []line
	later []line // to be taken after other sections had their turn
	taken []line
}

type line struct {
	text string
	at   int
}

// newestFirst makes lines of texts that come newest first and are shown oldest
// first.
func newestFirst(texts []string) []line {
	lines := make([]line, len(texts))
	for i, t := range texts {
		lines[i] = line{t, -i}
	}
	return lines
}

// inOrder makes lines of texts that are shown as they come.
func inOrder(texts []string) []line {
	lines := make([]line, len(texts))
	for i, t := range texts {
		lines[i] = line{t, i}
	}
	return lines
}

// take takes further lines as far as they fit into n code points, and returns
// what is left of n.
func (s *section) take(n int) int {
	rest := s.lines[:0:0]
	for _, l := range s.lines {
		need := utf8.RuneCountInString(l.text)
		if len(s.taken) == 0 {
			need += utf8.RuneCountInString(s.title)
		}
		if need > n {
			rest = append(rest, l)
			continue
		}
		n -= need
		s.taken = append(s.taken, l)
	}
	s.lines = rest
	return n
}

// size is what all lines of the section, which has taken none, and its title need.
func (s *section) size() int {
	n := 0
	for _, l := range s.lines {
		n += utf8.RuneCountInString(l.text)
	}
	if n > 0 {
		n += utf8.RuneCountInString(s.title)
	}
	return n
}

// String shows the section, nothing if it is empty.
func (s *section) String() string {
	if len(s.taken) == 0 {
		return ""
	}
	slices.SortStableFunc(s.taken, func(a, b line) int { return a.at - b.at })
	var b strings.Builder
	b.WriteString(s.title)
	for _, l := range s.taken {
		b.WriteString(l.text)
	}
	return b.String()
}

// earlierNotes stands over the notes of a model where no model wrote newer ones.
const earlierNotes = "\n## Earlier notes, as a model wrote them\n"

// writeExtractive quotes what matters of the ledger within limit tokens.
func (p *planner) writeExtractive(l *ledger, limit int) string {
	total := limit*4 - utf8.RuneCountInString(opening(VersionExtractive)+provenance(l)) - utf8.RuneCountInString(p.in.Facts.closing())
	earlier := []*section{{title: "\n## Earlier summary, as the provider wrote it\n"}, {title: earlierNotes}}
	for i, s := range []*said{l.Carried, l.Notes} {
		if s != nil {
			earlier[i].lines = inOrder([]string{quote(parsePiece(s.Text).clip(total/5, total/16, ""))})
		}
	}
	return opening(VersionExtractive) + provenance(l) + p.ledgerSections(l, total, earlier, true) + p.in.Facts.closing()
}

// ledgerSections shows the ledger within total code points. What must not be lost
// comes first: the user's words, changed files, the plan and commands that fail;
// the rest is filled by share. Earlier are the notes that the ledger carries.
func (p *planner) ledgerSections(l *ledger, total int, earlier []*section, said bool) string {
	names := newPathNames(l.Files)
	shown := p.shown()
	users, rules := p.userSections(l)
	edits := &section{title: "\n## Files changed" + names.where() + "\n", lines: newestFirst(editLines(l, names, false))}
	plan := &section{title: "\n## Plan\n", lines: inOrder(planLines(l.Plan))}
	fails := &section{title: "\n## Failing, not seen to pass since\n", lines: newestFirst(failLines(l))}
	agent := &section{title: "\n## The assistant said\n"}
	runs := &section{title: "\n## Commands\n", lines: newestFirst(runLines(l, shown))}
	reads := &section{title: "\n## Files read" + names.where() + "\n", lines: newestFirst(readLines(l, names, shown))}
	refs := &section{title: "\n## Hashes and ids\n", lines: newestFirst(refLines(l))}
	if said {
		agent.lines = newestFirst(agentLines(l))
	}

	left := total
	spend := func(s *section, share int) { n := min(left, share); left -= n - s.take(n) }
	kept := min(left-users.size()*10/7, total*7/20) // for what only the notes know
	for _, s := range earlier {
		n := max(min(kept, s.size()), 0)
		rest := n - s.take(n)
		kept, left = kept-rest, left-rest
	}
	left = takeUsers(users, rules, left)
	spend(edits, total*9/10)
	spend(plan, total*3/20)
	spend(fails, total/10)
	for _, s := range earlier {
		spend(s, total*2/5)
	}
	left = enrich(edits, newestFirst(editLines(l, names, true)), left, total/5)
	spend(agent, total*9/20)
	spend(runs, total*3/20)
	spend(reads, total/10)
	spend(refs, total/20)
	spend(agent, left)

	var b strings.Builder
	for _, s := range slices.Concat(earlier, []*section{rules, users, plan, edits, reads, runs, fails, agent, refs}) {
		b.WriteString(s.String())
	}
	return b.String()
}

// userSections are the messages of the user and, of those that are not quoted
// whole, the rules.
func (p *planner) userSections(l *ledger) (users, rules *section) {
	said := p.userLines(l)
	users = &section{title: "\n## The user said\n", lines: said.whole, later: said.heads}
	return users, &section{title: "\n## Rules and decisions of the user\n", lines: l.ruleLines(said.quoted, said.short)}
}

// takeUsers takes of the user's words what fits into n code points, and returns
// what is left: messages that are owed whole, as far as seven tenths go, then the
// rules of the others, then their beginnings, again within seven tenths.
func takeUsers(users, rules *section, n int) int {
	share := n * 7 / 10
	spent := share - users.take(share)
	ruled := n*9/10 - spent
	spent += ruled - rules.take(ruled)
	users.lines = users.later
	if more := share - spent; more > 0 {
		spent += more - users.take(more)
	}
	return n - spent
}

// enrich replaces the lines of a section by richer ones of the same position, as
// many as extra code points allow, and returns what is left.
func enrich(s *section, rich []line, left, extra int) int {
	extra = min(left, extra)
	for i, l := range s.taken {
		r := rich[-l.at]
		more := utf8.RuneCountInString(r.text) - utf8.RuneCountInString(l.text)
		if more > 0 && more <= extra {
			s.taken[i] = r
			extra, left = extra-more, left-more
		}
	}
	return left
}

func (n pathNames) where() string {
	if n.root == "" {
		return ""
	}
	return " (below " + n.root + ")"
}

// editLines lists changed files, the newest first.
func editLines(l *ledger, names pathNames, sigs bool) []string {
	var lines []string
	for _, f := range slices.Backward(l.Files) {
		if f.Edits == 0 {
			continue
		}
		s := names.short(f.Path)
		if sigs && len(f.Sigs) > 0 {
			s += ": " + strings.Join(f.Sigs, " | ")
		}
		lines = append(lines, oneLine(neutralise(s), 600)+"\n")
	}
	return lines
}

func readLines(l *ledger, names pathNames, shown map[string]bool) []string {
	var lines []string
	for _, f := range slices.Backward(l.Files) {
		if f.Edits == 0 && !shown[f.Path] {
			lines = append(lines, oneLine(neutralise(names.short(f.Path)), 300)+"\n")
		}
	}
	return lines
}

func failLines(l *ledger) []string {
	var lines []string
	for _, r := range slices.Backward(l.Runs) {
		if r.Failed {
			lines = append(lines, runLine(r))
		}
	}
	return lines
}

func runLines(l *ledger, shown map[string]bool) []string {
	var lines []string
	for _, r := range slices.Backward(l.Runs) {
		if !r.Failed && !r.Cleared && !shown[runKey(r.Command)] {
			lines = append(lines, runLine(r))
		}
	}
	return lines
}

// shown is the set of files and commands that the retained items show: the
// checkpoint need not list those again.
func (p *planner) shown() map[string]bool {
	shown := map[string]bool{}
	for i := range p.nodes {
		n := &p.nodes[i]
		if !n.kept || n.act == nil {
			continue
		}
		for _, path := range n.act.paths {
			shown[path] = true
		}
		if n.act.cmd != "" {
			shown[runKey(n.act.cmd)] = true
		}
	}
	return shown
}

func agentLines(l *ledger) []string {
	var lines []string
	for _, s := range slices.Backward(l.Agent) {
		lines = append(lines, quote(s.Text))
	}
	return lines
}

func refLines(l *ledger) []string {
	var lines []string
	for _, n := range slices.Backward(l.Names) {
		lines = append(lines, "- "+oneLine(neutralise(n.Line), 120)+"\n")
	}
	return slices.Compact(lines)
}
