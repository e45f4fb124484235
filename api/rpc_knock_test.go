package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

const page = "http://localhost:1"

// paged is a door that a page may use, and the address it listens on.
func paged(t *testing.T, change ...func(*Server)) (d *door, url string) {
	k := &keyring{}
	k.grant("reader", ScopeRead)
	d = open(t, func(o *Options) { o.Origins, o.Grants = []string{page}, k.look })
	for _, c := range change {
		c(d.server)
	}
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	t.Cleanup(stop)
	return d, "ws://" + tcp
}

func fromPage() http.Header { return http.Header{"Origin": {page}} }

func TestAPageProvesItselfWithItsFirstMessage(t *testing.T) {
	d, url := paged(t)
	c := d.mustDialWS(url, fromPage())
	c.must("authenticate", `{"token":"`+testToken+`"}`, nil)
	c.hello("page", "")
	c.say(c.start("offline"), "hello")
	c.until("turn/completed")
	c.close()
	c = d.mustDialWS(url, fromPage())
	c.write(`{"method":"authenticate","params":{"token":"reader"}}`) // nobody has to wait for the answer
	c.hello("page", "")
	if e := c.refused("thread/start", `{}`); !strings.Contains(e.Message, "scope write") {
		t.Errorf("answered with %+v", e)
	}
	c.close()
}

func TestAPageThatDoesNotProveItselfIsClosed(t *testing.T) {
	d, url := paged(t)
	for name, first := range map[string]string{
		"wrong token":     `{"id":1,"method":"authenticate","params":{"token":"nonsense"}}`,
		"no token":        `{"id":1,"method":"authenticate"}`,
		"something else":  `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"},"token":"` + testToken + `"}}`,
		"no JSON":         `token ` + testToken,
		"a batch":         `[{"id":1,"method":"authenticate","params":{"token":"` + testToken + `"}}]`,
		"nothing at all":  ``,
		"token, no words": `"` + testToken + `"`,
	} {
		c := d.mustDialWS(url, fromPage())
		c.write(first)
		if e := c.ended(); e.Status != statusUnauthorized || strings.Contains(e.Reason, testToken) {
			t.Errorf("%s: closed with %v", name, e)
		}
		if len(c.frames) > 0 {
			t.Errorf("%s: it was told %s", name, (<-c.frames).raw)
		}
	}
}

func TestAPageThatSaysNothingIsClosed(t *testing.T) {
	d, url := paged(t, func(s *Server) { s.timing.knock = time.Millisecond })
	if e := d.mustDialWS(url, fromPage()).ended(); e.Status != statusUnauthorized {
		t.Errorf("closed with %v", e)
	}
	if defaultTiming.knock != 5*time.Second {
		t.Errorf("a page has %v", defaultTiming.knock)
	}
}

func TestAServerThatStopsWaitsForNoFirstMessage(t *testing.T) {
	d := open(t, func(o *Options) { o.Origins = []string{page} })
	tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
	c := d.mustDialWS("ws://"+tcp, fromPage())
	stop()
	if e := c.ended(); e.Status == jsonrpc.StatusNormal {
		t.Errorf("closed with %v", e)
	}
}

func TestATokenMayBeASubprotocol(t *testing.T) {
	d, url := paged(t)
	with := func(offered string) http.Header {
		h := fromPage()
		h.Set("Sec-WebSocket-Protocol", offered)
		return h
	}
	for offered, agreed := range map[string]string{
		"plimsoll, plimsoll.token." + testToken: "plimsoll",
		"plimsoll.token." + testToken:           "plimsoll.token." + testToken,
		"plimsoll.token.reader, plimsoll":       "plimsoll",
	} {
		c := d.mustDialWS(url, with(offered))
		c.hello("page", "")
		c.must("thread/list", `{}`, nil)
		c.close()
		if got := upgraded(t, d, url, with(offered)); got != agreed {
			t.Errorf("of %q the server took %q", offered, got)
		}
	}
	for _, offered := range []string{"plimsoll.token.nonsense", "plimsoll.token."} {
		if _, err := d.dialWS(url, with(offered)); err == nil {
			t.Errorf("%q is let in", offered)
		}
	}
	if _, err := d.dialWS(url, http.Header{"Sec-Websocket-Protocol": {"plimsoll"}}); err == nil {
		t.Error("a subprotocol without a token is let in from no page")
	}
}

// upgraded is the subprotocol that the server agrees to.
func upgraded(t *testing.T, d *door, url string, h http.Header) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(url, "ws:", "http:", 1), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h
	for name, val := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		req.Header.Set(name, val)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answered with %d", res.StatusCode)
	}
	return res.Header.Get("Sec-WebSocket-Protocol")
}

// deaf is a transport whose client takes no answer.
type deaf struct {
	first  string
	closed bool
}

func (d *deaf) Read() ([]byte, error)   { return []byte(d.first), nil }
func (d *deaf) Write([]byte) error      { return errors.New("nobody reads") }
func (d *deaf) Close(int, string) error { d.closed = true; return nil }

func TestAPageThatTakesNoAnswerIsClosed(t *testing.T) {
	d, _ := paged(t)
	c := &deaf{first: `{"id":1,"method":"authenticate","params":{"token":"` + testToken + `"}}`}
	if _, ok := d.server.knock(t.Context(), c, "x"); ok || !c.closed {
		t.Errorf("let in: %t, closed: %t", ok, c.closed)
	}
}
