package transcript_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// forms lists a context as item, form and text.
func forms(t *testing.T, tr *transcript.Transcript, epoch int) []string {
	t.Helper()
	entries, err := tr.Context(epoch)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, string(e.Item.ID)+" "+string(e.Form)+" "+transcript.Text(e.Item.Body))
	}
	return out
}

func TestAPruneShowsItemsOfItsEpochShorter(t *testing.T) {
	result := func(id transcript.ItemID, call transcript.CallID, text string) transcript.Item {
		return transcript.Item{ID: id, Turn: "t1", Body: transcript.ToolResult{CallID: call, Output: transcript.TextParts(text)}}
	}
	tr := &transcript.Transcript{
		Items: []transcript.Item{result("a", "c1", "long a"), result("b", "c2", "long b"), result("c", "c3", "long c")},
		Prunes: []transcript.Prune{
			{Epoch: 0, CompactionID: "p1", Kept: []transcript.Kept{{ItemID: "a", Form: transcript.FormClipped, Text: "a…"}, {ItemID: "b", Form: transcript.FormClipped, Text: "b…"}}},
			{Epoch: 0, CompactionID: "p2", Kept: []transcript.Kept{{ItemID: "a", Form: transcript.FormStub, Text: "."}, {ItemID: "gone", Form: transcript.FormStub, Text: "."}}},
			{Epoch: 1, CompactionID: "p3", Kept: []transcript.Kept{{ItemID: "c", Form: transcript.FormStub, Text: "c."}}},
		},
		Boundaries: []transcript.Boundary{{Epoch: 1, Covered: 3, Kept: []transcript.Kept{
			{ItemID: "b", Form: transcript.FormClipped, Text: "b in 1"}, {ItemID: "c", Form: transcript.FormWhole},
		}}},
	}
	if diff := cmp.Diff([]string{"a stub .", "b clipped b…", "c whole long c"}, forms(t, tr, 0)); diff != "" {
		t.Errorf("epoch 0 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b clipped b in 1", "c stub c."}, forms(t, tr, 1)); diff != "" {
		t.Errorf("epoch 1 (-want +got):\n%s", diff)
	}
	if got := transcript.Text(tr.Items[0].Body); got != "long a" {
		t.Errorf("a prune changed the transcript: %q", got)
	}
	tr.Prunes = tr.Prunes[:1] // the later ones are undone
	if diff := cmp.Diff([]string{"a clipped a…", "b clipped b…", "c whole long c"}, forms(t, tr, 0)); diff != "" {
		t.Errorf("epoch 0 without the later prunes (-want +got):\n%s", diff)
	}
}
