package compaction

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
	"pgregory.net/rapid"
)

// pressed applies the rule, checks the result and compares a second run.
func pressed(t *testing.T, in Input) *Composed {
	t.Helper()
	c, ok := Pressure(in)
	if !ok {
		t.Fatal("there is not enough history")
	}
	if err := Check(in, c); err != nil {
		t.Fatal(err)
	}
	if err := wireValid(in, c); err != nil {
		t.Fatal(err)
	}
	if again, _ := Pressure(in); mustJSON(t, again) != mustJSON(t, c) {
		t.Fatal("two runs differ")
	}
	return c
}

func TestPressureKeepsTheEndsAndSummarisesBetween(t *testing.T) {
	for name, c := range map[string]struct {
		words      string
		summarised []int
	}{
		"talk":                        {"u a u a u a u a u a", []int{3, 5}},
		"pairs":                       {"u c1 r1 c2 r2 c3 r3 c4 r4 c5 r5", []int{3, 4, 5, 6}},
		"reasoning is no message":     {"u t c1 r1 t c2 r2 t c3 r3 t c4 r4 t c5 r5", []int{4, 5, 6, 7, 8, 9}},
		"parallel calls are one":      {"u c1 c2 c3 r1 r2 r3 a u c4 c5 r4 r5 a u c6 r6 c7 r7 a", []int{7, 9, 10, 11, 12, 13}},
		"the latest begin in results": {"u a a c1 r1 c2 r2 a u c3 c4 c5 r3 r4 r5 a u", []int{5, 6, 7}},
	} {
		entries := script(c.words, 1, 4_000)
		in := Input{Entries: entries, Base: 500}
		got := pressed(t, in)
		var want []transcript.ItemID
		for _, i := range c.summarised {
			want = append(want, entries[i].Item.ID)
		}
		// User messages between may be quoted in the checkpoint or retained.
		have := slices.DeleteFunc(slices.Clone(got.Summarized), func(id transcript.ItemID) bool {
			i := slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.Item.ID == id })
			return entries[i].Item.Body.Kind() == transcript.KindUserMessage
		})
		if !slices.Equal(have, want) {
			t.Errorf("%s: summarised %v, want %v", name, have, want)
		}
		if got.Means != MeansPressure || got.Writer != WriterFixed || got.Checkpoint.Version != VersionFixed || got.Target != got.Before {
			t.Errorf("%s: by %q with %s, version %s, target %d of %d", name, got.Means, got.Writer, got.Checkpoint.Version, got.Target, got.Before)
		}
		for _, k := range got.Kept {
			if k.Form != transcript.FormWhole {
				t.Errorf("%s: %s is retained as %s", name, k.ItemID, k.Form)
			}
		}
	}
}

func TestPressureNeedsOldHistory(t *testing.T) {
	for name, in := range map[string]Input{
		"nothing":                {},
		"one message":            {Entries: script("u", 1, 4_000)},
		"only the ends":          {Entries: script("u a u a u a", 1, 4_000)},
		"one item is left":       {Entries: script("u a a c1 r1 a u a", 1, 4_000)},
		"what is left is open":   {Entries: script("u c1 r1 c2 r2 c3 r3 c4 r4", 1, 4_000), Open: map[transcript.ItemID]bool{"item-3": true, "item-4": true, "item-5": true}},
		"nothing would be saved": {Entries: script("u a", 8, 10)},
	} {
		if c, ok := Pressure(in); ok {
			t.Errorf("%s: summarised %v", name, c.Summarized)
		}
	}
}

func TestPressurePreviewsAreBounded(t *testing.T) {
	entries := renumber(script("u"+strings.Repeat(" t c1 r1", 80), 1, 3_000))
	c := pressed(t, Input{Entries: entries})
	_, list, ok := strings.Cut(c.Checkpoint.Text, "\n## Before, in previews\n")
	if !ok {
		t.Fatalf("no previews in %q", c.Checkpoint.Text)
	}
	list, _, _ = strings.Cut(list, "\n\n")
	list, _, _ = strings.Cut(list, "\n## ")
	total, lines := 0, 0
	for line := range strings.Lines(list) {
		n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		if n > previewChars {
			t.Errorf("a preview has %d characters: %q", n, line)
		}
		total, lines = total+n, lines+1
	}
	if total > previewTotal || total < previewTotal/2 || lines < 20 {
		t.Errorf("%d previews with %d characters", lines, total)
	}
	if !regexp.MustCompile(`- toolCall bash: make target-\d+`).MatchString(list) {
		t.Errorf("no call in %.300q", list)
	}
}

// The last request stands far back in a long tool loop, and is protected anyway;
// rules of the user and what was changed and failed survive.
func TestPressureKeepsWhatMatters(t *testing.T) {
	entries := script("u a", 2, 200)
	entries = append(entries, withID("rule", 9, user("Never touch the RULE-7731 migration.")), withID("ok", 9, transcript.AgentMessage{Text: "I will not."}),
		withID("edit", 9, call("e", "Edit", `{"file_path":"/w/app/first.go","new_string":"func First() error {"}`)), withID("edited", 9, result("e", "ok", false)),
		withID("test", 9, call("t", "bash", `{"command":"go vet ./broken"}`)), withID("tested", 9, result("t", "vet: undefined: Foo", true)),
		withID("ask", 10, user("Go on with the second step.")))
	for i := range 20 {
		id := fmt.Sprint(i)
		entries = append(entries, withID("c"+id, 10, call(id, "bash", `{"command":"make step"}`)), withID("r"+id, 10, result(id, filler(i, 3_000), false)))
	}
	c := pressed(t, Input{Entries: entries, Facts: Facts{Cwd: "/w", Recall: "recall"}})
	if formOf(c, "ask") != transcript.FormWhole {
		t.Errorf("the last request is %q", formOf(c, "ask"))
	}
	text := c.Checkpoint.Text
	for _, k := range c.Kept {
		if k.ItemID == "rule" {
			text += " RULE-7731"
		}
	}
	for _, want := range []string{"RULE-7731", "app/first.go", "go vet ./broken", "`recall`"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is lost from\n%s", want, c.Checkpoint.Text)
		}
	}
	if !strings.Contains(c.Reanchor, "/w") {
		t.Errorf("re-anchor %q", c.Reanchor)
	}
}

func TestPressureFoldsTheCheckpointBefore(t *testing.T) {
	in := Input{Entries: script("u a c1 r1", 40, 3_000), Window: 64_000}
	first := mustCompose(t, in)
	entries := nextContext(in.Entries, first, "cp")
	for i, e := range script("c1 r1", 20, 3_000) {
		e.Item.ID, e.Item.Turn = transcript.ItemID(fmt.Sprintf("n-%d", i)), "turn-99"
		entries = append(entries, e)
	}
	c := pressed(t, Input{Entries: entries, Window: 64_000})
	if c.Summarized[0] != "cp" || c.Checkpoint.Ledger == nil || !strings.Contains(c.Checkpoint.Text, "Generation 2") {
		t.Errorf("summarised %v first; %.300q", c.Summarized[0], c.Checkpoint.Text)
	}
}

func TestCheckCatchesPressureThatTakesTooMuch(t *testing.T) {
	entries := script("u c1 r1 c2 r2 c3 r3 c4 r4 c5 r5", 1, 4_000)
	in := Input{Entries: entries}
	for _, id := range []transcript.ItemID{"item-1", "item-9"} {
		c := pressed(t, in)
		for _, gone := range []transcript.ItemID{id, entries[slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.Item.ID == id })+1].Item.ID} {
			c.Kept = slices.DeleteFunc(c.Kept, func(k transcript.Kept) bool { return k.ItemID == gone })
			c.Summarized = append(c.Summarized, gone)
			c.Items.Whole, c.Items.Summarized = c.Items.Whole-1, c.Items.Summarized+1
			c.After -= transcript.Tokens(entries[slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.Item.ID == gone })].Item.Body)
		}
		c.Split.FirstRetainedItemID = "item-0"
		if err := Check(in, c); err == nil || !strings.Contains(err.Error(), "first or the latest") {
			t.Errorf("%s was taken: %v", id, err)
		}
	}
}

func TestPressureOverAnyContextKeepsTheContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t, contexts(t, "g"))
		c, ok := Pressure(in)
		if !ok {
			return
		}
		if err := Check(in, c); err != nil {
			t.Fatal(err)
		}
		if err := wireValid(in, c); err != nil {
			t.Fatal(err)
		}
		if len(c.Summarized) < pressureEligible || c.After >= c.Before {
			t.Fatalf("%d items summarised, %d to %d", len(c.Summarized), c.Before, c.After)
		}
	})
}
