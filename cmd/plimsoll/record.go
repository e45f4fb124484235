package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printRecord writes a compaction's record for people; timed says whether its
// times were measured.
func printRecord(w io.Writer, s style, r *compaction.Record, timed bool) {
	t := &table{head: []string{"", ""}}
	row := func(name, text string) {
		if text != "" {
			t.add(name, printable(text))
		}
	}
	t.add("compaction", string(r.CompactionID))
	t.add("outcome", outcomeText(s, r))
	row("code", deref(r.Code))
	row("reason", deref(r.Reason))
	row("remedy", deref(r.Remedy))
	row("route", string(deref(r.Route)))
	row("writer", string(deref(r.Writer)))
	row("before", measureText(r.Before))
	row("after", measureText(r.After))
	if r.Target != nil {
		row("target", plural(*r.Target, "token"))
	}
	if c := r.Checkpoint; c != nil {
		row("checkpoint", c.Version+", "+plural(c.Tokens, "token"))
		row("fidelity", fidelityText(c.Fidelity))
		for _, missing := range c.Fidelity.Missing {
			row("  missing", oneLine(missing, 90))
		}
	}
	if r.Items != nil {
		row("items", itemsText(r.Items))
		row("turns", fmt.Sprintf("%d summarised, %d retained", len(r.SummarizedTurnIDs), len(r.RetainedTurnIDs)))
	}
	for _, skip := range r.Skipped {
		row("skipped", skip.Link+": "+skip.Code+": "+skip.Reason)
	}
	for _, warning := range r.Warnings {
		row("warning", oneLine(warning, 120))
	}
	if timed {
		row("time", millisText(r))
	}
	row("epoch", epochText(r))
	t.print(w, s)
}

// deref is what p points to, or nothing.
func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

func outcomeText(s style, r *compaction.Record) string {
	if r.Outcome == nil {
		return "none yet, phase " + string(r.Phase)
	}
	text := string(*r.Outcome)
	switch *r.Outcome {
	case compaction.Completed:
		return s.good(text)
	case compaction.Unchanged, compaction.Cancelled, compaction.Interrupted:
		return s.notice(text)
	case compaction.Refused, compaction.Denied, compaction.Failed, compaction.Uncertain:
		return s.bad(text)
	}
	return text
}

func measureText(m *compaction.Measure) string {
	if m == nil {
		return ""
	}
	text := fmt.Sprintf("%s tokens (%s)", thousands(m.Tokens), m.Source)
	if m.Window != nil && *m.Window > 0 {
		text += fmt.Sprintf(", %s of the window of %s", percent(m.Tokens, *m.Window), thousands(*m.Window))
	}
	return text
}

func fidelityText(f compaction.Fidelity) string {
	return fmt.Sprintf("%d of %d facts kept (%s)", f.Kept, f.Total, percent(f.Kept, f.Total))
}

func itemsText(c *compaction.ItemCounts) string {
	return fmt.Sprintf("%s summarised, %s whole, %s clipped, %s stub",
		thousands(c.Summarized), thousands(c.Whole), thousands(c.Clipped), thousands(c.Stub))
}

func epochText(r *compaction.Record) string {
	if r.Outcome != nil && *r.Outcome == compaction.Completed && r.Writer != nil { // only a checkpoint opens one
		return fmt.Sprintf("%d → %d", r.Epoch, r.Epoch+1)
	}
	return strconv.Itoa(r.Epoch)
}

// millisText is how long the work took, from its start to its end.
func millisText(r *compaction.Record) string {
	if r.StartedAt == nil || r.CompletedAt == nil {
		return "–"
	}
	return strconv.FormatInt(*r.CompletedAt-*r.StartedAt, 10) + " ms"
}

// recordError is the error of a command that asked for r and did not get it: nil
// for completed and unchanged, which leave a context that is as small as asked.
func recordError(r *compaction.Record) error {
	if r.Outcome == nil {
		return nil
	}
	if *r.Outcome == compaction.Completed || *r.Outcome == compaction.Unchanged {
		return nil
	}
	var parts []string
	for _, p := range []*string{r.Code, r.Reason, r.Remedy} {
		if p != nil && *p != "" && *p != string(*r.Outcome) { // denied has the code denied
			parts = append(parts, *p)
		}
	}
	return fmt.Errorf("compact: %s: %s", *r.Outcome, strings.Join(parts, ": "))
}

// optional is nil for nothing, as deref reads it.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
