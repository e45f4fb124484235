package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// listen serves on a real socket, guarded or not.
func (d *door) listen(network, address string, serve func(context.Context, net.Listener) error) (addr string, stop func()) {
	d.t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, ln) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("serve: %v", err)
		}
	}
	return ln.Addr().String(), stop
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// dialWS connects as client.
func (d *door) dialWS(url string, h http.Header) (*caller, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t, err := jsonrpc.Dial(ctx, url, h)
	if err != nil {
		return nil, err
	}
	c := d.caller(t)
	c.served <- nil // by Serve
	d.t.Cleanup(c.close)
	return c, nil
}

func (d *door) mustDialWS(url string, h http.Header) *caller {
	d.t.Helper()
	c, err := d.dialWS(url, h)
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func TestWebSocketsAreServedOnAnyPathOfBothHandlers(t *testing.T) {
	d := open(t)
	tcp, stopTCP := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	sock := filepath.Join(t.TempDir(), "s")
	_, stopUnix := d.listen("unix", sock, d.server.ServePrivate)
	for _, path := range []string{"/", "/v1/threads", "/healthz", "/some/where?x=1"} {
		c := d.mustDialWS("ws://"+tcp+path, bearer(testToken))
		c.hello("a", "")
		thread := c.start("offline")
		c.say(thread, "over a socket")
		c.until("turn/completed")
		c.close()
	}
	c := d.mustDialWS("unix://"+sock, nil)
	c.hello("b", "")
	c.say(c.start("offline"), "over a unix socket")
	c.until("turn/completed")
	c.close()
	stopUnix()
	stopTCP()
}

func TestAWebSocketNeedsTheTokenInTheWordsOfCodex(t *testing.T) {
	d := open(t, func(o *Options) { o.Origins = []string{"http://localhost:1"} })
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	with := func(h http.Header, name, val string) http.Header { h.Set(name, val); return h }
	for name, c := range map[string]struct {
		path   string
		header http.Header
		status int
		body   string
	}{
		"no token":            {"/", nil, 401, "missing websocket bearer token"},
		"no token, health":    {"/healthz", nil, 401, "missing websocket bearer token"},
		"wrong token":         {"/", bearer("nonsense"), 401, "invalid websocket bearer token"},
		"another scheme":      {"/", http.Header{"Authorization": {"Basic " + testToken}}, 401, "invalid websocket bearer token"},
		"a token in the URL":  {"/?token=" + testToken, nil, 401, "missing websocket bearer token"},
		"an origin":           {"/", with(bearer(testToken), "Origin", "http://evil.example"), 403, "origin"},
		"a host":              {"/", with(bearer(testToken), "Host", "evil.example"), 421, "unknown host"},
		"an origin, no token": {"/", http.Header{"Origin": {"http://evil.example"}}, 403, "origin"},
	} {
		_, err := d.dialWS("ws://"+tcp+c.path, c.header)
		refused, ok := errors.AsType[*jsonrpc.HandshakeError](err)
		if !ok || refused.Status != c.status || !strings.Contains(refused.Body, c.body) || c.status == 401 && refused.Body != c.body {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := d.mustDialWS("ws://"+tcp, with(bearer(testToken), "Origin", "http://localhost:1"))
	c.hello("web", "")
	c.close()
}

func TestATokenHashCountsBeforeAToken(t *testing.T) {
	hash, ok := [32]byte{}, true
	d := open(t, func(o *Options) { o.TokenHash = func() ([32]byte, bool) { return hash, ok } })
	hash = hashOf("other")
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	if _, err := d.dialWS("ws://"+tcp, bearer(testToken)); err == nil {
		t.Error("the token counts beside its hash")
	}
	d.mustDialWS("ws://"+tcp, bearer("other")).close()
	ok = false
	if _, err := d.dialWS("ws://"+tcp, bearer("other")); err == nil {
		t.Error("a hash that is none lets in")
	}
}

func TestAWebSocketTooManyIsToldSo(t *testing.T) {
	d := open(t, func(o *Options) { o.Limits.Peers = 2 })
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	one, two := d.mustDialWS("ws://"+tcp, bearer(testToken)), d.mustDialWS("ws://"+tcp, bearer(testToken))
	_, err := d.dialWS("ws://"+tcp, bearer(testToken))
	if refused, ok := errors.AsType[*jsonrpc.HandshakeError](err); !ok || refused.Status != 503 || !strings.Contains(refused.Body, "2 WebSockets are open") {
		t.Fatalf("%v", err)
	}
	one.close()
	for start := time.Now(); ; {
		c, err := d.dialWS("ws://"+tcp, bearer(testToken))
		if err == nil {
			c.close()
			break
		}
		if time.Since(start) > patience {
			t.Fatal("the place of a closed WebSocket is not free again")
		}
	}
	two.close()
}

// ended waits for the end of the connection and returns how it was closed.
func (c *caller) ended() *jsonrpc.CloseError {
	c.t.Helper()
	select {
	case <-c.gone:
	case <-time.After(patience):
		c.t.Fatal("the connection does not end")
	}
	e, ok := errors.AsType[*jsonrpc.CloseError](c.why)
	if !ok {
		c.t.Fatalf("the connection ended with %v", c.why)
	}
	return e
}

func TestServeClosesItsWebSocketsAndWaits(t *testing.T) {
	d := open(t)
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	c := d.mustDialWS("ws://"+tcp, bearer(testToken))
	c.hello("a", "")
	c.start("offline")
	stop()
	if e := c.ended(); e.Status != jsonrpc.StatusGoingAway {
		t.Errorf("closed with %v", e)
	}
}

func TestAReplacedTokenEndsItsWebSockets(t *testing.T) {
	r := &rotor{}
	r.set(testToken)
	d := open(t, func(o *Options) { o.Token = r.get })
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	defer stop()
	c := d.mustDialWS("ws://"+tcp, bearer(testToken))
	c.hello("a", "")
	c.start("offline")
	r.set("the next one")
	if e := c.ended(); e.Status != statusUnauthorized {
		t.Errorf("closed with %v", e)
	}
	next := d.mustDialWS("ws://"+tcp, bearer("the next one"))
	next.hello("a", "")
	next.close()
}
