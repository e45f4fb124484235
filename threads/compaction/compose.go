package compaction

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Input is what a local compaction works on. It is only read.
type Input struct {
	Entries []transcript.Entry // the context of the current epoch; Entries[0] may be its checkpoint
	Open    map[transcript.ItemID]bool
	Base    int // tokens no compaction can shrink
	Window  int // context window in tokens; 0 if unknown
	Budget  int // bound of the whole resulting context; 0: the Target formula
	// Scale is tokens per unit. Base, Window, Budget and all sizes of a plan are units;
	// the bounds that this package knows by itself are tokens.
	Scale  Scale
	Writer Writer // extractive or fixed
	Facts  Facts  // for the re-anchor and the last line of the checkpoint
	notes  string // what the model wrote, if it is the writer
	// PruneTo is the size at which pruning alone is enough; 0: it never is.
	PruneTo int
	// Image is what an image costs beside its marker; 0 where it is told as text.
	Image int
	// Recover: the provider refused the context, or it left no room for an answer. It
	// must become smaller, whatever that costs.
	Recover bool
}

// Size is the size of the context by the ruler: base, entries, and their images at
// the price of in.
func (in *Input) Size() int {
	n := in.Base
	for i := range in.Entries {
		n += in.size(in.Entries[i].Item.Body)
	}
	return n
}

// Facts is what the server knows about the workspace and the thread's settings,
// restated to the model after a boundary. Empty fields are left out.
type Facts struct {
	Cwd            string
	WritableRoots  []string
	Runtime        string
	Model          string
	Mode           string
	ApprovalPolicy string
	Sandbox        string
	Plan           *transcript.Plan
	Checks         []string // prefixes of commands that verify the work, as configured
	Window         int
	MaxOutput      int      // of one answer
	Budget         Budget   // of the task
	Children       []string // what runs beside the agent, as people would name it: agents, processes
	Recall         string   // the tool that searches archived items; not restated, but named by a checkpoint's last line
}

// Composed is the result of a local compaction, before anything was changed.
type Composed struct {
	Outcome         Outcome // Completed or Unchanged
	Code            string  // of Unchanged
	Target          int
	Before          int // tokens of Base + Entries
	After           int // tokens of Base + checkpoint + kept items + re-anchor; = Before if Unchanged
	Checkpoint      transcript.Checkpoint
	Kept            []transcript.Kept
	Summarized      []transcript.ItemID
	Pruned          []transcript.ItemID // shortened by the prune pass
	SummarizedTurns []transcript.TurnID
	RetainedTurns   []transcript.TurnID
	Split           *Split
	Items           ItemCounts
	Fidelity        Fidelity
	Reanchor        string // for the first request of the new epoch
	Writer          Writer // that wrote the checkpoint; empty if there is none
	Means           Means
	// Prune is set if pruning was enough: there is no checkpoint and no new epoch, and
	// these items are shown shorter. Kept and Summarized are then empty.
	Prune []transcript.Kept
}

// Means says by what a context became smaller, and so what it promises.
type Means string

// The means.
const (
	MeansPlan     Means = ""         // all that I9 says, or a prune
	MeansDrop     Means = "drop"     // the last resort of a recovery: of I9 only the last request and open items
	MeansPressure Means = "pressure" // Pressure
)

// Compose makes the smaller context of a local compaction: checkpoint, retained
// items, re-anchor; or, if pruning is enough, some items in a smaller form. It is a
// pure function of in: the same input gives the same bytes, nothing of it is
// changed, and its cost is linear in the items. It fails only if an item has no
// body.
//
// The outcome is completed, or unchanged with a code. A target that comes from
// the formula is raised when what must survive whole (the last user request, what
// is open) leaves too little room in it; a budget that the caller gave never is.
// With Recover unchanged has one code left, and means that nothing can help.
func Compose(in Input) (*Composed, error) {
	if in.Recover {
		return composeRecovery(in)
	}
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	if p.before <= p.target || p.repeated() {
		return p.unchanged(CodeNothingToCompact), nil
	}
	p.group()
	p.measureAges()
	if c := p.pruneOnly(in.PruneTo); c != nil {
		return c, nil
	}
	if !p.reserve() {
		return p.unchanged(CodeOverheadExceedsBudget), nil
	}
	if p.before <= p.target { // raised
		return p.unchanged(CodeNothingToCompact), nil
	}
	return p.finish()
}

// finish composes what was reserved for, or says why it cannot.
func (p *planner) finish() (*Composed, error) {
	p.prune(p.target)
	p.collect()
	c, err := p.compose()
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return p.unchanged(CodeOverheadExceedsBudget), nil
	case c.After >= c.Before:
		return p.unchanged(CodeNoGain), nil
	}
	return c, nil
}

// repeated reports whether nothing was added since a checkpoint that was made
// for no more room than there is now.
func (p *planner) repeated() bool {
	if len(p.prev) != 1 {
		return false
	}
	l := readLedger(p.prev[0].Body.(transcript.Checkpoint))
	return l != nil && l.Kept == len(p.nodes) && l.Room <= p.asked
}

// unchanged is the result that leaves the context as it is.
func (p *planner) unchanged(code string) *Composed {
	return &Composed{Outcome: Unchanged, Code: code, Target: p.target, Before: p.before, After: p.before}
}

// compose plans, writes and verifies. It returns nil if the result cannot be made
// to fit.
func (p *planner) compose() (*Composed, error) {
	reanchor := p.reanchor(p.reanchorLimit())
	room := p.room - runeTokens(reanchor)
	l, text := p.draft(room)
	if l == nil {
		return nil, nil
	}
	text, fidelity := p.verify(l, text, room)
	left := room - p.settle() - runeTokens(text)
	if left < 0 {
		return nil, nil
	}
	p.promote(left)
	return p.result(l, text, reanchor, fidelity)
}

// reanchorLimit is how many tokens the snapshot may have.
func (p *planner) reanchorLimit() int {
	return min(reanchorMax, p.room/20, max(p.room-p.must, 0)/4)
}

// result puts together what was planned and written.
func (p *planner) result(l *ledger, text, reanchor string, fidelity Fidelity) (*Composed, error) {
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	c := &Composed{
		Outcome: Completed, Target: p.target, Before: p.before, Writer: p.writer(),
		Checkpoint: transcript.Checkpoint{Version: p.version(), Text: text, Ledger: (*transcript.RawJSON)(&raw)},
		Fidelity:   fidelity, Reanchor: reanchor,
	}
	p.account(c)
	return c, nil
}

// stubNotes is the part of the room, one in so many, that a checkpoint has which
// stands for little more than stubs.
const stubNotes = 8

// draft finds the cut and writes the checkpoint for it: first with nothing left
// out but old stubs, which needs but a small checkpoint, then with the full one.
func (p *planner) draft(room int) (*ledger, string) {
	if p.in.Writer == WriterModel {
		return p.draftModel(room)
	}
	p.stubLimit = stubLimit(p.room)
	p.decideCut(0)
	l := p.absorb()
	text := p.write(l, p.limit)
	if p.fitTail(room-runeTokens(text)) && p.cut == 0 {
		return l, text
	}
	if p.onlyStubs() {
		if l, text := p.draftNotes(room); l != nil {
			return l, text
		}
		if p.room >= overviewRoom {
			p.stubLimit = p.room
			if p.fitTail(room-runeTokens(text)) && p.cut == 0 {
				p.decideCut(0)
				return l, text
			}
		}
	}
	if !p.fitTail(room - p.limit) {
		return nil, ""
	}
	l = p.absorb()
	return l, p.write(l, p.limit*9/10) // the rest is for what verify finds missing
}

// draftNotes is draft for a checkpoint that stands for little more than stubs. It
// returns nil if that would be too small.
func (p *planner) draftNotes(room int) (*ledger, string) {
	limit := min(p.limit, p.room/stubNotes)
	if p.fitTail(room-limit) && p.onlyStubs() {
		l := p.absorb()
		if text := p.write(l, limit*9/10); runeTokens(text) <= limit && p.holdsAll(l, text) {
			return l, text
		}
	}
	return nil, ""
}

// holdsAll reports whether a checkpoint, with what is retained, holds every
// message of the user that is owed verbatim, and every fact but names, which can
// still be added.
func (p *planner) holdsAll(l *ledger, text string) bool {
	for i := range p.nodes {
		if n := &p.nodes[i]; n.quoted && !n.kept && !strings.Contains(text, quote(n.text)) {
			return false
		}
	}
	p.settle()
	return !slices.ContainsFunc(p.missing(p.facts(l), text), func(f fact) bool { return !f.name })
}

// onlyStubs reports whether the cut that fitTail chose is there for the sake of
// stubs alone. A checkpoint for it need not be as large as for a cut in the
// middle of the work.
func (p *planner) onlyStubs() bool {
	_, cut := p.sumAt(p.step)
	return p.cut == cut
}

// write makes the text of the checkpoint with the writer asked for.
func (p *planner) write(l *ledger, limit int) string {
	if p.in.Writer == WriterFixed {
		return p.writeFixed(l, limit)
	}
	return p.writeExtractive(l, limit)
}

func (p *planner) writer() Writer {
	if p.in.Writer == "" {
		return WriterExtractive
	}
	return p.in.Writer
}

func (p *planner) version() string {
	switch p.in.Writer {
	case WriterFixed:
		return VersionFixed
	case WriterModel:
		return VersionModel
	default:
		return VersionExtractive
	}
}

// account lists what became of every entry (I3).
func (p *planner) account(c *Composed) {
	c.After = p.in.Base + transcript.Tokens(c.Checkpoint) + runeTokens(c.Reanchor)
	for _, it := range p.prev {
		c.Summarized = append(c.Summarized, it.ID)
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		if !n.kept {
			c.Summarized = append(c.Summarized, n.item.ID)
			continue
		}
		c.Kept = append(c.Kept, transcript.Kept{ItemID: n.item.ID, Form: n.now.form, Text: n.now.text})
		c.After += n.now.tokens
		c.Items.add(n.now.form)
		if n.pruned && n.now.form != n.form {
			c.Pruned = append(c.Pruned, n.item.ID)
		}
	}
	c.Items.Summarized = len(c.Summarized)
	p.accountTurns(c)
}

// accountTurns divides the turns, and finds the last one that the boundary goes
// through.
func (p *planner) accountTurns(c *Composed) {
	first := map[transcript.TurnID]transcript.ItemID{} // first retained item
	loses := map[transcript.TurnID]bool{}
	for i := range p.nodes {
		n := &p.nodes[i]
		if _, ok := first[n.item.Turn]; !ok && n.kept {
			first[n.item.Turn] = n.item.ID
		}
		loses[n.item.Turn] = loses[n.item.Turn] || !n.kept
	}
	for _, turn := range turnsOf(p.in.Entries) {
		id, retained := first[turn]
		if !retained {
			c.SummarizedTurns = append(c.SummarizedTurns, turn)
			continue
		}
		c.RetainedTurns = append(c.RetainedTurns, turn)
		if loses[turn] {
			c.Split = &Split{TurnID: turn, FirstRetainedItemID: id}
		}
	}
}

// turnsOf lists the turns of entries in order of their first item. A checkpoint
// belongs to no turn of the epoch.
func turnsOf(entries []transcript.Entry) []transcript.TurnID {
	seen := map[transcript.TurnID]bool{}
	var turns []transcript.TurnID
	for i := range entries {
		it := &entries[i].Item
		if it.Turn == "" || seen[it.Turn] || it.Body.Kind() == transcript.KindCheckpoint {
			continue
		}
		seen[it.Turn] = true
		turns = append(turns, it.Turn)
	}
	return turns
}

// add counts an item that is retained in a form.
func (c *ItemCounts) add(f transcript.Form) {
	switch f {
	case transcript.FormWhole:
		c.Whole++
	case transcript.FormClipped:
		c.Clipped++
	case transcript.FormStub:
		c.Stub++
	}
}

func runeTokens(s string) int { return tokensOf(utf8.RuneCountInString(s)) }
