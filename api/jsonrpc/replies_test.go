package jsonrpc

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// What JSON does not have escaped is not: neither in results nor in errors, nor in
// what is JSON already.
func TestAnswersAreNotEscapedForHTML(t *testing.T) {
	const text = `a<b> & "c"`
	raw := json.RawMessage(`{"x":"<&>` + "\u2028" + `"}`)
	p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
		if r.Method == "fail" {
			r.Fail(&Error{Code: 1, Message: text, Data: raw})
			return
		}
		r.Reply(struct {
			Text string
			Raw  json.RawMessage
		}{text + "\u2028", raw})
	}}, Options{})
	p.send(`{"id":1,"method":"m"}`)
	p.want(`{"id":1,"result":{"Text":"a<b> & \"c\"\u2028","Raw":` + string(raw) + `}}`)
	p.send(`{"id":"<2>","method":"fail"}`)
	p.want(`{"id":"<2>","error":{"code":1,"message":"a<b> & \"c\"","data":` + string(raw) + `}}`)
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// A client has a limit for what it reads. What is larger is not sent: it would end
// the connection.
func TestAnAnswerLargerThanAFrameIsAnErrorThatSaysWhatToDo(t *testing.T) {
	size := len(`{"id":1,"result":""}`)
	for name, c := range map[string]struct {
		bytes int
		sent  bool
	}{
		"fits":          {MaxFrame, true},
		"one too many":  {MaxFrame + 1, false},
		"many too many": {3 * MaxFrame, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
				r.Reply(strings.Repeat("x", c.bytes-size))
			}}, Options{})
			p.send(`{"id":1,"method":"m"}`)
			got := p.recv()
			if c.sent {
				if len(got) != c.bytes || strings.Contains(got[:30], "error") {
					t.Errorf("%d bytes: %.100s", len(got), got)
				}
			} else if r := parseReply(t, got); r.Error == nil || r.Error.Code != CodeInvalid || string(r.Error.Data) != `{"code":"tooLarge"}` ||
				!strings.Contains(r.Error.Message, "16777216") || !strings.Contains(r.Error.Message, "smaller limit") {
				t.Errorf("%.300s", got)
			}
			if err := p.hangUp(); err != nil {
				t.Error(err)
			}
		})
	}
	p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
		r.Fail(&Error{Code: 1, Message: strings.Repeat("x", MaxFrame)})
	}}, Options{})
	p.send(`{"id":1,"method":"m"}`)
	p.want(`{"id":1,"error":{"code":-32603,"message":"internal error"}}`)
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// A counted result notes that it was encoded.
type counted struct{ n *atomic.Int32 }

func (c counted) MarshalJSON() ([]byte, error) {
	c.n.Add(1)
	return []byte(`"` + strings.Repeat("x", 1000) + `"`), nil
}

// Of the answers that a client asks for and does not read, in however many lanes,
// those are encoded that have room, and one more.
func TestAnswersAreEncodedWhenThereIsRoomForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var encoded atomic.Int32
		p := connectPipe(t, &script{
			lane: func(_ string, params json.RawMessage) string { return string(params) },
			req:  func(_ context.Context, r *Request) { r.Reply(counted{&encoded}) },
		}, Options{QueueBytes: 1500})
		const all = 64
		for i := range all {
			p.send(`{"id":%d,"method":"m","params":[%d]}`, i, i%8)
		}
		synctest.Wait()
		if n := encoded.Load(); n < 2 || n > 3 { // two are let in below 1,500 bytes
			t.Errorf("%d answers are encoded while nobody reads", n)
		}
		for range all {
			p.recv()
		}
		if n := encoded.Load(); n != all {
			t.Errorf("%d answers were encoded, want %d", n, all)
		}
		if err := p.hangUp(); err != nil {
			t.Error(err)
		}
	})
}

// Answers that wait for their turn are given up when the connection ends.
func TestAnswersThatWaitToBeEncodedEndWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var encoded atomic.Int32
		p := connectPipe(t, &script{
			lane: func(_ string, params json.RawMessage) string { return string(params) },
			req:  func(_ context.Context, r *Request) { r.Reply(counted{&encoded}) },
		}, Options{QueueBytes: 500})
		for i := range 8 {
			p.send(`{"id":%d,"method":"m","params":[%d]}`, i, i)
		}
		synctest.Wait()
		p.stop() // the server ends it; nobody reads
		if err := <-p.done; err != nil {
			t.Logf("it ended with %v", err)
		}
		if n := encoded.Load(); n > 3 {
			t.Errorf("%d answers were encoded for nobody", n)
		}
	})
}
