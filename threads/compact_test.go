package threads_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// laden returns a thread whose context is worth compacting.
func (b *bench) laden() transcript.ThreadID {
	id := b.create()
	for i := range 12 {
		b.turn(id, "Step "+string(rune('a'+i))+": keep port 4711 free", big("answer", 4000))
	}
	return id
}

func (b *bench) compact(p threads.CompactParams) compaction.Record {
	b.t.Helper()
	p.Wait = true
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	ack, err := b.svc.StartCompaction(ctx, p)
	if err != nil {
		b.t.Fatal(err)
	}
	return ack.Record
}

func TestManualCompactionIsATurnOfItsOwn(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	n := len(b.payloads(id))
	rec := b.compact(threads.CompactParams{Thread: id})
	if *rec.Outcome != compaction.Completed || *rec.Route != compaction.RouteLocal || rec.After.Tokens >= rec.Before.Tokens {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	lines := strings.Split(b.log(id), "\n")[n:]
	want := []string{
		"thread/status/changed active", "turn/started compact", "item/started contextCompaction",
		"thread/compaction/updated requested", "thread/compaction/updated hooking", "thread/compaction/updated running",
		"thread/compaction/updated committing", "thread/compaction/updated terminal completed", "thread/tokenUsage/updated",
		`item/completed contextCompaction ""`, "thread/status/changed idle", "turn/completed completed",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if len(rec.Skipped) != 2 || rec.Skipped[0].Link != "native" || rec.Skipped[1].Link != "checkpoint(model)" {
		t.Errorf("skipped %+v, want the native link and the model's with their reasons", rec.Skipped)
	}
	again := b.compact(threads.CompactParams{Thread: id})
	if *again.Outcome != compaction.Unchanged || *again.Code != compaction.CodeNothingToCompact {
		t.Errorf("compacting twice: %s", mustJSON(t, again))
	}
}

func TestContextOfEveryEpochStaysReadable(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	read := func(epoch int) threads.ContextRead {
		t.Helper()
		c, err := b.svc.ReadContext(t.Context(), id, &epoch)
		if err != nil {
			t.Fatal(err)
		}
		c.Epochs, c.Reanchor, c.Base, c.BaseTok, c.Tokens = 0, "", adapters.Base{}, 0, 0
		c.AsOf.N = 0
		return c
	}
	before := read(0)
	b.compact(threads.CompactParams{Thread: id, Budget: 20000})
	if diff := cmp.Diff(before, read(0)); diff != "" {
		t.Errorf("compaction changed the context of epoch 0:\n%s", diff)
	}
	first := read(1)
	b.turn(id, "more", big("more", 30000))
	grown := read(1)
	b.compact(threads.CompactParams{Thread: id, Budget: 8000})
	if diff := cmp.Diff(grown, read(1)); diff != "" {
		t.Errorf("the second compaction changed the context of epoch 1:\n%s", diff)
	}
	if len(first.Entries) >= len(grown.Entries) {
		t.Errorf("the turn after the boundary added nothing: %d, %d", len(first.Entries), len(grown.Entries))
	}
	second := read(2)
	b.restart()
	for epoch, want := range []threads.ContextRead{before, grown, second} {
		if diff := cmp.Diff(want, read(epoch)); diff != "" {
			t.Errorf("epoch %d after a restart:\n%s", epoch, diff)
		}
	}
}

func TestFirstRequestAfterABoundaryIsReanchoredOnce(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	b.compact(threads.CompactParams{Thread: id})
	b.restart() // the pending re-anchor survives
	reanchors := func(text string) int {
		ack := b.start(id, text)
		r := b.request()
		n, last := 0, r.Entries[len(r.Entries)-1].Item.Body
		for _, e := range r.Entries {
			if note, ok := e.Item.Body.(transcript.Notice); ok && note.Source == "reanchor" {
				n++
			}
		}
		if got := transcript.Text(last); got != text {
			t.Errorf("the request ends with %q, want the new message", clip(got))
		}
		if r.Entries[0].Item.Body.Kind() != transcript.KindCheckpoint {
			t.Errorf("the request begins with %s, want the checkpoint", r.Entries[0].Item.Body.Kind())
		}
		r.answer(t, "ok")
		b.await(id, ended(ack.Turn.ID))
		return n
	}
	if n := reanchors("first"); n != 1 {
		t.Errorf("%d re-anchors in the first request, want 1", n)
	}
	if n := reanchors("second"); n != 1 {
		t.Errorf("%d re-anchors in the second request, want the one of before", n)
	}
}

func TestNativeRouteIsRefusedAsAValue(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	n := len(b.payloads(id))
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteNative})
	if *rec.Outcome != compaction.Refused || *rec.Code != "nativeUnsupported" || rec.Reason == nil || rec.Remedy == nil || rec.After != nil {
		t.Errorf("record %s", mustJSON(t, rec))
	}
	lines := strings.Split(b.log(id), "\n")[n:]
	want := []string{
		// The count comes again although nothing changed: the codex TUI forgets it.
		"thread/compaction/updated terminal refused", "thread/tokenUsage/updated", "thread/status/changed idle",
		"error nativeUnsupported willRetry=false", "turn/completed failed",
	}
	if diff := cmp.Diff(want, lines[len(lines)-5:]); diff != "" {
		t.Error(diff)
	}
	if read, _ := b.svc.ReadThread(t.Context(), id); read.Thread.Epoch != 0 {
		t.Errorf("a refusal opened epoch %d", read.Thread.Epoch)
	}
}

func TestCompactionDuringATurnRunsAtTheStepBoundary(t *testing.T) {
	step := make(chan struct{})
	b := newBench(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			<-step
			return transcript.ToolResult{Output: transcript.TextParts("UNREAD-RESULT")}, nil
		}}
	})
	id := b.laden()
	ack := b.start(id, "ACTIVE-PROMPT")
	b.request().send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: "c1", Name: "look", Arguments: []byte(`{}`)}}, adapters.Done{Stop: adapters.StopTools})
	b.await(id, func(p threads.Payload) bool {
		s, ok := p.(threads.ItemStarted)
		return ok && s.Item.Body.Kind() == transcript.KindToolCall
	})
	first, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || first.Record.Phase != compaction.PhaseRequested {
		t.Fatalf("%+v, %v, want it requested", first.Record, err)
	}
	second, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || second.Record.CompactionID != first.Record.CompactionID {
		t.Errorf("a second start made %s, want %s", second.Record.CompactionID, first.Record.CompactionID)
	}
	close(step)
	r := b.request() // the request after the boundary
	texts := r.texts()
	for _, must := range []string{"userMessage: ACTIVE-PROMPT", "toolResult: UNREAD-RESULT"} {
		if !slices.Contains(texts, must) {
			t.Errorf("the request after the boundary lacks %q", must)
		}
	}
	rec, err := b.svc.ReadCompaction(t.Context(), id, first.Record.CompactionID)
	if err != nil || *rec.Outcome != compaction.Completed || rec.TurnID != ack.Turn.ID {
		t.Errorf("record %s, %v", mustJSON(t, rec), err)
	}
	r.answer(t, "ok")
	if done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted); done.Turn.Status != transcript.TurnCompleted {
		t.Errorf("the turn is %s", done.Turn.Status)
	}
}

func TestCompactionAskedForInTheLastStepRunsAfterTheTurnAndBeforeTheQueue(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	ack := b.start(id, "go")
	r := b.request()
	queued := b.start(id, "QUEUED")
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	r.answer(t, "done")
	r = b.request()
	if got := r.texts(); got[len(got)-1] != "userMessage: QUEUED" || !strings.HasPrefix(got[0], "checkpoint") {
		t.Errorf("the queued turn's request begins with %q and ends with %q", clip(got[0]), got[len(got)-1])
	}
	r.answer(t, "later")
	b.await(id, ended(queued.Turn.ID))
	rec, _ := b.svc.ReadCompaction(t.Context(), id, comp.Record.CompactionID)
	if rec.TurnID == ack.Turn.ID || rec.TurnID == queued.Turn.ID {
		t.Error("the compaction is no turn of its own")
	}
}

// holdAt stops the next compaction at a failpoint. reached is closed when it is
// there; calling release lets it go on.
func holdAt(t *testing.T, point string) (reached chan struct{}, release func()) {
	t.Helper()
	reached, held := make(chan struct{}), make(chan struct{})
	var once, free sync.Once
	disarm := failpoint.Arm(func(name string) {
		if name == point {
			once.Do(func() { close(reached) })
			<-held
		}
	})
	release = func() { free.Do(func() { close(held) }) }
	t.Cleanup(func() { disarm(); release() })
	return reached, release
}

func TestInputDuringACompactionIsQueuedAndRunsOnceAfterIt(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	reached, release := holdAt(t, "compaction/running")
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	again, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || again.Record.CompactionID != comp.Record.CompactionID {
		t.Errorf("a second start: %s, %v, want the one that runs", again.Record.CompactionID, err)
	}
	var turns []transcript.TurnID
	for _, mode := range []threads.InputMode{threads.ModeQueue, threads.ModeSteer} {
		ack, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Mode: mode, Input: transcript.TextParts("during, " + string(mode))})
		if err != nil || !ack.Queued || ack.Steered {
			t.Errorf("input in mode %s during a compaction: %+v, %v, want it queued", mode, ack, err)
		}
		turns = append(turns, ack.Turn.ID)
	}
	release()
	for i, mode := range []string{"queue", "steer"} {
		r := b.request()
		if got := r.texts(); got[len(got)-1] != "userMessage: during, "+mode || !strings.HasPrefix(got[0], "checkpoint") {
			t.Errorf("request %d begins with %q and ends with %q", i, clip(got[0]), got[len(got)-1])
		}
		r.answer(t, "ok")
		b.await(id, ended(turns[i]))
	}
}

func TestInterruptDuringACompactionLeavesTheContextAsItWas(t *testing.T) {
	for _, point := range []string{"compaction/hooking", "compaction/running", "compaction/committing"} {
		t.Run(point, func(t *testing.T) {
			b := newBench(t)
			id := b.laden()
			before, err := b.svc.ReadContext(t.Context(), id, nil)
			if err != nil {
				t.Fatal(err)
			}
			reached, release := holdAt(t, point)
			comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
			if err != nil {
				t.Fatal(err)
			}
			<-reached
			if err := b.svc.InterruptTurn(t.Context(), id, comp.Record.TurnID); err != nil {
				t.Fatal(err)
			}
			release()
			done := b.await(id, ended(comp.Record.TurnID)).(threads.TurnCompleted)
			rec, err := b.svc.ReadCompaction(t.Context(), id, comp.Record.CompactionID)
			if err != nil || *rec.Outcome != compaction.Interrupted || done.Turn.Status != transcript.TurnInterrupted {
				t.Errorf("turn %s, record %s, %v", done.Turn.Status, mustJSON(t, rec), err)
			}
			after, err := b.svc.ReadContext(t.Context(), id, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Entries, after.Entries); diff != "" {
				t.Errorf("the context changed:\n%s", diff)
			}
			b.turn(id, "go on", "yes")
		})
	}
}

func TestRestartEndsWhatWasOpen(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	ack := b.start(id, "unfinished")
	b.request().send(t, adapters.MessageText{Text: "half a sen"}, adapters.MessageText{})
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	read, err := b.svc.ReadTurn(t.Context(), id, ack.Turn.ID)
	if err != nil || read.Status != transcript.TurnInterrupted || read.CompletedAt.IsZero() {
		t.Errorf("the turn is %+v, %v", read.Turn, err)
	}
	rec, err := b.svc.ReadCompaction(t.Context(), id, comp.Record.CompactionID)
	if err != nil || *rec.Outcome != compaction.Interrupted {
		t.Errorf("record %s, %v", mustJSON(t, rec), err)
	}
	if got := b.log(id); !strings.Contains(got, `agentMessage "half a sen"`) {
		t.Error("the streamed text is lost")
	}
	if read, _ := b.svc.ReadThread(t.Context(), id); read.Thread.Status != threads.StatusIdle || read.Thread.Epoch != 0 {
		t.Errorf("thread %+v", read.Thread)
	}
}
