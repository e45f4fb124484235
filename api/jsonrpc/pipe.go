package jsonrpc

import (
	"bytes"
	"sync"
)

// Pipe returns the two ends of a connection in memory. It has no buffer: Write
// returns when the other end has read, or either is closed; a frame is read whole.
// Its ends wait on channels only, so it can be used under testing/synctest.
func Pipe() (client, server Transport) {
	a, b := make(chan []byte), make(chan []byte)
	x, y := &end{closed: make(chan struct{})}, &end{closed: make(chan struct{})}
	return &pipe{in: a, out: b, own: x, other: y}, &pipe{in: b, out: a, own: y, other: x}
}

type end struct {
	once   sync.Once
	closed chan struct{}
	status int    // written before closed is closed
	reason string // the same
}

type pipe struct {
	in, out    chan []byte
	own, other *end
}

// Read implements Transport.
func (p *pipe) Read() ([]byte, error) {
	select {
	case f := <-p.in:
		return f, nil
	case <-p.own.closed:
		return nil, ErrClosed
	case <-p.other.closed:
		return nil, &CloseError{p.other.status, p.other.reason}
	}
}

// Write implements Transport.
func (p *pipe) Write(frame []byte) error {
	select {
	case p.out <- bytes.Clone(frame):
		return nil
	case <-p.own.closed:
		return ErrClosed
	case <-p.other.closed:
		return &CloseError{p.other.status, p.other.reason}
	}
}

// Close implements Transport.
func (p *pipe) Close(status int, reason string) error {
	p.own.once.Do(func() {
		p.own.status, p.own.reason = status, reason
		close(p.own.closed)
	})
	return nil
}
