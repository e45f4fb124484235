package compaction

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of the previews of fixed-1, in code points.
const (
	previewChars = 240
	previewTotal = 8_000
)

// writeFixed writes the last resort: the user's messages and one preview per
// summarised item, the newest ones first as long as they fit. It depends on
// nothing but the items, so that the same history gives the same bytes.
func (p *planner) writeFixed(l *ledger, limit int) string {
	head, closing := opening(VersionFixed)+provenance(l), p.in.Facts.closing()
	left := limit*4 - utf8.RuneCountInString(head) - utf8.RuneCountInString(closing)
	users, rules := p.userSections(l)
	left = takeUsers(users, rules, left)
	var previews []string
	for i := range slices.Backward(p.nodes) {
		if n := &p.nodes[i]; !n.kept && n.kind != transcript.KindUserMessage {
			previews = append(previews, preview(n))
		}
	}
	items := &section{title: "\n## Before, in previews\n", lines: newestFirst(previews)}
	items.take(min(left, previewTotal))
	return head + rules.String() + users.String() + items.String() + closing
}

func preview(n *node) string {
	label := string(n.kind)
	if c, ok := n.item.Body.(transcript.ToolCall); ok {
		label = "toolCall " + oneLine(c.Name, 40)
	}
	text := strings.TrimPrefix(n.body, "\n")
	return "- " + oneLine(neutralise(label+": "+headOf(text, 4*previewChars)), previewChars-3) + "\n"
}
