package compaction

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const key = "model policy"

func TestAGateOpensOnlyOnItsCondition(t *testing.T) {
	var p Policy // of 100,000 the line is 85,000, armed again below 70,000, growth 5,000
	at := func(used, base int) Load { return Load{Used: used, Base: base, Window: 100_000} }
	for _, c := range []struct {
		name    string
		outcome Outcome
		code    string
		was     Load
		open    []Load
		shut    []Load
	}{
		{"completed", Completed, "", at(90_000, 0), []Load{at(90_000, 0)}, nil},
		{"failed", Failed, "writerFailed", at(90_000, 0), []Load{at(69_999, 0)}, []Load{at(70_000, 0), at(90_000, 0), at(99_000, 0)}},
		{"uncertain", Uncertain, "", at(90_000, 0), []Load{at(69_999, 0)}, []Load{at(70_000, 0), at(99_000, 0)}},
		{"failed on a large base", Failed, "", at(90_000, 51_000), []Load{at(78_999, 51_000)}, []Load{at(79_001, 51_000)}},
		{"no gain", Unchanged, CodeNoGain, at(90_000, 0), []Load{at(69_999, 0), at(95_000, 0)}, []Load{at(70_000, 0), at(90_000, 0), at(94_999, 0)}},
		{"nothing to compact", Unchanged, CodeNothingToCompact, at(90_000, 0), []Load{at(95_000, 0)}, []Load{at(94_999, 0)}},
		{"overhead", Unchanged, CodeOverheadExceedsBudget, at(95_000, 90_000), []Load{at(95_000, 84_999)}, []Load{at(95_000, 89_000), at(99_000, 90_000), at(90_500, 90_000)}},
		{"what must stay is too large", Unchanged, CodeOverheadExceedsBudget, at(90_000, 40_000), []Load{at(95_000, 40_000), at(90_000, 39_000)}, []Load{at(90_000, 40_000), at(94_999, 40_000), at(80_000, 40_001), at(99_000, 86_000)}},
		{"refused", Refused, "noNativeCompaction", at(90_000, 0), []Load{at(95_000, 0)}, []Load{at(94_999, 0)}},
		{"denied", Denied, "denied", at(90_000, 0), []Load{at(95_000, 0)}, []Load{at(94_999, 0)}},
		{"cancelled", Cancelled, "", at(90_000, 0), []Load{at(95_000, 0)}, []Load{at(94_999, 0)}},
		{"interrupted", Interrupted, "", at(90_000, 0), []Load{at(95_000, 0)}, []Load{at(94_999, 0)}},
		// Below the line a thread is compacted at rest, and after an overflow.
		{"no gain at rest", Unchanged, CodeNoGain, at(55_000, 0), []Load{at(60_000, 0), at(45_000, 0)}, []Load{at(55_000, 0), at(45_300, 0)}},
		{"failed at rest", Failed, "", at(55_000, 0), []Load{at(45_000, 0)}, []Load{at(55_000, 0), at(60_000, 0), at(45_300, 0)}},
		{"a base that was counted too large", Failed, "", at(20_000, 50_000), []Load{at(19_999, 50_000)}, []Load{at(20_000, 50_000)}},
	} {
		g := Gate{}.Ended(c.outcome, c.code, key, c.was)
		for _, l := range c.open {
			if m := g.Measured(p, l, key); !m.armed() || m.At != 0 || m.Base != 0 {
				t.Errorf("%s: at %+v the gate is %+v, want it open", c.name, l, m)
			}
		}
		for _, l := range c.shut {
			if m := g.Measured(p, l, key); m != g {
				t.Errorf("%s: at %+v the gate is %+v, want it shut", c.name, l, m)
			}
		}
		if other := g.Measured(p, c.was, "another"); !other.armed() || other.Failures != 0 {
			t.Errorf("%s: another model finds %+v", c.name, other)
		}
	}
}

func TestThreeFailuresInARowOpenTheBreaker(t *testing.T) {
	var p Policy
	high, low := Load{Used: 90_000, Window: 100_000}, Load{Used: 50_000, Window: 100_000}
	fail := func(g Gate, o Outcome) Gate { return g.Measured(p, low, key).Ended(o, "", key, high) }
	g := Gate{}
	for i, o := range []Outcome{Failed, Uncertain, Failed} {
		if g.BreakerOpen() {
			t.Fatalf("open after %d", i)
		}
		g = fail(g, o)
	}
	for name, l := range map[string]Load{"low": low, "high": high, "huge": {Used: 900_000, Window: 100_000}, "nothing": {Window: 100_000}} {
		if m := g.Measured(p, l, key); p.Judge(l, m) != MoveNone || !m.BreakerOpen() {
			t.Errorf("%s: the breaker let %q through", name, p.Judge(l, m))
		}
	}
	for _, o := range []Outcome{Unchanged, Refused, Denied, Failed, Cancelled, Interrupted, Uncertain} {
		if m := g.EndedManually(o); m != g {
			t.Errorf("a manual compaction that ended %s changed the gate", o)
		}
	}
	if m := g.EndedManually(Completed); m.BreakerOpen() || !m.armed() {
		t.Errorf("a manual success leaves %+v", m)
	}
	if m := g.Measured(p, high, "another"); m.BreakerOpen() || p.Judge(high, m) != MoveCompact {
		t.Errorf("another model finds %+v", m)
	}
	// A success between them begins anew; what is no failure does not count.
	g = fail(fail(Gate{}, Failed), Failed).Ended(Completed, "", key, low)
	for _, o := range []Outcome{Failed, Denied, Unchanged, Failed, Refused, Cancelled, Interrupted} {
		g = fail(g, o)
	}
	if g.BreakerOpen() || g.Failures != 2 {
		t.Errorf("%d failures count", g.Failures)
	}
}

func TestWhatIsLeftOverTheLineMustGrowFirst(t *testing.T) {
	var p Policy
	still := Load{Used: 86_000, Base: 80_000, Window: 100_000}
	g := Gate{}.Ended(Completed, "", key, still).Relieved(p, still)
	if m := g.Measured(p, still, key); p.Judge(still, m) != MoveNone {
		t.Error("a context that cannot be smaller is compacted again")
	}
	still.Used += 5_000
	if m := g.Measured(p, still, key); p.Judge(still, m) != MoveCompact {
		t.Error("a context that has grown is not")
	}
	below := Load{Used: 30_000, Window: 100_000}
	if g := (Gate{Key: key}).Relieved(p, below); g != (Gate{Key: key}) {
		t.Errorf("a context below the line leaves %+v", g)
	}
}

func TestAnUndoIsNotTakenBackAtOnce(t *testing.T) {
	var p Policy
	l := Load{Used: 90_000, Window: 100_000}
	g := Gate{}.Undone(key, l)
	if p.Judge(l, g.Measured(p, l, key)) != MoveNone {
		t.Error("what was undone is compacted again")
	}
	l.Used = 95_000
	if p.Judge(l, g.Measured(p, l, key)) != MoveCompact {
		t.Error("the thread never compacts again")
	}
}

// I10: whatever does not help shuts the gate for the load at which it was tried, and
// for every one in between; only what its reason names opens it.
func TestNothingThatDidNotHelpIsTriedTwiceAtTheSameLoad(t *testing.T) {
	outcomes := []Outcome{Unchanged, Refused, Denied, Failed, Cancelled, Interrupted, Uncertain}
	codes := []string{CodeNothingToCompact, CodeNoGain, CodeOverheadExceedsBudget, ""}
	rapid.Check(t, func(t *rapid.T) {
		p, l := policies(t), loads(t)
		g := Gate{Failures: rapid.IntRange(0, 2).Draw(t, "failures")}
		for range rapid.IntRange(1, 6).Draw(t, "attempts") {
			o, code := rapid.SampledFrom(outcomes).Draw(t, "outcome"), rapid.SampledFrom(codes).Draw(t, "code")
			if rapid.Bool().Draw(t, "undone") {
				g = g.Undone(key, l)
			} else {
				g = g.Measured(p, l, key).Ended(o, code, key, l)
			}
			m := g.Measured(p, l, key)
			if m != g || p.Judge(l, m) != MoveNone || p.JudgeIdle(l, m) != MoveNone {
				t.Fatalf("%s{%s} at %+v leaves %+v, which lets %q through", o, code, l, m, p.Judge(l, m))
			}
			if again := m.Measured(p, l, key); again != m {
				t.Fatalf("measuring twice changes %+v to %+v", m, again)
			}
			// A load between the point of being armed again and growth stays shut.
			near := l
			near.Used += rapid.IntRange(0, max(p.growth(l)-1, 0)).Draw(t, "grown")
			if m := g.Measured(p, near, key); m.armed() {
				t.Fatalf("%+v, grown to %d, lets through: %+v", l, near.Used, m)
			}
			l.Used += rapid.IntRange(0, 60_000).Draw(t, "grows")
		}
	})
}

// The breaker closes on a manual success or another key, on nothing else.
func TestOnlyTwoThingsCloseTheBreaker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policies(t)
		g := Gate{Failures: 3, Shut: ShutFailed, At: 90_000, Key: key}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			l := loads(t)
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				g = g.Measured(p, l, key)
			case 1:
				g = g.Undone(key, l)
			case 2:
				g = g.EndedManually(rapid.SampledFrom([]Outcome{Unchanged, Refused, Denied, Failed, Cancelled, Interrupted, Uncertain}).Draw(t, "outcome"))
			case 3:
				if p.Judge(l, g) != MoveNone || p.JudgeIdle(l, g) != MoveNone {
					t.Fatalf("%+v lets something through", g)
				}
			}
			if !g.BreakerOpen() {
				t.Fatal("the breaker closed by itself")
			}
		}
		if g.EndedManually(Completed).BreakerOpen() || g.Measured(p, loads(t), "another").BreakerOpen() {
			t.Fatal("nothing closes the breaker")
		}
	})
}

// After a provider's own compaction nothing is due before it has counted again; its
// count says what was gained.
func TestNothingIsDueUntilTheProviderHasCountedAgain(t *testing.T) {
	var p Policy
	const key = "k"
	load := func(used int) Load { return Load{Used: used, Window: 100_000} }
	for name, c := range map[string]struct {
		was, counts int
		armed       bool
	}{
		"it shrank":            {90_000, 30_000, true},
		"it shrank too little": {86_000, 84_500, false},
		"it shrank enough":     {86_000, 83_900, true},
		"it grew":              {90_000, 95_000, false},
		"still over the line":  {90_000, 86_000, false},
	} {
		g := Gate{Failures: 2, Shut: ShutFailed, At: 90_000, Key: key}.Replaced(key, c.was)
		if m := g.Measured(p, load(99_000), key); m.armed() || m.BreakerOpen() {
			t.Errorf("%s: something is due before the provider has counted: %+v", name, m)
		}
		if p.Judge(load(99_000), g) != MoveNone {
			t.Errorf("%s: the policy judges what nobody knows", name)
		}
		m := g.Counted(p, load(c.counts))
		if m.armed() != c.armed || m.Awaits != 0 || m.Measured(p, load(c.counts), key).armed() != c.armed {
			t.Errorf("%s: after the count the gate is %+v", name, m)
		}
		if grown := m.Measured(p, load(c.counts+5_000), key); !grown.armed() {
			t.Errorf("%s: a context that has grown by 5 %% is never due: %+v", name, grown)
		}
		if other := g.Measured(p, load(1), "another"); other.Awaits != 0 || !other.armed() {
			t.Errorf("%s: another model waits for the count of this one", name)
		}
	}
	if g := (Gate{}).Counted(p, load(90_000)); g != (Gate{}) {
		t.Errorf("a count shuts a gate that awaits none: %+v", g)
	}
}

// I10: after a failure the gate is armed again once used < base + (0.70/0.85)(T − base),
// which a failure at half of the window is already. So the line still fires.
func TestAFailureBelowTheLineDoesNotSilenceTheLine(t *testing.T) {
	p := Policy{Idle: time.Minute}
	at := Load{Used: 52_000, Window: 100_000} // an idle compaction, or one of a task's budget
	g := Gate{Key: "k"}.Ended(Failed, "failed", "k", at)
	for used := 52_000; used < 100_000; used += 1_000 {
		l := Load{Used: used, Window: 100_000}
		if g = g.Measured(p, l, "k"); p.Judge(l, g) == MoveCompact {
			return
		}
	}
	t.Errorf("the context grew to the whole window and nothing was due: %+v", g)
}

// What failed just below the line is not tried again because a word was added.
func TestAFailureJustBelowTheLineWaitsForGrowth(t *testing.T) {
	var p Policy // of 100,000 the line is 85,000, growth 5,000
	g := Gate{}.Ended(Failed, "", key, Load{Used: 84_900, Window: 100_000})
	if g.Measured(p, Load{Used: 85_100, Window: 100_000}, key).armed() {
		t.Error("it is tried again after 200 tokens")
	}
	if !g.Measured(p, Load{Used: 90_000, Window: 100_000}, key).armed() {
		t.Error("it is not tried again after 5,100 tokens")
	}
}
