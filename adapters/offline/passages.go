package offline

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// maxPassage is the length of a passage, in bytes. A longer line is cut at the
// ends of its sentences, or where it must be.
const maxPassage = 360

// passage is a piece of an entry that can be quoted.
type passage struct {
	text   string
	from   string  // where it came from, in words for the reader
	order  int     // its place among all passages
	weight float64 // how far its source is to be trusted
}

// Weights of sources. What the model said before repeats the others, and a
// question is no answer to itself.
const (
	weightSource   = 1.0
	weightOwnWords = 0.6
	weightQuestion = 0.2
)

// passages cuts the entries before and after the question into passages.
func passages(entries []transcript.Entry, question int, say phrases) []passage {
	tools := map[transcript.CallID]string{}
	for _, e := range entries {
		if c, is := e.Item.Body.(transcript.ToolCall); is {
			tools[c.CallID] = c.Name
		}
	}
	var out []passage
	for i, e := range entries {
		from, weight := source(e.Item.Body, tools, say)
		if i == question || e.Form == transcript.FormStub || from == "" {
			continue
		}
		user := e.Item.Body.Kind() == transcript.KindUserMessage
		split(transcript.Text(e.Item.Body), func(text string) {
			w := weight
			if user && isQuestion(text) {
				w = weightQuestion
			}
			out = append(out, passage{text: text, from: from, order: len(out), weight: w})
		})
	}
	return out
}

// source names an entry for the reader; empty if it has nothing to quote.
func source(b transcript.Body, tools map[transcript.CallID]string, say phrases) (name string, weight float64) {
	switch b := b.(type) {
	case transcript.UserMessage:
		return say.message, weightSource
	case transcript.AgentMessage:
		return say.answer, weightOwnWords
	case transcript.Reasoning:
		return say.reasoning, weightOwnWords
	case transcript.ToolCall:
		return say.call + b.Name, weightOwnWords
	case transcript.ToolResult:
		if tool := tools[b.CallID]; tool != "" {
			return say.result + tool, weightSource
		}
		return say.someResult, weightSource
	case transcript.Command:
		return say.command, weightSource
	case transcript.FileChange:
		return say.change, weightSource
	case transcript.Plan:
		return say.plan, weightSource
	case transcript.Notice:
		return say.notice + b.Source, weightSource
	case transcript.Checkpoint:
		return say.checkpoint, weightSource
	}
	return "", 0 // images, markers and what only its origin understands
}

// isQuestion reports whether a text asks.
func isQuestion(text string) bool {
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？")
}

// split calls f with the passages of a text: its lines, a heading together with
// the line below it, long lines cut.
func split(text string, f func(string)) {
	heading := ""
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimSpace(line)
		if !strings.ContainsFunc(line, inName) {
			continue
		}
		if isHeading(line) {
			if heading != "" {
				cutLine(heading, f)
			}
			heading = line
			continue
		}
		if heading != "" {
			line = heading + " " + line
			heading = ""
		}
		cutLine(line, f)
	}
	if heading != "" {
		cutLine(heading, f)
	}
}

// isHeading reports whether a line announces the next one.
func isHeading(line string) bool {
	return len(line) < maxPassage/3 &&
		(strings.HasSuffix(line, ":") || strings.HasSuffix(line, "：") || strings.HasPrefix(line, "#"))
}

// cutLine cuts a line that is too long for one passage.
func cutLine(line string, f func(string)) {
	for len(line) > maxPassage {
		n := maxPassage
		for !utf8.RuneStart(line[n]) {
			n--
		}
		n = sentenceEnd(line[:n])
		f(strings.TrimSpace(line[:n]))
		line = strings.TrimSpace(line[n:])
	}
	if line != "" {
		f(line)
	}
}

// sentenceEnd returns where to cut s: after its last sentence, else after its
// last space, else at its end.
func sentenceEnd(s string) int {
	end, space := 0, 0
	for i, r := range s {
		next := i + utf8.RuneLen(r)
		switch {
		case strings.ContainsRune("。！？；", r),
			strings.ContainsRune(".!?;", r) && next < len(s) && s[next] == ' ':
			end = next
		case unicode.IsSpace(r):
			space = next
		}
	}
	switch {
	case end > 0:
		return end
	case space > 0:
		return space
	}
	return len(s)
}
