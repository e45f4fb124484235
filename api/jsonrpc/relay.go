package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Relay carries frames between a client and the server it means, as they are and in
// their order, until one of the two ends its connection or ctx is done. It returns
// when nothing of it runs any more: nil if the client or ctx ended it in order, or
// the server did, with status 1000 or 1001; else why it ended, a *ServerError if
// that is the connection to the server.
//
// Each side has its own queue, pings and limit, as with Serve. How the server ends
// its connection is how that of the client ends. When the client ends in order, what
// it still has to be answered is waited for, for up to 10 s, if the transport can
// bring it.
func Relay(ctx context.Context, client, server Transport, o Options) error {
	r := &relay{down: NewConn(client, o), up: NewConn(server, o)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waitDown, waitUp := r.down.start(ctx), r.up.start(ctx)
	var wg sync.WaitGroup
	wg.Go(r.toServer)
	wg.Go(r.toClient)
	wg.Wait()
	waitDown()
	waitUp()
	if r.up.cause != nil {
		return errors.Join(r.down.cause, &ServerError{r.up.cause})
	}
	return r.down.cause
}

// A ServerError says why a relay lost its server: a *CloseError if the server, or
// the system in its place, ended the connection; ErrTooBig if it sent more than is
// read; else what went wrong.
type ServerError struct{ Err error }

// Error implements error.
func (e *ServerError) Error() string { return "connection to the server: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *ServerError) Unwrap() error { return e.Err }

type relay struct {
	down *Conn // to the client
	up   *Conn // to the server

	mu      sync.Mutex    // guards what follows
	asked   int           // requests without an answer
	settled chan struct{} // closed when there are none left; nil: nobody wants to know
}

// toServer carries what the client says.
func (r *relay) toServer() {
	err := r.down.forward(r.up, func(frame []byte) {
		if m, kind := parse(frame); kind == garbage || kind != response && m.id != nil {
			r.count(1)
		}
	})
	if !errors.Is(err, io.EOF) {
		r.down.end(statusOf(err), "", err, 0)
		r.up.end(StatusGoingAway, "", nil, closeTime)
		return
	}
	r.down.ended.Store(true)
	if _, open := r.down.t.(*lines); open {
		limit := time.NewTimer(drainTime)
		defer limit.Stop()
		select {
		case <-r.allSettled():
		case <-limit.C:
		case <-r.up.out.gone:
		}
	}
	r.up.end(StatusNormal, "", nil, r.up.o.WriteTimeout)
}

// answerHead is how answers begin, as this package writes them.
var answerHead = []byte(`{"id":`)

// toClient carries what the server says.
func (r *relay) toClient() {
	err := r.up.forward(r.down, func(frame []byte) {
		if bytes.HasPrefix(frame, answerHead) {
			r.count(-1)
		}
	})
	status, reason := StatusGoingAway, "the server is gone"
	if e, ok := errors.AsType[*CloseError](err); ok {
		status, reason = e.Status, e.Reason
	} else if errors.Is(err, ErrTooBig) {
		status, reason = StatusTooBig, "the server sent more than is relayed"
	}
	if r.down.ended.Load() || errors.Is(err, io.EOF) || errors.Is(err, ErrClosed) { // or it was the client
		err = nil
	}
	r.up.end(StatusGoingAway, "", err, 0)
	r.down.end(status, reason, nil, r.down.o.WriteTimeout)
}

func (r *relay) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked += n; r.asked <= 0 && r.settled != nil {
		close(r.settled)
		r.settled = nil
	}
}

func (r *relay) allSettled() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := make(chan struct{})
	if r.asked <= 0 {
		close(done)
	} else {
		r.settled = done
	}
	return done
}

// forward sends what one side says to the other, until one of them has ended. It
// returns why nothing more is read, or ErrClosed if it was the other.
func (c *Conn) forward(to *Conn, look func(frame []byte)) error {
	for {
		f, err := c.t.Read()
		if err != nil {
			return err
		}
		c.heard()
		look(f)
		if err := to.Send(context.Background(), bytes.Clone(f)); err != nil {
			return err
		}
	}
}
