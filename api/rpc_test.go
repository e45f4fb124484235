package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// The order of codex 0.171 (codex.md §2), without what only accounts have.
func TestAPlainTurnIsToldInTheOrderOfCodex(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		c := d.hello("")
		thread := c.start("offline")
		if f := c.next(); f.Method != "thread/started" || f.Seq != 1 {
			t.Fatalf("after thread/start came %s", f.raw)
		}
		for range 3 {
			before := len(c.seen)
			c.say(thread, "hello there")
			c.until("turn/completed")
			want := []string{
				"=", "thread/status/changed", "turn/started", "item/started", "item/completed",
				"item/started", methodMessageDelta, "item/completed",
				"thread/tokenUsage/updated", "thread/status/changed", "turn/completed",
			}
			if diff := cmp.Diff(want, c.flow(before)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		}
		dense(t, 1, seqs(c.seen))
		if got := texts(t, c.seen); len(got) != 3 {
			t.Errorf("texts %v", got)
		}
		c.close()
	})
}

func TestAClientIntroducesItselfFirstAndOnce(t *testing.T) {
	d := open(t, func(o *Options) { o.Home = "/the/home" })
	c := d.dialPipe()
	for _, m := range []string{"thread/list", "model/list", "turn/start", "thread/subscribe"} {
		if e := c.refused(m, `{"threadId":"`+nowhere+`","input":[]}`); e.Code != -32600 || e.Message != "Not initialized" {
			t.Errorf("%s before initialize: %+v", m, e)
		}
	}
	for params, want := range map[string]string{
		`{"clientInfo":{"name":"a\nb","version":"1"}}`: "Invalid clientInfo.name: 'a\nb'. Must be a valid HTTP header value.",
		`{"clientInfo":{"name":"ä","version":"1"}}`:    "Invalid clientInfo.name: 'ä'. Must be a valid HTTP header value.",
		`{}`:                          "Invalid request: missing field `clientInfo`",
		`{"clientInfo":{"name":"a"}}`: "Invalid request: missing field `version`",
		``:                            "Invalid request: missing field `params`",
		`{"clientInfo":"me"}`:         "Invalid request: invalid type: string \"me\", expected struct ClientInfo",
	} {
		if e := c.refused("initialize", params); e.Code != -32600 || e.Message != want {
			t.Errorf("initialize %s: %+v, want %q", params, e, want)
		}
	}
	var r InitializeResult
	c.must("initialize", `{"clientInfo":{"name":"codex-tui","title":null,"version":"0.171.0"},"capabilities":{"experimentalApi":true,"optOutNotificationMethods":null,"requestAttestation":false,"requiredHumanApproval":true}}`, &r)
	if !strings.HasPrefix(r.UserAgent, "plimsoll/0.0.0-test+plimsoll (") || r.CodexHome != "/the/home" || r.PlatformFamily != "unix" || r.PlatformOs == "" || r.Plimsoll.Version != "0.0.0-test" {
		t.Errorf("initialize: %+v", r)
	}
	for _, m := range r.Plimsoll.Methods {
		if _, ok := methodNamed(m); !ok {
			t.Errorf("%s is told and not served", m)
		}
		if _, ok := coverageOf(m); ok {
			t.Errorf("%s is codex's", m)
		}
	}
	if len(r.Plimsoll.Methods) == 0 || len(r.Plimsoll.Notifications) == 0 {
		t.Errorf("nothing is told of: %+v", r.Plimsoll)
	}
	if e := c.refused("initialize", `{"clientInfo":{"name":"again","version":"1"}}`); e.Message != "Already initialized" {
		t.Errorf("the second initialize: %+v", e)
	}
	c.must("thread/list", `{}`, nil)
	c.close()
}

const nowhere = "00000000-0000-7000-8000-000000000000"

// Whatever is pipelined behind initialize finds the client introduced.
func TestRequestsMayFollowInitializeAtOnce(t *testing.T) {
	d := open(t)
	c := d.dialPipe()
	c.post("initialize", `{"clientInfo":{"name":"a","version":"1"}}`)
	id := c.post("thread/read", `{"threadId":"`+nowhere+`"}`)
	if f := c.answerTo(id); f.Error == nil || f.Error.Message != "thread not loaded: "+nowhere {
		t.Errorf("%s", f.raw)
	}
	c.close()
}

func TestUnknownMethodsAreRefusedInTheWordsOfCodex(t *testing.T) {
	d := open(t)
	c := d.hello("")
	e := c.refused("no/such", `{}`)
	if e.Code != -32600 || !strings.HasPrefix(e.Message, "Invalid request: unknown variant `no/such`, expected one of `account/") || !strings.Contains(e.Message, "`turn/start`") {
		t.Errorf("%+v", e)
	}
	if e := c.refused("review/start", `{}`); e.Code != -32601 || !strings.Contains(e.Message, "review/start is not supported by this server: ") {
		t.Errorf("a method of codex: %+v", e)
	}
	if e := c.refused("thread/export", `{}`); e.Code != -32600 {
		t.Errorf("a method of REST: %+v", e)
	}
	c.must("thread/list", `{}`, nil)
	c.close()
}

func TestWhatIsExperimentalNeedsTheCapability(t *testing.T) {
	d := open(t)
	c := d.hello(`{}`)
	for _, w := range []struct{ method, params, want string }{
		{"collaborationMode/list", `{}`, "collaborationMode/list requires experimentalApi capability"},
		{"thread/start", `{"dynamicTools":[]}`, "thread/start.dynamicTools requires experimentalApi capability"},
	} {
		if e := c.refused(w.method, w.params); e.Code != -32600 || e.Message != w.want {
			t.Errorf("%s: %+v", w.method, e)
		}
	}
	c.must("provider/list", ``, nil) // ours never does
	c.close()
}

func TestErrorsAreInTheWordsOfCodex(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("puppet")
	is := func(method, params, want string) {
		t.Helper()
		if e := c.refused(method, params); e.Code != -32600 || e.Message != want {
			t.Errorf("%s: %+v, want %q", method, e, want)
		}
	}
	is("turn/start", `{"threadId":"`+nowhere+`","input":[{"type":"text","text":"x"}]}`, "thread not found: "+nowhere)
	is("thread/compact/start", `{"threadId":"`+nowhere+`"}`, "thread not found: "+nowhere)
	is("thread/read", `{"threadId":"`+nowhere+`"}`, "thread not loaded: "+nowhere)
	is("turn/start", `{"input":[]}`, "Invalid request: missing field `threadId`")
	is("turn/interrupt", `{"threadId":"`+thread+`","turnId":"x"}`, "no active turn to interrupt")
	is("turn/steer", `{"threadId":"`+thread+`","expectedTurnId":"x","input":[{"type":"text","text":"x"}]}`, "no active turn to steer")
	turn := c.say(thread, "go")
	is("turn/steer", `{"threadId":"`+thread+`","expectedTurnId":"x","input":[{"type":"text","text":"x"}]}`, "expected active turn id `x` but found `"+turn+"`")
	c.must("turn/interrupt", `{"threadId":"`+thread+`","turnId":"`+turn+`"}`, nil)
	c.close()
}

func TestNotificationsThatAreNotWantedAreNotSent(t *testing.T) {
	d := open(t)
	c := d.hello(`{"optOutNotificationMethods":["` + methodMessageDelta + `","turn/started","thread/started"]}`)
	thread := c.start("offline")
	c.say(thread, "hello")
	c.until("turn/completed")
	for _, m := range c.flow(0) {
		if m == methodMessageDelta || m == "turn/started" || m == "thread/started" {
			t.Errorf("%s was sent", m)
		}
	}
	c.close()
}

// A broken thread, and a panic, are answered; the connection lives.
func TestNothingThatAThreadDoesEndsAConnection(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	c.until("thread/started")
	d.server.frames = newFrames(nil) // encoding panics
	c.say(thread, "hello")
	f := c.until("warning")
	if !strings.Contains(string(f.Params), thread) {
		t.Errorf("%s", f.raw)
	}
	var r UnsubscribeResult
	for r.Status != "notSubscribed" { // until it is over
		c.must("thread/unsubscribe", `{"threadId":"`+thread+`"}`, &r)
	}
	d.server.frames = newFrames(d.server.encodeEvent)
	c.must("thread/resume", `{"threadId":"`+thread+`"}`, nil)
	if !strings.Contains(d.log.String(), `"msg":"panic"`) {
		t.Error("the panic is not in the log")
	}
	c.close()
}

func TestTheLogHasNoBodies(t *testing.T) {
	d := open(t)
	c := d.hello("")
	thread := c.start("offline")
	c.say(thread, "SECRETSECRET")
	c.until("turn/completed")
	if e := c.refused("turn/start", `{"threadId":"`+thread+`","mode":"SECRETSECRET","input":[]}`); e.Code != -32600 {
		t.Errorf("%+v", e)
	}
	c.write(`{"id":9,"method":"turn/start","params":{"SECRETSECRET":`)
	c.must("thread/list", `{}`, nil)
	c.close()
	if strings.Contains(d.log.String(), "SECRETSECRET") {
		t.Error("what was said is in the log")
	}
}

func TestAClosedContextClosesTheConnection(t *testing.T) {
	d := open(t)
	c := d.hello("")
	c.start("offline")
	c.cancel()
	if e := c.ended(); e.Status != jsonrpc.StatusGoingAway {
		t.Errorf("closed with %v", e)
	}
}

func decodeParams[T any](t testing.TB, f wireFrame) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(f.Params, &v); err != nil {
		t.Fatalf("%s: %v", f.raw, err)
	}
	return v
}
