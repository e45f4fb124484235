package jsonrpc

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// Lines returns a transport of one frame a line. Lines end with a line feed, with
// or without a carriage return before it; empty ones are passed over. closer makes
// a Read of r and a Write of w that are waiting return; it is called once.
//
// A line of more than MaxFrame does not end the connection: it is passed over and
// read as one that is no JSON.
func Lines(r io.Reader, w io.Writer, closer func() error) Transport {
	return &lines{r: bufio.NewReaderSize(r, 4096), w: w, closer: closer}
}

type lines struct {
	r      *bufio.Reader
	w      io.Writer
	closer func() error
	close  sync.Once
	line   []byte // the last one that did not fit into r
	out    []byte
}

// tooLong stands for a line that is not kept. It is no JSON.
var tooLong = []byte("line too long")

// Read implements Transport.
func (l *lines) Read() ([]byte, error) {
	for {
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}

func (l *lines) next() ([]byte, error) {
	l.line = nil
	skip := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.line)+len(part) > MaxFrame+2 {
			skip, l.line = true, nil
		}
		switch {
		case err == nil && skip:
			return tooLong, nil
		case err == nil && l.line == nil:
			return part, nil
		case err == nil || err == io.EOF && len(l.line)+len(part) > 0:
			return append(l.line, part...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case !skip:
			l.line = append(l.line, part...)
		}
	}
}

// Write implements Transport.
func (l *lines) Write(frame []byte) error {
	l.out = append(append(l.out[:0], frame...), '\n')
	_, err := l.w.Write(l.out)
	return err
}

// Close implements Transport.
func (l *lines) Close(int, string) (err error) {
	l.close.Do(func() { err = l.closer() })
	return err
}
