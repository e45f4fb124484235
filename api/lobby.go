package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A lobby bounds how many connections of a listener are open at once. A
// connection has a seat until it is closed or becomes a stream. One that finds
// none waits, in front of all that come later; if nobody gets up meanwhile, it and
// those after it may only stand until they are told so. There is little room to
// stand: beyond that the listener accepts nobody.
type lobby struct {
	net.Listener
	wait   time.Duration
	seats  quota
	stands quota
	closed chan struct{}
	close  sync.Once
	full   bool // the last one waited for a seat in vain; used by Accept only

	mu       sync.Mutex // guards standing
	standing map[net.Conn]struct{}
}

// standingRoom is how many connections are told at once that there is no seat.
const standingRoom = 32

func newLobby(ln net.Listener, seats int, wait time.Duration) *lobby {
	return &lobby{
		Listener: ln, wait: wait, seats: make(quota, seats), stands: make(quota, standingRoom),
		closed: make(chan struct{}), standing: map[net.Conn]struct{}{},
	}
}

// Accept implements net.Listener.
func (l *lobby) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.place(c) {
		return c, err
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *lobby) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// place finds a place for a connection, or closes it if the lobby closes.
func (l *lobby) place(c net.Conn) bool {
	if l.seats.take() {
		l.full = false
		return true
	}
	if !l.full {
		timer := time.NewTimer(l.wait)
		defer timer.Stop()
		select {
		case l.seats <- struct{}{}:
			return true
		case <-timer.C:
			l.full = true
		case <-l.closed:
		}
	}
	select {
	case l.seats <- struct{}{}:
		l.full = false
		return true
	case l.stands <- struct{}{}:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.standing[c] = struct{}{}
		return true
	case <-l.closed:
		// Nothing was said on it.
		_ = c.Close()
		return false
	}
}

// changed is http.Server.ConnState: a connection that is closed, or is no longer
// the server's, gives up its place.
func (l *lobby) changed(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.standing[c]; ok {
		delete(l.standing, c)
		l.stands.give()
		return
	}
	l.seats.give()
}

// standingKey marks the requests of connections without a seat.
type standingKey struct{}

// mark is http.Server.ConnContext.
func (l *lobby) mark(ctx context.Context, c net.Conn) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.standing[c]; ok {
		return context.WithValue(ctx, standingKey{}, true)
	}
	return ctx
}

// checkSeat refuses what comes on a connection without a seat.
func (s *Server) checkSeat(r *http.Request) error {
	if r.Context().Value(standingKey{}) == nil {
		return nil
	}
	return refuse(http.StatusServiceUnavailable, fault.Overloaded,
		"%d connections are open and stay so, which is the limit: close one, or try later", s.caps.Connections)
}
