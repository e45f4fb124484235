package events

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Term is what one word of a query looks for: tokens that must stand next to
// each other. Words of scripts that write no spaces have one token per rune.
type Term []string

// maxTerms bounds the work that one query can ask for.
const maxTerms = 64

// Tokens calls yield with every token of text in order, lower-cased, with its
// byte range, until it returns false. A token is a run of letters, digits and
// marks; every Han, Kana and Hangul rune is a token of its own.
func Tokens(text string, yield func(token string, start, end int) bool) {
	start := -1
	for i, r := range text {
		single := spaceless(r)
		if !single && isWord(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && !yield(strings.ToLower(text[start:i]), start, i) {
			return
		}
		start = -1
		if n := utf8.RuneLen(r); single && !yield(text[i:i+n], i, i+n) {
			return
		}
	}
	if start >= 0 {
		yield(strings.ToLower(text[start:]), start, len(text))
	}
}

func isWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r)) }

// spaceless reports whether r is of a script whose words cannot be told apart
// without a dictionary.
func spaceless(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) && unicode.IsLetter(r)
}

// SpacelessRune reports whether Tokens makes a token of r alone.
func SpacelessRune(r rune) bool { return spaceless(r) }

// QueryTerms returns the distinct terms of a query. It is what makes any query
// acceptable: nothing in it is syntax.
func QueryTerms(query string) []Term {
	var terms []Term
	seen := map[string]bool{}
	prevEnd, prevSingle := -1, false
	var run Term
	flush := func() {
		if key := strings.Join(run, " "); len(run) > 0 && !seen[key] {
			seen[key] = true
			terms = append(terms, run)
		}
		run = nil
	}
	Tokens(query, func(token string, start, end int) bool {
		r, _ := utf8.DecodeRuneInString(token)
		single := spaceless(r)
		if !(single && prevSingle && start == prevEnd) {
			flush()
		}
		run = append(run, token)
		prevEnd, prevSingle = end, single
		return len(terms) < maxTerms
	})
	if len(terms) < maxTerms {
		flush()
	}
	return terms
}

// A Match is one document that matched a query.
type Match struct {
	Counts []int // how often each term occurs
	Length int   // in tokens
	Score  float64
}

// Rank sets the scores (BM25) of the documents of one thread that matched;
// docs is how many the thread has. Other threads have no influence.
func Rank(matches []Match, docs int) {
	if len(matches) == 0 {
		return
	}
	const k1, b = 1.2, 0.75
	df := make([]int, len(matches[0].Counts))
	total := 0
	for _, m := range matches {
		total += m.Length
		for i, c := range m.Counts {
			if c > 0 {
				df[i]++
			}
		}
	}
	avg := max(float64(total)/float64(len(matches)), 1)
	for i := range matches {
		m := &matches[i]
		m.Score = 0
		for t, c := range m.Counts {
			if c == 0 {
				continue
			}
			idf := math.Log(1 + (float64(docs)-float64(df[t])+0.5)/(float64(df[t])+0.5))
			tf := float64(c)
			m.Score += idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(m.Length)/avg))
		}
	}
}

// snippetLen is about how many bytes of text a Hit shows.
const snippetLen = 240

// Snippet returns the part of text around the first place where one of terms
// occurs, with white space folded and an ellipsis where text was cut.
func Snippet(text string, terms []Term) string {
	first := make(map[string]bool, len(terms))
	for _, t := range terms {
		first[t[0]] = true
	}
	at := 0
	Tokens(text, func(token string, start, _ int) bool {
		if first[token] {
			at = start
			return false
		}
		return true
	})
	from := runeStart(text, max(0, at-snippetLen/4))
	to := runeStart(text, min(len(text), from+snippetLen))
	out := strings.Join(strings.Fields(strings.ToValidUTF8(text[from:to], "\uFFFD")), " ")
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}

// runeStart moves i back to the start of the rune it is in.
func runeStart(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}
