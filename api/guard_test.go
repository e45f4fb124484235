package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// TestTheDoorIsShut is the test list of the security policy, as far as it is
// about HTTP without sockets: each case by its number there.
func TestTheDoorIsShut(t *testing.T) {
	d := open(t, func(o *Options) {
		o.Hosts = []string{"box.example."}
		o.Origins = []string{"https://good.example"}
	})
	const evil = "http://evil.com:4517"
	for _, c := range []struct {
		row    string
		method string
		target string
		body   string
		edits  []edit
		want   int
	}{
		{"1 rebinding of a health check", "GET", "/healthz", "", []edit{host("evil.com")}, 421},
		{"2 a name that begins like ours", "GET", "/healthz", "", []edit{host("127.0.0.1.evil.com")}, 421},
		{"3 trailing dot", "GET", "/healthz", "", []edit{host("localhost.:4517")}, 200},
		{"3b a configured name", "GET", "/healthz", "", []edit{host("BOX.example:80")}, 200},
		{"4 IPv6", "GET", "/healthz", "", []edit{host("[::1]:4517")}, 200},
		{"4b IPv6 without port", "GET", "/healthz", "", []edit{host("[::1]")}, 200},
		{"6 rebinding without token", "POST", "/v1/threads", "{}", []edit{host("evil.com:4517"), header("Origin", evil), header("Authorization")}, 421},
		{"7 rebinding of an upgrade", "GET", "/", "", []edit{host("evil.com:4517"), header("Upgrade", "websocket"), header("Connection", "Upgrade")}, 421},
		{"8 rebinding of a stream", "GET", "/v1/events", "", []edit{host("evil.com:4517"), header("Origin", evil)}, 421},
		{"9 another origin with the token", "POST", "/v1/threads", "{}", []edit{header("Origin", "https://evil.com")}, 403},
		{"10 origin null", "POST", "/v1/threads", "{}", []edit{header("Origin", "null")}, 403},
		{"10b empty origin", "POST", "/v1/threads", "{}", []edit{header("Origin", "")}, 403},
		{"11 another port", "POST", "/v1/threads", "{}", []edit{header("Origin", "http://localhost:3000")}, 403},
		{"12 no origin, token", "POST", "/v1/threads", "{}", nil, 201},
		{"12b listed origin, token", "POST", "/v1/threads", "{}", []edit{header("Origin", "https://good.example")}, 201},
		{"12c listed origin, no token", "POST", "/v1/threads", "{}", []edit{header("Origin", "https://good.example"), header("Authorization")}, 401},
		{"12d two origins", "POST", "/v1/threads", "{}", []edit{header("Origin", "https://good.example", "https://evil.com")}, 403},
		{"13 preflight", "OPTIONS", "/v1/threads", "", []edit{header("Origin", "https://evil.com"), header("Access-Control-Request-Method", "POST")}, 403},
		{"14 a name that ends like a listed one", "POST", "/v1/threads", "{}", []edit{header("Origin", "https://good.example.evil.com")}, 403},
		{"15 forwarded host", "GET", "/healthz", "", []edit{host("evil.com"), header("X-Forwarded-Host", "localhost")}, 421},
		{"16 text/plain", "POST", "/v1/threads", "{}", []edit{header("Content-Type", "text/plain")}, 415},
		{"17 a form", "POST", "/v1/threads", "a=1", []edit{header("Content-Type", "application/x-www-form-urlencoded")}, 415},
		{"18 no body, no type", "POST", "/v1/threads", "", []edit{header("Content-Type")}, 415},
		{"18b no body, no type, unknown route", "POST", "/nowhere", "", []edit{header("Content-Type")}, 415},
		{"19 GET on what changes something", "GET", "/v1/threads/abc/compact", "", nil, 405},
		{"21 cross-site", "GET", "/v1/threads", "", []edit{header("Sec-Fetch-Site", "cross-site")}, 403},
		{"22 no token on loopback", "GET", "/v1/threads", "", []edit{header("Authorization")}, 401},
		{"22b no token for a route that does not exist", "GET", "/nowhere", "", []edit{header("Authorization")}, 401},
		{"23 wrong token", "GET", "/v1/threads", "", []edit{header("Authorization", "Bearer wrong")}, 401},
		{"23b another scheme", "GET", "/v1/threads", "", []edit{header("Authorization", "Basic "+testToken)}, 401},
		{"23c a prefix of the token", "GET", "/v1/threads", "", []edit{header("Authorization", "Bearer "+testToken[:8])}, 401},
		{"24 token in the URL", "GET", "/v1/threads?token=" + testToken, "", nil, 401},
		{"40 a body of 5 MiB", "POST", "/v1/threads", `{"name":"` + strings.Repeat("x", 5<<20) + `"}`, nil, 413},
		{"41 a compressed body", "POST", "/v1/threads", "{}", []edit{header("Content-Encoding", "gzip")}, 415},
		{"45 nesting", "POST", "/v1/threads", strings.Repeat(`{"a":`, 10_000), nil, 400},
		{"46 a member twice", "POST", "/v1/threads", `{"cwd":"/a","cwd":"/b"}`, nil, 400},
		{"46b NaN", "POST", "/v1/threads", `{"cwd":NaN}`, nil, 400},
		{"53 an id that climbs", "GET", "/v1/threads/%2e%2e%2fx", "", nil, 404},
		{"53b an id with NUL", "GET", "/v1/threads/a%00b", "", nil, 404},
		{"53c an id that is too long", "GET", "/v1/threads/" + strings.Repeat("a", 65), "", nil, 404},
		{"59 pprof", "GET", "/debug/pprof", "", nil, 404},
	} {
		t.Run(c.row, func(t *testing.T) {
			before := len(call[ThreadListResult](d, 200, "GET", "/v1/threads?limit=1000", "").Data)
			a := d.do(c.method, c.target, c.body, c.edits...)
			if a.status != c.want {
				t.Fatalf("status %d, want %d: %s", a.status, c.want, a.body)
			}
			after := len(call[ThreadListResult](d, 200, "GET", "/v1/threads?limit=1000", "").Data)
			if created := after - before; created > 0 != (c.want == 201) {
				t.Errorf("%d threads were created", created)
			}
			body := string(a.body)
			if strings.Contains(body, "0.0.0-test") && c.want != 201 {
				t.Errorf("the answer tells the version: %s", body)
			}
			switch c.want {
			case 401:
				if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("no WWW-Authenticate: %v", a.header)
				}
			case 421:
				if !strings.Contains(body, "127.0.0.1") || !strings.Contains(body, "box.example") {
					t.Errorf("the allowed hosts are not named: %s", body)
				}
			case 405:
				if a.header.Get("Allow") != "POST" {
					t.Errorf("Allow: %q", a.header.Get("Allow"))
				}
			}
		})
	}
	if log := d.log.String(); strings.Contains(log, testToken) {
		t.Error("24: the token is in the log")
	}
}

func TestARotatedTokenCountsAtOnce(t *testing.T) {
	token := testToken
	d := open(t, func(o *Options) { o.Token = func() string { return token } })
	d.do("GET", "/v1/threads", "")
	token = "another"
	d.problem(401, "GET", "/v1/threads", "")
	token = ""
	d.problem(401, "GET", "/v1/threads", "", header("Authorization", "Bearer "))
}

func TestWithoutATokenNobodyIsLetIn(t *testing.T) {
	d := open(t, func(o *Options) { o.Token = nil })
	d.problem(401, "GET", "/v1/threads", "")
	d.problem(401, "GET", "/v1/threads", "", header("Authorization", "Bearer "))
}

// dialRaw opens a connection for requests that http.Client does not make.
func (d *door) dialRaw() net.Conn {
	d.t.Helper()
	c, err := d.ln.dial(context.Background(), "", "")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

// inBubble runs a test with a clock of its own, so that time-outs take no time.
func inBubble(t *testing.T, f func(t *testing.T, d *door)) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		f(t, d)
		d.close()
		synctest.Wait()
	})
}

func TestRow5ARequestWithoutHostIsRefused(t *testing.T) {
	d := open(t)
	c := d.dialRaw()
	written := send(c, "GET /healthz HTTP/1.1\r\n\r\n")
	defer func() { <-written }()
	if status := statusLine(t, c); !strings.Contains(status, " 400 ") {
		t.Errorf("answer %q", status)
	}
}

func TestRow42HeadersOf64KiBAreRefused(t *testing.T) {
	d := open(t)
	c := d.dialRaw()
	send(c, fmt.Sprintf("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: %s\r\n\r\n", strings.Repeat("x", 64<<10)))
	if status := statusLine(t, c); !strings.Contains(status, " 431 ") {
		t.Errorf("answer %q", status)
	}
}

// send writes text; the channel is closed when it is written, or cannot be.
func send(c net.Conn, text string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// That the server stops reading is what some tests are about.
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}()
	return done
}

func readAnswer(t *testing.T, c net.Conn) (status int, closes bool, body []byte) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Close, body
}

func statusLine(t *testing.T, c net.Conn) string {
	t.Helper()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil && line == "" {
		t.Fatalf("no answer: %v", err)
	}
	return line
}

func TestRow43HeadersThatTrickleAreCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		c := d.dialRaw()
		start := time.Now()
		<-send(c, "GET /healthz HTTP/1.1\r\n")
		written := trickle(c, []byte(strings.Repeat("X", 20)), 1)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("read: %v", err)
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("cut off after %v", took)
		}
		<-written
	})
}

// trickle sends data byte by byte, and waits before every burst of them: a second
// for each byte of the burst, but at most 20.
func trickle(c net.Conn, data []byte, burst int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range data {
			if i%burst == 0 {
				time.Sleep(time.Duration(min(burst, 20)) * time.Second)
			}
			if _, err := c.Write(data[i : i+1]); err != nil {
				return
			}
		}
	}()
	return done
}

func TestRow44ABodyThatTricklesTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		c := d.dialRaw()
		start := time.Now()
		<-send(c, fmt.Sprintf("POST /v1/threads HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", testToken))
		written := trickle(c, []byte(strings.Repeat(" ", 100)), 1)
		status, closes, body := readAnswer(t, c)
		if took := time.Since(start); status != http.StatusRequestTimeout || !closes || took < 29*time.Second || took > 31*time.Second {
			t.Errorf("status %d after %v, close %v: %s", status, took, closes, body)
		}
		c.Close()
		<-written
	})
}

// The time that a body may take does not bound what is done with it.
func TestARequestMayRunLongerThanItsBodyMayTake(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		id := d.newThread("puppet")
		call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"take your time"}`)
		start := time.Now()
		answered := make(chan answer, 1)
		go func() { answered <- d.do("POST", "/v1/threads/"+id+"/compact", `{"route":"local","wait":true}`) }()
		time.Sleep(2 * defaultTiming.body)
		d.puppet.say(t, text("done"), done())
		var r CompactStartResult
		d.into(<-answered, 200, &r)
		if took := time.Since(start); took < 2*defaultTiming.body || r.Compaction.Outcome == nil {
			t.Errorf("after %v: %s", took, mustEncode(t, r))
		}
	})
}

// An import may take long as long as it keeps coming.
func TestAnImportTimesOutOnlyWhenItStandsStill(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		id := d.newThread("offline")
		file := d.do("GET", "/v1/threads/"+id+"/export", "").body
		slow := func(stopAt int) int {
			t.Helper()
			c := d.dialRaw()
			<-send(c, fmt.Sprintf("POST /v1/imports HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", testToken, ndjsonType, len(file)))
			written := trickle(c, file[:stopAt], 100)
			status, _, _ := readAnswer(t, c)
			c.Close()
			<-written
			return status
		}
		if len(file) < 300 {
			t.Fatalf("an export of %d bytes takes less than a body's time", len(file))
		}
		if status := slow(len(file)); status != http.StatusCreated {
			t.Errorf("slow but steady: %d", status)
		}
		start := time.Now()
		if status := slow(150); status != http.StatusRequestTimeout {
			t.Errorf("stood still: %d", status)
		}
		if took := time.Since(start); took > 2*20*time.Second+defaultTiming.body {
			t.Errorf("stood still for %v", took)
		}
	})
}

func TestAnImportThatIsTooLargeIsRefused(t *testing.T) {
	d := open(t)
	line := `{"type":"user","uuid":"u","sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n"
	for _, length := range []int64{-1, maxImport + 1} { // unknown, and declared
		req := d.request("POST", "/v1/imports", "x", header("Content-Type", ndjsonType))
		req.Body, req.ContentLength = io.NopCloser(io.LimitReader(&cycle{line: line}, maxImport+1)), length
		if a := d.send(req, ""); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(string(a.body), "64 MiB") {
			t.Errorf("length %d: %d %s", length, a.status, a.body)
		}
	}
}

// A cycle reads as a line again and again.
type cycle struct {
	line string
	at   int
}

func (c *cycle) Read(b []byte) (int, error) {
	n := copy(b, c.line[c.at:])
	c.at = (c.at + n) % len(c.line)
	return n, nil
}

func TestRow56APanicRevealsNothing(t *testing.T) {
	log := &syncBuffer{}
	s := New(Options{Token: func() string { return testToken }, Logger: slog.New(slog.NewTextHandler(log, nil))})
	boom := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the secret of the house") })
	rec := httptest.NewRecorder()
	s.chain(boom).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/threads", nil))
	var p Problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if rec.Code != 500 || p.Code != fault.Internal || p.RequestID == "" || strings.Contains(rec.Body.String(), "secret") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if !strings.Contains(log.String(), p.RequestID) || !strings.Contains(log.String(), "secret of the house") {
		t.Errorf("the log does not tell: %s", log)
	}
}

// Half an answer must not look like a whole one.
func TestAPanicInsideAnAnswerCutsTheConnection(t *testing.T) {
	s := New(Options{})
	boom := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, `{"half":`); err != nil {
			t.Error(err)
		}
		panic("late")
	})
	rec := httptest.NewRecorder()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) || rec.Body.String() != `{"half":` {
			t.Errorf("recovered %v, sent %q", err, rec.Body)
		}
	}()
	s.chain(boom).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/threads", nil))
}

// Who declares too much is told so before sending it.
func TestADeclaredLengthIsRefusedUnread(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		for target, limit := range map[string]int{"/v1/threads": maxBody, "/v1/imports": maxImport} {
			media := map[bool]string{true: jsonType, false: ndjsonType}[limit == maxBody]
			c := d.dialRaw()
			start := time.Now()
			<-send(c, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", target, testToken, media, limit+1))
			if status, closes, body := readAnswer(t, c); status != http.StatusRequestEntityTooLarge || !closes || time.Since(start) > 0 {
				t.Errorf("%s: status %d, close %v, after %v: %s", target, status, closes, time.Since(start), body)
			}
			c.Close()
		}
	})
}

func TestAnUnknownErrorRevealsNothing(t *testing.T) {
	p, _ := problemOf(fmt.Errorf("open /home/me/plimsoll.db: permission denied"), "r1")
	if p.Status != 500 || p.Code != fault.Internal || strings.Contains(p.Detail, "home") {
		t.Errorf("%+v", p)
	}
}

func TestEveryFaultIsAProblem(t *testing.T) {
	codes := []fault.Code{
		fault.Invalid, fault.NotFound, fault.Conflict, fault.Busy, fault.Denied, fault.Refused, fault.TooLarge,
		fault.Overloaded, fault.Full, fault.Unavailable, fault.Corrupt, fault.Cancelled, fault.Internal,
	}
	if len(codes) != len(problems) {
		t.Errorf("%d codes, %d problems", len(codes), len(problems))
	}
	spec := loadSpec(t)
	for _, c := range codes {
		p, _ := problemOf(fault.New(c, "m"), "r1")
		if p.Code != c || p.Status < 400 || p.Title == "" || p.Detail != "m" {
			t.Errorf("%s: %+v", c, p)
		}
		spec.value(t, "Problem", []byte(mustEncode(t, p)))
	}
}

// A stop ends what streams and lets what runs finish.
func TestServeEndsStreamsAndReturns(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	st := d.follow("/v1/threads/"+id+"/events", "")
	st.until("stream/live")
	ended := make(chan bool, 1)
	go func() { ended <- st.ended() }()
	d.stop()
	if !<-ended {
		t.Error("the stream was cut, not ended")
	}
}

func TestServeSaysWhyItStopped(t *testing.T) {
	d := open(t)
	ln := newMemListener()
	ln.Close()
	if err := d.server.Serve(t.Context(), ln); err == nil {
		t.Error("no error from a closed listener")
	}
}

// Over the sockets that a user has: TCP, and the private one.
func TestServeOverSockets(t *testing.T) {
	d := open(t)
	d.stop()
	for network, serve := range map[string]func(context.Context, net.Listener) error{"tcp": d.server.Serve, "unix": d.server.ServePrivate} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			ln, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- serve(ctx, ln) }()
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, ln.Addr().String())
			}
			d.client = &http.Client{Transport: &http.Transport{DialContext: dial}}
			defer d.client.CloseIdleConnections()
			with := header("Authorization", "Bearer "+testToken)
			if network == "unix" {
				with = header("Authorization")
			}
			id := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{}`, with).Thread.ID
			st := d.follow("/v1/threads/"+id+"/events", "", with)
			st.until("stream/live")
			cancel()
			if !st.ended() {
				t.Error("the stream was cut, not ended")
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			if _, err := net.Dial(network, ln.Addr().String()); err == nil {
				t.Error("the listener is open")
			}
		})
	}
}
