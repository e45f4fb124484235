package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The order of codex 0.171 (codex.md §2), without what only accounts have.
func TestAPlainTurnIsToldInTheOrderOfCodex(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		c := d.hello("")
		thread := c.start("offline")
		if f := c.next(); f.Method != "thread/started" || f.Seq != 1 {
			t.Fatalf("after thread/start came %s", f.raw)
		}
		before := len(c.seen)
		turn := c.say(thread, "hello there")
		c.until("turn/completed")
		want := []string{
			"=", "thread/status/changed", "turn/started", "item/started", "item/completed",
			"item/started", methodMessageDelta, "item/completed",
			"thread/tokenUsage/updated", "thread/status/changed", "turn/completed",
		}
		if diff := cmp.Diff(want, c.flow(before)); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		dense(t, 1, seqs(c.seen))
		if got := texts(t, c.seen); len(got) != 1 {
			t.Errorf("texts %v", got)
		}
		_ = turn
		c.close()
	})
}
