// Package events is the journal: an append-only log of events, one stream per
// thread, that can be replayed and followed. It knows nothing about threads
// beyond their ids; what an event means is the business of package threads.
//
// Guarantees of every Journal (events/journaltest proves them):
//
//   - Durable before visible: when Append returns nil, the events, the thread's
//     info, blobs and the removal of open texts are all on disk, or none is.
//   - Seq is dense per thread: 1, 2, 3, …, assigned in the commit, never reused.
//   - Pos orders the events of all threads in commit order. It has holes.
//   - A cursor that cannot be served exactly is answered with a *Reset error,
//     never with a silent hole and never clamped.
//   - A Journal may be used from many goroutines. A caller that stops waiting
//     does not undo an append that was accepted.
//   - One failing append never takes others down with it, also when they share
//     a transaction.
//
// Trimming and deleting differ. A trimmed range is a hole, and reading across
// it is refused. A deleted thread reads as its deletion event, wherever one
// reads from, because that event says all there is left to know; its other
// events are gone from the all-threads order too.
//
// A Hub adds following: a backlog from the journal and then what happens,
// with the texts that are still being streamed.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// An Event is one fact. Data is JSON.
type Event struct {
	Seq    int64 // position in its thread, from 1
	Pos    int64 // position among all threads; for cursors only
	Thread string
	Type   string
	At     time.Time // millisecond precision, UTC
	Data   json.RawMessage
}

// A Blob is content stored once under the lower-case hex sha256 of its bytes.
// A thread keeps the blobs that its own appends carried until it is deleted; a
// blob that no thread keeps is gone. Nil Data keeps a blob that is stored
// already, for instance one that came with a forked thread.
type Blob struct {
	Hash string
	Data []byte
}

// An OpenText is the text streamed so far of an item that is not complete.
type OpenText struct {
	Item string
	Text string
}

// An Append is one transaction on one thread.
type Append struct {
	Thread string
	Expect int64   // the thread's head: 0 for a thread that does not exist yet
	Events []Event // Type, At and Data are used; at least one
	Info   json.RawMessage
	Blobs  []Blob
	Closed []string // open texts that end with this commit
	Delete bool     // afterwards only the last of Events remains of the thread; without Blobs
}

// ThreadInfo is what listings show of a thread, without reading its events.
type ThreadInfo struct {
	Thread    string
	JournalID string // random, made with the thread; part of its cursors
	Head      int64  // seq of its newest event
	HeadPos   int64
	Oldest    int64           // seq of the oldest event kept; 1 unless trimmed
	UpdatedAt time.Time       // of its newest event
	Deleted   bool            // only the deletion event remains
	Info      json.RawMessage // as set by the newest Append that had one
}

// A ListQuery selects threads, newest change first.
type ListQuery struct {
	BeforePos      int64 // HeadPos of the last one of the page before; 0 for the first page
	Limit          int   // at most this many; 0 means 100
	IncludeDeleted bool
}

// A Snapshot is a fold of a thread's events up to and including Seq. It is a
// cache: a snapshot of another Version, or none, means folding from the start.
type Snapshot struct {
	Seq     int64
	Version int
	Data    []byte
}

// A Doc is one searchable text. Ref says where it came from, in the caller's
// words, and is unique within the thread: indexing a Ref again replaces it.
type Doc struct {
	Ref  string
	Text string
}

// A Hit is a Doc that matched, best first.
type Hit struct {
	Ref     string
	Snippet string
	Score   float64
}

// Journal stores the events of all threads.
type Journal interface {
	// ID names this database in all-threads cursors; random, made with it.
	ID() string

	// Append commits a and returns the thread's new head. It sets Seq, Pos,
	// Thread and At (now if zero, cut to milliseconds) of a.Events, and nobody
	// may change their Data afterwards. It fails with ErrConflict, changing
	// nothing, if the head is not a.Expect or the thread was deleted, with
	// ErrInvalid, changing nothing, if a is malformed, with ErrFull, changing
	// nothing, if there is no space. After any other error the caller must not
	// assume that the events are absent: Recheck tells (Info).
	Append(ctx context.Context, a Append) (head int64, err error)

	// Info returns one thread, or ErrNotFound.
	Info(ctx context.Context, thread string) (ThreadInfo, error)
	// List returns threads by descending HeadPos. The info of a deleted thread
	// is the one of the deleting append, if any.
	List(ctx context.Context, q ListQuery) ([]ThreadInfo, error)

	// Read returns up to limit events of a thread with Seq > after, in order. It
	// fails with a *Reset if events after `after` were trimmed (ResetExpired)
	// or after is beyond the head (ResetAhead), with ErrNotFound for an unknown
	// thread.
	Read(ctx context.Context, thread string, after int64, limit int) ([]Event, error)
	// ReadAll returns up to limit events of all threads with Pos > after, in
	// order, with the resets of Read. head is the newest Pos there is.
	ReadAll(ctx context.Context, after int64, limit int) (evs []Event, head int64, err error)

	// PutOpen stores the text so far of an open item, replacing the one before.
	// It is as durable as Append. Like all that is kept beside events, it fails
	// with ErrNotFound for a thread that does not exist or was deleted.
	PutOpen(ctx context.Context, thread string, open OpenText) error
	// Open returns the open texts of a thread, in no particular order.
	Open(ctx context.Context, thread string) ([]OpenText, error)

	// Blob returns the content stored under hash, or ErrNotFound.
	Blob(ctx context.Context, hash string) ([]byte, error)

	// PutSnapshot stores the newest snapshot of a thread; one that is older than
	// the stored one is ignored. It fails with ErrInvalid beyond the head.
	PutSnapshot(ctx context.Context, thread string, s Snapshot) error
	// Snapshot returns the newest snapshot, or ErrNotFound.
	Snapshot(ctx context.Context, thread string) (Snapshot, error)
	// Trim removes the events of a thread up to and including seq. It refuses
	// to go beyond the thread's snapshot (ErrNoSnapshot). What is trimmed already
	// stays trimmed: a lower seq changes nothing.
	Trim(ctx context.Context, thread string, seq int64) error

	// Index adds docs and moves the index's own cursor of the thread to upTo in
	// one transaction. IndexedTo returns that cursor; 0 if nothing was indexed.
	Index(ctx context.Context, thread string, upTo int64, docs []Doc) error
	IndexedTo(ctx context.Context, thread string) (int64, error)
	// Search returns up to limit documents of a thread that match any word of
	// query, best first. Words are matched whole, without regard to case; any
	// query is accepted, one without words finds nothing.
	Search(ctx context.Context, thread, query string, limit int) ([]Hit, error)

	// Close waits for what was accepted and releases the storage. Afterwards
	// everything fails with ErrClosed; closing again does nothing.
	Close() error
}

// Errors of a Journal.
var (
	ErrConflict   = errors.New("events: the thread moved on")
	ErrNotFound   = errors.New("events: not found")
	ErrNoSnapshot = errors.New("events: no snapshot covers what would be trimmed")
	ErrFull       = errors.New("events: the database is full")
	ErrClosed     = errors.New("events: the journal is closed")
	ErrInvalid    = errors.New("events: malformed request")
	ErrCorrupt    = errors.New("events: the file is damaged or not a journal")
)

// OwnedError says that another process has the journal open.
type OwnedError struct {
	Path string // of the journal
	PID  int    // of its owner; 0 if it could not be learned
}

// Error implements error.
func (e *OwnedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("open journal %s: another process has it open", e.Path)
	}
	return fmt.Sprintf("open journal %s: process %d has it open", e.Path, e.PID)
}

// VersionError says that a newer program wrote the journal.
type VersionError struct {
	Path  string
	Have  int // the version of the file
	Knows int // the newest version this program reads
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("open journal %s: its format is version %d, this program reads up to version %d; use a newer plimsoll",
		e.Path, e.Have, e.Knows)
}

// A ResetReason says why a cursor cannot be served.
type ResetReason string

// The reasons of a Reset.
const (
	ResetJournalChanged ResetReason = "journalChanged" // the cursor is of another journal
	ResetAhead          ResetReason = "ahead"          // the cursor is beyond the newest event
	ResetExpired        ResetReason = "expired"        // events after the cursor were trimmed
)

// Reset is the error for a cursor that cannot be served exactly.
type Reset struct {
	Reason ResetReason
	Oldest int64 // the oldest position that can be read after; for ResetExpired
}

// Error implements error.
func (r *Reset) Error() string {
	return fmt.Sprintf("events: cursor cannot be served: %s (oldest %d)", r.Reason, r.Oldest)
}
