// Package session is what all importers share: the Session they produce, the
// limits they keep, the reader that takes a damaged JSONL file apart (Records)
// and the Builder that puts a transcript together.
//
// It exists so that the readers of the single formats and the package importer,
// which chooses between them, can use the same types without a cycle. Callers
// outside threads/importer use the package importer.
//
// Guarantees of the Builder: ids of items and turns are unique and such as the
// API takes (at most 64 letters, digits, _ and -; call ids stay as they are);
// every boundary renders (transcript.Context of every epoch succeeds); no
// boundary separates a call from its result; the same input yields the same
// Session; and the items read from a cut-off file are a prefix of the items of
// the whole file, as long as the format is linear.
//
// Nothing of this is promised for an export of this program, which the Builder
// has no part in: a Session of one has Events and an empty Transcript, and who
// folds the events has to check what they say.
package session

import (
	"encoding/json"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The sources a Session can come from.
const (
	SourceClaudeCode = "claude-code"
	SourcePi         = "pi"
	SourcePlimsoll   = "plimsoll"
)

// A Session is what a file says.
type Session struct {
	Source     string    `json:"source"`   // claude-code | pi | plimsoll
	SourceID   string    `json:"sourceId"` // the program's own session id
	Hash       string    `json:"hash"`     // lower-case hex sha256 of the uncompressed bytes
	Title      string    `json:"title"`
	Cwd        string    `json:"cwd"`
	Model      string    `json:"model"`
	StartedAt  time.Time `json:"startedAt"` // the earliest time in the file
	EndedAt    time.Time `json:"endedAt"`   // the latest
	Transcript transcript.Transcript
	Events     []Event           // for an export of this program, which the threads package folds; Transcript is empty then
	Blobs      map[string][]byte // images by sha256, referred to by parts
	Warnings   []Warning
	Skipped    map[string]int // records left out on purpose, by type
}

// An Event is one line of an export of this program. This package does not know
// what it means.
type Event struct {
	Type string          `json:"type"`
	AtMs int64           `json:"atMs"`
	Data json.RawMessage `json:"data"`
}

// A Warning is something in the file that could not be read as meant.
type Warning struct {
	Line   int    `json:"line"` // from 1; 0 if it concerns the whole file
	Reason string `json:"reason"`
}

// Limits bound what reading a file may cost. The zero value of a field stands
// for its default.
type Limits struct {
	MaxBytes    int64 // uncompressed size of the file; default 512 MiB
	MaxRecord   int   // length of one line; default 64 MiB
	MaxWarnings int   // warnings kept, the others are counted; default 1,000
	MaxRatio    int64 // uncompressed : compressed, above RatioFloor; default 100
	RatioFloor  int64 // uncompressed size from which MaxRatio holds; default 16 MiB
}

// WithDefaults returns the limits with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 512 << 20
	}
	if l.MaxRecord <= 0 {
		l.MaxRecord = 64 << 20
	}
	if l.MaxWarnings <= 0 {
		l.MaxWarnings = 1000
	}
	if l.MaxRatio <= 0 {
		l.MaxRatio = 100
	}
	if l.RatioFloor <= 0 {
		l.RatioFloor = 16 << 20
	}
	return l
}
