package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Record is one JSON object of a file.
type Record struct {
	Line    int    // of its first byte, from 1
	Ordinal int    // from 0, counting unreadable records too, but not blank lines
	Raw     []byte // valid UTF-8 without lone surrogates; may be kept
}

// Records reads the JSON objects of a file whose records are meant to be one
// per line. Several objects on one line are several records. What cannot be
// read is reported through the warn function and reading goes on behind it.
type Records struct {
	in      *bufio.Reader
	limit   int
	isRec   func([]byte) bool
	warn    func(line int, format string, args ...any)
	line    int
	ordinal int
	ready   []Record // the records of the current line
	budget  int      // bytes that may still be scanned to find records behind damage
	err     error
}

// NewRecords returns a reader of in. isRecord says whether an object that was
// found behind damage is a record of the format and not a piece of one.
func NewRecords(in *bufio.Reader, lim Limits, isRecord func([]byte) bool, warn func(line int, format string, args ...any)) *Records {
	lim = lim.WithDefaults()
	return &Records{in: in, limit: lim.MaxRecord, isRec: isRecord, warn: warn, budget: 4 * lim.MaxRecord}
}

// Next returns the next record, io.EOF at the end, or the error of the input.
// A decompression error is reported as a warning and ends the file.
func (s *Records) Next() (Record, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return Record{}, s.err
		}
		line, long, err := s.readLine()
		if err != nil {
			s.err = s.endOfInput(err)
		}
		if long {
			s.ordinal++
			s.warn(s.line, "line is longer than the limit of %d bytes and was skipped", s.limit)
			continue
		}
		s.split(line)
	}
	r := s.ready[0]
	s.ready = s.ready[1:]
	clean, n := cleanUnicode(r.Raw)
	if n > 0 {
		s.warn(r.Line, "text that is not valid Unicode was replaced by U+FFFD in %d places", n)
	}
	r.Raw = clean
	return r, nil
}

// endOfInput turns damage of the compressed stream into a warning and the end.
func (s *Records) endOfInput(err error) error {
	if d, ok := errors.AsType[*DamagedError](err); ok {
		s.warn(0, "the compressed data is damaged or ends early (%v); what was read before it is kept", d.Err)
		return io.EOF
	}
	return err
}

// DamagedError marks an error of the compressed stream itself, as opposed to
// one of the device it is read from.
type DamagedError struct{ Err error }

// Error implements error.
func (e *DamagedError) Error() string { return "decompress: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// readLine returns the next line without its end in memory of its own. A line
// over the limit is read to its end but not returned.
func (s *Records) readLine() (line []byte, long bool, err error) {
	s.line++
	for {
		var part []byte
		part, err = s.in.ReadSlice('\n')
		if !long {
			line = append(line, part...)
			if len(line) > s.limit {
				line, long = nil, true
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}

// split appends the records of a line to ready.
func (s *Records) split(line []byte) {
	rest := bytes.TrimSpace(line)
	if s.line == 1 {
		rest = bytes.TrimSpace(bytes.TrimPrefix(rest, []byte("\xef\xbb\xbf")))
	}
	if len(rest) > 0 && rest[0] == '{' && json.Valid(rest) {
		s.emit(rest)
		return
	}
	for len(rest) > 0 {
		raw, n, err := decodeObject(rest)
		if err == nil {
			s.emit(raw)
			rest = bytes.TrimSpace(rest[n:])
			continue
		}
		s.ordinal++
		next := s.resync(rest)
		if next < 0 {
			s.warn(s.line, "%s was skipped: %v", describe(rest), err)
			return
		}
		s.warn(s.line, "%d bytes before a record were skipped: %v", next, err)
		rest = rest[next:]
	}
}

func (s *Records) emit(raw []byte) {
	s.ready = append(s.ready, Record{Line: s.line, Ordinal: s.ordinal, Raw: raw})
	s.ordinal++
}

// resync finds a record behind damage, as when a program was killed in the
// middle of a line and its successor appended to it. A piece of the damaged
// record must not be taken for one: it has to end where the line ends or where
// another object begins, and to look like a record of the format.
func (s *Records) resync(rest []byte) int {
	for i := 1; s.budget > 0; i++ {
		k := bytes.Index(rest[i:], []byte(`{"`))
		if k < 0 {
			return -1
		}
		i += k
		raw, n, err := decodeObject(rest[i:])
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			s.budget -= int(syntax.Offset)
			continue
		}
		if err != nil {
			s.budget -= len(rest) - i
			continue
		}
		s.budget -= n
		after := bytes.TrimSpace(rest[i+n:])
		if (len(after) == 0 || after[0] == '{') && s.isRec(raw) {
			return i
		}
	}
	return -1
}

// decodeObject decodes the JSON object that b begins with and says where it ends.
func decodeObject(b []byte) (json.RawMessage, int, error) {
	switch {
	case b[0] == 0:
		return nil, 0, errors.New("NUL bytes instead of JSON")
	case b[0] != '{':
		return nil, 0, errors.New("not a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, 0, errCutOff
		}
		return nil, 0, err
	}
	return raw, int(dec.InputOffset()), nil
}

var errCutOff = errors.New("the record is cut off")

func describe(b []byte) string {
	return fmt.Sprintf("a record of %d bytes", len(b))
}
