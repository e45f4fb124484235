package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/sourcegraph/jsonrpc2"
)

// A stream is what jsonrpc2 reads from and writes to. It shows jsonrpc2 only what
// that can hold: of a request its method, and a number of ours in place of its id.
// The id, the params and the result pass beside it, untouched: jsonrpc2 would mix up
// negative, large and equal ids, encode params and results anew, and end the
// connection over a frame that is no message.
type stream struct {
	*calls
	c   *Conn
	h   Handler
	ctx context.Context // of the handlers
	rpc *jsonrpc2.Conn

	current     message // what ReadObject has read and Handle has not seen; the reader's
	initialized bool    // was seen; the reader's

	ended   error         // of the transport; written before stopped is closed
	stopped chan struct{} // closed when nothing more is read
	release chan struct{} // closed when jsonrpc2 may know this
	done    chan struct{} // closed when it does

	encoding chan struct{} // taken by a reply until there is room for it
}

func newStream(ctx context.Context, c *Conn, h Handler) *stream {
	return &stream{
		calls: newCalls(c.o.MaxWaiting), c: c, h: h, ctx: ctx,
		stopped: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{}),
		encoding: make(chan struct{}, 1),
	}
}

// run reads until the client ends the connection or it breaks, and returns why
// nothing more is read. Answers can be given until finish.
func (s *stream) run() error {
	ready := make(chan struct{})
	s.rpc = jsonrpc2.NewConn(context.Background(), gate{s, ready}, dispatch(s.handle), jsonrpc2.SetLogger(silent{}))
	close(ready)
	<-s.stopped
	return s.ended
}

// finish ends the reader. The transport is closed before.
func (s *stream) finish() {
	close(s.release)
	<-s.done
}

// dispatch is a handler that knows where to look for the request.
type dispatch func()

func (f dispatch) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) { f() }

// silent keeps jsonrpc2 from standard error.
type silent struct{}

func (silent) Printf(string, ...any) {}

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
// notification, and deals with all other frames by itself. It fails only when the
// transport has, and when finish has been called: jsonrpc2 answers nothing after
// that.
func (s *stream) ReadObject(v any) error {
	for {
		f, err := s.c.t.Read()
		if err != nil {
			s.ended = err
			close(s.stopped)
			<-s.release
			return err
		}
		s.c.heard()
		m, kind := parse(f)
		switch kind {
		case garbage:
			first(&s.c.stats.unparsable, s.c.log, "frame is no JSON", "bytes", len(f))
			s.answer(nil, &Error{Code: CodeParse, Message: "Parse error: a frame is one JSON text in UTF-8"})
		case invalid:
			s.refuse(m)
		case response:
			m = m.clone()
			s.guard("response", func() { s.h.Response(m.id, m.result, m.problem()) })
		default:
			if s.show(m, kind, v) {
				return nil
			}
			s.refuse(m)
		}
	}
}

// show lets jsonrpc2 see a request or notification.
func (s *stream) show(m message, k kind, v any) bool {
	shown := []byte(`{`)
	if k == request {
		m.number = s.next()
		shown = append(strconv.AppendUint(append(shown, `"id":`...), m.number, 10), ',')
	}
	shown = append(append(append(shown, `"method":`...), m.quoted...), '}')
	if json.Unmarshal(shown, v) != nil {
		return false
	}
	s.current = m.clone()
	return true
}

// refuse deals with a frame that is JSON and no message.
func (s *stream) refuse(m message) {
	if m.id == nil {
		first(&s.c.stats.dropped, s.c.log, "frame dropped: no message", "bytes", m.size)
		return
	}
	first(&s.c.stats.refused, s.c.log, "frame refused: no message", "bytes", m.size)
	s.answer(m.id, &Error{Code: CodeInvalid, Message: m.fault()})
}

// handle puts the current message into its lane.
func (s *stream) handle() {
	m := s.current
	s.current = message{}
	lane := ""
	if !s.guard(m.method, func() { lane = s.h.Lane(m.method, m.params) }) {
		if m.id != nil {
			s.answer(m.id, internalError())
		}
		return
	}
	if m.id == nil {
		s.notify(lane, m)
		return
	}
	r := s.open(m, s.reply)
	if r == nil {
		s.overloaded(m)
	} else if !s.c.lanes.add(lane, task{run: func() { s.serve(r) }}) {
		s.take(m.number)
		s.overloaded(m)
	}
}

func (s *stream) overloaded(m message) {
	first(&s.c.stats.overloaded, s.c.log, "request refused: too many wait", "method", short(m.method))
	s.answer(m.id, &Error{Code: CodeOverloaded, Message: "Server overloaded; retry later."})
}

// notify puts a notification into its lane. The first initialized always finds
// room: without it a client would be left waiting.
func (s *stream) notify(lane string, m message) {
	must := m.method == "initialized" && !s.initialized
	s.initialized = s.initialized || must
	held := s.hold(m.size, must)
	if held && s.c.lanes.add(lane, task{note: true, must: must, run: func() {
		defer s.letGo(m.size)
		s.guard(m.method, func() { s.h.Notification(s.ctx, m.method, m.params) })
	}}) {
		return
	}
	if held {
		s.letGo(m.size)
	}
	first(&s.c.stats.dropped, s.c.log, "notification dropped: too many wait", "method", short(m.method))
}

// serve has a request answered.
func (s *stream) serve(r *Request) {
	if !s.guard(r.Method, func() { s.h.Request(s.ctx, r) }) {
		r.Fail(internalError())
	}
}

// reply answers a call, by way of jsonrpc2. Replies are encoded one at a time, and
// the next one only once the last has found room: whatever the client asked for and
// does not read, one answer at most waits beside the queue.
func (s *stream) reply(n uint64, result any, problem *Error) {
	cl := s.answering(n)
	if cl == nil {
		return
	}
	select {
	case s.encoding <- struct{}{}:
		defer func() { <-s.encoding }()
	case <-s.c.out.gone:
		s.unsent(n, ErrClosed)
		return
	}
	cl.frame = s.encode(cl.id, result, problem)
	cl.cost = usage{1, len(cl.frame)}
	err := s.c.out.put(context.Background(), cl.cost)
	if err == nil {
		resp := jsonrpc2.Response{ID: jsonrpc2.ID{Num: n}, Result: &beside}
		if err = s.rpc.SendResponse(context.Background(), &resp); err != nil {
			s.c.out.free(cl.cost)
		}
	}
	if err != nil {
		s.unsent(n, err)
	}
}

func (s *stream) unsent(n uint64, err error) {
	s.take(n)
	s.c.log.Debug("answer not sent", "err", err)
}

// encode makes the frame of an answer. A result that cannot be encoded, or is larger
// than a frame may be, becomes an error that says so.
func (s *stream) encode(id json.RawMessage, result any, problem *Error) []byte {
	if problem == nil {
		b, err := answerFrame(id, "result", result)
		switch {
		case err != nil:
			s.c.log.Error("result cannot be encoded", "err", err)
			problem = internalError()
		case len(b) > MaxFrame:
			problem = tooLarge(len(b))
		default:
			return b
		}
	}
	if len(problem.Data) > 0 && !json.Valid(problem.Data) { // left out, so that there is an answer
		s.c.log.Error("data of an error is no JSON", "code", problem.Code)
		problem = &Error{Code: problem.Code, Message: problem.Message}
	}
	b, err := answerFrame(id, "error", problem)
	if err == nil && len(b) <= MaxFrame {
		return b
	}
	s.c.log.Error("error cannot be sent", "code", problem.Code, "bytes", len(b), "err", err)
	b, _ = answerFrame(id, "error", internalError()) // it has texts only
	return b
}

// tooLarge is the answer in place of one that the client could not read.
func tooLarge(size int) *Error {
	return &Error{
		Code: CodeInvalid,
		Message: fmt.Sprintf("the answer would have %d bytes, and at most %d are sent: ask for less at a time, "+
			"with a smaller limit, with excludeTurns, or for the items page by page (thread/items/list)", size, MaxFrame),
		Data: json.RawMessage(`{"code":"tooLarge"}`),
	}
}

// answerFrame encodes an answer as all frames are encoded: nothing is escaped that
// JSON does not have escaped.
func answerFrame(id json.RawMessage, member string, v any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"id":`)
	b.Write(id)
	b.WriteString(`,"` + member + `":`)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - len("\n"))
	b.WriteByte('}')
	return b.Bytes(), nil
}

// beside stands for an answer that passes beside jsonrpc2.
var beside = json.RawMessage("null")

// WriteObject implements jsonrpc2.ObjectStream. It is given answers only, for which
// there is room in the queue, and does not wait: jsonrpc2 holds a lock meanwhile.
func (s *stream) WriteObject(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	n, err := numberOf(b)
	if err != nil {
		return err
	}
	cl := s.get(n)
	if cl == nil {
		return errors.New("answer to no request")
	}
	defer s.take(n) // when it is queued: then nobody waits for it any more
	return s.c.out.push(cl.cost, cl.frame)
}

// numberOf reads the number of an answer as jsonrpc2 writes it.
func numberOf(b []byte) (uint64, error) {
	b, ok := bytes.CutPrefix(b, []byte(`{"id":`))
	i := bytes.IndexByte(b, ',')
	if !ok || i < 0 {
		return 0, errors.New("answer without an id")
	}
	return strconv.ParseUint(string(b[:i]), 10, 64)
}

// Close implements jsonrpc2.ObjectStream. jsonrpc2 calls it once, after ReadObject
// has failed.
func (s *stream) Close() error {
	close(s.done)
	return nil
}

// answer queues what the reader itself has to say. It waits only for a client that
// makes the server say more than it takes.
func (s *stream) answer(id json.RawMessage, problem *Error) {
	if id == nil {
		id = json.RawMessage("null")
	}
	b, err := answerFrame(id, "error", problem)
	if err != nil {
		s.c.log.Error("answer cannot be encoded", "err", err)
		return
	}
	if !s.c.out.force(b) {
		_ = s.c.Send(context.Background(), b) // fails only if nobody is there any more
	}
}
