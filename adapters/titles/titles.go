// Package titles is a model that names threads by itself: no network, no key, the
// same title for the same text. Clients such as the codex TUI let a hidden thread
// find a title for each new one; answered here it costs no request to a provider.
//
// A title is the beginning of what the user said, in the user's language: of its
// first line that says anything, as many whole words as fit into 36 characters,
// without the markup around them.
package titles

import (
	"context"
	"encoding/json"
	"html"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// ID is the name of the model.
const ID = "titles"

// MaxTitle is the length of a title, in code points: what the codex TUI asks for
// (codex 0.171, observed).
const MaxTitle = 36

// Untitled is the title of a text that says nothing.
const Untitled = "Untitled"

// New returns the model. It holds no state.
func New() adapters.Model { return model{} }

type model struct{}

var _ adapters.Unwriting = model{}

// Models implements adapters.Model.
func (model) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: ID, DisplayName: "Titles (the beginning of the text)", ContextWindow: 1_000_000, MaxOutput: 100}}, nil
}

// Base implements adapters.Model.
func (model) Base() adapters.Base { return adapters.Base{} }

// Count implements adapters.Model.
func (model) Count(context.Context, adapters.Request) (int, bool, error) { return 0, false, nil }

// Compaction implements adapters.Model.
func (model) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{
		Code: "nativeUnsupported", Reason: "a thread that finds a title is never long", Remedy: "leave it as it is",
	}}
}

// Unfit implements adapters.Unwriting.
func (model) Unfit() *adapters.Refusal {
	return &adapters.Refusal{
		Code: "writerUnfit", Reason: "it only finds titles", Remedy: "use the writer extractive, or name a model of another provider for the writer",
	}
}

// Stream implements adapters.Model. The answer is {"title": …}.
func (model) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		answer, err := json.Marshal(map[string]string{"title": Title(lastSaid(req.Entries))})
		if err != nil { // a string always encodes
			panic(err)
		}
		if yield(adapters.MessageText{Text: string(answer)}, nil) {
			yield(adapters.Done{Stop: adapters.StopEnd}, nil)
		}
	}
}

func lastSaid(entries []transcript.Entry) string {
	for _, e := range slices.Backward(entries) {
		if u, ok := e.Item.Body.(transcript.UserMessage); ok {
			return transcript.Text(u)
		}
	}
	return ""
}

// asked is what stands before the user's own text in what the codex TUI sends
// (codex 0.171, observed).
const asked = "\nUser prompt:\n"

// recent stands before the conversation that it sends for /rename, and said is what
// users say in that, escaped (codex 0.171, observed).
const recent = "\nRecent conversation messages:\n<conversation>\n"

var said = regexp.MustCompile(`(?s)<message role="user">(.*?)</message>`)

// Title is the title of a text.
func Title(text string) string {
	if before, talk, ok := strings.Cut(text, recent); ok && !strings.Contains(before, asked) {
		text = ""
		for _, m := range said.FindAllStringSubmatch(talk, -1) {
			text = html.UnescapeString(m[1]) + "\n" + text // the newest first
		}
	} else if _, own, ok := strings.Cut(text, asked); ok {
		text = own
	}
	for line := range strings.Lines(text) {
		if title := titleOf(line); title != "" {
			return title
		}
	}
	return Untitled
}

// titleOf is the title that a line gives; empty if it says nothing.
func titleOf(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "```") {
		return "" // what a fence opens is told by what is in it
	}
	words := strings.FieldsFunc(line, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
	for len(words) > 0 && !says(words[0]) { // the mark of a list, a heading or a quotation
		words = words[1:]
	}
	title := ""
	for _, w := range words {
		longer := strings.TrimSpace(title + " " + w)
		if utf8.RuneCountInString(longer) > MaxTitle {
			if title == "" { // one word, or a language without blanks
				title = firstRunes(w, MaxTitle)
			}
			break
		}
		title = longer
	}
	title = strings.TrimFunc(title, func(c rune) bool {
		return strings.ContainsRune("\"'`*_#>.,;:!?…。、，！？", c) || unicode.IsSpace(c)
	})
	if !says(title) {
		return ""
	}
	first, size := utf8.DecodeRuneInString(title)
	return string(unicode.ToUpper(first)) + title[size:]
}

func says(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
