package compaction

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of what a model writes, in tokens.
const (
	notesMax = 3_000
	notesMin = 150 // for less room no model is asked
)

// notesLimit is how many tokens of the checkpoint the model's notes may have, with
// their heading. The ledger has the other half: it holds what must not be lost.
func (p *planner) notesLimit() int { return min(notesMax, p.limit/2) }

// quoteLimit is how many tokens of the checkpoint count for what may be quoted of
// the user's messages. With a model it is what surely is left of its notes.
func (p *planner) quoteLimit() int {
	if p.in.Writer != WriterModel {
		return p.limit
	}
	return p.limit - p.notesLimit()*6/5
}

// draftModel finds the cut for a checkpoint of full size, and writes it with the
// notes that the model wrote. It returns nil if what must survive does not fit.
func (p *planner) draftModel(room int) (*ledger, string) {
	p.stubLimit = stubLimit(p.room)
	if !p.fitTail(room - p.limit) {
		return nil, ""
	}
	l := p.absorb()
	if p.in.notes != "" {
		l.Carried, l.Notes = nil, &said{ID: l.Last, Text: p.in.notes}
	}
	return l, p.writeModel(l, p.limit*9/10)
}

// writeModel frames the notes of the model as all writers frame theirs, and adds
// what the ledger holds beside them.
func (p *planner) writeModel(l *ledger, limit int) string {
	head := opening(VersionModel) + provenance(l) + p.notesSection()
	total := limit*4 - utf8.RuneCountInString(head) - utf8.RuneCountInString(p.in.Facts.closing())
	return head + p.ledgerSections(l, total, nil, false) + p.in.Facts.closing()
}

// notesSection is the model's part of the checkpoint. The tools are counted by us.
func (p *planner) notesSection() string {
	if p.in.notes == "" {
		return ""
	}
	return p.notesHead() + p.in.notes + "\n"
}

// notesHead stands over the notes.
func (p *planner) notesHead() string {
	s := "\n## Notes of a model, checked against the items they stand for\n"
	if tools := p.toolCounts(); tools != "" {
		s += "Tools called: " + tools + ".\n"
	}
	return s
}

// maxToolKinds bounds the list of tools.
const maxToolKinds = 10

// toolCounts lists the tools that were called since the last checkpoint, the most
// used first.
func (p *planner) toolCounts() string {
	counts := map[string]int{}
	var order []string
	for i := range p.nodes {
		n := &p.nodes[i]
		c, ok := n.item.Body.(transcript.ToolCall)
		if !ok {
			continue
		}
		name := oneLine(neutralise(c.Name), 40)
		if counts[name]++; counts[name] == 1 && name != "" {
			order = append(order, name)
		}
	}
	sortByCount(order, counts)
	parts := make([]string, 0, len(order))
	for _, name := range order[:min(len(order), maxToolKinds)] {
		parts = append(parts, fmt.Sprintf("%s ×%d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// sortByCount sorts names by how often they were counted, and else leaves the order.
func sortByCount(names []string, counts map[string]int) {
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
}
