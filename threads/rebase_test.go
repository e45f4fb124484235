package threads_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestANativeSessionIsResumedAfterARestart(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.said(id, "hello")
	first := b.native(id)
	if first == "" {
		t.Fatal("the session is not known")
	}
	b.restart()
	b.said(id, "again")
	if got := b.native(id); got != first {
		t.Errorf("the thread was resumed in %s, it was in %s", got, first)
	}
	b.wantKept(t, k, id)
	opened := 0
	for _, p := range b.payloads(id) {
		if _, ok := p.(threads.SessionUpdated); ok {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d events tell of the session", opened)
	}
}

func TestARefusingRuntimeIsRebasedByALocalCompaction(t *testing.T) {
	k := newKeeper(t, "none it has no such command")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	old := b.native(id)
	before := history(t, k, old)
	rec := b.compact(threads.CompactParams{Thread: id, Budget: 4000})
	if *rec.Outcome != compaction.Completed || rec.Rebase == nil || *rec.Rebase.From != old || rec.Rebase.To == old {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	if len(rec.Skipped) == 0 || rec.Skipped[0].Code != "nativeUnsupported" {
		t.Errorf("the refusal is not told: %+v", rec.Skipped)
	}
	if now := b.native(id); now != rec.Rebase.To {
		t.Errorf("the thread is in %s", now)
	}
	b.wantKept(t, k, id)
	if diff := cmp.Diff(before, history(t, k, old)); diff != "" {
		t.Errorf("the old session changed:\n%s", diff)
	}
	b.said(id, "go on")
	b.restart()
	b.said(id, "and on")
	b.wantKept(t, k, id)
}

func TestARebaseThatFailsChangesNothing(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	old := b.native(id)
	k.Reject(fault.New(fault.Unavailable, "no room on the disk"))
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	if *rec.Outcome != compaction.Failed || *rec.Code != "rebaseFailed" || !strings.Contains(*rec.Reason, "no room on the disk") || rec.Remedy == nil {
		t.Errorf("record %s", mustJSON(t, rec))
	}
	if b.native(id) != old || b.read(id).Epoch != 0 {
		t.Errorf("the thread is in %s, epoch %d", b.native(id), b.read(id).Epoch)
	}
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestUndoOfARebaseGoesBackToTheOldSession(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	old := b.native(id)
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.wantSession(id, threads.SessionUpdated{Provider: "keeper", NativeID: rec.Rebase.To, Previous: old, Reason: threads.SessionRebased})
	ack := b.undo(id, rec.CompactionID)
	b.wantSession(id, threads.SessionUpdated{Provider: "keeper", NativeID: old, Previous: rec.Rebase.To, Reason: threads.SessionRestored})
	if ack.NativeSession != old || ack.Retold {
		t.Errorf("the undo tells %+v", ack)
	}
	if got := b.native(id); got != old {
		t.Errorf("the thread is in %s, want the old session %s", got, old)
	}
	if got := b.read(id).Occupancy; got.Context != rec.Before.Tokens {
		t.Errorf("the context has %+v, and had %+v", got, rec.Before)
	}
	b.wantKept(t, k, id)

	rec = b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.said(id, "something new")
	ack = b.undo(id, rec.CompactionID)
	if got := b.native(id); got == old || got == rec.Rebase.To || ack.NativeSession != got || !ack.Retold {
		t.Errorf("the thread is in %s, which does not have what was said since; the undo tells %+v", got, ack)
	}
	b.wantSession(id, threads.SessionUpdated{Provider: "keeper", NativeID: b.native(id), Previous: rec.Rebase.To, Reason: threads.SessionRestored})
	b.wantKept(t, k, id)
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestUndoOfANativeCompactionTellsAFreshSessionEverything(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 3)
	first := b.compact(threads.CompactParams{Thread: id})
	second := b.compact(threads.CompactParams{Thread: id})
	if history(t, k, b.native(id))[0] != fake.NativeNotes {
		t.Fatalf("record %s", mustJSON(t, second))
	}
	_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: first.CompactionID})
	if r, ok := errors.AsType[*fault.Error](err); !ok || r.Data.(threads.UndoRefusal).Code != threads.UndoNotNewest || r.Data.(threads.UndoRefusal).Undoable != second.CompactionID {
		t.Errorf("undo of the older one: %v", err)
	}
	if ack := b.undo(id, second.CompactionID); !ack.Retold || ack.Context < first.Before.Tokens/2 {
		t.Errorf("the undo tells %+v; before all the context had %+v", ack, first.Before)
	}
	b.wantKept(t, k, id)
	_, err = b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: second.CompactionID})
	if r, ok := errors.AsType[*fault.Error](err); !ok || r.Data.(threads.UndoRefusal).Code != threads.UndoAlready {
		t.Errorf("undo again: %v", err)
	}
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestForksRevertsAndOtherProvidersBeginSessionsWithTheContext(t *testing.T) {
	k, other := newKeeper(t, "ok"), newKeeper(t, "ok")
	b := keeping(t, k, func(c *threads.Config) {
		c.Providers = append(c.Providers, threads.Provider{Name: "other", Kind: "keeper", Adapter: other})
	})
	id := b.create()
	b.said(id, "one")
	second := b.said(id, "two")
	source := b.native(id)
	fork := b.fork(threads.ForkParams{Thread: id}).ID
	b.said(fork, "in the fork")
	b.wantKept(t, k, fork)
	if b.native(fork) == source || b.native(id) != source {
		t.Errorf("fork in %s, source in %s", b.native(fork), b.native(id))
	}
	b.revert(id, second)
	if b.native(id) != "" {
		t.Error("a session with turns that are gone is the thread's")
	}
	b.said(id, "two again")
	b.wantKept(t, k, id)
	name := "other"
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Provider: &name}); err != nil {
		t.Fatal(err)
	}
	b.said(id, "with another provider")
	b.wantKept(t, other, id)
}

func TestAnotherModelKeepsTheSession(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.said(id, "one")
	before := b.native(id)
	model := "fake-other"
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Model: &model}); err != nil {
		t.Fatal(err)
	}
	b.said(id, "two")
	if got := b.native(id); got != before || k.Opened()[len(k.Opened())-1].Model != model {
		t.Errorf("session %s with model %s", got, k.Opened()[len(k.Opened())-1].Model)
	}
	b.wantKept(t, k, id)
}

func TestALostSessionIsNoSilentLoss(t *testing.T) {
	for _, rebase := range []bool{false, true} {
		t.Run(fmt.Sprint(rebase), func(t *testing.T) {
			k := newKeeper(t, "ok")
			b := keeping(t, k, func(c *threads.Config) { c.Providers[0].AutoRebase = rebase })
			id := b.create()
			b.filled(id, 12)
			lost := b.native(id)
			b.close()
			forget(t, k, lost)
			b.open()
			turn := b.played(id, "go on")
			if rebase {
				if turn.Status != transcript.TurnCompleted {
					t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
				}
				b.wantKept(t, k, id)
				return
			}
			if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, "does not know its session") || !strings.Contains(turn.Error.Message, "route local") {
				t.Fatalf("the turn ended %s: %+v", turn.Status, turn.Error)
			}
			rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 3000})
			if *rec.Outcome != compaction.Completed {
				t.Fatalf("record %s", mustJSON(t, rec))
			}
			b.said(id, "and now")
			b.wantKept(t, k, id)
		})
	}
}

// The error says: compact it with route local. A thread that is small, or cannot become
// smaller, goes on all the same.
func TestALostSessionOfAThreadWithNothingToCompact(t *testing.T) {
	for name, budget := range map[string]int{"nothingToCompact": 0, "overheadExceedsBudget": 1} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, "ok")
			b := keeping(t, k)
			id := b.create()
			b.said(id, "one")
			lost := b.native(id)
			b.close()
			forget(t, k, lost)
			b.open()
			if turn := b.played(id, "go on"); turn.Status != transcript.TurnFailed {
				t.Fatalf("the turn ended %s", turn.Status)
			}
			if rec := b.compact(threads.CompactParams{Thread: id}); *rec.Outcome != compaction.Unchanged || b.native(id) != lost {
				t.Errorf("without a route: session %s, record %s", b.native(id), mustJSON(t, rec))
			}
			rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: budget})
			if *rec.Outcome != compaction.Unchanged || rec.Code == nil || *rec.Code != name {
				t.Fatalf("record %s", mustJSON(t, rec))
			}
			if b.native(id) == lost {
				t.Error("the thread has still the session that is lost")
			}
			b.said(id, "and now")
			b.wantKept(t, k, id)
		})
	}
}

func TestASessionInWhichNothingWasSaidMayBeLost(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.close()
	forget(t, k, rec.Rebase.To) // codex writes no file before something is said (codex 0.171, observed)
	b.open()
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestALossyCompactionIsMadeGoodFromTheJournal(t *testing.T) {
	for _, route := range []compaction.Route{"", compaction.RouteNative} {
		t.Run("route "+string(route), func(t *testing.T) {
			k := newKeeper(t, "lossy")
			b := keeping(t, k)
			id := b.create()
			b.filled(id, 20)
			p := threads.CompactParams{Thread: id, Route: route}
			if route == "" {
				p.Budget = 4000
			}
			rec := b.compact(p)
			if route == "" && (*rec.Outcome != compaction.Completed || rec.Rebase == nil) {
				t.Errorf("record %s", mustJSON(t, rec))
			}
			if route != "" && (*rec.Outcome != compaction.Failed || *rec.Code != "nativeInvalid") {
				t.Errorf("record %s", mustJSON(t, rec))
			}
			b.said(id, "go on")
			b.wantKept(t, k, id)
		})
	}
}

func TestAPreviewOpensNoSessionBesideTheThreads(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 3)
	b.restart()
	n := len(k.Opened())
	v := b.preview(threads.CompactParams{Thread: id})
	if *v.Record.Route != compaction.RouteNative || len(k.Opened()) != n {
		t.Errorf("%d sessions were opened for %s", len(k.Opened())-n, mustJSON(t, v.Record))
	}
	k.Play(keeps(t, "none it has no such command"))
	if v = b.preview(threads.CompactParams{Thread: id, Budget: 1000}); *v.Record.Route != compaction.RouteLocal {
		t.Errorf("record %s", mustJSON(t, v.Record))
	}
}

func TestAutomaticRebasesAreWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		k := newKeeper(t, "none it has no such command")
		b := keeping(t, k, func(c *threads.Config) {
			c.Policy = compaction.Policy{}
			c.Providers[0].AutoRebase = wanted
		})
		id := b.create()
		for i := range 10 {
			b.said(id, fmt.Sprintf("part %d: %s", i, strings.Repeat("words of the work. ", 1400)))
		}
		b.settle(id)
		recs := b.records(id)
		if done := slices.ContainsFunc(recs, func(r compaction.Record) bool { return r.Rebase != nil }); done != wanted {
			t.Errorf("auto_rebase %v: rebased %v, %s", wanted, done, mustJSON(t, recs))
		}
		b.wantKept(t, k, id)
	}
}
