package api

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

func TestATokenThatAsksTooOftenIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keyring{}
		k.grant("other", ScopeRead)
		d := open(t, func(o *Options) { o.Grants, o.Limits.Requests = k.look, 10 })
		for range 20 {
			d.into(d.do("GET", "/v1/threads", ""), 200, new(ThreadListResult))
		}
		if a := d.do("GET", "/v1/threads", ""); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "1" {
			t.Errorf("answered with %d %v %s", a.status, a.header, a.body)
		}
		d.into(d.do("GET", "/v1/threads", "", token("other")), 200, new(ThreadListResult))
		d.into(d.do("GET", "/healthz", "", header("Authorization")), 200, new(Empty))
		time.Sleep(time.Second)
		for range 10 {
			d.into(d.do("GET", "/v1/threads", ""), 200, new(ThreadListResult))
		}
		d.problem(http.StatusTooManyRequests, "GET", "/v1/threads", "")
		d.close()
		synctest.Wait()
	})
}

// Wrong tokens are not counted, and so need no room.
func TestWrongTokensAreNotRemembered(t *testing.T) {
	d := open(t)
	for _, wrong := range []string{"a", "b", "c"} {
		d.problem(401, "GET", "/v1/threads", "", token(wrong))
	}
	if n := len(d.server.uses.all); n != 0 {
		t.Errorf("%d tokens are remembered", n)
	}
	for i := range 2 * maxUses {
		if err := d.server.uses.request(pass{hash: hashOf(string(rune(i)))}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.server.uses.all); n > maxUses {
		t.Errorf("%d tokens are remembered", n)
	}
}

func TestOneTokenDoesNotTakeAllWebSockets(t *testing.T) {
	k := &keyring{}
	k.grant("other", ScopeRead)
	d := open(t, func(o *Options) { o.Grants, o.Limits.TokenPeers, o.Origins = k.look, 1, []string{page} })
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	url := "ws://" + tcp
	first := d.mustDialWS(url, bearer(testToken))
	first.hello("x", "")
	_, err := d.dialWS(url, bearer(testToken))
	if e, ok := errors.AsType[*jsonrpc.HandshakeError](err); !ok || e.Status != http.StatusTooManyRequests {
		t.Errorf("the second was answered with %v", err)
	}
	late := d.mustDialWS(url, fromPage())
	late.write(`{"method":"authenticate","params":{"token":"` + testToken + `"}}`)
	if e := late.ended(); e.Status != jsonrpc.StatusTryLater {
		t.Errorf("the page was closed with %v", e)
	}
	other := d.mustDialWS(url, bearer("other"))
	other.hello("x", "")
	other.close()
	first.close()
	for again := 0; ; again++ { // the server counts it out after the close
		next, err := d.dialWS(url, bearer(testToken))
		if err == nil {
			next.hello("x", "")
			next.close()
			return
		}
		if again > 1000 {
			t.Fatal(err)
		}
	}
}
