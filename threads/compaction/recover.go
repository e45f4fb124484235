package compaction

// A recovery makes a context smaller that the provider refused: until it has at
// most recoverShare hundredths of the window, or of what it had if that is less or
// the window is unknown. Where the base and what must stay have more than that
// alone, recoverMost hundredths are better than a turn that is lost.
const (
	recoverShare = 70
	recoverMost  = 90
)

// recoverable is what the shares are taken of.
func (in Input) recoverable(before int) int {
	if in.Window > 0 {
		return min(in.Window, before)
	}
	return before
}

// composeRecovery is Compose where unchanged is no end: it prunes, else it plans and
// writes with the writer asked for, else with the fixed one, else it drops the oldest
// units. A budget does not bind it. What no step touches is the base, the last request and what is open, of
// which results are clipped where they are too large.
func composeRecovery(in Input) (*Composed, error) {
	p, err := newRecovery(in, in.Writer, recoverShare)
	if err != nil {
		return nil, err
	}
	if c := p.pruneOnly(p.most); c != nil {
		return c, nil
	}
	tries := []struct {
		writer Writer
		share  int
		drop   bool
	}{
		{in.Writer, recoverShare, false},
		{WriterFixed, recoverShare, false},
		{WriterFixed, recoverShare, true},
		{WriterFixed, recoverMost, true},
	}
	if in.Writer == WriterFixed {
		tries = tries[1:]
	}
	for _, try := range tries {
		if p, err = newRecovery(in, try.writer, try.share); err != nil {
			return nil, err
		}
		if c, err := p.recover(try.drop); err != nil || c.Outcome == Completed {
			return c, err
		}
	}
	return p.unchanged(CodeOverheadExceedsBudget), nil
}

// newRecovery is a planner whose target is bounded by a share of what there is.
func newRecovery(in Input, w Writer, share int) (*planner, error) {
	in.Writer, in.Budget = w, 0
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	p.most = in.recoverable(p.before) * share / 100
	p.target = min(p.target, p.most)
	if share == recoverMost {
		p.target = p.most
	}
	p.asked = p.target - in.Base
	p.room = p.asked
	p.group()
	p.measureAges()
	return p, nil
}

// recover composes within the planner's bound.
func (p *planner) recover(drop bool) (*Composed, error) {
	if !drop {
		if !p.reserve() {
			return p.unchanged(CodeOverheadExceedsBudget), nil
		}
		return p.finish()
	}
	if !p.reserveLeast() {
		return p.unchanged(CodeOverheadExceedsBudget), nil
	}
	c, err := p.finish()
	if err == nil && c.Outcome == Completed {
		c.Means = MeansDrop
	}
	return c, err
}

// reserveLeast is reserve for the last resort: only what is open and the last
// request are sure to survive, results and the request in a third of the room. The
// room is no larger than these need if they alone have more than a recovery aims at.
func (p *planner) reserveLeast() bool {
	limit := max(p.room/3, 100)
	p.clipOpen(limit)
	if p.ask >= 0 {
		p.pin(p.ask)
		if n := &p.nodes[p.ask]; !n.open {
			n.now = n.shape(fit{fitClip, limit * 4 * 2 / 3, limit*4/3 - 40})
		}
	}
	p.must = p.mustTokens()
	if p.must+smallest > p.room {
		return false
	}
	aim := p.in.recoverable(p.before)*recoverShare/100 - p.in.Base
	p.room = min(p.room, max(aim, p.must+2*smallest))
	p.target = p.in.Base + p.room
	p.limit = p.checkpointLimit()
	p.verbatim, p.verbatimLeft = nil, p.limit
	return true
}
