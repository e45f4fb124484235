package compaction

import (
	"embed"
	"strings"
	"text/template"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// promptVersion is the version of the prompts. It is that of the checkpoints that
// are made with them: whoever changes a prompt changes both.
const promptVersion = VersionModel

//go:embed prompts/*.txt
var promptFiles embed.FS

var prompts = template.Must(template.ParseFS(promptFiles, "prompts/*.txt"))

// promptData fills a prompt. The fields that hold data are indented, so that no
// line of it can pass for one of the prompt.
type promptData struct {
	Mark, Version string
	Language      string
	Headings      headings
	Chars         int
	Wish          string
	Previous      string
	History       string
	More          bool
	Visible       string
	Facts         string
	Remark        string
}

// maxWish bounds what the user, and what hooks may ask of the notes, in code points.
const maxWish = 4_000

// fill writes a prompt.
func fill(name string, d promptData) string {
	d.Mark, d.Version = transcript.WriterMark, promptVersion
	var b strings.Builder
	if err := prompts.ExecuteTemplate(&b, name, d); err != nil {
		panic(err) // the data is a struct of ours: only a broken template fails
	}
	return b.String()
}

// systemPrompt is the system text of every request of a writer.
var systemPrompt = fill("system.txt", promptData{})

// askedFor is the share of the room for notes that a model is asked for: none counts
// its characters well.
const askedFor = 80

// notesPrompt asks for notes on a part of the history.
func (s *source) notesPrompt(wish, previous, history, visible, remark string, last bool) string {
	d := promptData{
		Language: s.lang.name, Headings: s.lang.headings, Chars: s.limit * askedFor / 100,
		History: history, More: !last, Visible: visible, Remark: remark,
	}
	if wish = strings.TrimSpace(wish); wish != "" {
		d.Wish = indent(headOf(wish, 2*maxWish))
	}
	if previous != "" {
		d.Previous = indent(previous)
	}
	if last {
		d.Facts = factLines(s.facts)
	}
	return fill("notes.txt", d)
}

// repairPrompt asks for the notes again, with facts that they miss.
func (s *source) repairPrompt(notes string, missing []fact) string {
	return fill("repair.txt", promptData{
		Language: s.lang.name, Chars: s.limit * 9 / 10, Previous: indent(notes), Facts: factLines(missing),
	})
}

// Bounds of the facts in a prompt, in code points.
const (
	maxFactLine  = 240
	maxFactLines = 6_000
)

func factLines(facts []fact) string {
	s := &sheet{left: maxFactLines}
	for _, f := range facts {
		line := strings.TrimSuffix(strings.TrimPrefix(f.line, "- "), "\n")
		s.add("  - " + oneLine(strings.ReplaceAll(line, transcript.WriterMark, "[…]"), maxFactLine) + "\n")
	}
	return s.b.String()
}

// instructionLines are the lines of the prompts that say what to do. Notes that
// repeat them are an echo.
var instructionLines = func() map[string]bool {
	lines := map[string]bool{}
	for _, name := range []string{"system.txt", "notes.txt", "repair.txt"} {
		for line := range strings.Lines(fill(name, promptData{})) {
			if line = bareLine(line); len(line) >= 40 {
				lines[line] = true
			}
		}
	}
	return lines
}()

// bareLine is a line without the marks of lists and headings.
func bareLine(s string) string { return strings.TrimSpace(strings.TrimLeft(s, " \t-*#•>")) }
