// Package importer reads the session files of other programs into transcripts.
//
// It sniffs the format from the content, never from the file's name. It keeps
// the order of the file, loses nothing silently (what it skips is counted or
// warned about, with line numbers) and holds no more than the decoded session in
// memory. Ids are taken from the file where it has them and derived from its
// content where not, so that importing the same bytes yields the same session.
package importer

import (
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Session is what a file says.
type Session struct {
	Source     string    `json:"source"`   // claude-code | pi | plimsoll
	SourceID   string    `json:"sourceId"` // the program's own session id
	Hash       string    `json:"hash"`     // lower-case hex sha256 of the uncompressed bytes
	Title      string    `json:"title"`
	Cwd        string    `json:"cwd"`
	Model      string    `json:"model"`
	StartedAt  time.Time `json:"startedAt"`
	EndedAt    time.Time `json:"endedAt"`
	Transcript transcript.Transcript
	Blobs      map[string][]byte // images by sha256, referred to by parts
	Warnings   []Warning
	Skipped    map[string]int // records left out on purpose, by type
}

// A Warning is something in the file that could not be read as meant.
type Warning struct {
	Line   int    `json:"line"` // from 1; 0 if it concerns the whole file
	Reason string `json:"reason"`
}
