package transcript

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyTranscript draws items with calls that are answered, late, never or twice,
// and boundaries between them.
func anyTranscript(t *rapid.T) Transcript {
	var tr Transcript
	for i := range rapid.IntRange(0, 30).Draw(t, "items") {
		it := Item{ID: ItemID(fmt.Sprint("i", i)), Turn: "t"}
		call := CallID(fmt.Sprint("c", rapid.IntRange(0, 4).Draw(t, "call")))
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			it.Body = UserMessage{Content: TextParts("u")}
		case 1:
			it.Body = AgentMessage{Text: "a"}
		case 2:
			it.Body = ToolCall{CallID: call, Name: "f", Arguments: RawJSON(`{}`)}
		case 3:
			it.Body = ToolResult{CallID: call, Output: TextParts("r")}
		}
		tr.Items = append(tr.Items, it)
		if rapid.IntRange(0, 9).Draw(t, "boundary") == 0 {
			tr.Boundaries = append(tr.Boundaries, Boundary{
				Epoch: len(tr.Boundaries) + 1, Covered: len(tr.Items),
				Kept: []Kept{{ItemID: it.ID, Form: FormWhole}},
			})
		}
	}
	return tr
}

func isSynthetic(it Item) bool {
	r, ok := it.Body.(ToolResult)
	return ok && r.Synthetic
}

func indexOf(items []Item, id ItemID) int {
	return slices.IndexFunc(items, func(it Item) bool { return it.ID == id })
}

func TestEveryCallIsAnsweredOnceAndNothingElseMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := anyTranscript(t)
		after, added := AnswerOpenCalls(before)
		if n := len(openCalls(after.Items)); n != 0 {
			t.Fatalf("%d calls are still open", n)
		}
		var rest []Item
		for i, it := range after.Items {
			if r, ok := it.Body.(ToolResult); !ok || !r.Synthetic {
				rest = append(rest, it)
			} else if k := after.Items[i-1].Body.Kind(); k != KindToolCall && k != KindToolResult {
				t.Errorf("a synthetic result follows %s", k)
			}
		}
		if len(after.Items)-len(rest) != added {
			t.Errorf("%d results were added, it says %d", len(after.Items)-len(rest), added)
		}
		if diff := cmp.Diff(before.Items, rest); diff != "" {
			t.Errorf("the other items changed:\n%s", diff)
		}
		for i, b := range after.Boundaries {
			covered, was := after.Items[:b.Covered], before.Items[:before.Boundaries[i].Covered]
			if plain := slices.DeleteFunc(slices.Clone(covered), isSynthetic); !cmp.Equal(plain, was) {
				t.Errorf("boundary %d covers other items than before", b.Epoch)
			}
			for _, it := range covered {
				if id := SyntheticID(it.ID); indexOf(after.Items, id) >= b.Covered {
					t.Errorf("boundary %d separates %s from its synthetic result", b.Epoch, it.ID)
				}
			}
			for _, k := range b.Kept {
				if id := SyntheticID(k.ItemID); indexOf(after.Items, id) >= 0 && !slices.ContainsFunc(b.Kept, func(k Kept) bool { return k.ItemID == id }) {
					t.Errorf("boundary %d keeps %s without its synthetic result", b.Epoch, k.ItemID)
				}
			}
		}
		if _, again := AnswerOpenCalls(after); again != 0 {
			t.Errorf("a second pass adds %d results", again)
		}
	})
}

func TestContextOfAnEpochEndsWhereTheNextBoundaryWasDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTranscript(t)
		for epoch := range tr.Epoch() + 1 {
			entries, err := tr.Context(epoch)
			if err != nil {
				t.Fatal(err)
			}
			from, to := 0, len(tr.Items)
			kept := 0
			if epoch > 0 {
				from, kept = tr.Boundaries[epoch-1].Covered, len(tr.Boundaries[epoch-1].Kept)
			}
			if epoch < tr.Epoch() {
				to = tr.Boundaries[epoch].Covered
			}
			if want := kept + to - from; len(entries) != want {
				t.Errorf("epoch %d has %d entries, want %d", epoch, len(entries), want)
			}
		}
		if _, err := tr.Context(tr.Epoch() + 1); err == nil {
			t.Error("an epoch that does not exist has a context")
		}
	})
}

func TestAnsweringOpenCallsKeepsPrunes(t *testing.T) {
	tr := Transcript{
		Items: []Item{
			{ID: "c1", Turn: "t", Body: ToolCall{CallID: "1", Name: "read", Arguments: RawJSON(`{}`)}},
			{ID: "r1", Turn: "t", Body: ToolResult{CallID: "1", Output: TextParts("long")}},
			{ID: "c2", Turn: "t", Body: ToolCall{CallID: "2", Name: "read", Arguments: RawJSON(`{}`)}},
		},
		Prunes: []Prune{{CompactionID: "k", Kept: []Kept{{ItemID: "r1", Form: FormStub, Text: "[…]"}}}},
	}
	out, n := AnswerOpenCalls(tr)
	entries, err := out.Context(0)
	if err != nil || n != 1 || len(entries) != 4 || entries[1].Form != FormStub || Text(entries[1].Item.Body) != "[…]" {
		t.Errorf("%d answers, %v, %+v", n, err, entries)
	}
}
