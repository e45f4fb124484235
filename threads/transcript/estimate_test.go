package transcript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// counted are the o200k and the cl100k counts of the texts in testdata/estimate,
// made with the npm package gpt-tokenizer 4.0.0.
var counted = map[string]struct{ o200k, cl100k int }{
	"arabic": {74, 174}, "base64": {1100, 1173}, "chinese": {110, 151}, "diff": {141, 141}, "emoji": {55, 67}, "english": {112, 112},
	"german": {84, 115}, "go": {212, 214}, "greek": {88, 224}, "hashes": {666, 662}, "hebrew": {82, 219}, "hindi": {74, 258},
	"japanese": {109, 146}, "json": {758, 688}, "json_indented": {658, 626}, "korean": {91, 146}, "log": {269, 269}, "portuguese": {86, 113},
	"python": {159, 157}, "russian": {89, 161}, "thai": {90, 200}, "traditional": {92, 136}, "typescript": {171, 166}, "urls": {352, 354},
	"uuids": {562, 561}, "vietnamese": {75, 135},
}

// The bounds: never more than a tenth below what the newer tokenizer counts, and
// never more than fifteen hundredths above the larger count of the two.
func TestEstimatesLieBetweenTokenizers(t *testing.T) {
	files, err := filepath.Glob("testdata/estimate/*.txt")
	if err != nil || len(files) != len(counted) {
		t.Fatalf("%d texts, %d counts: %v", len(files), len(counted), err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		n, c := EstimateText(string(b)), counted[name]
		if least, most := c.o200k*90/100, max(c.o200k, c.cl100k)*115/100; n < least || n > most {
			t.Errorf("%s: %d tokens, want %d to %d (o200k %d, cl100k %d)", name, n, least, most, c.o200k, c.cl100k)
		}
		t.Logf("%-14s %5d estimated, o200k %5d (%+.0f %%), chars/4 %d", name, n, c.o200k, 100*float64(n-c.o200k)/float64(c.o200k), utf8.RuneCount(b)/4)
	}
}

// F23, P084.
func TestEstimatesKnowScripts(t *testing.T) {
	english, err := os.ReadFile("testdata/estimate/english.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		text        string
		least, most int
	}{
		{"nothing", "", 0, 0},
		{"one letter", "a", 1, 1},
		{"1,000 Han", strings.Repeat("汉字编码测试文本样例", 100), 800, 1_000},
		{"1,000 Hangul", strings.Repeat("한국어문장을시험함다", 100), 650, 1_000},
		{"24 of Japanese", "このファイルを読んでから、テストを直してください", 20, 24},
		{"1,000 characters of prose", strings.Repeat(string(english), 2)[:1_000], 200, 275},
		{"the same letter", strings.Repeat("a", 1_000), 100, 300},
		{"a thousand blanks", strings.Repeat(" ", 1_000), 1, 30},
		{"a thousand line feeds", strings.Repeat("\n", 1_000), 1, 30},
		{"digits", strings.Repeat("7", 999), 333, 400},
		{"emoji", strings.Repeat("🎉", 100), 100, 300},
		{"no UTF-8", strings.Repeat("\xff", 100), 80, 300},
		{"a rune that ends early", "abc\xe6\xb1", 2, 6},
	} {
		if n := EstimateText(c.text); n < c.least || n > c.most {
			t.Errorf("%s: %d tokens, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}

// P086: an image costs what a model takes for it, whatever its bytes are.
func TestImagesHaveAPrice(t *testing.T) {
	text := UserMessage{Content: TextParts("see")}
	shot := UserMessage{Content: []Part{{Type: PartText, Text: "see"}, {Type: PartImage, Blob: "00", MediaType: "image/png"}, {Type: PartImage, Blob: "01", MediaType: "image/png"}}}
	if d := Estimate(shot) - Estimate(text); d < 2*ImageTokens || d > 2*ImageTokens+30 {
		t.Errorf("two images cost %d", d)
	}
	for _, b := range []Body{Image{Blob: "00"}, ToolResult{Output: []Part{{Type: PartImage, Blob: "00"}}}} {
		if n := Estimate(b); n < ImageTokens || n > ImageTokens+30 {
			t.Errorf("%s costs %d", b.Kind(), n)
		}
	}
	if Images(AgentMessage{Text: "[image image/png]"}) != 0 {
		t.Error("a text is an image")
	}
}

func estimable(t *rapid.T, label string) string {
	part := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z]{0,12}`), rapid.StringMatching(`[0-9A-Za-z+/]{0,80}`), rapid.StringMatching(`[ \t\n]{0,6}`),
		rapid.StringMatching(`[^a-z0-9]{0,9}`), rapid.StringMatching(`\p{Han}{0,9}`), rapid.StringMatching(`[à-ÿa-c]{0,9}`), rapid.String(),
		rapid.SampledFrom([]string{"camelCaseName", "HTTPServer", "\xff\xfe", "\xe6", "7", " 7", "...", "\r\n\t\t"}),
	)
	return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, label), "")
}

// The estimate of a text is that of its parts but for the seam, never negative,
// never less than a prefix has, and never absurd for its length.
func TestEstimatesAddUp(t *testing.T) {
	const seam = 5
	rapid.Check(t, func(t *rapid.T) {
		a, b := estimable(t, "a"), estimable(t, "b")
		x, y, both := EstimateText(a), EstimateText(b), EstimateText(a+b)
		if both < x+y-seam || both > x+y+seam {
			t.Fatalf("%q has %d, %q has %d, both have %d", a, x, b, y, both)
		}
		if both < x-1 {
			t.Fatalf("%q has %d, and with %q only %d", a, x, b, both)
		}
		if x < 0 || x > 3*len(a) || len(a) > 0 && x == 0 && strings.Trim(a, " ") != "" {
			t.Fatalf("%q has %d", a, x)
		}
	})
}

func FuzzEstimateText(f *testing.F) {
	for _, s := range []string{"", "a", "汉字", "\xff", "aB1 c", "é", "aé", "\xc3"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y, both := EstimateText(a), EstimateText(b), EstimateText(a+b)
		if x < 0 || x > 3*len(a) || both < x+y-5 || both > x+y+5 {
			t.Errorf("%q has %d, %q has %d, both have %d", a, x, b, y, both)
		}
	})
}

func TestEstimatesAllocateNothing(t *testing.T) {
	s := strings.Repeat("func ParseHeader(r io.Reader) error { return nil } // 解析 42\n", 100)
	if n := testing.AllocsPerRun(5, func() { EstimateText(s) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEstimateText(b *testing.B) {
	for _, name := range []string{"go", "english", "log", "base64", "chinese", "russian", "german"} {
		text, err := os.ReadFile("testdata/estimate/" + name + ".txt")
		if err != nil {
			b.Fatal(err)
		}
		s := strings.Repeat(string(text), 1+200_000/len(text))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				EstimateText(s)
			}
		})
	}
}
