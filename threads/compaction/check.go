package compaction

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Check reports the first way in which a composed context breaks the contract
// (I2, I3, I4, I9, the budget). It measures everything anew from the input and
// what would be committed, and trusts no count of c.
func Check(in Input, c *Composed) error {
	if c.Outcome != Completed {
		if c.After != c.Before || len(c.Kept) > 0 || len(c.Summarized) > 0 || len(c.Prune) > 0 {
			return fmt.Errorf("check: outcome %q, but the context changes", c.Outcome)
		}
		return nil
	}
	k := newChecker(in, c)
	steps := []func() error{k.items, k.pairs, k.turns, k.sizes, k.survivors, k.form}
	if c.Prune != nil {
		steps = []func() error{k.pruneOnly, k.pruned, k.turns}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	return nil
}

type checker struct {
	in   Input
	c    *Composed
	kept map[transcript.ItemID]transcript.Kept
	gone map[transcript.ItemID]bool
}

func newChecker(in Input, c *Composed) *checker {
	return &checker{in: in, c: c, kept: map[transcript.ItemID]transcript.Kept{}, gone: map[transcript.ItemID]bool{}}
}

// richness orders the forms.
var richness = map[transcript.Form]int{transcript.FormStub: 1, transcript.FormClipped: 2, transcript.FormWhole: 3, "": 3}

// items checks that summarised and retained items are disjoint and complete, in
// order, and counted.
func (k *checker) items() error {
	if err := k.sides(); err != nil {
		return err
	}
	var counts ItemCounts
	next := 0
	for i := range k.in.Entries {
		e := &k.in.Entries[i]
		kept, ok := k.kept[e.Item.ID]
		switch {
		case !ok && !k.gone[e.Item.ID]:
			return fmt.Errorf("item %s is neither summarised nor retained", e.Item.ID)
		case !ok:
			counts.Summarized++
			continue
		case next >= len(k.c.Kept) || k.c.Kept[next].ItemID != e.Item.ID:
			return fmt.Errorf("retained item %s is out of order", e.Item.ID)
		}
		next++
		if err := countForm(&counts, kept, e.Form); err != nil {
			return err
		}
	}
	if next != len(k.c.Kept) || counts.Summarized != len(k.c.Summarized) {
		return fmt.Errorf("%d retained and %d summarised items are not all of the context", len(k.c.Kept), len(k.c.Summarized))
	}
	if counts != k.c.Items {
		return fmt.Errorf("counts are %+v, want %+v", k.c.Items, counts)
	}
	return nil
}

// sides notes on which side each item is, and checks that it is on one.
func (k *checker) sides() error {
	for _, kept := range k.c.Kept {
		if _, twice := k.kept[kept.ItemID]; twice {
			return fmt.Errorf("item %s is retained twice", kept.ItemID)
		}
		k.kept[kept.ItemID] = kept
	}
	for _, id := range k.c.Summarized {
		if _, ok := k.kept[id]; ok || k.gone[id] {
			return fmt.Errorf("item %s is summarised and also retained or summarised twice", id)
		}
		k.gone[id] = true
	}
	return nil
}

// countForm counts a retained item by its form, which is never richer than the
// one that it had.
func countForm(counts *ItemCounts, kept transcript.Kept, before transcript.Form) error {
	switch kept.Form {
	case transcript.FormWhole:
		counts.Whole++
	case transcript.FormClipped:
		counts.Clipped++
	case transcript.FormStub:
		counts.Stub++
	default:
		return fmt.Errorf("item %s has the unknown form %q", kept.ItemID, kept.Form)
	}
	if richness[kept.Form] > richness[before] {
		return fmt.Errorf("item %s is %s and would become %s", kept.ItemID, before, kept.Form)
	}
	return nil
}

// turns checks which turns are summarised, retained and split.
func (k *checker) turns() error {
	first := map[transcript.TurnID]transcript.ItemID{}
	loses := map[transcript.TurnID]bool{}
	for i := range k.in.Entries {
		it := &k.in.Entries[i].Item
		switch {
		case it.Body.Kind() == transcript.KindCheckpoint:
		case k.gone[it.ID]:
			loses[it.Turn] = true
		case first[it.Turn] == "":
			first[it.Turn] = it.ID
		}
	}
	var gone, kept []transcript.TurnID
	var split *Split
	for _, turn := range turnsOf(k.in.Entries) {
		if first[turn] == "" {
			gone = append(gone, turn)
			continue
		}
		kept = append(kept, turn)
		if loses[turn] {
			split = &Split{turn, first[turn]}
		}
	}
	if !slices.Equal(gone, k.c.SummarizedTurns) || !slices.Equal(kept, k.c.RetainedTurns) {
		return fmt.Errorf("turns are %v and %v, want %v summarised and %v retained", k.c.SummarizedTurns, k.c.RetainedTurns, gone, kept)
	}
	if (split == nil) != (k.c.Split == nil) || split != nil && *split != *k.c.Split {
		return fmt.Errorf("split is %v, want %v", k.c.Split, split)
	}
	return nil
}

// pairs checks that no retained result lacks its call, and no retained call the
// result that it had.
func (k *checker) pairs() error {
	last := map[transcript.CallID]transcript.ItemID{} // newest call of an id
	for i := range k.in.Entries {
		switch b := k.in.Entries[i].Item.Body.(type) {
		case transcript.ToolCall:
			last[b.CallID] = k.in.Entries[i].Item.ID
		case transcript.ToolResult:
			call, ok := last[b.CallID]
			id := k.in.Entries[i].Item.ID
			switch {
			case !ok && !k.gone[id] && !k.in.Open[id]:
				return fmt.Errorf("result %s is retained without a call", id)
			case ok && k.gone[id] != k.gone[call]:
				return fmt.Errorf("call %s and its result %s are on different sides", call, id)
			}
		}
	}
	return nil
}

// size is what a body has by the ruler, its images included.
func (in *Input) size(b transcript.Body) int {
	return transcript.Tokens(b) + in.Image*transcript.Images(b)
}

// sizes measures the new context.
func (k *checker) sizes() error {
	before := k.in.Base
	after := k.in.Base + transcript.Tokens(k.c.Checkpoint) + runeTokens(k.c.Reanchor)
	for i := range k.in.Entries {
		it := k.in.Entries[i].Item
		before += k.in.size(it.Body)
		if kept, ok := k.kept[it.ID]; ok {
			after += k.in.size(transcript.Render(it, kept).Body)
		}
	}
	if err := k.smaller(before, after); err != nil {
		return err
	}
	if k.in.Recover {
		share := recoverShare
		if k.c.Means == MeansDrop {
			share = recoverMost
		}
		if most := k.in.recoverable(before) * share / 100; after > most {
			return fmt.Errorf("%d tokens exceed the %d of a recovery", after, most)
		}
	}
	return nil
}

// smaller compares sizes that were measured with those that c says, and with each
// other.
func (k *checker) smaller(before, after int) error {
	switch {
	case before != k.c.Before || after != k.c.After:
		return fmt.Errorf("sizes are %d and %d, want %d and %d", k.c.Before, k.c.After, before, after)
	case after >= before:
		return fmt.Errorf("the context would grow from %d to %d tokens", before, after)
	case k.c.Prune == nil && after > k.c.Target:
		return fmt.Errorf("%d tokens exceed the target of %d", after, k.c.Target)
	case k.c.Prune == nil && !k.in.Recover && k.c.Means == MeansPlan && k.in.Budget > 0 && after > k.in.Budget:
		return fmt.Errorf("%d tokens exceed the budget of %d", after, k.in.Budget)
	}
	return nil
}

// pruneOnly checks that a prune is nothing else, and wanted.
func (k *checker) pruneOnly() error {
	c := k.c
	switch {
	case k.in.PruneTo <= 0 && !k.in.Recover:
		return errors.New("a prune is not enough here")
	case len(c.Kept) > 0 || len(c.Summarized) > 0 || c.Checkpoint != (transcript.Checkpoint{}) || c.Reanchor != "" || c.Writer != "":
		return errors.New("a prune with a checkpoint")
	case len(c.Prune) == 0:
		return errors.New("a prune of nothing")
	case len(c.Pruned) != len(c.Prune):
		return fmt.Errorf("%d items are pruned and %d are listed", len(c.Prune), len(c.Pruned))
	}
	return nil
}

// pruned checks the items of a prune: outputs of tools in a smaller form, in order,
// none that was not read yet or is one of the newest unless it is too large for the
// window; and that the rest of the context, which stays, makes it small enough.
func (k *checker) pruned() error {
	p, err := newPlanner(k.in)
	if err != nil {
		return err
	}
	p.group()
	p.measureAges()
	enough := k.in.PruneTo
	if k.in.Recover {
		enough = k.in.recoverable(p.before) * recoverShare / 100
	}
	after, next := p.before, 0
	counts := ItemCounts{Whole: len(p.prev)}
	for i := range p.nodes {
		n := &p.nodes[i]
		if next == len(k.c.Prune) || k.c.Prune[next].ItemID != n.item.ID {
			counts.add(n.form)
			continue
		}
		kept := k.c.Prune[next]
		size := k.in.size(transcript.Render(*n.item, kept).Body)
		if k.c.Pruned[next] != kept.ItemID {
			return fmt.Errorf("item %s is pruned, and %s is listed", kept.ItemID, k.c.Pruned[next])
		}
		if err := n.mayBecome(kept, size, p.oversize(enough)); err != nil {
			return err
		}
		if err := countForm(&counts, kept, n.form); err != nil {
			return err
		}
		after += size - n.tokens
		next++
	}
	switch {
	case next != len(k.c.Prune):
		return fmt.Errorf("pruned item %s is out of order or none of the context", k.c.Prune[next].ItemID)
	case counts != k.c.Items:
		return fmt.Errorf("counts are %+v, want %+v", k.c.Items, counts)
	case after > enough:
		return fmt.Errorf("a prune to %d tokens is not enough for %d", after, enough)
	}
	return k.smaller(p.before, after)
}

// mayBecome reports an error if a prune may not show the node as kept, in size tokens.
func (n *node) mayBecome(kept transcript.Kept, size, oversize int) error {
	switch {
	case n.protected() && (!n.isOutput() || kept.Form != transcript.FormClipped || n.tokens <= oversize):
		return fmt.Errorf("item %s is not to be pruned", kept.ItemID)
	case kept.Form == transcript.FormWhole || size >= n.tokens || !strings.Contains(kept.Text, strings.TrimSpace(markOpen)) && n.images == 0:
		return fmt.Errorf("item %s is not shown shorter", kept.ItemID)
	}
	return nil
}

// survivors checks what must survive (I9): open items and the last user request,
// which may be clipped only if they are too large and then keep a reference, and
// the user messages that are owed verbatim.
func (k *checker) survivors() error {
	p, err := k.planner()
	if err != nil {
		return err
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		kept, retained := k.kept[n.item.ID]
		whole := retained && n.stays(kept)
		switch {
		case n.open && !whole && !(retained && n.isOutput()):
			return fmt.Errorf("open item %s does not survive whole", n.item.ID)
		case i == p.ask && !whole && !(retained && strings.Contains(kept.Text, string(n.item.ID))):
			return fmt.Errorf("the last user request %s does not survive", n.item.ID)
		case p.verbatim[n.item.ID] && !whole && !strings.Contains(k.c.Checkpoint.Text, quote(n.text)):
			return fmt.Errorf("user message %s does not survive verbatim", n.item.ID)
		case k.c.Means == MeansPressure && n.must && !whole:
			return fmt.Errorf("item %s is one of the first or the latest and does not survive", n.item.ID)
		}
	}
	return nil
}

// stays reports whether kept shows as much of the node as there was: a clipped one may be
// clipped further, in the same form.
func (n *node) stays(kept transcript.Kept) bool {
	as := n.asIs()
	return richness[kept.Form] == richness[as.form] && kept.Text == as.text
}

// planner is one that has reserved what the means of c promises.
func (k *checker) planner() (*planner, error) {
	switch {
	case k.c.Means == MeansPressure:
		return newPressure(k.in)
	case k.in.Recover:
		p, err := newRecovery(k.in, k.c.Writer, recoverShare)
		if err == nil && k.c.Means != MeansDrop {
			p.reserve()
		}
		return p, err
	case k.c.Means != MeansPlan:
		return nil, fmt.Errorf("means %q without a reason", k.c.Means)
	}
	p, err := newPlanner(k.in)
	if err != nil {
		return nil, err
	}
	p.group()
	p.measureAges()
	p.reserve()
	return p, nil
}

// form checks the frame of the checkpoint.
func (k *checker) form() error {
	t := k.c.Checkpoint.Text
	if !strings.HasPrefix(t, opening(k.c.Checkpoint.Version)) || !strings.HasSuffix(t, k.in.Facts.closing()) {
		return fmt.Errorf("the checkpoint %s has no frame", k.c.Checkpoint.Version)
	}
	if n, most := transcript.Tokens(k.c.Checkpoint), k.in.Scale.Units(checkpointMax); n > most {
		return fmt.Errorf("the checkpoint has %d tokens, more than %d", n, most)
	}
	return nil
}
