package compaction

import (
	"math"
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

// A grade is one form that items of a kind may have, and what a token of it is
// worth when the item is new.
type grade struct {
	fit   fit
	worth float64
}

// W is temporary.
type W struct {
	User, Agent, Call, Result, Reason [6]float64
	Tau                               [5]float64 // user agent call result reason
	Pow                               [5]float64
	Super                             float64
	PruneCap                          int
}

var Weights = W{
	User:   [6]float64{12, 20, 60},
	Agent:  [6]float64{6, 9, 14, 30},
	Call:   [6]float64{8, 12, 20, 60},
	Result: [6]float64{.8, 1.2, 2, 3, 6},
	Reason: [6]float64{2},
	Tau:    [5]float64{8000, 4000, 4000, 1000, 1000},
	Pow:    [5]float64{1, 1, 1, 1, 1},
	Super:  .3, PruneCap: 8000, CkShare: .4, Drop: 79,
}

func decay(age int, tau, pow float64) float64 {
	return math.Pow(1+float64(age)/tau, -pow)
}

const priceSteps = 80

func priceOf(step int) float64 { return .002 * math.Pow(1.18, float64(step)) }

func (p *planner) fitAt(n *node, price float64) fit {
	w := &Weights
	pick := func(i int, worth []float64, fits ...fit) fit {
		d := decay(n.age, w.Tau[i], w.Pow[i])
		if n.superseded {
			d *= w.Super
		}
		for k, f := range fits[:len(fits)-1] {
			if worth[k]*d >= price {
				return f
			}
		}
		return fits[len(fits)-1]
	}
	switch n.kind {
	case transcript.KindUserMessage:
		if n.quoted {
			return fit{}
		}
		return pick(0, w.User[:], fit{}, fit{fitClip, 2_600, 1_200}, fit{fitClip, 900, 200})
	case transcript.KindAgentMessage, transcript.KindNotice:
		return pick(1, w.Agent[:], fit{}, fit{fitClip, 1_200, 400}, fit{fitClip, 360, 100}, fit{fitClip, 160, 0})
	case transcript.KindToolCall, transcript.KindFileChange:
		return pick(2, w.Call[:], fit{}, fit{mode: fitArgs}, fit{mode: fitBrief}, fit{mode: fitStub})
	case transcript.KindToolResult, transcript.KindCommand:
		if n.pruned && w.PruneCap == 0 {
			return fit{mode: fitStub}
		}
		f := pick(3, w.Result[:], fit{}, fit{fitClip, 6000, 2000}, fit{fitClip, 2000, 1000}, fit{fitClip, 650, 300}, fit{fitClip, 200, 100}, fit{mode: fitStub})
		if n.pruned && f.mode != fitStub && (f.mode == fitWhole || f.head > w.PruneCap) {
			f = fit{fitClip, w.PruneCap, w.PruneCap / 2}
		}
		return f
	case transcript.KindReasoning:
		return pick(4, w.Reason[:], fit{}, fit{mode: fitStub})
	case transcript.KindPlan, transcript.KindOpaque, transcript.KindImage:
		return pick(1, w.Agent[:], fit{}, fit{mode: fitStub})
	}
	return fit{}
}

// shapeAt is the node as the rung shows it. Open items stay whole.
func (p *planner) shapeAt(i, step int) shape {
	n := &p.nodes[i]
	switch {
	case n.open, n.must:
		return n.now
	case i == p.ask || i == p.plan:
		return n.now
	}
	return n.shape(p.fitAt(n, priceOf(step)))
}

func (p *planner) fitTail(budget, last int) bool {
	lo, hi := 0, last
	for lo < hi {
		mid := (lo + hi) / 2
		if p.sum(mid) <= budget {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	p.rung = lo
	if p.sum(lo) <= budget {
		p.decideCut(0)
		return true
	}
	return p.dropOldest(budget)
}

func (p *planner) sum(step int) int {
	sum := 0
	for i := range p.nodes {
		if !p.nodes[i].never {
			sum += p.shapeAt(i, step).tokens
		}
	}
	return sum
}

// dropOldest moves the cut forward until what is left fits.
func (p *planner) dropOldest(budget int) bool {
	r := p.rung
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
			n.now = p.shapeAt(i, p.rung)
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
			s := p.shapeAt(i, r)
			if more := s.tokens - n.now.tokens; more > 0 && more <= left {
				n.now, left = s, left-more
			}
		}
	}
	return left
}

var (
	LastWhole = priceSteps - 1
	LastRung  = priceSteps - 1
)
