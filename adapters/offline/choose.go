package offline

import "slices"

// What limits an answer besides its tokens.
const (
	maxQuotes    = 6    // passages, if the question has one clause
	maxOfClause  = 3    // passages of each of several clauses
	minScore     = 0.35 // of the best passage's score for the same clause
	minWorth     = 0.12 // the same after what the passage has in common with others
	minOfMany    = 0.3  // the same if the question has several clauses
	oldNews      = 0.5  // worth of a passage that covers no more of the clause than those before it
	sameWords    = 0.5  // share of common words from which on two lines of output say the same
	otherPart    = 0.25 // of the clause: what covers so much more of it is quoted whatever its score
	otherNumbers = 0.4  // how alike at most two sentences are that have different numbers
)

// A section is what an answer says to one clause.
type section struct {
	clause string
	quotes []match
	above  *match     // the best passage, if a section before quotes it
	plan   *plan      // if the clause asks for it
	steps  []planStep // of the plan, that were asked for
	more   int        // steps that there is no room for
}

// A chooser fills the sections of an answer with passages that say something new.
type chooser struct {
	ranked   [][]match // of each clause; what was looked at is taken off
	sections []section
	taken    []said
	each     int // passages of a section
}

func newChooser(q *query, ranked [][]match, now *plan) *chooser {
	c := &chooser{ranked: ranked, sections: make([]section, len(q.clauses)), each: maxOfClause}
	if len(q.clauses) == 1 {
		c.each = maxQuotes
	}
	for i, clause := range q.clauses {
		c.sections[i].clause = clause.text
		if now == nil || clause.plan == planNone {
			continue
		}
		c.sections[i].plan, c.ranked[i] = now, nil
		for _, s := range now.steps {
			if s.done == (clause.plan == planDone) {
				c.sections[i].steps = append(c.sections[i].steps, s)
				c.taken = append(c.taken, newSaid(s.text, now.from, true))
			}
		}
	}
	return c
}

// choose takes the best passages of each clause in turn, as long as they fit.
func (c *chooser) choose(fits func(match) bool) []section {
	for range c.each {
		for i := range c.sections {
			if m, found := c.next(i); found && fits(m) {
				c.sections[i].quotes = append(c.sections[i].quotes, m)
				c.taken = append(c.taken, m.said)
			}
		}
	}
	return c.sections
}

// next returns the passage that adds most to a section: relevant, covering what is
// not covered yet, and unlike those that were taken.
func (c *chooser) next(i int) (best match, found bool) {
	s := &c.sections[i]
	if len(c.ranked[i]) == 0 {
		return best, false
	}
	top := c.ranked[i][0].score
	if len(s.quotes) > 0 {
		top = max(top, s.quotes[0].score)
	}
	if s.above != nil {
		top = max(top, s.above.score)
	}
	chosen, most := -1, 0.0
	left := c.ranked[i][:0]
	for _, m := range c.ranked[i] {
		if t := slices.IndexFunc(c.taken, m.said.same); t >= 0 {
			if len(s.quotes) == 0 && s.above == nil && len(left) == 0 {
				m.from = c.taken[t].from
				s.above = &m
			}
			continue
		}
		if worth := c.worth(s, m, top); worth > most {
			chosen, most = len(left), worth
		}
		left = append(left, m)
	}
	c.ranked[i] = left
	if chosen < 0 {
		return best, false
	}
	best = left[chosen]
	c.ranked[i] = slices.Delete(left, chosen, chosen+1)
	return best, true
}

// worth is the score of a passage less what it repeats of the others of its
// section, or 0 if it is not worth quoting beside them. What covers another part of
// the clause may have a low score: the best passage can be about one part only.
func (c *chooser) worth(s *section, m match, top float64) float64 {
	others := s.quotes
	if s.above != nil {
		others = append([]match{*s.above}, others...)
	}
	if len(others) == 0 {
		return m.score
	}
	fresh, alike := 0.0, 0.0
	for t, share := range m.counts {
		most := 0.0
		for _, o := range others {
			most = max(most, o.counts[t])
		}
		fresh += max(share-most, 0)
	}
	for _, o := range others {
		alike = max(alike, m.said.like(o.said))
	}
	worth := m.score * (oldNews + (1-oldNews)*min(2*fresh, 1)) * (1 - alike)
	least := minWorth
	switch {
	case fresh >= otherPart:
	case m.score < minScore*top:
		return 0
	case len(c.sections) > 1:
		least = minOfMany
	}
	if worth < least*top {
		return 0
	}
	return worth
}

// said is what makes two passages the same.
type said struct {
	from  string
	words map[string]bool
	prose bool
}

func newSaid(text, from string, prose bool) said {
	s := said{from, map[string]bool{}, prose}
	words(text, func(w []byte) { s.words[string(w)] = true })
	return s
}

// same reports whether a passage has nothing that another one has not, or both are
// output with most words in common: a test that passed again, after another time.
func (s said) same(t said) bool {
	common := s.common(t)
	return common == min(len(s.words), len(t.words)) ||
		!s.prose && !t.prose && float64(common) > sameWords*float64(len(s.words)+len(t.words)-common)
}

// like says how alike two passages are, from 0 to 1. In prose another number is
// another fact.
func (s said) like(t said) float64 {
	common := s.common(t)
	alike := float64(common) / float64(max(len(s.words)+len(t.words)-common, 1))
	if s.prose && t.prose && s.numbers(t) {
		return min(alike, otherNumbers)
	}
	return alike
}

func (s said) common(t said) int {
	n := 0
	for w := range s.words {
		if t.words[w] {
			n++
		}
	}
	return n
}

// numbers reports whether s has a number that t has not.
func (s said) numbers(t said) bool {
	for w := range s.words {
		if '0' <= w[0] && w[0] <= '9' && !t.words[w] {
			return true
		}
	}
	return false
}
