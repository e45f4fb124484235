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
	under  string  // the heading above it; it counts for the search, but less
	from   string  // where it came from, in words for the reader
	prose  bool    // written for people, not the output of a program
	order  int     // its place among all passages
	weight float64 // how far its source is to be trusted
}

// Weights of sources. What the user said decides; what the model said before
// repeats the others; a question is no answer to itself.
const (
	weightUser     = 1.25
	weightSource   = 1.0
	weightOwnWords = 0.6
	weightQuestion = 0.2
)

// passages cuts the entries other than the question into passages.
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
		kind := e.Item.Body.Kind()
		prose := isProse(kind)
		split(transcript.Text(e.Item.Body), prose, func(text, under string) {
			w := weight
			if kind == transcript.KindUserMessage && isQuestion(text) {
				w = weightQuestion
			}
			out = append(out, passage{text: text, under: under, from: from, prose: prose, order: len(out), weight: w})
		})
	}
	return out
}

// source names an entry for the reader; empty if it has nothing to quote.
func source(b transcript.Body, tools map[transcript.CallID]string, say phrases) (name string, weight float64) {
	switch b := b.(type) {
	case transcript.UserMessage:
		return say.message, weightUser
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

// isProse reports whether a kind of item is written for people. Elsewhere a line
// that begins with # may be a comment in a program, not a chapter.
func isProse(k transcript.Kind) bool {
	switch k {
	case transcript.KindUserMessage, transcript.KindAgentMessage, transcript.KindReasoning,
		transcript.KindNotice, transcript.KindCheckpoint:
		return true
	default:
		return false
	}
}

// isQuestion reports whether a text asks.
func isQuestion(text string) bool {
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？")
}

// split calls f with the passages of a text: its lines, long ones cut, each with
// the heading above it. A chapter lasts until the next one; any other heading
// until an empty line, not counting one directly below it. A heading with
// nothing below it is a passage itself.
func split(text string, prose bool, f func(text, under string)) {
	chapter, heading, used := "", "", true
	end := func() {
		if heading != "" && !used {
			cutLine(heading, chapter, f)
		}
		heading, used = "", true
	}
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" && used:
			end()
		case !strings.ContainsFunc(line, inName):
		case isHeading(line):
			end()
			if prose && line[0] == '#' {
				chapter = ""
			}
			heading, used = line, false
		default:
			if heading != "" && prose && heading[0] == '#' {
				chapter, heading = heading, ""
			}
			used = true
			under := heading
			if under == "" {
				under = chapter
			}
			cutLine(line, under, f)
		}
	}
	end()
}

// isHeading reports whether a line announces what is below it.
func isHeading(line string) bool {
	return len(line) < maxPassage/3 &&
		(strings.HasSuffix(line, ":") || strings.HasSuffix(line, "：") || strings.HasPrefix(line, "#"))
}

// cutLine cuts a line that is too long for one passage.
func cutLine(line, under string, f func(text, under string)) {
	for len(line) > maxPassage {
		n := maxPassage
		for !utf8.RuneStart(line[n]) {
			n--
		}
		n = sentenceEnd(line[:n])
		f(strings.TrimSpace(line[:n]), under)
		line = strings.TrimSpace(line[n:])
	}
	if line != "" {
		f(line, under)
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
