package offline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxClauses bounds the parts of a question that are answered on their own; what
// is more belongs to the last one.
const maxClauses = 6

// A query is what is looked for: the words of a question, numbered, and which of
// them each of its clauses has.
type query struct {
	size    int            // how many terms there are
	terms   map[string]hit // words, as a text has them, to terms
	clauses []clause
}

// A hit is what a word of a text counts for a term: one if the question has the
// same word, less if it has a kindred one.
type hit struct {
	term int
	n    float64
}

// A clause is a part of a question that is answered on its own.
type clause struct {
	text  string // as the user wrote it
	terms map[int]bool
	plan  planAsk
}

// newQuery reads a question. Stop words are left out, unless there is nothing
// else.
func newQuery(question string) query {
	topical := func(w string) bool { return !stopWords[w] }
	if q := read(question, topical); q.size > 0 {
		return q
	}
	return read(question, func(string) bool { return true })
}

func read(question string, keep func(string) bool) query {
	q := query{terms: map[string]hit{}}
	groups := map[int]int{} // of kindred words, to terms
	for _, text := range clauses(question) {
		c := clause{text: text, terms: map[int]bool{}, plan: asksForPlan(text)}
		how := false
		words(text, func(w []byte) {
			if keep(string(w)) && !(how && measures[string(w)]) {
				c.terms[q.term(string(w), groups)] = true
			}
			how = string(w) == "how"
		})
		if len(c.terms) > 0 || c.plan != planNone {
			q.clauses = append(q.clauses, c)
		}
	}
	return q
}

// term returns the number of a word. Kindred words are one term.
func (q *query) term(w string, groups map[int]int) int {
	if h, known := q.terms[w]; known && h.n == 1 {
		return h.term
	}
	g, akin := kin[w]
	if !akin {
		q.terms[w] = hit{q.size, 1}
		q.size++
		return q.size - 1
	}
	t, known := groups[g]
	if !known {
		t = q.size
		q.size++
		groups[g] = t
		for _, k := range kindred[g] {
			q.terms[k] = hit{t, kinCounts}
		}
	}
	q.terms[w] = hit{t, 1}
	return t
}

// clauses cuts a question where a sentence ends, and where after a comma or an
// "and" another question begins. In a sentence without any question word the
// commas make a list of things to look for.
func clauses(question string) []string {
	var out []*strings.Builder
	begin := func() {
		if len(out) == maxClauses {
			out[maxClauses-1].WriteString(" ")
			return
		}
		out = append(out, &strings.Builder{})
	}
	for _, sentence := range sentences(question) {
		parts, commas := parts(sentence)
		asking := slices.ContainsFunc(parts, func(p part) bool { return p.asks })
		asked := false // a question of this sentence has begun
		for i, p := range parts {
			own := p.asks
			if !asking {
				own = commas > 0
			}
			// What comes before the first question belongs to it.
			if i == 0 || own && (asked || !asking) {
				begin()
			} else {
				out[len(out)-1].WriteString(p.sep)
			}
			out[len(out)-1].WriteString(p.text)
			asked = asked || p.asks
		}
	}
	texts := make([]string, len(out))
	for i, b := range out {
		texts[i] = b.String()
	}
	return texts
}

// A part is a piece of a sentence.
type part struct {
	sep  string // between it and the one before
	text string
	asks bool // see asks
}

// sentences cuts a text after the marks that end one.
func sentences(text string) []string {
	var out []string
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(text[start:end]); strings.ContainsFunc(s, inName) {
			out = append(out, s)
		}
	}
	for i, r := range text {
		next := i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			next = i + 1
		}
		if strings.ContainsRune("\n;?!；？！。؟", r) || r == '.' && (next == len(text) || text[next] == ' ') {
			add(i)
			start = next
		}
	}
	add(len(text))
	return out
}

// parts cuts a sentence at its commas and conjunctions, and counts the commas.
func parts(sentence string) (out []part, commas int) {
	start, before := 0, 0 // of the part, and the end of the one before
	cut := func(end, next int) {
		text := strings.TrimFunc(sentence[start:end], func(r rune) bool { return unicode.IsSpace(r) || r == ',' })
		if strings.ContainsFunc(text, inName) { // else there are two separators in a row: ", and"
			out = append(out, part{sentence[before:start], text, asks(text)})
			before = end
		}
		start = next
	}
	for i := 0; i < len(sentence); {
		n, comma := separator(sentence, i)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(sentence[i:])
			i += n
			continue
		}
		cut(i, i+n)
		if comma {
			commas++
		}
		i += n
	}
	cut(len(sentence), len(sentence))
	return out, commas
}

// separator returns the length of the comma or conjunction at s[i:], if any. A
// comma inside a number is none.
func separator(s string, i int) (n int, comma bool) {
	switch {
	case s[i] == ',' && i+1 < len(s) && s[i+1] == ' ':
		return 2, true
	case strings.HasPrefix(s[i:], "，"), strings.HasPrefix(s[i:], "、"):
		return len("，"), true
	case s[i] == ' ' || i == 0 || s[i-1] == ' ':
		rest := strings.TrimPrefix(s[i:], " ")
		word := prefix(rest, inName)
		if after := rest[len(word):]; conjunctions[strings.ToLower(word)] && strings.HasPrefix(after, " ") {
			return len(s) - i - len(after) + 1, false
		}
	case s[i] >= utf8.RuneSelf:
		for _, c := range unspacedConjunctions {
			if strings.HasPrefix(s[i:], c) {
				return len(c), false
			}
		}
	}
	return 0, false
}

// asks reports whether a part of a sentence is a question of its own: it has a
// question word, or begins with a verb that asks.
func asks(text string) bool {
	first, found := true, false
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !inName(r) }) {
		found = found || questionWords[w] || first && questionVerbs[w]
		first = false
	}
	if found {
		return true
	}
	for _, w := range unspacedQuestions {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// set makes a set of the words in a list.
func set(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[w] = true
	}
	return out
}

// How questions are put together, in the languages of the stop words. A word that
// more often joins a relative clause, such as French "que", is no question word.
var (
	conjunctions         = set(`and also plus und sowie et ainsi y e también`)
	unspacedConjunctions = []string{"以及", "并且", "並且", "而且", "同时", "同時", "そして", "それから", "それと"}

	questionWords = set(`what which when where who whom whose why how
		welche welcher welches welchen welchem wann wo wohin woher wer wen wem wessen warum weshalb wieso wie wieviel womit wofür
		quel quelle quels quelles quand où qui pourquoi comment combien quoi
		qué cuál cuáles cuándo dónde quién quiénes cómo cuánta cuántas
		quais qual quando onde quem quanto quantos 무엇 뭐 무슨 어느 어떤 어디 언제 누구 왜 어떻게 몇 ` +
		"cuánto cuántos") //nolint:misspell // Spanish
	questionVerbs = set(`is are was were do does did can could shall should will would has have had may must
		ist sind war waren hat haben hatte kann können soll sollen muss müssen darf dürfen wird werden gibt
		est sont peut peuvent doit doivent faut es son está están hay puede debe é são tem pode deve`)
	// measures ask for a number after "how": the answer to "how long" is not long.
	measures          = stems(`long fast slow often far big large small high low old much many late early deep wide`)
	unspacedQuestions = []string{
		"什么", "什麼", "甚么", "哪", "多少", "几个", "幾個", "谁", "誰", "怎", "如何", "为何", "為何", "是否", "吗", "嗎", "呢", "何时", "何時",
		"何", "どこ", "どの", "どれ", "どう", "だれ", "いつ", "いくつ", "いくら", "なぜ", "なに", "ますか", "ですか",
	}
)
