// Package importer reads the session files of other programs into transcripts.
//
// It sniffs the format from the content, never from the file's name. It keeps
// the order of the file, loses nothing silently (what it skips is counted or
// warned about, with line numbers) and holds no more than the decoded session in
// memory. Ids are taken from the file where it has ones that the API takes, and
// derived from its content where not, so that importing the same bytes yields the
// same session.
//
// Read is the entry point. The readers of the single formats are in claudecode,
// pi and plimsoll; the types that they share with this package are in session.
// A file of this program's own export yields Session.Events, which only the
// package threads can fold, and an empty Transcript.
package importer

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer/claudecode"
	"github.com/plimsoll-dev/plimsoll/threads/importer/pi"
	"github.com/plimsoll-dev/plimsoll/threads/importer/plimsoll"
	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
)

// The types of package session, under the names that callers use.
type (
	Session = session.Session // what a file says
	Warning = session.Warning // something in the file that could not be read as meant
	Event   = session.Event   // one line of an export of this program
	Limits  = session.Limits  // what reading may cost; the zero value is the default
)

// Read reads a session file in any of the supported formats, plain or gzipped.
// Damage in the middle costs the damaged records only and is warned about. A
// file that is none of ours, is over a limit, or holds no readable message is a
// *fault.Error.
func Read(r io.Reader, lim Limits) (*Session, error) {
	lim = lim.WithDefaults()
	sum := sha256.New()
	text, err := open(r, lim, sum)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(text, sniffSize)
	head, err := in.Peek(sniffSize)
	if err != nil && !errors.Is(err, io.EOF) && !isDamage(err) {
		return nil, readError(err)
	}
	read, err := readerOf(head)
	if err != nil {
		return nil, err
	}
	s, err := read(in, lim)
	if err != nil {
		return nil, readError(err)
	}
	s.Hash = hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// readerOf picks the reader for a file that begins with head.
func readerOf(head []byte) (func(*bufio.Reader, Limits) (*Session, error), error) {
	format, err := sniff(head)
	if err != nil {
		return nil, err
	}
	switch format {
	case session.SourceClaudeCode:
		return claudecode.Read, nil
	case session.SourcePi:
		return pi.Read, nil
	default:
		return plimsoll.ReadSession, nil
	}
}

// readError gives errors of the device a code; those of the readers have one.
func readError(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "read session file")
}

func isDamage(err error) bool {
	_, ok := errors.AsType[*session.DamagedError](err)
	return ok
}

// open returns the uncompressed text of r, which is bounded by lim and adds up
// in sum as it is read.
func open(r io.Reader, lim Limits, sum hash.Hash) (io.Reader, error) {
	raw := &counter{r: r}
	in := bufio.NewReader(raw)
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	text := &guard{r: in, lim: lim}
	if string(magic) == "\x1f\x8b" {
		zip, err := gzip.NewReader(in)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the file begins like gzip but cannot be decompressed")
		}
		text.r, text.raw = zip, raw
	}
	return io.TeeReader(text, sum), nil
}

// counter counts the bytes read from a device and remembers its error, so that
// it can be told from one of the decompressor.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// guard ends reading when the text becomes larger than the limits allow.
type guard struct {
	r   io.Reader
	raw *counter // of the compressed input; nil if there is no compression
	lim Limits
	n   int64
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	g.n += int64(n)
	if g.n > g.lim.MaxBytes {
		return 0, fault.New(fault.TooLarge, "the session file has more than %d bytes of text, which is the limit", g.lim.MaxBytes)
	}
	if g.raw == nil {
		return n, err
	}
	if g.n > g.lim.RatioFloor && g.n > g.lim.MaxRatio*g.raw.n {
		return 0, fault.New(fault.TooLarge, "the session file expands more than %d:1, which is the limit", g.lim.MaxRatio)
	}
	if err != nil && !errors.Is(err, io.EOF) && g.raw.err == nil {
		err = &session.DamagedError{Err: err}
	}
	return n, err
}
