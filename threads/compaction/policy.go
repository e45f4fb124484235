package compaction

import "time"

// A Policy says when a thread compacts by itself. The zero Policy is the preset
// plimsoll.
type Policy struct {
	Off    bool // nothing but a manual compaction, also when a request overflows
	Preset Preset
	// Limit is where the preset codex fires, in tokens; 0: nine tenths of the window.
	Limit int
	// Reserve is what the presets pi and claude-code keep free, in tokens; 0: 16,384
	// and 20,000.
	Reserve int
	// Cap stands for the window while that is unknown, in tokens; 0: 128,000.
	Cap int
	// NoPostTurn: a thread that is over its line when a turn ends waits for its next
	// input before it compacts.
	NoPostTurn bool
	// Idle is how long a thread rests before it compacts although it is below its line
	// (IdleShare); 0: never.
	Idle time.Duration
}

// Preset is a known way to find the line at which a compaction is due.
type Preset string

// The presets. All of them know the same gate, breaker and test of gain.
const (
	PresetPlimsoll   Preset = "plimsoll"    // min(0.85 W, W − reserve), reserve = min(max output, W/4)
	PresetPi         Preset = "pi"          // W − reserve
	PresetCodex      Preset = "codex"       // an absolute limit
	PresetClaudeCode Preset = "claude-code" // W − reserve − 13,000
)

// Presets lists the presets, the default first.
var Presets = []Preset{PresetPlimsoll, PresetPi, PresetCodex, PresetClaudeCode}

// Numbers of the policy. The shares are of the context window.
const (
	fireShare  = 0.85
	rearmShare = 0.70
	// IdleShare is the occupancy from which a thread that rests is compacted.
	IdleShare = 0.5

	defaultCap      = 128_000
	piReserve       = 16_384
	claudeReserve   = 20_000
	claudeMargin    = 13_000
	codexShare      = 0.90
	maxReserveShare = 4 // the output's reserve is at most a quarter of the window
	growthShare     = 20
	breakerOpens    = 3
)

// A Load is how full a thread is: the full next request, of it what no compaction
// can shrink, and the limits of the model. All are tokens, 0 if unknown.
type Load struct {
	Used, Base, Window, MaxOutput int
}

// window is what shares are taken of. An absolute limit stands also where the window
// is unknown.
func (p Policy) window(l Load) int {
	switch {
	case l.Window > 0:
		return l.Window
	case p.Preset == PresetCodex && p.Limit > 0:
		return p.Limit
	case p.Cap > 0:
		return p.Cap
	}
	return defaultCap
}

// Fire is the line: a context of this size is due. While the window is unknown it
// is the cap, or the absolute limit of the preset codex. It is between half of the
// window and the window, whatever is configured.
func (p Policy) Fire(l Load) int {
	w := p.window(l)
	if l.Window <= 0 {
		return w
	}
	line := int(fireShare * float64(w))
	switch p.Preset {
	case PresetPi:
		line = w - orElse(p.Reserve, piReserve)
	case PresetCodex:
		line = orElse(p.Limit, int(codexShare*float64(w)))
	case PresetClaudeCode:
		line = w - orElse(p.Reserve, claudeReserve) - claudeMargin
	case PresetPlimsoll, "":
		line = min(line, w-min(l.MaxOutput, w/maxReserveShare))
	}
	return max(min(line, w), (w+1)/2)
}

func orElse(v, other int) int {
	if v > 0 {
		return v
	}
	return other
}

// Rearm is the size below which a thread whose compaction failed is due again once
// it reaches Fire: 70 % of the window where the base is small.
func (p Policy) Rearm(l Load) int { return p.below(l, p.Fire(l)) }

// below is to a size what Rearm is to Fire: clearly smaller, as far as the base
// leaves that open.
func (p Policy) below(l Load, size int) int {
	return min(l.Base+int(rearmShare/fireShare*float64(size-l.Base)), size)
}

// MinGain is what a compaction must save to count as one.
func (p Policy) MinGain(l Load) int {
	w := p.window(l)
	return max(w/50, min(1_000, w/10))
}

// growth is how much a context must grow before what gained nothing is tried again.
func (p Policy) growth(l Load) int { return max(p.window(l)/growthShare, 1) }

// A Move is what an automatic trigger does.
type Move string

// The moves.
const (
	MoveNone     Move = ""         // below the line, or the gate is shut
	MoveCompact  Move = "compact"  // it is due
	MoveOverhead Move = "overhead" // it is due and no compaction can help: said once
)

// Judge says what is to be done about a load.
func (p Policy) Judge(l Load, g Gate) Move {
	return p.judge(l, g, p.Fire(l))
}

// JudgeIdle is Judge for a thread that rests.
func (p Policy) JudgeIdle(l Load, g Gate) Move {
	if p.Idle <= 0 {
		return MoveNone
	}
	return p.judge(l, g, min(max(int(IdleShare*float64(p.window(l))), 1), p.Fire(l)))
}

func (p Policy) judge(l Load, g Gate, line int) Move {
	switch {
	case p.Off || l.Used < line || !g.armed():
		return MoveNone
	case l.Base >= p.Fire(l):
		return MoveOverhead
	}
	return MoveCompact
}

// A Budget is the state of a task's budget: used of limit tokens.
type Budget struct{ Used, Limit int }

// Pressing reports whether the model is to be told that little is left.
func (b Budget) Pressing() bool { return b.Limit > 0 && b.Used*100 >= b.Limit*85 }

// Exhausted reports whether nothing is left.
func (b Budget) Exhausted() bool { return b.Limit > 0 && b.Used >= b.Limit }
