// Package claudecode reads the session files of Claude Code (JSONL, observed
// from 2.0.76 to 2.1.332).
//
// Records are taken in file order and deduplicated by uuid; parent links are not
// followed, because files of several processes on one session link badly and a
// walk loses calls. One content block is one item: the API splits a message over
// several records, so records are not merged either.
//
// Left out and counted in Session.Skipped: progress, snapshots and other records
// that never were part of a conversation, side chains of sub-agents, messages
// that the program made itself (model <synthetic>), and white space. Everything
// else becomes an item, Opaque where this package does not know the block.
package claudecode

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// record is what is read of a line.
type record struct {
	Type             string            `json:"type"`
	Subtype          string            `json:"subtype"`
	UUID             string            `json:"uuid"`
	SessionID        string            `json:"sessionId"`
	Timestamp        string            `json:"timestamp"`
	Cwd              string            `json:"cwd"`
	IsMeta           bool              `json:"isMeta"`
	IsSidechain      bool              `json:"isSidechain"`
	IsCompactSummary bool              `json:"isCompactSummary"`
	Message          message           `json:"message"`
	Content          json.RawMessage   `json:"content"`
	Compact          compactMetadata   `json:"compactMetadata"`
	Microcompact     json.RawMessage   `json:"microcompactMetadata"`
	Attachment       attachmentContent `json:"attachment"`
}

type message struct {
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a string or a list of blocks
}

type compactMetadata struct {
	PreservedMessages struct {
		UUIDs []string `json:"uuids"`
	} `json:"preservedMessages"`
	PreservedSegment struct {
		Head string `json:"headUuid"`
		Tail string `json:"tailUuid"`
	} `json:"preservedSegment"`
}

// attachmentContent is context that the program injected. Only a queued prompt
// of the user among it is part of the conversation.
type attachmentContent struct {
	Type   string          `json:"type"`
	Prompt json.RawMessage `json:"prompt"`
}

// reader is the state of one Read.
type reader struct {
	b    *session.Builder
	seen map[string]bool // uuids
}

// Read reads a session. in holds uncompressed text.
func Read(in *bufio.Reader, lim session.Limits) (*session.Session, error) {
	b := session.NewBuilder(session.SourceClaudeCode, lim)
	rd := reader{b, map[string]bool{}}
	records := session.NewRecords(in, lim, IsRecord, b.Warn)
	for {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			return b.Finish()
		}
		if err != nil {
			return nil, err
		}
		rd.record(rec)
	}
}

// IsRecord reports whether an object is a record of a session file and not, for
// instance, a content block of one.
func IsRecord(raw []byte) bool {
	var head struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
		MessageID string `json:"messageId"`
		LeafUUID  string `json:"leafUuid"`
	}
	return json.Unmarshal(raw, &head) == nil && head.Type != "" &&
		(head.SessionID != "" || head.MessageID != "" || head.LeafUUID != "")
}

func (rd *reader) record(raw session.Record) {
	var rec record
	if err := json.Unmarshal(raw.Raw, &rec); err != nil && isConversation(rec.Type) {
		rd.b.Warn(raw.Line, "record has another shape than expected: %v", err) // the other fields are decoded
	}
	if rec.UUID != "" {
		if rd.seen[rec.UUID] {
			rd.b.Skip("duplicate")
			return
		}
		rd.seen[rec.UUID] = true
	}
	if rec.IsSidechain {
		rd.b.Skip("sidechain")
		return
	}
	rd.describe(&rec)
	at := rd.b.Time(raw.Line, rec.Timestamp)
	ref := session.Ref{Record: rec.UUID, Line: raw.Line}
	switch rec.Type {
	case "user":
		rd.user(&rec, ref, at)
	case "assistant":
		rd.assistant(&rec, ref, at)
	case "system":
		rd.system(&rec, ref, at)
	case "attachment":
		if rec.Attachment.Type == "queued_command" {
			rd.queued(&rec, ref, at)
			return
		}
		rd.b.Skip("attachment/" + rec.Attachment.Type)
	case "":
		rd.b.Warn(raw.Line, "record has no type and was skipped")
	default:
		rd.b.Skip(rec.Type)
	}
}

func isConversation(kind string) bool {
	return kind == "user" || kind == "assistant" || kind == "system"
}

// describe takes the session's id and folder from the first record that says them.
func (rd *reader) describe(rec *record) {
	s := rd.b.Session()
	if s.SourceID == "" {
		s.SourceID = rec.SessionID
	}
	if s.Cwd == "" {
		s.Cwd = rec.Cwd
	}
}

func (rd *reader) system(rec *record, ref session.Ref, at time.Time) {
	switch rec.Subtype {
	case "compact_boundary":
		rd.b.Compaction(ref, at, rd.preserved(rec.Compact, ref.Line))
	case "microcompact_boundary":
		text := stringOr(rec.Content, "Context microcompacted")
		if len(rec.Microcompact) > 0 {
			text += "\n" + string(rec.Microcompact)
		}
		rd.b.Add(ref, at, transcript.Notice{Source: "microcompact", Text: text})
	default:
		rd.b.Skip("system/" + rec.Subtype)
	}
}

// preserved returns the items that a native compaction kept as they were.
func (rd *reader) preserved(meta compactMetadata, line int) []int {
	var kept []int
	for _, id := range meta.PreservedMessages.UUIDs {
		items := rd.b.ItemsOf(id)
		if len(items) == 0 && !rd.seen[id] {
			rd.b.Warn(line, "the compaction keeps message %.64q, which is not in the file", id)
		}
		kept = append(kept, items...)
	}
	seg := meta.PreservedSegment
	if kept != nil || seg.Head == "" {
		return kept
	}
	head, tail := rd.b.ItemsOf(seg.Head), rd.b.ItemsOf(seg.Tail)
	if len(head) == 0 || len(tail) == 0 {
		rd.b.Warn(line, "the compaction keeps a segment whose ends are not in the file")
		return nil
	}
	for i := head[0]; i <= tail[len(tail)-1]; i++ {
		kept = append(kept, i)
	}
	return kept
}

// stringOr returns the JSON string raw, or def.
func stringOr(raw json.RawMessage, def string) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || strings.TrimSpace(s) == "" {
		return def
	}
	return s
}
