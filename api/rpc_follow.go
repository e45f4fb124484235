package api

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A subscription follows one thread for a peer. Its fields are set before it
// starts, but for those of its own goroutine.
type subscription struct {
	peer   *peer
	thread transcript.ThreadID
	after  *events.Cursor  // where it begins; nil is the beginning
	ctx    context.Context // ends with it
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended

	replaced atomic.Bool // by another one of the same connection

	// order is held by what changes the thread until its answer is queued, and by
	// the subscription while it queues what follows.
	order sync.Mutex

	told atomic.Int64 // where the last event is that is queued; the client may not have wanted it

	// earlier are requests that were made before the subscription is live: those
	// that still wait then are asked.
	earlier []threads.Request

	preface   [][]byte          // frames to begin with
	pending   []threads.Request // to be sent once the open items are
	tellsLive bool              // the client asked for stream/live

	// Of its goroutine:
	joined   bool // the open items were told
	live     bool // the backlog is over
	open     openItem
	batch    [][]byte
	batchLen int
}

// Events are sent together up to these bounds, if they come together.
const (
	batchFrames = 64
	batchBytes  = 64 << 10
)

// following returns the subscription to a thread; nil if there is none.
func (p *peer) following(id transcript.ThreadID) *subscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.subs[id]
}

// prepare returns a subscription to the thread that a result is about. It is to be
// entered and begun.
func (p *peer) prepare(ctx context.Context, m method, result joiner) *subscription {
	j := result.joined()
	sub := &subscription{peer: p, thread: j.thread, pending: j.requests, tellsLive: m.own, earlier: j.earlier, done: make(chan struct{})}
	sub.ctx, sub.cancel = context.WithCancel(p.ctx)
	if forked, ok := result.(*ThreadStartResult); ok && m.name == "thread/fork" {
		var first []events.Event
		var err error
		if j, first, err = p.server.forkStart(ctx, j, forked.AsOf); err != nil {
			p.log.Error("the beginning of a fork", slog.String("thread", string(j.thread)), slog.Any("error", err))
		}
		for _, e := range first {
			sub.preface = append(sub.preface, p.eventFrame(e)...)
		}
	}
	if j.usage != nil {
		sub.preface = append(sub.preface, p.frame(threads.UsageUpdated{}.EventType(), wireUsage(string(j.thread), *j.usage))...)
	}
	if sub.after = j.after; sub.after != nil {
		sub.told.Store(sub.after.N)
	}
	return sub
}

// begin starts a subscription that was entered. The answer is queued.
func (p *peer) begin(sub *subscription) {
	p.server.follow.add(sub)
	p.wg.Go(func() {
		defer close(sub.done)
		defer sub.gone()
		defer sub.cancel()
		defer p.survive("subscription", func() { sub.excuse(sub.ctx) })
		sub.run(sub.ctx, sub.after)
	})
}

// retell tells a client again what it has to know to take part in a thread that it
// follows already, in place of a subscription. Who changes the thread holds the
// order: what is resolved after this look is told after what is sent.
func (p *peer) retell(ctx context.Context, sub *subscription) {
	defer sub.cancel()
	p.send(ctx, append(sub.preface, p.requestFrames(sub, p.stillAsked(sub.pending), true)...)...)
}

// enter makes a subscription the one to its thread, if there is none. It is begun
// after the answer: whatever comes then, in whichever lane, finds it.
func (p *peer) enter(sub *subscription) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs[sub.thread] != nil {
		return false
	}
	p.subs[sub.thread] = sub
	p.server.crowd.follow(sub.thread, p)
	return true
}

// part forgets a subscription that ended, and what it asked.
func (sub *subscription) part() {
	p := sub.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs[sub.thread] != sub {
		return
	}
	delete(p.subs, sub.thread)
	p.unask(sub.thread)
	if !sub.replaced.Load() {
		p.server.crowd.part(sub.thread, p)
	}
	p.givePlace()
}

// gone is the end of a subscription. If those that are left cannot deal with what the
// thread asks, it is not asked any longer; but not if this server sends everybody
// away.
func (sub *subscription) gone() {
	p := sub.peer
	sub.part()
	p.server.follow.remove(sub)
	defer p.survive("end of a subscription", func() {})
	if sub.replaced.Load() || p.host.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), giveUpTime)
	defer cancel()
	p.server.giveUp(ctx, sub.thread)
}

// giveUpTime is how long a thread may take to hear that a request is given up.
const giveUpTime = 10 * time.Second

// leave ends the subscription to a thread, and reports whether there was one. It
// returns when nothing more of it is sent. The caller holds no order.
func (p *peer) leave(id transcript.ThreadID) bool { return p.end(id, false) }

// replace is leave for a connection that follows the thread anew right away: nobody
// takes it for gone.
func (p *peer) replace(id transcript.ThreadID) { p.end(id, true) }

func (p *peer) end(id transcript.ThreadID, replaced bool) bool {
	sub := p.following(id)
	if sub == nil {
		return false
	}
	sub.replaced.Store(replaced)
	sub.cancel()
	<-sub.done
	return true
}

// run tells what happens until nobody wants to know or nothing happens any more.
func (sub *subscription) run(ctx context.Context, after *events.Cursor) {
	sub.add(sub.preface...)
	for m, err := range sub.peer.server.service(sub.thread).Follow(ctx, sub.thread, after, 0) {
		if err == nil {
			err = sub.tell(ctx, m)
		}
		if err != nil {
			sub.broke(ctx, err)
			return
		}
	}
	_ = sub.push(ctx, sub.part, sub.batch...) // a reset or a deletion; if it fails the client is gone
}

// tell queues one message.
func (sub *subscription) tell(ctx context.Context, m events.Message) error {
	p := sub.peer
	if !sub.joined && m.Kind != events.KindDelta && !m.Repeat {
		sub.joined = true
		sub.add(p.requestFrames(sub, sub.pending, true)...)
		sub.pending = nil
	}
	var err error
	switch m.Kind {
	case events.KindEvent:
		err = sub.event(m.Event)
	case events.KindDelta:
		err = sub.delta(m.Delta)
	case events.KindLive:
		sub.live = true
		sub.add(p.requestFrames(sub, sub.earlier, false)...)
		sub.earlier = nil
		if sub.tellsLive {
			sub.add(p.frame(methodStreamLive, protocol.StreamLiveParams{Cursor: m.Cursor.String()})...)
		}
	case events.KindReset:
		sub.add(p.frame(methodStreamReset, protocol.StreamResetParams{
			Reason: string(m.Reset.Reason), Oldest: m.Reset.Oldest, Cursor: m.Cursor.String(),
		})...)
		return sub.flushWith(ctx, sub.part) // whoever has read it may follow anew
	case events.KindHeartbeat: // transports have their own
	}
	if err != nil || m.More && len(sub.batch) < batchFrames && sub.batchLen < batchBytes {
		return err
	}
	if err = sub.flush(ctx); err == nil {
		sub.told.Store(m.Cursor.N)
	}
	return err
}

// event adds an event, and what goes with it: a request that is still to be
// answered is asked of the client as well.
func (sub *subscription) event(e events.Event) error {
	frame, err := sub.peer.server.frames.of(e)
	if err != nil {
		return err
	}
	if sub.peer.wants(frame) {
		sub.add(frame)
	}
	switch e.Type {
	case threads.RequestCreated{}.EventType():
		return sub.created(e)
	case threads.RequestResolved{}.EventType():
		return sub.resolved(e)
	}
	return nil
}

// delta adds more text of an item.
func (sub *subscription) delta(d events.Delta) error {
	n, err := sub.open.more(d)
	if err != nil || sub.peer.client.Load().optOut[n.Method] {
		return err
	}
	b, err := encode(n)
	if err == nil {
		sub.add(b)
	}
	return err
}

func (sub *subscription) add(frames ...[]byte) {
	for _, f := range frames {
		sub.batch = append(sub.batch, f)
		sub.batchLen += len(f)
	}
}

// flush queues what was added, after the answer that it may follow from.
func (sub *subscription) flush(ctx context.Context) error {
	return sub.flushWith(ctx, func() {})
}

// flushWith is flush, and calls also within the order.
func (sub *subscription) flushWith(ctx context.Context, also func()) error {
	if len(sub.batch) == 0 {
		return nil
	}
	err := sub.push(ctx, also, sub.batch...)
	clear(sub.batch)
	sub.batch, sub.batchLen = sub.batch[:0], 0
	if cap(sub.batch) > batchFrames/4 {
		sub.batch = nil
	}
	return err
}

// push queues frames in their order, and calls also, which is quick, within it. It
// waits for the client before it takes the order: one that does not read can still
// stop what it does not read of.
func (sub *subscription) push(ctx context.Context, also func(), frames ...[]byte) error {
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	slot, err := sub.peer.conn.Reserve(ctx, len(frames), size)
	if err != nil {
		return err
	}
	defer slot.Release()
	sub.order.Lock()
	defer sub.order.Unlock()
	also()
	return slot.Push(frames...)
}

// broke says why a subscription ends that the client did not end.
func (sub *subscription) broke(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, jsonrpc.ErrClosed) || errors.Is(err, events.ErrClosed) || errors.Is(asFault(err), events.ErrNotFound) {
		return
	}
	sub.peer.log.Error("subscription broke", slog.String("thread", string(sub.thread)), slog.Any("error", err))
	_ = sub.flush(ctx) // what is whole is told; if it fails the client is gone
	sub.excuse(ctx)
}

// excuse tells the client that the subscription is over, though the thread may not
// be.
func (sub *subscription) excuse(ctx context.Context) {
	thread := string(sub.thread)
	_ = sub.push(context.WithoutCancel(ctx), sub.part, sub.peer.frame(threads.WarningRaised{}.EventType(), protocol.WarningParams{
		ThreadID: &thread, Message: "this connection does not follow the thread any more: its events cannot be read",
	})...) // if it fails the client is gone
}

// wants reports whether the client did not opt out of a notification.
func (p *peer) wants(frame []byte) bool {
	c := p.client.Load()
	if len(c.optOut) == 0 {
		return true
	}
	rest, ok := bytes.CutPrefix(frame, []byte(`{"method":"`))
	end := bytes.IndexByte(rest, '"')
	return !ok || end < 0 || !c.optOut[string(rest[:end])]
}

// eventFrame is the frame of an event, or none if the client does not want it.
func (p *peer) eventFrame(e events.Event) [][]byte {
	frame, err := p.server.frames.of(e)
	if err != nil {
		p.log.Error("event cannot be told", slog.String("thread", e.Thread), slog.Int64("seq", e.Seq), slog.Any("error", err))
		return nil
	}
	return slices.DeleteFunc([][]byte{frame}, func(f []byte) bool { return !p.wants(f) })
}

// frame is the frame of a notification that is not in the journal, or none.
func (p *peer) frame(method string, params any) [][]byte {
	if p.client.Load().optOut[method] {
		return nil
	}
	n, err := message(method, params, time.Now())
	if err == nil {
		var b []byte
		if b, err = encode(n); err == nil {
			return [][]byte{b}
		}
	}
	p.log.Error("notification cannot be told", slog.String("method", method), slog.Any("error", err))
	return nil
}

// send queues frames. That they cannot be sent means that the client is gone.
func (p *peer) send(ctx context.Context, frames ...[]byte) {
	if err := p.conn.Send(ctx, frames...); err != nil {
		p.log.Debug("not sent", slog.Any("error", err))
	}
}
