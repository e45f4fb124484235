package importer_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// apiID is what the API takes as an id.
var apiID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkValid asserts what every imported transcript guarantees.
func checkValid(t testing.TB, s *importer.Session) {
	t.Helper()
	ids := map[transcript.ItemID]bool{}
	turns := map[transcript.TurnID]bool{}
	for _, turn := range s.Transcript.Turns {
		if turns[turn.ID] || turn.Status == "" || !apiID.MatchString(string(turn.ID)) {
			t.Errorf("turn %s is there twice, has no status, or cannot be asked for", turn.ID)
		}
		turns[turn.ID] = true
	}
	for i, it := range s.Transcript.Items {
		if ids[it.ID] || !apiID.MatchString(string(transcript.SyntheticID(it.ID))) {
			t.Errorf("item %d: id %q is not unique, or cannot be asked for", i, it.ID)
		}
		ids[it.ID] = true
		if !turns[it.Turn] {
			t.Errorf("item %s: turn %q does not exist", it.ID, it.Turn)
		}
		if !utf8.ValidString(transcript.Text(it.Body)) {
			t.Errorf("item %s: text is not UTF-8", it.ID)
		}
		if raw, err := it.MarshalJSON(); err != nil {
			t.Errorf("item %s: %v", it.ID, err)
		} else if err := new(transcript.Item).UnmarshalJSON(raw); err != nil {
			t.Errorf("item %s does not decode: %v", it.ID, err)
		}
	}
	if utf8.RuneCountInString(s.Title) > 80 || strings.ContainsAny(s.Title, "\n\r\t") {
		t.Errorf("title %q is long or has several lines", s.Title)
	}
	checkEpochs(t, s, ids)
}

// checkEpochs asserts that every epoch renders and that no boundary separates a
// call from its result.
func checkEpochs(t testing.TB, s *importer.Session, ids map[transcript.ItemID]bool) {
	t.Helper()
	tr := &s.Transcript
	for i, b := range tr.Boundaries {
		if b.Epoch != i+1 || b.Covered < 1 || b.Covered > len(tr.Items) || b.CompactionID == "" {
			t.Errorf("boundary %d: epoch %d, covered %d, compaction %q", i, b.Epoch, b.Covered, b.CompactionID)
			continue
		}
		if marker, ok := tr.Items[b.Covered-1].Body.(transcript.ContextCompaction); !ok || marker.CompactionID != b.CompactionID {
			t.Errorf("boundary %d does not end at its marker", i)
		}
		if b.Checkpoint != nil && (ids[b.Checkpoint.ID] || !apiID.MatchString(string(b.Checkpoint.ID))) {
			t.Errorf("checkpoint %s has the id of an item, or one that cannot be asked for", b.Checkpoint.ID)
		}
	}
	whole := calls(tr.Items)
	for epoch := range len(tr.Boundaries) + 1 {
		entries, err := tr.Context(epoch)
		if err != nil {
			t.Errorf("epoch %d: %v", epoch, err)
			continue
		}
		var items []transcript.Item
		for _, e := range entries {
			items = append(items, e.Item)
		}
		if epoch == 0 {
			continue
		}
		for id, n := range calls(items) {
			if n.results > n.calls && whole[id].results <= whole[id].calls {
				t.Errorf("epoch %d has a result of %s without its call", epoch, id)
			}
		}
	}
}

type tally struct{ calls, results int }

func calls(items []transcript.Item) map[transcript.CallID]tally {
	out := map[transcript.CallID]tally{}
	for _, it := range items {
		switch b := it.Body.(type) {
		case transcript.ToolCall:
			n := out[b.CallID]
			n.calls++
			out[b.CallID] = n
		case transcript.ToolResult:
			n := out[b.CallID]
			n.results++
			out[b.CallID] = n
		}
	}
	return out
}

func wantRefusal(t *testing.T, err error, word string) {
	t.Helper()
	if fault.CodeOf(err) != fault.Invalid || !strings.Contains(fault.MessageOf(err), word) || !strings.Contains(fault.MessageOf(err), "supported are") {
		t.Errorf("error %v, want an invalid fault that names %q and what is supported", err, word)
	}
}
