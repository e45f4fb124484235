package compaction

import (
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What the prune pass leaves alone, and when it is worth its price: every prune
// makes the provider read its cached prefix anew from the first changed item on.
const (
	pruneProtect = 10     // newest results
	pruneYield   = 20_000 // tokens saved
)

// prune stubs old tool results: superseded ones first (a read of a file that was
// read again or edited later), then the oldest, until goal tokens are reached. It
// does nothing unless it saves pruneYield tokens or reaches the goal. It is
// idempotent: what is a stub already has nothing left to give.
func (p *planner) prune(goal int) {
	order, saved := p.prunable(), 0
	need := p.before - goal
	var done []int
	for _, i := range order {
		if saved >= need {
			break
		}
		n := &p.nodes[i]
		if s := n.shape(fit{mode: fitStub}); s.tokens < n.tokens {
			saved += n.tokens - s.tokens
			done = append(done, i)
		}
	}
	if saved < pruneYield && saved < need {
		return
	}
	for _, i := range done {
		p.nodes[i].pruned = true
	}
}

// prunable lists results that may be stubbed, superseded ones first, each group
// from old to new.
func (p *planner) prunable() []int {
	reads := map[transcript.CallID]string{}
	later := map[string]int{} // the last item that read or changed a file
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.act == nil || (n.act.verb != verbRead && n.act.verb != verbEdit) {
			continue
		}
		for _, path := range n.act.paths {
			if n.act.verb == verbEdit || n.act.whole {
				later[path] = i
			}
			if c, ok := n.item.Body.(transcript.ToolCall); ok && n.act.verb == verbRead {
				reads[c.CallID] = path
			}
		}
	}
	var first, rest []int
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.open || n.never || n.rank < pruneProtect || n.kind != transcript.KindToolResult && n.kind != transcript.KindCommand {
			continue
		}
		r, _ := n.item.Body.(transcript.ToolResult)
		if path, ok := reads[r.CallID]; ok && later[path] > i {
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	return append(first, rest...)
}
