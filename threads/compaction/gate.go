package compaction

// A Gate keeps automatic compactions from repeating what does not help (I10). It is
// journaled with the events that change it. Its zero value is armed.
type Gate struct {
	// Failures counts automatic compactions in a row that ended failed or uncertain;
	// three open the breaker.
	Failures int    `json:"failures,omitempty"`
	Shut     Shut   `json:"shut,omitempty"`
	At       int    `json:"at,omitempty"`   // tokens used when it was shut
	Base     int    `json:"base,omitempty"` // of these, what no compaction could shrink
	Key      string `json:"key,omitempty"`  // of the model and the policy that it was shut for
	// Awaits is set from a provider's own compaction until the provider counts again: the
	// tokens before it. Until then nobody knows what it gained, so nothing is due.
	Awaits int `json:"awaits,omitempty"`
}

// Shut is why a gate lets nothing through.
type Shut string

// The reasons.
const (
	ShutFailed   Shut = "failed"   // until the context is clearly smaller, such as below Rearm
	ShutNoGain   Shut = "noGain"   // the same, or until it has grown
	ShutOverhead Shut = "overhead" // until the base is smaller, and below Fire
)

// BreakerOpen reports whether automatic compactions have stopped. A manual one that
// succeeds closes it.
func (g Gate) BreakerOpen() bool { return g.Failures >= breakerOpens }

func (g Gate) armed() bool { return g.Shut == "" && g.Awaits == 0 && !g.BreakerOpen() }

// Replaced is the gate after a native compaction that completed, whoever asked for it,
// of a context that had used tokens.
func (g Gate) Replaced(key string, used int) Gate { return Gate{Key: key, Awaits: max(used, 1)} }

// Counted is the gate at the provider's next count after Replaced. What gained nothing
// is not tried again before the context has grown.
func (g Gate) Counted(p Policy, l Load) Gate {
	was := g.Awaits
	switch g.Awaits = 0; {
	case was == 0:
		return g
	case was-l.Used < p.MinGain(l):
		return g.shut(ShutNoGain, l)
	}
	return g.Relieved(p, l)
}

// Ended is the gate after an automatic compaction. Whatever did not shrink the
// context shuts it: else the same load would fire again at once.
func (g Gate) Ended(o Outcome, code, key string, l Load) Gate {
	g.Key = key
	switch o {
	case Completed:
		return Gate{Key: key}
	case Failed, Uncertain:
		g.Failures++
		return g.shut(ShutFailed, l)
	case Unchanged:
		if code == CodeOverheadExceedsBudget {
			return g.shut(ShutOverhead, l)
		}
	case Refused, Denied, Cancelled, Interrupted:
	}
	return g.shut(ShutNoGain, l)
}

func (g Gate) shut(s Shut, l Load) Gate {
	g.Shut, g.At, g.Base = s, l.Used, l.Base
	return g
}

// Relieved is the gate after an automatic compaction that completed, given what is
// left: a context that is still over the line has to grow first.
func (g Gate) Relieved(p Policy, l Load) Gate {
	if l.Used < p.Fire(l) {
		return g
	}
	return g.shut(ShutNoGain, l)
}

// EndedManually is the gate after a manual compaction: only a success changes it.
func (g Gate) EndedManually(o Outcome) Gate {
	if o == Completed {
		return Gate{Key: g.Key}
	}
	return g
}

// Undone is the gate after an undo: what the user wanted back is not taken away
// again before the context has grown.
func (g Gate) Undone(key string, l Load) Gate {
	g.Key = key
	return g.shut(ShutNoGain, l)
}

// Measured is the gate at a new size of the context. Another model or policy arms
// it and closes the breaker.
func (g Gate) Measured(p Policy, l Load, key string) Gate {
	if g.Key != key && (g.Shut != "" || g.Failures > 0 || g.Awaits > 0) {
		return Gate{Key: key}
	}
	smaller := l.Used < p.below(l, min(p.Fire(l), g.At)) // also of what was shut below the line
	grown := l.Used >= g.At+p.growth(l)
	open := false
	switch g.Shut {
	case ShutFailed:
		// What failed below the line says nothing of the line, once there is more to take away.
		open = smaller || g.At < p.Fire(l) && l.Used >= p.Fire(l) && grown
	case ShutNoGain:
		open = smaller || grown
	case ShutOverhead:
		// What must stay can also be too large for a base that is below the line.
		open = l.Base < p.Fire(l) && (l.Base < g.Base || g.Base < p.Fire(l) && (smaller || grown))
	}
	if open {
		g.Shut, g.At, g.Base = "", 0, 0
	}
	return g
}
