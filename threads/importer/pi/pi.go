// Package pi reads the session files of pi (versions 1 to 3 of its format,
// observed from 0.12 to 1.6) and of omp, which writes the same entries.
//
// Version 1 is linear and has no entry ids. From version 2 on the entries form a
// tree whose leaf is the last entry of the file: the session is the path from
// the root to it, and the entries of other branches are counted as
// "otherBranch". An entry whose parent is missing is taken to follow the entry
// before it.
//
// A user message, a tool result and an executed command are one item each; an
// assistant message is one item a block.
package pi

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// entry is what is read of a line.
type entry struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	ParentID   json.RawMessage `json:"parentId"` // null for a root, absent in version 1
	Timestamp  string          `json:"timestamp"`
	Version    int             `json:"version"`
	Cwd        string          `json:"cwd"`
	ModelID    string          `json:"modelId"`
	Model      string          `json:"model"` // omp: provider/id
	Message    json.RawMessage `json:"message"`
	Summary    string          `json:"summary"`
	FirstIndex *int            `json:"firstKeptEntryIndex"` // version 1: entry number, the header being 0
	FirstID    string          `json:"firstKeptEntryId"`
	CustomType string          `json:"customType"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	Title      string          `json:"title"`

	line    int
	ordinal int
	parent  int // index of the entry before it on its path; -1 for none
	first   int // index of its first item, once it has been added
}

// reader is the state of one Read.
type reader struct {
	b       *session.Builder
	entries []entry
	byID    map[string]int
}

// Read reads a session. in holds uncompressed text.
func Read(in *bufio.Reader, lim session.Limits) (*session.Session, error) {
	b := session.NewBuilder(session.SourcePi, lim)
	rd := &reader{b: b, byID: map[string]int{}}
	records := session.NewRecords(in, lim, isRecord, b.Warn)
	for {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		rd.collect(rec)
	}
	path := rd.path()
	for n, i := range path {
		e := &rd.entries[i]
		e.first = b.Len()
		rd.add(e, path[:n])
	}
	return b.Finish()
}

// isRecord reports whether an object is an entry of a file and not a piece of one.
func isRecord(raw []byte) bool {
	var e entry
	return json.Unmarshal(raw, &e) == nil && e.Type != "" && e.Timestamp != ""
}

// collect notes an entry and where it hangs in the tree.
func (rd *reader) collect(rec session.Record) {
	var e entry
	if err := json.Unmarshal(rec.Raw, &e); err != nil {
		rd.b.Warn(rec.Line, "entry has another shape than expected: %v", err) // the other fields are decoded
	}
	e.line, e.ordinal = rec.Line, rec.Ordinal
	switch e.Type {
	case "":
		rd.b.Warn(rec.Line, "entry has no type and was skipped")
		return
	case "session":
		rd.header(&e)
		return
	case "title": // omp
		rd.setTitle(e.Title)
		return
	}
	if _, ok := rd.byID[e.ID]; ok && e.ID != "" {
		rd.b.Skip("duplicate")
		return
	}
	e.parent = rd.parentOf(&e)
	if e.ID != "" {
		rd.byID[e.ID] = len(rd.entries)
	}
	rd.entries = append(rd.entries, e)
}

// parentOf returns the index of the entry that e follows. In version 1 and where
// the parent is missing that is the entry before it in the file.
func (rd *reader) parentOf(e *entry) int {
	previous := len(rd.entries) - 1
	if len(e.ParentID) == 0 {
		return previous
	}
	if string(e.ParentID) == "null" {
		return -1
	}
	var id string
	if json.Unmarshal(e.ParentID, &id) == nil {
		if p, ok := rd.byID[id]; ok {
			return p
		}
	}
	rd.b.Warn(e.line, "the parent %.64s of the entry is missing; it was taken to follow the entry before it", e.ParentID)
	return previous
}

func (rd *reader) header(e *entry) {
	s := rd.b.Session()
	if s.SourceID == "" {
		s.SourceID, s.Cwd, s.Model = e.ID, e.Cwd, e.ModelID
	}
	rd.b.Seen(rd.b.Time(e.line, e.Timestamp))
}

func (rd *reader) setTitle(title string) {
	if title != "" {
		rd.b.Session().Title = title
	}
}

// path returns the indexes of the entries from the root to the last one.
func (rd *reader) path() []int {
	on := make([]bool, len(rd.entries))
	for i := len(rd.entries) - 1; i >= 0; i = rd.entries[i].parent {
		on[i] = true
	}
	path := make([]int, 0, len(rd.entries))
	for i := range rd.entries {
		if on[i] {
			path = append(path, i)
		} else {
			rd.b.Skip("otherBranch")
		}
	}
	return path
}

// add adds the items of an entry; before are the entries before it on the path.
func (rd *reader) add(e *entry, before []int) {
	ref := session.Ref{Record: e.ID, Line: e.line}
	at := rd.b.Time(e.line, e.Timestamp)
	switch e.Type {
	case "message":
		rd.message(e, ref, at)
	case "compaction":
		rd.compaction(e, before, ref, at)
	case "custom_message":
		rd.notice("custom", e.Content, ref, at)
	case "branch_summary":
		rd.text("branchSummary", e.Summary, ref, at)
	case "model_change":
		rd.setModel(e)
		rd.b.Skip(e.Type)
	case "session_info":
		rd.setTitle(e.Name)
		rd.b.Skip(e.Type)
	case "title_change":
		rd.setTitle(e.Title)
		rd.b.Skip(e.Type)
	case "context_edit":
		rd.b.Warn(e.line, "the session edited its context here; the messages are imported as they were")
		rd.b.Skip(e.Type)
	default:
		rd.b.Skip(e.Type)
	}
}

func (rd *reader) setModel(e *entry) {
	switch {
	case e.ModelID != "":
		rd.b.Session().Model = e.ModelID
	case e.Model != "":
		rd.b.Session().Model = e.Model
	}
}

// compaction adds the marker, the summary, and what was kept: the entries from
// the first kept one to the compaction.
func (rd *reader) compaction(e *entry, before []int, ref session.Ref, at time.Time) {
	from := -1
	for _, i := range before {
		k := &rd.entries[i]
		if e.FirstID != "" && k.ID == e.FirstID || e.FirstID == "" && e.FirstIndex != nil && k.ordinal >= *e.FirstIndex {
			from = k.first
			break
		}
	}
	if from < 0 && e.FirstID != "" {
		rd.b.Warn(e.line, "the compaction keeps entries from %.64q on, which is not before it", e.FirstID)
	}
	var kept []int
	for i := from; from >= 0 && i < rd.b.Len(); i++ {
		kept = append(kept, i)
	}
	rd.b.Compaction(ref, at, kept)
	ref.Block = 1
	if e.Summary != "" {
		rd.b.Checkpoint(ref, at, e.Summary)
	}
}

// notice adds content that is nobody's own words.
func (rd *reader) notice(source string, content json.RawMessage, ref session.Ref, at time.Time) {
	rd.text(source, transcript.PartsText(rd.parts(content, ref.Line)), ref, at)
}

func (rd *reader) text(source, text string, ref session.Ref, at time.Time) {
	if rd.b.Blank(source, text) {
		return
	}
	rd.b.Add(ref, at, transcript.Notice{Source: source, Text: text})
}
