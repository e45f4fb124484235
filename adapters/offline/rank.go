package offline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// What limits a search.
const (
	maxTerms      = 48 // words of a question that are looked for, the rarest ones
	maxCandidates = 24 // passages that are compared with each other, of a clause
)

// BM25. The length of a passage counts less than usual, and at most so much: prose
// has longer lines than logs, and it is the prose that answers.
const (
	bm25K      = 1.2
	bm25B      = 0.3
	longestFor = 2.5 // average passages
)

// How much a word counts that is not in the passage itself but in the heading
// above it, and one that is not in the clause but elsewhere in the question.
const (
	inHeading   = 0.5
	otherClause = 0.3
)

// How much more the newest passage is worth than the oldest one. What the user
// said last holds; a file that was read last is not more to the point.
const (
	recentUser   = 0.3
	recentOthers = 0.1
)

// onlyNames is what a line of output counts that repeats an identifier and says
// nothing about it, such as the name of a test that ran.
const onlyNames = 0.25

// A match is a passage that has words of the question.
type match struct {
	passage
	length int
	counts []float64 // how often it has each term
	headed bool      // its heading has one
	score  float64   // for the clause
	said   said      // of the quote, if it was ranked
}

// count counts the terms of a passage and its heading.
func (m *match) count(q *query) {
	add := func(w []byte, n float64) (exact bool) {
		h, is := q.terms[string(w)]
		if is {
			if m.counts == nil {
				m.counts = make([]float64, q.size)
			}
			m.counts[h.term] += n * h.n
		}
		return is && h.n == 1
	}
	words(m.text, func(w []byte) {
		m.length++
		add(w, 1)
	})
	words(m.under, func(w []byte) {
		m.headed = add(w, inHeading) || m.headed
	})
}

// repeatsName reports whether all that a line of output has of the clause is one
// identifier, without a value and with little around it.
func repeatsName(line string, q *query, clause map[int]bool) bool {
	name, others := "", 0
	for run := range strings.FieldsFuncSeq(line, func(r rune) bool { return !inName(r) }) {
		parts, has := 0, false
		words(run, func(w []byte) {
			h, is := q.terms[string(w)]
			parts, has = parts+1, has || is && clause[h.term]
		})
		switch {
		case has && (parts < 2 || name != "" && name != run):
			return false
		case has:
			name = run
		case len(run) > 1:
			others++
		}
	}
	if name == "" || others > 3 {
		return false
	}
	_, after, _ := strings.Cut(line, name)
	after = strings.TrimLeft(after, " \t\"'`")
	return !strings.HasPrefix(after, "=") && !strings.HasPrefix(after, ":")
}

// search ranks for each clause the passages that have words of it. It also returns
// the words of the question, as written, that are nowhere.
func search(ps []passage, q *query, question string) (ranked [][]match, missing []string) {
	seen := make([]int, q.size) // for each term the number of passages that have it
	var matches []match
	total := 0
	for _, p := range ps {
		m := match{passage: p}
		m.count(q)
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
	asked := normal(question)
	for _, c := range q.clauses {
		ranked = append(ranked, s.rank(matches, q, c.terms, asked))
	}
	return ranked, unseen(question, q, seen)
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

// rank orders the best matches of a clause, best first, newest first among equals.
// What is part of the question answers nothing. The counts of the matches it
// returns are the shares of the clause that they cover.
func (s scale) rank(matches []match, q *query, clause map[int]bool, asked string) []match {
	var all []match
	for _, m := range matches {
		if m.score = s.score(m, clause); m.score == 0 {
			continue
		}
		if !m.prose && repeatsName(m.text, q, clause) {
			m.score *= onlyNames
		}
		all = append(all, m)
	}
	slices.SortFunc(all, byScore)
	out := make([]match, 0, maxCandidates)
	for _, m := range all {
		if len(out) == maxCandidates {
			break
		}
		if !strings.Contains(asked, normal(m.text)) {
			m.counts, m.said = s.shares(m, clause), newSaid(m.quote(), m.from, m.prose)
			out = append(out, m)
		}
	}
	newestFirst(out, q, clause)
	return out
}

// byScore puts the better passage first, the newer one of equals.
func byScore(a, b match) int { return cmp.Or(cmp.Compare(b.score, a.score), b.order-a.order) }

// score is BM25 times the share of the clause that is covered, so that one common
// word makes no answer. The terms are added up in their order, so that the sum is
// the same on every run.
func (s scale) score(m match, clause map[int]bool) float64 {
	long := min(float64(m.length)/s.average, longestFor)
	sum, covered, all := 0.0, 0.0, 0.0
	for t, idf := range s.idf {
		n := m.counts[t]
		gain := idf * n * (bm25K + 1) / (n + bm25K*(1-bm25B+bm25B*long))
		if !clause[t] {
			sum += otherClause * gain
			continue
		}
		all += idf
		covered += idf * min(n, 1)
		sum += gain
	}
	if covered == 0 {
		return 0
	}
	recent := recentOthers
	if m.user {
		recent = recentUser
	}
	return sum * covered / all * m.weight * (1 + recent*float64(m.order)/float64(s.passages))
}

// shares returns for each term how much of the clause it covers in the passage.
func (s scale) shares(m match, clause map[int]bool) []float64 {
	all := 0.0
	for t, idf := range s.idf {
		if clause[t] {
			all += idf
		}
	}
	out := make([]float64, len(s.idf))
	for t, idf := range s.idf {
		if clause[t] {
			out[t] = idf * min(m.counts[t], 1) / all
		}
	}
	return out
}

// normal is a text without regard to case and spaces.
func normal(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }

// unseen returns the words of the question, as the user wrote them, of which no
// part was seen.
func unseen(question string, q *query, seen []int) []string {
	var out []string
	for field := range strings.FieldsFuncSeq(question, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",;:!?\"“”‘’()[]{}<>，。；：！？、「」『』（）`", r)
	}) {
		field = strings.Trim(field, ".'*-/")
		wanted, got := false, false
		words(field, func(w []byte) {
			h, is := q.terms[string(w)]
			wanted = wanted || is && h.n == 1
			got = got || is && seen[h.term] > 0
		})
		if wanted && !got && !slices.Contains(out, field) {
			out = append(out, field)
		}
	}
	return out
}
