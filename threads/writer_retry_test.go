package threads_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// P115: a writer whose provider limits its rate is asked again after as long as the
// provider says, once, and writes the checkpoint.
func TestARateLimitedWriterIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := writing(func(adapters.Request) played {
			if asked++; asked == 1 {
				return played{err: &adapters.Error{Class: adapters.ClassRateLimited, Message: "slow down", RetryAfter: 9 * time.Second}}
			}
			return notes()
		})
		b := playing(t, p)
		id := b.ladenBy()
		began := time.Now()
		ack, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		rec, took := ack.Record, time.Since(began)
		if *rec.Outcome != compaction.Completed || *rec.Writer != compaction.WriterModel || len(rec.Warnings) == 0 || rec.Usage.Requests < 2 {
			t.Errorf("record %s", mustJSON(t, rec))
		}
		if took < 9*time.Second || took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
