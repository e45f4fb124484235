package offline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// What limits an answer.
const (
	maxTerms  = 48   // words of a question that are looked for, the rarest ones
	maxQuotes = 8    // passages of an answer
	minScore  = 0.35 // of the best passage's score
)

// BM25, with its usual constants.
const (
	bm25K = 1.2
	bm25B = 0.75
)

// A match is a passage that has words of the question.
type match struct {
	passage
	length int
	counts []int // how often it has each term
	score  float64
}

// terms numbers the words of a question that are worth looking for. A question of
// stop words only is looked for as it is.
func terms(question string) map[string]int {
	all, topical := map[string]int{}, map[string]int{}
	add := func(set map[string]int, w []byte) {
		if _, known := set[string(w)]; !known {
			set[string(w)] = len(set)
		}
	}
	words(question, func(w []byte) {
		add(all, w)
		if !stopWords[string(w)] {
			add(topical, w)
		}
	})
	if len(topical) == 0 {
		return all
	}
	return topical
}

// found is the outcome of a search.
type found struct {
	best    []match  // best first
	missing []string // words of the question, as written, that are nowhere
}

// search ranks the passages that have words of the question.
func search(ps []passage, question string) found {
	want := terms(question)
	seen := make([]int, len(want)) // for each term the number of passages that have it
	var matches []match
	total := 0
	for _, p := range ps {
		m := match{passage: p}
		m.count(want)
		total += m.length
		for t, n := range m.counts {
			seen[t] += min(n, 1)
		}
		if m.counts != nil {
			matches = append(matches, m)
		}
	}
	rarest := weigh(seen, len(ps))
	average := float64(total) / float64(max(len(ps), 1))
	for i := range matches {
		matches[i].rate(rarest, average, len(ps))
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	return found{choose(matches, question), missing(question, want, seen)}
}

// count counts the terms of a passage.
func (m *match) count(want map[string]int) {
	words(m.text, func(w []byte) {
		m.length++
		if t, is := want[string(w)]; is {
			if m.counts == nil {
				m.counts = make([]int, len(want))
			}
			m.counts[t]++
		}
	})
}

// weighted is a term with its inverse document frequency.
type weighted struct {
	term int
	idf  float64
}

// weigh returns the rarest terms that were seen, in an order that depends on
// nothing else, so that scores are the same on every run.
func weigh(seen []int, passages int) []weighted {
	rare := make([]weighted, 0, len(seen))
	for t, n := range seen {
		if n > 0 {
			rare = append(rare, weighted{t, math.Log(1 + (float64(passages-n)+0.5)/(float64(n)+0.5))})
		}
	}
	slices.SortFunc(rare, func(a, b weighted) int {
		return cmp.Or(cmp.Compare(b.idf, a.idf), cmp.Compare(a.term, b.term))
	})
	return rare[:min(len(rare), maxTerms)]
}

// rate scores a match by BM25 times the share of the question that it covers, so
// that one common word makes no answer, and favours the newer of two equal ones.
func (m *match) rate(terms []weighted, average float64, passages int) {
	sum, covered, all := 0.0, 0.0, 0.0
	for _, t := range terms {
		all += t.idf
		n := float64(m.counts[t.term])
		if n == 0 {
			continue
		}
		covered += t.idf
		sum += t.idf * n * (bm25K + 1) / (n + bm25K*(1-bm25B+bm25B*float64(m.length)/average))
	}
	age := 1 + 0.1*float64(m.order)/float64(passages)
	m.score = sum * covered / all * m.weight * age
}

// choose takes the best matches that say something new. A passage that is part of
// the question, or repeats one that was taken, says nothing new.
func choose(matches []match, question string) []match {
	asked := normal(question)
	var texts []string
	var best []match
	for _, m := range matches {
		if m.score < minScore*matches[0].score || len(best) == maxQuotes {
			break
		}
		text := normal(m.text)
		if strings.Contains(asked, text) || slices.ContainsFunc(texts, func(t string) bool {
			return strings.Contains(t, text) || strings.Contains(text, t)
		}) {
			continue
		}
		texts = append(texts, text)
		best = append(best, m)
	}
	return best
}

// normal is the form in which two passages are the same.
func normal(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }

// missing returns the words of the question, as the user wrote them, of which no
// part was seen.
func missing(question string, want map[string]int, seen []int) []string {
	var out []string
	for field := range strings.FieldsFuncSeq(question, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",;:!?\"“”‘’()[]{}<>，。；：！？、「」『』（）`", r)
	}) {
		field = strings.Trim(field, ".'*-/")
		wanted, got := false, false
		words(field, func(w []byte) {
			t, is := want[string(w)]
			wanted = wanted || is
			got = got || is && seen[t] > 0
		})
		if wanted && !got && !slices.Contains(out, field) {
			out = append(out, field)
		}
	}
	return out
}
