package compaction

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
	"pgregory.net/rapid"
)

// prose is a text that the estimator takes for n tokens, about.
func prose(n int) string { return strings.Repeat("some words ", n/2) }

func tokensAt(t *testing.T, m Meter, all, want int, source string) {
	t.Helper()
	if got, s := m.Tokens("m", all); got != want || s != source {
		t.Errorf("%d tokens (%s), want %d (%s)", got, s, want, source)
	}
}

// P078, P079, F21: the provider's own sum of what it read, cached or not, and what it
// wrote is the size; the estimate of the same request is no part of it.
func TestWhatTheProviderCountedIsTheSize(t *testing.T) {
	for _, c := range []struct {
		name                string
		input, output, want int
	}{
		{"OpenAI: cached is inside of input", 184_704, 49, 184_753},
		{"Anthropic: 3 + 90,000 read + 5,000 written", 95_003, 200, 95_203},
		{"llama.cpp: the cache is inside", 38_196, 0, 38_196},
	} {
		var m Meter
		m.Report("m", c.input, c.output, 50_000)
		tokensAt(t, m, 50_000, c.want, SourceProvider)
	}
}

// P081, F22: zeros and what is missing are no report, the first time and later.
func TestZerosAreNoReport(t *testing.T) {
	var m Meter
	m.Report("m", 0, 0, 700)
	m.Report("m", 0, 30, 700)
	m.Report("m", -1, -1, 700)
	if m != (Meter{}) {
		t.Errorf("zeros leave %+v", m)
	}
	tokensAt(t, m, 700, 700, SourceEstimate)
	m.Report("m", 1_000, 100, 1_000)
	m.Add(user(prose(100)))
	was := m
	m.Report("m", 0, 50, 1_200)
	if m != was {
		t.Errorf("zeros changed %+v to %+v", was, m)
	}
}

// What the agent wrote is in the count of its answer, whether it is told before the
// count or after it; what anybody else adds is not.
func TestNothingIsCountedTwice(t *testing.T) {
	answer := []transcript.Body{transcript.Reasoning{Text: prose(60)}, transcript.AgentMessage{Text: prose(80)}, call("1", "bash", `{"command":"make"}`)}
	output := result("1", prose(90), false)
	for _, usageFirst := range []bool{true, false} {
		var m Meter
		report := func() { m.Report("m", 1_000, 200, 1_000) }
		if usageFirst {
			report()
		}
		for _, b := range answer {
			m.Add(b)
		}
		if !usageFirst {
			report()
		}
		tokensAt(t, m, 0, 1_200, SourceProvider)
		m.Add(output)
		want := 1_200 + transcript.Estimate(output)
		tokensAt(t, m, 0, want, SourceEstimate)
		// The next answer is counted by nobody yet.
		for _, b := range answer {
			m.Add(b)
			want += transcript.Estimate(b)
		}
		tokensAt(t, m, 0, want, SourceEstimate)
		report()
		tokensAt(t, m, 0, 1_200, SourceProvider)
	}
}

// P008: after a boundary nothing that was counted before says anything about the
// size; what was learned of the ratio stays.
func TestAfterABoundaryTheSizeIsAnEstimate(t *testing.T) {
	var m Meter
	m.Report("m", 180_000, 500, 90_000)
	m.Forget()
	tokensAt(t, m, 10_000, 20_000, SourceEstimate)
	m.Add(transcript.AgentMessage{Text: prose(100)}) // an answer that nobody counted
	tokensAt(t, m, 10_100, 20_200, SourceEstimate)
	m.Report("m", 21_000, 10, 10_500)
	tokensAt(t, m, 10_500, 21_010, SourceProvider)
}

func TestAnotherModelCountsAnew(t *testing.T) {
	var m Meter
	m.Report("m", 3_000, 0, 1_000)
	if n, s := m.Tokens("other", 1_000); n != 1_000 || s != SourceEstimate {
		t.Errorf("another model has %d tokens (%s)", n, s)
	}
	m.Report("other", 500, 0, 1_000)
	if n, _ := m.Tokens("other", 400); n != 500 || m.Ratio != 0.5 {
		t.Errorf("%d tokens, ratio %v", n, m.Ratio)
	}
	m.Forget()
	if n, _ := m.Tokens("m", 1_000); n != 1_000 {
		t.Errorf("the first model is remembered: %d tokens", n)
	}
	m.Report("third", 800, 0, 0) // of a request that nobody estimated
	m.Forget()
	if n, _ := m.Tokens("third", 1_000); n != 1_000 {
		t.Errorf("the ratio of another model is used: %d tokens", n)
	}
}

func TestTheRatioFollowsWithinBounds(t *testing.T) {
	var m Meter
	m.Report("m", 2_000, 0, 1_000)
	if m.Ratio != 2 {
		t.Fatalf("the first count gives %v", m.Ratio)
	}
	for range 20 {
		m.Report("m", 1_000, 0, 1_000)
	}
	if m.Ratio < 1 || m.Ratio > 1.01 {
		t.Errorf("after twenty counts the ratio is %v", m.Ratio)
	}
	m.Report("x", 1, 0, 1_000_000)
	if m.Ratio != ratioMin {
		t.Errorf("an absurd count gives %v", m.Ratio)
	}
	m.Report("y", 1_000_000, 0, 1)
	if m.Ratio != ratioMax {
		t.Errorf("an absurd count gives %v", m.Ratio)
	}
}

func TestScalesAreOneWhereRulersOnlyDiffer(t *testing.T) {
	for _, c := range []struct {
		tokens, units int
		counted       bool
		want          Scale
	}{
		{1_000, 1_000, true, 1},
		{1_040, 1_000, true, 1},
		{960, 1_000, true, 1},
		{1_500, 1_000, true, 1.5},
		{800, 1_000, true, 0.8},
		{1_200, 1_000, false, 1},
		{500, 1_000, false, 1},
		{3_600, 1_000, false, 3.6},
		{0, 1_000, true, 1},
		{1_000, 0, true, 1},
		{-5, 10, true, 1},
		{1, 1_000_000, true, ratioMin},
		{1_000_000, 1, true, 2 * ratioMax},
	} {
		if got := NewScale(c.tokens, c.units, c.counted); got != c.want {
			t.Errorf("NewScale(%d, %d, %t) = %v, want %v", c.tokens, c.units, c.counted, got, c.want)
		}
	}
	if Scale(0).Tokens(7) != 7 || Scale(0).Units(7) != 7 || Scale(0).Ruler() != transcript.Ruler || Scale(2).Ruler() != RulerMeter {
		t.Error("the zero scale is not 1")
	}
}

// Whatever happens the size is never negative, never smaller than the last count,
// and the ratio stays in its bounds.
func TestAMeterOverAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		counted := 0
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				in, out := rapid.IntRange(-5, 300_000).Draw(t, "input"), rapid.IntRange(-5, 9_000).Draw(t, "output")
				m.Report("m", in, out, rapid.IntRange(-5, 300_000).Draw(t, "estimate"))
				if in > 0 {
					counted = in + max(out, 0)
				}
			case 1:
				m.Add(bodies(t))
			case 2:
				m.Forget()
				counted = 0
			}
			n, source := m.Tokens("m", rapid.IntRange(0, 300_000).Draw(t, "all"))
			if n < counted || source == SourceProvider && n != counted || counted == 0 && source == SourceProvider {
				t.Fatalf("%d tokens (%s) after a count of %d: %+v", n, source, counted, m)
			}
			if m.Ratio != 0 && (m.Ratio < ratioMin || m.Ratio > ratioMax) {
				t.Fatalf("ratio %v", m.Ratio)
			}
		}
	})
}
