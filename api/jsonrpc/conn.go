package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed says that the connection has ended, or is about to.
var ErrClosed = errors.New("jsonrpc: connection closed")

// Statuses of WebSockets that a connection ends with by itself.
const (
	StatusNormal    = 1000
	StatusGoingAway = 1001
	StatusTooBig    = 1009
	StatusTryLater  = 1013
)

const (
	// drainTime is how long requests that were read may still run once the client
	// has ended the connection in order.
	drainTime = 10 * time.Second
	// closeTime is how long Close waits for what is queued to be written.
	closeTime = 250 * time.Millisecond
	// batchBytes is how much is given to the transport at a time, if frames are
	// smaller than that.
	batchBytes = 64 << 10
	// stalled is how long a write takes at least when the client, and not this
	// machine, is what it waits for.
	stalled = 100 * time.Millisecond
)

// A Conn is one connection. NewConn makes it, so that a handler can know it before
// the first frame; Serve runs it.
//
// Serve's goroutine waits; one goroutine reads and owns the stream; while there is
// something to write there is one that does, the only caller of Transport.Write;
// lanes have one each while there is work. Serve waits for all of them.
type Conn struct {
	t     Transport
	o     Options
	log   *slog.Logger
	out   *queue
	lanes *lanes
	stats counters

	closing sync.Once
	status  int    // written once, before out is closed; so are the next two
	reason  string //
	cause   error  // why Serve returns, nil if all is in order
	cut     sync.Once

	writers  sync.WaitGroup // one at a time
	watchdog *time.Timer    // runs while the client is to take something
	ended    atomic.Bool    // by the client, in order
	pings    atomic.Int32   // sent since the client was last heard
}

// NewConn returns a connection that, before Serve, only queues what is sent.
func NewConn(t Transport, o Options) *Conn {
	o = o.orDefault()
	return &Conn{
		t: t, o: o, log: o.Logger,
		out:   newQueue(usage{o.QueueFrames, o.QueueBytes}),
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
	wait := c.start(ctx)
	s := newStream(handling, c, h)
	if err := s.run(); errors.Is(err, io.EOF) {
		c.ended.Store(true)
		c.drain(s)
		c.end(StatusNormal, "", nil, c.o.WriteTimeout)
	} else {
		c.end(statusOf(err), "", err, 0)
	}
	c.lanes.stop() // before a handler that waits for the context makes way for the next
	cancel()
	wait()
	s.finish()
	c.lanes.wg.Wait()
	c.report()
	return c.cause
}

// start starts all but the reader. What it returns waits until nothing of it runs,
// once the connection was ended.
func (c *Conn) start(ctx context.Context) (wait func()) {
	stop := context.AfterFunc(ctx, func() { c.Close(StatusGoingAway, "the server is shutting down") })
	c.watchdog = time.AfterFunc(c.o.WriteTimeout, c.stall)
	c.watchdog.Stop()
	c.out.begin(func() { c.writers.Go(c.write) })
	stopPings := c.startPings()
	return func() {
		c.writers.Wait()
		stopPings()
		stop()
	}
}

// statusOf is what a connection is closed with that can no longer be read.
func statusOf(err error) int {
	if errors.Is(err, ErrTooBig) {
		return StatusTooBig
	}
	return StatusGoingAway
}

// report logs how the connection ended.
func (c *Conn) report() {
	level := slog.LevelDebug
	if c.Stats() != (Stats{}) {
		level = slog.LevelInfo
	}
	c.log.Log(context.Background(), level, "connection ended", "cause", c.cause, "stats", c.Stats())
}

// Send queues frames, each of them a whole JSON text: all together, behind what was
// queued before. It blocks while the queue is full; an error says that none of them
// is sent. The frames must not be changed any more.
func (c *Conn) Send(ctx context.Context, frames ...[]byte) error {
	if len(frames) == 0 {
		return nil
	}
	cost := usage{frames: len(frames)}
	for _, f := range frames {
		cost.bytes += len(f)
	}
	return c.out.put(ctx, cost, frames...)
}

// Reserve waits for room in the queue, as Send does, for frames that are pushed later:
// their place in the order is that of the Push. Until then the room keeps out other
// slots, but neither Send nor replies. A slot ends with the connection.
func (c *Conn) Reserve(ctx context.Context, frames, bytes int) (*Slot, error) {
	return c.out.reserve(ctx, usage{frames, bytes})
}

// Close ends the connection from this side. What is queued is still written, for up
// to 250 ms. The status and the reason, of up to 123 bytes, are for WebSockets. It
// does not wait; the first call counts.
func (c *Conn) Close(status int, reason string) { c.end(status, reason, nil, closeTime) }

// end ends the connection, when what is queued was written, but not later than
// after grace.
func (c *Conn) end(status int, reason string, cause error, grace time.Duration) {
	c.closing.Do(func() {
		c.status, c.reason, c.cause = status, reason, cause
		c.out.close()
		if grace > 0 {
			time.AfterFunc(grace, c.abort)
		}
	})
	if grace == 0 {
		c.abort()
	}
}

// abort closes the transport, whatever is being written.
func (c *Conn) abort() {
	c.cut.Do(func() {
		if err := c.t.Close(c.status, c.reason); err != nil {
			c.log.Debug("transport did not close in order", "err", err)
		}
	})
}

// drain waits until what was read is handled, and answered if it can be.
func (c *Conn) drain(s *stream) {
	idle := make(chan struct{})
	go func() { c.lanes.wg.Wait(); close(idle) }()
	_, open := c.t.(*lines) // its other half is
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for _, done := range []<-chan struct{}{idle, s.settled(!open)} {
		select {
		case <-done:
		case <-limit.C:
			return
		case <-c.out.gone:
			return
		}
	}
	c.linger()
}

// A batcher is a transport that writes several frames at less cost than one after
// the other. It calls progress whenever it got rid of something.
type batcher interface {
	writeBatch(frames [][]byte, progress func()) error
}

// write is the writer. It ends when there is nothing to do, so that an idle
// connection has none; the last one closes the transport.
func (c *Conn) write() {
	var frames []frame
	for {
		var ping, last bool
		frames, ping, last = c.out.next(frames)
		if len(frames) == 0 && !ping {
			if last {
				c.abort()
			}
			return
		}
		if err := c.writeAll(frames, ping); err != nil {
			c.out.discard()
			c.unwritable(err)
		}
	}
}

// unwritable ends the connection because of err, unless the reader finds out that
// the client has ended it in order: what that said before is still to be read.
func (c *Conn) unwritable(err error) {
	time.AfterFunc(closeTime, func() {
		if !c.ended.Load() && !errors.Is(err, io.EOF) {
			c.end(StatusGoingAway, "", fmt.Errorf("write to the client: %w", err), 0)
		}
	})
}

// stall is called when the client has taken nothing for too long.
func (c *Conn) stall() {
	err := fmt.Errorf("jsonrpc: the client took nothing for %v", c.o.WriteTimeout)
	c.end(StatusTryLater, "slow consumer: nothing was taken for "+c.o.WriteTimeout.String(), err, 0)
}

// writeAll writes frames, batch by batch, and a ping if it is due.
func (c *Conn) writeAll(frames []frame, ping bool) error {
	defer c.watchdog.Stop()
	var last time.Time
	progress := func() {
		now := time.Now()
		if now.Sub(last) >= stalled { // room was made: somebody reads
			c.heard()
		}
		last = now
		c.watchdog.Reset(c.o.WriteTimeout)
	}
	var few [8][]byte
	batch := few[:0]
	for len(frames) > 0 {
		n, size := 0, 0
		batch = batch[:0]
		for n == 0 || n < len(frames) && size+len(frames[n].bytes) <= batchBytes {
			size += len(frames[n].bytes)
			batch = append(batch, frames[n].bytes)
			n++
		}
		last = time.Now()
		c.watchdog.Reset(c.o.WriteTimeout)
		if err := c.writeBatch(batch, progress); err != nil {
			return err
		}
		c.out.written(frames[:n])
		frames = frames[n:]
	}
	if !ping {
		return nil
	}
	c.watchdog.Reset(c.o.WriteTimeout)
	c.pings.Add(1)
	return c.t.(live).ping()
}

func (c *Conn) writeBatch(batch [][]byte, progress func()) error {
	if b, ok := c.t.(batcher); ok {
		return b.writeBatch(batch, progress)
	}
	for _, f := range batch {
		if err := c.t.Write(f); err != nil {
			return err
		}
		progress()
	}
	return nil
}
