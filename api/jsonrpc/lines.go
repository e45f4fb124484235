package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// Lines returns a transport of one frame a line, such as standard input and output.
// A line ends with a line feed; a carriage return before it is passed over, and so
// are empty lines.
//
// A line of more than MaxFrame does not end the connection: the reader passes over
// it, and gives what is no JSON in its place.
//
// closer is called once; it makes calls of r and w that wait return. If nothing can,
// as with a standard input that blocks, it is nil: then a goroutine each that waits
// for r or w may be left behind by Close, until the next byte.
func Lines(r io.Reader, w io.Writer, closer func() error) Transport {
	l := &lines{w: w, closer: closer}
	if closer == nil {
		gone := make(chan struct{})
		l.closer = func() error { close(gone); return nil }
		r, l.w = &leaver{call: r.Read, gone: gone}, &leaver{call: w.Write, gone: gone}
	}
	l.r = bufio.NewReaderSize(r, pieceBytes)
	return l
}

// Lingering makes t, which Lines returned, outlast its reader: when the client has
// ended what it says and everything is answered, the connection ends only once
// wait has returned, so that what requests set off can still be told. The context
// ends when nobody can be told any more.
func Lingering(t Transport, wait func(context.Context)) Transport {
	t.(*lines).wait = wait
	return t
}

type lines struct {
	r      *bufio.Reader
	wait   func(context.Context) // see Lingering; may be nil
	w      io.Writer
	closer func() error
	close  sync.Once
	out    []byte // Write's
}

// overlong stands for a line that was passed over. It is no JSON.
var overlong = []byte("a line of more than MaxFrame")

// Read implements Transport.
func (l *lines) Read() ([]byte, error) {
	for {
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > MaxFrame {
			return overlong, nil
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}

// next returns the next line, with what ends it.
func (l *lines) next() ([]byte, error) {
	var long []byte // what did not fit into the reader
	over := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(long)+len(part) > MaxFrame+len("\r\n") {
			over, long = true, nil
		}
		last := err == nil || errors.Is(err, io.EOF) && len(long)+len(part) > 0
		switch {
		case over && (last || errors.Is(err, io.EOF)):
			return overlong, nil
		case last && long == nil:
			return part, nil
		case last:
			return append(long, part...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case !over:
			long = append(long, part...)
		}
	}
}

// Write implements Transport.
func (l *lines) Write(frame []byte) error { return l.writeBatch([][]byte{frame}, func() {}) }

func (l *lines) writeBatch(frames [][]byte, progress func()) error {
	defer func() {
		if cap(l.out) > keptBuffer {
			l.out = nil
		}
	}()
	l.out = l.out[:0]
	for _, f := range frames {
		at := len(l.out)
		l.out = append(l.out, f...)
		for i := bytes.IndexByte(l.out[at:], '\n'); i >= 0; i = bytes.IndexByte(l.out[at:], '\n') {
			l.out[at+i] = ' ' // which is the same between the tokens of JSON
			at += i
		}
		l.out = append(l.out, '\n')
	}
	for rest := l.out; len(rest) > 0; progress() {
		n, err := l.w.Write(rest[:min(pieceBytes, len(rest))])
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// Close implements Transport.
func (l *lines) Close(int, string) (err error) {
	l.close.Do(func() { err = l.closer() })
	return err
}

// A leaver makes calls that can be left. It is used by one goroutine.
type leaver struct {
	call func([]byte) (int, error)
	gone chan struct{}
	buf  []byte // the call's: who left must not see it change, nor change it
}

type called struct {
	n   int
	err error
}

// Read implements io.Reader.
func (l *leaver) Read(p []byte) (int, error) {
	l.buf = sized(l.buf, len(p))
	n, err := l.do(l.buf)
	return copy(p, l.buf[:n]), err
}

// Write implements io.Writer.
func (l *leaver) Write(p []byte) (int, error) {
	l.buf = sized(l.buf, len(p))
	copy(l.buf, p)
	return l.do(l.buf)
}

func (l *leaver) do(buf []byte) (int, error) {
	select {
	case <-l.gone:
		return 0, ErrClosed
	default:
	}
	done := make(chan called, 1)
	go func() {
		n, err := l.call(buf)
		done <- called{n, err}
	}()
	select {
	case c := <-done:
		return c.n, c.err
	case <-l.gone:
		return 0, ErrClosed
	}
}

func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// linger is the end of drain.
func (c *Conn) linger() {
	l, ok := c.t.(*lines)
	if !ok || l.wait == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.out.gone:
			cancel()
		case <-c.out.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	l.wait(ctx)
}
