package threads_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func wantLog(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

func TestPlainTurnIsThreeCommitsInCodexOrder(t *testing.T) {
	b := newBench(t)
	id := b.create()
	before := b.journal.count()
	b.turn(id, "hello", "hi there")
	if n := b.journal.count() - before; n != 3 {
		t.Errorf("a plain turn took %d commits, want 3", n)
	}
	wantLog(t, b.log(id), `
thread/started
thread/status/changed active
turn/started user
item/started userMessage
item/completed userMessage "hello"
item/started agentMessage
item/completed agentMessage "hi there"
thread/tokenUsage/updated
thread/status/changed idle
turn/completed completed`)
}

func TestTurnWithReasoningIsFourCommits(t *testing.T) {
	b := newBench(t)
	id := b.create()
	before := b.journal.count()
	ack := b.start(id, "think")
	b.request().send(t, adapters.ReasoningText{Text: "hm"}, adapters.MessageText{Text: "done"}, adapters.Done{Stop: adapters.StopEnd})
	b.await(id, ended(ack.Turn.ID))
	if n := b.journal.count() - before; n != 4 {
		t.Errorf("a turn with reasoning took %d commits, want 4", n)
	}
}

func TestInputDuringATurnIsQueuedInOrderAndRunsOnce(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first := b.start(id, "one")
	second, third := b.start(id, "two"), b.start(id, "three")
	if first.Queued || !second.Queued || !third.Queued {
		t.Errorf("queued: %v %v %v, want only the later two", first.Queued, second.Queued, third.Queued)
	}
	if second.Turn.Status != transcript.TurnQueued || !second.Turn.StartedAt.IsZero() {
		t.Errorf("a queued turn says %q, started %v", second.Turn.Status, second.Turn.StartedAt)
	}
	for _, answer := range []string{"1", "2", "3"} {
		b.request().answer(t, answer)
	}
	b.await(id, ended(third.Turn.ID))
	items, err := b.svc.ListItems(t.Context(), id, threads.ItemQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, it := range items.Items {
		said = append(said, transcript.Text(it.Item.Body))
	}
	if diff := cmp.Diff([]string{"one", "1", "two", "2", "three", "3"}, said); diff != "" {
		t.Error(diff)
	}
}

func TestSteeringReachesTheRunningTurn(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "count to three")
	r := b.request()
	r.send(t, adapters.MessageText{Text: "one two"})
	steered, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Mode: threads.ModeSteer, Input: transcript.TextParts("backwards")})
	if err != nil || !steered.Steered || steered.Turn.ID != ack.Turn.ID {
		t.Fatalf("steer: %+v, %v", steered, err)
	}
	r.send(t, adapters.Done{Stop: adapters.StopEnd})
	r = b.request()
	if got := r.texts(); got[len(got)-1] != "userMessage: backwards" && got[len(got)-2] != "userMessage: backwards" {
		t.Errorf("the next request ends with %q", got)
	}
	r.answer(t, "three two one")
	b.await(id, ended(ack.Turn.ID))
}

// late is a session that hears no steering and ends its runs when told.
type late struct {
	adapters.Session
	end chan struct{}
}

type lateAdapter struct {
	adapters.Adapter
	end chan struct{}
}

func (l lateAdapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := l.Adapter.Open(ctx, p)
	return late{s, l.end}, err
}

func (l late) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	end, err := l.Session.Run(ctx, in, h)
	l.end <- struct{}{}
	<-l.end
	return end, err
}

func (late) Steer(context.Context, []transcript.Part) error { return adapters.ErrNotSteerable }

func TestInputThatSteersTooLateIsReadInTheSameTurn(t *testing.T) {
	end := make(chan struct{})
	b := newBench(t, func(c *threads.Config) { c.Providers[0].Adapter = lateAdapter{c.Providers[0].Adapter, end} })
	id := b.create()
	ack := b.start(id, "first")
	b.request().answer(t, "1")
	<-end // the model is done, the turn is not
	steered, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Mode: threads.ModeSteer, Input: transcript.TextParts("second")})
	if err != nil || !steered.Steered {
		t.Fatalf("steer: %+v, %v", steered, err)
	}
	end <- struct{}{}
	r := b.request()
	if got := strings.Join(r.texts(), "\n"); !strings.Contains(got, "userMessage: second") || !strings.Contains(got, "agentMessage: 1") {
		t.Errorf("the model then reads:\n%s", got)
	}
	r.answer(t, "2")
	<-end
	end <- struct{}{}
	b.await(id, ended(ack.Turn.ID))
	if read, _ := b.svc.ReadThread(t.Context(), id); read.Thread.Turns != 1 {
		t.Errorf("%d turns, want 1", read.Thread.Turns)
	}
}

func TestInterruptKeepsWhatWasStreamed(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "tell me a story")
	b.request().send(t, adapters.MessageText{Text: "Once upon "}, adapters.MessageText{Text: "a time"}, adapters.MessageText{})
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); err != nil {
		t.Fatal(err)
	}
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, tail(strings.Split(b.log(id), "\n"), 5), `
item/started agentMessage
item/completed agentMessage "Once upon a time"
thread/status/changed idle
turn/completed interrupted`)
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a second interrupt: %v, want a conflict", err)
	}
	if err := b.svc.InterruptTurn(t.Context(), id, "nope"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("interrupt of an unknown turn: %v, want not found", err)
	}
}

func TestInterruptTakesAQueuedInputOut(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first, second := b.start(id, "one"), b.start(id, "two")
	if err := b.svc.InterruptTurn(t.Context(), id, second.Turn.ID); err != nil {
		t.Fatal(err)
	}
	b.request().answer(t, "1")
	b.await(id, ended(first.Turn.ID))
	read, err := b.svc.ReadThread(t.Context(), id)
	if err != nil || read.Thread.Queued != 0 || read.Thread.Turns != 1 {
		t.Errorf("thread %+v, %v", read.Thread, err)
	}
}

// deaf is a session that hears neither Interrupt nor ctx.
type deaf struct {
	adapters.Session
	release chan struct{} // sent to when Run begins, closed when it may end
}

type deafAdapter struct {
	adapters.Adapter
	release chan struct{}
}

func (d deafAdapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := d.Adapter.Open(ctx, p)
	return deaf{s, d.release}, err
}

func (d deaf) Run(context.Context, adapters.TurnInput, adapters.Host) (adapters.End, error) {
	d.release <- struct{}{}
	<-d.release
	return adapters.End{}, nil
}

func TestSessionThatDoesNotStopIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, func(c *threads.Config) {
			c.Providers[0].Adapter = deafAdapter{c.Providers[0].Adapter, release}
		})
		id := b.create()
		ack := b.start(id, "hello?")
		<-release
		began := time.Now()
		if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); err != nil {
			t.Fatal(err)
		}
		done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
		if waited := time.Since(began); done.Turn.Status != transcript.TurnInterrupted || waited != 10*time.Second {
			t.Errorf("turn %s after %v, want interrupted after 10s", done.Turn.Status, waited)
		}
		close(release)
	})
}

func TestFailedTurnSaysWhyAndTheNextOneWorks(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "go")
	r := b.request()
	r.send(t, adapters.MessageText{Text: "I begin"}, adapters.MessageText{})
	r.fail <- errScripted
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, tail(strings.Split(b.log(id), "\n"), 5), `
item/started agentMessage
item/completed agentMessage "I begin"
thread/status/changed systemError
error internal willRetry=false
turn/completed failed`)
	b.turn(id, "again", "fine")
	if read, _ := b.svc.ReadThread(t.Context(), id); read.Thread.Status != threads.StatusIdle {
		t.Errorf("status %s after a turn that worked", read.Thread.Status)
	}
}

func TestEveryToolCallIsAnsweredOnce(t *testing.T) {
	b := newBench(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{
			"add": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
				return transcript.ToolResult{Output: transcript.TextParts("5")}, nil
			},
			"panic": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
				panic("boom")
			},
			"fail": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
				return transcript.ToolResult{}, errors.New("secret detail")
			},
		}
	})
	id := b.create()
	ack := b.start(id, "use tools")
	r := b.request()
	for i, name := range []string{"add", "panic", "fail", "missing"} {
		r.send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID(name + string(rune('0'+i))), Name: name, Arguments: []byte(`{"a":2}`)}})
	}
	r.send(t, adapters.Done{Stop: adapters.StopTools})
	r = b.request()
	got := map[string]string{}
	for _, e := range r.Entries {
		if res, ok := e.Item.Body.(transcript.ToolResult); ok {
			got[string(res.CallID)] = transcript.Text(res)
		}
	}
	want := map[string]string{
		"add0": "5", "panic1": `tool "panic" failed: internal error`, "fail2": `tool "fail" failed: internal error`,
		"missing3": `there is no tool "missing"; available: add, fail, panic`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
}

func TestInterruptedCallGetsOneSyntheticResult(t *testing.T) {
	started := make(chan struct{})
	b := newBench(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"sleep": func(ctx context.Context, _ transcript.ToolCall, _ threads.Asker) (transcript.ToolResult, error) {
			close(started)
			<-ctx.Done()
			return transcript.ToolResult{}, ctx.Err()
		}}
	})
	id := b.create()
	ack := b.start(id, "wait")
	b.request().send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: "c1", Name: "sleep", Arguments: []byte(`{}`)}}, adapters.Done{Stop: adapters.StopTools})
	<-started
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); err != nil {
		t.Fatal(err)
	}
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, tail(strings.Split(b.log(id), "\n"), 5), `
item/started toolCall
item/completed toolResult "aborted: this call was never answered"
thread/status/changed idle
turn/completed interrupted`)
	b.start(id, "next")
	r := b.request()
	calls := 0
	for _, e := range r.Entries {
		if res, ok := e.Item.Body.(transcript.ToolResult); ok && res.CallID == "c1" {
			calls++
			if !res.Synthetic || !res.IsError {
				t.Errorf("the result is %+v, want a synthetic error", res)
			}
		}
	}
	if calls != 1 {
		t.Errorf("call c1 has %d results, want 1", calls)
	}
	r.answer(t, "ok")
}

func TestSameIdempotencyKeyStartsOneTurn(t *testing.T) {
	b := newBench(t)
	id := b.create()
	p := threads.StartTurnParams{Thread: id, Input: transcript.TextParts("once"), IdempotencyKey: "k1"}
	first, err := b.svc.StartTurn(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.svc.StartTurn(t.Context(), p)
	if err != nil || second.Turn.ID != first.Turn.ID {
		t.Errorf("the same request again: turn %s, %v, want %s", second.Turn.ID, err, first.Turn.ID)
	}
	b.request().answer(t, "yes")
	b.await(id, ended(first.Turn.ID))
	b.restart()
	third, err := b.svc.StartTurn(t.Context(), p)
	if err != nil || third.Turn.ID != first.Turn.ID {
		t.Errorf("after a restart: turn %s, %v, want %s", third.Turn.ID, err, first.Turn.ID)
	}
	p.Input = transcript.TextParts("twice")
	if _, err := b.svc.StartTurn(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("another body under the same key: %v, want a conflict", err)
	}
}

func TestSameIdempotencyKeyMakesOneThread(t *testing.T) {
	b := newBench(t)
	p := threads.CreateParams{Name: "n", IdempotencyKey: "k"}
	first, err := b.svc.CreateThread(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.svc.CreateThread(t.Context(), p)
	if err != nil || second.Thread.ID != first.Thread.ID {
		t.Errorf("again: %s, %v, want %s", second.Thread.ID, err, first.Thread.ID)
	}
	p.Name = "other"
	if _, err := b.svc.CreateThread(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("another body: %v, want a conflict", err)
	}
}

func TestBadRequestsSayWhatIsAllowed(t *testing.T) {
	b := newBench(t)
	id := b.create()
	start := func(p threads.StartTurnParams) error { _, err := b.svc.StartTurn(t.Context(), p); return err }
	compact := func(p threads.CompactParams) error {
		p.Thread = id
		_, err := b.svc.StartCompaction(t.Context(), p)
		return err
	}
	_, unknownProvider := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Provider: "nope"}})
	_, unknownModel := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Model: "nope"}})
	_, badLimit := b.svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Limit: 5000}})
	_, badCursor := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: "zzz"}})
	epoch := 7
	_, badEpoch := b.svc.ReadContext(t.Context(), id, &epoch)
	_, noCompaction := b.svc.ReadCompaction(t.Context(), id, "x")
	_, noTurn := b.svc.ReadTurn(t.Context(), id, "x")
	for name, c := range map[string]struct {
		err  error
		code fault.Code
		says string
	}{
		"empty input":      {start(threads.StartTurnParams{Thread: id}), fault.Invalid, "input is empty"},
		"bad part":         {start(threads.StartTurnParams{Thread: id, Input: []transcript.Part{{Type: "audio"}}}), fault.Invalid, "allowed: text, image"},
		"bad mode":         {start(threads.StartTurnParams{Thread: id, Mode: "shout", Input: transcript.TextParts("x")}), fault.Invalid, "allowed: queue, steer"},
		"unknown thread":   {start(threads.StartTurnParams{Thread: "x", Input: transcript.TextParts("x")}), fault.NotFound, "does not exist"},
		"unknown provider": {unknownProvider, fault.Invalid, "configured: puppet"},
		"unknown model":    {unknownModel, fault.Invalid, "it has: puppet"},
		"limit":            {badLimit, fault.Invalid, "1 to 1000"},
		"page cursor":      {badCursor, fault.Invalid, "invalid cursor"},
		"epoch":            {badEpoch, fault.NotFound, "epochs 0 to 0"},
		"compaction":       {noCompaction, fault.NotFound, "no compaction"},
		"turn":             {noTurn, fault.NotFound, "no turn"},
		"route":            {compact(threads.CompactParams{Route: "scenic"}), fault.Invalid, "allowed"},
		"writer":           {compact(threads.CompactParams{Writer: "poet"}), fault.Invalid, "allowed"},
		"budget":           {compact(threads.CompactParams{Budget: -1}), fault.Invalid, "positive"},
		"instructions":     {compact(threads.CompactParams{Instructions: strings.Repeat("x", 4001)}), fault.Invalid, "at most 4000"},
	} {
		if fault.CodeOf(c.err) != c.code || !strings.Contains(fault.MessageOf(c.err), c.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, c.err, fault.CodeOf(c.err), c.code, c.says)
		}
	}
	if n := len(b.payloads(id)); n != 1 {
		t.Errorf("bad requests left %d events, want only thread/started", n)
	}
}
