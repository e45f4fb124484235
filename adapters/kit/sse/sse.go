// Package sse reads event streams, the text/event-stream format of the HTML
// standard, as model servers send them.
//
// Guarantees:
//
//   - lines may end with LF, CR or CRLF, in any mixture; a CR ends its line at
//     once, whether or not an LF is still to come, so that no event is held back;
//   - a line and an event may have any length up to a bound that the caller sets;
//     the time for a stream is linear in its bytes, whatever the pieces in which
//     they arrive, and memory is a small multiple of the largest event;
//   - an event that has begun and is not ended by a blank line is never passed off
//     as a whole one: it comes together with io.ErrUnexpectedEOF.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// ErrTooLarge is what Read fails with when a line or an event exceeds the bound.
var ErrTooLarge = errors.New("sse: an event is larger than allowed")

// An Event is one event of a stream.
type Event struct {
	Name string // of the event field; empty if there was none
	ID   string // the newest one of the stream: an event without its own keeps it
	Data []byte // the data lines joined by LF; valid until the next event is asked for
}

// Read returns the events of a stream in order. max, which must be positive,
// bounds each line and the data of each event, in bytes. The sequence ends at the
// end of r, or with an error as its last pair. At an end in the middle of an event
// that error is io.ErrUnexpectedEOF, and with it comes what there was of the event:
// whether that is enough is for the caller to say, since some servers close right
// after their last line. An error of r comes as it is, after what was read before.
//
// What the standard has browsers ignore is ignored: comments, unknown fields,
// retry, ids that hold a NUL, and events without a data line.
func Read(r io.Reader, max int) iter.Seq2[Event, error] {
	if max <= 0 {
		panic("sse: the bound must be positive")
	}
	return func(yield func(Event, error) bool) {
		l := lines{r: r, max: max}
		var d decoder
		for {
			line, end, err := l.next()
			if err != nil {
				yield(Event{}, err)
				return
			}
			if len(line) == 0 && !end {
				if d.dispatch() && !yield(d.event, nil) {
					return
				}
				continue
			}
			if err := d.field(line, max); err != nil {
				yield(Event{}, err)
				return
			}
			if end {
				if d.begun {
					d.dispatch()
					yield(d.event, io.ErrUnexpectedEOF)
				}
				return
			}
		}
	}
}

// A decoder collects the fields of the next event.
type decoder struct {
	event Event  // the last one dispatched
	id    string // of the stream
	name  string
	data  []byte
	lines int  // of data
	begun bool // by any field that counts
}

// dispatch ends the event and reports whether there is one.
func (d *decoder) dispatch() bool {
	is := d.lines > 0
	d.event = Event{Name: d.name, ID: d.id, Data: d.data}
	d.name, d.data, d.lines, d.begun = "", d.data[:0], 0, false
	return is
}

// field takes one line that is not blank. A line that the end of the stream cut
// is taken as it is.
func (d *decoder) field(line []byte, max int) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if d.lines > 0 {
			d.data = append(d.data, '\n')
		}
		d.data = append(d.data, value...)
		d.lines++
	case "event":
		d.name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			d.id = string(value)
		}
	default:
		return nil
	}
	d.begun = true
	if len(d.data) > max {
		return fmt.Errorf("%w: its data exceeds %d bytes", ErrTooLarge, max)
	}
	return nil
}

// lines splits a stream.
type lines struct {
	r   io.Reader
	max int

	buf        []byte
	start, end int   // of what is read and not yet returned
	scanned    int   // bytes after start that are known to end no line
	afterCR    bool  // an LF that comes first belongs to the line before
	began      bool  // the beginning of the stream, where a BOM may be, is past
	err        error // of r: it counts once the lines before it are returned
	empty      int   // reads in a row that brought nothing
}

// bom may stand at the beginning of a stream.
var bom = []byte("\ufeff")

// next returns the next line without its end. It is valid until the next call.
// At the end of the stream it returns what is left, possibly nothing, and true.
func (l *lines) next() (line []byte, end bool, err error) {
	for {
		l.skip()
		if l.began {
			if i := bytes.IndexAny(l.buf[l.start+l.scanned:l.end], "\r\n"); i >= 0 {
				line = l.buf[l.start : l.start+l.scanned+i]
				l.afterCR = l.buf[l.start+len(line)] == '\r'
				l.start, l.scanned = l.start+len(line)+1, 0
				if len(line) > l.max {
					return nil, false, l.tooLong()
				}
				return line, false, nil
			}
			l.scanned = l.end - l.start
		}
		if l.end-l.start > l.max {
			return nil, false, l.tooLong()
		}
		switch {
		case l.err == nil || !l.began:
			l.fill()
		case errors.Is(l.err, io.EOF):
			return l.buf[l.start:l.end], true, nil
		default:
			return nil, false, l.err
		}
	}
}

func (l *lines) tooLong() error {
	return fmt.Errorf("%w: a line exceeds %d bytes", ErrTooLarge, l.max)
}

// skip drops the LF of a CRLF and the BOM at the beginning, as soon as they are
// there.
func (l *lines) skip() {
	unread := l.buf[l.start:l.end]
	if !l.began && (len(unread) >= len(bom) || !bytes.HasPrefix(bom, unread) || l.err != nil) {
		l.began = true
		if bytes.HasPrefix(unread, bom) {
			l.start += len(bom)
		}
	}
	if l.afterCR && l.start < l.end {
		l.afterCR = false
		if l.buf[l.start] == '\n' {
			l.start++
		}
	}
}

// Sizes and counts of reads.
const (
	firstBuffer = 4 << 10
	maxEmpty    = 100
)

// fill reads once. The unread bytes move to the front only if that frees half of
// the buffer, which otherwise doubles: so each byte is moved a bounded number of
// times on average.
func (l *lines) fill() {
	if l.end == len(l.buf) {
		if l.buf != nil && l.start > len(l.buf)/2 {
			copy(l.buf, l.buf[l.start:l.end])
		} else {
			grown := make([]byte, max(firstBuffer, 2*len(l.buf)))
			copy(grown, l.buf[l.start:l.end])
			l.buf = grown
		}
		l.start, l.end = 0, l.end-l.start
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end, l.err = l.end+n, err
	if l.empty++; n > 0 {
		l.empty = 0
	}
	if l.empty >= maxEmpty && err == nil {
		l.err = io.ErrNoProgress
	}
}
