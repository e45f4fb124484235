package threads_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// failing makes the service on a journal whose writes fail on demand: what was
// not journaled by then never happened, as in a crash.
func (b *bench) failing() *broken {
	b.t.Helper()
	j := &broken{Journal: b.config.Journal}
	b.config.Journal = j
	b.restart()
	return j
}

// crash makes the next commits fail until f was done, and loads the thread anew.
func (b *bench) crash(j *broken, id transcript.ThreadID, f func()) {
	b.t.Helper()
	j.set(errScripted)
	f()
	if _, err := b.svc.StartTurn(context.Background(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("never journaled")}); err == nil {
		b.t.Fatal("a broken journal takes events")
	}
	j.set(nil)
	b.restart()
}

func TestATurnThatOnlyWaitsSurvivesARestart(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "both")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`}, [3]string{"c2", clientToolName, `{}`})
	before := b.pending(id, 2)
	events := len(b.payloads(id))
	for range 2 {
		b.restart()
		after, err := b.svc.Requests(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("requests after a restart (-want +got):\n%s", diff)
		}
		if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Status != threads.StatusActive {
			t.Errorf("the thread is %s, %v", read.Thread.Status, err)
		}
	}
	if n := len(b.payloads(id)); n != events {
		t.Errorf("two restarts added %d events:\n%s", n-events, b.log(id))
	}
	for _, q := range before {
		answer := threads.RequestAnswer{Decision: adapters.Accept}
		if q.Method == threads.AskTool {
			answer = threads.RequestAnswer{Output: transcript.TextParts("package a")}
		}
		if err := b.svc.Answer(t.Context(), id, q.ID, answer, "editor"); err != nil {
			t.Fatal(err)
		}
	}
	r := b.request()
	r.wantResults(t, map[string]string{"c1": "ran make", "c2": "package a"})
	r.answer(t, "done")
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if done.Turn.Status != transcript.TurnCompleted {
		t.Errorf("the turn is %s, want completed", done.Turn.Status)
	}
	if n := strings.Count(b.log(id), "serverRequest/created"); n != 2 {
		t.Errorf("%d requests were made for two questions", n)
	}
}

func TestAStateFromASnapshotWaitsForTheSameRequest(t *testing.T) {
	b, id := asking(t)
	for range 8 { // enough events for a snapshot to be worth it
		b.turn(id, "chapter", "and so on")
	}
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	before := b.pending(id, 1)
	b.restart()
	if snap, err := b.journal.Snapshot(t.Context(), string(id)); err != nil || snap.Seq != int64(len(b.payloads(id))) {
		t.Fatalf("there is no snapshot of the waiting turn: %d, %v", snap.Seq, err)
	}
	if diff := cmp.Diff(before, b.pending(id, 1)); diff != "" {
		t.Errorf("requests from the snapshot (-want +got):\n%s", diff)
	}
	b.answer(id, before[0].ID, adapters.Decline)
	r := b.request()
	r.wantResults(t, map[string]string{"c1": "decline"})
	r.answer(t, "then not")
	b.await(id, ended(ack.Turn.ID))
}

// A runtime's own items: its session asks again about the item that is open.
func TestAnAnswerBeforeTheSessionAsksAgainIsNotLost(t *testing.T) {
	item := make(chan transcript.ItemID, 1)
	again := make(chan transcript.ItemID)
	answers := make(chan adapters.Answer, 1)
	d := &director{continues: true, run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		id := h.NewItemID()
		if in.Continue {
			id = <-again
		} else {
			item <- id
		}
		body := transcript.Command{Command: "make", Cwd: "/w", Status: "inProgress"}
		a, err := h.Ask(ctx, adapters.CommandApproval{Item: transcript.Item{ID: id, Turn: in.Turn, Body: body}, Command: "make", Cwd: "/w"})
		if err != nil {
			return adapters.End{}, err
		}
		answers <- a
		body.Status = "completed"
		return adapters.End{Updates: []adapters.Update{adapters.ItemCompleted{Item: transcript.Item{ID: id, Turn: in.Turn, Body: body}}}}, nil
	}}
	b := directedBench(t, d)
	id := b.create()
	ack := b.start(id, "build")
	q := b.pending(id, 1)[0]
	b.restart()
	if err := b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: adapters.Accept, Amendment: []byte(`{"execpolicy_amendment":["make"]}`)}, "editor"); err != nil {
		t.Fatal(err)
	}
	again <- <-item
	if a := <-answers; a.Decision != adapters.Accept || string(a.Amendment) != `{"execpolicy_amendment":["make"]}` || a.Auto {
		t.Errorf("the session that asked again got %+v", a)
	}
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if done.Turn.Status != transcript.TurnCompleted || strings.Count(b.log(id), "serverRequest/created") != 1 {
		t.Errorf("the turn is %s:\n%s", done.Turn.Status, b.log(id))
	}
}

func TestARuntimeThatCannotGoOnIsInterruptedByARestart(t *testing.T) {
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end, _, err := askCommand(ctx, in, h, "make")
		return end, err
	}})
	id := b.create()
	ack := b.start(id, "build")
	q := b.pending(id, 1)[0]
	b.restart()
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if done.Turn.Status != transcript.TurnInterrupted {
		t.Errorf("the turn is %s, want interrupted", done.Turn.Status)
	}
	wantTooLate(t, b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: adapters.Accept}, ""),
		threads.AlreadyResolved{Kind: "alreadyResolved", RequestID: q.ID, Outcome: threads.RequestCancelled})
	if rs, err := b.svc.Requests(t.Context(), id); err != nil || len(rs) != 0 {
		t.Errorf("requests %v, %v", rs, err)
	}
}

func TestATurnThatAlsoWorksIsInterruptedByARestart(t *testing.T) {
	working := make(chan struct{})
	b, id := asking(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"work": func(ctx context.Context, _ transcript.ToolCall, _ threads.Asker) (transcript.ToolResult, error) {
			close(working)
			<-ctx.Done()
			return transcript.ToolResult{}, ctx.Err()
		}}
	})
	ack := b.start(id, "both")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`}, [3]string{"c2", "work", `{}`})
	b.pending(id, 1)
	<-working
	b.restart()
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, b.from(id, "item/completed toolResult"), `
item/completed toolResult "aborted: this call was never answered"
item/completed toolResult "aborted: this call was never answered"
thread/status/changed idle
turn/completed interrupted
serverRequest/resolved cancelled`)
}

func TestACallThatWasApprovedAndThenStoppedMayHaveRun(t *testing.T) {
	begun := make(chan struct{})
	b, id := asking(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"deploy": func(ctx context.Context, call transcript.ToolCall, ask threads.Asker) (transcript.ToolResult, error) {
			if _, err := ask(ctx, adapters.CommandApproval{Command: "deploy", Cwd: "/w"}); err != nil {
				return transcript.ToolResult{}, err
			}
			begun <- struct{}{}
			<-ctx.Done()
			return transcript.ToolResult{}, ctx.Err()
		}}
	})
	j := b.failing()
	ack := b.start(id, "deploy")
	b.request().calls(t, [3]string{"c1", "deploy", `{}`})
	b.answer(id, b.pending(id, 1)[0].ID, adapters.Accept)
	<-begun
	b.crash(j, id, func() {})
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if done.Turn.Status != transcript.TurnInterrupted {
		t.Errorf("the turn is %s, want interrupted", done.Turn.Status)
	}
	select {
	case <-begun:
		t.Error("the approved call was run a second time")
	default:
	}
	b.start(id, "what happened?")
	r := b.request()
	r.wantResults(t, map[string]string{"c1": "aborted: this call was approved and may have run, in whole or in part"})
	r.answer(t, "who knows")
}

// A call that got one answer and asks again has begun to run: it must not be run
// from the start.
func TestACallThatAsksASecondTimeIsNotRunAgain(t *testing.T) {
	runs := make(chan struct{}, 10)
	b, id := asking(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"deploy": func(ctx context.Context, call transcript.ToolCall, ask threads.Asker) (transcript.ToolResult, error) {
			runs <- struct{}{}
			for _, command := range []string{"build", "publish"} {
				if _, err := ask(ctx, adapters.CommandApproval{Command: command, Cwd: "/w"}); err != nil {
					return transcript.ToolResult{}, err
				}
			}
			return transcript.ToolResult{Output: transcript.TextParts("published")}, nil
		}}
	})
	ack := b.start(id, "deploy")
	b.request().calls(t, [3]string{"c1", "deploy", `{}`})
	first := b.pending(id, 1)[0]
	b.answer(id, first.ID, adapters.Accept)
	b.await(id, func(p threads.Payload) bool {
		c, ok := p.(threads.RequestCreated)
		return ok && c.Request.ID != first.ID
	})
	b.restart()
	b.await(id, ended(ack.Turn.ID))
	if len(runs) != 1 {
		t.Errorf("the call was run %d times", len(runs))
	}
}

func TestAnInterruptThatWasAcknowledgedSurvivesACrash(t *testing.T) {
	release := make(chan struct{})
	d := &director{continues: true, run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end, _, err := askCommand(ctx, in, h, "make")
		<-release // it takes its time to stop
		return end, err
	}}
	b := directedBench(t, d)
	j := b.failing()
	id := b.create()
	ack := b.start(id, "build")
	q := b.pending(id, 1)[0]
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); err != nil {
		t.Fatal(err)
	}
	wantTooLate(t, b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: adapters.Accept}, ""),
		threads.AlreadyResolved{Kind: "alreadyResolved", RequestID: q.ID, Outcome: threads.RequestCancelled})
	b.crash(j, id, func() { close(release) })
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if done.Turn.Status != transcript.TurnInterrupted {
		t.Errorf("the turn is %s, want interrupted", done.Turn.Status)
	}
}

func TestACrashWithACompactionRequestedKeepsTheWaitingTurn(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	q := b.pending(id, 1)[0]
	compact, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	queued := b.start(id, "then test")
	b.restart()
	rec, err := b.svc.ReadCompaction(t.Context(), id, compact.Record.CompactionID)
	if err != nil || !rec.Terminal() || *rec.Outcome != "interrupted" {
		t.Errorf("the compaction is %+v, %v", rec, err)
	}
	b.answer(id, q.ID, adapters.Accept)
	r := b.request()
	r.wantResults(t, map[string]string{"c1": "ran make"})
	r.answer(t, "built")
	b.await(id, ended(ack.Turn.ID))
	b.request().answer(t, "tested")
	b.await(id, ended(queued.Turn.ID))
}

func TestAThreadWhoseProviderIsGoneFailsItsTurnAndCancels(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	q := b.pending(id, 1)[0]
	b.config.Providers[0].Name = "another"
	b.restart()
	b.await(id, ended(ack.Turn.ID))
	if err := b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: adapters.Accept}, ""); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("an answer nobody waits for: %v, want a conflict", err)
	}
}
