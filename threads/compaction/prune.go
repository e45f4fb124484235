package compaction

import (
	"cmp"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What the prune pass leaves alone, and when it is worth its price: every prune
// makes the provider read its cached prefix anew from the first changed item on.
const (
	pruneProtect = 10     // newest results
	pruneYield   = 20_000 // tokens saved
)

// pruneClip is the most that a pruned result shows.
var pruneClip = fit{fitClip, 500, 250}

// A pruning is an item and the shape that the prune pass gives it.
type pruning struct {
	at    int
	shape shape
}

// prune marks what the prune pass shortens to reach the goal. It marks nothing more
// when it is done again.
func (p *planner) prune(goal int) {
	list, _ := p.prunings(goal, goal)
	for _, c := range list {
		p.nodes[c.at].pruned = true
	}
}

// prunings lists old tool results to be shortened, and what that saves: superseded
// ones first (a read of a file that was read again or changed later), which become
// stubs, then the others from old to new, which keep a few lines, until the goal is
// reached. There are none unless they save pruneYield tokens or bring the context to
// what is enough.
func (p *planner) prunings(goal, enough int) (list []pruning, saved int) {
	need := p.before - goal
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
			list = append(list, pruning{i, s})
		}
	}
	if saved < p.in.Scale.Units(pruneYield) && p.before-saved > enough {
		return nil, 0
	}
	return list, saved
}

// prunable lists results that may be pruned, superseded ones first, each group
// from old to new, and marks the superseded ones.
func (p *planner) prunable() []int {
	reads := map[transcript.CallID][]string{}
	later := map[string]int{} // the last item that read or changed a file
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.act == nil || n.vain || n.act.verb != verbRead && n.act.verb != verbEdit {
			continue
		}
		for _, path := range n.act.paths {
			if n.act.verb == verbEdit || n.act.whole {
				later[path] = i
			}
			if c, ok := n.item.Body.(transcript.ToolCall); ok && n.act.verb == verbRead {
				reads[c.CallID] = append(reads[c.CallID], path)
			}
		}
	}
	var first, rest []int
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.protected() {
			continue
		}
		r, _ := n.item.Body.(transcript.ToolResult)
		stale := func(path string) bool { return later[path] > i }
		if paths := reads[r.CallID]; len(paths) > 0 && !slices.ContainsFunc(paths, func(path string) bool { return !stale(path) }) {
			n.superseded = true
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	return append(first, rest...)
}

// protected reports whether the prune pass leaves a node alone: it is no output of a
// tool, it was not read yet, or it is one of the newest, counted from the end.
func (n *node) protected() bool {
	return n.open || n.never || n.rank < pruneProtect || !n.isOutput()
}

// pruneOnly returns the context as pruning alone leaves it, nil if that has more
// than enough tokens. It goes on to the target where there is that much to prune: the
// cache is lost anyway. If old results are not sufficient, results that are too large
// for the window are clipped wherever they stand.
func (p *planner) pruneOnly(enough int) *Composed {
	if enough <= 0 || p.before <= enough {
		return nil
	}
	list, saved := p.prunings(min(p.target, enough), enough)
	if p.before-saved > enough {
		more, n := p.clipOversize(p.before-saved, enough)
		list, saved = append(list, more...), saved+n
	}
	if len(list) == 0 || p.before-saved > enough {
		return nil
	}
	slices.SortFunc(list, func(a, b pruning) int { return cmp.Compare(a.at, b.at) })
	return p.pruned(list)
}

// oversize is the size from which on a result is too large for the window: it is
// clipped even if it is new, or not read yet.
func (p *planner) oversize(enough int) int {
	if p.in.Window > 0 {
		return min(p.in.Window, enough) / 4
	}
	return enough / 4
}

// clipOversize shortens the results that are protected and too large, so that a
// context of size tokens has enough, and says what that saves.
func (p *planner) clipOversize(size, enough int) (list []pruning, saved int) {
	least := p.oversize(enough)
	var large []int
	rest := size
	for i := range p.nodes {
		if n := &p.nodes[i]; n.isOutput() && n.protected() && !n.never && n.tokens > least {
			large = append(large, i)
			rest -= n.tokens
		}
	}
	if len(large) == 0 || rest >= enough {
		return nil, 0
	}
	limit := min(least, max((enough-rest)/len(large), 60))
	for _, i := range large {
		if s := p.nodes[i].shape(oversizeFit(limit)); s.tokens < p.nodes[i].tokens {
			list = append(list, pruning{i, s})
			saved += p.nodes[i].tokens - s.tokens
		}
	}
	return list, saved
}

// pruned is the result of a prune: everything is retained, some of it shorter.
func (p *planner) pruned(list []pruning) *Composed {
	c := &Composed{Outcome: Completed, Target: p.target, Before: p.before, After: p.before, RetainedTurns: turnsOf(p.in.Entries)}
	c.Items.Whole = len(p.prev)
	for i := range p.nodes {
		n := &p.nodes[i]
		if len(list) == 0 || list[0].at != i {
			c.Items.add(n.form)
			continue
		}
		s := list[0].shape
		list = list[1:]
		c.After += s.tokens - n.tokens
		c.Items.add(s.form)
		c.Pruned = append(c.Pruned, n.item.ID)
		c.Prune = append(c.Prune, transcript.Kept{ItemID: n.item.ID, Form: s.form, Text: s.text})
	}
	return c
}
