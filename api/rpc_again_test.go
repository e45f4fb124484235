package api

import (
	"fmt"
	"slices"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// waiting is how many requests of a thread wait for an answer.
func (c *caller) waiting(thread string) int {
	c.t.Helper()
	var list RequestListResult
	c.must("thread/request/list", `{"threadId":"`+thread+`"}`, &list)
	return len(list.Data)
}

// fail answers a request with an error.
func (c *caller) fail(q wireFrame, text string) {
	c.t.Helper()
	c.write(`{"id":` + string(q.ID) + `,"error":{"code":-32000,"message":"` + text + `"}}`)
}

// Who reconnects with a cursor is asked what it missed or had not answered, and what
// it answers counts; also on a connection that was asked before.
func TestFollowingFromACursorAsksWhatStillWaits(t *testing.T) {
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprint("same connection ", same), func(t *testing.T) {
			d := open(t)
			a := d.hello("")
			thread := a.start("puppet")
			q := d.asking(a, thread)
			var read ThreadReadResult
			a.must("thread/read", `{"threadId":"`+thread+`"}`, &read)
			b := a
			if !same {
				a.close()
				b = d.hello("")
			}
			b.must("thread/subscribe", `{"threadId":"`+thread+`","after":"`+read.AsOf+`"}`, nil)
			if f := b.until(approval); string(f.ID) != string(q.ID) || string(f.Params) != string(q.Params) {
				t.Errorf("asked %s, then %s", q.raw, f.raw)
			}
			b.until(methodStreamLive)
			b.respond(q, `{"decision":"accept"}`)
			b.resolvedBy()
			d.puppet.say(t, text("done"), done())
			b.until("turn/completed")
			b.close()
		})
	}
}

// A request is told from its event: nothing is asked of the thread, which may not be
// able to answer right now.
func TestARequestIsToldFromItsEvent(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	q := d.asking(a, thread)
	all, _, err := d.svc.ReadEvents(t.Context(), transcript.ThreadID(thread), nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(e events.Event) bool { return e.Type == threads.RequestCreated{}.EventType() })
	a.close()
	d.stop()
	if err := d.svc.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := d.server.newPeer(t.Context())
	p.client.Store(&client{name: "tester"})
	sub := &subscription{peer: p, thread: transcript.ThreadID(thread), live: true}
	if err := sub.event(all[i]); err != nil {
		t.Fatal(err)
	}
	if len(sub.batch) != 2 || string(sub.batch[1]) != q.raw {
		t.Errorf("got %s, want %s", sub.batch, q.raw)
	}
}
