package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A peer is the conversation with one codex process: JSON-RPC by lines, without the
// version field (codex 0.171, observed).
type peer struct {
	conn    child.Conn
	desk    *child.Desk[frame]
	name    string
	log     *slog.Logger
	version string // of codex; written once, before anybody else has the peer
	last    atomic.Int64
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

// sorted is a child.Sorter.
func sorted(line []byte) (f frame, answers string, ok bool) {
	if json.Unmarshal(line, &f) != nil || f.Method == "" && len(f.ID) == 0 {
		return f, "", false
	}
	if f.Method == "" {
		return f, string(f.ID), true
	}
	return f, "", true
}

// refuseTimeout bounds an answer that nobody waits for.
const refuseTimeout = 5 * time.Second

func newPeer(conn child.Conn, name string, log *slog.Logger, idle func(frame)) *peer {
	p := &peer{conn: conn, name: name, log: log}
	p.desk = child.NewDesk(conn, sorted, func(f frame) {
		if f.asks() {
			p.refuse(f.ID, "nobody is there to answer")
			return
		}
		idle(f)
	})
	return p
}

// ended says why the conversation is over; nil if it is not.
func (p *peer) ended() error {
	err := p.desk.Err()
	if errors.Is(err, child.ErrGarbage) {
		return unavailable(p.name, "the program prints what is no JSON-RPC; is it codex?")
	}
	if err != nil {
		return died(p.name, err)
	}
	return nil
}

// A call is a request that waits for its answer.
type call struct {
	p      *peer
	id     string
	method string
	answer <-chan frame
}

// begin sends a request.
func (p *peer) begin(ctx context.Context, method string, params any) (*call, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("codex: encode %s: %w", method, err)
	}
	if err := p.ended(); err != nil {
		return nil, err
	}
	c := &call{p: p, id: fmt.Sprint(p.last.Add(1)), method: method}
	c.answer = p.desk.Expect(c.id)
	line := fmt.Appendf(nil, `{"id":%s,"method":%q,"params":%s}`, c.id, method, body)
	if err := p.conn.Send(ctx, line); err != nil {
		p.desk.Forget(c.id)
		return nil, p.broken(ctx, err)
	}
	return c, nil
}

// broken prefers why the conversation ended over what a writer saw of it.
func (p *peer) broken(ctx context.Context, err error) error {
	if why := p.ended(); why != nil {
		return why
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return died(p.name, err)
}

// decode takes the answer. One that refuses is an *rpcError.
func (c *call) decode(f frame, into any) error {
	switch {
	case f.Error != nil:
		return f.Error
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(f.Result, into); err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s: what the program answers to %s is not understood; is it codex?", c.p.name, c.method)
	}
	return nil
}

// call makes a request and waits for its answer.
func (p *peer) call(ctx context.Context, method string, params, into any) error {
	c, err := p.begin(ctx, method, params)
	if err != nil {
		return err
	}
	select {
	case f := <-c.answer:
		return c.decode(f, into)
	case <-p.desk.Done():
		select {
		case f := <-c.answer: // it came before the end
			return c.decode(f, into)
		default:
			return p.ended()
		}
	case <-ctx.Done():
		p.desk.Forget(c.id)
		return context.Cause(ctx)
	}
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
	<-p.desk.Done()
}
