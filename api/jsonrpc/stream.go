package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// A stream is what jsonrpc2 reads from and writes to. It shows jsonrpc2 only what
// that can hold: of a request, a number of ours in place of its id, and its method.
// What else belongs to it waits here, untouched: jsonrpc2 would lose negative and
// large ids, mix up equal ones, encode params anew, and end the connection over a
// frame that is no message.
type stream struct {
	c   *Conn
	h   Handler
	ctx context.Context // of the handlers
	rpc *jsonrpc2.Conn

	current message       // what ReadObject returned last, for Handle; both are the reader's
	ended   error         // of the transport
	done    chan struct{} // closed when reading has ended

	mu    sync.Mutex // guards what follows
	last  uint64
	calls map[uint64]*call // unanswered
	bytes int              // of their frames
}

// A call is a request that waits for its answer.
type call struct {
	id     json.RawMessage
	size   int
	result json.RawMessage
	cost   usage
}

func newStream(ctx context.Context, c *Conn, h Handler) *stream {
	return &stream{c: c, h: h, ctx: ctx, done: make(chan struct{}), calls: map[uint64]*call{}}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// run reads until the connection ends, and returns why it did.
func (s *stream) run() error {
	ready := make(chan struct{})
	h := handlerFunc(func(*jsonrpc2.Request) { s.handle() })
	s.rpc = jsonrpc2.NewConn(context.Background(), gate{s, ready}, h, jsonrpc2.SetLogger(silent{}))
	close(ready)
	<-s.done
	return s.ended
}

type handlerFunc func(*jsonrpc2.Request)

func (f handlerFunc) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) { f(r) }

// A gate keeps jsonrpc2 from reading before the stream knows its connection.
type gate struct {
	*stream
	ready chan struct{}
}

func (g gate) ReadObject(v any) error {
	<-g.ready
	return g.stream.ReadObject(v)
}

// ReadObject implements jsonrpc2.ObjectStream: it reads the next request or
// notification, and deals with all other frames by itself. It fails only if the
// transport does.
func (s *stream) ReadObject(v any) error {
	for {
		f, err := s.c.t.Read()
		if err != nil {
			s.ended = err
			return err
		}
		m, kind := parse(f)
		switch kind {
		case garbage:
			s.c.stats.unparsable.Add(1)
			s.c.answer(nil, &Error{Code: CodeParse, Message: "Parse error: the frame is not a JSON text in UTF-8"})
		case invalid:
			s.refuse(m)
		case response:
			m = m.clone()
			s.guard(nil, func() { s.h.Response(m.id, m.result, m.problem()) })
		default:
			shown, err := json.Marshal(struct {
				Method string  `json:"method"`
				ID     *uint64 `json:"id,omitempty"`
			}{m.method, s.number(kind)})
			if err != nil || json.Unmarshal(shown, v) != nil {
				s.refuse(m)
				continue
			}
			s.current = m.clone()
			return nil
		}
	}
}

func (s *stream) number(k kind) *uint64 {
	if k == notification {
		return nil
	}
	s.last++
	return &s.last
}

// refuse deals with a frame that is JSON and no message.
func (s *stream) refuse(m message) {
	if m.id == nil {
		s.c.stats.dropped.Add(1)
		s.c.log.Debug("frame dropped: no message", "bytes", m.size)
		return
	}
	s.c.stats.refused.Add(1)
	s.c.answer(m.id, &Error{Code: CodeInvalid, Message: "Invalid request: missing field `method`"})
}

// handle puts the current message into its lane.
func (s *stream) handle() {
	m := s.current
	s.current = message{}
	var lane string
	if !s.guard(nil, func() { lane = s.h.Lane(m.method, m.params) }) {
		if m.id != nil {
			s.c.answer(m.id, internalError())
		}
		return
	}
	if m.id == nil {
		if !s.c.lanes.add(lane, task{note: true, run: func() {
			s.guard(nil, func() { s.h.Notification(s.ctx, m.method, m.params) })
		}}, m.method == "initialized") {
			s.c.stats.dropped.Add(1)
			s.c.log.Warn("notification dropped: too many wait", "method", m.method)
		}
		return
	}
	n, r := s.open(m)
	if r == nil || !s.c.lanes.add(lane, task{run: func() { s.serve(r) }}, false) {
		s.take(n)
		s.c.stats.overloaded.Add(1)
		s.c.answer(m.id, &Error{Code: CodeOverloaded, Message: "Server overloaded; retry later."})
	}
}

// open makes a request of a message, if there is room for one more.
func (s *stream) open(m message) (uint64, *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.last
	if len(s.calls) >= 4*s.c.o.MaxWaiting || s.bytes > 4*MaxFrame {
		return 0, nil
	}
	s.calls[n] = &call{id: m.id, size: m.size}
	s.bytes += m.size
	return n, &Request{Method: m.method, Params: m.params, reply: func(result any, problem *Error) {
		s.reply(n, result, problem)
	}}
}

// take removes a call, so that it is answered once.
func (s *stream) take(n uint64) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	cl := s.calls[n]
	if cl != nil {
		s.bytes -= cl.size
		delete(s.calls, n)
	}
	return cl
}

func (s *stream) serve(r *Request) {
	s.guard(r, func() { s.h.Request(s.ctx, r) })
}

// guard runs f, which is code of the handler, and reports whether it returned.
func (s *stream) guard(r *Request, f func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		p := recover()
		s.c.stats.panics.Add(1)
		s.c.log.Error("handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if r != nil {
			r.Fail(internalError())
		}
	}()
	f()
	return true
}

func internalError() *Error { return &Error{Code: CodeInternal, Message: "internal error"} }

// reply answers a call.
func (s *stream) reply(n uint64, result any, problem *Error) {
	cl := s.take(n)
	if cl == nil {
		return
	}
	resp := jsonrpc2.Response{ID: jsonrpc2.ID{Num: n}}
	if problem == nil {
		b, err := json.Marshal(result)
		if err != nil {
			s.c.log.Error("result cannot be encoded", "err", err)
			problem = internalError()
		}
		cl.result = b
	}
	if problem != nil {
		resp.Error = &jsonrpc2.Error{Code: problem.Code, Message: problem.Message}
		if problem.Data != nil {
			resp.Error.Data = &problem.Data
		}
		cl.cost = usage{1, len(cl.id) + len(problem.Message) + len(problem.Data)}
	} else {
		resp.Result = &placeholder
		cl.cost = usage{1, len(cl.id) + len(cl.result)}
	}
	if s.c.out.reserve(context.Background(), cl.cost) != nil {
		return
	}
	s.mu.Lock()
	s.calls[n] = cl
	s.mu.Unlock()
	_ = s.rpc.SendResponse(context.Background(), &resp)
}

var placeholder = json.RawMessage("null")

// WriteObject implements jsonrpc2.ObjectStream. It is given nothing but answers, for
// which there is room in the queue, and does not block.
func (s *stream) WriteObject(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	n, rest, err := splitNumber(b)
	if err != nil {
		return err
	}
	cl := s.take(n)
	if cl == nil {
		return errors.New("jsonrpc: answer to nothing")
	}
	out := make([]byte, 0, len(cl.id)+len(rest)+len(cl.result)+8)
	out = append(append(out, `{"id":`...), cl.id...)
	if cl.result != nil {
		out = append(append(append(out, `,"result":`...), cl.result...), '}')
	} else {
		out = append(out, rest...)
	}
	return s.c.out.push(cl.cost, out)
}

const (
	head = `{"id":`
	tail = `,"jsonrpc":"2.0"}`
)

// splitNumber takes the number, and the version, off an answer as jsonrpc2 writes
// it.
func splitNumber(b []byte) (n uint64, rest []byte, err error) {
	b, ok := bytes.CutPrefix(b, []byte(head))
	b, okTail := bytes.CutSuffix(b, []byte(tail))
	i := bytes.IndexByte(b, ',')
	if !ok || !okTail || i < 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	n, err = strconv.ParseUint(string(b[:i]), 10, 64)
	return n, append(b[i:], '}'), err
}

// Close implements jsonrpc2.ObjectStream. jsonrpc2 calls it once, when ReadObject
// has failed.
func (s *stream) Close() error {
	close(s.done)
	return nil
}
