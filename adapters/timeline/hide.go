package timeline

import (
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// hidden stands for what is not told.
const hidden = "[redacted]"

// minHidden is the length from which a value is hidden, in bytes. No key is as short, and
// a word that stands in every other line must not be taken away.
const minHidden = 12

// Hide keeps values out of what commands and tools tell from now on: the keys that a
// program hands on to them with its environment. The longest goes first, so that of two
// of which one begins like the other nothing is left.
func (t *Timeline) Hide(secrets []string) {
	t.hide = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minHidden })
	slices.SortStableFunc(t.hide, func(a, b string) int { return len(b) - len(a) })
}

// safe is a body without what is hidden.
func (t *Timeline) safe(b transcript.Body) transcript.Body {
	if len(t.hide) == 0 {
		return b
	}
	switch b := b.(type) {
	case transcript.Command:
		b.Command, b.Output = t.without(b.Command), t.without(b.Output)
		return b
	case transcript.FileChange:
		b.Changes = slices.Clone(b.Changes)
		for i := range b.Changes {
			b.Changes[i].Diff = t.without(b.Changes[i].Diff)
		}
		return b
	case transcript.ToolResult:
		b.Output = slices.Clone(b.Output)
		for i := range b.Output {
			b.Output[i].Text = t.without(b.Output[i].Text)
		}
		return b
	}
	return b
}

func (t *Timeline) without(text string) string {
	for _, s := range t.hide {
		text = strings.ReplaceAll(text, s, hidden)
	}
	return text
}
