package api

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// P161: what happens while a client resumes is told after the answer, once.
func TestWhatHappensDuringAResumeIsToldOnce(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	for range 20 {
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 100 {
				if err := d.svc.SetName(t.Context(), transcript.ThreadID(thread), fmt.Sprint("event ", i)); err != nil {
					t.Error(err)
				}
			}
		})
		b := d.hello("")
		var r ThreadResumeResult
		before := len(b.seen)
		b.must("thread/resume", `{"threadId":"`+thread+`"}`, &r)
		if got := seqs(b.seen[before:]); len(got) > 0 {
			t.Fatalf("%v was told before the answer", got)
		}
		wg.Wait()
		head := head(t, d, thread)
		from := cursorN(t, r.AsOf)
		for n := from; n < head; {
			if f := b.next(); f.Seq > 0 {
				if f.Seq != n+1 {
					t.Fatalf("after %d came %d", n, f.Seq)
				}
				n = f.Seq
			}
		}
		b.close()
	}
	a.close()
}

func head(t testing.TB, d *door, thread string) int64 {
	t.Helper()
	r, err := d.svc.ReadThread(t.Context(), transcript.ThreadID(thread))
	if err != nil {
		t.Fatal(err)
	}
	return r.AsOf.N
}

func cursorN(t testing.TB, cursor string) int64 {
	t.Helper()
	c, err := cursorOf("", cursor)
	if err != nil {
		t.Fatal(err)
	}
	return c.N
}

func TestWhoResumesInsideATextGetsItFromItsStart(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	a.say(thread, "go")
	d.puppet.say(t, text("Once upon "))
	a.until(methodMessageDelta)
	b := d.hello("")
	before := len(b.seen)
	var r ThreadResumeResult
	b.must("thread/resume", `{"threadId":"`+thread+`"}`, &r)
	if r.Thread.Status.Type != "active" {
		t.Errorf("status %+v", r.Thread.Status)
	}
	started := b.until("item/started")
	if from := cursorN(t, r.AsOf); started.Seq == 0 || started.Seq > from {
		t.Errorf("the open item is event %d, the cursor %d", started.Seq, from)
	}
	first := decodeParams[protocol.AgentMessageDeltaParams](t, b.until(methodMessageDelta))
	if first.Offset != 0 || first.Delta != "Once upon " {
		t.Errorf("first delta %+v", first)
	}
	d.puppet.say(t, text("a time"), done())
	b.until("turn/completed")
	if got := texts(t, b.seen[before:]); len(got) != 1 {
		t.Errorf("texts %v", got)
	}
	a.close()
	b.close()
}

func TestFollowingTwiceTellsNothingTwice(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	for range 3 {
		c.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	}
	c.say(thread, "hello")
	c.until("turn/completed")
	dense(t, 1, seqs(c.seen))
	c.close()
}

func TestAResumeTellsTheNewestUsage(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	a.say(thread, "hello")
	usage := a.until("thread/tokenUsage/updated")
	a.until("turn/completed")
	b := d.hello("")
	b.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	if f := b.next(); f.Method != usage.Method || f.Seq != 0 || string(f.Params) != string(usage.Params) {
		t.Errorf("after the answer came %s, want %s", f.raw, usage.raw)
	}
	a.close()
	b.close()
}

func TestAForkIsToldWithoutWhatWasCopied(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	for range 5 {
		a.say(thread, "hello")
		a.until("turn/completed")
	}
	before := len(a.seen)
	var r ThreadStartResult
	a.must("thread/fork", `{"threadId":"`+thread+`","excludeTurns":true}`, &r)
	a.until("thread/tokenUsage/updated")
	a.say(r.Thread.ID, "on")
	a.until("turn/completed")
	got := strings.Join(a.flow(before), " ")
	if want := "= thread/started thread/tokenUsage/updated = thread/status/changed turn/started "; !strings.HasPrefix(got, want) {
		t.Errorf("got %s", got)
	}
	a.close()
}

func TestUnsubscribeEndsWhatIsTold(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	c.say(thread, "go")
	d.puppet.say(t, text("a"))
	c.until(methodMessageDelta)
	is := func(id, want string) {
		t.Helper()
		var r UnsubscribeResult
		if c.must("thread/unsubscribe", `{"threadId":"`+id+`"}`, &r); r.Status != want {
			t.Errorf("%s: %s, want %s", id, r.Status, want)
		}
	}
	is(thread, "unsubscribed")
	before := len(c.seen)
	is(thread, "notSubscribed")
	is(nowhere, "notLoaded")
	d.puppet.say(t, text("b"), done())
	var r TurnListResult
	for len(r.Data) == 0 || r.Data[0].Status != "completed" { // the turn goes on
		c.must("thread/turns/list", `{"threadId":"`+thread+`"}`, &r)
	}
	for _, m := range c.flow(before) {
		if m != "=" {
			t.Errorf("%s was told", m)
		}
	}
	c.close()
}

func TestFollowingTooMuchIsRefused(t *testing.T) {
	d := open(t, func(o *Options) { o.Limits.Streams = 2 })
	c := d.hello("")
	one := c.start("offline")
	c.start("offline")
	if e := c.refused("thread/start", `{}`); e.Code != -32001 || e.Message != "Server overloaded; retry later." {
		t.Errorf("%+v", e)
	}
	c.must("thread/unsubscribe", `{"threadId":"`+one+`"}`, nil)
	c.must("thread/resume", `{"threadId":"`+one+`"}`, nil)
	c.must("thread/unsubscribe", `{"threadId":"`+one+`"}`, nil)
	if e := c.refused("thread/resume", `{"threadId":"`+nowhere+`"}`); e.Message != "no rollout found for thread id "+nowhere {
		t.Errorf("%+v", e)
	}
	c.must("thread/resume", `{"threadId":"`+one+`"}`, nil) // what failed takes no place
	c.close()
	if n := len(d.server.opened); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// One connection cannot take the places of all others, and what it cannot follow is
// not made.
func TestAConnectionFollowsOnlySoMuch(t *testing.T) {
	d := open(t, func(o *Options) { o.Limits.Follows = 2 })
	a, b := d.hello(""), d.hello("")
	one := a.start("offline")
	a.start("offline")
	made := func() int {
		var r ThreadLoadedResult
		b.must("thread/loaded/list", `{}`, &r)
		return len(r.Data)
	}
	before := made()
	for _, refused := range []string{"thread/start", "thread/fork", "thread/resume"} {
		e := a.refused(refused, `{"threadId":"`+one+`"}`)
		if e.Code != jsonrpc.CodeInvalid || !strings.Contains(e.Message, "this connection follows 2 threads") || !strings.Contains(e.Message, "thread/unsubscribe") {
			t.Errorf("%s: %+v", refused, e)
		}
	}
	if n := made(); n != before {
		t.Errorf("%d threads were made by what was refused", n-before)
	}
	b.start("offline") // others have places of their own
	a.must("thread/unsubscribe", `{"threadId":"`+one+`"}`, nil)
	a.start("offline")
	a.close()
	b.close()
	if n := len(d.server.opened); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// From every position: the rest, stream/live once, and then what happens.
func TestASubscriptionBeginsAtItsCursor(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	a.say(thread, "hello")
	a.until("turn/completed")
	n := head(t, d, thread)
	var r ThreadReadResult
	a.must("thread/read", `{"threadId":"`+thread+`"}`, &r)
	journal, _, _ := strings.Cut(r.AsOf, ".")
	b := d.hello("")
	for from := range n + 1 {
		before := len(b.seen)
		b.must("thread/subscribe", fmt.Sprintf(`{"threadId":"%s","after":"%s.%d"}`, thread, journal, from), nil)
		live := b.until(methodStreamLive)
		got := seqs(b.seen[before:])
		dense(t, from+1, got)
		if int64(len(got)) != n-from {
			t.Errorf("after %d came %v", from, got)
		}
		if p := decodeParams[protocol.StreamLiveParams](t, live); p.Cursor != fmt.Sprintf("%s.%d", journal, n) {
			t.Errorf("live at %s", p.Cursor)
		}
	}
	before := len(b.seen)
	a.say(thread, "again")
	b.until("turn/completed")
	dense(t, n+1, seqs(b.seen[before:])) // one subscription is left
	for _, m := range b.flow(before) {
		if m == methodStreamLive {
			t.Error("stream/live twice")
		}
	}
	a.close()
	b.close()
}

// S7, S8: a cursor of another journal, or after the end, is never clamped.
func TestACursorThatCannotBeServedResetsASubscription(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	c.until("thread/started")
	var r ThreadReadResult
	c.must("thread/read", `{"threadId":"`+thread+`"}`, &r)
	journal, _, _ := strings.Cut(r.AsOf, ".")
	for _, after := range []string{"otherone.1", journal + ".99"} {
		c.must("thread/subscribe", `{"threadId":"`+thread+`","after":"`+after+`"}`, nil)
		reset := decodeParams[protocol.StreamResetParams](t, c.until(methodStreamReset))
		if reset.Reason == "" || !strings.HasPrefix(reset.Cursor, journal+".") {
			t.Errorf("%s: %+v", after, reset)
		}
		c.must("thread/subscribe", `{"threadId":"`+thread+`","after":"`+reset.Cursor+`"}`, nil)
		c.until(methodStreamLive)
	}
	if e := c.refused("thread/subscribe", `{"threadId":"`+thread+`","after":"nonsense"}`); e.Code != -32600 {
		t.Errorf("%+v", e)
	}
	if e := c.refused("thread/subscribe", `{"threadId":"`+nowhere+`"}`); e.Code != -32600 {
		t.Errorf("%+v", e)
	}
	c.close()
}

func TestADeletedThreadEndsItsSubscriptions(t *testing.T) {
	d := open(t)
	a, b := d.hello(""), d.hello("")
	thread := a.start("offline")
	b.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	before := len(a.seen)
	a.must("thread/delete", `{"threadId":"`+thread+`"}`, nil)
	a.until("thread/deleted")
	b.until("thread/deleted")
	if got := a.flow(before); slices.Index(got, "=") < 0 || got[len(got)-1] != "thread/deleted" {
		t.Errorf("the deletion was told before it was answered: %v", got)
	}
	a.must("thread/list", `{}`, nil)
	a.close()
	b.close()
}

// Frames are the same bytes on every door.
func TestFramesAreThoseOfSSE(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	c.say(thread, "<hello> & goodbye")
	c.until("turn/completed")
	st := d.follow("/v1/threads/"+thread+"/events", "")
	var want []string
	for {
		f := st.next()
		if f.Seq != nil {
			want = append(want, f.data)
		}
		if f.Method == methodStreamLive {
			break
		}
	}
	st.close()
	var got []string
	for _, f := range c.seen {
		if f.Seq > 0 {
			got = append(got, f.raw)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("SSE:\n%s\nJSON-RPC:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	c.close()
}

// Every mutating request, over and over: its answer comes before what it caused.
func TestAnAnswerComesBeforeWhatItCaused(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	for i := range 200 {
		name := fmt.Sprint("name ", i)
		id := c.post("thread/name/set", `{"threadId":"`+thread+`","name":"`+name+`"}`)
		for answered := false; ; {
			f := c.next()
			answered = answered || f.isAnswer() && string(f.ID) == id
			if f.Method == "thread/name/updated" {
				if p := decodeParams[protocol.ThreadNameUpdatedParams](t, f); p.ThreadName == name && !answered {
					t.Fatalf("%s was told before it was answered", name)
				}
				break
			}
		}
	}
	c.close()
}

// A client that reads nothing holds nobody up, and gets everything when it reads.
func TestASlowReaderHoldsNobodyUpAndLosesNothing(t *testing.T) {
	d := open(t)
	quick := d.hello("")
	thread := quick.start("puppet")
	slow := d.hello("")
	slow.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	slow.pause()
	quick.say(thread, "go")
	const n = 3000
	for i := range n {
		d.puppet.say(t, text(fmt.Sprintf("%06d ", i)))
	}
	d.puppet.say(t, done())
	quick.until("turn/completed")
	slow.resume()
	before := len(slow.seen)
	slow.until("turn/completed")
	for name, frames := range map[string][]wireFrame{"quick": quick.seen, "slow": slow.seen} {
		for _, text := range texts(t, frames) {
			if len(text) != 7*n {
				t.Errorf("%s has %d bytes, want %d", name, len(text), 7*n)
			}
		}
	}
	deltas := 0
	for _, f := range slow.seen[before:] {
		if f.Method == methodMessageDelta {
			deltas++
		}
	}
	if deltas > 600 {
		t.Errorf("the slow one got %d deltas: they are not merged", deltas)
	}
	quick.close()
	slow.close()
}
