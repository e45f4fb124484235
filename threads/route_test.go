package threads_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func TestConfiguredRouteCountsForRequestsThatNameNone(t *testing.T) {
	for _, tt := range []struct {
		configured, asked compaction.Route
		want              compaction.Outcome
	}{
		{"", "", compaction.Completed},
		{compaction.RouteNative, "", compaction.Refused},
		{compaction.RouteNative, compaction.RouteLocal, compaction.Completed},
		{compaction.RouteLocal, "", compaction.Completed},
		{compaction.RouteLocal, compaction.RouteNative, compaction.Refused},
	} {
		t.Run(string(tt.configured+"-"+tt.asked), func(t *testing.T) {
			b := newBench(t, func(c *threads.Config) { c.CompactionRoute = tt.configured })
			rec := b.compact(threads.CompactParams{Thread: b.laden(), Route: tt.asked})
			if rec.Outcome == nil || *rec.Outcome != tt.want {
				t.Errorf("record %s", mustJSON(t, rec))
			}
		})
	}
}

// What a provider makes of its history nobody here can bound: asking for that is an
// error, not a wish that is forgotten.
func TestTheNativeRouteTakesNoBudgetAndNoWriter(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	for name, p := range map[string]threads.CompactParams{
		"budget": {Thread: id, Route: compaction.RouteNative, Budget: 4000},
		"writer": {Thread: id, Route: compaction.RouteNative, Writer: compaction.WriterFixed},
	} {
		_, started := b.svc.StartCompaction(t.Context(), p)
		_, looked := b.svc.PreviewCompaction(t.Context(), p)
		for what, err := range map[string]error{"start": started, "preview": looked} {
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(fault.MessageOf(err), "leave "+name+" out") {
				t.Errorf("%s of a native compaction with a %s: %v", what, name, err)
			}
		}
	}
	if n := len(b.records(id)); n != 0 {
		t.Errorf("%d compactions were begun", n)
	}
}
