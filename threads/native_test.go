package threads_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What a provider lost is not what an undo goes back to, although nothing was said since.
func TestUndoNeverGoesBackToASessionThatLostItsHistory(t *testing.T) {
	k := newKeeper(t, "lossy")
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
	k := newKeeper(t, "ok")
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
	k, other := newKeeper(t, "ok"), newKeeper(t, "ok")
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
	for _, p := range other.Opened() {
		if p.NativeID != "" {
			t.Errorf("a provider was asked for the session %s of another one", p.NativeID)
		}
	}
	b.wantKept(t, other, id)
}

// A session that another process drives fails the turn and nothing else: nothing was
// lost, and the same session goes on as soon as it is free.
func TestASessionInUseFailsTheTurnOnly(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k, rebasing)
	id := b.create()
	b.said(id, "hello")
	native := b.native(id)
	b.close()
	elsewhere, err := k.Open(t.Context(), adapters.OpenParams{NativeID: native})
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	turn := b.played(id, "go on")
	if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, native) || !strings.Contains(turn.Error.Message, "open") {
		t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
	}
	if rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteNative}); *rec.Outcome == compaction.Completed {
		t.Errorf("record %s", mustJSON(t, rec))
	}
	if err := elsewhere.Close(); err != nil {
		t.Fatal(err)
	}
	b.said(id, "and now")
	if got := b.native(id); got != native {
		t.Errorf("the thread is in %s, it was in %s", got, native)
	}
}

// What opens after a session that was abandoned is the same one, once that is closed.
func TestAnAbandonedSessionIsResumed(t *testing.T) {
	e := newEngine()
	stuck, free := make(chan struct{}), make(chan struct{})
	plain := e.run
	e.run = func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		if transcript.PartsText(in.Input) != "hang" {
			return plain(ctx, in, h)
		}
		close(stuck)
		<-free
		return adapters.End{}, ctx.Err()
	}
	b := driving(t, e, func(c *threads.Config) { c.StopAfter = 20 * time.Millisecond })
	id := b.create()
	b.said(id, "hello")
	native := b.native(id)
	ack := b.start(id, "hang")
	<-stuck
	b.must(b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID))
	b.await(id, ended(ack.Turn.ID))
	b.said(id, "go on")
	close(free)
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := e.opened[len(e.opened)-1]; last.NativeID != native || len(last.Seed) > 0 {
		t.Errorf("after %s the session %q was opened, with a history of %d", native, last.NativeID, len(last.Seed))
	}
}

// An imported thread and a copy of one have no session until something is said in them.
func TestAnImportBeginsASessionWithTheContext(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 12)
	b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 3000})
	b.said(id, "and more")
	moved := b.moved(id)
	if b.native(moved) != "" {
		t.Errorf("two threads are in session %s", b.native(moved))
	}
	b.said(moved, "go on")
	b.wantKept(t, k, moved)
	b.said(id, "go on here")
	b.wantKept(t, k, id)
	if b.native(id) == b.native(moved) {
		t.Errorf("two threads are in session %s", b.native(id))
	}
}

// Of a fresh session nobody has counted anything: its size is an estimate until it does.
func TestAfterARebaseTheSizeIsAnEstimateUntilTheNextReport(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	counted := b.read(id).Occupancy
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	now := b.read(id).Occupancy
	if now.Source == compaction.SourceProvider || now.Context != rec.After.Tokens || now.Context >= counted.Context || now.Context < 1000 {
		t.Errorf("after the rebase the occupancy is %+v, the record has %+v", now, rec.After)
	}
	b.said(id, "go on")
	if now = b.read(id).Occupancy; now.Source != compaction.SourceProvider || now.Context > counted.Context/2 {
		t.Errorf("after the next report it is %+v", now)
	}
}

// A session that is made anew by itself is told of.
func TestALostSessionThatIsMadeAnewIsWarnedOf(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k, rebasing)
	id := b.create()
	b.said(id, "hello")
	lost := b.native(id)
	b.close()
	forget(t, k, lost)
	b.open()
	b.said(id, "go on")
	b.wantKept(t, k, id)
	said := 0
	for _, p := range b.payloads(id) {
		switch p := p.(type) {
		case threads.WarningRaised:
			if strings.Contains(p.Message, lost) {
				said++
			}
		case threads.SessionUpdated:
			if p.Reason == threads.SessionReplaced && p.Previous != lost {
				t.Errorf("%+v", p)
			}
		}
	}
	if said != 1 {
		t.Errorf("it is warned of %d times", said)
	}
}

// The settings of the thread reach the session, and an id never comes with a history.
func TestWhatASessionIsOpenedWith(t *testing.T) {
	k := newKeeper(t, "ok")
	b := keeping(t, k)
	approval, sandbox := "never", "read-only"
	id := b.create()
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{ApprovalPolicy: &approval, Sandbox: &sandbox}); err != nil {
		t.Fatal(err)
	}
	b.said(id, "hello")
	b.restart()
	b.said(id, "again")
	fork := b.fork(threads.ForkParams{Thread: id}).ID
	b.said(fork, "in the fork")
	for i, p := range k.Opened() {
		if p.Approval != approval || p.Sandbox != sandbox || (p.NativeID != "") != (i == 1) || (len(p.Seed) > 0) != (i == 2) {
			t.Errorf("session %d was opened with %+v", i, p)
		}
	}
}

// A provider that lost its history is not gone on with, whatever came of the compaction
// after that: nothing to compact, or no session that could be made.
func TestALossThatNothingMendedIsNotGoneOnWith(t *testing.T) {
	for name, rejected := range map[string]error{"nothing to compact": nil, "rebase failed": errors.New("no room on the disk")} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, "lossy")
			b := keeping(t, k)
			id := b.create()
			b.filled(id, 12)
			lost, budget := b.native(id), 40_000
			if rejected != nil {
				k.Reject(rejected)
				budget = 2000
			}
			rec := b.compact(threads.CompactParams{Thread: id, Budget: budget})
			if *rec.Outcome == compaction.Completed || len(rec.Skipped) == 0 || rec.Skipped[0].Code != "nativeInvalid" {
				t.Fatalf("record %s", mustJSON(t, rec))
			}
			if rejected != nil && (rec.Remedy == nil || !strings.Contains(*rec.Remedy, "fresh session")) {
				t.Errorf("the remedy is %v", rec.Remedy)
			}
			k.Reject(nil)
			b.said(id, "go on")
			if now := b.native(id); now == lost {
				t.Errorf("the thread is in %s", now)
			}
			b.wantKept(t, k, id)
		})
	}
}

// A compaction of a program's own waits for the turn that runs, and not for the inputs
// that wait: they are no part of it, and the program hears them after it.
func TestACompactionOfARuntimeGoesBeforeTheInputsThatWait(t *testing.T) {
	e := newEngine()
	running, finish := make(chan struct{}), make(chan struct{})
	var order []string // by the session, which does one thing at a time
	e.run = func(_ context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		text := transcript.PartsText(in.Input)
		if text == "first" {
			close(running)
			<-finish
		}
		order = append(order, text)
		return says(h, "done", 40_000), nil
	}
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		order = append(order, "compaction")
		return adapters.NativeResult{Form: "engine"}, nil
	}
	b := driving(t, e)
	id := b.create()
	b.start(id, "first")
	<-running
	b.start(id, "second")
	last := b.start(id, "third")
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	if r := comp.Record; r.Phase != compaction.PhaseRequested {
		t.Errorf("during a turn it is %s", r.Phase)
	}
	close(finish)
	b.await(id, ended(last.Turn.ID))
	b.settle(id)
	if got := strings.Join(order, ", "); got != "first, compaction, second, third" {
		t.Errorf("%s", got)
	}
}
