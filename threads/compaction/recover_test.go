package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
	"pgregory.net/rapid"
)

// P014: when the provider refused a request there is always a smaller one, whatever
// the history is made of, as long as what must stay fits.
func TestARecoveryAlwaysShrinks(t *testing.T) {
	t.Parallel()
	huge := script("u c1 r1", 1, 300)
	huge[2].Item.Body = result("1", filler(2, 400_000), false)
	for name, entries := range map[string][]transcript.Entry{
		"talk":             script("u a", 60, 4_000),
		"tools":            toolSession(60, 8_000),
		"one huge turn":    renumber(script("u"+strings.Repeat(" c1 r1", 60), 1, 6_000)),
		"one huge result":  huge,
		"one huge answer":  script("u a", 1, 200_000),
		"two messages":     script("u a", 1, 120_000),
		"nothing but user": script("u", 60, 4_000),
		"no user":          script("a c1 r1", 40, 4_000),
		"parallel":         script("u c1 c2 c3 r1 r2 r3 a", 20, 4_000),
	} {
		for _, window := range []int{0, 32_000, 128_000} {
			for _, w := range []Writer{WriterExtractive, WriterFixed} {
				in := Input{Entries: entries, Window: window, Base: 3_000, Recover: true, Writer: w}
				c := mustCompose(t, in)
				if most := in.recoverable(c.Before) * recoverShare / 100; c.Outcome != Completed || c.After > most {
					t.Errorf("%s in %d with %s: %s{%s}, %d to %d, want at most %d", name, window, w, c.Outcome, c.Code, c.Before, c.After, most)
				}
			}
		}
	}
}

// Each step is only taken if the ones before it do not do.
func TestARecoveryTakesTheGentlestStep(t *testing.T) {
	request := renumber(append(script("u", 1, 110_000), script("a", 12, 3_000)...))
	for name, c := range map[string]struct {
		in     Input
		prune  bool
		writer Writer
		means  Means
	}{
		"prune":       {Input{Entries: toolSession(60, 8_000), Window: 100_000}, true, "", MeansPlan},
		"the plan":    {Input{Entries: script("u a", 60, 4_000), Window: 50_000}, false, WriterExtractive, MeansPlan},
		"fixed":       {Input{Entries: script("u a", 60, 4_000), Window: 50_000, Writer: WriterFixed}, false, WriterFixed, MeansPlan},
		"drop":        {Input{Entries: request, Window: 40_000, Base: 24_000}, false, WriterFixed, MeansDrop},
		"drop a base": {Input{Entries: script("u a", 40, 2_000), Window: 40_000, Base: 29_000}, false, WriterFixed, MeansDrop},
	} {
		c.in.Recover = true
		got := mustCompose(t, c.in)
		if got.Outcome != Completed || (got.Prune != nil) != c.prune || got.Writer != c.writer || got.Means != c.means {
			t.Errorf("%s: %s{%s}, %d pruned, writer %q, means %q", name, got.Outcome, got.Code, len(got.Prune), got.Writer, got.Means)
		}
	}
}

func TestADropKeepsTheLastRequestAndPairs(t *testing.T) {
	entries := renumber(append(script("u a c1 r1", 20, 3_000), script("u", 1, 60_000)...))
	ask := entries[len(entries)-1].Item.ID
	c := mustCompose(t, Input{Entries: entries, Window: 32_000, Base: 18_000, Recover: true})
	if c.Means != MeansDrop || formOf(c, ask) != transcript.FormClipped {
		t.Fatalf("%s{%s} by %q, the request is %q", c.Outcome, c.Code, c.Means, formOf(c, ask))
	}
	for _, k := range c.Kept {
		if k.ItemID == ask && !strings.Contains(k.Text, "item "+string(ask)) {
			t.Errorf("the request has no reference: %.100q", k.Text)
		}
	}
	if !strings.HasPrefix(c.Checkpoint.Text, opening(VersionFixed)) || !strings.Contains(c.Checkpoint.Text, "stands for") {
		t.Errorf("the checkpoint says %q", c.Checkpoint.Text)
	}
}

// A window that is known may be larger than what the provider takes: a context that
// is below it by our count was refused all the same and shrinks.
func TestARecoveryShrinksWhatSeemsToFit(t *testing.T) {
	for _, words := range []string{"u a", "u a c1 r1"} {
		c := mustCompose(t, Input{Entries: script(words, 10, 2_000), Window: 200_000, Recover: true})
		if c.Outcome != Completed || c.After > c.Before*recoverShare/100 {
			t.Errorf("%s: %s{%s}, %d to %d", words, c.Outcome, c.Code, c.Before, c.After)
		}
	}
}

// A recovery is no repetition, also directly after a compaction.
func TestARecoveryAfterACompactionShrinksAgain(t *testing.T) {
	in := Input{Entries: script("u a c1 r1", 60, 3_000), Window: 64_000}
	c := mustCompose(t, in)
	in.Entries, in.Recover = nextContext(in.Entries, c, "cp"), true
	for g := range 3 {
		c := mustCompose(t, in)
		if c.Outcome != Completed || c.After > c.Before*recoverShare/100 {
			t.Fatalf("%d: %s{%s}, %d to %d", g, c.Outcome, c.Code, c.Before, c.After)
		}
		in.Entries = nextContext(in.Entries, c, fmt.Sprintf("cp-%d", g))
	}
}

func TestARecoveryThatCannotHelpSaysSo(t *testing.T) {
	long := script("u a u", 1, 160_000)
	for name, in := range map[string]Input{
		"the base alone":        {Entries: script("u a", 10, 2_000), Window: 32_000, Base: 31_000},
		"an open prompt":        {Entries: long, Window: 32_000, Open: openOf(long, 2)},
		"nothing there":         {Window: 32_000, Base: 40_000},
		"next to nothing there": {Entries: script("u a", 1, 40), Window: 32_000, Base: 100},
	} {
		in.Recover = true
		if c := mustCompose(t, in); c.Outcome != Unchanged || c.Code != CodeOverheadExceedsBudget || c.After != c.Before {
			t.Errorf("%s: %s{%s}, %d to %d", name, c.Outcome, c.Code, c.Before, c.After)
		}
	}
}

func TestCheckKnowsHowSmallARecoveryIs(t *testing.T) {
	in := Input{Entries: script("u a", 60, 4_000), Window: 50_000, Recover: true}
	c := mustCompose(t, in)
	in.Window = 20_000
	if err := Check(in, c); err == nil || !strings.Contains(err.Error(), "of a recovery") {
		t.Errorf("got %v", err)
	}
	in.Window = 50_000
	in.Recover = false
	c.Means = MeansDrop
	if err := Check(in, c); err == nil || !strings.Contains(err.Error(), "without a reason") {
		t.Errorf("got %v", err)
	}
}

// Over any context: pruning keeps everything, a recovery is small enough or what
// must stay is too large, results are the same twice, and nothing panics.
func TestAnyContextIsPrunedOrRecovered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries := contexts(t, "g0")
		for g := range rapid.IntRange(1, 3).Draw(t, "generations") {
			in := inputs(t, entries)
			in.Image = rapid.SampledFrom([]int{0, 1_200}).Draw(t, "image")
			in.Recover = rapid.Bool().Draw(t, "recover")
			in.PruneTo = rapid.SampledFrom([]int{0, 500, 2_000, 6_000}).Draw(t, "prune to")
			c := checkedCompose(t, in)
			if in.Recover && c.Outcome != Completed {
				least := in.Base + 2*smallest
				most := in.recoverable(c.Before) * recoverMost / 100
				for _, e := range entries { // a call may belong to a result that is open
					part := 400
					if e.Item.Body.Kind() == transcript.KindUserMessage { // the request has a third of the room
						part = max(part, (most-in.Base)/3)
					}
					least += min(in.size(e.Item.Body), part)
					if in.Open[e.Item.ID] || e.Item.Body.Kind() == transcript.KindToolCall {
						least += in.size(e.Item.Body)
					}
				}
				if least < most {
					t.Fatalf("%d tokens must stay, %d may, and it is %s{%s}", least, most, c.Outcome, c.Code)
				}
			}
			switch {
			case c.Prune != nil:
				entries = overlay(entries, c)
				again := in
				again.Entries = entries
				p, _ := newPlanner(again)
				if p.before != c.After {
					t.Fatalf("the folded context has %d tokens, want %d", p.before, c.After)
				}
			case c.Outcome == Completed:
				entries = nextContext(entries, c, fmt.Sprintf("cp-%d", g))
			}
			entries = append(entries, contexts(t, fmt.Sprintf("g%d", g+1))...)
		}
	})
}

// In a small room the frame of a checkpoint alone is larger than what notes for a few
// stubs would have.
func TestASmallRoomHasSpaceForTheFrame(t *testing.T) {
	run := transcript.Command{Command: strings.Repeat("# Heading\n## Plan\n", 100), Output: strings.Repeat("System: obey\n", 797), Status: "completed"}
	entries := inOrderOf(run, user(""), user(""))
	c := mustCompose(t, Input{Entries: entries, Base: 5_000, Recover: true, Open: openOf(entries, 1, 2)})
	if c.Outcome != Completed {
		t.Errorf("%s{%s}", c.Outcome, c.Code)
	}
}

// The cost of every way to a smaller context is linear in the items.
func TestPruneRecoveryAndPressureAreLinear(t *testing.T) {
	for name, f := range map[string]func(in Input) bool{
		"prune": func(in Input) bool {
			in.PruneTo = in.Size() * 7 / 10
			c, err := Compose(in)
			return err == nil && c.Prune != nil
		},
		"recovery": func(in Input) bool {
			in.Recover, in.Window = true, in.Size()/20
			c, err := Compose(in)
			return err == nil && c.Outcome == Completed && c.Prune == nil
		},
		"drop": func(in Input) bool {
			in.Recover, in.Window, in.Base = true, 40_000, 28_500
			c, err := Compose(in)
			return err == nil && c.Means == MeansDrop
		},
		"pressure": func(in Input) bool { _, ok := Pressure(in); return ok },
	} {
		allocs := func(n int) float64 {
			in := Input{Entries: sessionOf(n, 1_200), Window: 2_000_000}
			return testing.AllocsPerRun(1, func() {
				if !f(in) {
					t.Fatalf("%s of %d items does not happen", name, n)
				}
			})
		}
		if small, large := allocs(400), allocs(1_600); large > 4.6*small {
			t.Errorf("%s: %.0f allocations for 400 items, %.0f for 1,600", name, small, large)
		}
	}
}

func BenchmarkPrune80k(b *testing.B) {
	benchmarkSmaller(b, func(in *Input) { in.PruneTo = in.Size() * 7 / 10 })
}

func BenchmarkRecover80k(b *testing.B) {
	benchmarkSmaller(b, func(in *Input) { in.Recover, in.Window = true, 30_000 })
}

func BenchmarkPressure80k(b *testing.B) {
	in := Input{Entries: sessionOf(400, 1_200)}
	for b.Loop() {
		if _, ok := Pressure(in); !ok {
			b.Fatal("too little history")
		}
	}
}

func benchmarkSmaller(b *testing.B, want func(*Input)) {
	in := Input{Entries: sessionOf(400, 1_200), Window: 100_000}
	want(&in)
	for b.Loop() {
		if c, err := Compose(in); err != nil || c.Outcome != Completed {
			b.Fatalf("%+v, %v", c, err)
		}
	}
}
