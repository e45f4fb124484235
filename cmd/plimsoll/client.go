package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A client talks to a server over HTTP: on TCP with a token, over a home's socket,
// or in process. It is the same API each time.
type client struct {
	http  *http.Client
	base  string // without a slash at its end
	token string // empty where none is needed
	local bool   // the server is this process
	close func() error
}

// patience is how long an owner that is just starting or ending is waited for; an
// app-server may take lastWords to end.
const patience = 15 * time.Second

// connect reaches the home's threads: through its owner's socket, or, if nobody
// owns the home, by owning it until close.
func (m *Main) connect(ctx context.Context, h home) (*client, error) {
	return m.connectBy(ctx, h, m.openHome)
}

// connectBy is connect, with open to own the home.
func (m *Main) connectBy(ctx context.Context, h home, open opener) (*client, error) {
	deadline := time.Now().Add(patience)
	for {
		if c, ok := dialSocket(h); ok {
			return c, nil
		}
		c, err := m.inProcess(ctx, h, open)
		if _, busy := errors.AsType[*ownedError](err); !busy || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dialSocket returns a client of the home's owner if it answers.
func dialSocket(h home) (*client, bool) {
	path, done := socketPath(h.path(socketFile))
	conn, err := net.Dial("unix", path)
	if err != nil {
		done()
		return nil, false
	}
	shut(conn)
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	return &client{http: &http.Client{Transport: tr}, base: "http://localhost", close: func() error {
		tr.CloseIdleConnections()
		done()
		return nil
	}}, true
}

// inProcess opens the home and serves its API to this process only.
func (m *Main) inProcess(ctx context.Context, h home, open opener) (*client, error) {
	fresh := h.isNew()
	srv, err := open(h, lock{}, slog.New(newQuiet(slog.NewTextHandler(m.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	if err != nil {
		return nil, err
	}
	if fresh {
		h.noteNew(m.Stderr)
	}
	pipe := newPipeListener()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- srv.api.ServePrivate(serving, pipe) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.dial(ctx) }}
	return &client{http: &http.Client{Transport: tr}, base: "http://localhost", local: true, close: func() error {
		tr.CloseIdleConnections()
		stop()
		return errors.Join(<-served, srv.Close())
	}}, nil
}

// An apiError is a problem that the server answered with.
type apiError struct {
	Status int             `json:"status"`
	Code   fault.Code      `json:"code"`
	Detail string          `json:"detail"`
	Data   json.RawMessage `json:"data"`
}

// Error implements error.
func (e *apiError) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return "the server answered " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status)
}

// remedied adds to a failure of a thread that its provider is not configured any more,
// if so it is, what helps.
func (c *client) remedied(ctx context.Context, thread string, err error) error {
	if err == nil {
		return nil
	}
	var read api.ThreadReadResult
	var list api.ProviderListResult
	if c.call(ctx, http.MethodGet, threadPath(thread), nil, &read) != nil || c.call(ctx, http.MethodGet, "/v1/providers", nil, &list) != nil {
		return err // the first failure says more
	}
	name := read.Thread.ModelProvider
	if len(list.Data) == 0 || slices.ContainsFunc(list.Data, func(p api.Provider) bool { return p.Name == name }) {
		return err
	}
	var names []string
	for _, p := range list.Data {
		names = append(names, p.Name)
	}
	return fmt.Errorf("%w; add [providers.%s] to %s again, or give the thread another one, as with POST %s {\"modelProvider\": %q}; there are: %s",
		err, name, configFile, threadPath(thread, "/settings"), names[0], fewOf(names))
}

// maxReply bounds a reply that is held in memory.
const maxReply = 256 << 20

// call sends in as JSON (nothing if nil) and decodes the reply into out (drops it
// if nil). What is no success is an *apiError.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.send(ctx, method, path, "application/json", "application/json", body)
	if err != nil {
		return err
	}
	defer shut(resp.Body)
	if out == nil {
		return nil
	}
	return decodeReply(path, resp.Body, out)
}

func decodeReply(path string, body io.Reader, out any) error {
	b, err := io.ReadAll(io.LimitReader(body, maxReply))
	if err != nil {
		return stoppedProblem("read reply", path, err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("read reply: %w", err)
	}
	return nil
}

// stoppedProblem words an error of a connection. If it broke, the server that was
// asked for path has stopped, and whether it did it is in the journal.
func stoppedProblem(op, path string, err error) error {
	broke := false
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED} {
		broke = broke || errors.Is(err, e)
	}
	if !broke {
		return fmt.Errorf("%s: %w", op, err)
	}
	look := "plimsoll threads list"
	if rest, ok := strings.CutPrefix(path, threadPath("")); ok && len(rest) >= maxThread {
		look = "plimsoll threads show " + rest[:maxThread]
	}
	return fmt.Errorf("the server stopped before it answered; `%s` tells what was done", look)
}

// send makes one request and returns a successful response, whose body the caller
// closes.
func (c *client) send(ctx context.Context, method, path, contentType, accept string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", accept)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, stoppedProblem("ask server", path, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer shut(resp.Body)
	return nil, readProblem(resp)
}

// readProblem decodes an application/problem+json document.
func readProblem(resp *http.Response) error {
	e := &apiError{}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil || json.Unmarshal(b, e) != nil {
		*e = apiError{} // no problem document: the status has to do
	}
	e.Status = resp.StatusCode
	return e
}

// An ownedError says which process has the home.
type ownedError struct {
	home home
	*events.OwnedError
}

// Error implements error.
func (e *ownedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("home %s is in use by %s; stop that one first, or choose another home with --home", e.home.dir, who)
}

// maxSocketPath is what sun_path holds.
const maxSocketPath = 107

// socketPath returns a path of a socket that is short enough to use until done is
// called: the kernel refuses long ones.
func socketPath(path string) (short string, done func()) {
	if len(path) <= maxSocketPath {
		return path, func() {}
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return path, func() {}
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { shut(dir) }
}

// A pipeListener accepts connections that dial makes in memory.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; it is called once, by the http.Server.
func (l *pipeListener) Close() error {
	close(l.done)
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "in process", Net: "unix"} }
