package compaction

import (
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A grade is a form that an item may have, and what a token of it is worth while
// the item is new, in thousandths.
type grade struct {
	fit   fit
	worth int64
}

// forever is more than any price at any age.
const forever = 1 << 40

// A scale says how items of one sort are shown. An item has the first form whose
// worth, faded by age, is at least the price; if none is, it is a stub. Age is
// counted in tokens that the agent wrote since, because those move the work on,
// while a large result does not; at age fade a token is worth half.
//
// The figures were found by measuring, on real sessions, how much of what the
// agent refers back to later can still be found (reference/eval.md, gFRR): new
// text and old text of edits and what was just read are worth most per token,
// searches and the output of commands least.
type scale struct {
	fade   int64
	grades []grade
}

var (
	userScale = scale{8_000, []grade{
		{fit{}, 12_000}, {fit{fitClip, 2_600, 1_200}, 20_000}, {fit{fitClip, 900, 200}, forever},
	}}
	agentScale = scale{4_000, []grade{
		{fit{}, 6_000}, {fit{fitClip, 1_200, 400}, 9_000}, {fit{fitClip, 360, 100}, 14_000}, {fit{fitClip, 160, 0}, forever},
	}}
	editScale = scale{8_000, []grade{
		{fit{}, 11_000}, {fit{fitArgs, 2_000, 0}, 12_000}, {fit{fitArgs, 800, 0}, 13_000}, {fit{fitArgs, 240, 0}, 15_000}, {fit{mode: fitBrief}, 20_000},
	}}
	callScale = scale{4_000, []grade{
		{fit{}, 3_000}, {fit{fitArgs, 2_000, 0}, 4_000}, {fit{fitArgs, 800, 0}, 5_000}, {fit{fitArgs, 240, 0}, 6_000}, {fit{mode: fitBrief}, 20_000},
	}}
	readScale      = scale{300, outputs(6_000, 6_300, 6_700, 7_200, 8_000, 9_000, 10_500, 12_000)}
	outputScale    = scale{1_000, outputs(300, 400, 600, 800, 1_000, 1_500, 2_500, 6_000)}
	childScale     = scale{2_000, outputs(3_000, 3_500, 4_000, 4_500, 5_000, 5_500, 6_000, 12_000)}
	reasoningScale = scale{800, []grade{{fit{}, 4_000}}}
	otherScale     = scale{4_000, []grade{{fit{}, 6_000}}}
)

// outputs are the grades of what tools print, from whole to a few lines.
func outputs(worth ...int64) []grade {
	fits := []fit{
		{},
		{fitClip, 12_000, 4_000},
		{fitClip, 6_000, 2_000},
		{fitClip, 3_500, 1_000},
		{fitClip, 2_000, 700},
		{fitClip, 1_000, 400},
		{fitClip, 500, 200},
		{fitClip, 200, 80},
	}
	grades := make([]grade, len(fits))
	for i, f := range fits {
		grades[i] = grade{f, worth[i]}
	}
	return grades
}

// prices goes from nothing, at which everything is whole, to so much that all
// but the user's words are stubs.
var prices = func() []int64 {
	list := []int64{0, 2}
	for p := int64(2); p < 1<<21; {
		p += p/6 + 1
		list = append(list, p)
	}
	return list
}()

// scaleOf returns the scale for a node.
func scaleOf(n *node) scale {
	switch n.kind {
	case transcript.KindUserMessage:
		return userScale
	case transcript.KindAgentMessage, transcript.KindNotice:
		return agentScale
	case transcript.KindReasoning:
		return reasoningScale
	case transcript.KindToolCall, transcript.KindFileChange:
		if n.act != nil && n.act.verb == verbEdit {
			return editScale
		}
		return callScale
	case transcript.KindToolResult, transcript.KindCommand:
		switch n.source {
		case verbRead:
			return readScale
		case verbChild:
			return childScale
		default:
			return outputScale
		}
	default:
		return otherScale
	}
}

// fitAt says how a node is shown at a price.
func (n *node) fitAt(price int64) fit {
	if n.quoted {
		return fit{}
	}
	if n.pruned && n.superseded {
		return fit{mode: fitStub}
	}
	s := scaleOf(n)
	f := fit{mode: fitStub}
	for _, g := range s.grades {
		worth := g.worth * s.fade / (s.fade + int64(n.age))
		if n.superseded {
			worth /= 3
		}
		if worth >= price {
			f = g.fit
			break
		}
	}
	if n.pruned && (f.mode == fitWhole || f.mode == fitClip && f.head > pruneClip.head) {
		return pruneClip
	}
	return f
}

// shapeAt is the node as it is shown at a step of the prices. What is open, what
// must be retained and the current plan have a shape of their own.
func (p *planner) shapeAt(i, step int) shape {
	n := &p.nodes[i]
	if n.open || n.must || i == p.plan {
		return n.now
	}
	return n.shape(n.fitAt(prices[step]))
}

// overviewRoom is from how many tokens on there is space for stubs, as an overview
// of the older work, if it cannot be had without a large checkpoint.
const overviewRoom = 6_000

// stubLimit is how many tokens stubs may take of a room: fifteen in a hundred of
// a small one, up to a quarter of one that has space for an overview too. Below
// that a stub is worth less than what its tokens would show of newer items.
func stubLimit(room int) int {
	share := min(max(room/320, 15), 25) // in hundredths
	return room * share / 100
}

// sumAt is what the retained items would cost at a step if the cut stood where
// stubs leave it, and that cut.
func (p *planner) sumAt(step int) (sum, cut int) {
	stubs := 0
	for i := range p.nodes {
		if n := &p.nodes[i]; !n.never {
			s := p.shapeAt(i, step)
			sum += s.tokens
			stubs += n.stubTokens(s)
		}
	}
	for ; stubs > p.stubLimit && cut < len(p.nodes); cut++ {
		for _, m := range p.droppedAt(cut) {
			if n := &p.nodes[m]; !n.never {
				s := p.shapeAt(int(m), step)
				sum -= s.tokens
				stubs -= n.stubTokens(s)
			}
		}
	}
	return sum, cut
}

// stubTokens are the tokens of a shape that is a stub.
func (n *node) stubTokens(s shape) int {
	if s.form != transcript.FormStub || n.must {
		return 0
	}
	return s.tokens
}

// droppedAt lists the nodes that a cut behind i summarises and one before it does
// not: the unit that ends with i, unless it must be retained.
func (p *planner) droppedAt(i int) []int32 {
	u := &p.units[p.nodes[i].unit]
	if u.must || int(u.last) != i {
		return nil
	}
	return u.members
}

// fitTail chooses the price and the cut: the lowest price at which all items fit
// into the budget, else the highest one and the earliest cut. Stubs take a part of
// the budget at most: the oldest are summarised instead. It reports false if
// even what must be retained does not fit.
func (p *planner) fitTail(budget int) bool {
	low, high := 0, len(prices)-1
	for low < high {
		mid := (low + high) / 2
		if sum, _ := p.sumAt(mid); sum <= budget {
			high = mid
		} else {
			low = mid + 1
		}
	}
	p.step = low
	return p.dropOldest(budget)
}

// dropOldest moves the cut forward until what is left fits.
func (p *planner) dropOldest(budget int) bool {
	sum, cut := p.sumAt(p.step)
	for ; sum > budget && cut < len(p.nodes); cut++ {
		for _, m := range p.droppedAt(cut) {
			if !p.nodes[m].never {
				sum -= p.shapeAt(int(m), p.step).tokens
			}
		}
	}
	p.decideCut(cut)
	return sum <= budget
}

// settle gives every retained node its shape and returns their tokens.
func (p *planner) settle() int {
	sum := 0
	for i := range p.nodes {
		if n := &p.nodes[i]; n.kept {
			n.now = p.shapeAt(i, p.step)
			sum += n.now.tokens
		}
	}
	return sum
}

// crumbs are too few tokens to look for something to spend them on.
const crumbs = 4

// promote spends left tokens on the forms of lower prices, the newest items
// first.
func (p *planner) promote(left int) {
	for step := p.step - 1; step >= 0 && left > crumbs; step-- {
		for i := len(p.nodes) - 1; i >= 0 && left > crumbs; i-- {
			n := &p.nodes[i]
			if !n.kept {
				continue
			}
			s := p.shapeAt(i, step)
			if more := s.tokens - n.now.tokens; more > 0 && more <= left {
				n.now, left = s, left-more
			}
		}
	}
}
