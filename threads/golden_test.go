package threads_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

var update = flag.Bool("update", false, "rewrite golden files")

// goldenPayloads has one payload of every event type, with every field set.
func goldenPayloads() []threads.Payload {
	at := time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC)
	turn := transcript.Turn{ID: "turn-1", Kind: transcript.TurnUser, Status: transcript.TurnFailed, StartedAt: at, CompletedAt: at, Error: &transcript.TurnError{Message: "it broke", Code: "internal"}}
	accepted := &threads.Accepted{Key: "key", Hash: "hash", Result: "turn-1", At: at.UnixMilli()}
	item := func(id transcript.ItemID, body transcript.Body) transcript.Item {
		return transcript.Item{ID: id, Turn: "turn-1", StartedAt: at, CompletedAt: at, Body: body}
	}
	call := item("call-1", transcript.ToolCall{CallID: "c1", Name: "read", Arguments: []byte(`{"path":"a.go"}`)})
	result := item("result-1", transcript.ToolResult{CallID: "c1", Output: transcript.TextParts("text"), IsError: true, Synthetic: true})
	checkpoint := item("checkpoint-1", transcript.Checkpoint{Version: "extractive-1", Text: "notes"})
	usage := adapters.Usage{InputTokens: 1, CachedInputTokens: 2, CacheWriteInputTokens: 3, OutputTokens: 4, ReasoningOutputTokens: 5}
	plan := transcript.Plan{Steps: []transcript.PlanStep{{Step: "one", Status: "pending"}}}
	queue := []threads.QueuedTurn{{TurnID: "turn-2", Input: transcript.TextParts("next"), ClientID: "client-1", QueuedAt: at.UnixMilli(), MaxTotalTokens: 9}}
	gate := &compaction.Gate{Failures: 1, Shut: compaction.ShutFailed, At: 7, Key: "k"}
	learned := &threads.LearnedWindow{Provider: "offline", Model: "m", Tokens: 9, At: at.UnixMilli()}
	git := &threads.GitInfo{SHA: "abc", Branch: "main", OriginURL: "https://git.example/x"}
	return []threads.Payload{
		threads.ThreadStarted{
			Settings: threads.Settings{Provider: "offline", Model: "m", Cwd: "/w", ApprovalPolicy: "on-request", Sandbox: "read-only"}, Name: "name",
			Origin: threads.Origin{ForkedFrom: "thread-0", Client: "editor", Source: "user"}, Git: git, Tools: []threads.DynamicTool{{Namespace: "n", Name: "t", Description: "d", Schema: []byte(`{}`)}},
			CreatedAt: at.UnixMilli(), Imported: &threads.Imported{Source: "pi", SourceID: "s", Hash: "h", Warnings: 1}, Accepted: accepted,
		},
		threads.ThreadDeleted{},
		threads.NameUpdated{Name: "name"},
		threads.ThreadArchived{},
		threads.ThreadUnarchived{},
		threads.SettingsUpdated{Settings: threads.Settings{Provider: "offline", Model: "m", Cwd: "/w", ApprovalPolicy: "never", Sandbox: "read-only", Effort: "high", Mode: "plan"}},
		threads.MetadataUpdated{Git: git},
		threads.ThreadReverted{BeforeTurn: "turn-1"},
		threads.RequestCreated{Request: threads.Request{
			ID: "request-1", Method: threads.AskCommand, TurnID: "turn-1", ItemID: "item-1", CreatedAt: at.UnixMilli(),
			Command: &threads.CommandQuestion{Command: "make", Cwd: "/w", Reason: "because", Amendment: []string{"make"}},
			File:    &threads.FileQuestion{Reason: "because", GrantRoot: "/w"},
			Tool:    &threads.ToolQuestion{CallID: "c1", Namespace: "n", Tool: "t", Arguments: []byte(`{"a":1}`)},
		}},
		threads.RequestResolved{
			RequestID: "request-1", TurnID: "turn-1", Outcome: threads.RequestAnswered, By: "editor",
			Answer: &threads.RequestAnswer{Decision: adapters.Accept, Amendment: []byte(`{}`), Output: transcript.TextParts("out"), IsError: true, Failed: "no"},
		},
		threads.StatusChanged{Status: threads.StatusActive, Flags: []threads.StatusFlag{threads.WaitingOnApproval}, Accepted: accepted},
		threads.QueueChanged{Queue: queue, Accepted: accepted},
		threads.TurnStarted{Turn: turn, MaxTotalTokens: 9},
		threads.TurnCompleted{Turn: turn},
		threads.ItemStarted{Item: call},
		threads.ItemCompleted{Item: result, Call: &call, Reanchor: true, Accepted: accepted},
		threads.PlanUpdated{TurnID: "turn-1", Plan: plan},
		threads.UsageUpdated{TurnID: "turn-1", Last: usage, Total: usage, Context: 6, Base: 7, Source: "provider", Window: 8, Estimate: 9, Model: "offline/m", Gate: gate},
		threads.CompactionUndone{
			CompactionID: "compaction-1", Accepted: accepted, Gate: &compaction.Gate{Failures: 1, Shut: compaction.ShutNoGain, At: 7, Key: "k"},
			Session:  &threads.NativeSession{Provider: "codex", ID: "session-1", Used: true},
			Boundary: &transcript.Boundary{Epoch: 2, CompactionID: "compaction-1", Covered: 12, Kept: []transcript.Kept{{ItemID: "i", Form: transcript.FormWhole}}, Undoes: "compaction-1"},
			Prunes:   []transcript.Prune{{Epoch: 2, CompactionID: "compaction-0", Kept: []transcript.Kept{{ItemID: "i", Form: transcript.FormClipped, Text: "…"}}}},
		},
		threads.PinsChanged{Pins: []threads.Pin{{ID: "pin-1", Text: "text", Hash: "hash", Tokens: 1, AddedAt: at.UnixMilli()}}, Accepted: accepted},
		threads.SessionUpdated{Provider: "codex", NativeID: "session-2", Previous: "session-1", Reason: threads.SessionReplaced},
		threads.ErrorRaised{TurnID: "turn-1", Error: *turn.Error, WillRetry: true, Learned: learned},
		threads.WarningRaised{Message: "careful"},
		threads.CompactionUpdated{
			Record: goldenRecord(at), Reanchor: "you are here", Accepted: accepted, Gate: gate, Learned: learned,
			Session:  &threads.NativeSession{Provider: "codex", ID: "session-1", Used: true, Stale: true, Compactions: []transcript.CompactionID{"compaction-0"}},
			Prune:    &transcript.Prune{Epoch: 1, CompactionID: "compaction-1", Kept: []transcript.Kept{{ItemID: "i", Form: transcript.FormClipped, Text: "…"}}},
			Request:  &threads.CompactRequest{Route: compaction.RouteLocal, Writer: compaction.WriterFixed, Budget: 8000, Instructions: "short"},
			Boundary: &transcript.Boundary{Epoch: 1, CompactionID: "compaction-1", Covered: 9, Checkpoint: &checkpoint, Kept: []transcript.Kept{{ItemID: "i", Form: transcript.FormStub, Text: "[…]"}}},
		},
	}
}

// Every event that can hold an idempotency key makes it known, and none takes it to
// another thread.
func TestIdempotencyKeysOfAllEventTypesAreFound(t *testing.T) {
	keys := 0
	for _, p := range goldenPayloads() {
		_, has := reflect.TypeOf(p).FieldByName("Accepted")
		if got := threads.AcceptedIn(p); (got != nil) != has {
			t.Errorf("%s: the key is %+v", p.EventType(), got)
		}
		if got := threads.AcceptedIn(threads.WithoutKey(p)); got != nil {
			t.Errorf("%s: another thread gets the key %+v", p.EventType(), got)
		}
		if has {
			keys++
		}
	}
	if keys == 0 {
		t.Error("no event type has a key")
	}
}

func goldenRecord(at time.Time) compaction.Record {
	return compaction.Record{
		CompactionID: "compaction-1", ThreadID: "thread-1", TurnID: "turn-1", Trigger: compaction.TriggerManual,
		Route: new(compaction.RouteLocal), Writer: new(compaction.WriterExtractive), Phase: compaction.PhaseTerminal, Outcome: new(compaction.Completed),
		Epoch: 0, BaseSeq: 12, Ruler: transcript.Ruler, Target: new(8000),
		Before:            &compaction.Measure{Tokens: 9000, Window: new(64000), Source: transcript.Ruler},
		After:             &compaction.Measure{Tokens: 4000, Window: new(64000), Source: transcript.Ruler},
		SummarizedTurnIDs: []transcript.TurnID{"turn-0"}, RetainedTurnIDs: []transcript.TurnID{"turn-1"},
		Split: &compaction.Split{TurnID: "turn-1", FirstRetainedItemID: "i"}, Items: &compaction.ItemCounts{Summarized: 1, Whole: 2, Clipped: 3, Stub: 4},
		PrunedItemIDs: []transcript.ItemID{"i"},
		Checkpoint:    &compaction.CheckpointInfo{ItemID: "checkpoint-1", Version: "extractive-1", Tokens: 500, Fidelity: compaction.Fidelity{Kept: 3, Total: 4, Missing: []string{"file x.go"}}},
		Rebase:        &compaction.Rebase{From: new("session-1"), To: "session-2"},
		Skipped:       []compaction.Skip{{Link: "native", Code: "nativeUnsupported", Reason: "no"}}, Warnings: []string{"w"},
		RequestedAt: at.UnixMilli(), StartedAt: new(at.UnixMilli()), CompletedAt: new(at.UnixMilli()),
	}
}

// What is in the journals of users must stay readable: a golden file is never
// changed, a payload that changes its form gets another event type.
func TestStoredFormOfEveryEventTypeStays(t *testing.T) {
	for _, p := range goldenPayloads() {
		path := filepath.Join("testdata", "events", strings.ReplaceAll(p.EventType(), "/", ".")+".json")
		data, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, '\n')
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, data) {
			t.Errorf("%s is now stored as\n%s\nthe golden file says\n%s", p.EventType(), data, want)
		}
		back, err := threads.Decode(events.Event{Type: p.EventType(), Data: want})
		if err != nil {
			t.Fatal(err)
		}
		if again := mustJSON(t, back); again != strings.TrimSuffix(mustJSON(t, p), "\n") {
			t.Errorf("%s does not survive decoding:\n%s", p.EventType(), again)
		}
	}
}
