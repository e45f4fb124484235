package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// pieces cuts s at the given places and returns what the part lets through.
func pieces(s string, cuts []byte) []string {
	p := &part{}
	var out []string
	for _, c := range cuts {
		n := min(int(c), len(s))
		out = append(out, p.whole(s[:n]))
		s = s[n:]
	}
	return append(out, p.whole(s), p.rest())
}

func TestTextSurvivesAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		cuts := rapid.SliceOf(rapid.ByteRange(0, 9)).Draw(t, "cuts")
		out := pieces(text, cuts)
		if got := strings.Join(out, ""); got != strings.ToValidUTF8(text, replacement) {
			t.Fatalf("pieces %q add up to %q, want %q", out, got, text)
		}
	})
}

func FuzzPart(f *testing.F) {
	f.Add("naïve 日本 🚢", []byte{1, 1, 1, 1, 2, 3})
	f.Add("\xff\xe6\x97", []byte{1, 1})
	f.Fuzz(func(t *testing.T, text string, cuts []byte) {
		out := pieces(text, cuts)
		for _, p := range out {
			if !utf8.ValidString(p) {
				t.Fatalf("piece %q of %q is not valid UTF-8", p, text)
			}
		}
		if utf8.ValidString(text) && strings.Join(out, "") != text {
			t.Fatalf("pieces %q of %q lost something", out, text)
		}
	})
}
