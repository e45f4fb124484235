package compaction

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A check that never fires is no check: each rule is broken once, and the right
// one must say so.
func TestCheckCatchesEveryBrokenRule(t *testing.T) {
	t.Parallel()
	entries := renumber(append(script("u a u a u", 1, 400), script("t c1 r1 a", 100, 400)...))
	in := Input{Entries: entries, Budget: 2_000, Open: openOf(entries, 102)}
	kept := func(c *Composed, id transcript.ItemID) *transcript.Kept {
		i := slices.IndexFunc(c.Kept, func(k transcript.Kept) bool { return k.ItemID == id })
		return &c.Kept[i]
	}
	drop := func(c *Composed, id transcript.ItemID) {
		c.Kept = slices.DeleteFunc(c.Kept, func(k transcript.Kept) bool { return k.ItemID == id })
		c.Summarized = append(c.Summarized, id)
		c.Items.Stub, c.Items.Summarized = c.Items.Stub-1, c.Items.Summarized+1
	}
	for name, broken := range map[string]struct {
		how  func(c *Composed)
		want string
	}{
		"twice on one side":  {func(c *Composed) { c.Summarized = append(c.Summarized, c.Summarized[0]) }, "summarised twice"},
		"on both sides":      {func(c *Composed) { c.Summarized = append(c.Summarized, c.Kept[0].ItemID) }, "also retained"},
		"forgotten":          {func(c *Composed) { c.Summarized = c.Summarized[1:] }, "neither"},
		"a foreign item":     {func(c *Composed) { c.Summarized = append(c.Summarized, "nobody") }, "not all of the context"},
		"out of order":       {func(c *Composed) { c.Kept[0], c.Kept[1] = c.Kept[1], c.Kept[0] }, "out of order"},
		"unknown form":       {func(c *Composed) { c.Kept[0].Form = "faded" }, "unknown form"},
		"wrong counts":       {func(c *Composed) { c.Items.Whole++ }, "counts"},
		"turn on both lists": {func(c *Composed) { c.SummarizedTurns = append(c.SummarizedTurns, c.RetainedTurns[0]) }, "turns are"},
		"split hidden":       {func(c *Composed) { c.Split = nil }, "split is"},
		"half a pair":        {func(c *Composed) { drop(c, lastStub(c, entries, transcript.KindToolResult)) }, "different sides"},
		"wrong size":         {func(c *Composed) { c.After-- }, "sizes are"},
		"over the target":    {func(c *Composed) { c.Target = c.After - 1 }, "exceed the target"},
		"open item clipped":  {func(c *Composed) { k := kept(c, "item-102"); *k = transcript.Kept{ItemID: k.ItemID, Form: "stub"} }, ""},
		"no frame":           {func(c *Composed) { c.Checkpoint.Text = "(" + c.Checkpoint.Text[1:] }, "no frame"},
		"quote changed":      {func(c *Composed) { c.Checkpoint.Text = strings.ReplaceAll(c.Checkpoint.Text, "word", "work") }, "verbatim"},
	} {
		c := mustCompose(t, in)
		if c.Outcome != Completed || c.Items.Summarized == 0 || c.Split == nil {
			t.Fatalf("the context to break is %s with %+v, split %v", c.Outcome, c.Items, c.Split)
		}
		broken.how(c)
		if err := Check(in, c); err == nil || !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, broken.want)
		}
	}
}

// lastStub finds the last item of a kind that is retained as a stub.
func lastStub(c *Composed, entries []transcript.Entry, kind transcript.Kind) transcript.ItemID {
	for _, e := range slices.Backward(entries) {
		if e.Item.Body.Kind() == kind && formOf(c, e.Item.ID) == transcript.FormStub {
			return e.Item.ID
		}
	}
	return ""
}

func TestCheckKnowsWhatUnchangedMeans(t *testing.T) {
	in := Input{Entries: script("u a", 2, 100)}
	c := mustCompose(t, in)
	c.After--
	if Check(in, c) == nil {
		t.Error("unchanged, but smaller")
	}
}

func TestCheckRefusesRicherForms(t *testing.T) {
	in := Input{Entries: script("u a c1 r1", 40, 4_000), Budget: 6_000}
	first := mustCompose(t, in)
	in.Entries = append(nextContext(in.Entries, first, "cp"), withID("new", 99, transcript.AgentMessage{Text: filler(1, 40_000)}))
	c := mustCompose(t, in)
	for i, k := range c.Kept {
		if k.Form == transcript.FormStub {
			c.Kept[i].Form = transcript.FormWhole
			c.Items.Stub, c.Items.Whole = c.Items.Stub-1, c.Items.Whole+1
			break
		}
	}
	if err := Check(in, c); err == nil || !strings.Contains(err.Error(), "would become whole") {
		t.Errorf("got %v", err)
	}
}

// What lost its image is clipped as a form, and still has every word: cutting those is
// no way to keep it as it is.
func TestCheckCatchesWordsCutInTheSameForm(t *testing.T) {
	entries := script("u a u a u a", 6, 400)
	ask := slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.Item.ID == "item-34" }) // the last one of the user
	entries[ask].Form = transcript.FormClipped
	in := Input{Entries: entries, Budget: 1_500}
	c := mustCompose(t, in)
	i := slices.IndexFunc(c.Kept, func(k transcript.Kept) bool { return k.ItemID == entries[ask].Item.ID })
	if c.Outcome != Completed || i < 0 || c.Kept[i].Form != transcript.FormClipped {
		t.Fatalf("the context to break is %s, its last request %v", c.Outcome, c.Kept)
	}
	k := newChecker(in, c)
	if err := cmp.Or(k.items(), k.survivors()); err != nil {
		t.Fatalf("unbroken: %v", err)
	}
	c.Kept[i].Text = c.Kept[i].Text[:len(c.Kept[i].Text)/2]
	k = newChecker(in, c)
	if err := cmp.Or(k.items(), k.survivors()); err == nil || !strings.Contains(err.Error(), "last user request") {
		t.Errorf("half of the last request's words are gone: %v", err)
	}
}
