package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// This file looks at the transcript that Claude Code writes.

// transcriptTail bounds how much of a transcript is read for its newest compaction, in
// bytes.
const transcriptTail = 32 << 20

// Recover implements adapters.Recoverer. A boundary is written when the history is
// replaced, and only then: of a compaction that was killed there is none (2.1.332,
// observed).
func (s *session) Recover(_ context.Context, u adapters.Unfinished) (adapters.NativeResult, error) {
	return s.find(u.StartedAt)
}

// transcript is the path of the conversation's file; empty if there is none.
func (s *session) transcript() string {
	paths, err := filepath.Glob(filepath.Join(s.a.home, "projects", "*", s.id+".jsonl"))
	if err != nil || len(paths) == 0 { // the pattern of a home may be none: then nothing is found
		return ""
	}
	return paths[0]
}

// find looks for a compaction since a time.
func (s *session) find(since time.Time) (adapters.NativeResult, error) {
	path := s.transcript()
	if path == "" {
		return adapters.NativeResult{}, errors.Join(adapters.ErrUncertain, errors.New("claude: the conversation has no transcript"))
	}
	b, err := tailOf(path)
	if err != nil {
		return adapters.NativeResult{}, errors.Join(adapters.ErrUncertain, err)
	}
	c := &compacting{}
	for _, line := range slices.Backward(bytes.Split(b, []byte("\n"))) {
		if !bytes.Contains(line, []byte(`"compact_boundary"`)) && !bytes.Contains(line, []byte(`"isCompactSummary":true`)) {
			continue
		}
		var rec struct {
			Type     string          `json:"type"`
			Subtype  string          `json:"subtype"`
			At       time.Time       `json:"timestamp"`
			Metadata json.RawMessage `json:"compactMetadata"`
			Summary  bool            `json:"isCompactSummary"`
			Message  *message        `json:"message"`
		}
		if json.Unmarshal(line, &rec) != nil {
			continue
		}
		if rec.Summary && rec.Message != nil {
			c.summary = textOf(rec.Message.Content)
			continue
		}
		if rec.Type != "system" || rec.Subtype != "compact_boundary" {
			continue
		}
		if rec.At.Before(since.Add(-time.Second)) {
			break
		}
		c.boundary = rec.Metadata
		return adapters.NativeResult{Form: Form, Disclosed: c.disclosed()}, nil
	}
	return adapters.NativeResult{}, adapters.ErrNotCompacted
}

func tailOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if over := info.Size() - transcriptTail; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, transcriptTail))
}
