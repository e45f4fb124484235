package compaction

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestTargetIsBoundedByTheWindow(t *testing.T) {
	for _, c := range []struct{ base, window, want int }{
		{0, 0, 24_000},
		{10_000, 0, 34_000},
		{0, 64_000, 22_400},
		{40_000, 200_000, 64_000},
		{0, 8_000, 4_000},
		{6_000, 8_000, 6_800}, // never above the point where the next one is due
	} {
		if got := Target(c.base, c.window); got != c.want {
			t.Errorf("Target(%d, %d) = %d, want %d", c.base, c.window, got, c.want)
		}
	}
}

// mustCompose composes, checks the contract, and compares a second run.
func mustCompose(t testing.TB, in Input) *Composed {
	t.Helper()
	c, err := Compose(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(in, c); err != nil {
		t.Fatal(err)
	}
	if err := wireValid(in, c); err != nil {
		t.Fatal(err)
	}
	again, err := Compose(in)
	if err != nil || mustJSON(t, again) != mustJSON(t, c) {
		t.Fatalf("two runs differ (%v)", err)
	}
	return c
}

// textOf is everything that a context says.
func textOf(entries []transcript.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(transcript.Text(e.Item.Body) + "\n")
	}
	return b.String()
}

// wireValid looks at the new context as a provider would: no result without its
// call before it, no call that lost the result it had. It shares no code with
// the package.
func wireValid(in Input, c *Composed) error {
	kept := map[transcript.ItemID]bool{}
	for _, k := range c.Kept {
		kept[k.ItemID] = true
	}
	if c.Outcome != Completed {
		return nil
	}
	calls := map[transcript.CallID]int{}
	for i, e := range in.Entries {
		switch b := e.Item.Body.(type) {
		case transcript.ToolCall:
			if kept[e.Item.ID] {
				calls[b.CallID]++
			}
			if !kept[e.Item.ID] || in.Open[e.Item.ID] {
				continue
			}
			for _, later := range in.Entries[i+1:] {
				if r, ok := later.Item.Body.(transcript.ToolResult); ok && r.CallID == b.CallID {
					if !kept[later.Item.ID] {
						return fmt.Errorf("call %s lost its result %s", e.Item.ID, later.Item.ID)
					}
					break
				}
			}
		case transcript.ToolResult:
			if kept[e.Item.ID] && calls[b.CallID] == 0 && !in.Open[e.Item.ID] {
				return fmt.Errorf("result %s has no call before it", e.Item.ID)
			}
		}
	}
	return nil
}

// fixtures are the transcripts of field-cases.md section 3 that end in pairs cut
// apart, as far as a context can show them.
var fixtures = map[string]string{
	"F1 pairs":             "u c1 r1 c2 r2 c3 r3 a",
	"F3 aborted":           "u c1 s1 u a u a",
	"F5 late result":       "u c7 a u a u a r7 a",
	"F6 in flight":         "u a u c1",
	"F8 parallel, timeout": "u c1 c2 c3 s1 s2 s3 u a",
	"F10 background":       "u cb a u a u a",
	"parallel":             "u t c1 c2 c3 r1 r2 r3 a c4 c5 r5 r4 a",
	"orphan first":         "r9 a u c1 r1 a",
	"result before call":   "u r1 c1 a u a",
	"same id twice":        "u c1 r1 c1 r1 u c1 c1 r1 r1 a",
	"answered twice":       "u c1 r1 a r1 a",
	"no user":              "a c1 r1 a c2 r2 a",
	"only users":           "u u u u u u",
	"only results":         "r1 r2 r3",
	"opaque":               "u o a o c1 o r1 a",
}

// Cut at every index of each fixture, whatever a budget would choose.
func TestFixturesStayValidWhereverTheCutIs(t *testing.T) {
	for name, words := range fixtures {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				entries := script(words, n, 300)
				for _, open := range []map[transcript.ItemID]bool{nil, openOf(entries, 1), openOf(entries, len(entries)-1)} {
					for cut := range len(entries) + 1 {
						cutAt(t, Input{Entries: entries, Open: open, Budget: 100_000}, cut)
					}
				}
			}
		})
	}
}

// cutAt forces the cut and checks pairs, completeness and turns.
func cutAt(t *testing.T, in Input, cut int) {
	t.Helper()
	p, err := newPlanner(in)
	if err != nil {
		t.Fatal(err)
	}
	p.group()
	p.measureAges()
	if !p.reserve() {
		t.Fatal("no room")
	}
	p.collect()
	p.decideCut(cut)
	p.settle()
	c := &Composed{Outcome: Completed}
	p.account(c)
	if err := wireValid(in, c); err != nil {
		t.Errorf("cut at %d: %v", cut, err)
	}
	k := newChecker(in, c)
	for _, check := range []func() error{k.items, k.turns, k.pairs} {
		if err := check(); err != nil {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	for id := range in.Open {
		if f := formOf(c, id); f != transcript.FormWhole {
			t.Errorf("cut at %d: open item %s is %q", cut, id, f)
		}
	}
}

func TestInFlightCallsSurviveWhole(t *testing.T) {
	entries := renumber(append(script("u c1 r1 a", 30, 2_000), script("u cX", 1, 2_000)...))
	call := entries[len(entries)-1].Item.ID
	for _, open := range []map[transcript.ItemID]bool{nil, openOf(entries, len(entries)-1)} {
		c := mustCompose(t, Input{Entries: entries, Budget: 5_000, Open: open})
		if c.Outcome != Completed || formOf(c, call) != transcript.FormWhole {
			t.Errorf("%s, call in flight is %q", c.Outcome, formOf(c, call))
		}
		if !strings.Contains(c.Reanchor, "still running: bash") {
			t.Errorf("the re-anchor does not name the running call:\n%s", c.Reanchor)
		}
	}
}

func TestOpenItemsSurviveWholeWhereverTheyAre(t *testing.T) {
	entries := script("u c1 r1 a", 30, 2_000)
	c := mustCompose(t, Input{Entries: entries, Budget: 6_000, Open: openOf(entries, 0, 6)})
	for _, i := range []int{0, 5, 6} { // 5 is the call of result 6
		if f := formOf(c, entries[i].Item.ID); f != transcript.FormWhole {
			t.Errorf("open item %d is %q", i, f)
		}
	}
}

// P016: one result larger than the window must not brick the thread.
func TestOneHugeResultIsClipped(t *testing.T) {
	entries := script("u c1 r1", 1, 300)
	huge := filler(2, 600_000)
	entries[2].Item.Body = transcript.ToolResult{CallID: "1", Output: transcript.TextParts(huge)}
	for _, open := range []map[transcript.ItemID]bool{nil, openOf(entries, 2)} {
		c := mustCompose(t, Input{Entries: entries, Window: 128_000, Open: open})
		if c.Outcome != Completed || formOf(c, "item-2") != transcript.FormClipped || c.Items.Summarized != 0 {
			t.Fatalf("open %v: %s{%s}, result is %q", open, c.Outcome, c.Code, formOf(c, "item-2"))
		}
		for _, k := range c.Kept {
			if k.ItemID == "item-2" && (!strings.Contains(k.Text, fmt.Sprintf("of %d chars", len(huge))) || !strings.HasPrefix(k.Text, "word0 of item 2")) {
				t.Errorf("clipped to %.80q…", k.Text)
			}
		}
	}
}

// P019: a single turn of one message and dozens of calls.
func TestOneHugeTurnIsCutInside(t *testing.T) {
	entries := script("u"+strings.Repeat(" c1 r1", 40), 1, 16_000)
	c := mustCompose(t, Input{Entries: entries, Window: 128_000})
	if c.Outcome != Completed || formOf(c, "item-0") == "" {
		t.Fatalf("%s{%s}, request is %q", c.Outcome, c.Code, formOf(c, "item-0"))
	}
	c = mustCompose(t, Input{Entries: entries, Budget: 1_300}) // even stubs of all pairs are too much
	if c.Split == nil || c.Split.TurnID != "turn-1" || len(c.RetainedTurns) != 1 || len(c.SummarizedTurns) != 0 {
		t.Errorf("split %v, turns %v and %v", c.Split, c.SummarizedTurns, c.RetainedTurns)
	}
}

// P058: no user message in the range; P070: a tool-heavy thread is no empty one.
func TestTheCheckpointSaysWhatHappenedWithoutAUser(t *testing.T) {
	var entries []transcript.Entry
	for i := range 60 {
		id := transcript.CallID(fmt.Sprint(i))
		call := transcript.ToolCall{CallID: id, Name: "edit_file", Arguments: transcript.RawJSON(fmt.Sprintf(`{"path":"/w/src/f%d.go","new_text":"func F%d() {}\n%s"}`, i, i, filler(i, 800)))}
		entries = append(entries, withID(fmt.Sprintf("c%d", i), 1, call),
			withID(fmt.Sprintf("r%d", i), 1, transcript.ToolResult{CallID: id, Output: transcript.TextParts(filler(i, 1_000))}))
	}
	c := mustCompose(t, Input{Entries: entries, Budget: 900})
	if c.Items.Summarized == 0 {
		t.Fatal("nothing was summarised")
	}
	for i := range 60 {
		if !strings.Contains(c.Checkpoint.Text, fmt.Sprintf("src/f%d.go", i)) {
			t.Errorf("changed file f%d.go is not listed", i)
		}
	}
}

func TestTheLastRequestSurvivesUpToAQuarterOfTheWindow(t *testing.T) {
	for _, c := range []struct {
		chars  int
		window int
		form   transcript.Form
	}{
		{4_000, 64_000, transcript.FormWhole},
		{60_000, 64_000, transcript.FormWhole},
		{70_000, 64_000, transcript.FormClipped},
		{160_000, 200_000, transcript.FormWhole}, // larger than the target: I9 raises it
	} {
		entries := renumber(append(script("u", 1, c.chars), script("a c1 r1 a", 40, 3_000)...))
		got := mustCompose(t, Input{Entries: entries, Window: c.window})
		if got.Outcome != Completed || formOf(got, "item-0") != c.form {
			t.Errorf("request of %d chars in %d: %s{%s}, %q, want %q", c.chars, c.window, got.Outcome, got.Code, formOf(got, "item-0"), c.form)
		}
		if c.form == transcript.FormClipped && !strings.Contains(got.Kept[0].Text, "item item-0") {
			t.Errorf("the clipped request has no reference: %.80q", got.Kept[0].Text)
		}
	}
}

func TestUserMessagesSurviveNewestFirst(t *testing.T) {
	entries := script("u a", 60, 1_200)
	c := mustCompose(t, Input{Entries: entries, Budget: 8_000})
	whole := 0
	for i := len(entries) - 4; i >= 0; i -= 2 { // without the last one
		text := transcript.Text(entries[i].Item.Body)
		if formOf(c, entries[i].Item.ID) == transcript.FormWhole || strings.Contains(c.Checkpoint.Text, quote(text)) {
			whole++
		} else {
			break
		}
	}
	if want := 8_000 / 5 / 300; whole < want {
		t.Errorf("%d user messages survive verbatim, want at least %d", whole, want)
	}
	if !strings.Contains(c.Checkpoint.Text, ", item item-") {
		t.Error("older messages are not quoted with a reference")
	}
}

func TestUnchangedSaysWhy(t *testing.T) {
	entries := script("u a", 20, 2_000)
	small := script("u a", 1, 50)
	for name, c := range map[string]struct {
		in   Input
		code string
	}{
		"fits":                     {Input{Entries: small}, CodeNothingToCompact},
		"empty":                    {Input{}, CodeNothingToCompact},
		"just fits the budget":     {Input{Entries: entries, Budget: 20_000}, CodeNothingToCompact},
		"base over the budget":     {Input{Entries: entries, Base: 9_000, Budget: 8_000}, CodeOverheadExceedsBudget},
		"base as large as budget":  {Input{Entries: entries, Base: 8_000, Budget: 8_000}, CodeOverheadExceedsBudget},
		"base fills the window":    {Input{Entries: entries, Base: 60_000, Window: 64_000}, CodeOverheadExceedsBudget},
		"open prompt over budget":  {Input{Entries: entries, Budget: 600, Open: openOf(entries, 38)}, CodeOverheadExceedsBudget},
		"no room for a checkpoint": {Input{Entries: small, Budget: 10}, CodeOverheadExceedsBudget},
	} {
		got := mustCompose(t, c.in)
		if got.Outcome != Unchanged || got.Code != c.code || got.After != got.Before || got.Kept != nil {
			t.Errorf("%s: %s{%s}, %d to %d, want unchanged{%s}", name, got.Outcome, got.Code, got.Before, got.After, c.code)
		}
	}
}

// P073, P077: what a checkpoint costs may be more than what it could save; then
// nothing is done, and in no case does the context grow.
func TestNoBudgetMakesAContextGrow(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"u a", "u", "u c1 r1", "a"} {
		entries := script(words, 3, 900)
		for budget := 1; budget <= tokensIn(entries); budget += 7 {
			c := mustCompose(t, Input{Entries: entries, Budget: budget})
			if c.After > c.Before || c.Outcome == Completed && c.After >= c.Before {
				t.Fatalf("%s at %d: %s, %d to %d", words, budget, c.Outcome, c.Before, c.After)
			}
		}
	}
}

// P076 and I10: pressing compact again on an unchanged thread does nothing, also
// when the same window is asked for in other words.
func TestRepeatingACompactionIsANoOp(t *testing.T) {
	in := Input{Entries: script("u a c1 r1", 60, 3_000), Window: 64_000}
	c := mustCompose(t, in)
	in.Entries = nextContext(in.Entries, c, "cp-1")
	for _, again := range []Input{in, {Entries: in.Entries, Window: 128_000}, {Entries: in.Entries, Budget: 30_000}, {Entries: in.Entries}} {
		if c := mustCompose(t, again); c.Code != CodeNothingToCompact {
			t.Errorf("window %d, budget %d: %s{%s}", again.Window, again.Budget, c.Outcome, c.Code)
		}
	}
	if c := mustCompose(t, Input{Entries: in.Entries, Budget: 4_000}); c.Outcome != Completed {
		t.Errorf("a smaller budget: %s{%s}", c.Outcome, c.Code)
	}
}

// P065 and generation loss: ten compactions stay bounded, never nest, and what
// was changed or demanded in the first one is still there after the last.
func TestTenGenerationsStayBoundedAndForgetNoFact(t *testing.T) {
	t.Parallel()
	entries := []transcript.Entry{
		withID("first", 1, transcript.UserMessage{Content: transcript.TextParts("Never touch the RULE-7731 migration.")}),
		withID("edit", 1, transcript.ToolCall{CallID: "e", Name: "Edit", Arguments: transcript.RawJSON(`{"file_path":"/w/app/first.go","new_string":"func First() error {"}`)}),
		withID("edited", 1, transcript.ToolResult{CallID: "e", Output: transcript.TextParts("ok")}),
		withID("test", 1, transcript.ToolCall{CallID: "t", Name: "bash", Arguments: transcript.RawJSON(`{"command":"go vet ./broken"}`)}),
		withID("tested", 1, transcript.ToolResult{CallID: "t", IsError: true, Output: transcript.TextParts("vet: undefined: Foo")}),
	}
	for g := range 10 {
		for i, e := range script("u a t c1 r1 c2 r2 a", 12, 3_000) {
			e.Item.ID = transcript.ItemID(fmt.Sprintf("g%d-%d", g, i))
			e.Item.Turn = transcript.TurnID(fmt.Sprintf("g%d-%s", g, e.Item.Turn))
			entries = append(entries, e)
		}
		c := mustCompose(t, Input{Entries: entries, Window: 32_000})
		if c.Outcome != Completed {
			t.Fatalf("generation %d: %s{%s}", g, c.Outcome, c.Code)
		}
		if n := transcript.Tokens(c.Checkpoint); n > 3_200 {
			t.Errorf("generation %d: the checkpoint has %d tokens", g, n)
		}
		if n := len(*c.Checkpoint.Ledger); n > 200_000 {
			t.Errorf("generation %d: the ledger has %d bytes", g, n)
		}
		if n := strings.Count(c.Checkpoint.Text, "[checkpoint "); n != 1 {
			t.Errorf("generation %d: %d openings", g, n)
		}
		entries = nextContext(entries, c, fmt.Sprintf("cp-%d", g))
		text := textOf(entries)
		for _, want := range []string{"RULE-7731", "app/first.go", "go vet ./broken -> FAILED: vet: undefined: Foo"} {
			if !strings.Contains(text, want) {
				t.Errorf("generation %d forgot %q", g, want)
			}
		}
	}
}

func TestAProvidersSummaryIsCarriedNotSummarised(t *testing.T) {
	summary := "The user wants a parser. CANARY-41 was chosen."
	entries := append([]transcript.Entry{withID("native", 0, transcript.Checkpoint{Version: "native", Text: summary})}, script("u a", 40, 2_000)...)
	for g := range 4 {
		c := mustCompose(t, Input{Entries: entries, Budget: 5_000})
		if c.Outcome != Completed || strings.Count(c.Checkpoint.Text, summary) != 1 {
			t.Fatalf("generation %d: %s, the summary is there %d times", g, c.Outcome, strings.Count(c.Checkpoint.Text, summary))
		}
		if c.Summarized[0] != entries[0].Item.ID {
			t.Errorf("the old checkpoint is not among the summarised items")
		}
		entries = nextContext(entries, c, fmt.Sprintf("cp-%d", g))
		for i, e := range script("u a", 20, 2_000) {
			e.Item.ID = transcript.ItemID(fmt.Sprintf("g%d-%d", g, i))
			entries = append(entries, e)
		}
	}
}

func TestFormsNeverGetRicher(t *testing.T) {
	in := Input{Entries: script("u a c1 r1", 40, 4_000), Budget: 9_000}
	c := mustCompose(t, in)
	second := nextContext(in.Entries, c, "cp-1")
	more := mustCompose(t, Input{Entries: append(second, withID("new", 99, transcript.AgentMessage{Text: filler(1, 60_000)})), Budget: 15_000})
	before := map[transcript.ItemID]transcript.Form{}
	for _, k := range c.Kept {
		before[k.ItemID] = k.Form
	}
	for _, k := range more.Kept {
		if richness[k.Form] > richness[before[k.ItemID]] && before[k.ItemID] != "" {
			t.Errorf("%s was %s and is %s", k.ItemID, before[k.ItemID], k.Form)
		}
		if strings.Count(k.Text, markOpen) > 1 {
			t.Errorf("%s was clipped twice: %.200q", k.ItemID, k.Text)
		}
	}
}

// P040: whatever is clipped, also again and again, every marker is complete and
// says a size.
func TestMarkersStayWholeOverGenerations(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile(`\[…( \d+( of \d+)? chars(, item [^ ]+)? …)?\]`)
	var entries []transcript.Entry
	for g := range 5 {
		for i := range 24 {
			id := fmt.Sprintf("g%d-%d", g, i)
			args := fmt.Sprintf(`{"file_path":"/w/a%d.go","old_string":%q,"new_string":%q}`, i, filler(i, 5_000), filler(i+100, 5_000))
			entries = append(entries, withID("u"+id, g*100+i, user(filler(i, 3_000))), withID("c"+id, g*100+i, call(id, "Edit", args)),
				withID("r"+id, g*100+i, result(id, filler(i, 9_000), i%3 == 0)), withID("a"+id, g*100+i, transcript.AgentMessage{Text: filler(i, 2_500)}))
		}
		c := mustCompose(t, Input{Entries: entries, Budget: 20_000 - 2_500*g})
		for _, k := range c.Kept {
			rest := whole.ReplaceAllString(k.Text, "")
			if strings.Contains(rest, "[…") || strings.Contains(rest, "…]") {
				t.Fatalf("generation %d: %s has half a marker: %q", g, k.ItemID, k.Text)
			}
		}
		entries = nextContext(entries, c, fmt.Sprintf("cp-%d", g))
	}
}

func TestThePlanSurvivesWithItsStatuses(t *testing.T) {
	todo := transcript.ToolCall{CallID: "p", Name: "TodoWrite", Arguments: transcript.RawJSON(`{"todos":[{"content":"write the parser","status":"completed"},{"content":"test the parser","status":"in_progress"},{"content":"document it","status":"pending"}]}`)}
	entries := append([]transcript.Entry{withID("plan", 1, todo), withID("planned", 1, transcript.ToolResult{CallID: "p", Output: transcript.TextParts("ok")})}, script("u a", 40, 2_000)...)
	c := mustCompose(t, Input{Entries: entries, Budget: 4_000})
	for _, want := range []string{"[completed] write the parser", "[inProgress] test the parser", "[pending] document it"} {
		if !strings.Contains(c.Checkpoint.Text, want) {
			t.Errorf("the plan lost %q", want)
		}
	}
	if !strings.Contains(c.Reanchor, "test the parser (inProgress); document it (pending)") || strings.Contains(c.Reanchor, "write the parser") {
		t.Errorf("the re-anchor does not list what remains:\n%s", c.Reanchor)
	}
}

func TestComposeLeavesItsInputAlone(t *testing.T) {
	in := Input{Entries: script("u a c1 r1 p", 40, 2_000), Budget: 4_000, Open: map[transcript.ItemID]bool{"item-3": true}}
	before, _ := json.Marshal(in)
	mustCompose(t, in)
	if after, _ := json.Marshal(in); string(after) != string(before) {
		t.Error("the input was changed")
	}
}
