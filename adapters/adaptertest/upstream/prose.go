package upstream

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// words are what prose is made of.
var words = strings.Fields(`the a this that each one another small large first second steady quiet careful
	harbour vessel cargo ledger signal engine hull tide anchor compass lantern bridge crew deck chart
	weighs carries follows measures keeps marks turns holds reads writes counts moves loads clears
	before after under over beside along toward between without again slowly always often near`)

// prose returns n characters of text, the same for the same seed. It reads like
// sentences, so that it counts like them.
func prose(n int, seed string) string {
	h := fnv.New64a()
	h.Write([]byte(seed))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	var b strings.Builder
	b.Grow(n + 16)
	for left := 0; b.Len() < n; left-- {
		w := words[r.IntN(len(words))]
		if left == 0 {
			left = 6 + r.IntN(9)
			if b.Len() > 0 {
				b.WriteString(". ")
			}
			w = strings.ToUpper(w[:1]) + w[1:]
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()[:n]
}

// split cuts a text into pieces of n characters; 0: one piece.
func split(s string, n int) []string {
	if n == 0 || s == "" {
		return []string{s}
	}
	var out []string
	for len(s) > 0 {
		end := 0
		for i := 0; i < n && end < len(s); i++ {
			_, size := utf8.DecodeRuneInString(s[end:])
			end += size
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out
}

// tokens is how this server counts: four characters make one.
func tokens(s string) int { return (utf8.RuneCountInString(s) + 3) / 4 }
