package main

import (
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// Only a checkpoint opens an epoch: not what a provider did, nor a prune, nor what failed.
func TestARecordTellsTheEpochThatItOpened(t *testing.T) {
	ended := func(o compaction.Outcome, w compaction.Writer) func(*compaction.Record) {
		return func(r *compaction.Record) { r.Outcome, r.Writer = &o, &w }
	}
	for name, c := range map[string]struct {
		change func(*compaction.Record)
		want   string
	}{
		"checkpoint": {ended(compaction.Completed, compaction.WriterExtractive), "3 → 4"},
		"native":     {func(r *compaction.Record) { r.Outcome, r.Native = new(compaction.Completed), &compaction.NativeInfo{} }, "3"},
		"prune":      {func(r *compaction.Record) { r.Outcome = new(compaction.Completed) }, "3"},
		"failed":     {ended(compaction.Failed, compaction.WriterModel), "3"},
		"open":       {func(r *compaction.Record) {}, "3"},
	} {
		r := compaction.NewRecord()
		r.Epoch = 3
		c.change(&r)
		if got := epochText(&r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
