package compaction

import (
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// An End is what the end of a compaction needs to be told beside its verdict.
type End struct {
	At         int64             // unix ms
	Checkpoint transcript.ItemID // for the checkpoint's item
	Window     Window
	Scale      Scale // of the sizes in the record
	Covered    int   // items of the transcript that the compaction accounts for
}

// NewRecord returns a record that says nothing yet: every list is there and
// empty, everything else is null.
func NewRecord() Record {
	return Record{
		Ruler: transcript.Ruler, Phase: PhaseRequested,
		SummarizedTurnIDs: []transcript.TurnID{}, RetainedTurnIDs: []transcript.TurnID{}, PrunedItemIDs: []transcript.ItemID{},
		Skipped: []Skip{}, Warnings: []string{},
	}
}

// Conclude returns r with the outcome of v, and what changes the context: the
// boundary, or the prune of a compaction that ended with one. A native completion
// has a boundary only where the provider disclosed its new context, which none does
// so far. Before and after are in one ruler, and what was smaller stays smaller
// (I4).
func (r Record) Conclude(v Verdict, end End) (Record, *transcript.Boundary, *transcript.Prune) {
	r.Phase, r.Outcome, r.CompletedAt = PhaseTerminal, &v.Outcome, &end.At
	r.Code, r.Reason, r.Remedy = optional(v.Code), optional(v.Reason), optional(v.Remedy)
	r.Route = optional(v.Route)
	r.Skipped, r.Warnings = append([]Skip{}, v.Skipped...), append([]string{}, v.Warnings...)
	r.Usage = v.Usage
	if n := v.Native; n != nil {
		r.disclosed(*n, end)
	}
	c := v.Composed
	if c == nil {
		return r, nil, nil
	}
	r.measured(c, end)
	if v.Outcome != Completed {
		return r, nil, nil
	}
	r.SummarizedTurnIDs = append([]transcript.TurnID{}, c.SummarizedTurns...)
	r.RetainedTurnIDs = append([]transcript.TurnID{}, c.RetainedTurns...)
	r.PrunedItemIDs = append([]transcript.ItemID{}, c.Pruned...)
	r.Split, r.Items = c.Split, &c.Items
	if c.Prune != nil {
		r.Writer = nil
		return r, nil, &transcript.Prune{Epoch: r.Epoch, CompactionID: r.CompactionID, Kept: slices.Clone(c.Prune)}
	}
	if r.Writer = optional(v.Writer); c.Writer != "" {
		r.Writer = &c.Writer // a recovery may have taken a later one
	}
	r.Checkpoint = &CheckpointInfo{
		ItemID: end.Checkpoint, Version: c.Checkpoint.Version, Tokens: end.Scale.Tokens(transcript.Tokens(c.Checkpoint)), Fidelity: c.Fidelity,
	}
	at := transcript.FromMillis(end.At)
	return r, &transcript.Boundary{
		Epoch: r.Epoch + 1, CompactionID: r.CompactionID, Covered: end.Covered, Kept: slices.Clone(c.Kept),
		Checkpoint: &transcript.Item{ID: end.Checkpoint, Turn: r.TurnID, StartedAt: at, CompletedAt: at, Body: c.Checkpoint},
	}, nil
}

// disclosed puts what a provider told of its own compaction into the record, as it
// told it: nothing is judged, and what it did not tell stays unknown.
func (r *Record) disclosed(n NativeDone, end End) {
	r.Native, r.Usage = &n.Info, n.Usage
	if n.Before > 0 {
		r.Before = Told(n.Before, end.Window)
	}
	if r.After = nil; n.After > 0 {
		r.After = Told(n.After, end.Window)
	}
}

// Told is a size that a provider told.
func Told(tokens int, w Window) *Measure {
	return &Measure{Tokens: tokens, Window: optional(w.Tokens), Source: SourceProvider, WindowSource: optional(w.Source)}
}

// measured puts the sizes of c into the record, in tokens of the scale.
func (r *Record) measured(c *Composed, end End) {
	before, after := end.Scale.Tokens(c.Before), end.Scale.Tokens(c.After)
	if c.After < c.Before {
		after = min(after, before-1) // also where a scale below 1 rounds both to one number
	}
	r.Ruler, r.Target = end.Scale.Ruler(), new(end.Scale.Tokens(c.Target))
	r.Before, r.After = end.Scale.Measured(before, end.Window), end.Scale.Measured(after, end.Window)
}

// Measured is a size counted by transcript.Ruler.
func Measured(tokens int, w Window) *Measure { return Scale(1).Measured(tokens, w) }

// Measured is a size in tokens of the scale: counted by the ruler if it is 1, else
// estimated.
func (s Scale) Measured(tokens int, w Window) *Measure {
	m := &Measure{Tokens: tokens, Window: optional(w.Tokens), Source: s.Ruler(), WindowSource: optional(w.Source)}
	if m.Source != transcript.Ruler {
		m.Source = SourceEstimate
	}
	return m
}

// optional returns nil for a zero value: what is absent is null in a record.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
