package api

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
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

// stream follows events until the client is gone, the thread is deleted, the
// cursor cannot be served, or the server stops. The answer begins with the first
// message, so that an unknown thread is still a problem.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, thread transcript.ThreadID, after *events.Cursor) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if streams, ok := ctx.Value(streamsKey{}).(context.Context); ok {
		defer context.AfterFunc(streams, cancel)()
	}
	out := &sse{server: s, rc: http.NewResponseController(w), buf: bufio.NewWriterSize(w, 512)}
	begun := false
	for msg, err := range s.svc.Follow(ctx, thread, after, s.limits.heartbeat) {
		if !begun && err != nil {
			return err
		}
		if !begun {
			begun = true
			beginStream(w)
			err = out.line("retry: 1000\n\n")
		}
		if err == nil {
			err = out.send(msg)
		}
		if errors.Is(err, events.ErrClosed) {
			break // the server stops
		}
		if err != nil {
			s.endStream(r, err)
			return nil
		}
	}
	if !begun { // the client left, or the server stops, before anything was said
		return fault.New(fault.Unavailable, "the server is closing")
	}
	if err := out.flush(); err != nil {
		s.endStream(r, err)
	}
	return nil
}

func beginStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", sseType)
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// endStream notes why a stream broke. The connection is cut, so that the client
// sees that the stream did not end by itself.
func (s *Server) endStream(r *http.Request, err error) {
	level := slog.LevelDebug // a client that is gone or too slow
	if _, ok := errors.AsType[*fault.Error](err); ok {
		level = slog.LevelError
	}
	s.log.LogAttrs(context.WithoutCancel(r.Context()), level, "stream broke", slog.String("requestId", requestID(r.Context())), slog.String("path", r.URL.Path), slog.Any("error", err))
	if r.Context().Err() == nil {
		panic(http.ErrAbortHandler)
	}
}

// sse writes one stream. It is used by the goroutine of its request only.
type sse struct {
	server *Server
	rc     *http.ResponseController
	buf    *bufio.Writer
	live   bool
	open   openItem // of the newest delta
}

// send writes a message. While history is replayed it leaves the flushing to the
// buffers; stream/live, which always follows, flushes.
func (o *sse) send(m events.Message) error {
	if err := o.deadline(); err != nil {
		return err
	}
	var err error
	switch m.Kind {
	case events.KindEvent:
		err = o.durable(m)
	case events.KindDelta:
		err = o.delta(m.Delta)
	case events.KindLive:
		o.live = true
		err = o.unnumbered(message(methodStreamLive, protocol.StreamLiveParams{Cursor: m.Cursor.String()}, time.Now()))
	case events.KindReset:
		err = o.unnumbered(message(methodStreamReset, protocol.StreamResetParams{
			Reason: string(m.Reset.Reason), Oldest: m.Reset.Oldest, Cursor: m.Cursor.String(),
		}, time.Now()))
	case events.KindHeartbeat:
		err = o.line(": hb\n\n")
	}
	if err != nil || !o.live {
		return err
	}
	return o.flush()
}

// durable writes a journal event. Its id is the cursor to resume from, which a
// repeated event must not move back.
func (o *sse) durable(m events.Message) error {
	n, err := o.server.notification(m.Event)
	if err != nil {
		return err
	}
	if !m.Repeat {
		if err := o.line("id: " + m.Cursor.String() + "\n"); err != nil {
			return err
		}
	}
	return o.data(n)
}

// delta writes more text of an item. What the opening event says is decoded once
// and not for each piece.
func (o *sse) delta(d events.Delta) error {
	if o.open.event != d.Opened {
		open, err := openedBy(d.Opened)
		if err != nil {
			return err
		}
		o.open = open
	}
	return o.unnumbered(o.open.delta(d))
}

func (o *sse) unnumbered(n protocol.Notification, err error) error {
	if err != nil {
		return err
	}
	return o.data(n)
}

func (o *sse) data(n protocol.Notification) error {
	b, err := encode(n)
	if err != nil {
		return err
	}
	if err := o.line("data: "); err != nil {
		return err
	}
	if _, err := o.buf.Write(b); err != nil {
		return err
	}
	return o.line("\n\n")
}

func (o *sse) line(s string) error {
	_, err := o.buf.WriteString(s)
	return err
}

// deadline gives the client its time to take what is written next.
func (o *sse) deadline() error {
	return supported(o.rc.SetWriteDeadline(time.Now().Add(o.server.limits.write)))
}

func (o *sse) flush() error {
	if err := o.deadline(); err != nil {
		return err
	}
	if err := o.buf.Flush(); err != nil {
		return err
	}
	return supported(o.rc.Flush())
}
