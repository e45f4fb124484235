package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A peer is one JSON-RPC connection: a client that says who it is, asks, follows
// threads and answers what the server asks.
//
// Guarantees:
//
//   - The answer to a request is queued before the first notification of what the
//     request did to its thread.
//   - A thread is followed once, however often the client asks for it, and without
//     hole or repetition but for items that are open when following begins.
//   - Nothing that happens to a thread, and no panic, ends the connection.
//   - When the connection ends, nothing of it runs any more, and the turns that it
//     started go on.
type peer struct {
	server *Server
	conn   *jsonrpc.Conn
	log    *slog.Logger
	client atomic.Pointer[client] // nil until it is initialized
	ctx    context.Context        // of all that is not a request; ends with the connection
	host   context.Context        // ends when this side ends the connection
	cancel context.CancelFunc
	wg     sync.WaitGroup // of subscriptions, waiting requests and answers
	places quota          // of subscriptions

	mu    sync.Mutex // guards what follows; never held while waiting
	subs  map[transcript.ThreadID]*subscription
	asked map[threads.RequestID]*asked // sent, and not known to be answered
}

// A client is what a peer said of itself.
type client struct {
	name           string
	experimental   bool
	refusalAsError bool
	optOut         map[string]bool // methods of notifications
}

const (
	platformFamily = "unix"
	platformOs     = runtime.GOOS
)

// peerKey is the key of the peer in the context of its requests.
type peerKey struct{}

// peerOf returns the peer that a request comes from. Methods that need it are only
// on JSON-RPC.
func peerOf(ctx context.Context) *peer { return ctx.Value(peerKey{}).(*peer) }

// ServeConn serves one connection, such as standard input and output, until it
// ends or ctx is done, and returns when nothing of it runs any more. It asks for
// no token. Its error is why the connection ended, if not in order.
func (s *Server) ServeConn(ctx context.Context, t jsonrpc.Transport) error {
	p := s.newPeer(ctx)
	return p.serve(ctx, t)
}

func (s *Server) newPeer(ctx context.Context) *peer {
	p := &peer{
		server: s, log: s.log,
		subs: map[transcript.ThreadID]*subscription{}, asked: map[threads.RequestID]*asked{}, host: ctx,
		places: make(quota, s.caps.Follows),
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

func (p *peer) serve(ctx context.Context, t jsonrpc.Transport) error {
	p.conn = jsonrpc.NewConn(t, jsonrpc.Options{Logger: p.log, WriteTimeout: p.server.timing.write})
	stop := context.AfterFunc(ctx, func() { p.conn.Close(farewell(ctx)) })
	defer stop()
	err := p.conn.Serve(p.ctx, p)
	p.cancel()
	p.wg.Wait()
	p.release()
	return err
}

// Statuses that this server closes WebSockets with, beside those of package
// jsonrpc. 4401 is HTTP's 401 in the range that is free for applications.
const statusUnauthorized = 4401

// farewell is why a connection is closed whose context is done.
func farewell(ctx context.Context) (int, string) {
	if errors.Is(context.Cause(ctx), errReplaced) {
		return statusUnauthorized, "the token was replaced: connect with the new one"
	}
	return jsonrpc.StatusGoingAway, "the server is shutting down"
}

// noThread is the lane of what is about no thread. It has a name, so that others do
// not wait for it.
const noThread = "-"

// Lane implements jsonrpc.Handler: what is about one thread is done in order, and
// does not wait for others. What came before the client had said who it is is done
// in order, and before everything that came after.
func (p *peer) Lane(_ string, params json.RawMessage) string {
	if p.client.Load() == nil {
		return ""
	}
	var about struct {
		ThreadID string `json:"threadId"`
	}
	if json.Unmarshal(params, &about) != nil || about.ThreadID == "" {
		return noThread
	}
	if id, err := uuid.Parse(about.ThreadID); err == nil {
		return id.String() // in all its forms it is one thread
	}
	return about.ThreadID
}

// Notification implements jsonrpc.Handler. Clients send initialized, which changes
// nothing.
func (p *peer) Notification(_ context.Context, method string, _ json.RawMessage) {
	p.log.Debug("notification of a client", slog.Bool("initialized", method == "initialized"))
}

// Request implements jsonrpc.Handler.
func (p *peer) Request(ctx context.Context, r *jsonrpc.Request) {
	m, ok := methodNamed(r.Method)
	if !ok {
		r.Fail(unknownMethod(clip(r.Method)))
		return
	}
	c := p.client.Load()
	if c == nil && r.Method != "initialize" {
		p.fail(ctx, m, nil, r, errNotGreeted)
		return
	}
	params, err := permitted(ctx, m, func() (any, error) { return decodeRPC(m, r.Params, c != nil && c.experimental) })
	if err != nil {
		p.fail(ctx, m, nil, r, err)
		return
	}
	if ctx = context.WithValue(ctx, peerKey{}, p); c != nil {
		ctx = withClient(ctx, c.name)
	}
	start, ok := params.(*CompactStartParams)
	if ok && m.waits && (start.Wait || c.refusalAsError) {
		p.await(ctx, m, *start, r)
		return
	}
	p.answer(ctx, m, params, r)
}

// answer does what was asked for, and tells of it before anything follows from it.
func (p *peer) answer(ctx context.Context, m method, params any, r *jsonrpc.Request) {
	if id, ok := threadOf(params); ok && m.mutates {
		if sub := p.following(id); sub != nil {
			sub.order.Lock()
			defer sub.order.Unlock()
		}
	}
	if m.subscribes {
		p.answerAndFollow(ctx, m, params, r)
		return
	}
	result, err := m.call(p.server, ctx, params)
	if err != nil {
		p.fail(ctx, m, params, r, err)
		return
	}
	r.Reply(result)
}

// answerAndFollow answers a request that has the connection follow a thread from then
// on. Without a place for what follows nothing is done.
func (p *peer) answerAndFollow(ctx context.Context, m method, params any, r *jsonrpc.Request) {
	if err := p.takePlace(); err != nil {
		p.fail(ctx, m, params, r, err)
		return
	}
	held := true // the place is not the subscription's
	defer func() {
		if held {
			p.givePlace()
		}
	}()
	result, err := m.call(p.server, ctx, params)
	if err != nil {
		held = false
		p.givePlace() // before the client knows
		p.fail(ctx, m, params, r, err)
		return
	}
	sub := p.prepare(ctx, m, result.(joiner))
	p.hold(sub.thread)
	held = !p.enter(sub)
	r.Reply(result)
	if held {
		p.retell(ctx, sub)
	} else {
		p.begin(sub)
	}
}

// takePlace takes a place for a subscription: one of the connection, so that no
// client takes those of all others, and one of the server.
func (p *peer) takePlace() error {
	if !p.places.take() {
		return fault.New(fault.Refused,
			"this connection follows %d threads, which is the limit for one: end some with thread/unsubscribe, or open another connection", p.server.caps.Follows)
	}
	if !p.server.opened.take() {
		p.places.give()
		return fault.New(fault.Overloaded, "%d streams are open, which is the limit", p.server.caps.Streams)
	}
	return nil
}

func (p *peer) givePlace() {
	p.places.give()
	p.server.opened.give()
}

// await answers a compaction when it has ended. The lane of the thread goes on
// once it is accepted: it is asked for twice, with one key.
func (p *peer) await(ctx context.Context, m method, params CompactStartParams, r *jsonrpc.Request) {
	params.Wait = false
	if params.ClientRequestID == "" {
		params.ClientRequestID = uuid.NewString()
	}
	if _, err := m.call(p.server, ctx, &params); err != nil {
		p.fail(ctx, m, &params, r, err)
		return
	}
	p.wg.Go(func() {
		defer p.survive(m.name, func() { r.Fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "internal error"}) })
		params.Wait = true
		result, err := m.call(p.server, ctx, &params)
		if f, ok := errors.AsType[*fault.Error](err); ok && !p.client.Load().refusalAsError {
			if refused, ok := f.Data.(*CompactStartResult); ok && f.Code == fault.Refused {
				result, err = refused, nil
			}
		}
		if err != nil {
			p.fail(ctx, m, &params, r, err)
			return
		}
		r.Reply(result)
	})
}

// survive is deferred: it keeps a panic from ending more than what panicked.
func (p *peer) survive(what string, then func()) {
	if cause := recover(); cause != nil {
		p.log.Error("panic", slog.String("in", what), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
		then()
	}
}

// greet notes who the client is.
func (p *peer) greet(params *InitializeParams) error {
	if p.client.Load() != nil {
		return errGreeted
	}
	name := params.ClientInfo.Name
	if !validHeader(name) {
		return invalid("Invalid clientInfo.name: '%s'. Must be a valid HTTP header value.", clip(name))
	}
	c := &client{name: name, optOut: map[string]bool{}}
	if caps := params.Capabilities; caps != nil {
		c.experimental = caps.ExperimentalAPI
		for _, m := range caps.OptOutNotificationMethods {
			c.optOut[m] = true
		}
		c.refusalAsError = caps.Plimsoll != nil && caps.Plimsoll.RefusalAsError
	}
	p.client.Store(c)
	return nil
}

// userAgent is how this server calls itself. The codex TUI shows what follows the
// slash as the server's version; with the name behind it, it does not take that for
// an old version of codex and warn (codex 0.171, observed).
func (s *Server) userAgent() string {
	return fmt.Sprintf("plimsoll/%s+plimsoll (%s; %s)", s.version, runtime.GOOS, runtime.GOARCH)
}
