package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
)

// replayBuffer is how much of a replay is written at once.
const replayBuffer = 8 << 10

// sse writes one stream to its connection. It is used by the stream's goroutine
// only; watch is the other one.
type sse struct {
	server  *Server
	ctx     context.Context // of the stream: once it is done, little time is left
	conn    net.Conn
	head    []byte // of the answer; nil once it is sent
	chunked bool
	buf     []byte // what waits to be written; nil while the stream idles
	live    bool
	open    openItem      // of the newest delta
	watched chan struct{} // closed when watch ends
}

// newSSE takes over a connection. The stream is cancelled when the client is gone.
func newSSE(st *stream, conn net.Conn, h http.Header, http11 bool) *sse {
	o := &sse{server: st.server, ctx: st.ctx, conn: conn, chunked: http11, watched: make(chan struct{})}
	o.head = append(o.head, "HTTP/1.1 200 OK\r\nContent-Type: "+sseType+"\r\nX-Accel-Buffering: no\r\nConnection: close\r\n"...)
	o.head = append(o.head, "Date: "+time.Now().UTC().Format(http.TimeFormat)+"\r\n"...)
	for name, vals := range h {
		o.head = append(o.head, name+": "+vals[0]+"\r\n"...) // ours: one value each
	}
	if http11 {
		o.head = append(o.head, "Transfer-Encoding: chunked\r\n"...)
	}
	o.head = append(o.head, "\r\n"...)
	go o.watch(st.cancel)
	return o
}

// watch waits for the client to close its end. A client has nothing to say on a
// stream, so that it says something ends the stream as well.
func (o *sse) watch(gone context.CancelFunc) {
	defer close(o.watched)
	defer gone()
	var b [1]byte
	for {
		if n, err := o.conn.Read(b[:]); n > 0 || err != nil {
			return
		}
	}
}

// begin sends the head of the answer and how soon to reconnect.
func (o *sse) begin() error {
	if err := o.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	o.buf = append(o.buf, "retry: 1000\n\n"...)
	return o.flush()
}

// send writes a message. What belongs together, the events of a commit or of a
// replay, is sent together; stream/live, which always follows a replay, flushes.
func (o *sse) send(m events.Message) error {
	var err error
	switch m.Kind {
	case events.KindEvent:
		err = o.event(m)
	case events.KindDelta:
		err = o.unnumbered(o.open.more(m.Delta))
	case events.KindLive:
		o.live = true
		err = o.unnumbered(message(methodStreamLive, protocol.StreamLiveParams{Cursor: m.Cursor.String()}, time.Now()))
	case events.KindReset:
		err = o.unnumbered(message(methodStreamReset, protocol.StreamResetParams{
			Reason: string(m.Reset.Reason), Oldest: m.Reset.Oldest, Cursor: m.Cursor.String(),
		}, time.Now()))
	case events.KindHeartbeat:
		o.buf = append(o.buf, ": hb\n\n"...)
	}
	if err != nil || (m.More || !o.live) && len(o.buf) < replayBuffer {
		return err
	}
	return o.flush()
}

// event writes a journal event. Its id is the cursor to resume from, which a
// repeated event must not move back.
func (o *sse) event(m events.Message) error {
	frame, err := o.server.frames.of(m.Event)
	if err != nil {
		return err
	}
	if !m.Repeat {
		o.buf = append(o.buf, "id: "+m.Cursor.String()+"\n"...)
	}
	o.data(frame)
	return nil
}

func (o *sse) unnumbered(n protocol.Notification, err error) error {
	if err != nil {
		return err
	}
	b, err := encode(n)
	o.data(b)
	return err
}

func (o *sse) data(frame []byte) {
	o.buf = append(append(append(o.buf, "data: "...), frame...), "\n\n"...)
}

// flush sends what waits, and gives the client its time to take it.
func (o *sse) flush() error {
	var out net.Buffers
	if o.head != nil {
		out, o.head = append(out, o.head), nil
	}
	if len(o.buf) > 0 {
		out = append(out, o.chunk(o.buf)...)
	}
	return o.write(out)
}

// chunk frames data in HTTP/1.1's way, which tells an end from a cut.
func (o *sse) chunk(data []byte) net.Buffers {
	if !o.chunked {
		return net.Buffers{data}
	}
	size := append(strconv.AppendInt(nil, int64(len(data)), 16), "\r\n"...)
	return net.Buffers{size, data, []byte("\r\n")}
}

// write gives the client its time to take what is sent. It is taken back when the
// stream has to end: what is written then goes to who may not have it any more.
func (o *sse) write(out net.Buffers) error {
	var err error
	for until := time.Now().Add(o.server.timing.write); ; {
		soon := time.Now().Add(o.server.timing.cut)
		if o.ctx.Err() != nil {
			until = earlier(until, soon)
		}
		if err = o.conn.SetWriteDeadline(earlier(until, soon)); err != nil {
			return err
		}
		_, err = out.WriteTo(o.conn) // and takes what was written out of out
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(until) {
			break
		}
	}
	if o.buf = o.buf[:0]; o.live {
		o.buf = nil
	}
	return err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// end tells the client that the stream is over, not cut.
func (o *sse) end() error {
	if err := o.flush(); err != nil || !o.chunked {
		return err
	}
	return o.write(net.Buffers{[]byte("0\r\n\r\n")})
}

// close closes the connection and waits until nothing uses it.
func (o *sse) close() {
	// What could not be written was reported by the write.
	_ = o.conn.Close()
	<-o.watched
}
