package compaction

import (
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A fit is a way to show an item; a shape is what comes out for one item.
type fit struct {
	mode       fitMode
	head, tail int // code points, for fitClip
}

type fitMode uint8

const (
	fitWhole fitMode = iota
	fitClip          // head and tail
	fitArgs          // a call: each argument shortened
	fitBrief         // a call: its main argument and what the new text declares
	fitStub          // a marker, or the few words that say what it was
)

type shape struct {
	form   transcript.Form
	text   string // replaces the item's text unless the form is whole
	tokens int
}

type shot struct {
	fit   fit
	shape shape
}

// shape returns the node shown as f. It is never richer and never larger than
// what the node is now.
func (n *node) shape(f fit) shape {
	for i := range n.cache {
		if n.cache[i].fit == f {
			return n.cache[i].shape
		}
	}
	s := n.makeShape(f)
	n.cache = append(n.cache, shot{f, s})
	return s
}

// asIs is the node in the form that it has now.
func (n *node) asIs() shape {
	s := shape{form: n.form, tokens: n.tokens}
	if n.form != transcript.FormWhole {
		s.text = n.body
	}
	return s
}

func (n *node) makeShape(f fit) shape {
	if f.mode == fitWhole || n.form == transcript.FormStub {
		return n.asIs()
	}
	s := shape{form: transcript.FormClipped}
	switch f.mode {
	case fitClip:
		s.text = n.piece().clip(f.head, f.tail, n.reference())
	case fitArgs:
		s.text = n.shortArgs()
	case fitBrief:
		s.text = n.brief()
	case fitStub:
		s.form, s.text = transcript.FormStub, n.stub()
	}
	s.text = strings.ToValidUTF8(s.text, "\uFFFD")
	s.tokens = tokensOf(n.fixed + utf8.RuneCountInString(s.text))
	if s.tokens >= n.tokens || n.form == transcript.FormWhole && s.text == n.body {
		return n.asIs()
	}
	return s
}

// piece is the replaceable text; of an item that is clipped already, what is
// left of it.
func (n *node) piece() piece {
	if n.form == transcript.FormWhole {
		return wholePiece(n.body, utf8.RuneCountInString(n.body))
	}
	return parsePiece(n.body)
}

// reference is what a marker names so that the model can ask for the text: only
// the user's own words are worth the tokens.
func (n *node) reference() transcript.ItemID {
	if n.kind == transcript.KindUserMessage {
		return n.item.ID
	}
	return ""
}

// shortArgs shows a call with each argument shortened.
func (n *node) shortArgs() string {
	if n.form != transcript.FormWhole || n.act == nil || len(n.act.fields) == 0 {
		return n.piece().clip(400, 120, "")
	}
	lines := make([]string, 0, len(n.act.fields))
	for _, f := range n.act.fields {
		limit := 240
		if isMainKey(f.key) {
			limit = 600
		}
		p := wholePiece(f.text, utf8.RuneCountInString(f.text))
		lines = append(lines, p.clip(limit*3/4, limit/4, ""))
	}
	return strings.Join(lines, "\n")
}

// brief shows what a call was about in a few words.
func (n *node) brief() string {
	if n.form != transcript.FormWhole || n.act == nil {
		return n.piece().clip(160, 0, "")
	}
	s := oneLine(n.act.main, 160)
	for _, d := range declarations(n.act.text, 2) {
		s += "\n" + d
	}
	return s
}

// stub stands for the item; results that failed keep the line that says so.
func (n *node) stub() string {
	switch n.kind {
	case transcript.KindReasoning:
		return strings.TrimSpace(markOpen) + "]"
	case transcript.KindToolCall, transcript.KindFileChange:
		if n.form == transcript.FormWhole && n.act != nil && n.act.main != "" {
			return oneLine(n.act.main, 70)
		}
		return oneLine(firstLine(n.body), 70)
	}
	s := stubMark(n.piece().total)
	if n.failed {
		s += " " + oneLine(errorLine(n.body), 120)
	}
	return s
}

// A rung is one setting of the graded tail.
type rung struct {
	keep      int // results that are shown at all
	cap       int // code points of each of them
	lambda    int // tokens the agent wrote, per step of fidelity; 0: the lowest for all but the newest
	reasoning int // newest tokens of reasoning that are kept
}

const unbounded = 1 << 40

// ladder goes from generous to tight. The first rung that fits is taken.
var ladder = []rung{
	{unbounded, 40_000, unbounded, unbounded},
	{10, 40_000, unbounded, unbounded},
	{10, 16_000, unbounded, 20_000},
	{10, 8_000, unbounded, 10_000},
	{8, 6_000, unbounded, 6_000},
	{8, 4_000, unbounded, 4_000},
	{6, 4_000, unbounded, 3_000},
	{6, 3_000, unbounded, 2_000},
	{6, 2_400, 40_000, 1_500},
	{6, 2_400, 28_000, 1_500},
	{6, 2_400, 20_000, 1_500},
	{6, 2_400, 14_000, 1_500},
	{6, 2_400, 10_000, 1_500},
	{5, 1_600, 8_000, 800},
	{5, 1_600, 6_000, 800},
	{5, 1_600, 4_500, 800},
	{5, 1_600, 3_400, 800},
	{4, 1_000, 2_600, 300},
	{4, 1_000, 2_000, 300},
	{4, 1_000, 1_500, 300},
	{4, 1_000, 1_100, 300},
	{3, 800, 800, 0},
	{3, 800, 600, 0},
	{3, 800, 400, 0},
	{3, 800, 250, 0},
	{3, 800, 120, 0},
	{3, 800, 0, 0},
}

// level is the step of fidelity of an item of the given age, 0 the best.
func (r rung) level(age int) int {
	switch {
	case age < r.lambda:
		return 0
	case age < 3*r.lambda:
		return 1
	case age < 9*r.lambda:
		return 2
	}
	return 3
}

// fitOf says how the rung shows a node.
func (r rung) fitOf(n *node) fit {
	lvl := r.level(n.age)
	switch n.kind {
	case transcript.KindUserMessage:
		if n.quoted {
			return fit{}
		}
		if lvl == 3 {
			return fit{fitClip, 900, 200}
		}
		return fit{fitClip, 2_600, 1_200}
	case transcript.KindAgentMessage, transcript.KindNotice:
		return []fit{{}, {fitClip, 1_200, 400}, {fitClip, 360, 100}, {fitClip, 160, 0}}[lvl]
	case transcript.KindToolCall, transcript.KindFileChange:
		return []fit{{}, {mode: fitArgs}, {mode: fitBrief}, {mode: fitStub}}[lvl]
	case transcript.KindToolResult, transcript.KindCommand:
		if n.rank >= r.keep || n.pruned {
			return fit{mode: fitStub}
		}
		return fit{fitClip, r.cap * 2 / 3, r.cap / 3}
	case transcript.KindReasoning:
		if n.behind >= r.reasoning {
			return fit{mode: fitStub}
		}
	case transcript.KindPlan:
		if lvl > 0 {
			return fit{mode: fitStub}
		}
	case transcript.KindOpaque, transcript.KindImage:
		if lvl == 3 {
			return fit{mode: fitStub}
		}
	}
	return fit{}
}

// shapeAt is the node as the rung shows it. Open items stay whole.
func (p *planner) shapeAt(i int, r rung) shape {
	n := &p.nodes[i]
	switch {
	case n.open, n.must:
		return n.now
	case i == p.ask || i == p.plan:
		return n.now
	}
	return n.shape(r.fitOf(n))
}

// fitTail chooses the rung and the cut: the most generous rung at which all
// items fit into the budget, else the last allowed one and the earliest cut. It
// reports false if even what must be retained does not fit.
func (p *planner) fitTail(budget, last int) bool {
	for p.rung = 0; p.rung <= last; p.rung++ {
		sum := 0
		for i := range p.nodes {
			if !p.nodes[i].never {
				sum += p.shapeAt(i, ladder[p.rung]).tokens
			}
		}
		if sum <= budget {
			p.decideCut(0)
			return true
		}
	}
	p.rung = last
	return p.dropOldest(budget)
}

// dropOldest moves the cut forward until what is left fits.
func (p *planner) dropOldest(budget int) bool {
	r := ladder[p.rung]
	sum := 0
	for i := range p.nodes {
		if !p.nodes[i].never {
			sum += p.shapeAt(i, r).tokens
		}
	}
	cut := 0
	for ; sum > budget && cut < len(p.nodes); cut++ {
		u := &p.units[p.nodes[cut].unit]
		if u.must || int(u.last) != cut {
			continue
		}
		for _, m := range u.members {
			if !p.nodes[m].never {
				sum -= p.shapeAt(int(m), r).tokens
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
			n.now = p.shapeAt(i, ladder[p.rung])
			sum += n.now.tokens
		}
	}
	return sum
}

// promote spends left tokens on richer forms, the newest items first, and
// returns what is left over.
func (p *planner) promote(left int) int {
	for r := p.rung - 1; r >= 0 && left > 0; r-- {
		for i := len(p.nodes) - 1; i >= 0 && left > 0; i-- {
			n := &p.nodes[i]
			if !n.kept {
				continue
			}
			s := p.shapeAt(i, ladder[r])
			if more := s.tokens - n.now.tokens; more > 0 && more <= left {
				n.now, left = s, left-more
			}
		}
	}
	return left
}

const (
	lastWhole = 26
	lastRung  = 26
)
