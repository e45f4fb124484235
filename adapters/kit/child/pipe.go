package child

import (
	"context"
	"sync"
)

// Pipe returns two ends of a conversation without a process. What one sends the other
// gets; when one is closed or killed, the other reads what was sent before and then
// gets ErrClosed.
func Pipe() (a, b Conn) {
	ab, ba := make(chan []byte, 64), make(chan []byte, 64)
	done := &ending{gone: make(chan struct{})}
	return &pipe{in: ba, out: ab, end: done}, &pipe{in: ab, out: ba, end: done}
}

// ending is shared by both ends.
type ending struct {
	once sync.Once
	gone chan struct{}
}

type pipe struct {
	in  <-chan []byte
	out chan<- []byte
	end *ending
}

// Next implements Conn.
func (p *pipe) Next() ([]byte, error) {
	select {
	case line := <-p.in:
		return line, nil
	case <-p.end.gone:
	}
	select {
	case line := <-p.in:
		return line, nil
	default:
		return nil, ErrClosed
	}
}

// Send implements Conn.
func (p *pipe) Send(ctx context.Context, line []byte) error {
	select {
	case <-p.end.gone:
		return ErrClosed
	default:
	}
	select {
	case p.out <- append([]byte(nil), line...):
		return nil
	case <-p.end.gone:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill implements Conn.
func (p *pipe) Kill() { p.end.once.Do(func() { close(p.end.gone) }) }

// Ending implements Conn.
func (p *pipe) Ending() bool {
	select {
	case <-p.end.gone:
		return true
	default:
		return false
	}
}

// Close implements Conn.
func (p *pipe) Close() error {
	p.Kill()
	return nil
}
