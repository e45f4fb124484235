package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

func input(text string) string { return `[{"type":"text","text":"` + text + `"}]` }

func TestASteeredTurnTellsWhatItSaidSoFar(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	turn := c.say(thread, "one")
	d.puppet.say(t, text("half"))
	c.until(methodMessageDelta)
	var s TurnSteerResult
	c.must("turn/steer", `{"threadId":"`+thread+`","expectedTurnId":"`+turn+`","input":`+input("two")+`}`, &s)
	if s.TurnID != turn {
		t.Errorf("steered into %s, want %s", s.TurnID, turn)
	}
	var again TurnStartResult
	c.must("turn/start", `{"threadId":"`+thread+`","input":`+input("three")+`}`, &again)
	if again.Turn.ID != turn {
		t.Errorf("turn/start during a turn began %s, want %s", again.Turn.ID, turn)
	}
	d.puppet.say(t, text("whole"), done(), text("and more"), done()) // the second for what was steered
	end := decodeParams[protocol.TurnCompletedParams](t, c.until("turn/completed"))
	if end.Turn.ID != turn || end.Turn.Status != "completed" {
		t.Errorf("end: %+v", end.Turn)
	}
	texts(t, c.seen)
	dense(t, 1, seqs(c.seen))
	c.close()
}

func TestAnInterruptIsAnsweredBeforeItsEnd(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	turn := c.say(thread, "one")
	d.puppet.say(t, text("half"))
	c.until(methodMessageDelta)
	before := len(c.seen)
	c.must("turn/interrupt", `{"threadId":"`+thread+`","turnId":"`+turn+`"}`, nil)
	c.until("turn/completed")
	want := []string{"=", "item/completed", "thread/status/changed", "turn/completed"}
	if diff := cmp.Diff(want, c.flow(before)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for _, got := range texts(t, c.seen) {
		if got != "half" {
			t.Errorf("kept %q", got)
		}
	}
	c.close()
}

func TestAQueuedInputIsListedAndBecomesATurn(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	first := c.say(thread, "one")
	var queued TurnStartResult
	c.must("turn/start", `{"threadId":"`+thread+`","mode":"queue","input":`+input("two")+`}`, &queued)
	if !queued.Queued || queued.Turn.ID == first {
		t.Fatalf("%+v", queued)
	}
	if q := decodeParams[protocol.ThreadQueueChangedParams](t, c.until("thread/queue/changed")); len(q.Queue) != 1 || q.Queue[0].ID != queued.Turn.ID {
		t.Errorf("queue %+v", q)
	}
	var list QueueListResult
	c.must("thread/queue/list", `{"threadId":"`+thread+`"}`, &list)
	if len(list.Data) != 1 {
		t.Errorf("list %+v", list)
	}
	d.puppet.say(t, text("a"), done(), text("b"), done())
	c.until("turn/completed")
	if s := decodeParams[protocol.TurnStartedParams](t, c.until("turn/started")); s.Turn.ID != queued.Turn.ID {
		t.Errorf("then %+v", s.Turn)
	}
	c.until("turn/completed")
	dense(t, 1, seqs(c.seen))
	c.close()
}

// talk gives a thread enough history for a compaction.
func (d *door) talk(c *caller, thread string, turns int) {
	d.t.Helper()
	long := ""
	for range 400 {
		long += "The harbour crane number seven lifts forty tonnes. "
	}
	for range turns {
		c.say(thread, long)
		c.until("turn/completed")
	}
}

func TestACompactionIsToldAsCodexDoes(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	d.talk(c, thread, 8)
	for _, w := range []struct {
		name string
		want []string
	}{
		{"completed", []string{"=", "thread/status/changed", "turn/started", "item/started", "item/completed", "thread/status/changed", "turn/completed"}},
		{"unchanged", []string{"=", "thread/status/changed", "turn/started", "item/started", "warning", "thread/status/changed", "turn/completed"}},
	} {
		before := len(c.seen)
		c.must("thread/compact/start", `{"threadId":"`+thread+`"}`, nil)
		end := decodeParams[protocol.TurnCompletedParams](t, c.until("turn/completed"))
		if end.Turn.Status != "completed" {
			t.Errorf("%s: turn %+v", w.name, end.Turn)
		}
		var got []string
		for _, m := range c.flow(before) {
			if m != "thread/compaction/updated" && m != "thread/tokenUsage/updated" {
				got = append(got, m)
			}
		}
		if diff := cmp.Diff(w.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", w.name, diff)
		}
	}
	dense(t, 1, seqs(c.seen))
	c.close()
}

// A refusal as an answer would end the codex TUI: it is the turn that fails.
func TestARefusedCompactionFailsItsTurnUnlessTheClientWantsAnError(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	start := `{"threadId":"` + thread + `","route":"native"`
	var r CompactStartResult
	c.must("thread/compact/start", start+`}`, &r)
	e := decodeParams[protocol.ErrorParams](t, c.until("error"))
	end := decodeParams[protocol.TurnCompletedParams](t, c.until("turn/completed"))
	if e.WillRetry || end.Turn.Status != "failed" || end.Turn.Error == nil || end.Turn.Error.Message != e.Error.Message {
		t.Errorf("error %+v, turn %+v", e, end.Turn)
	}
	c.must("thread/compact/start", start+`,"wait":true}`, &r)
	if r.Compaction.Outcome == nil || *r.Compaction.Outcome != "refused" {
		t.Errorf("with wait: %+v", r.Compaction)
	}
	other := d.dialPipe()
	other.hello("script", `{"plimsoll":{"refusalAsError":true}}`)
	p := other.refused("thread/compact/start", start+`}`)
	if p.Code != -32600 || len(p.Data) == 0 {
		t.Errorf("as error: %+v", p)
	}
	other.close()
	c.close()
}

// While a compaction is waited for, its thread takes requests: also the input that
// lets it begin.
func TestWaitingForACompactionHoldsNobodyUp(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	turn := c.say(thread, "one")
	wait := c.post("thread/compact/start", `{"threadId":"`+thread+`","wait":true}`)
	c.must("thread/read", `{"threadId":"`+thread+`"}`, nil)
	if e := c.refused("turn/steer", `{"threadId":"`+thread+`","expectedTurnId":"other","input":`+input("x")+`}`); e.Code != -32600 {
		t.Errorf("steer: %+v", e)
	}
	c.must("turn/interrupt", `{"threadId":"`+thread+`","turnId":"`+turn+`"}`, nil)
	f := c.answerTo(wait)
	if f.Error != nil {
		t.Fatalf("%+v", f.Error)
	}
	c.close()
}
