package offline

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The length of a passage, in bytes: a longer line is cut at the ends of its
// sentences, or where it must be. What the user said is quoted at more length,
// with the sentence before the cut if that is a short one.
const (
	maxPassage     = 360
	maxUserPassage = 480
	maxOverlap     = 120
	shortItem      = 60 // a list item up to this length is quoted with the next one
)

// passage is a piece of an entry that can be quoted.
type passage struct {
	text    string
	beside  string  // the next item of a list, quoted with it but not searched
	under   string  // the heading above it; it counts for the search, but less
	from    string  // where it came from, in words for the reader
	prose   bool    // written for people, not the output of a program
	user    bool    // in the user's own words
	asks    bool    // is a question itself
	order   int     // its place among all passages
	earlier bool    // the user said something else about it later
	weight  float64 // how far its source is to be trusted
}

// Weights of sources. What the user said decides, then what was noted; what the
// model said before repeats the others; a question is no answer to itself, and a
// plan that a newer one replaced is none at all.
const (
	weightUser     = 1.4
	weightNotes    = 1.15
	weightSource   = 1.0
	weightOwnWords = 0.6
	weightQuestion = 0.2
	weightOldPlan  = 0.2
)

// quote is the passage as it is quoted.
func (p *passage) quote() string {
	if p.beside == "" {
		return p.text
	}
	return p.text + " " + p.beside
}

// passages cuts the entries other than the question into passages.
func passages(entries []transcript.Entry, question int, now *plan, say phrases) []passage {
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
		if isPlan(e.Item.Body) && (now == nil || now.item != e.Item.ID) {
			weight = weightOldPlan
		}
		kind := e.Item.Body.Kind()
		prose, user := isProse(kind), kind == transcript.KindUserMessage
		first := len(out)
		cutText(transcript.Text(e.Item.Body), prose, user, func(text, under string) {
			w, asks := weight, user && isQuestion(text)
			if asks {
				w = weightQuestion
			}
			if last := len(out) - 1; user && last >= first && isShortItem(out[last].text) && isItem(text) {
				out[last].beside = text
			}
			out = append(out, passage{text: text, under: under, from: from, prose: prose, user: user, asks: asks, order: len(out), weight: w})
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
		return say.plan, weightNotes
	case transcript.Notice:
		return say.notice + b.Source, weightNotes
	case transcript.Checkpoint:
		return say.checkpoint, weightNotes
	case transcript.Opaque:
		if b.Text != "" {
			return say.notice + b.Origin, weightNotes
		}
	}
	return "", 0 // images, markers and what only its origin understands
}

// isProse reports whether a kind of item is written for people. Elsewhere a line
// that begins with # may be a comment in a program, not a chapter.
func isProse(k transcript.Kind) bool {
	switch k {
	case transcript.KindUserMessage, transcript.KindAgentMessage, transcript.KindReasoning,
		transcript.KindNotice, transcript.KindCheckpoint, transcript.KindOpaque:
		return true
	default:
		return false
	}
}

// isPlan reports whether an item keeps a plan.
func isPlan(b transcript.Body) bool {
	c, is := b.(transcript.ToolCall)
	return b.Kind() == transcript.KindPlan || is && len(callSteps(c)) > 0
}

// isQuestion reports whether a text asks and does nothing else.
func isQuestion(text string) bool {
	return (strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？")) && len(sentences(text)) == 1
}

// isItem reports whether a line is an item of a list.
func isItem(line string) bool {
	rest := strings.TrimLeft(line, "0123456789")
	if len(rest) < len(line) {
		return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
	}
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "• ")
}

func isShortItem(line string) bool { return len(line) <= shortItem && isItem(line) }

// cutText calls f with the passages of a text: its lines, long ones cut, each with
// the heading above it. A chapter lasts until the next one; any other heading
// until an empty line, not counting one directly below it. A heading with
// nothing below it is a passage itself.
func cutText(text string, prose, user bool, f func(text, under string)) {
	chapter, heading, used := "", "", true
	end := func() {
		if heading != "" && !used {
			cutLine(heading, chapter, user, f)
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
			cutLine(line, under, user, f)
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
func cutLine(line, under string, user bool, f func(text, under string)) {
	limit := maxPassage
	if user {
		limit = maxUserPassage
	}
	for len(line) > limit {
		n := limit
		for !utf8.RuneStart(line[n]) {
			n--
		}
		n = sentenceEnd(line[:n])
		text := strings.TrimSpace(line[:n])
		f(text, under)
		if user {
			n = overlap(line[:n])
		}
		line = strings.TrimSpace(line[n:])
	}
	if line != "" {
		f(line, under)
	}
}

// overlap returns where the last sentence of s begins, if it is a short one and
// not the only one, else the end of s.
func overlap(s string) int {
	body := strings.TrimRightFunc(s, func(r rune) bool { return !inName(r) })
	if start := sentenceEnd(body); start > len(s)/2 && len(s)-start <= maxOverlap && isSentenceEnd(body[:start]) {
		return start
	}
	return len(s)
}

func isSentenceEnd(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(".!?;。！？；", r)
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
