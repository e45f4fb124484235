package threads_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// P081: usage that is missing or zero is an estimate, and the trigger fires all the
// same.
func TestAProviderThatCountsNothingIsEstimated(t *testing.T) {
	p := newPlayer(20_000)
	p.play = func(*player, adapters.Request) played { return played{text: big("a", 6_000), usage: &adapters.Usage{}} }
	b := playing(t, p)
	id := b.create()
	for range 4 {
		b.played(id, "go")
	}
	b.settle(id)
	if recs := b.records(id); len(recs) == 0 || *recs[0].Outcome != compaction.Completed {
		t.Errorf("compactions: %s", outcomes(recs))
	}
	for _, u := range b.usages(id) {
		if u.Source == compaction.SourceProvider {
			t.Errorf("zeros count as the provider's: %+v", u)
		}
		if u.Source == compaction.SourceEstimate && u.Context < 100 {
			t.Errorf("the estimate is %+v", u)
		}
	}
}

// usages returns the reports of a thread.
func (b *bench) usages(id transcript.ThreadID) []threads.UsageUpdated {
	b.t.Helper()
	var out []threads.UsageUpdated
	for _, p := range b.payloads(id) {
		if u, ok := p.(threads.UsageUpdated); ok {
			out = append(out, u)
		}
	}
	return out
}

// P083: without a known window the cap of the policy counts.
func TestAnUnknownWindowHasACap(t *testing.T) {
	p := newPlayer(0).answering(big("a", 30_000))
	b := playing(t, p, func(c *threads.Config) { c.Policy.Cap = 50_000 })
	id := b.create()
	b.played(id, "one")
	b.settle(id)
	b.wantOutcomes(id, "")
	b.played(id, "two")
	b.settle(id)
	b.wantOutcomes(id, "postTurn completed")
	if rec := b.records(id)[0]; rec.Before.Window != nil {
		t.Errorf("the window is %d, want it unknown", *rec.Before.Window)
	}
}

// P085: the base is part of the occupancy: 50 tools of 500 tokens are 25,000.
func TestToolsCountForTheLine(t *testing.T) {
	base := func(tools int) adapters.Base {
		var bs adapters.Base
		for range tools {
			bs.Tools = append(bs.Tools, adapters.ToolSpec{Name: "t", Description: strings.Repeat("text ", 400), Schema: []byte(`{}`)})
		}
		return bs
	}
	for tools, want := range map[int]string{0: "", 50: "postTurn completed"} {
		p := newPlayer(60_000)
		p.base = base(tools)
		p.play = func(*player, adapters.Request) played {
			return played{text: big("a", 14_000), usage: &adapters.Usage{}} // nothing but the estimate knows
		}
		b := playing(t, p)
		id := b.create()
		b.played(id, "one")
		b.played(id, "two")
		b.settle(id)
		b.wantOutcomes(id, want)
	}
}

// P093: the window is the model's, not a constant.
func TestTheWindowIsTheModels(t *testing.T) {
	for _, c := range []struct {
		window, size int
		want         string
	}{{1_000_000, 300_000, ""}, {32_000, 28_000, "postTurn completed"}} {
		b := playing(t, newPlayer(c.window).answering(big("a", c.size)))
		id := b.create()
		b.played(id, "go")
		b.settle(id)
		b.wantOutcomes(id, c.want)
	}
}

// P003: limits that contradict each other leave half of the window.
func TestAnOutputLimitAsLargeAsTheWindowIsNoLoop(t *testing.T) {
	for _, info := range []adapters.ModelInfo{{ID: "m", ContextWindow: 40_000, MaxOutput: 64_000}, {ID: "m", ContextWindow: 8_192, MaxOutput: 8_192}} {
		p := newPlayer(0).answering("hello")
		p.infos = []adapters.ModelInfo{info}
		b := playing(t, p)
		id := b.create()
		b.played(id, "hi")
		b.settle(id)
		if turns, _ := p.requests(); len(turns) != 1 {
			t.Errorf("%+v: %d requests, want 1", info, len(turns))
		}
		b.wantOutcomes(id, "")
	}
}

// P001: what no compaction can shrink is said once and asks nobody.
func TestABaseOverTheLineIsToldOnce(t *testing.T) {
	p := newPlayer(20_000).answering("ok")
	p.unfit = nil
	p.base = adapters.Base{System: strings.Repeat("rule ", 18_000*4/5)}
	b := playing(t, p)
	id := b.create()
	for range 5 {
		if turn := b.played(id, "go"); turn.Status != transcript.TurnCompleted {
			t.Errorf("the turn is %s", mustJSON(t, turn))
		}
		b.settle(id)
	}
	b.wantOutcomes(id, "postTurn unchanged(overheadExceedsBudget)")
	if _, writers := p.requests(); len(writers) != 0 {
		t.Errorf("%d requests to a writer, want none", len(writers))
	}
	if n := strings.Count(b.log(id), "\nwarning"); n != 1 {
		t.Errorf("%d warnings, want 1\n%s", n, b.log(id))
	}
}

// P007, P012, P023: what did not help is not tried again before the context grew, and
// is told once.
func TestWhatDidNotHelpWaitsUntilTheContextGrew(t *testing.T) {
	huge := big("prompt", 17_500)
	p := newPlayer(20_000).answering("short")
	b := playing(t, p)
	id := b.create()
	b.played(id, huge) // the last request alone is over the line
	for range 4 {
		b.played(id, "and")
		b.settle(id)
	}
	recs := b.records(id)
	if len(recs) > 3 {
		t.Errorf("%d compactions: %s", len(recs), outcomes(recs))
	}
	for i, r := range recs {
		if *r.Outcome == compaction.Completed && r.Before.Tokens-r.After.Tokens < 400 {
			t.Errorf("compaction %d saved %d tokens and is called completed", i, r.Before.Tokens-r.After.Tokens)
		}
	}
}

// The ratio that a provider's counts have to the estimates scales what was added
// since.
func TestEstimatesAreScaledByWhatTheProviderCounted(t *testing.T) {
	p := newPlayer(100_000)
	p.play = func(_ *player, req adapters.Request) played {
		text := big("a", 8_000)
		u := (&request{Request: req}).usage(text) // this tokenizer needs twice as many
		u.InputTokens, u.OutputTokens = 2*u.InputTokens, 2*u.OutputTokens
		return played{text: text, usage: &u}
	}
	b := playing(t, p)
	id := b.create()
	for range 6 {
		b.played(id, "go")
		b.settle(id)
	}
	recs := b.records(id)
	if len(recs) != 1 || *recs[0].Outcome != compaction.Completed {
		t.Fatalf("compactions: %s", outcomes(recs))
	}
	r := recs[0]
	if r.Ruler != compaction.RulerMeter || r.Before.Source != compaction.SourceEstimate || r.Before.Tokens < 85_000 || r.Before.Tokens > 105_000 {
		t.Errorf("record %s", mustJSON(t, r))
	}
	for _, u := range b.usages(id) {
		if u.Source == compaction.SourceProvider && u.Last.InputTokens > 0 && (u.Model != "player/m" || u.Estimate <= 0) {
			t.Errorf("a report without what was estimated: %+v", u)
		}
	}
}
