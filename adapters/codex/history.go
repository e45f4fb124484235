package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file looks at what codex has stored.

// recentTurns is how many of a thread's newest turns are looked at for a compaction.
const recentTurns = 5

// Recover implements adapters.Recoverer. Codex lists its turns; that of a compaction
// that completed has the item, one that was cut off by the end of the process has none
// (codex 0.171, observed).
func (s *session) Recover(ctx context.Context, u adapters.Unfinished) (adapters.NativeResult, error) {
	p, err := s.ensure(ctx)
	if err != nil {
		return adapters.NativeResult{}, errors.Join(adapters.ErrUncertain, err)
	}
	var res struct {
		Data []turnView `json:"data"`
	}
	err = p.call(ctx, "thread/turns/list", map[string]any{"threadId": s.NativeID(), "limit": recentTurns, "itemsView": "full"}, &res)
	if e, ok := errors.AsType[*rpcError](err); ok && e.unknownThread() {
		return adapters.NativeResult{}, adapters.ErrNotCompacted // nothing was ever said
	}
	if err != nil {
		return adapters.NativeResult{}, errors.Join(adapters.ErrUncertain, err)
	}
	for _, t := range res.Data { // newest first
		if t.StartedAt != nil && time.Unix(*t.StartedAt, 0).Before(u.StartedAt.Truncate(time.Second).Add(-time.Second)) {
			break
		}
		for _, raw := range t.Items {
			var v itemView
			if json.Unmarshal(raw, &v) == nil && v.Type == "contextCompaction" && v.Done != nil {
				return s.recovered(u.StartedAt)
			}
		}
	}
	return adapters.NativeResult{}, adapters.ErrNotCompacted
}

// recovered is what can still be said of a compaction that completed unseen.
func (s *session) recovered(since time.Time) (adapters.NativeResult, error) {
	s.mu.Lock()
	c := &compacting{before: s.total, after: s.context, window: s.window, done: true, since: since}
	s.mu.Unlock()
	return c.result(s)
}

// A summary is what codex replaced its history by.
type summary struct {
	Message     string // its model's, with what codex puts before it
	Replacement int    // items of the new history
	Answered    bool   // its model said something when it was asked for it
	Sealed      bool   // its provider's own, which nobody can read
}

// summaryTail bounds how much of a thread's file is read for its newest compaction, in
// bytes.
const summaryTail = 32 << 20

// newestSummary reads the newest compaction in the file of a thread; nil if it has
// none since a time in its last part, or if that cannot be read.
func newestSummary(path string, since time.Time) *summary {
	if path == "" {
		return nil
	}
	b, err := tailOf(path, summaryTail)
	if err != nil {
		return nil
	}
	lines := bytes.Split(b, []byte("\n"))
	for i, line := range slices.Backward(lines) {
		if !bytes.Contains(line, []byte(`"compacted"`)) {
			continue
		}
		var rec struct {
			At      time.Time `json:"timestamp"`
			Type    string    `json:"type"`
			Payload struct {
				Message     string            `json:"message"`
				Replacement []json.RawMessage `json:"replacement_history"`
			} `json:"payload"`
		}
		if json.Unmarshal(line, &rec) != nil || rec.Type != "compacted" {
			continue
		}
		if rec.At.Before(since.Add(-time.Second)) {
			return nil // of an older one
		}
		s := &summary{Message: rec.Payload.Message, Replacement: len(rec.Payload.Replacement), Answered: answered(lines[:i])}
		for _, raw := range rec.Payload.Replacement {
			s.Sealed = s.Sealed || bytes.Contains(raw, []byte(`"encrypted_content"`)) && bytes.Contains(raw, []byte(`"type":"compaction"`))
		}
		return s
	}
	return nil
}

func tailOf(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if over := info.Size() - limit; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// answered reports whether the request for a summary got an answer. Before it asks,
// codex records what it has used so far, and what the request used after it; the
// answer stands between the two (codex 0.171, observed). A blank one is none: codex takes
// the newest text of the model in its place, whatever that was about. A file without such
// records says nothing against it.
func answered(lines [][]byte) bool {
	counted := 0
	for _, line := range slices.Backward(lines) {
		var rec struct {
			Type    string `json:"type"`
			Payload struct {
				Type    string `json:"type"`
				Role    string `json:"role"`
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"payload"`
		}
		known := bytes.Contains(line, []byte(`"token_count"`)) || bytes.Contains(line, []byte(`"assistant"`))
		if !known || json.Unmarshal(line, &rec) != nil {
			continue
		}
		switch {
		case rec.Type == "response_item" && rec.Payload.Role == "assistant":
			for _, part := range rec.Payload.Content {
				if strings.TrimSpace(part.Text) != "" {
					return true
				}
			}
		case rec.Type == "event_msg" && rec.Payload.Type == "token_count":
			if counted++; counted == 2 {
				return false
			}
		}
	}
	return true
}

// text is the summary without the paragraph that codex puts before it.
func (s *summary) text() string {
	if _, rest, ok := strings.Cut(s.Message, "\n"); ok {
		return strings.TrimSpace(rest)
	}
	return ""
}

// leastSummary is the shortest text that can stand for a history, in bytes.
const leastSummary = 16

// hollow reports a summary that stands for nothing: an empty one, for which codex
// takes the newest answer instead and calls that a success (codex 0.171, observed).
func (s *summary) hollow() bool {
	if s.Sealed || s.Message == "" {
		return false // not readable, so not judged
	}
	return len(s.text()) < leastSummary || !s.Answered
}

func (s *summary) disclosed() transcript.RawJSON {
	v := map[string]any{"replacementItems": s.Replacement}
	if s.Sealed {
		v["opaque"] = true
	} else {
		v["summary"] = s.text()
	}
	b, err := json.Marshal(v)
	if err != nil { // texts and numbers always encode
		return nil
	}
	return transcript.RawJSON(b)
}
