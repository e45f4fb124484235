package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func scripted(h Handler) func(*Conn) Handler { return func(*Conn) Handler { return h } }

func TestWebSocketsOnEveryNetwork(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		s := listen(t, network, scripted(&script{}), Options{})
		p := s.dial(t)
		p.alive()
		p.send(`{"id":1,"method":"m","params":%q}`, strings.Repeat("x", 1<<20))
		if got := p.recv(); len(got) != len(`{"id":1,"result":""}`)+1<<20 {
			t.Errorf("%d bytes", len(got))
		}
		if err := p.hangUp(); err != nil {
			t.Error(network, err)
		}
	}
}

func TestUpgradeHeaders(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{})
	d := websocket.Dialer{EnableCompression: true}
	c, resp, err := d.Dial(s.url+"/any/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer resp.Body.Close()
	if got := resp.Header.Get("x-codex-websocket-max-unfragmented-message-bytes"); got != "16777216" {
		t.Errorf("%q", got)
	}
	if got := resp.Header.Get("Sec-Websocket-Extensions"); got != "" {
		t.Errorf("compression was agreed to: %s", got)
	}
}

func TestDialTellsWhyItWasRefused(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{})
	_, err := Dial(t.Context(), s.url, http.Header{"Authorization": {"refuse"}})
	e, ok := errors.AsType[*HandshakeError](err)
	if !ok || e.Status != http.StatusUnauthorized || e.Body != "missing websocket bearer token\n" {
		t.Errorf("%v", err)
	}
	if _, err := Dial(t.Context(), "unix:///no/such/socket", nil); err == nil {
		t.Error("dialled nobody")
	}
}

func TestAFrameOf16MiBIsReadAndALargerOneCloses(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{req: func(_ context.Context, r *Request) { r.Reply(len(r.Params)) }}), Options{})
	p := s.dial(t)
	frame := []byte(`{"id":1,"method":"m","params":""}`)
	room := MaxFrame - len(frame)
	frame = append(append(frame[:len(frame)-2], bytes.Repeat([]byte("x"), room)...), `"}`...)
	if err := p.Write(frame); err != nil {
		t.Fatal(err)
	}
	p.want(fmt.Sprintf(`{"id":1,"result":%d}`, room+2))
	_ = p.Write(append(frame, bytes.Repeat([]byte(" "), 1<<20)...)) // it may be cut off
	_, err := p.Read()
	if e, ok := errors.AsType[*CloseError](err); !ok || e.Status != StatusTooBig {
		t.Errorf("%v", err)
	}
	if err := <-s.done; !errors.Is(err, ErrTooBig) {
		t.Errorf("%v", err)
	}
}

// TestTooLargeAFrameIsNotReset: a reset could overtake the reason.
func TestTooLargeAFrameIsNotReset(t *testing.T) {
	s := listen(t, "unix", scripted(&script{}), Options{})
	raw := rawClient(t, s)
	defer raw.Close()
	header := []byte{0x81, 0xff, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0} // 32 MiB
	if _, err := raw.Write(header); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got, err := io.ReadAll(raw)
	if err != nil || len(got) < 4 || got[0] != 0x88 || binary.BigEndian.Uint16(got[2:]) != StatusTooBig {
		t.Fatalf("%x, %v", got, err)
	}
	for range 100 {
		if _, err := raw.Write(make([]byte, 4096)); err != nil && time.Since(start) < lingerTime/2 {
			t.Fatal(err)
		}
	}
	if err := <-s.done; !errors.Is(err, ErrTooBig) {
		t.Error(err)
	}
}

func TestBinaryFramesAreIgnoredAndCounted(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{})
	p := s.dial(t)
	raw := p.Transport.(*webSocket).c
	for range 3 {
		if err := raw.WriteMessage(websocket.BinaryMessage, []byte(`{"id":1,"method":"m"}`)); err != nil {
			t.Fatal(err)
		}
	}
	p.alive()
	if got := p.conn.Stats(); got != (Stats{Ignored: 3}) {
		t.Errorf("%+v", got)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

func TestFragmentsMakeOneFrame(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{})
	p := s.dial(t)
	w, err := p.Transport.(*webSocket).c.NextWriter(websocket.TextMessage)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{"id":1,"me`, `thod":"m","params":"`, strings.Repeat("y", 3*writeBuffer), `"}`} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.want(`{"id":1,"result":"` + strings.Repeat("y", 3*writeBuffer) + `"}`)
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

func TestLargeFramesAreSentInFragments(t *testing.T) {
	s := listen(t, "unix", scripted(&script{}), Options{})
	raw := rawClient(t, s)
	defer raw.Close()
	want := bytes.Repeat([]byte("0123456789"), (fragmentBytes*5/2)/10)
	if err := (<-s.conns).Send(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for final := false; !final; {
		head := make([]byte, 2)
		if _, err := io.ReadFull(raw, head); err != nil {
			t.Fatal(err)
		}
		final = head[0]&0x80 != 0
		size := uint64(head[1])
		if n := map[uint64]int{126: 2, 127: 8}[size]; n > 0 {
			b := make([]byte, 8)
			if _, err := io.ReadFull(raw, b[8-n:]); err != nil {
				t.Fatal(err)
			}
			size = binary.BigEndian.Uint64(b)
		}
		if size > fragmentBytes {
			t.Fatalf("a fragment of %d bytes", size)
		}
		part := make([]byte, size)
		if _, err := io.ReadFull(raw, part); err != nil {
			t.Fatal(err)
		}
		got = append(got, part...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTheClientIsToldTheStatusAndTheReason(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{})
	for reason, want := range map[string]string{"token replaced": "token replaced", strings.Repeat("ä", 100): strings.Repeat("ä", 61)} {
		p := s.dial(t)
		if err := p.conn.Send(t.Context(), []byte(`"the last word"`)); err != nil {
			t.Fatal(err)
		}
		p.conn.Close(4401, reason)
		p.want(`"the last word"`)
		_, err := p.Read()
		if e, ok := errors.AsType[*CloseError](err); !ok || *e != (CloseError{4401, want}) {
			t.Errorf("%v", err)
		}
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	}
}

func TestAStalledWebSocketIsClosed(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{WriteTimeout: 300 * time.Millisecond})
	p := s.dial(t)
	frame := bytes.Repeat([]byte("x"), 1<<20)
	start, err := time.Now(), error(nil)
	for err == nil {
		err = p.conn.Send(t.Context(), frame)
	}
	if !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := <-s.done; err == nil || !strings.Contains(err.Error(), "took nothing") {
		t.Error(err)
	}
	if d := time.Since(start); d < 300*time.Millisecond {
		t.Errorf("after %v", d)
	}
}

// TestASlowWebSocketIsNotClosed: a frame may take longer than WriteTimeout, if only
// the client takes something meanwhile.
func TestASlowWebSocketIsNotClosed(t *testing.T) {
	const limit = 400 * time.Millisecond
	s := listen(t, "tcp", scripted(&script{}), Options{WriteTimeout: limit})
	p := s.dial(t)
	raw := p.Transport.(*webSocket).s.Conn
	start := time.Now()
	const size = 24 << 20
	if err := p.conn.Send(t.Context(), bytes.Repeat([]byte("x"), size)); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	n := int64(0)
	for n < size {
		<-tick.C
		m, err := io.CopyN(io.Discard, raw, min(400<<10, size+10-n))
		if n += m; err != nil {
			t.Fatalf("after %d bytes and %v: %v", n, time.Since(start), err)
		}
	}
	if d := time.Since(start); d < 2*limit {
		t.Errorf("it took %v only, which proves nothing", d)
	}
}

func TestPingsReachTheClient(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{PingEvery: 30 * time.Millisecond})
	p := s.dial(t)
	raw := p.Transport.(*webSocket).c
	pings, answer := make(chan int, 1000), raw.PingHandler()
	var mute atomic.Bool
	raw.SetPingHandler(func(d string) error {
		if mute.Load() {
			return nil
		}
		pings <- 1
		return answer(d)
	})
	go func() { _, _ = p.Read() }()
	for range 10 { // five times as long as one may live that does not answer
		<-pings
	}
	select {
	case err := <-s.done:
		t.Fatal(err)
	default:
	}
	mute.Store(true)
	if err := <-s.done; err == nil || !strings.Contains(err.Error(), "two pings") {
		t.Error(err)
	}
}

// TestPingsRepliesAndNotificationsAtOnce is for the race detector, and for
// gorilla, which panics if there are two writers.
func TestPingsRepliesAndNotificationsAtOnce(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{lane: func(_ string, params json.RawMessage) string { return string(params) }}),
		Options{MaxWaiting: 1000})
	p := s.dial(t)
	const n = 500
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			p.conn.out.pingNow()
			runtime.Gosched()
		}
	})
	for range 4 {
		wg.Go(func() {
			for range n {
				if err := p.conn.Send(t.Context(), []byte(`{"method":"note"}`), []byte(`{"method":"note"}`)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	raw := p.Transport.(*webSocket).c
	wg.Go(func() {
		for i := range n {
			p.send(`{"id":%d,"method":"m","params":%d}`, i, i%5)
			if err := raw.WriteControl(websocket.PingMessage, []byte("client"), time.Now().Add(time.Second)); err != nil {
				t.Error(err)
			}
		}
	})
	notes, replies := 0, 0
	for notes+replies < 4*2*n+n {
		if strings.Contains(p.recv(), `"result"`) {
			replies++
		} else {
			notes++
		}
	}
	wg.Wait()
	if replies != n {
		t.Errorf("%d replies", replies)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

// TestBrokenWebSocketFrames end their connection and no other.
func TestBrokenWebSocketFrames(t *testing.T) {
	s := listen(t, "tcp", scripted(&script{}), Options{})
	for name, sent := range map[string]string{
		"reserved bits": "\xf1\x80\x00\x00\x00\x00", "opcode": "\x83\x80\x00\x00\x00\x00", "no mask": "\x81\x01{",
		"length": "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "cut": "\x81\xfe\x10\x00\x00\x00\x00\x00{", "nothing": "",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "ws://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(err, resp)
		}
		_ = resp.Body.Close()
		<-s.conns
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		if err := <-s.done; err == nil {
			t.Errorf("%s: ended in order", name)
		}
		_ = c.Close()
	}
	p := s.dial(t)
	p.alive()
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
}

func TestServerEndsWithOpenWebSockets(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := listen(t, "tcp", func(c *Conn) Handler {
		context.AfterFunc(ctx, func() { c.Close(StatusGoingAway, "the server is shutting down") })
		return &script{}
	}, Options{})
	const n = 20
	var wg sync.WaitGroup
	for range n {
		p := s.dial(t)
		wg.Go(func() {
			if _, err := p.Read(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
	cancel()
	wg.Wait()
	for range n {
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	}
}
