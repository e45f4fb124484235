package compaction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// sessionOf builds a context like those of coding agents: of every ten items six
// are calls and results, and results hold two thirds of the text.
func sessionOf(items, chars int) []transcript.Entry {
	entries := make([]transcript.Entry, 0, items)
	turn := 0
	for i := 0; len(entries) < items; i++ {
		if i%4 == 0 {
			turn++
			entries = append(entries, withID(fmt.Sprintf("u%d", i), turn, transcript.UserMessage{Content: transcript.TextParts("Please fix " + filler(i, 80))}))
		}
		id := transcript.CallID(fmt.Sprint(i))
		args := fmt.Sprintf(`{"file_path":"/code/app/pkg%d/file%d.go","old_string":%q,"new_string":%q}`, i%7, i%50, filler(i, chars/4), "func Do() {\n"+filler(i, chars/4))
		name := []string{"Read", "Edit", "Bash"}[i%3]
		if name == "Bash" {
			args = fmt.Sprintf(`{"command":"go test ./pkg%d/..."}`, i%7)
		}
		entries = append(entries,
			withID(fmt.Sprintf("t%d", i), turn, transcript.Reasoning{Text: filler(i, chars/3)}),
			withID(fmt.Sprintf("c%d", i), turn, transcript.ToolCall{CallID: id, Name: name, Arguments: transcript.RawJSON(args)}),
			withID(fmt.Sprintf("r%d", i), turn, transcript.ToolResult{CallID: id, Output: transcript.TextParts(filler(i, 2*chars))}),
			withID(fmt.Sprintf("a%d", i), turn, transcript.AgentMessage{Text: filler(i, chars/4)}))
	}
	return entries[:items]
}

func tokensIn(entries []transcript.Entry) int {
	sum := 0
	for _, e := range entries {
		sum += transcript.Tokens(e.Item.Body)
	}
	return sum
}

// benchmarkCompose reports the 95th percentile beside the mean.
func benchmarkCompose(b *testing.B, in Input) {
	b.ReportMetric(float64(tokensIn(in.Entries)), "tokens")
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if c, err := Compose(in); err != nil || c.Outcome != Completed {
			b.Fatalf("%+v, %v", c, err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
	b.ReportMetric(float64(tokensIn(in.Entries)), "tokens")
}

func BenchmarkCompose80k(b *testing.B) {
	for _, w := range []Writer{WriterExtractive, WriterFixed} {
		for _, budget := range []int{8_000, 24_000} {
			b.Run(fmt.Sprintf("%s/%d", w, budget), func(b *testing.B) {
				benchmarkCompose(b, Input{Entries: sessionOf(400, 1_200), Budget: budget, Writer: w})
			})
		}
	}
}

func BenchmarkCompose2000Turns(b *testing.B) {
	benchmarkCompose(b, Input{Entries: script("u c1 r1 a", 2_000, 400), Window: 200_000})
}

func BenchmarkComposeItems(b *testing.B) {
	for _, n := range []int{2_500, 5_000, 10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchmarkCompose(b, Input{Entries: sessionOf(n, 400), Window: 200_000})
		})
	}
}

func BenchmarkCheck80k(b *testing.B) {
	in := Input{Entries: sessionOf(400, 1_200), Budget: 24_000}
	c, err := Compose(in)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Check(in, c); err != nil {
			b.Fatal(err)
		}
	}
}

// Cost is linear in the items: four times the items may cost little more than
// four times the allocations, which unlike time are the same on every machine.
func TestCostIsLinearInTheItems(t *testing.T) {
	allocs := func(n int) float64 {
		in := Input{Entries: sessionOf(n, 400), Window: 200_000}
		return testing.AllocsPerRun(1, func() {
			c, err := Compose(in)
			if err == nil {
				err = Check(in, c)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large := allocs(2_500), allocs(10_000)
	if large > 4.6*small {
		t.Errorf("%.0f allocations for 2,500 items, %.0f for 10,000", small, large)
	}
}

// BenchmarkModelCheckpoint80k is what a checkpoint with the notes of a model costs
// beside the time of the model.
func BenchmarkModelCheckpoint80k(b *testing.B) {
	in := Input{Entries: sessionOf(800, 500), Window: 64_000}
	for b.Loop() {
		p := &pen{replies: []reply{honest}}
		job := modelJob(p)
		job.Input = in
		if v := Run(b.Context(), job); v.Writer != WriterModel {
			b.Fatalf("%s by %s, skipped %v", v.Outcome, v.Writer, v.Skipped)
		}
	}
	b.ReportMetric(float64(tokensIn(in.Entries)), "tokens")
}
