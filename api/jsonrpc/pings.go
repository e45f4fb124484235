package jsonrpc

import (
	"errors"
	"sync/atomic"
	"time"
)

// A live transport can find out whether somebody is there.
type live interface {
	// watch sets what is called for each answer to a ping and each frame that was
	// passed over. It is called before the first Read.
	watch(pong, ignored func())
	// ping is called by who calls Write.
	ping() error
}

// startPings pings the client, if the transport can, until it is stopped. A ping
// counts once it is sent: while it waits behind frames that the client does not
// take, the limit for these counts.
func (c *Conn) startPings() (stop func()) {
	t, ok := c.t.(live)
	if !ok {
		return func() {}
	}
	t.watch(c.heard, func() { c.stats.ignored.Add(1) })
	var timer *time.Timer
	started := make(chan struct{})
	timer = time.AfterFunc(c.o.PingEvery, func() {
		<-started
		select {
		case <-c.out.gone:
			return
		default:
		}
		if c.pings.Load() >= 2 {
			c.end(StatusGoingAway, "two pings were not answered", errors.New("jsonrpc: the client left two pings unanswered"), 0)
			return
		}
		c.out.pingNow()
		timer.Reset(c.o.PingEvery)
	})
	close(started)
	return func() { timer.Stop() }
}

// heard notes a sign of life.
func (c *Conn) heard() { c.pings.Store(0) }

type counters struct{ unparsable, refused, dropped, ignored, overloaded, panics atomic.Int64 }

// Stats counts what a connection did not do as it was told.
type Stats struct {
	Unparsable int64 // frames that are no JSON, answered with -32700
	Refused    int64 // frames that are no message, answered with -32600
	Dropped    int64 // frames without an id, and notifications, that nobody was told of
	Ignored    int64 // binary frames
	Overloaded int64 // requests answered with -32001
	Panics     int64 // of the handler
}

// Stats may be called at any time.
func (c *Conn) Stats() Stats {
	n := &c.stats
	return Stats{
		Unparsable: n.unparsable.Load(), Refused: n.refused.Load(), Dropped: n.dropped.Load(),
		Ignored: n.ignored.Load(), Overloaded: n.overloaded.Load(), Panics: n.panics.Load(),
	}
}
