package prompt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What stands where there is nothing that could be sent.
const (
	noOutput  = "(no output)"
	noMessage = "(empty message)"
	// goOn is the last message where a request would end with the model's own words
	// or with a checkpoint.
	goOn = "Go on with what was asked."
	// lost is the user's message where a context has none.
	lost = "(What the user asked is no longer part of this conversation. The notes in it tell what it was about.)"
	// middle is the user's message before a context that begins with the model.
	middle = "(This conversation begins in the middle.)"
	// bridge stands between results and a user message where a wire wants that.
	bridge = "I have the results."
	// imagesFollow is in a result whose images are in the message after the results.
	imagesFollow = "[its images follow below]"
)

// blank reports whether a text shows nothing: it is empty, or made of white space
// and of characters without width.
func blank(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return !unicode.IsSpace(c) && !unicode.In(c, unicode.Cf, unicode.Cc) && !strings.ContainsRune(widthless, c)
	})
}

// widthless are letters and signs that show nothing.
const widthless = "\u115f\u1160\u2800\u3164\uffa0"

// clean returns s as valid UTF-8.
func clean(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

// commandText tells of a command that a runtime ran.
func commandText(c transcript.Command) string {
	how := c.Status
	if c.ExitCode != nil {
		how += ", exit " + strconv.Itoa(*c.ExitCode)
	}
	output := c.Output
	if blank(output) {
		output = noOutput
	}
	return fmt.Sprintf("[command that was run: %s]\n$ %s\n%s", how, c.Command, output)
}

// filesText tells of files that a runtime changed.
func filesText(c transcript.FileChange) string {
	return fmt.Sprintf("[files that were changed: %s]\n%s", c.Status, strings.TrimRight(transcript.Text(c), "\n"))
}

func planText(p transcript.Plan) string {
	if len(p.Steps) == 0 {
		return "[plan: no steps]"
	}
	return "[plan]\n" + strings.TrimRight(transcript.Text(p), "\n")
}

// lateText tells of a result that answers no call of the request.
func lateText(id, name string, output []Part) string {
	if name == "" {
		name = "a tool"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "[late result of %s (call %s), which was answered before or is no longer part of this conversation]", name, id)
	for _, p := range output {
		s.WriteString("\n" + p.Text)
	}
	return s.String()
}

// callText tells of a call where none can stand.
func callText(p Part) string {
	return fmt.Sprintf("[call of %s: %s]", p.Name, p.Arguments)
}

func imageText(mediaType, path string) string {
	words := slices.DeleteFunc([]string{"image", mediaType, path}, func(s string) bool { return s == "" })
	return "[" + strings.Join(words, " ") + "]"
}

// maxQuoted bounds what a model is shown of unusable arguments, in bytes.
const maxQuoted = 2_000

// clip keeps the beginning and the end of a text and says how much is missing. It
// never makes a text longer.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	mark := fmt.Sprintf("\n[… %d of %d bytes omitted …]\n", len(s)-limit, len(s))
	head, tail := clean(s[:limit*2/3]), clean(s[len(s)-limit/3:])
	head, tail = strings.TrimRight(head, "\ufffd"), strings.TrimLeft(tail, "\ufffd")
	if len(head)+len(mark)+len(tail) >= len(s) {
		return s
	}
	return head + mark + tail
}
