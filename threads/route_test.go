package threads_test

import (
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
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
