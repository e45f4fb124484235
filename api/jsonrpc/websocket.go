package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	handshakeTime = 10 * time.Second
	// controlTime is how long a close frame may wait to be written.
	controlTime = 200 * time.Millisecond
	// lingerTime is how long what the client still sends is read and thrown away
	// after a close frame: a connection that is closed with data unread is reset,
	// and the client might not see why.
	lingerTime = 500 * time.Millisecond
)

// ErrTooBig says that the other end sent more in one frame than is read.
var ErrTooBig = errors.New("jsonrpc: frame is too large")

// MaxMessage is the largest frame that is read from a server, in bytes. Answers are
// never larger than MaxFrame, but a notification tells an event as it is.
const MaxMessage = 64 << 20

// A CloseError says how the other end has closed a WebSocket or a pipe. It is
// io.EOF if that was in order.
type CloseError struct {
	Status int
	Reason string
}

// Error implements error.
func (e *CloseError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("closed with status %d %s", e.Status, e.Reason))
}

// Is makes an end in order an io.EOF.
func (e *CloseError) Is(target error) bool {
	switch e.Status {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return target == io.EOF
	}
	return false
}

// A HandshakeError says that a server answered, but did not agree to a WebSocket.
type HandshakeError struct {
	Status int
	Body   string // the first KiB of it
}

// Error implements error.
func (e *HandshakeError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("websocket refused with status %d: %s", e.Status, e.Body))
}

// Upgrade makes a WebSocket of a request, as server, with headers beside those of
// the protocol. It looks neither at Origin nor at anything else that says who asks.
// If it fails, the request is answered. The transport does not need the handler of
// the request: an idle connection takes less memory when that has returned.
func Upgrade(w http.ResponseWriter, r *http.Request, headers http.Header) (Transport, error) {
	all := http.Header{"x-codex-websocket-max-unfragmented-message-bytes": {fmt.Sprint(MaxFrame)}}
	maps.Copy(all, headers)
	up := websocket.Upgrader{
		HandshakeTimeout: handshakeTime,
		ReadBufferSize:   readBuffer, WriteBufferSize: writeBuffer, WriteBufferPool: &serverBuffers,
		CheckOrigin: func(*http.Request) bool { return true },
	}
	s := &socket{}
	c, err := up.Upgrade(hijacker{w, s}, r, all)
	if err != nil {
		return nil, fmt.Errorf("upgrade to websocket: %w", err)
	}
	return newWebSocket(c, s, MaxFrame), nil
}

// Buffers are small, as large frames bypass them, and frames that are written are
// gathered by the socket. Those for writing are only held while a frame is written.
const (
	readBuffer  = 1024
	writeBuffer = 4096
)

var serverBuffers, clientBuffers sync.Pool

// Dial connects to a server as client: to ws://HOST:PORT/PATH, or to unix://PATH
// for a unix socket. Headers are sent along, such as Authorization. The context
// bounds the dialling only. Frames of up to MaxMessage are read.
func Dial(ctx context.Context, url string, headers http.Header) (Transport, error) {
	s := &socket{}
	network, address := "", ""
	if path, is := strings.CutPrefix(url, "unix://"); is {
		network, address, url = "unix", path, "ws://localhost/"
	}
	d := websocket.Dialer{
		HandshakeTimeout: handshakeTime,
		ReadBufferSize:   writeBuffer, WriteBufferSize: writeBuffer, WriteBufferPool: &clientBuffers,
		NetDialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
			if network != "" {
				n, a = network, address
			}
			var dialer net.Dialer
			c, err := dialer.DialContext(ctx, n, a)
			s.Conn = c
			return s, err
		},
	}
	c, resp, err := d.DialContext(ctx, url, headers)
	if resp != nil {
		defer func() { _ = resp.Body.Close() }() // it holds nothing
	}
	if err == nil {
		return newWebSocket(c, s, MaxMessage), nil
	}
	if errors.Is(err, websocket.ErrBadHandshake) && resp != nil {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024)) // as much as can be had
		return nil, &HandshakeError{Status: resp.StatusCode, Body: string(body)}
	}
	return nil, fmt.Errorf("dial websocket: %w", err)
}

// A hijacker hands a connection to the upgrade by way of a socket.
type hijacker struct {
	http.ResponseWriter
	s *socket
}

// Hijack implements http.Hijacker.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.s.Conn = c
	return h.s, rw, err
}

// A webSocket is a Transport. What it read is in a buffer that goes back into a
// pool with the next Read, so one that waits holds none.
type webSocket struct {
	c       *websocket.Conn
	s       *socket
	limit   int64         // of a frame that is read
	frame   *bytes.Buffer // that was read last
	ignored func()
	closed  atomic.Bool
	close   sync.Once
}

func newWebSocket(c *websocket.Conn, s *socket, limit int64) *webSocket {
	c.SetReadLimit(limit)
	return &webSocket{c: c, s: s, limit: limit, ignored: func() {}}
}

func (w *webSocket) watch(pong, ignored func()) {
	w.c.SetPongHandler(func(string) error { pong(); return nil })
	w.ignored = ignored
}

func (w *webSocket) ping() error {
	return w.c.WriteMessage(websocket.PingMessage, nil)
}

// Read implements Transport. Binary frames are passed over.
func (w *webSocket) Read() ([]byte, error) {
	for {
		w.recycle()
		kind, r, err := w.c.NextReader()
		if err == nil && kind == websocket.TextMessage {
			w.frame = frameBuffers.Get().(*bytes.Buffer)
			_, err = w.frame.ReadFrom(r)
		}
		switch {
		case err != nil:
			return nil, w.lost(err)
		case kind != websocket.TextMessage:
			w.ignored()
		case !w.closed.Load():
			return w.frame.Bytes(), nil
		}
	}
}

var frameBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptBuffer is the size of buffers that are worth keeping.
const keptBuffer = 64 << 10

func (w *webSocket) recycle() {
	if w.frame != nil && w.frame.Cap() <= keptBuffer {
		w.frame.Reset()
		frameBuffers.Put(w.frame)
	}
	w.frame = nil
}

// lost says why nothing more can be read.
func (w *webSocket) lost(err error) error {
	w.recycle()
	if errors.Is(err, websocket.ErrReadLimit) {
		w.linger()
		return fmt.Errorf("%w: more than %d bytes", ErrTooBig, w.limit)
	}
	if e, ok := errors.AsType[*websocket.CloseError](err); ok {
		return &CloseError{Status: e.Code, Reason: e.Text}
	}
	if w.closed.Load() {
		return ErrClosed
	}
	return err
}

// linger throws away what the client still sends. The close frame is sent.
func (w *webSocket) linger() {
	w.s.closeWrite()
	_ = w.s.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, w.s.Conn) // it ends with an error, or it does not matter
}

// fragmentBytes is the largest fragment that is sent: clients have a limit for these,
// of 16 MiB in codex, beside a larger one for messages.
const fragmentBytes = 4 << 20

// Write implements Transport.
func (w *webSocket) Write(frame []byte) error {
	if len(frame) <= fragmentBytes {
		return w.c.WriteMessage(websocket.TextMessage, frame)
	}
	m, err := w.c.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(frame, fragmentBytes) {
		if _, err := m.Write(part); err != nil {
			return err
		}
	}
	return m.Close()
}

func (w *webSocket) writeBatch(frames [][]byte, progress func()) error {
	w.s.cork(progress, len(frames) > 1)
	for _, f := range frames {
		if err := w.Write(f); err != nil {
			return err
		}
	}
	return w.s.uncork()
}

// Close implements Transport. It does not wait for the client: a Read that waits
// does, for up to half a second.
func (w *webSocket) Close(status int, reason string) (err error) {
	w.close.Do(func() {
		w.closed.Store(true)
		cut := time.AfterFunc(controlTime, func() { _ = w.c.Close() }) // it ends a Write that waits, too
		deadline := time.Now().Add(controlTime)
		err = w.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(status, clip(reason)), deadline)
		if errors.Is(err, websocket.ErrCloseSent) { // in answer to the client's
			err = nil
		}
		if err != nil || !cut.Stop() {
			_ = w.c.Close()
			return
		}
		w.s.closeWrite()
		_ = w.s.SetReadDeadline(time.Now().Add(lingerTime))
		time.AfterFunc(lingerTime+controlTime, func() { _ = w.c.Close() })
	})
	return err
}

// clip makes a reason fit into a close frame.
func clip(reason string) string {
	if len(reason) > 123 {
		reason = strings.ToValidUTF8(reason[:123], "")
	}
	return reason
}
