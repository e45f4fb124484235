package main

import (
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

func TestAJoinedCompactionWasAskedForEarlier(t *testing.T) {
	t.Parallel()
	asked := time.UnixMilli(1_000).Add(700 * time.Microsecond)
	for at, want := range map[int64]bool{999: true, 1_000: false, 1_001: false} {
		if got := joined(&compaction.Record{RequestedAt: at}, asked); got != want {
			t.Errorf("requested at %d: joined %t", at, got)
		}
	}
}
