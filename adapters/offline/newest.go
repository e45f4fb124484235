package offline

import (
	"slices"
	"strings"
)

// Which of two statements of the user replaces the other: the later one, if it says
// something about as much of the clause as the earlier one, and either says that
// something changed or gives another value to the same word.
const (
	aboutAsMuch = 0.6 // of what the earlier one covers, if the later one speaks of a change
	otherValue  = 0.3 // the same, if the values differ
	valueWithin = 3   // words after which a number is no value of a word any more
)

// A claim is what a passage says about the words of a clause.
type claim struct {
	values map[int]string // the number after each term
	change bool           // it says that something is different now
}

// newestFirst moves the user's later statements before the earlier ones that they
// replace, and marks these.
func newestFirst(ranked []match, q *query, clause map[int]bool) {
	claims := make([]claim, len(ranked))
	var said []int // by the user, newest first
	for i := range ranked {
		if ranked[i].user && !ranked[i].asks {
			claims[i] = newClaim(ranked[i].text, q, clause)
			said = append(said, i)
		}
	}
	slices.SortFunc(said, func(a, b int) int { return ranked[b].order - ranked[a].order })
	moved := false
	for n, late := range said {
		for _, early := range said[n+1:] {
			if !replaces(&ranked[late], &ranked[early], claims[late], claims[early]) {
				continue
			}
			ranked[early].earlier = true
			if score := ranked[early].score; ranked[late].score <= score {
				ranked[late].score, moved = score*1.01, true
			}
		}
	}
	if moved {
		slices.SortStableFunc(ranked, byScore)
	}
}

func replaces(late, early *match, now, then claim) bool {
	common, all := 0.0, 0.0
	for t, share := range early.counts {
		common += min(share, late.counts[t])
		all += share
	}
	if now.change && common >= aboutAsMuch*all {
		return true
	}
	for t, value := range then.values {
		if other := now.values[t]; other != "" && other != value {
			return common >= otherValue*all
		}
	}
	return false
}

// newClaim reads the number after each term of a clause, the first one if there are
// several, and whether there is a word of change.
func newClaim(text string, q *query, clause map[int]bool) claim {
	c := claim{values: map[int]string{}}
	open := map[int]int{} // terms that wait for a value, and for how many words
	first := true
	words(text, func(w []byte) {
		if w[0] >= '0' && w[0] <= '9' {
			for t := range open {
				c.values[t] = string(w)
			}
			clear(open)
		}
		for t := range open {
			if open[t]--; open[t] == 0 {
				delete(open, t)
			}
		}
		if h, is := q.terms[string(w)]; is && clause[h.term] && c.values[h.term] == "" {
			open[h.term] = valueWithin
		}
		c.change = c.change || changeWords[string(w)] && !first
		first = false
	})
	for _, w := range changePhrases {
		c.change = c.change || strings.Contains(text, w)
	}
	return c
}

// The words by which people say that something is different now. The first word of
// a message is none: "Now the tests." begins something new.
var (
	changeWords = stems(`now instead correction corrections corrected anymore supersedes superseded
		jetzt statt stattdessen nunmehr korrektur maintenant désormais plutôt ahora agora`)
	changePhrases = []string{
		"no longer", "not any more", "changed to", "changed from", "moved to", "nicht mehr", "ne plus", "ya no", "já não",
		"现在", "現在", "改成", "改为", "改為", "改用", "改到", "不再", "更正", "今は", "に変更", "代わりに",
	}
)
