package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
)

const approval = "item/commandExecution/requestApproval"

// asking runs a turn up to its approval and returns the request.
func (d *door) asking(c *caller, thread string) wireFrame {
	d.t.Helper()
	c.say(thread, "run it")
	d.puppet.say(d.t, adapters.CallChunk{Call: transcriptCall("c1", "run", `{}`)}, adapters.Done{Stop: adapters.StopTools})
	created := decodeParams[protocol.ServerRequestCreatedParams](d.t, c.until("serverRequest/created"))
	q := c.next() // right after it
	var id string
	if json.Unmarshal(q.ID, &id) != nil || q.Method != approval || id != created.Request.ID {
		d.t.Fatalf("after the notification of request %s came %s", created.Request.ID, q.raw)
	}
	p := decodeParams[protocol.CommandApprovalParams](d.t, q)
	if p.ThreadID != thread || p.Command != "touch x" || p.Reason == nil || *p.Reason != "May I?" {
		d.t.Errorf("params %+v", p)
	}
	return q
}

func (c *caller) respond(q wireFrame, result string) {
	c.t.Helper()
	c.write(`{"id":` + string(q.ID) + `,"result":` + result + `}`)
}

func (c *caller) resolvedBy() string {
	c.t.Helper()
	p := decodeParams[protocol.ServerRequestResolvedParams](c.t, c.until("serverRequest/resolved"))
	if p.By == nil {
		return p.Outcome
	}
	return *p.By
}

func TestTheSecondClientAnswersAndTheFirstIsTold(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	b := d.dialPipe()
	b.hello("second", "")
	b.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	q := d.asking(a, thread)
	if f := b.until(approval); string(f.ID) != string(q.ID) {
		t.Fatalf("the second got %s", f.raw)
	}
	b.respond(q, `{"decision":"accept"}`)
	for _, c := range []*caller{a, b} {
		if by := c.resolvedBy(); by != "second" {
			t.Errorf("answered by %q", by)
		}
	}
	a.respond(q, `{"decision":"decline"}`) // too late
	d.puppet.say(t, text("done"), done())
	a.until("turn/completed")
	b.until("turn/completed")
	if !strings.Contains(a.tail()+mustEncode(t, a.seen), "it was accept") {
		t.Error("the answer did not reach the tool")
	}
	for _, f := range a.seen {
		if f.Method == "warning" {
			t.Errorf("a late answer was minded: %s", f.raw)
		}
	}
	a.close()
	b.close()
}

func TestAMalformedAnswerIsToldAndTheRequestWaits(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	q := d.asking(c, thread)
	for _, bad := range []string{`{"decision":"perhaps"}`, `null`, `{}`, `[]`, `{"contentItems":[],"success":true}`} {
		c.respond(q, bad)
		w := decodeParams[protocol.WarningParams](t, c.until("warning"))
		if w.ThreadID == nil || *w.ThreadID != thread || !strings.Contains(w.Message, "still waits") {
			t.Errorf("%s: %+v", bad, w)
		}
	}
	c.write(`{"id":"nobody","result":{"decision":"accept"}}`)
	c.write(`{"id":7,"result":{"decision":"accept"}}`)
	c.respond(q, `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}}}`)
	if by := c.resolvedBy(); by != "tester" {
		t.Errorf("answered by %q", by)
	}
	d.puppet.say(t, text("done"), done())
	c.until("turn/completed")
	c.close()
}

func TestAnErrorAnswersOnlyIfThereIsNobodyElseToAsk(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	b := d.dialPipe()
	b.hello("second", "")
	b.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	q := d.asking(a, thread)
	fails := `{"id":` + string(q.ID) + `,"error":{"code":-32000,"message":"cannot"}}`
	a.write(fails)
	a.must("thread/request/list", `{"threadId":"`+thread+`"}`, nil)
	var list RequestListResult
	a.must("thread/request/list", `{"threadId":"`+thread+`"}`, &list)
	if len(list.Data) != 1 {
		t.Fatalf("the request is gone: %+v", list)
	}
	b.must("thread/unsubscribe", `{"threadId":"`+thread+`"}`, nil)
	a.write(fails)
	if by := a.resolvedBy(); by != "tester" {
		t.Errorf("answered by %q", by)
	}
	d.puppet.say(t, text("done"), done())
	a.until("turn/completed")
	a.close()
	b.close()
}

// A request survives its client, and is asked again of the next one: under its id,
// after the answer and what is known, before anything new.
func TestAPendingRequestIsAskedAgainAfterAReconnect(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	q := d.asking(a, thread)
	a.close()
	b := d.hello("")
	before := len(b.seen)
	b.must("thread/resume", `{"threadId":"`+thread+`","excludeTurns":true}`, nil)
	f := b.until(approval)
	if string(f.ID) != string(q.ID) || string(f.Params) != string(q.Params) {
		t.Errorf("asked %s, then %s", q.raw, f.raw)
	}
	for _, m := range b.flow(before) {
		if m == "serverRequest/created" {
			t.Error("what is before the cursor is told again")
		}
	}
	b.must("thread/resume", `{"threadId":"`+thread+`","excludeTurns":true}`, nil)
	if f := b.until(approval); string(f.ID) != string(q.ID) {
		t.Errorf("the second resume: %s", f.raw)
	}
	b.respond(q, `{"decision":"decline"}`)
	b.resolvedBy()
	d.puppet.say(t, text("done"), done())
	b.until("turn/completed")
	c := d.hello("") // from the beginning: what was answered is told, not asked
	c.must("thread/subscribe", `{"threadId":"`+thread+`"}`, nil)
	c.until(methodStreamLive)
	for _, f := range c.seen {
		if f.Method == approval {
			t.Errorf("asked again: %s", f.raw)
		}
	}
	c.close()
	b.close()
}

func TestAToolOfTheClientIsCalledOverTheConnection(t *testing.T) {
	d := open(t)
	c := d.hello("")
	var r ThreadStartResult
	c.must("thread/start", `{"modelProvider":"puppet","dynamicTools":[{"type":"namespace","name":"ui","description":"d","tools":[{"type":"function","name":"beep","description":"b","inputSchema":{"type":"object"}}]}]}`, &r)
	c.say(r.Thread.ID, "beep")
	d.puppet.say(t, adapters.CallChunk{Call: transcriptCall("c1", "ui__beep", `{"n":1}`)}, adapters.Done{Stop: adapters.StopTools})
	q := c.until("item/tool/call")
	c.respond(q, `{"contentItems":[{"type":"inputText","text":"it beeped"}],"success":true}`)
	d.puppet.say(t, text("done"), done())
	c.until("turn/completed")
	if !strings.Contains(mustEncode(t, c.seen), "it beeped") {
		t.Error("the output of the tool is not told")
	}
	c.close()
}

// A restart of the server in the middle of an approval is invisible: the same
// thread, the same request, the same turn.
func TestAPendingRequestSurvivesARestart(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("puppet")
	q := d.asking(a, thread)
	a.close()
	d.client.CloseIdleConnections()
	d.stop()
	if err := d.svc.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.journal.Reopen()
	svc, err := threads.Open(t.Context(), threads.Config{
		Journal: d.journal, Providers: []threads.Provider{{Name: "puppet", Kind: "puppet", Adapter: agent.New(d.puppet)}},
		Tools: map[string]threads.Tool{"run": runs},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.svc, d.server, d.ln = svc, New(Options{Service: svc, Version: "0.0.0-test"}), newMemListener()
	d.serve()
	b := d.hello("")
	b.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	if f := b.until(approval); string(f.ID) != string(q.ID) {
		t.Fatalf("asked %s before, %s after", q.ID, f.ID)
	}
	b.respond(q, `{"decision":"accept"}`)
	b.resolvedBy()
	d.puppet.say(t, text("done"), done())
	b.until("turn/completed")
	b.close()
}

func TestAnEphemeralThreadLivesAsLongAsItsConnections(t *testing.T) {
	d := fleeting(t)
	a := d.hello("")
	var r ThreadStartResult
	a.must("thread/start", `{"ephemeral":true}`, &r)
	id := r.Thread.ID
	b := d.hello("")
	b.must("thread/resume", `{"threadId":"`+id+`"}`, nil)
	a.say(id, "hello")
	a.until("turn/completed")
	b.until("turn/completed")
	if got, want := seqs(b.seen), seqs(a.seen); len(got) >= len(want) {
		t.Errorf("who resumed was told %v, the maker %v", got, want)
	}
	a.close()
	b.must("thread/read", `{"threadId":"`+id+`"}`, nil)
	b.close()
	c := d.hello("")
	if e := c.refused("thread/read", `{"threadId":"`+id+`"}`); e.Message != "thread not loaded: "+id {
		t.Errorf("%+v", e)
	}
	c.close()
}
