package compaction

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// The rule of Pressure. A message is what wire formats take for one: what the agent
// wrote without a pause, or one item of anybody else.
const (
	pressureFirst    = 2 // messages that are protected
	pressureLatest   = 4 // messages that are retained
	pressureEligible = 2 // items that there must be at least to be summarised
	// pressureLimit bounds the checkpoint, in tokens: the previews of the fixed
	// writer, and as much for what the user said.
	pressureLimit = 2 * previewTotal / 4
)

// Pressure applies the fixed writer to the old history of a task that has spent most
// of its token budget. It looks at no window and no target: the first two messages
// and the latest four stay as they are, a call and its results stay together, what I9
// keeps is kept, and everything between is summarised in previews. It reports false
// if fewer than two items are left for that, or if it would gain nothing. The same
// history gives the same bytes. Check holds for the result.
func Pressure(in Input) (*Composed, bool) {
	p, err := newPressure(in)
	if err != nil {
		return nil, false
	}
	p.decideCut(len(p.nodes))
	p.collect()
	eligible := 0
	for i := range p.nodes {
		if n := &p.nodes[i]; !n.kept && !n.never {
			eligible++
		}
	}
	if eligible < pressureEligible {
		return nil, false
	}
	l := p.absorb()
	text, fidelity := p.verify(l, p.writeFixed(l, p.limit*9/10), p.room)
	c, err := p.result(l, text, p.reanchor(reanchorMax), fidelity)
	if err != nil || c.After >= c.Before {
		return nil, false
	}
	c.Means = MeansPressure
	return c, true
}

// newPressure is a planner that has pinned what Pressure retains.
func newPressure(in Input) (*planner, error) {
	in.Writer, in.Budget, in.Recover, in.PruneTo = WriterFixed, 0, false, 0
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	p.target = p.before
	p.asked = p.target - in.Base
	p.room = p.asked
	p.group()
	p.measureAges()
	p.pinEnds()
	if p.ask >= 0 {
		p.pin(p.ask)
	}
	p.must = p.mustTokens()
	p.limit = min(pressureLimit, (p.room-p.must)/2)
	p.chooseVerbatim()
	return p, nil
}

// pinEnds retains the first and the latest messages. Where the latest ones begin
// among results, those before them that answer the same message stay too.
func (p *planner) pinEnds() {
	begins := p.messages()
	if len(begins) == 0 {
		return
	}
	end := len(p.nodes)
	if len(begins) > pressureFirst {
		end = begins[pressureFirst]
	}
	start := begins[max(len(begins)-pressureLatest, 0)]
	for start > 0 && p.nodes[start].kind == transcript.KindToolResult && p.nodes[start-1].kind == transcript.KindToolResult {
		start--
	}
	for i := range p.nodes {
		if (i < end || i >= start) && !p.nodes[i].never {
			p.keep(i)
		}
	}
}

// messages lists where each message begins.
func (p *planner) messages() []int {
	var begins []int
	open := false // a message of the agent
	for i := range p.nodes {
		n := &p.nodes[i]
		switch n.kind {
		case transcript.KindAgentMessage, transcript.KindReasoning, transcript.KindToolCall:
			if !open {
				begins = append(begins, i)
			}
			open = true
		default:
			open = false
			if !n.never {
				begins = append(begins, i)
			}
		}
	}
	return begins
}

// keep retains a node and its unit as they are.
func (p *planner) keep(i int) {
	u := &p.units[p.nodes[i].unit]
	u.must = true
	for _, m := range u.members {
		p.nodes[m].must = true
	}
}
