package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A client may write everything at once: what comes behind initialize is done in
// order, wherever the server is with the greeting when it reads it.
func TestWhatComesRightBehindInitializeIsDoneInOrder(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	const n = 30
	for round := range 200 {
		b := d.dialPipe()
		b.post("initialize", `{"clientInfo":{"name":"x","version":"1"},"capabilities":{"experimentalApi":true}}`)
		for i := range n {
			b.post("thread/name/set", fmt.Sprintf(`{"threadId":%q,"name":"n %d"}`, thread, i))
		}
		for i := range n + 1 {
			f := b.next()
			if !f.isAnswer() || string(f.ID) != fmt.Sprint(i+1) || f.Error != nil {
				t.Fatalf("connection %d: answer %d is %s", round, i+1, f.raw)
			}
		}
		b.close()
	}
	var r ThreadReadResult
	a.must("thread/read", `{"threadId":"`+thread+`"}`, &r)
	if r.Thread.Name == nil || *r.Thread.Name != fmt.Sprint("n ", n-1) {
		t.Errorf("the last name is %v", r.Thread.Name)
	}
	a.close()
}

// spellings are forms of one id.
func spellings(id string) []string {
	return []string{id, strings.ToUpper(id), strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id}
}

func TestAllSpellingsOfAnIDAreOneThread(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	for i := range 50 {
		for k, id := range spellings(thread) {
			a.post("thread/name/set", fmt.Sprintf(`{"threadId":%q,"name":"%d.%d"}`, id, i, k))
		}
		for k := range spellings(thread) {
			want := fmt.Sprintf("%d.%d", i, k)
			if f := a.until("thread/name/updated"); !strings.Contains(f.raw, `"threadName":"`+want+`"`) {
				t.Fatalf("want the name %s, got %s", want, f.raw)
			}
		}
	}
	a.close()
}

// Joining in many spellings at once follows the thread once.
func TestAllSpellingsOfAnIDAreFollowedOnce(t *testing.T) {
	d := open(t)
	a := d.hello("")
	for range 20 {
		thread := a.start("offline")
		b := d.hello("")
		for _, id := range spellings(thread) {
			b.post("thread/resume", `{"threadId":"`+id+`"}`)
		}
		for range spellings(thread) {
			for f := b.next(); !f.isAnswer(); f = b.next() {
			}
		}
		before := len(b.seen)
		b.say(thread, "hello")
		b.until("turn/completed")
		b.must("thread/read", `{"threadId":"`+thread+`"}`, nil)
		got := seqs(b.seen[before:])
		dense(t, got[0], got)
		b.close()
	}
	a.close()
}

// A client that reads slowly can stop the turn that it does not read of.
func TestAClientThatReadsNothingInterruptsItsTurn(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	turn := a.say(thread, "go")
	a.pause()
	id := transcript.ThreadID(thread)
	for i := range 1000 { // more than the queue holds
		if err := d.svc.SetName(t.Context(), id, fmt.Sprint("name ", i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	interrupt := a.post("turn/interrupt", `{"threadId":"`+thread+`","turnId":"`+turn+`"}`)
	for m, err := range d.svc.Follow(ctx, id, nil, 0) {
		if err != nil {
			t.Fatalf("the turn of a client that reads nothing was not interrupted: %v", err)
		}
		if m.Event.Type == (threads.TurnCompleted{}).EventType() {
			break
		}
	}
	if n := len(a.frames); n > 300 {
		t.Errorf("the client read %d frames, and was to read next to none", n)
	}
	a.resume()
	if f := a.answerTo(interrupt); f.Error != nil {
		t.Errorf("the interrupt: %+v", f.Error)
	}
	a.until("turn/completed")
	dense(t, 1, seqs(a.seen))
	a.close()
}
