package jsonrpc

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// calls are the requests that are not answered, and the bytes of these and of the
// notifications that wait.
type calls struct {
	max int

	mu       sync.Mutex // guards what follows
	last     uint64
	byNumber map[uint64]*call
	bytes    int
	onEmpty  chan struct{} // closed when there are none left
}

// A call is a request that waits for its answer.
type call struct {
	id       json.RawMessage
	size     int  // of the frame it came in
	answered bool // nearly: the answer waits for room
	frame    []byte
	cost     usage // of the frame
}

// heldBytes bounds the frames that a client can make a connection hold: one more
// is taken while there are less.
const heldBytes = 2 * MaxFrame

func newCalls(maxWaiting int) *calls { return &calls{max: 4 * maxWaiting} }

// next returns a number for a request.
func (c *calls) next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

// open makes a request of a message, if there is room for one more.
func (c *calls) open(m message, reply func(n uint64, result any, problem *Error)) *Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byNumber) >= c.max || c.bytes >= heldBytes {
		return nil
	}
	if c.byNumber == nil {
		c.byNumber = map[uint64]*call{}
	}
	c.byNumber[m.number] = &call{id: m.id, size: m.size}
	c.bytes += m.size
	return &Request{Method: m.method, Params: m.params, reply: func(result any, problem *Error) {
		reply(m.number, result, problem)
	}}
}

// answering returns a call that nobody has answered so far.
func (c *calls) answering(n uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.byNumber[n]
	if cl == nil || cl.answered {
		return nil
	}
	cl.answered = true
	return cl
}

func (c *calls) get(n uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNumber[n]
}

// take removes a call.
func (c *calls) take(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.byNumber[n]
	if cl == nil {
		return
	}
	c.bytes -= cl.size
	delete(c.byNumber, n)
	if len(c.byNumber) == 0 {
		c.byNumber = nil
		if c.onEmpty != nil {
			close(c.onEmpty)
			c.onEmpty = nil
		}
	}
}

// hold counts the bytes of a notification, if there is room for them.
func (c *calls) hold(size int, must bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes >= heldBytes && !must {
		return false
	}
	c.bytes += size
	return true
}

// letGo is the end of hold.
func (c *calls) letGo(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= size
}

// settled returns a channel that is closed when all calls are answered, or at once
// if there is nobody to answer to. It is called once.
func (c *calls) settled(nobody bool) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := make(chan struct{})
	if nobody || len(c.byNumber) == 0 {
		close(done)
	} else {
		c.onEmpty = done
	}
	return done
}

// guard runs f, which is code of the handler, and reports whether it returned.
func (s *stream) guard(method string, f func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		cause := recover()
		s.c.stats.panics.Add(1)
		s.c.log.Error("handler panicked", "method", short(method), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	}()
	f()
	return true
}

// short is a method as it is logged: clients choose it.
func short(method string) string { return method[:min(len(method), 64)] }

func internalError() *Error { return &Error{Code: CodeInternal, Message: "internal error"} }

// first counts something, and logs the first of its kind: a client could fill the
// log with the others.
func first(n *atomic.Int64, log *slog.Logger, what string, args ...any) {
	if n.Add(1) == 1 {
		log.Warn(what, args...)
	}
}
