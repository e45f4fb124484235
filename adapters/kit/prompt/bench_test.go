package prompt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// BenchmarkPrepare prepares the request of a context of 80,000 tokens.
func BenchmarkPrepare(b *testing.B) {
	var in []transcript.Entry
	for i := range 100 {
		id := fmt.Sprintf("call_%d", i)
		in = append(in, entries(asks(strings.Repeat("please ", 20)), calls(id, `{"path":"a.go"}`), returns(id, strings.Repeat("a line of some file\n", 140)), transcript.AgentMessage{Text: strings.Repeat("done ", 40)})...)
	}
	in = append(in, entry(asks("and now?")))
	o := prompt.Options{Rules: prompt.Rules{IDs: prompt.Ident{Min: 9, Max: 9, Chars: prompt.Alnum}, MaxBytes: 1 << 30}}
	size := 0
	for _, e := range in {
		size += transcript.Tokens(e.Item.Body)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, found := prompt.Prepare(systemText, in, o); len(found) > 0 {
			b.Fatal(found)
		}
	}
	b.ReportMetric(float64(size), "tokens")
}
