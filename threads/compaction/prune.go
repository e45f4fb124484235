package compaction

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// What the prune pass leaves alone, and when it is worth its price: every prune
// makes the provider read its cached prefix anew from the first changed item on.
const (
	pruneProtect = 10     // newest results
	pruneYield   = 20_000 // tokens saved
)

// pruneClip is the most that a pruned result shows.
var pruneClip = fit{fitClip, 500, 250}

// prune marks old tool results to be shortened: superseded ones first (a read of
// a file that was read again or changed later), which become stubs, then the
// others from old to new, which keep a few lines, until goal tokens are reached.
// It does nothing unless it saves pruneYield tokens or reaches the goal, and
// nothing more when it is done again.
func (p *planner) prune(goal int) {
	need, saved := p.before-goal, 0
	var chosen []int
	for _, i := range p.prunable() {
		if saved >= need {
			break
		}
		n := &p.nodes[i]
		f := pruneClip
		if n.superseded {
			f = fit{mode: fitStub}
		}
		if s := n.shape(f); s.tokens < n.tokens {
			saved += n.tokens - s.tokens
			chosen = append(chosen, i)
		}
	}
	if saved < pruneYield && saved < need {
		return
	}
	for _, i := range chosen {
		p.nodes[i].pruned = true
	}
}

// prunable lists results that may be pruned, superseded ones first, each group
// from old to new, and marks the superseded ones.
func (p *planner) prunable() []int {
	reads := map[transcript.CallID]string{}
	later := map[string]int{} // the last item that read or changed a file
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.act == nil || n.act.verb != verbRead && n.act.verb != verbEdit {
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
		if n.open || n.never || n.rank < pruneProtect || !n.isOutput() {
			continue
		}
		r, _ := n.item.Body.(transcript.ToolResult)
		if path, ok := reads[r.CallID]; ok && later[path] > i {
			n.superseded = true
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	return append(first, rest...)
}
