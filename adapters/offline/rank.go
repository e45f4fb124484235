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
	maxTerms   = 48   // words of a question that are looked for, the rarest ones
	maxClauses = 6    // parts of a question that are answered on their own
	maxQuotes  = 8    // passages of an answer
	minScore   = 0.35 // of the best passage's score for the same clause
)

// BM25. The length of a passage counts less than usual: prose has longer lines
// than logs, and it is the prose that answers.
const (
	bm25K = 1.2
	bm25B = 0.3
)

// sameWords is the share of common words from which on two lines of output say
// the same: a test that passed again, after another time. In prose another number
// is another fact.
const sameWords = 0.5

// How much a word counts that is not in the passage itself but in the heading
// above it, and one that is not in the clause but elsewhere in the question.
const (
	inHeading   = 0.5
	otherClause = 0.3
)

// A query is what is looked for: the words of a question, numbered, and which of
// them each of its clauses has.
type query struct {
	terms   map[string]int
	clauses []map[int]bool
}

// newQuery reads a question. Stop words are left out, unless there is nothing
// else.
func newQuery(question string) query {
	topical := func(w string) bool { return !stopWords[w] }
	if q := read(question, topical); len(q.terms) > 0 {
		return q
	}
	return read(question, func(string) bool { return true })
}

func read(question string, keep func(string) bool) query {
	q := query{terms: map[string]int{}}
	for clause := range strings.FieldsFuncSeq(question, func(r rune) bool { return strings.ContainsRune(",;?!，；？！。\n", r) }) {
		in := map[int]bool{}
		words(clause, func(w []byte) {
			if !keep(string(w)) {
				return
			}
			in[q.term(string(w))] = true
			if k, is := kin[string(w)]; is {
				in[q.term(k)] = true
			}
		})
		if len(in) > 0 {
			q.clauses = append(q.clauses, in)
		}
	}
	return q
}

// term returns the number of a word.
func (q query) term(w string) int {
	t, known := q.terms[w]
	if !known {
		t = len(q.terms)
		q.terms[w] = t
	}
	return t
}

// A match is a passage that has words of the question.
type match struct {
	passage
	length int
	counts []float64 // how often it has each term
	headed bool      // its heading has one
}

// count counts the terms of a passage and its heading.
func (m *match) count(want map[string]int) {
	add := func(w []byte, n float64) bool {
		t, is := want[string(w)]
		if is {
			if m.counts == nil {
				m.counts = make([]float64, len(want))
			}
			m.counts[t] += n
		}
		return is
	}
	words(m.text, func(w []byte) {
		m.length++
		add(w, 1)
	})
	words(m.under, func(w []byte) {
		m.headed = add(w, inHeading) || m.headed
	})
}

// found is the outcome of a search.
type found struct {
	best    []match  // best first, the clauses taking turns
	missing []string // words of the question, as written, that are nowhere
}

// search ranks the passages that have words of the question.
func search(ps []passage, question string) found {
	q := newQuery(question)
	seen := make([]int, len(q.terms)) // for each term the number of passages that have it
	var matches []match
	total := 0
	for _, p := range ps {
		m := match{passage: p}
		m.count(q.terms)
		total += m.length
		for t, n := range m.counts {
			if n > 0 {
				seen[t]++
			}
		}
		if m.counts != nil {
			matches = append(matches, m)
		}
	}
	s := scale{idf: weigh(seen, len(ps)), average: float64(total) / float64(max(len(ps), 1)), passages: len(ps)}
	var ranked [][]match
	for _, clause := range q.clauses[:min(len(q.clauses), maxClauses)] {
		ranked = append(ranked, s.rank(matches, clause))
	}
	return found{choose(ranked, question), missing(question, q.terms, seen)}
}

// A scale is what the score of a passage depends on besides the passage.
type scale struct {
	idf      []float64 // of each term; 0 for the ones that are not looked for
	average  float64   // length of a passage
	passages int
}

// weigh returns the inverse document frequency of the rarest terms that were seen.
func weigh(seen []int, passages int) []float64 {
	idf := make([]float64, len(seen))
	for t, n := range seen {
		if n > 0 {
			idf[t] = math.Log(1 + (float64(passages-n)+0.5)/(float64(n)+0.5))
		}
	}
	if len(idf) > maxTerms {
		sorted := slices.Sorted(slices.Values(idf))
		least := sorted[len(sorted)-maxTerms]
		for t := range idf {
			if idf[t] < least {
				idf[t] = 0
			}
		}
	}
	return idf
}

// rank orders the matches of a clause, best first, as far as they are worth
// quoting beside the best one.
func (s scale) rank(matches []match, clause map[int]bool) []match {
	type scored struct {
		match
		score float64
	}
	var all []scored
	for _, m := range matches {
		if score := s.score(m, clause); score > 0 {
			all = append(all, scored{m, score})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var out []match
	for _, m := range all {
		if m.score < minScore*all[0].score {
			break
		}
		out = append(out, m.match)
	}
	return out
}

// score is BM25 times the share of the clause that is covered, so that one common
// word makes no answer. The newer of two equal passages wins. The terms are added
// up in their order, so that the sum is the same on every run.
func (s scale) score(m match, clause map[int]bool) float64 {
	sum, covered, all := 0.0, 0.0, 0.0
	for t, idf := range s.idf {
		n := m.counts[t]
		gain := idf * n * (bm25K + 1) / (n + bm25K*(1-bm25B+bm25B*float64(m.length)/s.average))
		if !clause[t] {
			sum += otherClause * gain
			continue
		}
		all += idf
		if n > 0 {
			covered += idf
			sum += gain
		}
	}
	if covered == 0 {
		return 0
	}
	age := 1 + 0.1*float64(m.order)/float64(s.passages)
	return sum * covered / all * m.weight * age
}

// choose takes the best matches that say something new, of each clause in turn. A
// passage that is part of the question, or repeats one that was taken, says
// nothing new.
func choose(ranked [][]match, question string) []match {
	asked := normal(question)
	var best []match
	var taken []said
	next := func(list []match) (rest []match, took bool) {
		for i, m := range list {
			s := newSaid(m)
			if strings.Contains(asked, normal(m.text)) || slices.ContainsFunc(taken, s.same) {
				continue
			}
			taken, best = append(taken, s), append(best, m)
			return list[i+1:], true
		}
		return nil, false
	}
	for more := true; more; {
		more = false
		for c := range ranked {
			if len(best) == maxQuotes {
				return best
			}
			var took bool
			ranked[c], took = next(ranked[c])
			more = more || took
		}
	}
	return best
}

// said is what makes two passages the same.
type said struct {
	words map[string]bool
	prose bool
}

func newSaid(m match) said {
	s := said{map[string]bool{}, m.prose}
	words(m.text, func(w []byte) { s.words[string(w)] = true })
	return s
}

// same reports whether one of two passages has all the words of the other, or
// both are output with most words in common.
func (s said) same(t said) bool {
	common := 0
	for w := range s.words {
		if t.words[w] {
			common++
		}
	}
	if common == min(len(s.words), len(t.words)) {
		return true
	}
	return !s.prose && !t.prose && float64(common) > sameWords*float64(len(s.words)+len(t.words)-common)
}

// normal is a text without regard to case and spaces.
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
