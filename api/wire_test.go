package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

var (
	at      = time.UnixMilli(1_700_000_000_123).UTC()
	openAt  = at.Add(-2500 * time.Millisecond)
	testAPI = New(Options{Version: "v"})
)

// event journals a payload as the service does.
func event(t testing.TB, p threads.Payload) events.Event {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return events.Event{Seq: 7, Pos: 70, Thread: "t-1", Type: p.EventType(), At: at, Data: b}
}

func item(id string, body transcript.Body) transcript.Item {
	return transcript.Item{ID: transcript.ItemID(id), Turn: "u-1", StartedAt: openAt, CompletedAt: at, Body: body}
}

// A wireForm is a payload and what it looks like on the wire.
type wireForm struct {
	name    string
	payload threads.Payload
	method  string
	params  string
}

// wireForms has every kind of payload, and every variant of an item.
func wireForms() []wireForm {
	call := item("i-1", transcript.ToolCall{CallID: "c", Name: "sh", Arguments: []byte(`{"x":[1]}`)})
	result := transcript.ToolResult{CallID: "c", Output: transcript.TextParts("out")}
	failed := transcript.ToolResult{CallID: "c", Output: []transcript.Part{{Type: transcript.PartImage, Blob: "ab", MediaType: "image/png"}}, IsError: true, Synthetic: true}
	exit := 0
	settings := threads.Settings{Provider: "p", Model: "m", Cwd: "/w", ApprovalPolicy: "never", Sandbox: "workspace-write", Effort: "high", Mode: "plan"}
	record := compaction.Record{CompactionID: "k", ThreadID: "t-1", Phase: compaction.PhaseRequested, Trigger: compaction.TriggerManual}
	command := threads.Request{
		ID: "r-1", Method: threads.AskCommand, TurnID: "u-1", ItemID: "i-1", CreatedAt: 5,
		Command: &threads.CommandQuestion{Command: "rm x", Cwd: "/w", Reason: "why", Amendment: []string{"rm"}},
	}
	file := threads.Request{ID: "r-2", Method: threads.AskFile, TurnID: "u-1", ItemID: "i-1", CreatedAt: 5, File: &threads.FileQuestion{GrantRoot: "/w"}}
	tool := threads.Request{
		ID: "r-3", Method: threads.AskTool, TurnID: "u-1", ItemID: "i-1", CreatedAt: 5,
		Tool: &threads.ToolQuestion{CallID: "c", Namespace: "n", Tool: "t", Arguments: []byte(`{"a":1}`)},
	}
	return []wireForm{
		{
			"started",
			threads.ThreadStarted{Settings: settings, Name: "N", CreatedAt: 1000, Origin: threads.Origin{ForkedFrom: "t-0", Client: "c", Source: "user"}, Git: &threads.GitInfo{SHA: "s"}},
			"thread/started",
			`{"thread":{"id":"t-1","sessionId":"t-1","forkedFromId":"t-0","parentThreadId":null,"preview":"","ephemeral":false,"projectId":null,"historyMode":"paginated","modelProvider":"p","model":"m","createdAt":1,"updatedAt":1700000000,"recencyAt":1700000000,"status":{"type":"idle"},"path":null,"cwd":"/w","cliVersion":"v","originator":"c","source":"vscode","canAcceptDirectInput":true,"agentNickname":null,"agentRole":null,"gitInfo":{"sha":"s","branch":null,"originUrl":null},"threadSource":"user","reasoningEffort":"high","name":"N","turns":[],"plimsoll":{"epoch":0,"turns":0,"items":0,"queued":0,"occupancy":{"context":0,"base":0,"window":null,"source":"chars4"},"imported":null,"archived":false,"nativeSession":null,"damaged":null}}}`,
		},
		{"named", threads.NameUpdated{Name: "N"}, "thread/name/updated", `{"threadId":"t-1","threadName":"N"}`},
		{"unnamed", threads.NameUpdated{}, "thread/name/updated", `{"threadId":"t-1"}`},
		{"archived", threads.ThreadArchived{}, "thread/archived", `{"threadId":"t-1"}`},
		{"unarchived", threads.ThreadUnarchived{}, "thread/unarchived", `{"threadId":"t-1"}`},
		{"reverted", threads.ThreadReverted{BeforeTurn: "u-1"}, "thread/reverted", `{"threadId":"t-1","beforeTurnId":"u-1"}`},
		{"metadata", threads.MetadataUpdated{Git: &threads.GitInfo{Branch: "b"}}, "thread/metadata/updated", `{"threadId":"t-1","gitInfo":{"sha":null,"branch":"b","originUrl":null}}`},
		{
			"settings",
			threads.SettingsUpdated{Settings: settings},
			"thread/settings/updated",
			`{"threadId":"t-1","threadSettings":{"cwd":"/w","approvalPolicy":"never","approvalsReviewer":"user","sandboxPolicy":{"type":"workspaceWrite","writableRoots":[],"networkAccess":false,"excludeTmpdirEnvVar":false,"excludeSlashTmp":false},"model":"m","modelProvider":"p","effort":"high","collaborationMode":{"mode":"plan","settings":{"model":"m","reasoning_effort":"high","developer_instructions":null}},"disabledPluginIds":[],"environments":null,"activePermissionProfile":null,"serviceTier":null,"summary":null,"multiAgentMode":"explicitRequestOnly","personality":null}}`,
		},
		{
			"asked for a command",
			threads.RequestCreated{Request: command},
			"serverRequest/created",
			`{"threadId":"t-1","request":{"id":"r-1","method":"item/commandExecution/requestApproval","params":{"kind":"command","threadId":"t-1","turnId":"u-1","itemId":"i-1","startedAtMs":5,"environmentId":null,"reason":"why","command":"rm x","cwd":"/w","commandActions":[{"type":"unknown","command":"rm x"}],"proposedExecpolicyAmendment":["rm"]}}}`,
		},
		{
			"asked for a file",
			threads.RequestCreated{Request: file},
			"serverRequest/created",
			`{"threadId":"t-1","request":{"id":"r-2","method":"item/fileChange/requestApproval","params":{"threadId":"t-1","turnId":"u-1","itemId":"i-1","startedAtMs":5,"reason":null,"grantRoot":"/w"}}}`,
		},
		{
			"asked for a tool",
			threads.RequestCreated{Request: tool},
			"serverRequest/created",
			`{"threadId":"t-1","request":{"id":"r-3","method":"item/tool/call","params":{"threadId":"t-1","turnId":"u-1","callId":"c","namespace":"n","tool":"t","arguments":{"a":1}}}}`,
		},
		{
			"resolved",
			threads.RequestResolved{RequestID: "r-1", TurnID: "u-1", Outcome: threads.RequestAnswered, By: "c"},
			"serverRequest/resolved",
			`{"threadId":"t-1","requestId":"r-1","outcome":"answered","by":"c"}`,
		},
		{"compaction", threads.CompactionUpdated{Record: record}, "thread/compaction/updated", `{"threadId":"t-1","compaction":` + recordJSON(record) + `}`},
		{"undone", threads.CompactionUndone{CompactionID: "c-1", Boundary: &transcript.Boundary{Epoch: 3}}, "thread/compaction/undone", `{"threadId":"t-1","compactionId":"c-1","epoch":3}`},
		{"undone prune", threads.CompactionUndone{CompactionID: "c-1"}, "thread/compaction/undone", `{"threadId":"t-1","compactionId":"c-1","epoch":null}`},
		{"pins", threads.PinsChanged{Pins: []threads.Pin{{ID: "p-1", Text: "x", Hash: "h", Tokens: 1, AddedAt: 2}}}, "thread/pins/changed", `{"threadId":"t-1","pins":[{"id":"p-1","text":"x","hash":"h","tokens":1,"addedAt":2}]}`},
		{"deleted", threads.ThreadDeleted{}, "thread/deleted", `{"threadId":"t-1"}`},
		{"idle", threads.StatusChanged{Status: threads.StatusIdle}, "thread/status/changed", `{"threadId":"t-1","status":{"type":"idle"}}`},
		{"active", threads.StatusChanged{Status: threads.StatusActive, Accepted: &threads.Accepted{Key: "secret"}}, "thread/status/changed", `{"threadId":"t-1","status":{"type":"active","activeFlags":[]}}`},
		{
			"queue",
			threads.QueueChanged{Queue: []threads.QueuedTurn{{TurnID: "q", Input: transcript.TextParts("a<b"), ClientID: "m", QueuedAt: 5}}},
			"thread/queue/changed",
			`{"threadId":"t-1","queue":[{"id":"q","input":[{"type":"text","text":"a<b","text_elements":[]}],"clientUserMessageId":"m","queuedAtMs":5}]}`,
		},
		{"empty queue", threads.QueueChanged{}, "thread/queue/changed", `{"threadId":"t-1","queue":[]}`},
		{
			"turn",
			threads.TurnStarted{Turn: transcript.Turn{ID: "u-1", Kind: transcript.TurnUser, Status: transcript.TurnInProgress, StartedAt: openAt}},
			"turn/started",
			`{"threadId":"t-1","turn":{"id":"u-1","rootTurnId":"u-1","items":[],"itemsView":"notLoaded","status":"inProgress","error":null,"startedAt":1699999997,"completedAt":null,"durationMs":null,"kind":"user","queued":false}}`,
		},
		{
			"failed turn",
			threads.TurnCompleted{Turn: transcript.Turn{ID: "u-1", Kind: transcript.TurnCompact, Status: transcript.TurnFailed, StartedAt: openAt, CompletedAt: at, Error: &transcript.TurnError{Message: "m", Code: "budgetExhausted"}}},
			"turn/completed",
			`{"threadId":"t-1","turn":{"id":"u-1","rootTurnId":"u-1","items":[],"itemsView":"notLoaded","status":"failed","error":{"message":"m","codexErrorInfo":"sessionBudgetExceeded","additionalDetails":null,"code":"budgetExhausted"},"startedAt":1699999997,"completedAt":1700000000,"durationMs":2500,"kind":"compact","queued":false}}`,
		},
		{
			"message",
			threads.ItemCompleted{Item: item("i-1", transcript.AgentMessage{Text: "hi"})},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"agentMessage","id":"i-1","text":"hi","phase":null,"startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"open reasoning",
			threads.ItemStarted{Item: transcript.Item{ID: "i-1", Turn: "u-1", StartedAt: openAt, Body: transcript.Reasoning{}}},
			"item/started",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"reasoning","id":"i-1","summary":[],"content":[],"startedAtMs":1699999997623,"completedAtMs":null},"startedAtMs":1699999997623}`,
		},
		{
			"call",
			threads.ItemStarted{Item: call},
			"item/started",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"dynamicToolCall","id":"i-1","namespace":null,"tool":"sh","arguments":{"x":[1]},"status":"inProgress","contentItems":null,"success":null,"durationMs":null,"resultItemId":null,"synthetic":false,"startedAtMs":1699999997623,"completedAtMs":null},"startedAtMs":1699999997623}`,
		},
		{
			"whole call",
			threads.ItemCompleted{Item: call},
			"item/started",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"dynamicToolCall","id":"i-1","namespace":null,"tool":"sh","arguments":{"x":[1]},"status":"inProgress","contentItems":null,"success":null,"durationMs":null,"resultItemId":null,"synthetic":false,"startedAtMs":1699999997623,"completedAtMs":null},"startedAtMs":1699999997623}`,
		},
		{
			"result",
			threads.ItemCompleted{Item: item("i-2", result), Call: &call},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"dynamicToolCall","id":"i-1","namespace":null,"tool":"sh","arguments":{"x":[1]},"status":"completed","contentItems":[{"type":"inputText","text":"out"}],"success":true,"durationMs":2500,"resultItemId":"i-2","synthetic":false,"startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"orphan result",
			threads.ItemCompleted{Item: item("i-2", failed)},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"dynamicToolCall","id":"i-2","namespace":null,"tool":"unknown","arguments":null,"status":"failed","contentItems":[{"type":"inputImage","imageUrl":"urn:plimsoll:blob:ab"}],"success":false,"durationMs":null,"resultItemId":"i-2","synthetic":true,"startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"command",
			threads.ItemCompleted{Item: item("i-1", transcript.Command{Command: "ls", Cwd: "/w", Output: "a", ExitCode: &exit, Status: "completed"})},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"commandExecution","id":"i-1","command":"ls","cwd":"/w","processId":null,"source":"agent","status":"completed","commandActions":[{"type":"unknown","command":"ls"}],"aggregatedOutput":"a","exitCode":0,"durationMs":2500,"startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"change",
			threads.ItemCompleted{Item: item("i-1", transcript.FileChange{Changes: []transcript.Change{{Path: "p", Op: "update", Diff: "d"}}, Status: "declined"})},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"fileChange","id":"i-1","changes":[{"path":"p","kind":{"type":"update","move_path":null},"diff":"d"}],"status":"declined","startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"plan item",
			threads.ItemCompleted{Item: item("i-1", transcript.Plan{Steps: []transcript.PlanStep{{Step: "s", Status: "pending"}}})},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"plan","id":"i-1","text":"[pending] s","startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"image",
			threads.ItemCompleted{Item: item("i-1", transcript.Image{Blob: "ab", MediaType: "image/png"})},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"imageView","id":"i-1","path":"urn:plimsoll:blob:ab","startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"notice",
			threads.ItemCompleted{Item: item("i-1", transcript.Notice{Source: "reanchor", Text: "n"}), Reanchor: true},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"hookPrompt","id":"i-1","fragments":[{"text":"n","hookRunId":"reanchor"}],"startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"marker",
			threads.ItemCompleted{Item: item("i-1", transcript.ContextCompaction{CompactionID: "k"})},
			"item/completed",
			`{"threadId":"t-1","turnId":"u-1","item":{"type":"contextCompaction","id":"i-1","compactionId":"k","startedAtMs":1699999997623,"completedAtMs":1700000000123},"completedAtMs":1700000000123,"contentTokenCount":null}`,
		},
		{
			"opaque",
			threads.ItemCompleted{Item: item("i-1", transcript.Opaque{Origin: "responses", Raw: []byte(`{"sealed":1}`)})},
			"item/hidden",
			`{"threadId":"t-1","turnId":"u-1","itemId":"i-1","kind":"opaque","origin":"responses"}`,
		},
		{
			"open opaque",
			threads.ItemStarted{Item: item("i-1", transcript.Opaque{Origin: "o"})},
			"item/hidden",
			`{"threadId":"t-1","turnId":"u-1","itemId":"i-1","kind":"opaque","origin":"o"}`,
		},
		{
			"checkpoint",
			threads.ItemCompleted{Item: item("i-1", transcript.Checkpoint{Text: "notes"})},
			"item/hidden",
			`{"threadId":"t-1","turnId":"u-1","itemId":"i-1","kind":"checkpoint","origin":""}`,
		},
		{
			"plan",
			threads.PlanUpdated{TurnID: "u-1", Plan: transcript.Plan{Steps: []transcript.PlanStep{{Step: "s", Status: "inProgress"}}}},
			"turn/plan/updated",
			`{"threadId":"t-1","turnId":"u-1","explanation":null,"plan":[{"step":"s","status":"inProgress"}]}`,
		},
		{
			"usage",
			threads.UsageUpdated{TurnID: "u-1", Last: adapters.Usage{InputTokens: 10, OutputTokens: 2}, Total: adapters.Usage{InputTokens: 30, OutputTokens: 5, CachedInputTokens: 4}, Context: 99, Source: "provider", Window: 1000},
			"thread/tokenUsage/updated",
			`{"threadId":"t-1","turnId":"u-1","tokenUsage":{"total":{"totalTokens":35,"inputTokens":30,"cachedInputTokens":4,"cacheWriteInputTokens":0,"outputTokens":5,"reasoningOutputTokens":0},"last":{"totalTokens":99,"inputTokens":10,"cachedInputTokens":0,"cacheWriteInputTokens":0,"outputTokens":2,"reasoningOutputTokens":0},"modelContextWindow":1000},"source":"provider"}`,
		},
		{
			"error",
			threads.ErrorRaised{TurnID: "u-1", Error: transcript.TurnError{Message: "m", Code: "whatever"}, WillRetry: true},
			"error",
			`{"threadId":"t-1","turnId":"u-1","error":{"message":"m","codexErrorInfo":"other","additionalDetails":null,"code":"whatever"},"willRetry":true}`,
		},
		{"warning", threads.WarningRaised{Message: "m"}, "warning", `{"threadId":"t-1","message":"m"}`},
		{"undo", threads.CompactionUndone{CompactionID: "k", Boundary: &transcript.Boundary{Epoch: 2}}, "thread/compaction/undone", `{"threadId":"t-1","compactionId":"k","epoch":2}`},
		{"undo of a prune", threads.CompactionUndone{CompactionID: "k"}, "thread/compaction/undone", `{"threadId":"t-1","compactionId":"k","epoch":null}`},
		{
			"pins",
			threads.PinsChanged{Pins: []threads.Pin{{ID: "p", Text: "keep", Hash: "ab", Tokens: 1, AddedAt: 9}}},
			"thread/pins/changed",
			`{"threadId":"t-1","pins":[{"id":"p","text":"keep","hash":"ab","tokens":1,"addedAt":9}]}`,
		},
		{
			"session",
			threads.SessionUpdated{Provider: "codex", NativeID: "n2", Previous: "n1", Reason: threads.SessionReplaced},
			"thread/session/updated",
			`{"threadId":"t-1","provider":"codex","nativeId":"n2","previous":"n1","reason":"replaced"}`,
		},
		{"first session", threads.SessionUpdated{Provider: "codex", NativeID: "n1", Reason: threads.SessionOpened}, "thread/session/updated", `{"threadId":"t-1","provider":"codex","nativeId":"n1","previous":null,"reason":"opened"}`},
		{"no pins", threads.PinsChanged{}, "thread/pins/changed", `{"threadId":"t-1","pins":[]}`},
	}
}

func recordJSON(r compaction.Record) string {
	b, err := encode(r)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestWireForms is the mapping: what each payload looks like on the wire.
func TestWireForms(t *testing.T) {
	spec := loadSpec(t)
	for _, c := range wireForms() {
		t.Run(c.name, func(t *testing.T) {
			n, err := testAPI.notification(event(t, c.payload))
			if err != nil {
				t.Fatal(err)
			}
			if n.Method != c.method || *n.Seq != 7 || n.EmittedAtMs != at.UnixMilli() {
				t.Errorf("%s seq %d at %d", n.Method, *n.Seq, n.EmittedAtMs)
			}
			if diff := cmp.Diff(c.params, string(n.Params)); diff != "" {
				t.Errorf("params:\n%s", diff)
			}
			spec.value(t, "Notification", []byte(mustEncode(t, n)))
		})
	}
}

// The record goes out as it is, but always under the thread that it is in: an
// imported thread's records carry the old thread's id.
func TestARecordCarriesTheThreadItIsIn(t *testing.T) {
	p := threads.CompactionUpdated{
		Record:   compaction.Record{CompactionID: "k", ThreadID: "another", Phase: compaction.PhaseRequested, Trigger: compaction.TriggerManual},
		Boundary: &transcript.Boundary{Epoch: 1}, Reanchor: "not for clients",
	}
	n, err := testAPI.notification(event(t, p))
	if err != nil {
		t.Fatal(err)
	}
	var got CompactionUpdatedParams
	if err := json.Unmarshal(n.Params, &got); err != nil || got.Compaction.ThreadID != "t-1" || got.ThreadID != "t-1" || strings.Contains(string(n.Params), "not for clients") {
		t.Errorf("%s", n.Params)
	}
	loadSpec(t).value(t, "Notification", []byte(mustEncode(t, n)))
}

// Every event type has its row in the table of notifications, with the type of
// parameters that it is mapped to.
func TestEveryEventTypeHasItsNotification(t *testing.T) {
	body := transcript.AgentMessage{Text: "x"}
	payloads := map[string]threads.Payload{}
	for _, p := range []threads.Payload{
		threads.ThreadStarted{},
		threads.ThreadDeleted{},
		threads.NameUpdated{},
		threads.ThreadArchived{},
		threads.ThreadUnarchived{},
		threads.SettingsUpdated{},
		threads.MetadataUpdated{},
		threads.ThreadReverted{},
		threads.RequestCreated{Request: threads.Request{File: &threads.FileQuestion{}}},
		threads.RequestResolved{},
		threads.StatusChanged{Status: threads.StatusIdle},
		threads.QueueChanged{},
		threads.TurnStarted{},
		threads.TurnCompleted{},
		threads.ItemStarted{Item: item("i", body)},
		threads.ItemCompleted{Item: item("i", body)},
		threads.PlanUpdated{},
		threads.UsageUpdated{},
		threads.ErrorRaised{},
		threads.WarningRaised{},
		threads.CompactionUpdated{},
		threads.CompactionUndone{},
		threads.PinsChanged{},
		threads.SessionUpdated{NativeID: "n"},
	} {
		payloads[p.EventType()] = p
	}
	for _, n := range Notifications() {
		p, ok := payloads[n.Method]
		if !ok {
			if n.Durable && n.Method != methodItemHidden {
				t.Errorf("%s has no payload here", n.Method)
			}
			continue
		}
		delete(payloads, n.Method)
		_, params, err := testAPI.paramsOf(event(t, p), p)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.TypeOf(params) != n.Params {
			t.Errorf("%s is mapped to %T, the table says %s", n.Method, params, n.Params)
		}
	}
	for method := range payloads {
		t.Errorf("%s is not in the table of notifications", method)
	}
}

func TestItemsRoundTrip(t *testing.T) {
	for _, body := range []transcript.Body{
		transcript.UserMessage{Content: []transcript.Part{{Type: transcript.PartText, Text: "<a>"}, {Type: transcript.PartImage, Blob: "ab"}}},
		transcript.AgentMessage{Text: "x"},
		transcript.Reasoning{Text: "r"},
		transcript.ToolCall{Name: "n", Arguments: []byte(`{}`)},
		transcript.ToolResult{},
		transcript.Command{Command: "ls", Status: "failed"},
		transcript.FileChange{},
		transcript.Plan{},
		transcript.Image{Path: "/p"},
		transcript.Notice{Text: "n"},
		transcript.ContextCompaction{CompactionID: "k"},
	} {
		want, ok := wireItem(item("i", body), nil)
		if !ok {
			t.Errorf("%s has no wire form", body.Kind())
			continue
		}
		var got protocol.ThreadItem
		if err := json.Unmarshal([]byte(mustEncode(t, want)), &got); err != nil {
			t.Errorf("%s: %v", body.Kind(), err)
			continue
		}
		if diff := cmp.Diff(mustEncode(t, want), mustEncode(t, got)); diff != "" {
			t.Errorf("%s: %s", body.Kind(), diff)
		}
	}
}

// A provider's arguments may be no JSON at all; the wire stays JSON.
func TestArgumentsThatAreNoJSONAreSentAsText(t *testing.T) {
	w, _ := wireItem(item("i", transcript.ToolCall{Name: "n", Arguments: []byte(`{"cut`)}), nil)
	if got := mustEncode(t, w); !strings.Contains(got, `"arguments":"{\"cut"`) {
		t.Error(got)
	}
}
