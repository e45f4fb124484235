package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// A peer is the conversation with one codex process: JSON-RPC by lines, without the
// version field (codex 0.171, observed). Its goroutine reads until the process ends.
type peer struct {
	conn child.Conn
	name string
	log  *slog.Logger
	idle func(frame) // told of what comes while nobody listens; must not block

	version string // of codex; written once, before anybody else has the peer

	done chan struct{} // closed when the conversation ended
	err  error         // why; written before done is closed

	mu      sync.Mutex // guards what follows
	last    int64      // id of our newest request
	waiting map[int64]chan reply
	sink    *sink
}

// A frame is one line of codex.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// asks reports whether codex waits for an answer to it.
func (f *frame) asks() bool { return f.Method != "" && len(f.ID) > 0 }

type reply struct {
	result json.RawMessage
	err    error
}

// A sink is somebody who listens.
type sink struct {
	ch   chan frame
	left chan struct{} // closed when nobody listens any more
}

// maxGarbage is how many lines that are no frames are passed over.
const maxGarbage = 100

// refuseTimeout bounds an answer that nobody waits for.
const refuseTimeout = 5 * time.Second

func newPeer(conn child.Conn, name string, log *slog.Logger, idle func(frame)) *peer {
	p := &peer{conn: conn, name: name, log: log, idle: idle, done: make(chan struct{}), waiting: map[int64]chan reply{}}
	go p.read()
	return p
}

// read is the peer's goroutine.
func (p *peer) read() {
	garbage := 0
	for {
		line, err := p.conn.Next()
		if err != nil {
			p.end(died(p.name, err))
			return
		}
		var f frame
		if len(line) == 0 {
			continue
		}
		if json.Unmarshal(line, &f) != nil || f.Method == "" && len(f.ID) == 0 {
			if garbage++; garbage > maxGarbage {
				p.conn.Kill()
				p.end(unavailable(p.name, "the program prints what is no JSON-RPC; is it codex?"))
				return
			}
			p.log.Warn("codex printed a line that is no frame", "provider", p.name, "bytes", len(line))
			continue
		}
		if f.Method == "" {
			p.answered(f)
			continue
		}
		p.deliver(f)
	}
}

// end fails everything that waits.
func (p *peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	for id, ch := range p.waiting {
		delete(p.waiting, id)
		ch <- reply{err: err}
	}
	close(p.done)
}

func (p *peer) answered(f frame) {
	id, err := strconv.ParseInt(string(f.ID), 10, 64)
	p.mu.Lock()
	ch := p.waiting[id]
	delete(p.waiting, id)
	p.mu.Unlock()
	if err != nil || ch == nil {
		return // late, twice, or of nobody
	}
	if f.Error != nil {
		ch <- reply{err: f.Error}
		return
	}
	ch <- reply{result: f.Result}
}

// deliver gives a frame to who listens. It waits for one that is slow: what codex
// prints further stays in the pipe.
func (p *peer) deliver(f frame) {
	p.mu.Lock()
	s := p.sink
	p.mu.Unlock()
	if s != nil {
		select {
		case s.ch <- f:
			return
		case <-s.left:
		}
	}
	if f.asks() {
		p.refuse(f.ID, "nobody is there to answer")
		return
	}
	p.idle(f)
}

// listen begins to receive what codex says, until the sink is left.
func (p *peer) listen() *sink {
	s := &sink{ch: make(chan frame, 256), left: make(chan struct{})}
	p.mu.Lock()
	p.sink = s
	p.mu.Unlock()
	return s
}

func (p *peer) leave(s *sink) {
	p.mu.Lock()
	if p.sink == s {
		p.sink = nil
	}
	p.mu.Unlock()
	close(s.left)
	for {
		select {
		case f := <-s.ch: // came too late
			if f.asks() {
				p.refuse(f.ID, "nobody is there to answer")
			}
		default:
			return
		}
	}
}

// begin sends a request; its answer comes on the channel, which has room for it.
func (p *peer) begin(ctx context.Context, method string, params any) (<-chan reply, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("codex: encode %s: %w", method, err)
	}
	ch := make(chan reply, 1)
	p.mu.Lock()
	select {
	case <-p.done:
		p.mu.Unlock()
		return nil, p.err
	default:
	}
	p.last++
	id := p.last
	p.waiting[id] = ch
	p.mu.Unlock()
	line := fmt.Appendf(nil, `{"id":%d,"method":%q,"params":%s}`, id, method, body)
	if err := p.conn.Send(ctx, line); err != nil {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
		return nil, p.broken(ctx, err)
	}
	return ch, nil
}

// broken prefers why the conversation ended over what a writer saw of it.
func (p *peer) broken(ctx context.Context, err error) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return died(p.name, err)
}

// call makes a request and waits for its answer. An answer that refuses is an
// *rpcError.
func (p *peer) call(ctx context.Context, method string, params, into any) error {
	ch, err := p.begin(ctx, method, params)
	if err != nil {
		return err
	}
	select {
	case r := <-ch:
		return r.decode(method, into)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r reply) decode(method string, into any) error {
	if r.err != nil || into == nil {
		return r.err
	}
	if err := json.Unmarshal(r.result, into); err != nil {
		return fmt.Errorf("codex: the answer to %s is not understood: %w", method, err)
	}
	return nil
}

func (p *peer) notify(ctx context.Context, method string) error {
	return p.conn.Send(ctx, fmt.Appendf(nil, `{"method":%q}`, method))
}

// respond answers a request of codex.
func (p *peer) respond(ctx context.Context, id json.RawMessage, result any) error {
	body, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("codex: encode an answer: %w", err)
	}
	return p.conn.Send(ctx, fmt.Appendf(nil, `{"id":%s,"result":%s}`, id, body))
}

// refuse answers a request of codex with an error. It does not wait: a process that
// takes no answers will be found by who waits for it.
func (p *peer) refuse(id json.RawMessage, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), refuseTimeout)
	defer cancel()
	if err := p.conn.Send(ctx, fmt.Appendf(nil, `{"id":%s,"error":{"code":-32601,"message":%q}}`, id, why)); err != nil {
		p.log.Warn("answer codex", "provider", p.name, "err", err)
	}
}

// close ends the process and waits until nothing of it is left.
func (p *peer) close() {
	if err := p.conn.Close(); err != nil {
		p.log.Warn("end codex", "provider", p.name, "err", err)
	}
	<-p.done
}
