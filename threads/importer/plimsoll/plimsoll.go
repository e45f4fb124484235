// Package plimsoll writes and reads the lossless export of a thread.
//
// An export is JSONL in UTF-8. The first line is a header,
//
//	{"plimsoll":"export","version":1,"threadId":…,…}
//
// then one line an event, in order, then one line a blob, then a line with the
// counts, so that a file that was cut off is recognised:
//
//	{"type":"…","at":<unix milliseconds>,"data":<any JSON>}
//	{"blob":"<sha256>","base64":"…"}
//	{"end":{"events":<n>,"blobs":<n>}}
//
// What events mean is not known here. The data of an event comes back byte for
// byte: data that does not fit on a line as it is travels as "raw64".
//
// Reading is strict, because events build on each other: damage in the middle is
// an error that names the line. A file that ends early yields what it has, and a
// warning. A version that this package does not know is refused.
package plimsoll

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Version is the version of the format that Write writes; Read reads it and
// those before it.
const Version = 1

// An Event is one line of an export.
type Event = session.Event

// A Header describes the exported thread.
type Header struct {
	ThreadID    string          `json:"threadId"`
	Title       string          `json:"title"`
	Cwd         string          `json:"cwd"`
	Provider    string          `json:"provider"`
	Model       string          `json:"model"`
	CreatedAtMs int64           `json:"createdAtMs"`
	UpdatedAtMs int64           `json:"updatedAtMs"`
	Extra       json.RawMessage `json:"extra,omitempty"` // what the writer wants back; not interpreted
}

// firstLine is the header as it is written.
type firstLine struct {
	Plimsoll string `json:"plimsoll"`
	Version  int    `json:"version"`
	Header
}

// A File is an export in memory.
type File struct {
	Header   Header
	Events   []Event
	Blobs    map[string][]byte // by lower-case hex sha256
	Warnings []session.Warning
}

// Write writes an export. The first error of an iterator ends it; what was
// written until then has no end line and reads as cut off.
func Write(w io.Writer, h Header, events iter.Seq2[Event, error], blobs iter.Seq2[[]byte, error]) error {
	out := bufio.NewWriter(w)
	if err := writeAll(out, h, events, blobs); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

func writeAll(out *bufio.Writer, h Header, events iter.Seq2[Event, error], blobs iter.Seq2[[]byte, error]) error {
	first, err := json.Marshal(firstLine{"export", Version, h})
	if err != nil {
		return err
	}
	if err := writeLine(out, first); err != nil {
		return err
	}
	end := counts{}
	for ev, err := range events {
		if err != nil {
			return err
		}
		if err := writeLine(out, eventLine(ev)); err != nil {
			return err
		}
		end.Events++
	}
	for data, err := range blobs {
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		if err := writeLine(out, fmt.Appendf(nil, `{"blob":%q,"base64":%q}`, hex.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(data))); err != nil {
			return err
		}
		end.Blobs++
	}
	return writeLine(out, fmt.Appendf(nil, `{"end":{"events":%d,"blobs":%d}}`, end.Events, end.Blobs))
}

func writeLine(out *bufio.Writer, line []byte) error {
	_, err := out.Write(append(line, '\n'))
	return err
}

// eventLine encodes an event by hand: json.Marshal would rewrite its data.
func eventLine(ev Event) []byte {
	kind, err := json.Marshal(ev.Type)
	if err != nil { // a string always encodes
		panic(err)
	}
	line := append([]byte(`{"type":`), kind...)
	line = fmt.Appendf(line, `,"at":%d`, ev.AtMs)
	switch {
	case ev.Data == nil:
	case travelsAsIs(ev.Data):
		line = append(append(line, `,"data":`...), ev.Data...)
	default:
		line = fmt.Appendf(line, `,"raw64":%q`, base64.StdEncoding.EncodeToString(ev.Data))
	}
	return append(line, '}')
}

func travelsAsIs(data []byte) bool {
	return json.Valid(data) && !bytes.ContainsAny(data, "\r\n") && len(bytes.TrimSpace(data)) == len(data)
}

type counts struct {
	Events int `json:"events"`
	Blobs  int `json:"blobs"`
}

// line is any line but the first.
type line struct {
	Type   *string         `json:"type"`
	At     int64           `json:"at"`
	Data   json.RawMessage `json:"data"`
	Raw64  *[]byte         `json:"raw64"`
	Blob   *string         `json:"blob"`
	Base64 []byte          `json:"base64"`
	End    *counts         `json:"end"`
}

// Read reads an export.
func Read(r io.Reader, lim session.Limits) (*File, error) {
	lines := &lineReader{in: bufio.NewReader(r), limit: lim.WithDefaults().MaxRecord}
	f := &File{Events: []Event{}, Blobs: map[string][]byte{}, Warnings: []session.Warning{}}
	if err := f.first(lines); err != nil {
		return nil, err
	}
	for {
		raw, err := lines.next()
		if errors.Is(err, io.EOF) {
			return f, f.endsEarly(lines.n, "the end line is missing")
		}
		if err != nil {
			return nil, err
		}
		ended, err := f.line(raw)
		switch {
		case err != nil && lines.last():
			return f, f.endsEarly(lines.n, err.Error())
		case err != nil:
			return nil, fault.Wrap(fault.Invalid, err, "line %d of the export is damaged", lines.n)
		case ended && !lines.last():
			return nil, fault.New(fault.Invalid, "the export goes on after its end in line %d", lines.n)
		case ended:
			return f, nil
		}
	}
}

// endsEarly makes a cut-off file a warning, unless there is nothing in it.
func (f *File) endsEarly(n int, why string) error {
	if len(f.Events) == 0 {
		return fault.New(fault.Invalid, "the export ends before its first event")
	}
	f.Warnings = append(f.Warnings, session.Warning{Line: n, Reason: "the export ends early: " + why})
	return nil
}

func (f *File) first(lines *lineReader) error {
	raw, err := lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var first firstLine
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), &first); err != nil || first.Plimsoll != "export" {
		return fault.New(fault.Invalid, "the file does not begin with the header of a plimsoll export")
	}
	if first.Version < 1 || first.Version > Version {
		return fault.New(fault.Invalid, "the export has version %d of the format; this program reads versions 1 to %d", first.Version, Version)
	}
	f.Header = first.Header
	return nil
}

// line takes one line and reports whether it was the last one.
func (f *File) line(raw []byte) (ended bool, err error) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return false, err
	}
	switch {
	case l.Type != nil:
		ev := Event{Type: *l.Type, AtMs: l.At, Data: l.Data}
		if l.Raw64 != nil {
			ev.Data = *l.Raw64
		}
		f.Events = append(f.Events, ev)
		return false, nil
	case l.Blob != nil:
		sum := sha256.Sum256(l.Base64)
		if hash := hex.EncodeToString(sum[:]); hash != *l.Blob {
			return false, fmt.Errorf("blob %.64s has the hash %s", *l.Blob, hash)
		}
		f.Blobs[*l.Blob] = l.Base64
		return false, nil
	case l.End != nil:
		if l.End.Events != len(f.Events) || l.End.Blobs < len(f.Blobs) {
			return false, fmt.Errorf("the end line counts %d events and %d blobs, the file has %d and %d", l.End.Events, l.End.Blobs, len(f.Events), len(f.Blobs))
		}
		return true, nil
	}
	return false, errors.New("neither an event nor a blob nor the end")
}

// ReadSession reads an export as a Session whose Events are to be folded.
func ReadSession(in *bufio.Reader, lim session.Limits) (*session.Session, error) {
	f, err := Read(in, lim)
	if err != nil {
		return nil, err
	}
	h := f.Header
	s := &session.Session{
		Source: session.SourcePlimsoll, SourceID: h.ThreadID, Title: h.Title, Cwd: h.Cwd, Model: h.Model,
		StartedAt: transcript.FromMillis(h.CreatedAtMs), EndedAt: transcript.FromMillis(h.UpdatedAtMs),
		Transcript: transcript.Transcript{Turns: []transcript.Turn{}, Items: []transcript.Item{}, Boundaries: []transcript.Boundary{}},
		Events:     f.Events, Blobs: f.Blobs, Warnings: f.Warnings, Skipped: map[string]int{},
	}
	return s, nil
}

// lineReader reads lines up to a limit.
type lineReader struct {
	in    *bufio.Reader
	limit int
	n     int // of the line that next returned, from 1
}

func (l *lineReader) next() ([]byte, error) {
	l.n++
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > l.limit:
			return nil, fault.New(fault.TooLarge, "line %d of the export is longer than %d bytes, which is the limit", l.n, l.limit)
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case isEnd(err) && len(line) > 0:
			return line, nil
		case isEnd(err):
			return nil, io.EOF
		default:
			return nil, err
		}
	}
}

// last reports whether nothing follows the line that next returned.
func (l *lineReader) last() bool {
	_, err := l.in.Peek(1)
	return err != nil && isEnd(err)
}

// isEnd reports whether err ends the text: the end of the file, or of what its
// damaged compression lets through.
func isEnd(err error) bool {
	_, damaged := errors.AsType[*session.DamagedError](err)
	return damaged || errors.Is(err, io.EOF)
}
