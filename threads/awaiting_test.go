package threads_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// While the journal cannot be written, a client that waits for a compaction does not have
// its thread loaded as fast as it can be, and its provider asked each time.
func TestWhoWaitsWhileTheJournalIsBrokenAsksSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		e := newEngine()
		e.recover = func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
			asked.Add(1)
			return adapters.NativeResult{}, adapters.ErrUncertain
		}
		b := driving(t, e)
		b.close()
		j := &brittle{Journal: b.config.Journal, left: -1}
		b.config.Journal = j
		b.open()
		id := b.create()
		b.said(id, "hello")
		e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
			j.breaksAfter(0)
			return adapters.NativeResult{Form: "engine"}, nil
		}
		got := make(chan compaction.Record, 1)
		go func() {
			ack, err := b.svc.StartCompaction(context.Background(), threads.CompactParams{Thread: id, Wait: true})
			if err != nil {
				t.Error(err)
			}
			got <- ack.Record
		}()
		time.Sleep(10 * time.Second) // of synctest's clock
		if n := asked.Load(); n < 2 || n > 12 {
			t.Errorf("the provider was asked %d times in 10 s", n)
		}
		j.breaksAfter(-1)
		if rec := <-got; rec.Outcome == nil || *rec.Outcome != compaction.Uncertain {
			t.Errorf("record %s", mustJSON(t, rec))
		}
	})
}
