package compaction

// A Gate keeps automatic compactions from repeating what does not help (I10). It is
// journaled with the events that change it. Its zero value is armed.
type Gate struct {
	// Failures counts automatic compactions in a row that ended failed or uncertain;
	// three open the breaker.
	Failures int    `json:"failures,omitempty"`
	Shut     Shut   `json:"shut,omitempty"`
	At       int    `json:"at,omitempty"`  // tokens used when it was shut
	Key      string `json:"key,omitempty"` // of the model and the policy that it was shut for
}

// Shut is why a gate lets nothing through.
type Shut string

// The reasons.
const (
	ShutFailed   Shut = "failed"   // until the context is below the line of Rearm
	ShutNoGain   Shut = "noGain"   // until it has grown
	ShutOverhead Shut = "overhead" // until the base is smaller
)

// BreakerOpen reports whether automatic compactions have stopped. A manual one that
// succeeds closes it.
func (g Gate) BreakerOpen() bool { return g.Failures >= breakerOpens }

func (g Gate) armed() bool { return g.Shut == "" && !g.BreakerOpen() }

// Ended is the gate after an automatic compaction. Whatever did not shrink the
// context shuts it: else the same load would fire again at once.
func (g Gate) Ended(o Outcome, code, key string, l Load) Gate {
	g.Key = key
	switch o {
	case Completed:
		return Gate{Key: key}
	case Failed, Uncertain:
		g.Failures++
		g.Shut, g.At = ShutFailed, l.Used
	case Unchanged:
		g.Shut, g.At = ShutNoGain, l.Used
		if code == CodeOverheadExceedsBudget {
			g.Shut = ShutOverhead
		}
	case Refused, Denied, Cancelled, Interrupted:
		g.Shut, g.At = ShutNoGain, l.Used
	}
	return g
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
	g.Shut, g.At, g.Key = ShutNoGain, l.Used, key
	return g
}

// Measured is the gate at a new size of the context. Another model or policy arms
// it and closes the breaker.
func (g Gate) Measured(p Policy, l Load, key string) Gate {
	if g.Key != key && (g.Shut != "" || g.Failures > 0) {
		return Gate{Key: key}
	}
	open := false
	switch g.Shut {
	case ShutFailed:
		open = l.Used < p.Rearm(l)
	case ShutNoGain:
		open = l.Used < p.Rearm(l) || l.Used >= g.At+p.growth(l)
	case ShutOverhead:
		open = l.Base < p.Fire(l)
	}
	if open {
		g.Shut, g.At = "", 0
	}
	return g
}
