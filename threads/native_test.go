package threads_test

import (
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// What a provider lost is not what an undo goes back to, although nothing was said since.
func TestUndoNeverGoesBackToASessionThatLostItsHistory(t *testing.T) {
	k := newKeeper()
	k.lossy = true
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	lost := b.native(id)
	rec := b.compact(threads.CompactParams{Thread: id, Budget: 4000})
	if *rec.Outcome != compaction.Completed || rec.Rebase == nil || *rec.Rebase.From != lost {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	b.undo(id, rec.CompactionID)
	if now := b.native(id); now == lost || now == rec.Rebase.To {
		t.Errorf("the thread is in %s", now)
	}
	b.wantKept(t, k, id)
}

// A session that an undo goes back to is what it was: what its provider had compacted
// there can be undone in its turn.
func TestANativeCompactionCanBeUndoneAfterTheRebaseThatFollowedIt(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	own := b.compact(threads.CompactParams{Thread: id})
	b.said(id, "after the provider's own")
	old := b.native(id)
	local := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.undo(id, local.CompactionID)
	if got := b.native(id); got != old {
		t.Fatalf("the thread is in %s, want %s", got, old)
	}
	b.restart()
	b.undo(id, own.CompactionID)
	b.wantKept(t, k, id)
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

// What another provider made of its own history stands in nobody's way.
func TestANativeCompactionOfAnotherProviderKeepsNothingFromBeingUndone(t *testing.T) {
	k, other := newKeeper(), newKeeper()
	b := keeping(t, k, func(c *threads.Config) {
		c.Providers = append(c.Providers, threads.Provider{Name: "other", Kind: "keeper", Adapter: other})
	})
	id := b.create()
	b.filled(id, 20)
	local := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.compact(threads.CompactParams{Thread: id})
	name := "other"
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Provider: &name}); err != nil {
		t.Fatal(err)
	}
	b.undo(id, local.CompactionID)
	for _, p := range other.opened {
		if p.NativeID != "" {
			t.Errorf("a provider was asked for the session %s of another one", p.NativeID)
		}
	}
	b.wantKept(t, other, id)
}
