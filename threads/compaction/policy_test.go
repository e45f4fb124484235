package compaction

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// P003, P093: the line of each preset, also where a limit is missing, larger than
// the window, or makes no sense.
func TestTheLineOfEveryPreset(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Policy
		l    Load
		want int
	}{
		{"85 of 100", Policy{}, Load{Window: 200_000}, 170_000},
		{"named", Policy{Preset: PresetPlimsoll}, Load{Window: 200_000}, 170_000},
		{"a small output leaves it there", Policy{}, Load{Window: 200_000, MaxOutput: 8_000}, 170_000},
		{"a large output moves it", Policy{}, Load{Window: 200_000, MaxOutput: 32_000}, 168_000},
		{"to three quarters at most", Policy{}, Load{Window: 200_000, MaxOutput: 128_000}, 150_000},
		{"output over the window", Policy{}, Load{Window: 40_000, MaxOutput: 64_000}, 30_000},
		{"output as the window", Policy{}, Load{Window: 8_192, MaxOutput: 8_192}, 6_144},
		{"a million", Policy{}, Load{Window: 1_000_000}, 850_000},
		{"32k", Policy{}, Load{Window: 32_000}, 27_200},
		{"tiny", Policy{}, Load{Window: 10, MaxOutput: 10}, 8},
		{"of one token", Policy{}, Load{Window: 1}, 1},
		{"unknown", Policy{}, Load{MaxOutput: 64_000}, 128_000},
		{"unknown, configured", Policy{Cap: 30_000}, Load{}, 30_000},
		{"a cap is for what is unknown", Policy{Cap: 30_000}, Load{Window: 200_000}, 170_000},

		{"pi", Policy{Preset: PresetPi}, Load{Window: 200_000, MaxOutput: 64_000}, 183_616},
		{"pi, configured", Policy{Preset: PresetPi, Reserve: 50_000}, Load{Window: 200_000}, 150_000},
		{"pi, window as the reserve", Policy{Preset: PresetPi}, Load{Window: 16_384}, 8_192},
		{"pi, unknown", Policy{Preset: PresetPi}, Load{}, 128_000},

		{"codex", Policy{Preset: PresetCodex}, Load{Window: 272_000}, 244_800},
		{"codex, absolute", Policy{Preset: PresetCodex, Limit: 180_000}, Load{Window: 272_000}, 180_000},
		{"codex, over the window", Policy{Preset: PresetCodex, Limit: 500_000}, Load{Window: 272_000}, 272_000},
		{"codex, under half", Policy{Preset: PresetCodex, Limit: 100}, Load{Window: 272_000}, 136_000},
		{"codex, unknown", Policy{Preset: PresetCodex}, Load{}, 128_000},
		{"codex, unknown and absolute", Policy{Preset: PresetCodex, Limit: 40_000, Cap: 90_000}, Load{}, 40_000},

		{"claude-code", Policy{Preset: PresetClaudeCode}, Load{Window: 200_000}, 167_000},
		{"claude-code, configured", Policy{Preset: PresetClaudeCode, Reserve: 32_000}, Load{Window: 200_000}, 155_000},
		{"claude-code, small", Policy{Preset: PresetClaudeCode}, Load{Window: 32_000}, 16_000},
	} {
		if got := c.p.Fire(c.l); got != c.want {
			t.Errorf("%s: the line is %d, want %d", c.name, got, c.want)
		}
	}
}

// P007: less than this is no gain; and how far a context has to grow or shrink
// before another attempt.
func TestGainGrowthAndRearm(t *testing.T) {
	for _, c := range []struct {
		l                   Load
		gain, growth, rearm int
	}{
		{Load{Window: 200_000}, 4_000, 10_000, 140_000},
		{Load{Window: 1_000_000}, 20_000, 50_000, 700_000},
		{Load{Window: 50_000}, 1_000, 2_500, 35_000},
		{Load{Window: 49_000}, 1_000, 2_450, 34_300},
		{Load{Window: 8_000}, 800, 400, 5_600},
		{Load{Window: 1_000}, 100, 50, 700},
		{Load{}, 2_560, 6_400, 105_411},
		{Load{Window: 200_000, Base: 85_000}, 4_000, 10_000, 155_000},
		{Load{Window: 200_000, Base: 170_000}, 4_000, 10_000, 170_000},
		{Load{Window: 200_000, Base: 190_000}, 4_000, 10_000, 170_000},
		{Load{Window: 5}, 0, 1, 3},
	} {
		var p Policy
		if g := p.MinGain(c.l); g != c.gain {
			t.Errorf("%+v: a gain of %d counts, want %d", c.l, g, c.gain)
		}
		if g := p.growth(c.l); g != c.growth {
			t.Errorf("%+v: growth %d, want %d", c.l, g, c.growth)
		}
		if r := p.Rearm(c.l); r < c.rearm-1 || r > c.rearm {
			t.Errorf("%+v: armed again below %d, want %d", c.l, r, c.rearm)
		}
	}
}

func TestWhatIsDone(t *testing.T) {
	off := Policy{Off: true, Idle: time.Hour}
	idle := Policy{Idle: time.Hour}
	shut := Gate{Shut: ShutNoGain, At: 90_000}
	open := Gate{Failures: 2}
	for _, c := range []struct {
		name       string
		p          Policy
		l          Load
		g          Gate
		turn, rest Move
	}{
		{"empty", idle, Load{Window: 100_000}, Gate{}, MoveNone, MoveNone},
		{"below half", idle, Load{Used: 49_999, Window: 100_000}, Gate{}, MoveNone, MoveNone},
		{"half", idle, Load{Used: 50_000, Window: 100_000}, Gate{}, MoveNone, MoveCompact},
		{"half, and no time limit", Policy{}, Load{Used: 50_000, Window: 100_000}, Gate{}, MoveNone, MoveNone},
		{"below the line", idle, Load{Used: 84_999, Window: 100_000}, Gate{}, MoveNone, MoveCompact},
		{"at the line", idle, Load{Used: 85_000, Window: 100_000}, Gate{}, MoveCompact, MoveCompact},
		{"far over", idle, Load{Used: 300_000, Window: 100_000}, Gate{}, MoveCompact, MoveCompact},
		{"base at the line", idle, Load{Used: 95_000, Base: 85_000, Window: 100_000}, Gate{}, MoveOverhead, MoveOverhead},
		{"base below it", idle, Load{Used: 95_000, Base: 84_999, Window: 100_000}, Gate{}, MoveCompact, MoveCompact},
		{"off", off, Load{Used: 95_000, Window: 100_000}, Gate{}, MoveNone, MoveNone},
		{"off, base over", off, Load{Used: 95_000, Base: 90_000, Window: 100_000}, Gate{}, MoveNone, MoveNone},
		{"shut", idle, Load{Used: 95_000, Window: 100_000}, shut, MoveNone, MoveNone},
		{"shut, base over", idle, Load{Used: 95_000, Base: 90_000, Window: 100_000}, shut, MoveNone, MoveNone},
		{"failed twice", idle, Load{Used: 95_000, Window: 100_000}, open, MoveCompact, MoveCompact},
		{"failed thrice", idle, Load{Used: 95_000, Window: 100_000}, Gate{Failures: 3}, MoveNone, MoveNone},
		{"unknown, below the cap", idle, Load{Used: 63_999}, Gate{}, MoveNone, MoveNone},
		{"unknown, half of the cap", idle, Load{Used: 64_000}, Gate{}, MoveNone, MoveCompact},
		{"unknown, at the cap", idle, Load{Used: 128_000}, Gate{}, MoveCompact, MoveCompact},
		{"P093: a million", idle, Load{Used: 300_000, Window: 1_000_000}, Gate{}, MoveNone, MoveNone},
		{"P093: 32k", Policy{}, Load{Used: 28_000, Window: 32_000}, Gate{}, MoveCompact, MoveNone},
		{"P001", Policy{}, Load{Used: 106_000, Base: 105_000, Window: 120_000}, Gate{}, MoveOverhead, MoveNone},
		{"P003: hi", Policy{}, Load{Used: 12_000, Window: 40_000, MaxOutput: 64_000}, Gate{}, MoveNone, MoveNone},
		{"a window of one", idle, Load{Window: 1}, Gate{}, MoveNone, MoveNone},
	} {
		if m := c.p.Judge(c.l, c.g); m != c.turn {
			t.Errorf("%s: at a step %q, want %q", c.name, m, c.turn)
		}
		if m := c.p.JudgeIdle(c.l, c.g); m != c.rest {
			t.Errorf("%s: at rest %q, want %q", c.name, m, c.rest)
		}
	}
}

func TestTheBudgetOfATask(t *testing.T) {
	for _, c := range []struct {
		b              Budget
		pressing, over bool
	}{
		{Budget{}, false, false},
		{Budget{Used: 900_000}, false, false}, // no limit
		{Budget{0, 1}, false, false},
		{Budget{1, 1}, true, true},
		{Budget{84, 100}, false, false},
		{Budget{85, 100}, true, false},
		{Budget{99, 100}, true, false},
		{Budget{100, 100}, true, true},
		{Budget{250, 100}, true, true},
		{Budget{849_999, 1_000_000}, false, false},
		{Budget{850_000, 1_000_000}, true, false},
	} {
		if c.b.Pressing() != c.pressing || c.b.Exhausted() != c.over {
			t.Errorf("%+v: pressing %t, exhausted %t", c.b, c.b.Pressing(), c.b.Exhausted())
		}
	}
}

func policies(t *rapid.T) Policy {
	return Policy{
		Preset:  rapid.SampledFrom(append([]Preset{""}, Presets...)).Draw(t, "preset"),
		Limit:   rapid.SampledFrom([]int{0, 1, 50_000, 10_000_000}).Draw(t, "limit"),
		Reserve: rapid.SampledFrom([]int{0, 1, 50_000, 10_000_000}).Draw(t, "reserve"),
		Cap:     rapid.SampledFrom([]int{0, 1, 50_000}).Draw(t, "cap"),
		Idle:    rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "idle"),
	}
}

func loads(t *rapid.T) Load {
	return Load{
		Used:      rapid.IntRange(0, 400_000).Draw(t, "used"),
		Base:      rapid.OneOf(rapid.IntRange(0, 5_000), rapid.IntRange(0, 400_000)).Draw(t, "base"),
		Window:    rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 40), rapid.IntRange(1, 2_000_000)).Draw(t, "window"),
		MaxOutput: rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 2_000_000)).Draw(t, "output"),
	}
}

// The line is always usable, whatever is configured, and below it there is always a
// point where a thread is armed again.
func TestTheLineIsInTheUpperHalfOfTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, l := policies(t), loads(t)
		fire, w := p.Fire(l), p.window(l)
		if 2*fire < w || fire > w || fire < 1 {
			t.Fatalf("the line is %d of %d", fire, w)
		}
		if r := p.Rearm(l); l.Base < fire && r >= fire || r < min(l.Base, fire) {
			t.Fatalf("armed again below %d, with a base of %d and a line of %d", r, l.Base, fire)
		}
		if g := p.MinGain(l); g < 0 || g > w/5 || p.growth(l) < 1 {
			t.Fatalf("gain %d, growth %d of %d", g, p.growth(l), w)
		}
	})
}
