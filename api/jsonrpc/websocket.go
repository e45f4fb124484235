package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Upgrade makes a WebSocket of a request, as server, and sends headers beside those
// of the protocol. It checks neither Origin nor anything else that says who asks.
// If it fails it has answered the request.
func Upgrade(w http.ResponseWriter, r *http.Request, headers http.Header) (Transport, error) {
	headers = headers.Clone()
	if headers == nil {
		headers = http.Header{}
	}
	headers["x-codex-websocket-max-unfragmented-message-bytes"] = []string{"16777216"}
	up := websocket.Upgrader{
		HandshakeTimeout: 10 * time.Second,
		ReadBufferSize:   1024, WriteBufferSize: 4096, WriteBufferPool: &writeBuffers,
		CheckOrigin: func(*http.Request) bool { return true },
	}
	c, err := up.Upgrade(w, r, headers)
	if err != nil {
		return nil, fmt.Errorf("upgrade to websocket: %w", err)
	}
	return newWebSocket(c), nil
}

var writeBuffers sync.Pool

// A HandshakeError says that a server answered, but did not agree to a WebSocket.
type HandshakeError struct {
	Status int
	Body   string // the beginning of it
}

// Error implements error.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("websocket refused: %d %s", e.Status, strings.TrimSpace(e.Body))
}

// Dial connects to a server as client, at ws://HOST:PORT/PATH, or unix://PATH for a
// unix socket, with headers such as Authorization. The context bounds the dialling.
func Dial(ctx context.Context, url string, headers http.Header) (Transport, error) {
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second, ReadBufferSize: 4096, WriteBufferSize: 4096, WriteBufferPool: &clientBuffers}
	if path, is := strings.CutPrefix(url, "unix://"); is {
		url = "ws://localhost/"
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var nd net.Dialer
			return nd.DialContext(ctx, "unix", path)
		}
	}
	c, resp, err := d.DialContext(ctx, url, headers)
	if err == nil {
		return newWebSocket(c), nil
	}
	if errors.Is(err, websocket.ErrBadHandshake) && resp != nil {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return nil, &HandshakeError{Status: resp.StatusCode, Body: string(body)}
	}
	return nil, fmt.Errorf("dial websocket: %w", err)
}

var clientBuffers sync.Pool

type webSocket struct {
	c     *websocket.Conn
	close sync.Once
	buf   []byte
}

func newWebSocket(c *websocket.Conn) *webSocket {
	c.SetReadLimit(MaxFrame)
	return &webSocket{c: c}
}

// Read implements Transport. Binary frames are passed over.
func (w *webSocket) Read() ([]byte, error) {
	for {
		kind, b, err := w.c.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
			return nil, io.EOF
		}
		if err != nil || kind == websocket.TextMessage {
			return b, err
		}
	}
}

// Write implements Transport.
func (w *webSocket) Write(frame []byte) error {
	return w.c.WriteMessage(websocket.TextMessage, frame)
}

// Close implements Transport.
func (w *webSocket) Close(status int, reason string) (err error) {
	w.close.Do(func() {
		_ = w.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(status, reason), time.Now().Add(200*time.Millisecond))
		err = w.c.Close()
	})
	return err
}
