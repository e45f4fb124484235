package threads_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (b *bench) fork(p threads.ForkParams) threads.Thread {
	b.t.Helper()
	r, err := b.svc.Fork(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Thread
}

// nextRequest is what the next request of a thread would hold beside its new
// message: the whole of its entries, and the re-anchor before it.
func (b *bench) nextRequest(id transcript.ThreadID) string {
	b.t.Helper()
	c, err := b.svc.ReadContext(b.t.Context(), id, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("epoch %d, reanchor %q\n%s", c.Epoch, c.Reanchor, mustJSON(b.t, c.Entries))
}

// A moment is a thread as it was after one of its turns.
type moment struct {
	turn transcript.TurnID
	next string
}

// moments has a thread with two compactions happen, and notes what its next
// request would have been after each of its turns.
func (b *bench) moments() (id transcript.ThreadID, all []moment) {
	b.t.Helper()
	id = b.create()
	note := func(turn transcript.TurnID) {
		all = append(all, moment{turn: turn, next: b.nextRequest(id)})
	}
	for i := range 8 {
		note(b.turn(id, fmt.Sprintf("Step %d: keep port 47%02d free", i, i), big(fmt.Sprint("answer", i), 3000)))
	}
	note(b.compact(threads.CompactParams{Thread: id, Budget: 12000}).TurnID)
	for i := range 5 {
		note(b.turn(id, fmt.Sprintf("Later %d", i), big(fmt.Sprint("later", i), 3000)))
	}
	note(b.compact(threads.CompactParams{Thread: id, Budget: 9000}).TurnID)
	note(b.turn(id, "Last", big("last", 500)))
	if e := b.read(id).Epoch; e != 2 {
		b.t.Fatalf("the thread is at epoch %d, want 2", e)
	}
	return id, all
}

func (b *bench) read(id transcript.ThreadID) threads.Thread {
	b.t.Helper()
	r, err := b.svc.ReadThread(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Thread
}

// Before, at, between and after the boundaries; this is also what happens on
// the wire, because a request is the context and the new message.
func TestForksFirstRequestIsTheSourcesNextOneAtThatPoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id, all := b.moments()
	before := b.see(id)
	for i, m := range all {
		fork := b.fork(threads.ForkParams{Thread: id, LastTurn: m.turn})
		if diff := cmp.Diff(m.next, b.nextRequest(fork.ID)); diff != "" {
			t.Errorf("fork after turn %d:\n%s", i, clip(diff))
		}
		if i+1 < len(all) {
			same := b.fork(threads.ForkParams{Thread: id, BeforeTurn: all[i+1].turn})
			if diff := cmp.Diff(m.next, b.nextRequest(same.ID)); diff != "" {
				t.Errorf("fork before turn %d:\n%s", i+1, clip(diff))
			}
		}
		if fork.Turns != i+1 || fork.Origin.ForkedFrom != id || fork.Status != threads.StatusIdle {
			t.Errorf("fork after turn %d is %+v", i, fork)
		}
	}
	whole := b.fork(threads.ForkParams{Thread: id})
	want, got := before, b.see(whole.ID)
	for _, part := range []string{"items", "turns", "epoch 0", "epoch 1", "epoch 2"} {
		if diff := cmp.Diff(want[part], got[part]); diff != "" {
			t.Errorf("%s of the whole fork differ:\n%s", part, clip(diff))
		}
	}
	if diff := cmp.Diff(before, b.see(id)); diff != "" {
		t.Errorf("forking changed the source:\n%s", clip(diff))
	}
	ack := b.start(whole.ID, "NEXT")
	fromFork := b.request()
	ackSource := b.start(id, "NEXT")
	fromSource := b.request()
	if diff := cmp.Diff(fromSource.texts(), fromFork.texts()); diff != "" {
		t.Errorf("the first requests differ (-source +fork):\n%s", clip(diff))
	}
	fromFork.answer(t, "ok")
	fromSource.answer(t, "ok")
	b.await(whole.ID, ended(ack.Turn.ID))
	b.await(id, ended(ackSource.Turn.ID))
}

func TestForkOfARunningThreadLeavesTheActiveTurnOut(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first := b.turn(id, "one", "1")
	running := b.start(id, "two")
	r := b.request()
	b.start(id, "queued")
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	r.send(t, adapters.MessageText{Text: "half"}, adapters.MessageText{})
	fork := b.fork(threads.ForkParams{Thread: id})
	if fork.Turns != 1 || fork.Queued != 0 || fork.Status != threads.StatusIdle {
		t.Errorf("the fork is %+v, want one turn, at rest", fork)
	}
	if _, err := b.svc.ReadCompaction(t.Context(), fork.ID, comp.Record.CompactionID); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("the compaction that was asked for is in the fork: %v", err)
	}
	_, err = b.svc.Fork(t.Context(), threads.ForkParams{Thread: id, LastTurn: running.Turn.ID})
	if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "in progress") {
		t.Errorf("a fork after the turn in progress: %v", err)
	}
	before := b.fork(threads.ForkParams{Thread: id, BeforeTurn: running.Turn.ID})
	if before.Turns != 1 {
		t.Errorf("a fork before the turn in progress has %d turns, want 1", before.Turns)
	}
	b.turn(fork.ID, "three", "3") // while the source still runs
	items, err := b.svc.ListItems(t.Context(), fork.ID, threads.ItemQuery{Turn: first})
	if err != nil || len(items.Items) != 2 {
		t.Errorf("the copied turn has %d items, %v", len(items.Items), err)
	}
	r.answer(t, " and whole")
	b.await(id, ended(running.Turn.ID))
}

// A compaction that was asked for in the copied turn and ended after it is none of
// the fork's: nothing goes on there.
func TestForkLeavesOutACompactionThatWasOnlyAskedFor(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	reached, release := holdAt(t, "compaction/running")
	ack := b.start(id, "go")
	r := b.request()
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	r.answer(t, "done")
	<-reached
	fork := b.fork(threads.ForkParams{Thread: id, LastTurn: ack.Turn.ID})
	if recs, err := b.svc.ListCompactions(t.Context(), fork.ID, threads.PageQuery{}); err != nil || len(recs.Records) != 0 {
		t.Errorf("the fork's compactions: %+v, %v", recs.Records, err)
	}
	release()
	b.turn(fork.ID, "alone", "yes")
	if th := b.read(fork.ID); th.Epoch != 0 || th.Turns != 14 {
		t.Errorf("the fork is %+v", th)
	}
	for active := b.active(id); active != nil; active = b.active(id) { // the source's compaction goes on undisturbed
		b.await(id, ended(active.ID))
	}
	if done, err := b.svc.ReadCompaction(t.Context(), id, comp.Record.CompactionID); err != nil || !done.Terminal() {
		t.Errorf("the source's compaction: %+v, %v", done, err)
	}
}

func TestForkKeepsWhatDescribesTheThreadAndDropsWhatOnlyTheSourceHas(t *testing.T) {
	b := newBench(t)
	r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{
		Name: "first name", Git: &threads.GitInfo{Branch: "main"}, Origin: threads.Origin{Client: "editor", Source: "user"},
		Tools: []threads.DynamicTool{{Namespace: "n", Name: "look", Description: "d", Schema: []byte(`{"type":"object"}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := r.Thread.ID
	_, err = b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Effort: new("low")})
	if err = errors.Join(err, b.svc.SetName(t.Context(), id, "name between")); err != nil {
		t.Fatal(err)
	}
	ack := b.start(id, "once")
	req := b.request()
	steer := threads.StartTurnParams{Thread: id, Input: transcript.TextParts("more"), Mode: threads.ModeSteer, IdempotencyKey: "k1"}
	if _, err := b.svc.StartTurn(t.Context(), steer); err != nil {
		t.Fatal(err)
	}
	req.answer(t, "yes")
	b.request().answer(t, "and more")
	b.await(id, ended(ack.Turn.ID))
	if _, err = b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Effort: new("high")}); err != nil {
		t.Fatal(err)
	}
	if err := b.svc.SetName(t.Context(), id, "second name"); err != nil {
		t.Fatal(err)
	}
	if err := b.svc.Archive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	fork := b.fork(threads.ForkParams{Thread: id, LastTurn: ack.Turn.ID, Origin: threads.Origin{Client: "tui"}, Settings: threads.SettingsPatch{ApprovalPolicy: new("never")}})
	if fork.Name != "second name" || fork.Archived || fork.Git == nil || fork.Git.Branch != "main" || fork.Settings.ApprovalPolicy != "never" || fork.Settings.Effort != "high" ||
		fork.Origin != (threads.Origin{ForkedFrom: id, Client: "tui"}) {
		t.Errorf("the fork is %+v", fork)
	}
	first, ok := b.payloads(fork.ID)[0].(threads.ThreadStarted)
	if !ok || len(first.Tools) != 1 || first.Accepted != nil {
		t.Errorf("the fork begins with %+v", b.payloads(fork.ID)[0])
	}
	steer.Thread = fork.ID
	again, err := b.svc.StartTurn(t.Context(), steer)
	if err != nil || again.Turn.ID == ack.Turn.ID {
		t.Errorf("the source's idempotency key answers in the fork: %s, %v", again.Turn.ID, err)
	}
	b.request().answer(t, "twice")
	b.await(fork.ID, ended(again.Turn.ID))
	for _, line := range strings.Split(b.log(fork.ID), "\n")[:4] {
		if strings.HasPrefix(line, "thread/status") || strings.HasPrefix(line, "thread/name") {
			t.Errorf("the copied history holds %q", line)
		}
	}
}

func TestForkIsOneCommitAndRepeatsUnderItsKey(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "one", "1")
	n := b.journal.count()
	p := threads.ForkParams{Thread: id, IdempotencyKey: "fork-1"}
	first := b.fork(p)
	if got := b.journal.count() - n; got != 1 {
		t.Errorf("a fork took %d commits, want 1", got)
	}
	b.turn(id, "two", "2")
	if again := b.fork(p); again.ID != first.ID || again.Turns != 1 {
		t.Errorf("the same request again made %+v", again)
	}
	if err := b.svc.DeleteThread(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if again := b.fork(p); again.ID != first.ID {
		t.Errorf("with the source gone, the same request made %s", again.ID)
	}
	p.LastTurn = "x"
	if _, err := b.svc.Fork(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("another body under the same key: %v, want a conflict", err)
	}
	b.turn(first.ID, "alone", "still here")
}

func TestBadForksSayWhy(t *testing.T) {
	b := newBench(t)
	id := b.create()
	turn := b.turn(id, "one", "1")
	n := len(b.payloads(id))
	for name, c := range map[string]struct {
		p    threads.ForkParams
		code fault.Code
		says string
	}{
		"unknown thread": {threads.ForkParams{Thread: "nope"}, fault.NotFound, "does not exist"},
		"unknown last":   {threads.ForkParams{Thread: id, LastTurn: "x"}, fault.NotFound, "turn not found: x"},
		"unknown before": {threads.ForkParams{Thread: id, BeforeTurn: "y"}, fault.NotFound, "turn not found: y"},
		"both":           {threads.ForkParams{Thread: id, LastTurn: turn, BeforeTurn: turn}, fault.Invalid, "cannot be combined"},
		"provider":       {threads.ForkParams{Thread: id, Settings: threads.SettingsPatch{Provider: new("x")}}, fault.Invalid, "configured: puppet"},
	} {
		_, err := b.svc.Fork(t.Context(), c.p)
		if fault.CodeOf(err) != c.code || !strings.Contains(fault.MessageOf(err), c.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, err, fault.CodeOf(err), c.code, c.says)
		}
	}
	if len(b.payloads(id)) != n || len(b.svc.Loaded()) != 1 {
		t.Errorf("bad forks left events or threads: %v", b.svc.Loaded())
	}
}

// A fork keeps the images of its source after that is deleted; an image that was
// never stored does not stand in the way.
func TestForkKeepsTheBlobsOfItsSource(t *testing.T) {
	b := newBench(t)
	id := b.create()
	turn := b.turn(id, "look", "seen")
	data := []byte("an image")
	hash := blobHash(data)
	b.close()
	info, err := b.journal.Info(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	image := func(item, blob string) events.Event {
		e := threads.ItemCompleted{Item: transcript.Item{ID: transcript.ItemID(item), Turn: turn, Body: transcript.Image{Blob: blob, MediaType: "image/png"}}}
		return events.Event{Type: e.EventType(), Data: []byte(mustJSON(t, e))}
	}
	_, err = b.journal.Append(t.Context(), events.Append{
		Thread: string(id), Expect: info.Head, Blobs: []events.Blob{{Hash: hash, Data: data}},
		Events: []events.Event{image("image-1", hash), image("image-2", blobHash([]byte("never stored"))), image("image-3", "no hash at all")},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	fork := b.fork(threads.ForkParams{Thread: id})
	if err := b.svc.DeleteThread(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got, err := b.journal.Blob(t.Context(), hash); err != nil || string(got) != string(data) {
		t.Errorf("the fork's image after its source was deleted: %q, %v", got, err)
	}
	if fork.Items != 5 {
		t.Errorf("the fork has %d items, want 5", fork.Items)
	}
	if err := b.svc.DeleteThread(t.Context(), fork.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.journal.Blob(t.Context(), hash); err == nil {
		t.Error("the image outlived every thread that shows it")
	}
}

// Forks race with turns and reverts of their source: each is a whole number of
// turns that the source had at some moment.
func TestForksDuringTurnsAreWhole(t *testing.T) {
	b := newBench(t)
	id := b.create()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	forks := make(chan threads.Thread, 256)
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
				if err != nil {
					t.Errorf("fork: %v", err)
					return
				}
				select {
				case forks <- r.Thread:
				default:
					return
				}
			}
		})
	}
	for i := range 10 {
		turn := b.turn(id, fmt.Sprint("q", i), fmt.Sprint("a", i))
		if i%3 == 2 {
			if _, err := b.svc.Revert(t.Context(), id, turn); err != nil {
				t.Errorf("revert: %v", err)
			}
		}
	}
	close(stop)
	wg.Wait()
	close(forks)
	n := 0
	for f := range forks {
		n++
		if f.Items != 2*f.Turns || f.Status != threads.StatusIdle {
			t.Errorf("a fork has %d turns and %d items, status %s", f.Turns, f.Items, f.Status)
		}
	}
	if n == 0 {
		t.Error("no fork was made")
	}
}

// The end of a turn is where the next one begins, whatever happened between them.
func TestForkAfterATurnIsTheForkBeforeTheNext(t *testing.T) {
	b := newBench(t)
	id := b.create()
	inject := func(text string) {
		t.Helper()
		raw := []byte(fmt.Sprintf(`{"role":"user","content":%q}`, text))
		if err := b.svc.InjectItems(t.Context(), id, []transcript.RawJSON{raw}); err != nil {
			t.Fatal(err)
		}
	}
	one := b.turn(id, "one", "first")
	inject("between")
	gone := b.turn(id, "gone", "reverted")
	if _, err := b.svc.Revert(t.Context(), id, gone); err != nil {
		t.Fatal(err)
	}
	inject("after the revert")
	last := b.nextRequest(b.fork(threads.ForkParams{Thread: id, LastTurn: one}).ID)
	if want := b.nextRequest(id); last != want || !strings.Contains(last, "after the revert") {
		t.Errorf("fork after the last turn:\n%s", cmp.Diff(want, last))
	}
	two := b.turn(id, "two", "second")
	after, before := b.fork(threads.ForkParams{Thread: id, LastTurn: one}), b.fork(threads.ForkParams{Thread: id, BeforeTurn: two})
	for name, f := range map[string]threads.Thread{"after": after, "before": before} {
		if diff := cmp.Diff(last, b.nextRequest(f.ID)); diff != "" {
			t.Errorf("fork %s:\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(describe(b.payloads(before.ID)), describe(b.payloads(after.ID))); diff != "" {
		t.Errorf("the forks have different histories:\n%s", diff)
	}
}
