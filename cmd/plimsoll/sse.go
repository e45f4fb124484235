package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxSSELine bounds one line of an event stream: a frame of 16 MiB and its field
// name fit.
const maxSSELine = 17 << 20

// A sseEvent is one dispatched event of a stream.
type sseEvent struct {
	id   string // empty if the event has none of its own
	data []byte
}

// sseEvents reads a text/event-stream until it ends or breaks. An event that the
// end cuts off is dropped, as the format asks; the error pair comes last and is
// left out at a clean end.
func sseEvents(r io.Reader) iter.Seq2[sseEvent, error] {
	return func(yield func(sseEvent, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		for {
			ev, err := nextEvent(br)
			if errors.Is(err, io.EOF) || !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// nextEvent reads up to the end of the next event that has data.
func nextEvent(br *bufio.Reader) (sseEvent, error) {
	var ev sseEvent
	var data [][]byte
	for {
		line, err := readLine(br)
		switch {
		case err != nil:
			return sseEvent{}, err
		case len(line) == 0 && data == nil:
			ev = sseEvent{}
			continue
		case len(line) == 0:
			ev.data = bytes.Join(data, []byte("\n"))
			return ev, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			data = append(data, value)
		case "id":
			ev.id = string(value)
		}
	}
}

// readLine returns the next line without its end in memory of its own. A line
// without an end is io.EOF.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxSSELine:
			return nil, fmt.Errorf("read events: a line is longer than %d bytes", maxSSELine)
		}
	}
}
