package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a Handler made of functions. Without them it has one lane, answers a
// request with its params, and ignores the rest.
type script struct {
	lane   func(method string, params json.RawMessage) string
	req    func(ctx context.Context, r *Request)
	note   func(ctx context.Context, method string, params json.RawMessage)
	answer func(id, result json.RawMessage, problem *Error)
}

func (s *script) Lane(method string, params json.RawMessage) string {
	if s.lane == nil {
		return ""
	}
	return s.lane(method, params)
}

func (s *script) Request(ctx context.Context, r *Request) {
	if s.req == nil {
		r.Reply(r.Params)
		return
	}
	s.req(ctx, r)
}

func (s *script) Notification(ctx context.Context, method string, params json.RawMessage) {
	if s.note != nil {
		s.note(ctx, method, params)
	}
}

func (s *script) Response(id, result json.RawMessage, problem *Error) {
	if s.answer != nil {
		s.answer(id, result, problem)
	}
}

// fataler is a test, or a rapid one.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A peer is the client of a connection under test.
type peer struct {
	t fataler
	Transport
	conn *Conn
	stop context.CancelFunc
	done chan error // of Serve
}

// connect serves one end of a transport, whose other end the test has.
func connect(t fataler, client, server Transport, h Handler, o Options) *peer {
	ctx, stop := context.WithCancel(context.Background())
	p := &peer{t: t, Transport: client, conn: NewConn(server, o), stop: stop, done: make(chan error, 1)}
	go func() { p.done <- p.conn.Serve(ctx, h) }()
	return p
}

func connectPipe(t fataler, h Handler, o Options) *peer {
	client, server := Pipe()
	return connect(t, client, server, h, o)
}

// send writes a frame.
func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	frame := []byte(format)
	if len(args) > 0 {
		frame = fmt.Appendf(nil, format, args...)
	}
	if err := p.Write(frame); err != nil {
		p.t.Fatalf("send %.200s: %v", frame, err)
	}
}

// recv reads a frame.
func (p *peer) recv() string {
	p.t.Helper()
	f, err := p.Read()
	if err != nil {
		p.t.Fatalf("receive: %v", err)
	}
	return string(f)
}

func (p *peer) want(frame string) {
	p.t.Helper()
	if got := p.recv(); got != frame {
		p.t.Fatalf("got  %.300s\nwant %.300s", got, frame)
	}
}

// alive proves that a request is answered.
func (p *peer) alive() {
	p.t.Helper()
	p.send(`{"id":"alive?","method":"m","params":[1]}`)
	p.want(`{"id":"alive?","result":[1]}`)
}

// hangUp closes the connection as client, and returns what Serve does.
func (p *peer) hangUp() error {
	_ = p.Close(StatusNormal, "")
	go func() { // until the server has closed, too
		for _, err := p.Read(); err == nil; _, err = p.Read() {
		}
	}()
	defer p.stop()
	return <-p.done
}

// A reply is an answer that was received.
type reply struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *Error
}

func parseReply(t fataler, frame string) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal([]byte(frame), &r); err != nil {
		t.Fatalf("%v in %.200s", err, frame)
	}
	return r
}

// A wsServer serves WebSockets on TCP or a unix socket.
type wsServer struct {
	url   string
	conns chan *Conn
	done  chan error
}

// listen serves h over WebSockets until the test ends. Each connection is served by
// a goroutine of its own, and the handler of the request returns.
func listen(t testing.TB, network string, h func(*Conn) Handler, o Options) *wsServer {
	t.Helper()
	address, scheme := "127.0.0.1:0", "ws://"
	if network == "unix" {
		address, scheme = filepath.Join(t.TempDir(), "s"), "unix://"
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s := &wsServer{conns: make(chan *Conn, 10_000), done: make(chan error, 10_000)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "refuse" {
			http.Error(w, "missing websocket bearer token", http.StatusUnauthorized)
			return
		}
		tr, err := Upgrade(w, r, nil)
		if err != nil {
			return
		}
		c := NewConn(tr, o)
		s.conns <- c
		wg.Go(func() { s.done <- c.Serve(ctx, h(c)) })
	}))
	_ = srv.Listener.Close()
	srv.Listener = ln
	srv.Start()
	s.url = scheme + ln.Addr().String()
	t.Cleanup(func() {
		cancel()
		srv.Close()
		wg.Wait()
	})
	return s
}

// dial connects to the server as a client.
func (s *wsServer) dial(t testing.TB) *peer {
	t.Helper()
	tr, err := Dial(t.Context(), s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, Transport: tr, conn: <-s.conns, stop: func() {}, done: s.done}
	t.Cleanup(func() { _ = tr.Close(StatusNormal, "") })
	return p
}

// rawClient opens a WebSocket that costs the client next to nothing, uses it once,
// and leaves it alone.
func rawClient(b testing.TB, s *wsServer) net.Conn {
	b.Helper()
	c, err := net.Dial("unix", strings.TrimPrefix(s.url, "unix://"))
	if err != nil {
		b.Fatal(err)
	}
	const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	ping := "\x81\xa1\x00\x00\x00\x00" + `{"id":1,"method":"m","params":[]}`
	for _, step := range [][2]string{{request, "\r\n\r\n"}, {ping, `"result":[]}`}} {
		if _, err := io.WriteString(c, step[0]); err != nil {
			b.Fatal(err)
		}
		var got []byte
		for buf := make([]byte, 1); !strings.HasSuffix(string(got), step[1]); got = append(got, buf...) {
			if _, err := c.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	return c
}
