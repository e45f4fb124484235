package compaction

import (
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// verbatimMax bounds the user messages that survive verbatim beside the last
// request, in tokens (I9).
const verbatimMax = 20_000

// smallest is the room that a checkpoint and a re-anchor need at the least.
const smallest = 300

// reserve settles what survives whatever the cut is: open items, the last user
// request, and which other user messages are quoted verbatim. It raises a target
// that is not a caller's budget if these leave too little of it, and reports false
// if no compaction can fit.
func (p *planner) reserve() bool {
	limit := p.wholeLimit()
	p.clipOpen(limit)
	if p.ask >= 0 {
		p.pin(p.ask)
		if n := &p.nodes[p.ask]; !n.open {
			n.now = n.shape(fit{fitClip, limit * 4 * 2 / 3, limit*4/3 - 40})
		}
	}
	p.must = p.mustTokens()
	if least := p.least(); p.in.Budget <= 0 && p.must+least > p.room {
		room := p.must + least
		if w := p.in.Window; w > 0 { // not up to the line: the next step would cross it again
			room = max(p.room, min(room, int(rearmShare*float64(w))-p.in.Base))
		}
		if p.most > 0 {
			room = min(room, p.most-p.in.Base)
		}
		p.room, p.target = room, p.in.Base+room
	}
	if p.must+smallest > p.room {
		return false
	}
	p.limit = p.checkpointLimit()
	p.chooseVerbatim()
	return true
}

// least is the room that what must survive leaves at the least, if it can: less where
// the window is small.
func (p *planner) least() int {
	least := p.in.Scale.Units(targetMin)
	if w := p.in.Window; w > 0 {
		least = min(least, max(w-p.in.Base, 0)/4)
	}
	return least
}

// wholeLimit is the size up to which the last user request survives whole: a
// quarter of the window, and of a budget not more than half.
func (p *planner) wholeLimit() int {
	limit := p.room / 2
	if p.in.Window > 0 {
		limit = p.in.Window / 4
		if p.in.Budget > 0 {
			limit = min(limit, p.room/2)
		}
	}
	return max(limit, 100)
}

// clipOpen shortens open results that alone would fill the window: without that
// a thread with one result larger than the window could never go on. Prompts and
// calls are never touched.
func (p *planner) clipOpen(limit int) {
	count, total := 0, 0
	for i := range p.nodes {
		if n := &p.nodes[i]; n.open {
			total += n.tokens
			if n.isOutput() {
				count++
			}
		}
	}
	if count == 0 {
		return
	}
	if total > p.room*3/4 {
		limit = min(limit, max(p.room/2/count, 60))
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; n.open && n.isOutput() && n.tokens > limit {
			n.now = n.shape(oversizeFit(limit))
		}
	}
}

// oversizeFit shows at most about limit tokens of what a tool printed, and names the
// item, so that the rest can be asked for.
func oversizeFit(limit int) fit { return fit{fitRef, limit * 4 * 2 / 3, max(limit*4/3-80, 0)} }

// isOutput reports whether the node holds what a tool printed.
func (n *node) isOutput() bool {
	return n.kind == transcript.KindToolResult || n.kind == transcript.KindCommand
}

func (p *planner) mustTokens() int {
	sum := 0
	for i := range p.nodes {
		if n := &p.nodes[i]; n.must {
			sum += n.now.tokens
		}
	}
	return sum
}

// chooseVerbatim marks the user messages that I9 wants verbatim, newest first. A
// message before the cut is quoted in the checkpoint; those for which its part of
// the checkpoint is too small are retained as items. The bound is what I9 says, or
// what there is room for.
func (p *planner) chooseVerbatim() {
	quotes := max(0, (p.quoteLimit()*4-600)*6/10) // code points
	spare := max(0, p.room-p.must-p.limit-smallest-p.room/20)
	left := min(p.in.Scale.Units(verbatimMax), p.room/5, spare)
	p.verbatim = map[transcript.ItemID]bool{}
	for i := len(p.nodes) - 1; i >= 0; i-- {
		n := &p.nodes[i]
		if n.kind != transcript.KindUserMessage || n.must || saysNothing(n.text) {
			continue
		}
		n.quoted = !n.piece().gap && n.tokens <= left // also if only an image beside it was left out
		p.verbatim[n.item.ID] = n.quoted
		if !n.quoted {
			continue
		}
		left -= n.tokens
		if cost := utf8.RuneCountInString(quote(n.text)); cost <= quotes {
			quotes -= cost
		} else {
			p.pin(i)
			p.must += n.tokens
		}
	}
	p.verbatimLeft = min(left, quotes/4)
}
