package compaction

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Models wrap what they were asked for: in what they thought, in a code block or a
// tag, with a sentence before it. unwrap takes that off. It reports false if a
// wrapping is not closed: the text was cut.
func unwrap(s string) (string, bool) {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	for _, tag := range []string{"think", "thinking", "analysis", "reasoning"} {
		if strings.HasPrefix(s, "<"+tag+">") {
			_, rest, closed := strings.Cut(s, "</"+tag+">")
			if !closed {
				return s, false
			}
			s = strings.TrimSpace(rest)
		}
	}
	for _, tag := range []string{"summary", "notes", "checkpoint"} {
		if rest, ok := strings.CutPrefix(s, "<"+tag+">"); ok {
			inner, after, closed := strings.Cut(rest, "</"+tag+">")
			if !closed || strings.TrimSpace(after) != "" {
				return s, closed
			}
			s = strings.TrimSpace(inner)
		}
	}
	if strings.HasPrefix(s, "```") && strings.Count(s, "\n```")%2 == 1 {
		_, inner, _ := strings.Cut(s, "\n")
		if rest, ok := strings.CutSuffix(inner, "```"); ok {
			s = strings.TrimSpace(rest)
		}
	}
	return withoutPreface(s), strings.Count("\n"+s, "\n```")%2 == 0
}

// withoutPreface takes off a sentence that announces the notes.
func withoutPreface(s string) string {
	i := strings.Index(s, "\n#")
	if i < 0 || i > 300 || strings.HasPrefix(s, "#") || strings.ContainsAny(s[:1], "-*•") {
		return s
	}
	if strings.Contains(strings.TrimSpace(s[:i]), "\n") {
		return s
	}
	return strings.TrimSpace(s[i:])
}

// link matches addresses as far as they could be followed.
var link = regexp.MustCompile(`(?i)\b(?:[a-z][a-z0-9+.-]{1,15}://|www\.|mailto:|data:[a-z]+/|javascript:)[^\s<>()\[\]"'` + "`" + `]+`)

// noLink stands for an address that the notes invented.
const noLink = "(link left out: it is not in the history)"

// scrub makes accepted notes data: without power over frames and roles, without
// headings that could pass for ours, without links that the history does not have.
func scrub(text, history string) string {
	text = strings.ReplaceAll(text, transcript.WriterMark, "")
	text = link.ReplaceAllStringFunc(text, func(u string) string {
		if strings.Contains(history, strings.TrimRight(u, ".,;:!?*_")) {
			return u
		}
		return noLink
	})
	var out []string
	blank := true
	for line := range strings.Lines(neutralise(text)) {
		line = strings.TrimRight(line, " \t\n")
		if isHeading(line) {
			line = "### " + strings.TrimSpace(strings.TrimLeft(line, "# "))
		}
		if line == "" && blank {
			continue
		}
		blank = line == ""
		out = append(out, line)
	}
	return strings.TrimSpace(strings.Join(withoutEmptySections(out), "\n"))
}

// withoutWish drops lines that repeat what the notes were to pay attention to. That is
// meant for the writer: in the notes it would be carried out again.
func withoutWish(text, wish, history string) string {
	var parts []string
	for line := range strings.Lines(wish) {
		if line = bareLine(line); len(line) >= 8 && !strings.Contains(history, line) {
			parts = append(parts, line)
		}
	}
	if len(parts) == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(line, p) }) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// isHeading reports a line that is a heading in the notation that was asked for.
func isHeading(line string) bool {
	t := strings.TrimLeft(line, " ")
	return strings.HasPrefix(t, "#") && strings.HasPrefix(strings.TrimLeft(t, "#"), " ")
}

// withoutEmptySections drops headings that no line follows.
func withoutEmptySections(lines []string) []string {
	var out []string
	full := false
	for _, line := range slices.Backward(lines) {
		if isHeading(line) && !full {
			continue
		}
		full = !isHeading(line) && (full || line != "")
		out = append(out, line)
	}
	slices.Reverse(out)
	return out
}

// weight is how much a text says, in letters: a character of a script that writes a
// syllable with one counts for two, a character of one that writes words for three.
func weight(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		switch letterOf(r) {
		case letterHan:
			n += 2
		case letterKana, letterHangul:
			n++
		}
	}
	return n
}
