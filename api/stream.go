package api

import (
	"context"
	"errors"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (s *Server) serveThreadEvents(w http.ResponseWriter, r *http.Request, params any) error {
	p := params.(*EventsReadParams)
	return s.serveEventsOf(w, r, transcript.ThreadID(p.ThreadID), p.EventsParams)
}

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, params any) error {
	return s.serveEventsOf(w, r, "", *params.(*EventsParams))
}

// serveEventsOf answers with a page if the client wants JSON, else with a stream.
// Last-Event-ID, which a browser sends by itself when it reconnects, is newer
// than the after in its URL.
func (s *Server) serveEventsOf(w http.ResponseWriter, r *http.Request, thread transcript.ThreadID, p EventsParams) error {
	if !wantsStream(r.Header.Values("Accept")) {
		page, err := s.readEvents(r.Context(), thread, p)
		if err != nil {
			return err
		}
		s.reply(w, r, http.StatusOK, page)
		return nil
	}
	if p.Limit != 0 {
		return invalid("query parameter `limit`: a stream has none; send Accept: application/json for pages")
	}
	where, text := "field `after`", p.After
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		where, text = "header Last-Event-ID", id
	}
	after, err := cursorOf(where, text)
	if err != nil {
		return err
	}
	return s.stream(w, r, thread, after)
}

// wantsStream is false only for a client that asks for JSON and not for a stream.
func wantsStream(accept []string) bool {
	var json bool
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mt, _, err := mime.ParseMediaType(part)
		if err == nil && mt == sseType {
			return true
		}
		json = json || err == nil && mt == jsonType
	}
	return !json
}

// streams are the streams of one Serve call. They are taken off net/http once
// their answer begins, because what it keeps for a request that runs is more than
// twice what a subscriber that idles may cost (bench/sse): each is one goroutine
// that follows and one that notices that the client is gone.
type streams struct {
	ctx context.Context // ends all of them

	mu     sync.Mutex // guards what follows, and makes start and wait exclude each other
	closed bool
	terms  map[pass]*term // of the tokens that they were opened with
	wg     sync.WaitGroup
}

// streamsKey is where requests find the streams of their Serve call.
type streamsKey struct{}

// start runs a stream until its client, its token or the server is gone. It
// reports false if the server is closing.
func (g *streams) start(st *stream, p *pass) bool {
	return g.run(st.server, p, func(ctx context.Context) {
		st.ctx, st.cancel = context.WithCancel(ctx)
		defer st.cancel()
		st.run()
	})
}

// run has f run until its context is done, which is when its token is replaced or
// the server stops. It reports false if the server is closing.
func (g *streams) run(s *Server, p *pass, f func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	ctx, leave := g.ctx, func() {}
	if p != nil {
		t := g.join(s, *p)
		ctx, leave = t.ctx, func() { g.leave(*p, t) }
		ctx = context.WithValue(ctx, scopeKey{}, p.scope)
	}
	g.wg.Go(func() {
		defer leave()
		f(ctx)
	})
	return true
}

// streamsOf returns the streams of the Serve call that a request belongs to.
func (s *Server) streamsOf(ctx context.Context) *streams {
	if g, ok := ctx.Value(streamsKey{}).(*streams); ok {
		return g
	}
	return s.loose
}

// wait lets no stream start any more, and waits for those that run.
func (g *streams) wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}

// A stream is one subscription. Its fields are set before it starts, ctx and cancel
// before its first message is told.
type stream struct {
	server    *Server
	ctx       context.Context
	cancel    context.CancelFunc
	thread    transcript.ThreadID
	after     *events.Cursor
	requestID string
	first     chan error // the first message came (nil), or why there is none
	conn      chan *sse  // the connection; closed if there is none

	told atomic.Int64 // the position of the last event that was sent
}

// stream answers with events until the client or its token is gone, the thread is
// deleted, the cursor cannot be served, or the server stops. The answer begins with
// the first message, so that an unknown thread is still a problem.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, thread transcript.ThreadID, after *events.Cursor) error {
	if !s.opened.take() {
		return refuse(http.StatusTooManyRequests, fault.Overloaded,
			"%d streams are open, which is the limit: close one, or read pages (Accept: application/json)", s.caps.Streams).with("Retry-After", "5")
	}
	v := visitOf(r.Context())
	st := &stream{
		server: s, thread: thread, after: after, requestID: v.id,
		first: make(chan error, 1), conn: make(chan *sse, 1),
	}
	if !s.streamsOf(r.Context()).start(st, v.pass) {
		s.opened.give()
		return errClosing
	}
	conn, err := st.begin(w)
	if err != nil {
		s.opened.give()
		return err
	}
	st.conn <- newSSE(st, conn, w.Header(), r.ProtoAtLeast(1, 1)) // the place among the opened is the stream's now
	return nil
}

// begin takes the connection of the request when the first message came.
func (st *stream) begin(w http.ResponseWriter) (net.Conn, error) {
	err := <-st.first
	if err != nil {
		return nil, err
	}
	conn, err := hijack(w)
	if err != nil {
		close(st.conn)
	}
	return conn, err
}

var errClosing = fault.New(fault.Unavailable, "the server is closing")

// hijack takes the connection of a request.
func hijack(w http.ResponseWriter) (net.Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		return conn, nil
	}
	return nil, fault.Wrap(fault.Internal, err, "this connection cannot stream")
}

// run follows. It owns the connection once it has it.
func (st *stream) run() {
	var out *sse
	defer func() {
		if p := recover(); p != nil {
			st.log(slog.LevelError, "panic", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			st.tell(errors.New("panic"))
		}
		if out != nil {
			out.close()
			st.server.opened.give()
		}
	}()
	st.server.follow.add(st)
	defer st.server.follow.remove(st)
	var broken error
	for msg, err := range st.server.svc.Follow(st.ctx, st.thread, st.after, st.server.timing.heartbeat) {
		if out == nil {
			if st.first <- err; err != nil {
				return
			}
			if out = <-st.conn; out == nil {
				return
			}
			err = out.begin()
		}
		if err == nil {
			err = out.send(msg)
		}
		if err == nil && len(out.buf) == 0 {
			st.told.Store(msg.Cursor.N)
		}
		if err != nil {
			broken = err
			break
		}
	}
	if out == nil { // it ends before anything was said
		st.tell(st.whyEnded())
		return
	}
	if broken == nil || errors.Is(broken, events.ErrClosed) {
		broken = out.end()
	}
	if broken != nil {
		st.broke(broken)
	}
}

// catchUp implements hearer: what is told is written.
func (st *stream) catchUp(ctx context.Context) {
	reached(ctx, st.server.svc, st.thread, st.told.Load, func() bool { return st.ctx.Err() != nil })
}

// tell says why there is no first message, if nothing was said.
func (st *stream) tell(err error) {
	select {
	case st.first <- err:
	default:
	}
}

func (st *stream) whyEnded() error {
	if err := context.Cause(st.ctx); errors.Is(err, errReplaced) {
		return err
	}
	return errClosing
}

// broke notes why a stream was cut: the client is gone or does not read, which is
// its own affair, or the journal has something that cannot be read.
func (st *stream) broke(err error) {
	level := slog.LevelDebug
	if _, ok := errors.AsType[*fault.Error](asFault(err)); ok {
		level = slog.LevelError
	}
	st.log(level, "stream broke", slog.Any("error", err))
}

func (st *stream) log(level slog.Level, text string, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("requestId", st.requestID), slog.String("thread", string(st.thread)))
	st.server.log.LogAttrs(context.WithoutCancel(st.ctx), level, text, attrs...)
}
