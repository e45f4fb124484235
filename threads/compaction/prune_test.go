package compaction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// overlay is the context after a prune, as the thread folds it.
func overlay(entries []transcript.Entry, c *Composed) []transcript.Entry {
	out := slices.Clone(entries)
	for _, k := range c.Prune {
		i := slices.IndexFunc(out, func(e transcript.Entry) bool { return e.Item.ID == k.ItemID })
		out[i] = transcript.Entry{Item: transcript.Render(out[i].Item, k), Form: k.Form}
	}
	return out
}

// toolSession is n reads of n different files, each with a result of size
// characters, after one request of the user.
func toolSession(n, size int) []transcript.Entry {
	entries := []transcript.Entry{withID("ask", 1, transcript.UserMessage{Content: transcript.TextParts("read them all")})}
	for i := range n {
		id := fmt.Sprint(i)
		entries = append(entries, withID("c"+id, 1, call(id, "Read", fmt.Sprintf(`{"file_path":"/w/f%d.go"}`, i))), withID("r"+id, 1, result(id, filler(i, size), false)))
	}
	return entries
}

func TestAPruneThatIsEnoughIsAllThatHappens(t *testing.T) {
	in := Input{Entries: toolSession(40, 8_000), Window: 100_000, PruneTo: 70_000, Base: 2_000}
	c := mustCompose(t, in)
	if c.Outcome != Completed || c.Prune == nil || c.Kept != nil || c.Summarized != nil || c.Checkpoint.Text != "" || c.Reanchor != "" || c.Writer != "" {
		t.Fatalf("%s with %d pruned, %d kept, %d summarised", c.Outcome, len(c.Prune), len(c.Kept), len(c.Summarized))
	}
	small := in
	small.Entries = overlay(in.Entries, c)
	after := small.Size()
	if c.After != after || c.After > in.PruneTo || c.Before != in.Size() || in.Size() != in.Base+tokensIn(in.Entries) {
		t.Errorf("sizes %d to %d, measured %d", c.Before, c.After, after)
	}
	if c.Pruned[0] != "r0" || c.Pruned[len(c.Pruned)-1] != c.Prune[len(c.Prune)-1].ItemID || len(c.Pruned) != len(c.Prune) {
		t.Errorf("pruned %v", c.Pruned)
	}
	if n := c.Items; n.Whole+n.Clipped+n.Stub != len(in.Entries) || n.Summarized != 0 || n.Clipped != len(c.Prune) {
		t.Errorf("counts %+v of %d items, %d pruned", n, len(in.Entries), len(c.Prune))
	}
	if d := cmp.Diff([]transcript.TurnID{"turn-1"}, c.RetainedTurns); d != "" || c.SummarizedTurns != nil || c.Split != nil {
		t.Errorf("turns %v and %v, split %v", c.SummarizedTurns, c.RetainedTurns, c.Split)
	}
}

func TestAPruneThatIsNotEnoughIsFollowedByACheckpoint(t *testing.T) {
	for name, in := range map[string]Input{
		"nothing old enough":    {Entries: toolSession(9, 8_000), Window: 20_000, PruneTo: 14_000},
		"talk":                  {Entries: script("u a", 40, 4_000), Window: 50_000, PruneTo: 35_000},
		"a manual one composes": {Entries: toolSession(40, 8_000), Window: 100_000},
	} {
		if c := mustCompose(t, in); c.Outcome != Completed || c.Prune != nil || c.Checkpoint.Text == "" || c.Writer != WriterExtractive {
			t.Errorf("%s: %s{%s}, %d pruned", name, c.Outcome, c.Code, len(c.Prune))
		}
	}
}

// P053: a prune that is repeated finds nothing, and nothing ends it early: an item
// that cannot be shortened, or is shortened already, stands among the others.
func TestPruningIsIdempotentAndComplete(t *testing.T) {
	entries := toolSession(60, 6_000)
	for _, i := range []int{4, 10, 40} { // results too short to be shortened
		entries[i].Item.Body = result(fmt.Sprint(i/2-1), "ok", false)
	}
	k := transcript.Kept{ItemID: "r6", Form: transcript.FormStub, Text: stubMark(6_000)}
	entries[14] = transcript.Entry{Item: transcript.Render(entries[14].Item, k), Form: k.Form}
	in := Input{Entries: entries, Window: 60_000, PruneTo: 42_000}
	p, err := newPlanner(in)
	if err != nil {
		t.Fatal(err)
	}
	p.group()
	p.measureAges()
	list, _ := p.prunings(0, in.PruneTo)
	if want := 60 - pruneProtect - 4; len(list) != want {
		t.Errorf("%d of %d results that can be pruned are", len(list), want)
	}
	c := p.pruned(list)
	in.Entries = overlay(entries, c)
	again, err := newPlanner(in)
	if err != nil {
		t.Fatal(err)
	}
	again.group()
	again.measureAges()
	if more, _ := again.prunings(0, in.PruneTo); len(more) > 0 {
		t.Errorf("a second prune changes %d items", len(more))
	}
}

// P041: what is protected is counted from the end, whatever came before or between.
func TestTheNewestResultsAreProtectedFromTheEnd(t *testing.T) {
	entries := toolSession(40, 8_000)
	notes := slices.Clone(entries[:41])
	for i := range 20 { // repairs and plans that no user asked for
		notes = append(notes, withID(fmt.Sprintf("n%d", i), 2+i, transcript.Notice{Source: "meta", Text: "repair"}))
	}
	notes = append(notes, entries[41:]...)
	for name, entries := range map[string][]transcript.Entry{"plain": entries, "with twenty synthetic turns": notes, "longer before": append(script("u a", 30, 400), entries...)} {
		c := mustCompose(t, Input{Entries: entries, Window: 100_000, PruneTo: 60_000})
		if c.Prune == nil {
			t.Fatalf("%s: %s{%s}", name, c.Outcome, c.Code)
		}
		for _, id := range c.Pruned {
			for k := 30; k < 40; k++ {
				if id == transcript.ItemID(fmt.Sprintf("r%d", k)) {
					t.Errorf("%s: %s is one of the newest ten", name, id)
				}
			}
		}
		if last := c.Pruned[len(c.Pruned)-1]; last != "r29" {
			t.Errorf("%s: the last pruned is %s, want r29", name, last)
		}
	}
}

func TestSupersededReadsGoFirst(t *testing.T) {
	entries := toolSession(30, 8_000)
	// r20 is read again at the end; everything else is not.
	entries = append(entries, withID("cx", 1, call("x", "Read", `{"file_path":"/w/f15.go"}`)), withID("rx", 1, result("x", filler(15, 8_000), false)))
	c := mustCompose(t, Input{Entries: entries, Window: 100_000, PruneTo: 52_000})
	for _, k := range c.Prune {
		if want := map[bool]transcript.Form{true: transcript.FormStub, false: transcript.FormClipped}[k.ItemID == "r15"]; k.Form != want {
			t.Errorf("%s is %s, want %s", k.ItemID, k.Form, want)
		}
	}
	if !slices.Contains(c.Pruned, "r15") {
		t.Errorf("r15 was read again and is not among %v", c.Pruned)
	}
}

// P040: whatever is cut, a marker says so, on a line of its own, and the size that
// the text had.
func TestPrunedResultsSayWhatTheyWere(t *testing.T) {
	entries := toolSession(40, 8_000)
	json := `{"rows": [` + strings.Repeat(`{"a_long_field_name": "a value that is long as well"},`, 200) + `]}`
	entries[2].Item.Body = result("0", json, false)
	c := mustCompose(t, Input{Entries: entries, Window: 100_000, PruneTo: 60_000})
	text := c.Prune[0].Text
	if c.Prune[0].ItemID != "r0" || !strings.HasPrefix(text, `{"rows"`) || !strings.HasSuffix(text, `]}`) || !strings.Contains(text, fmt.Sprintf(" of %d chars …]\n", len(json))) {
		t.Errorf("%s shows as %q", c.Prune[0].ItemID, text)
	}
}

// P016: one result larger than the window is clipped although it is new or was not
// read yet, its pair stays, and no checkpoint is written. The marker names it.
func TestAResultLargerThanTheWindowIsClippedWithoutACheckpoint(t *testing.T) {
	entries := script("u c1 r1", 1, 300)
	huge := filler(2, 600_000)
	entries[2].Item.Body = transcript.ToolResult{CallID: "1", Output: transcript.TextParts(huge)}
	for _, open := range []map[transcript.ItemID]bool{nil, openOf(entries, 0, 1, 2)} {
		for _, in := range []Input{
			{Entries: entries, Window: 128_000, PruneTo: 89_600, Open: open},
			{Entries: entries, Window: 128_000, Recover: true, Open: open},
			{Entries: entries, Recover: true, Open: open},
		} {
			c := mustCompose(t, in)
			if len(c.Prune) != 1 || c.Prune[0].ItemID != "item-2" || c.Checkpoint.Text != "" {
				t.Fatalf("%s{%s}: pruned %v", c.Outcome, c.Code, c.Pruned)
			}
			text := c.Prune[0].Text
			if !strings.HasPrefix(text, huge[:20]) || !strings.HasSuffix(text, huge[len(huge)-20:]) || !strings.Contains(text, fmt.Sprintf("of %d chars, item item-2 …]", len(huge))) {
				t.Errorf("clipped to %.60q … %.60q", text, text[len(text)-60:])
			}
			if n := c.After; n > in.recoverable(c.Before)*recoverShare/100 {
				t.Errorf("%d tokens are left of %d", n, in.Window)
			}
		}
	}
}

func TestWhatIsOpenIsNotPruned(t *testing.T) {
	entries := toolSession(40, 8_000)
	c := mustCompose(t, Input{Entries: entries, Window: 100_000, PruneTo: 60_000, Open: openOf(entries, 2, 4)})
	if c.Prune == nil || slices.Contains(c.Pruned, "r0") || slices.Contains(c.Pruned, "r1") || !slices.Contains(c.Pruned, "r2") {
		t.Errorf("pruned %v", c.Pruned)
	}
}

func TestPruneNeedsAYieldOrTheLine(t *testing.T) {
	entries := append(toolSession(14, 8_000), renumber(script("a", 10, 40_000))...)
	for i := range entries[len(entries)-10:] {
		entries[len(entries)-10+i].Item.Turn = "turn-1"
	}
	size := tokensIn(entries)
	// Four results can be pruned, which save about 7,200 tokens.
	if c := mustCompose(t, Input{Entries: entries, Window: 150_000, PruneTo: size - 9_000}); c.Prune != nil {
		t.Errorf("pruned %d items, which was not enough", len(c.Prune))
	}
	if c := mustCompose(t, Input{Entries: entries, Window: 150_000, PruneTo: size - 5_000}); len(c.Prune) != 4 {
		t.Errorf("pruned %v of four", c.Pruned)
	}
}

// An image costs its tokens in a plan, not its marker's; a result that is nothing
// but an image can be shortened for it.
func TestImagesCountInAPlan(t *testing.T) {
	shot := func(i int) transcript.Body {
		return transcript.ToolResult{CallID: transcript.CallID(fmt.Sprint(i)), Output: []transcript.Part{{Type: transcript.PartImage, Blob: "00", MediaType: "image/png"}}}
	}
	entries := toolSession(40, 100)
	for i := range 40 {
		entries[2+2*i].Item.Body = shot(i)
	}
	if c := mustCompose(t, Input{Entries: entries, Window: 50_000}); c.Code != CodeNothingToCompact {
		t.Errorf("without a price: %s{%s}", c.Outcome, c.Code)
	}
	c := mustCompose(t, Input{Entries: entries, Window: 50_000, Image: transcript.ImageTokens, PruneTo: 35_000})
	if len(c.Prune) < 20 || c.Before-c.After < len(c.Prune)*(transcript.ImageTokens-20) {
		t.Errorf("%s{%s}: pruned %d, %d to %d", c.Outcome, c.Code, len(c.Prune), c.Before, c.After)
	}
	if left := overlay(entries, c); transcript.Images(left[2].Item.Body) != 0 || transcript.Images(left[80].Item.Body) != 1 || transcript.Text(left[2].Item.Body) == "" {
		t.Errorf("the first shows as %q", transcript.Text(left[2].Item.Body))
	}
	c = mustCompose(t, Input{Entries: entries, Window: 30_000, Image: transcript.ImageTokens})
	if c.Outcome != Completed || c.After > c.Target {
		t.Errorf("composed: %s{%s}, %d of %d", c.Outcome, c.Code, c.After, c.Target)
	}
}

// Each rule of a prune is broken once.
func TestCheckCatchesABrokenPrune(t *testing.T) {
	entries := toolSession(40, 8_000)
	in := Input{Entries: entries, Window: 100_000, PruneTo: 60_000, Open: openOf(entries, 2)}
	for name, broken := range map[string]struct {
		how  func(in *Input, c *Composed)
		want string
	}{
		"not wanted":    {func(in *Input, _ *Composed) { in.PruneTo = 0 }, "not enough here"},
		"a checkpoint":  {func(_ *Input, c *Composed) { c.Checkpoint.Text = "x" }, "with a checkpoint"},
		"a re-anchor":   {func(_ *Input, c *Composed) { c.Reanchor = "x" }, "with a checkpoint"},
		"nothing":       {func(_ *Input, c *Composed) { c.Prune = []transcript.Kept{} }, "of nothing"},
		"unlisted":      {func(_ *Input, c *Composed) { c.Pruned = c.Pruned[1:] }, "are listed"},
		"wrong list":    {func(_ *Input, c *Composed) { c.Pruned[0] = "r5" }, "is listed"},
		"open":          {func(_ *Input, c *Composed) { c.Prune[0].ItemID, c.Pruned[0] = "r0", "r0" }, "not to be pruned"},
		"a call":        {func(_ *Input, c *Composed) { c.Prune[0].ItemID, c.Pruned[0] = "c1", "c1" }, "not to be pruned"},
		"one of newest": {func(_ *Input, c *Composed) { n := len(c.Prune) - 1; c.Prune[n].ItemID, c.Pruned[n] = "r35", "r35" }, "not to be pruned"},
		"out of order":  {func(_ *Input, c *Composed) { c.Prune[0], c.Prune[1] = c.Prune[1], c.Prune[0] }, "is listed"},
		"foreign":       {func(_ *Input, c *Composed) { c.Prune[1].ItemID, c.Pruned[1] = "x", "x" }, "none of the context"},
		"no marker":     {func(_ *Input, c *Composed) { c.Prune[0].Text = "gone" }, "not shown shorter"},
		"larger":        {func(_ *Input, c *Composed) { c.Prune[0].Text += strings.Repeat("more ", 9_000) }, "not shown shorter"},
		"counts":        {func(_ *Input, c *Composed) { c.Items.Whole-- }, "counts are"},
		"size":          {func(_ *Input, c *Composed) { c.After-- }, "sizes are"},
		"not enough":    {func(in *Input, _ *Composed) { in.PruneTo = 10_000 }, "is not enough"},
		"turns":         {func(_ *Input, c *Composed) { c.RetainedTurns = nil }, "turns are"},
	} {
		in := in
		c := mustCompose(t, in)
		if len(c.Prune) < 10 {
			t.Fatalf("the prune to break has %d items", len(c.Prune))
		}
		broken.how(&in, c)
		if err := Check(in, c); err == nil || !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, broken.want)
		}
	}
}
