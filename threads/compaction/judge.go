package compaction

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A defect is why an answer of a model, or a request to it, is no use. The code goes
// into the record; the remark tells the model, if it is asked again.
type defect struct {
	code   string
	reason string
	remark string
	ask    *AskError // set if the request failed
}

// Codes of answers that are rejected.
const (
	codeEmpty      = "emptyNotes"
	codeTruncated  = "truncatedNotes"
	codeSkeleton   = "skeletonNotes"
	codeUnrelated  = "unrelatedNotes"
	codeRefusal    = "writerRefused"
	codeToolCall   = "writerCalledATool"
	codeLanguage   = "wrongLanguage"
	codeOverBudget = "notesOverBudget"
	codeEcho       = "promptEchoed"
	codeNested     = "notesCopied"
)

// stop reasons of an Answer, in the adapters' words.
const (
	stopTools  = "tools"
	stopLength = "length"
	stopWindow = "window"
	stopFilter = "filter"
)

// An exam is what the answer to one prompt is judged by.
type exam struct {
	history  string // as it was shown
	previous string // the notes so far
	lang     language
	limit    int    // code points
	wish     string // what the notes were to pay attention to
}

// judge returns the notes in an answer, or what is wrong with it.
func (e *exam) judge(a Answer) (string, *defect) {
	if d := e.judgeStop(a); d != nil {
		return "", d
	}
	if len(a.Text) > 40*e.limit+4_096 {
		return "", e.tooLong(utf8.RuneCountInString(a.Text))
	}
	text, closed := unwrap(a.Text)
	if d := e.judgeForm(text, closed); d != nil {
		return "", d
	}
	for _, f := range []func(string) *defect{e.judgeEcho, e.judgeRefusal, e.judgeLanguage, e.judgeSubstance, e.judgeNesting} {
		if d := f(text); d != nil {
			return "", d
		}
	}
	text = scrub(withoutWish(text, e.wish, e.history), e.history+"\n"+e.previous)
	if n := utf8.RuneCountInString(text); n > e.limit {
		return "", e.tooLong(n)
	}
	return text, nil
}

// judgeStop looks at why the answer ended.
func (e *exam) judgeStop(a Answer) *defect {
	switch {
	case a.Stop == stopTools:
		return &defect{code: codeToolCall, reason: "the model called a tool instead of writing", remark: "There are no tools. Answer with the text of the notes and nothing else."}
	case a.Stop == stopFilter || a.Stop == "refusal":
		return &defect{code: codeRefusal, reason: "the provider or the model refused to answer"}
	case a.Complete:
		return nil
	case a.Stop == stopWindow:
		return &defect{code: codeTruncated, reason: "the answer ended because the window was full", ask: &AskError{Overflow: true}}
	case strings.TrimSpace(a.Text) == "" && a.Stop != stopLength:
		return e.empty()
	}
	return &defect{code: codeTruncated, reason: fmt.Sprintf("the answer ended early (%s)", orText(a.Stop, "no reason given")), remark: e.shorter()}
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (e *exam) shorter() string {
	return fmt.Sprintf("An earlier answer was too long and was cut. Be briefer: at most %d characters, whole sentences, nothing left open.", e.limit*6/10)
}

func (e *exam) empty() *defect {
	return &defect{code: codeEmpty, reason: "the answer is empty", remark: "An earlier answer was empty. Answer with the text of the notes."}
}

func (e *exam) tooLong(n int) *defect {
	return &defect{code: codeOverBudget, reason: fmt.Sprintf("the notes have %d characters, more than %d", n, e.limit), remark: e.shorter()}
}

// judgeForm finds texts that are empty or do not end.
func (e *exam) judgeForm(text string, closed bool) *defect {
	if strings.IndexFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) < 0 {
		return e.empty()
	}
	last := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if !closed || bareLine(last) == "" {
		return &defect{code: codeTruncated, reason: "the answer ends in the middle: a block, a tag or a list item is not finished", remark: e.shorter()}
	}
	return nil
}

// roleLabels are the labels that the history is shown with.
var roleLabels = []string{"[user]", "[assistant]", "[call ", "[result]", "[result,", "=== turn "}

// judgeEcho finds answers that repeat what they were given.
func (e *exam) judgeEcho(text string) *defect {
	repeated, labels, lines := 0, 0, 0
	for line := range strings.Lines(text) {
		lines++
		if instructionLines[bareLine(line)] {
			repeated++
		}
		t := strings.TrimSpace(line)
		if slices.ContainsFunc(roleLabels, func(l string) bool { return strings.HasPrefix(t, l) }) {
			labels++
		}
	}
	if strings.Contains(text, transcript.WriterMark) || repeated >= 2 || labels >= 3 && labels*10 >= lines {
		return &defect{code: codeEcho, reason: "the answer repeats the prompt or the history", remark: "An earlier answer repeated what it was given. Write notes about the history in your own lines."}
	}
	return nil
}

// refusalWords begin what models say when they will not do something. They count
// only at the beginning of a text that has no list: notes may report a refusal.
var refusalWords = []string{
	"i can't", "i can’t", "i cannot", "i'm sorry", "i’m sorry", "i am sorry", "sorry,", "i'm unable", "i am unable", "i won't", "as an ai", "i apologize", "unfortunately, i",
	"抱歉", "对不起", "很抱歉", "我无法", "我不能", "申し訳", "すみません", "죄송", "извините", "к сожалению", "я не могу", "вибачте", "desculpe", "não posso", "lo siento", "no puedo", "je suis désolé", "désolé", "je ne peux pas", "es tut mir leid", "leider kann", "ich kann", "mi dispiace", "non posso", "عذر", "آسف", "لا أستطيع", "क्षमा", "माफ़",
}

func (e *exam) judgeRefusal(text string) *defect {
	first := strings.ToLower(bareLine(headOf(text, 200)))
	items := 0
	for line := range strings.Lines(text) {
		if _, ok := cutBullet(strings.TrimSpace(line)); ok {
			items++
		}
	}
	if items < 3 && slices.ContainsFunc(refusalWords, func(w string) bool { return strings.HasPrefix(first, w) }) {
		return &defect{code: codeRefusal, reason: "the model refused: " + oneLine(text, 160)}
	}
	return nil
}

// placeholders are all that a line says which says nothing, after its marks.
var placeholders = []string{
	"none", "n/a", "na", "tbd", "todo", "unknown", "empty", "nothing", "nothing to report", "nothing yet", "not applicable", "no prior history", "no history", "no previous history", "no decisions", "no open questions", "no errors", "no task", "no active task", "no tasks", "no conversation", "conversation empty", "the conversation is empty", "no content", "no information",
	"无", "暂无", "没有", "无内容", "なし", "特になし", "없음", "нет", "немає", "nenhum", "nenhuma", "ninguno", "ninguna", "nada", "aucun", "aucune", "rien", "keine", "keiner", "keines", "nichts", "nessuno", "nessuna", "niente", "لا يوجد", "لا شيء", "कोई नहीं", "कुछ नहीं",
}

// saysSomething reports whether a line of notes is more than a heading, a mark or
// a placeholder.
func saysSomething(line string) bool {
	if isHeading(line) {
		return false
	}
	t := strings.ToLower(strings.Trim(bareLine(line), " .:()[]<>{}…*_–—-。"))
	if _, value, ok := strings.Cut(t, ": "); ok && len(value) < 30 && slices.Contains(placeholders, strings.Trim(value, " .()[]")) {
		return false
	}
	return t != "" && !slices.Contains(placeholders, t)
}

// judgeSubstance finds skeletons, and notes that are about something else.
func (e *exam) judgeSubstance(text string) *defect {
	said := 0
	for line := range strings.Lines(text) {
		if saysSomething(line) {
			said += weight(strings.TrimSpace(line))
		}
	}
	if need := e.leastWeight(); said < need {
		return &defect{
			code: codeSkeleton, reason: fmt.Sprintf("the notes say too little: %d characters of content, expected %d or more", said, need),
			remark: "An earlier answer had headings but hardly any facts. Write down what the history holds, fact by fact.",
		}
	}
	if !e.related(text) {
		return &defect{
			code: codeUnrelated, reason: "the notes name no path, tool, name or phrase of the history",
			remark: "An earlier answer had nothing to do with the history. Name its files, commands and requests.",
		}
	}
	return nil
}

// leastWeight is how much notes must say at the least: 200 letters or a fiftieth of
// the history, up to where terse notes may well be good ones, and less where the
// history or the room is small.
func (e *exam) leastWeight() int {
	shown := weight(e.history)
	return max(min(200, shown/20), min(shown/50, 500, e.limit/8))
}

// related reports whether the notes share something with the history: a name or a
// path, or a few words.
func (e *exam) related(text string) bool {
	history := strings.ToLower(e.history)
	words := 0
	seen := map[string]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), isBreak) {
		if seen[w] || isASCII(w) && len(w) < 4 {
			continue
		}
		seen[w] = true
		if shared := sharedPart(w, history); shared > 0 {
			words += shared
			if strings.ContainsAny(w, "/._") {
				words += 2
			}
		}
		if words >= 3 {
			return true
		}
	}
	return words > 0 && weight(e.history) < 400
}

// sharedPart is how many words, about, of a run of letters stand in the history. A
// run of a script without blanks is looked up in pieces of three.
func sharedPart(w, history string) int {
	if isASCII(w) || letterOf([]rune(w)[0]) != letterHan && letterOf([]rune(w)[0]) != letterKana {
		if strings.Contains(history, w) {
			return 1
		}
		return 0
	}
	runes, n := []rune(w), 0
	for i := 0; i+3 <= len(runes); i += 3 {
		if strings.Contains(history, string(runes[i:i+3])) {
			n++
		}
	}
	if len(runes) == 2 && strings.Contains(history, w) {
		n++
	}
	return n
}

func isBreak(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) && r != '/' && r != '.' && r != '_' && r != '-'
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Notes that take in little that is new may well stay as they were.
const (
	nestedMin  = 400 // code points of notes so far, before a copy of them is one
	nestedNews = 2   // times as long as the notes so far is a history that changes them
)

// judgeNesting finds notes that hold the notes so far as a block instead of
// replacing them.
func (e *exam) judgeNesting(text string) *defect {
	if utf8.RuneCountInString(e.previous) < nestedMin || weight(e.history) < nestedNews*weight(e.previous) {
		return nil
	}
	if share := copiedBlock(e.previous, text); share*2 > utf8.RuneCountInString(e.previous) {
		return &defect{
			code: codeNested, reason: "the notes hold more than half of the notes so far as they were, in one block",
			remark: "An earlier answer pasted the notes so far. Write the notes anew: merge old and new facts under one set of headings, and shorten what is old.",
		}
	}
	return nil
}

// copiedBlock is the length of the longest run of lines of old that stand in text in
// the same order without anything between them.
func copiedBlock(old, text string) int {
	a, b := bareLines(old), bareLines(text)
	at := map[string][]int{}
	for i, l := range b {
		at[l] = append(at[l], i)
	}
	best := 0
	runs := map[int]int{} // by the line of text that a run ends at
	for _, l := range a {
		next := map[int]int{}
		for _, i := range at[l] {
			next[i] = runs[i-1] + utf8.RuneCountInString(l)
			best = max(best, next[i])
		}
		runs = next
	}
	return best
}

func bareLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		if line = bareLine(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func (e *exam) judgeLanguage(text string) *defect {
	if e.lang.speaks(text) {
		return nil
	}
	return &defect{
		code: codeLanguage, reason: "the notes are not in the user's language, " + e.lang.name,
		remark: "An earlier answer was in the wrong language. Every line and heading is to be in " + e.lang.name + ".",
	}
}
