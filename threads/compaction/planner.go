package compaction

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of the Target formula, in tokens.
const (
	targetShare = 0.35
	targetMin   = 4_000
	targetMax   = 24_000
)

// Target returns the size that a local compaction aims at: the base, and of what
// the window leaves beside it a share that is neither too small to work with nor
// larger than models attend to well. It stays below the point at which the next
// compaction would be due.
func Target(base, window int) int {
	if window <= 0 {
		return base + targetMax
	}
	t := base + min(max(int(targetShare*float64(window-base)), targetMin), targetMax)
	return min(t, window*85/100)
}

// A node is an entry as the planner sees it.
type node struct {
	item   *transcript.Item
	form   transcript.Form // in the context that is compacted
	kind   transcript.Kind
	text   string // of the body, as the ruler sees it
	body   string // the part of text that a clipped form replaces
	fixed  int    // code points that stay when the text is replaced
	images int    // they go when the text is replaced
	tokens int
	unit   int32

	open   bool // not read yet, or in flight: always whole
	must   bool // retained wherever the cut is
	never  bool // never retained: an orphan result, or nothing a model sees
	quoted bool // a user message that survives verbatim (I9)

	act        *action // of calls, commands and file changes
	age        int     // tokens that the agent wrote after this item
	rank       int     // results after this one
	failed     bool    // a result that reports an error
	refused    bool    // a call that the user refused, or its result
	vain       bool    // a call that did nothing: it was refused, or failed
	source     verb    // of a result: what its call did
	superseded bool    // a read of a file that was read or changed again
	pruned     bool    // shortened by the prune pass
	cache      []shot  // shapes made so far
	now        shape   // the shape it is retained in
	kept       bool
}

// A unit is what must stay on one side of the cut: a call with its results.
type unit struct {
	members []int32
	last    int32
	must    bool
}

// planner holds everything about one compaction. It belongs to one call of
// Compose.
type planner struct {
	in        Input
	nodes     []node
	units     []unit
	prev      []*transcript.Item // checkpoints to fold, oldest first
	led       *ledger            // facts up to now, the folded ones included
	before    int
	target    int
	asked     int // target − base, as asked for
	room      int // the same, perhaps raised
	must      int // tokens of what is retained wherever the cut is
	limit     int // tokens that the checkpoint may have
	most      int // a recovery's bound of the whole context, 0 if there is none
	cut       int
	stubLimit int // tokens that stubs may have
	step      int // of prices
	ask       int // index of the last user message, −1 if there is none
	plan      int // index of the item with the current plan, −1

	verbatim     map[transcript.ItemID]bool // user messages of this epoch: whether I9 wants them verbatim
	verbatimLeft int                        // tokens of that budget left to messages of earlier epochs
}

func newPlanner(in Input) (*planner, error) {
	p := &planner{in: in, ask: -1, plan: -1, before: in.Base, nodes: make([]node, 0, len(in.Entries))}
	for i := range in.Entries {
		e := &in.Entries[i]
		if e.Item.Body == nil {
			return nil, fmt.Errorf("compose: item %q has no body", e.Item.ID)
		}
		if _, ok := e.Item.Body.(transcript.Checkpoint); ok {
			p.prev = append(p.prev, &e.Item)
			p.before += transcript.Tokens(e.Item.Body)
			continue
		}
		n := newNode(e)
		n.tokens += in.Image * n.images
		n.now = n.asIs()
		n.open = in.Open[e.Item.ID]
		p.before += n.tokens
		p.nodes = append(p.nodes, n)
	}
	p.target = in.Budget
	if p.target <= 0 {
		p.target = in.Scale.Units(Target(in.Scale.Tokens(in.Base), in.Scale.Tokens(in.Window)))
	}
	p.asked = p.target - in.Base
	p.room = p.asked
	return p, nil
}

// newNode measures an entry and reads what it did.
func newNode(e *transcript.Entry) node {
	n := node{item: &e.Item, form: e.Form, kind: e.Item.Body.Kind(), text: transcript.Text(e.Item.Body)}
	if n.form == "" {
		n.form = transcript.FormWhole
	}
	n.body = n.text
	switch b := e.Item.Body.(type) {
	case transcript.ToolCall:
		n.fixed = utf8.RuneCountInString(b.Name) + 1
		n.body = n.text[len(b.Name)+1:]
		a := readCall(b)
		n.act = &a
	case transcript.ToolResult:
		n.failed = b.IsError
		n.refused = b.IsError && isRefusal(n.body)
	case transcript.Command:
		n.fixed = utf8.RuneCountInString(b.Command) + 1
		n.body = b.Output
		n.failed = b.ExitCode != nil && *b.ExitCode != 0 || b.Status == "failed"
		n.vain = n.failed
		a := readCommand(b)
		n.act = &a
	case transcript.FileChange:
		n.fixed = len("update \n\n")
		a := readChange(b)
		n.act = &a
		n.vain = b.Status == "failed" || b.Status == "declined"
		if n.form != transcript.FormWhole && len(b.Changes) == 1 {
			n.body = b.Changes[0].Diff
		}
	case transcript.Plan:
		n.fixed = len("[pending] \n")
		if n.form != transcript.FormWhole && len(b.Steps) == 1 {
			n.body = b.Steps[0].Step
		}
	case transcript.ContextCompaction:
		n.never = true
	}
	n.tokens = tokensOf(utf8.RuneCountInString(n.text))
	n.images = transcript.Images(e.Item.Body)
	return n
}

// group joins calls with their results, and finds what is open. A result belongs
// to every call of its id that waits for one (ids may repeat, and then it is
// safer to keep all of them together than to guess), and to the pair that was
// answered last if none waits. A result that no call precedes is an orphan: it is
// always summarised, because a request that holds it is refused on every wire.
func (p *planner) group() {
	waiting := map[transcript.CallID][]int32{}
	answered := map[transcript.CallID]int32{}
	for i := range p.nodes {
		n := &p.nodes[i]
		n.unit = int32(len(p.units))
		switch b := n.item.Body.(type) {
		case transcript.ToolCall:
			waiting[b.CallID] = append(waiting[b.CallID], n.unit)
		case transcript.ToolResult:
			if u, ok := p.owner(b.CallID, waiting, answered); ok {
				p.answer(u, i)
				continue
			}
			n.never = !n.open
		}
		p.units = append(p.units, unit{members: []int32{int32(i)}, last: int32(i)})
	}
	p.pinWaiting(waiting)
}

// owner returns the unit that the next result of a call id belongs to, joined of
// all calls that wait for it. It reports false for an orphan.
func (p *planner) owner(id transcript.CallID, waiting map[transcript.CallID][]int32, answered map[transcript.CallID]int32) (int32, bool) {
	if calls := waiting[id]; len(calls) > 0 {
		for _, c := range calls[1:] {
			p.join(calls[0], c)
		}
		delete(waiting, id)
		answered[id] = calls[0]
	}
	u, ok := answered[id]
	return u, ok
}

// answer adds the result at i to the unit of its call.
func (p *planner) answer(u int32, i int) {
	n, un := &p.nodes[i], &p.units[u]
	n.unit = u
	call := &p.nodes[un.members[0]]
	if call.act != nil {
		n.source = call.act.verb
	}
	call.refused = call.refused || n.refused
	call.vain = call.vain || n.refused || n.failed && !strings.Contains(n.body, "may have run")
	un.members = append(un.members, int32(i))
	un.last = int32(i)
}

// join moves the members of unit b to unit a, which began earlier.
func (p *planner) join(a, b int32) {
	for _, m := range p.units[b].members {
		p.nodes[m].unit = a
	}
	p.units[a].members = append(p.units[a].members, p.units[b].members...)
	p.units[a].last = max(p.units[a].last, p.units[b].last)
	p.units[b] = unit{last: -1}
}

// pinWaiting marks what is open: what the caller says, and calls of the last
// turn that have no result yet. An unanswered call of an earlier turn was
// abandoned and is like any other item.
func (p *planner) pinWaiting(waiting map[transcript.CallID][]int32) {
	if len(p.nodes) == 0 {
		return
	}
	turn := p.nodes[len(p.nodes)-1].item.Turn
	for _, units := range waiting {
		for _, u := range units {
			for _, m := range p.units[u].members {
				if p.nodes[m].item.Turn == turn {
					p.nodes[m].open = true
				}
			}
		}
	}
	for i := range p.nodes {
		if p.nodes[i].open {
			p.nodes[i].never = false
			p.pin(i)
		}
	}
}

// pin retains a node and all of its unit wherever the cut is.
func (p *planner) pin(i int) {
	u := &p.units[p.nodes[i].unit]
	u.must = true
	for _, m := range u.members {
		p.nodes[m].must = true
		p.nodes[m].open = p.nodes[m].open || p.nodes[i].open
	}
}

// measureAges fills what the forms of the retained items depend on.
func (p *planner) measureAges() {
	age, rank := 0, 0
	for i := len(p.nodes) - 1; i >= 0; i-- {
		n := &p.nodes[i]
		n.age, n.rank = age, rank
		switch n.kind {
		case transcript.KindAgentMessage, transcript.KindReasoning, transcript.KindToolCall, transcript.KindFileChange:
			age += n.tokens
		case transcript.KindCommand, transcript.KindToolResult:
			rank++
		case transcript.KindUserMessage:
			if p.ask < 0 && !isInterruption(n.text) {
				p.ask = i
			}
		default: // makes nothing older
		}
		if p.plan < 0 && (n.kind == transcript.KindPlan || n.act != nil && n.act.plan != nil) && n.form == transcript.FormWhole {
			p.plan = i
		}
	}
}

// decideCut retains the tail from the cut on and what must be retained before it.
func (p *planner) decideCut(cut int) {
	p.cut = cut
	for i := range p.nodes {
		n := &p.nodes[i]
		n.kept = !n.never && (i >= cut || n.must || int(p.units[n.unit].last) >= cut)
	}
}
