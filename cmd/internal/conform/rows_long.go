package conform

import (
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// The row of a long session.

const (
	longTurns   = 30
	longCompact = 6 // every so many turns
)

func long(w *world) {
	w.open(setup{cassette: summary + "-- answers --\nrepeat\nsay \"ANSWER-${n}. \"\npad 3000\nusage auto\n", manual: true})
	done := 0
	for i := 1; i <= longTurns; i++ {
		w.ids.turn(fmt.Sprintf("PROMPT-%d: what does tide gauge %d say? %s", i, i, filler[:1500]))
		if i%longCompact != 0 {
			continue
		}
		before := w.contextNow()
		r := w.ids.compacted(w.ids.compact(w.best()).CompactionID)
		if i == longCompact {
			w.isRefusal(r, before)
		}
		w.demand(r.Outcome != nil && *r.Outcome == compaction.Completed, fmt.Sprintf("compaction %d completes", done+1), "%s", outcomeOf(r))
		done++
		w.holds()
	}
	w.demand(w.writers() >= done, "each compaction asks the model for a summary", "%d compactions, %d summaries", done, w.writers())
	w.ids.turn("PROMPT-AFTER: and now?")
	body := w.holding("PROMPT-AFTER")
	w.demand(strings.Contains(body, "SUMMARY-7F3"), "the last request holds a summary", "it is without one")
	w.demand(!strings.Contains(body, "ANSWER-1."), "the last request is without what was summarised first", "it still has the first answer")
	w.holds()
}
