package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed says that the connection has ended or is about to.
var ErrClosed = errors.New("jsonrpc: connection closed")

// WebSocket statuses that a connection is closed with by itself.
const (
	StatusNormal     = 1000
	StatusGoingAway  = 1001
	StatusTooBig     = 1009
	StatusTryLater   = 1013
	statusNoLifeSign = 1001
)

const (
	// drainTime is how long requests that were read may still run once the client
	// has ended the connection in order.
	drainTime = 10 * time.Second
	// closeTime is how long Close waits for what is queued to be written.
	closeTime = 250 * time.Millisecond
)

// A Conn is one connection. NewConn makes it, so that a handler can know it before
// the first frame; Serve runs it.
//
// Serve's goroutine waits; one goroutine reads and owns the stream; one writes and
// is the only caller of Transport.Write; lanes have one each while there is work.
// Serve waits for all of them.
type Conn struct {
	t     Transport
	o     Options
	log   *slog.Logger
	out   *queue
	lanes *lanes
	stats counters

	closing sync.Once
	status  int    // written once, before out is closed
	reason  string // the same
	cause   error  // the same: why Serve returns, nil if all is in order

	cut      sync.Once
	lastSeen atomic.Int64 // unix nanoseconds
}

// NewConn returns a connection that does nothing before Serve but queue what is
// sent.
func NewConn(t Transport, o Options) *Conn {
	o = o.orDefault()
	return &Conn{
		t: t, o: o, log: o.Logger,
		out:   newQueue(o.QueueFrames, o.QueueBytes),
		lanes: newLanes(o.MaxWaiting, o.MaxRunning),
	}
}

// Serve is NewConn and its Serve, for a handler that needs no connection.
func Serve(ctx context.Context, t Transport, h Handler, o Options) error {
	return NewConn(t, o).Serve(ctx, h)
}

// Serve hands what the client says to h until the connection ends, and returns when
// nothing of it runs any more: nil if the client or this side ended it in order,
// else why it ended. It is called once. When ctx is done the connection is closed
// in order, with status 1001.
//
// When the client has ended the connection in order, what it said before is still
// handled, for up to 10 s, and answered if the transport can. In all other cases
// the context of the handlers ends with the connection, and what waits in a lane is
// dropped.
func (c *Conn) Serve(ctx context.Context, h Handler) error {
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close(StatusGoingAway, "the server is shutting down") })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(c.write)
	s := newStream(handling, c, h)
	ended := s.run()
	if errors.Is(ended, io.EOF) {
		c.drain()
		c.end(StatusNormal, "", nil, false)
	} else {
		c.end(StatusGoingAway, "", ended, true)
	}
	cancel()
	c.lanes.stop()
	wg.Wait()
	c.lanes.wg.Wait()
	c.log.Debug("connection ended", "cause", c.cause, "stats", c.Stats())
	return c.cause
}

// Send queues frames, each of which is a whole JSON text, all together and behind
// what was queued before. It blocks while the queue is full. The frames must not be
// changed any more.
func (c *Conn) Send(ctx context.Context, frames ...[]byte) error {
	cost := usage{frames: len(frames)}
	for _, f := range frames {
		cost.bytes += len(f)
	}
	if len(frames) == 0 {
		return nil
	}
	if err := c.out.reserve(ctx, cost); err != nil {
		return err
	}
	return c.out.push(cost, frames...)
}

// Close ends the connection from this side. What is queued is still written, for up
// to 250 ms. The status and the reason, of up to 123 bytes, are for WebSockets. It
// does not wait; the first call counts.
func (c *Conn) Close(status int, reason string) { c.end(status, reason, nil, false) }

// end ends the connection, at once or when what is queued was written.
func (c *Conn) end(status int, reason string, cause error, now bool) {
	c.closing.Do(func() {
		c.status, c.reason, c.cause = status, reason, cause
		c.out.close()
		if !now {
			time.AfterFunc(closeTime, c.abort)
		}
	})
	if now {
		c.abort()
	}
}

// abort closes the transport, whatever is being written.
func (c *Conn) abort() {
	c.cut.Do(func() { _ = c.t.Close(c.status, c.reason) })
}

// drain waits until what was read is handled and answered.
func (c *Conn) drain() {
	idle := make(chan struct{})
	go func() { c.lanes.wg.Wait(); close(idle) }()
	t := time.NewTimer(drainTime)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	case <-c.out.gone:
	}
}

// write is the writer.
func (c *Conn) write() {
	defer c.abort()
	watchdog := time.AfterFunc(c.o.WriteTimeout, func() {
		c.end(StatusTryLater, "slow consumer", errors.New("jsonrpc: the client takes nothing"), true)
	})
	watchdog.Stop()
	defer watchdog.Stop()
	for {
		batch, open := c.out.next()
		for _, f := range batch {
			watchdog.Reset(c.o.WriteTimeout)
			err := c.t.Write(f.bytes)
			watchdog.Stop()
			if err != nil {
				c.end(StatusGoingAway, "", err, true)
				return
			}
			c.out.written(f)
		}
		if len(batch) > 0 {
			continue
		}
		if !open {
			return
		}
		<-c.out.wake
	}
}

type counters struct{ dropped, unparsable, refused, overloaded, panics atomic.Int64 }

// Stats counts what a connection did not do.
type Stats struct {
	Unparsable int64 // frames that are no JSON, answered with -32700
	Refused    int64 // frames that are no message, answered with -32600
	Dropped    int64 // frames and notifications that were dropped without an answer
	Overloaded int64 // requests answered with -32001
	Panics     int64 // of handlers
}

// Stats may be called at any time.
func (c *Conn) Stats() Stats {
	return Stats{
		Unparsable: c.stats.unparsable.Load(), Refused: c.stats.refused.Load(), Dropped: c.stats.dropped.Load(),
		Overloaded: c.stats.overloaded.Load(), Panics: c.stats.panics.Load(),
	}
}

// answer queues what the reader itself has to say.
func (c *Conn) answer(id json.RawMessage, problem *Error) {
	b, err := json.Marshal(struct {
		ID    json.RawMessage `json:"id"`
		Error *Error          `json:"error"`
	}{id, problem})
	if err == nil && !c.out.force(b) {
		_ = c.Send(context.Background(), b)
	}
}
