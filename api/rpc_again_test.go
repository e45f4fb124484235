package api

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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

// follows dials a second client that follows a thread.
func (d *door) follows(name, thread string) *caller {
	d.t.Helper()
	c := d.dialPipe()
	c.hello(name, "")
	c.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	return c
}

// finish has the turn go on after its approval, and end.
func (d *door) finish(c *caller) {
	d.t.Helper()
	d.puppet.say(d.t, text("done"), done())
	c.until("turn/completed")
}

// A request that no client can deal with does not wait for ever, whoever finds out
// first and whoever leaves.
func TestARequestIsGivenUpOnceEverybodyThereHasFailed(t *testing.T) {
	tests := map[string]struct {
		act func(d *door, thread string, q wireFrame, a, b *caller)
		by  string
	}{
		"both fail": {func(d *door, thread string, q wireFrame, a, b *caller) {
			a.fail(q, "first")
			d.noted(thread, "first")
			if n := a.waiting(thread); n != 1 {
				d.t.Fatal("the first error answered for the second client")
			}
			b.fail(q, "last")
		}, "second"},
		"the other one unsubscribes": {func(d *door, thread string, q wireFrame, a, b *caller) {
			a.fail(q, "last")
			d.noted(thread, "last")
			b.must("thread/unsubscribe", `{"threadId":"`+thread+`"}`, nil)
		}, "tester"},
		"the other one disconnects": {func(d *door, thread string, q wireFrame, a, b *caller) {
			a.fail(q, "last")
			d.noted(thread, "last")
			b.close()
		}, "tester"},
		"one fails twice": {func(d *door, thread string, q wireFrame, a, b *caller) {
			a.fail(q, "first")
			a.fail(q, "second")
			d.noted(thread, "second")
			if n := a.waiting(thread); n != 1 {
				d.t.Fatal("two errors of one client answered for the other")
			}
			b.fail(q, "last")
		}, "second"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			a := d.hello("")
			thread := a.start("puppet")
			b := d.follows("second", thread)
			q := d.asking(a, thread)
			b.until(approval)
			test.act(d, thread, q, a, b)
			if by := a.resolvedBy(); by != test.by {
				t.Errorf("answered by %q", by)
			}
			d.finish(a)
			d.resolvedWith(thread, "the client answered with an error: last")
			d.server.crowd.mu.Lock()
			defer d.server.crowd.mu.Unlock()
			if len(d.server.crowd.failures) != 0 {
				t.Errorf("failures are kept: %v", d.server.crowd.failures)
			}
		})
	}
}

// noted returns when the server knows of the error of a client.
func (d *door) noted(thread, text string) {
	d.t.Helper()
	c := &d.server.crowd
	for start := time.Now(); time.Since(start) < patience; runtime.Gosched() {
		c.mu.Lock()
		for _, fs := range c.failures[transcript.ThreadID(thread)] {
			if strings.HasSuffix(fs[len(fs)-1].text, text) {
				c.mu.Unlock()
				return
			}
		}
		c.mu.Unlock()
	}
	d.t.Fatalf("the error %q was not noted", text)
}

// resolvedWith fails unless the request of a thread was resolved with a text.
func (d *door) resolvedWith(thread, text string) {
	d.t.Helper()
	all, _, err := d.svc.ReadEvents(d.t.Context(), transcript.ThreadID(thread), nil, 100)
	if err != nil {
		d.t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(e events.Event) bool { return e.Type == threads.RequestResolved{}.EventType() })
	if i < 0 || !strings.Contains(string(all[i].Data), text) {
		d.t.Errorf("no request was resolved with %q", text)
	}
}

// Nobody has to be there, and who comes back is asked anew.
func TestARequestThatNobodyFollowsWaits(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	b := d.follows("second", thread)
	q := d.asking(a, thread)
	b.until(approval)
	a.fail(q, "cannot")
	a.waiting(thread)
	a.close()
	b.close()
	c := d.follows("third", thread)
	if f := c.until(approval); string(f.ID) != string(q.ID) {
		t.Fatalf("asked %s, then %s", q.raw, f.raw)
	}
	if n := c.waiting(thread); n != 1 {
		t.Fatal("the request was given up when nobody was there")
	}
	// Whoever is asked again may be able to deal with it now.
	d.follows("fourth", thread)
	c.fail(q, "not yet")
	c.waiting(thread)
	c.must("thread/subscribe", `{"threadId":"`+thread+`"}`, nil)
	c.until(methodStreamLive)
	if n := c.waiting(thread); n != 1 {
		t.Fatal("a client that subscribed anew was taken for gone")
	}
	c.respond(q, `{"decision":"accept"}`)
	if by := c.resolvedBy(); by != "third" {
		t.Errorf("answered by %q", by)
	}
	d.finish(c)
	c.close()
}

// A resume tells again what is asked, but nothing that was answered meanwhile.
func TestWhatWasAnsweredIsNotAskedAgain(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	q := d.asking(a, thread)
	p := d.server.newPeer(t.Context())
	p.client.Store(&client{name: "tester"})
	request := threads.Request{ID: "r", Method: threads.AskCommand, Command: &threads.CommandQuestion{Command: "touch x"}}
	sub := &subscription{peer: p, thread: transcript.ThreadID(thread), live: true}
	if got := p.stillAsked([]threads.Request{request}); len(got) != 0 {
		t.Errorf("asked again what was not asked: %v", got)
	}
	p.requestFrames(sub, []threads.Request{request}, true)
	if got := p.stillAsked([]threads.Request{request}); len(got) != 1 {
		t.Errorf("what waits is not asked again: %v", got)
	}
	p.settle(request.ID)
	if got := p.stillAsked([]threads.Request{request}); len(got) != 0 {
		t.Errorf("asked again what was answered: %v", got)
	}
	a.respond(q, `{"decision":"accept"}`)
	a.resolvedBy()
	d.finish(a)
	a.close()
}

// A connection forgets what it was asked in a subscription that ended, however it
// ended, and can begin another one at once.
func TestASubscriptionThatWasResetIsOver(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	var r ThreadReadResult
	a.must("thread/read", `{"threadId":"`+thread+`"}`, &r)
	journal, _, _ := strings.Cut(r.AsOf, ".")
	b := d.hello("")
	for i := range 50 {
		b.must("thread/subscribe", `{"threadId":"`+thread+`","after":"`+journal+`.9999"}`, nil)
		b.until(methodStreamReset)
		b.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
		name := fmt.Sprint("name ", i)
		a.must("thread/name/set", `{"threadId":"`+thread+`","name":"`+name+`"}`, nil)
		for f := b.until("thread/name/updated"); !strings.Contains(f.raw, name); f = b.until("thread/name/updated") {
		}
		b.must("thread/unsubscribe", `{"threadId":"`+thread+`"}`, nil)
	}
	a.close()
	b.close()
	if c := &d.server.crowd; len(c.followers)+len(c.failures) > 0 || len(d.server.opened) > 0 {
		t.Errorf("%d followers, %d failures and %d places are left", len(c.followers), len(c.failures), len(d.server.opened))
	}
}

// Of an ephemeral thread that was deleted nothing is kept, though its connections
// live on.
func TestADeletedEphemeralThreadIsForgotten(t *testing.T) {
	d := fleeting(t)
	a := d.hello("")
	var r ThreadStartResult
	a.must("thread/start", `{"ephemeral":true}`, &r)
	b := d.follows("second", r.Thread.ID)
	b.must("thread/unsubscribe", `{"threadId":"`+r.Thread.ID+`"}`, nil)
	b.must("thread/delete", `{"threadId":"`+r.Thread.ID+`"}`, nil)
	a.until("thread/deleted")
	if c := &d.server.crowd; len(c.users)+len(c.holds) > 0 {
		t.Errorf("%d threads and %d connections are kept", len(c.users), len(c.holds))
	}
	a.close()
	b.close()
}
