package upstream

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// An answerTo is a request and what answers it.
type answerTo struct {
	rec  Recorded
	play int // how often the exchange was played, with this time
	wire *wire
	req  request
}

// errGone: the client left, or the server closes.
var errGone = errors.New("upstream: gone")

// player answers a request with an exchange.
func (s *Server) player(x *exchange, a answerTo) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := player{s: s, x: x, a: a, w: w, r: r}
		if a.wire != nil {
			p.enc = a.wire.encode(answer{
				id: fmt.Sprintf("scripted-%s-%d", strings.ReplaceAll(x.name, " ", "-"), a.play), model: a.req.model,
				reasoning: s.reasoning(), server: s.cassette.settings.server, input: x.input(a.rec.Tokens, s.cassette.settings.usage == "auto"),
			})
		}
		p.run()
	}
}

func (s *Server) reasoning() string {
	if f := s.cassette.settings.reasoning; f != "" {
		return f
	}
	return s.cassette.settings.server.reasoning
}

// A player plays an exchange once.
type player struct {
	s   *Server
	x   *exchange
	a   answerTo
	w   http.ResponseWriter
	r   *http.Request
	enc encoder

	reply   reply  // of what was said
	failed  *op    // what broke it off
	pending []byte // that do not fill a piece yet
	headed  bool
}

func (p *player) run() {
	fixed := p.x.body != nil || p.x.status >= 400
	for _, o := range p.x.ops {
		if fixed && o.kind != opDelay && o.kind != opHold && o.kind != opHang && o.kind != opCut {
			continue
		}
		if over, err := p.do(o); err != nil {
			panic(http.ErrAbortHandler) // nobody must take it for a whole answer
		} else if over {
			if p.a.req.stream || p.enc == nil {
				p.flush()
				return
			}
			break
		}
	}
	switch {
	case p.x.body != nil:
		p.head("")
		p.write([]byte(p.fill(*p.x.body)))
	case fixed:
		p.head("application/json")
		p.write(encodeJSON(p.failure()))
	case p.failed != nil && !p.a.req.stream:
		p.a.wire.error(500, object{"error": object{"message": p.failed.text, "type": p.failed.code, "code": p.failed.code}})(p.w, p.r)
	case !p.a.req.stream && p.enc != nil:
		p.head("application/json")
		p.write(p.enc.whole(p.reply))
	}
	p.flush()
}

// failure is the body of a status for which the cassette has none.
func (p *player) failure() object {
	body := object{"error": object{"message": fmt.Sprintf("scripted failure with status %d", p.x.status), "type": "scripted_error", "code": nil}}
	if p.a.wire == nil {
		return body
	}
	if p.a.wire.failure != nil {
		body = p.a.wire.failure(p.x.status)
	}
	if p.a.wire.refuse != nil {
		body = p.a.wire.refuse(body)
	}
	return body
}

// do performs one op, and reports whether the answer ends with it.
func (p *player) do(o op) (over bool, err error) {
	switch o.kind {
	case opSay:
		return false, p.say(p.fill(o.text), false)
	case opPad:
		return false, p.say(prose(o.n, fmt.Sprint(p.x.name, p.a.play)), false)
	case opThink:
		return false, p.say(p.fill(o.text), true)
	case opRefuse:
		p.reply.refusal += p.fill(o.text)
		p.stream(func() []byte { return p.enc.refuse(p.fill(o.text)) })
	case opFail:
		p.failed = &o
		p.stream(func() []byte { return p.enc.fail(o.code, p.fill(o.text)) })
		return true, nil
	case opCompaction:
		c, is := p.enc.(compacter)
		if !is {
			p.s.mistake(p.x.line, "%q has a compaction, which the wire of request %d knows nothing of", p.x.name, p.s.count())
			return false, nil
		}
		p.stream(func() []byte { return c.compaction(p.fill(o.text)) })
	case opCall:
		return false, p.call(o.call)
	case opUsage:
		p.usage(o)
	case opFinish:
		p.reply.finish = o.text
		p.stream(func() []byte { return p.enc.finish(o.text) })
	case opDone:
		p.stream(func() []byte { return p.enc.done() })
	case opRaw:
		if !p.a.req.stream {
			p.s.mistake(p.x.line, "%q has raw frames, and request %d wants no stream", p.x.name, p.s.count())
		}
		p.stream(func() []byte { return []byte(p.fill(o.text)) })
	case opDelay:
		return false, p.wait(o.wait)
	case opHold:
		return false, p.until(p.s.reach(o.text).released)
	case opHang:
		p.s.reach(o.text)
		return false, p.until(nil)
	case opCut:
		if p.headed {
			p.flush()
		}
		panic(http.ErrAbortHandler)
	case opEOF:
		return true, nil
	}
	return false, nil
}

// fill puts the number of the play into a text.
func (p *player) fill(s string) string { return strings.ReplaceAll(s, "${n}", fmt.Sprint(p.a.play)) }

func (p *player) say(s string, thinking bool) error {
	if thinking {
		p.reply.thinking += s
	} else {
		p.reply.text += s
	}
	return p.paced(split(s, p.x.pieces.deltas), func(piece string) []byte { return p.enc.text(thinking, piece) })
}

// paced streams the deltas of a text.
func (p *player) paced(deltas []string, encode func(string) []byte) error {
	for i, d := range deltas {
		if p.r.Context().Err() != nil {
			return errGone
		}
		if i > 0 && p.x.pieces.pace > 0 {
			if err := p.wait(p.x.pieces.pace); err != nil {
				return err
			}
		}
		p.stream(func() []byte { return encode(d) })
	}
	return nil
}

func (p *player) call(c call) error {
	if c.custom && !p.a.wire.custom {
		p.s.mistake(p.x.line, "%q calls a tool whose input is a text, which the wire of request %d knows nothing of", p.x.name, p.s.count())
		return nil
	}
	n := len(p.reply.calls)
	c.args, c.id = p.fill(c.args), p.fill(c.id)
	switch c.id {
	case "":
		c.id = fmt.Sprintf("call_%s_%d_%d", strings.ReplaceAll(p.x.name, " ", "_"), p.a.play, n+1)
	case "-":
		c.id = ""
	}
	p.reply.calls = append(p.reply.calls, c)
	p.stream(func() []byte { return p.enc.call(n, c, split(c.args, p.x.pieces.deltas)) })
	return nil
}

func (p *player) usage(o op) {
	u := o.usage
	if o.auto {
		u = usage{input: p.a.rec.Tokens, output: tokens(p.reply.text + p.reply.thinking + p.reply.refusal)}
		for _, c := range p.reply.calls {
			u.output += tokens(c.name + c.args)
		}
	} else if o.text == "none" {
		return
	}
	p.reply.usage = &u
	// What the cassette says is said; what is computed only to those who ask.
	if !o.auto || p.a.req.usage {
		p.stream(func() []byte { return p.enc.usage(u) })
	}
}

// input is what is known of the usage of an answer before it is given to a request
// of n tokens; auto says what is told by an answer that says nothing of it.
func (x *exchange) input(n int, auto bool) usage {
	for _, o := range x.ops {
		switch {
		case o.kind == opUsage && o.auto:
			return usage{input: n}
		case o.kind == opUsage:
			return usage{input: o.usage.input, cached: o.usage.cached, written: o.usage.written}
		}
	}
	if auto { // it never comes to its end
		return usage{input: n}
	}
	return usage{}
}

// stream writes what an encoder makes, if the client wants a stream.
func (p *player) stream(encode func() []byte) {
	if !p.a.req.stream || p.enc == nil {
		return
	}
	b := encode()
	p.head(p.a.wire.stream)
	p.write(b)
}

// head begins the answer.
func (p *player) head(kind string) {
	if p.headed {
		return
	}
	p.headed = true
	if kind != "" {
		p.w.Header().Set("Content-Type", kind)
	}
	maps.Copy(p.w.Header(), p.x.header)
	status := http.StatusOK
	if p.x.status > 0 {
		status = p.x.status
	}
	p.w.WriteHeader(status)
}

// write sends bytes, at once or in pieces. A client that left is found by waiting.
func (p *player) write(b []byte) {
	n := p.x.pieces.chunks
	if n == 0 {
		_, _ = p.w.Write(b)
		_ = http.NewResponseController(p.w).Flush()
		return
	}
	p.pending = append(p.pending, b...)
	for len(p.pending) >= n {
		_, _ = p.w.Write(p.pending[:n])
		_ = http.NewResponseController(p.w).Flush()
		p.pending = p.pending[n:]
	}
}

// flush sends what is left of the pieces, and the head if nothing else came.
func (p *player) flush() {
	if p.a.req.stream && p.enc != nil && p.x.body == nil && p.x.status < 400 {
		p.head(p.a.wire.stream)
	}
	_, _ = p.w.Write(p.pending)
	p.pending = nil
	_ = http.NewResponseController(p.w).Flush()
}

func (p *player) wait(d time.Duration) error {
	if p.headed {
		p.flush()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	return until(p, t.C)
}

// until waits for a channel; nil: for the end.
func (p *player) until(c <-chan struct{}) error {
	if p.headed {
		p.flush()
	}
	return until(p, c)
}

func until[V any](p *player, c <-chan V) error {
	select {
	case <-c:
		return nil
	case <-p.r.Context().Done():
	case <-p.s.closed:
	}
	return errGone
}
