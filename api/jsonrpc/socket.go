package jsonrpc

import (
	"net"
	"sync"
	"time"
)

// A socket is a connection that, while it is corked, gathers what is written, so
// that many small frames are one write. It tells of each piece that it got rid of:
// a large frame to a slow client is not mistaken for one that nobody takes.
type socket struct {
	net.Conn

	mu       sync.Mutex // guards what follows, and orders writes
	corked   bool
	buf      *[]byte // of a pool, only while it is corked
	progress func()
	err      error
}

const pieceBytes = 64 << 10

var gathered = sync.Pool{New: func() any { b := make([]byte, 0, pieceBytes); return &b }}

// cork has progress called for what is written until uncork. It gathers that if
// there is something to be gained.
func (s *socket) cork(progress func(), gather bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.corked, s.progress = gather, progress
	if gather {
		s.buf = gathered.Get().(*[]byte)
	}
}

// uncork writes what was gathered.
func (s *socket) uncork() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.flush()
	if s.buf != nil {
		gathered.Put(s.buf)
	}
	s.buf, s.corked, s.progress = nil, false, nil
	return err
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.corked {
		return s.write(p)
	}
	if len(*s.buf)+len(p) > pieceBytes {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > pieceBytes {
		return s.write(p)
	}
	*s.buf = append(*s.buf, p...)
	return len(p), s.err
}

func (s *socket) flush() error {
	if s.buf == nil || len(*s.buf) == 0 {
		return s.err
	}
	_, err := s.write(*s.buf)
	*s.buf = (*s.buf)[:0]
	return err
}

// write writes piece by piece.
func (s *socket) write(p []byte) (n int, err error) {
	for s.err == nil && n < len(p) {
		var m int
		m, s.err = s.Conn.Write(p[n:min(n+pieceBytes, len(p))])
		n += m
		if s.progress != nil && s.err == nil {
			s.progress()
		}
	}
	return n, s.err
}

// SetWriteDeadline implements net.Conn, and does nothing: it is called for each
// frame, and a deadline for one would be one for all that was gathered. Who closes
// the connection makes a Write return.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// closeWrite tells the other end that nothing more comes.
func (s *socket) closeWrite() {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the connection is closed soon anyway
	}
}
