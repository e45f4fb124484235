package api

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// An answer with turns is one moment: what it shows is not told again from its
// cursor on, and what is told from there it does not show.
func TestTurnsOfAnAnswerAreThoseOfItsCursor(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	a.say(thread, "go")
	d.puppet.say(t, text("Once upon "))
	a.until(methodMessageDelta)
	b := d.hello("")
	var resumed ThreadResumeResult
	b.must("thread/resume", `{"threadId":"`+thread+`","initialTurnsPage":{"itemsView":"full"}}`, &resumed)
	var read ThreadReadResult
	b.must("thread/read", `{"threadId":"`+thread+`","includeTurns":true}`, &read)
	for what, turns := range map[string][]protocol.Turn{
		"resume": resumed.Thread.Turns, "page": resumed.InitialTurnsPage.Data, "read": read.Thread.Turns,
	} {
		if len(turns) != 1 || len(turns[0].Items) != 1 {
			t.Errorf("%s shows the turn in progress as %+v; want the message of the user alone", what, turns)
		}
	}
	d.puppet.say(t, text("a time"), done())
	b.until("turn/completed")
	a.close()
	b.close()
}

// Status and turns change in the same commits, so that they cannot contradict each
// other in one moment.
func TestStatusAndTurnsOfAnAnswerAgree(t *testing.T) {
	d := open(t)
	thread := d.newThread("offline")
	const turns = 40
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range turns {
			d.turn(thread, fmt.Sprint("turn ", i))
		}
	})
	for n := 0; n < turns; {
		r := call[ThreadReadResult](d, 200, "GET", "/v1/threads/"+thread+"?includeTurns=true", "")
		n = len(r.Thread.Turns)
		active := slices.ContainsFunc(r.Thread.Turns, func(t protocol.Turn) bool { return t.Status == "inProgress" })
		if n != r.Thread.Plimsoll.Turns || active != (r.Thread.Status.Type == "active") {
			t.Errorf("a thread of %d turns that is %s is shown with %d, one in progress: %v", r.Thread.Plimsoll.Turns, r.Thread.Status.Type, n, active)
		}
	}
	wg.Wait()
}
