package threads_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// asksOfTheStory is a step of the storyteller with two questions to the clients.
func asksOfTheStory(after transcript.ItemID) []adapters.Chunk {
	call := func(prefix transcript.ItemID, name, args string) adapters.Chunk {
		return adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID(prefix + after), Name: name, Arguments: []byte(args)}}
	}
	return []adapters.Chunk{call("a-", "run", `{"command":"make"}`), call("b-", clientToolName, `{}`)}
}

// answerOf is the answer that the story gives to a request.
func answerOf(r threads.Request) threads.RequestAnswer {
	if r.Method == threads.AskTool {
		return threads.RequestAnswer{Output: transcript.TextParts("opened")}
	}
	return threads.RequestAnswer{Decision: adapters.Accept}
}

// playAsks is a turn whose questions are answered, and one that is interrupted
// while it waits.
func (s story) playAsks() {
	id := must(s.svc.CreateThread(s.ctx, threads.CreateParams{Tools: []threads.DynamicTool{clientTool}})).Thread.ID
	say(said{What: "thread", Thread: id})
	for _, interrupt := range []bool{false, true} {
		turn := s.start(id, "ask")
		var asked []threads.Request
		for m, err := range s.svc.Follow(s.ctx, id, nil, 0) {
			if err != nil {
				panic(err)
			}
			if m.Kind != events.KindEvent {
				continue
			}
			p := must(threads.Decode(m.Event))
			if ended(turn)(p) {
				break
			}
			c, ok := p.(threads.RequestCreated)
			if !ok || c.Request.TurnID != turn {
				continue
			}
			say(said{What: "request", Thread: id, ID: string(c.Request.ID)})
			asked = append(asked, c.Request)
			if len(asked) == 2 {
				s.settle(id, turn, asked, interrupt)
			}
		}
	}
}

// settle answers what was asked, or interrupts the turn.
func (s story) settle(id transcript.ThreadID, turn transcript.TurnID, asked []threads.Request, interrupt bool) {
	if interrupt {
		try(s.svc.InterruptTurn(s.ctx, id, turn))
		say(said{What: "interrupted", Thread: id, ID: string(turn)})
		return
	}
	for _, r := range asked {
		try(s.svc.Answer(s.ctx, id, r.ID, answerOf(r), "story"))
		say(said{What: "answered", Thread: id, ID: string(r.ID)})
	}
}

func TestKill9WhileATurnAsksLosesNoRequestAndNoAnswer(t *testing.T) {
	t.Parallel()
	_, hits, _ := playUntil(t, filepath.Join(t.TempDir(), "whole.db"), 0, askTale+"=1")
	var waited, went atomic.Int64
	t.Run("kill", func(t *testing.T) {
		for n := 1; n <= len(hits); n++ {
			t.Run(fmt.Sprint("hit ", n), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "killed.db")
				acks, _, killed := playUntil(t, path, n, askTale+"=1")
				checkAsks(t, path, killed, acks, &waited, &went)
			})
		}
	})
	t.Logf("%d rounds; %d left a turn that waits, %d one that had begun", len(hits), waited.Load(), went.Load())
	if waited.Load() == 0 || went.Load() == 0 {
		t.Error("no round left a turn that only waits, or none left one that does not")
	}
}

// checkAsks opens what the killed process left.
func checkAsks(t *testing.T, path, where string, acks []said, waited, went *atomic.Int64) {
	svc, j, err := openStory(path)
	if err != nil {
		t.Errorf("%s: open: %v", where, err)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := svc.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", where, err)
		}
	}()
	b := &bench{t: t, svc: svc, journal: &counting{Journal: j}}
	for _, a := range acks {
		if a.What != "turn" {
			continue
		}
		waits, err := svc.Requests(t.Context(), a.Thread)
		if err != nil {
			t.Fatal(err)
		}
		want := transcript.TurnStatus("")
		for _, r := range waits {
			if string(r.TurnID) == a.ID {
				want = transcript.TurnCompleted // it only waits, so that it goes on
				b.mustAnswer(a.Thread, r)
			}
		}
		done := b.await(a.Thread, ended(transcript.TurnID(a.ID))).(threads.TurnCompleted)
		switch {
		case want != "" && done.Turn.Status != want:
			t.Errorf("%s: a turn that waited ends as %s", where, done.Turn.Status)
		case want != "":
			waited.Add(1)
		case done.Turn.Status == transcript.TurnInterrupted:
			went.Add(1)
		}
	}
	for _, a := range acks {
		if a.What == "thread" {
			checkRequests(t, b, where, a.Thread, acks)
			checkPairs(t, b, where, a.Thread)
		}
	}
}

func (b *bench) mustAnswer(id transcript.ThreadID, r threads.Request) {
	b.t.Helper()
	if err := b.svc.Answer(b.t.Context(), id, r.ID, answerOf(r), "after"); err != nil {
		b.t.Errorf("answer what still waits: %v", err)
	}
}

// checkRequests: what was seen exists under its id and ended once; what was
// acknowledged is so.
func checkRequests(t *testing.T, b *bench, where string, id transcript.ThreadID, acks []said) {
	t.Helper()
	created, resolved := map[string]int{}, map[string][]threads.RequestResolved{}
	status := map[string]transcript.TurnStatus{}
	for _, p := range b.payloads(id) {
		switch p := p.(type) {
		case threads.RequestCreated:
			created[string(p.Request.ID)]++
		case threads.RequestResolved:
			resolved[string(p.RequestID)] = append(resolved[string(p.RequestID)], p)
		case threads.TurnCompleted:
			status[string(p.Turn.ID)] = p.Turn.Status
		default:
		}
	}
	for r, n := range created {
		if n != 1 || len(resolved[r]) != 1 {
			t.Errorf("%s: request %s was made %d times and ended %d times", where, r, n, len(resolved[r]))
		}
	}
	for _, a := range acks {
		switch a.What {
		case "request":
			if created[a.ID] != 1 {
				t.Errorf("%s: request %s is lost", where, a.ID)
			}
		case "answered":
			if rs := resolved[a.ID]; len(rs) != 1 || rs[0].Outcome != threads.RequestAnswered || rs[0].By != "story" {
				t.Errorf("%s: the acknowledged answer to %s became %+v", where, a.ID, rs)
			}
		case "interrupted":
			if status[a.ID] != transcript.TurnInterrupted {
				t.Errorf("%s: the interrupted turn %s is %q", where, a.ID, status[a.ID])
			}
		}
	}
}
