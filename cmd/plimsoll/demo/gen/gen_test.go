package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func committed(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "session.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func imported(t *testing.T) *importer.Session {
	t.Helper()
	s, err := importer.Read(bytes.NewReader(committed(t)), importer.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheCommittedSessionIsWhatTheGeneratorWrites(t *testing.T) {
	if !bytes.Equal(tell().out.Bytes(), committed(t)) {
		t.Error("session.jsonl is stale: go generate ./cmd/plimsoll/demo/gen")
	}
}

// TestTheSessionImportsCleanly also keeps it a size that shows something: just
// past the load line of a window of 64,000 tokens (85 %), yet small enough to be
// asked about before it is compacted.
func TestTheSessionImportsCleanly(t *testing.T) {
	s := imported(t)
	if len(s.Warnings) > 0 || len(s.Skipped) > 0 || len(s.Transcript.Boundaries) > 0 {
		t.Errorf("warnings %v, skipped %v, %d boundaries", s.Warnings, s.Skipped, len(s.Transcript.Boundaries))
	}
	tokens, open := 0, map[transcript.CallID]bool{}
	for _, it := range s.Transcript.Items {
		tokens += transcript.Tokens(it.Body)
		switch b := it.Body.(type) {
		case transcript.ToolCall:
			if open[b.CallID] {
				t.Errorf("call id %s is used twice", b.CallID)
			}
			open[b.CallID] = true
		case transcript.ToolResult:
			if !open[b.CallID] {
				t.Errorf("result of %s has no call", b.CallID)
			}
			delete(open, b.CallID)
		}
	}
	if n := len(s.Transcript.Items); n < 450 || n > 650 || tokens < 54_400 || tokens > 63_000 || len(committed(t)) > 600_000 {
		t.Errorf("%d items, %d tokens, %d bytes", n, tokens, len(committed(t)))
	}
	if len(open) != 1 {
		t.Errorf("%d calls without a result, want the interrupted one", len(open))
	}
	interrupted := 0
	for _, turn := range s.Transcript.Turns {
		if turn.Status == transcript.TurnInterrupted {
			interrupted++
		}
	}
	if interrupted != 1 {
		t.Errorf("%d interrupted turns, want 1", interrupted)
	}
}

// TestTheFactsOfTheQuestionsAreInTheSession: each is in what the user said or in
// the last plan, which is what a checkpoint must keep.
func TestTheFactsOfTheQuestionsAreInTheSession(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "questions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var questions []struct {
		Question string   `json:"question"`
		Facts    []string `json:"facts"`
	}
	if err := json.Unmarshal(raw, &questions); err != nil {
		t.Fatal(err)
	}
	if len(questions) != 3 {
		t.Errorf("%d questions, want 3", len(questions))
	}
	var said strings.Builder
	plan := ""
	for _, it := range imported(t).Transcript.Items {
		switch b := it.Body.(type) {
		case transcript.UserMessage:
			said.WriteString(transcript.PartsText(b.Content) + "\n")
		case transcript.ToolCall:
			if b.Name == "TodoWrite" {
				plan = string(b.Arguments)
			}
		}
	}
	if n := strings.Count(plan, `"status":"pending"`); n != 2 {
		t.Errorf("%d open steps in the last plan, want 2", n)
	}
	for _, q := range questions {
		if len(q.Facts) == 0 {
			t.Errorf("%q has no facts", q.Question)
		}
		for _, fact := range q.Facts {
			if !strings.Contains(said.String(), fact) && !strings.Contains(plan, fact) {
				t.Errorf("fact %q is neither in the user's words nor in the last plan", fact)
			}
		}
	}
}
