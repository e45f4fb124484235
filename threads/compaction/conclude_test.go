package compaction

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
	"pgregory.net/rapid"
)

func concluded(t *testing.T, in Input, s Scale) (Record, *Composed, *transcript.Boundary, *transcript.Prune) {
	t.Helper()
	c := mustCompose(t, in)
	r := NewRecord()
	r.CompactionID, r.Epoch = "k", 3
	r.Writer = optional(WriterExtractive)
	rec, b, p := r.Conclude(Verdict{Outcome: c.Outcome, Code: c.Code, Route: RouteLocal, Writer: WriterExtractive, Composed: c},
		End{At: 7, Checkpoint: "cp", Window: Window{200_000, "server"}, Scale: s, Covered: len(in.Entries)})
	return rec, c, b, p
}

func TestARecordOfAPruneHasNoWriterAndNoEpoch(t *testing.T) {
	in := Input{Entries: toolSession(40, 8_000), Window: 100_000, PruneTo: 70_000}
	rec, c, b, p := concluded(t, in, 1)
	if b != nil || p == nil || p.Epoch != 3 || p.CompactionID != "k" {
		t.Fatalf("boundary %v, prune %v", b, p)
	}
	if d := cmp.Diff(c.Prune, p.Kept); d != "" {
		t.Error(d)
	}
	if rec.Writer != nil || rec.Checkpoint != nil || rec.Split != nil || rec.Epoch != 3 || *rec.Outcome != Completed || *rec.Route != RouteLocal {
		t.Errorf("record %+v", rec)
	}
	if d := cmp.Diff(c.Pruned, rec.PrunedItemIDs); d != "" || rec.Items.Summarized != 0 {
		t.Errorf("items %+v, pruned %s", rec.Items, d)
	}
	raw, err := json.Marshal(rec)
	if err != nil || !strings.Contains(string(raw), `"writer":null`) || !strings.Contains(string(raw), `"checkpoint":null`) || !strings.Contains(string(raw), `"summarizedTurnIds":[]`) {
		t.Errorf("%v: %s", err, raw)
	}
}

func TestARecordIsInOneRuler(t *testing.T) {
	in := Input{Entries: script("u a", 40, 4_000), Window: 50_000}
	for _, c := range []struct {
		scale  Scale
		ruler  string
		source string
	}{
		{0, transcript.Ruler, transcript.Ruler}, {1, transcript.Ruler, transcript.Ruler}, {1.5, RulerMeter, SourceEstimate}, {0.5, RulerMeter, SourceEstimate},
	} {
		rec, composed, b, p := concluded(t, in, c.scale)
		if b == nil || p != nil || b.Epoch != 4 {
			t.Fatalf("boundary %v, prune %v", b, p)
		}
		want := func(units int) int { return c.scale.Tokens(units) }
		if rec.Ruler != c.ruler || rec.Before.Source != c.source || rec.After.Source != c.source {
			t.Errorf("scale %v: ruler %s, sources %s and %s", c.scale, rec.Ruler, rec.Before.Source, rec.After.Source)
		}
		if *rec.After.Window != 200_000 || *rec.After.WindowSource != "server" || rec.Before.WindowSource == nil {
			t.Errorf("the windows are %+v and %+v", rec.Before, rec.After)
		}
		if *rec.Target != want(composed.Target) || rec.Before.Tokens != want(composed.Before) || rec.After.Tokens != want(composed.After) || rec.Checkpoint.Tokens != want(transcript.Tokens(composed.Checkpoint)) {
			t.Errorf("scale %v: target %d, %d to %d, checkpoint %d", c.scale, *rec.Target, rec.Before.Tokens, rec.After.Tokens, rec.Checkpoint.Tokens)
		}
		if *rec.Before.Window != 200_000 { // the window was never in units
			t.Errorf("window %d", *rec.Before.Window)
		}
		if *rec.Writer != WriterExtractive {
			t.Errorf("writer %s", *rec.Writer)
		}
	}
}

func TestARecoveryNamesTheWriterThatItTook(t *testing.T) {
	in := Input{Entries: script("u a", 40, 2_000), Window: 40_000, Base: 29_000, Recover: true}
	rec, _, b, _ := concluded(t, in, 1)
	if b == nil || *rec.Writer != WriterFixed || rec.Checkpoint.Version != VersionFixed {
		t.Errorf("writer %v, checkpoint %+v", *rec.Writer, rec.Checkpoint)
	}
}

func TestUnchangedHasSizesAndNothingElse(t *testing.T) {
	rec, c, b, p := concluded(t, Input{Entries: script("u a", 1, 100)}, 2)
	if b != nil || p != nil || rec.Before.Tokens != 2*c.Before || rec.After.Tokens != rec.Before.Tokens || rec.Ruler != RulerMeter {
		t.Errorf("%d to %d in %s, boundary %v, prune %v", rec.Before.Tokens, rec.After.Tokens, rec.Ruler, b, p)
	}
	if rec.Checkpoint != nil || rec.Items != nil || len(rec.PrunedItemIDs) != 0 {
		t.Errorf("record %+v", rec)
	}
}

// I4 in the record: what was smaller in units is smaller in tokens, at any scale.
func TestScalingKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Scale(rapid.Float64Range(ratioMin, 2*ratioMax).Draw(t, "scale"))
		after := rapid.IntRange(0, 1_000_000).Draw(t, "after")
		before := after + rapid.IntRange(0, 3).Draw(t, "saved")
		var r Record
		r.measured(&Composed{Before: before, After: after}, End{Scale: s})
		if (r.After.Tokens < r.Before.Tokens) != (after < before) || r.After.Tokens > r.Before.Tokens {
			t.Fatalf("%d to %d units are %d to %d tokens at %v", before, after, r.Before.Tokens, r.After.Tokens, s)
		}
		if back := s.Units(s.Tokens(before)); back > before || back < before-4 {
			t.Fatalf("%d units come back as %d at %v", before, back, s)
		}
	})
}
