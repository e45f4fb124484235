package protocol

import "encoding/json"

// Notification is one event as every door sends it: a WebSocket frame, the data
// of an SSE event, an element of a page of events.
type Notification struct {
	// Method says what happened, and so what params holds.
	Method string `json:"method"`
	// Params is one of the types in this file.
	Params json.RawMessage `json:"params"`
	// Seq is the position in the thread's journal: 1, 2, 3, … without holes.
	// Absent for what is not in the journal: text deltas and stream/….
	Seq *int64 `json:"seq,omitempty"`
	// EmittedAtMs is when it happened, in unix milliseconds.
	EmittedAtMs int64 `json:"emittedAtMs"`
}

// ThreadStartedParams: a thread exists. Always the first event of a thread.
type ThreadStartedParams struct {
	Thread Thread `json:"thread"`
}

// ThreadDeletedParams: the thread is gone, and this is its last event.
type ThreadDeletedParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadStatusChangedParams: the thread became idle, active, or failed.
type ThreadStatusChangedParams struct {
	ThreadID string       `json:"threadId"`
	Status   ThreadStatus `json:"status"`
}

// ThreadQueueChangedParams: inputs wait, or wait no longer.
type ThreadQueueChangedParams struct {
	ThreadID string `json:"threadId"`
	// Queue is the whole queue after the change. Not in codex.
	Queue []QueuedSubmission `json:"queue"`
}

// QueuedSubmission is an input that was accepted and waits for its turn.
type QueuedSubmission struct {
	// ID is that of the turn it will become.
	ID    string      `json:"id"`
	Input []UserInput `json:"input"`
	// ClientUserMessageID is the id that the client gave the message.
	ClientUserMessageID string `json:"clientUserMessageId"`
	// QueuedAtMs is in unix milliseconds. Not in codex.
	QueuedAtMs int64 `json:"queuedAtMs"`
}

// TurnStartedParams: a turn runs.
type TurnStartedParams struct {
	ThreadID string `json:"threadId"`
	Turn     Turn   `json:"turn"`
}

// TurnCompletedParams: a turn ended; its status says how. Its items are not
// loaded: they were sent one by one.
type TurnCompletedParams struct {
	ThreadID string `json:"threadId"`
	Turn     Turn   `json:"turn"`
}

// ItemStartedParams: an item is open. Its text, if any, grows by deltas.
type ItemStartedParams struct {
	ThreadID string     `json:"threadId"`
	TurnID   string     `json:"turnId"`
	Item     ThreadItem `json:"item"`
	// StartedAtMs is in unix milliseconds.
	StartedAtMs int64 `json:"startedAtMs"`
}

// ItemCompletedParams: an item is whole and will not change again.
type ItemCompletedParams struct {
	ThreadID string     `json:"threadId"`
	TurnID   string     `json:"turnId"`
	Item     ThreadItem `json:"item"`
	// CompletedAtMs is in unix milliseconds.
	CompletedAtMs int64 `json:"completedAtMs"`
	// ContentTokenCount is codex's; always null here.
	ContentTokenCount *int `json:"contentTokenCount"`
}

// ItemHiddenParams: an item was added that has no form on this wire, such as a
// provider's sealed one. It is part of the context. Not in codex.
type ItemHiddenParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	// Kind is the item's kind in the context.
	Kind string `json:"kind"`
	// Origin is the provider that understands the item; empty if none does.
	Origin string `json:"origin"`
}

// AgentMessageDeltaParams: an open agentMessage has more text.
type AgentMessageDeltaParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
	// Offset is the position of delta in the item's text, in bytes of UTF-8: what
	// a client already has beyond it, it can drop. Not in codex.
	Offset int64 `json:"offset"`
}

// ReasoningSummaryTextDeltaParams: an open reasoning has more text.
type ReasoningSummaryTextDeltaParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
	// SummaryIndex is the element of summary that grows; always 0 here.
	SummaryIndex int `json:"summaryIndex"`
	// Offset is the position of delta in that element, in bytes of UTF-8. Not in codex.
	Offset int64 `json:"offset"`
}

// PlanUpdatedParams: the agent has a new plan.
type PlanUpdatedParams struct {
	ThreadID    string     `json:"threadId"`
	TurnID      string     `json:"turnId"`
	Explanation *string    `json:"explanation"`
	Plan        []PlanStep `json:"plan"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	Step   string `json:"step"`
	Status string `json:"status" enum:"pending,inProgress,completed"`
}

// TokenUsageUpdatedParams: tokens were counted, after a request or a compaction.
type TokenUsageUpdatedParams struct {
	ThreadID   string     `json:"threadId"`
	TurnID     string     `json:"turnId"`
	TokenUsage TokenUsage `json:"tokenUsage"`
	// Source says who counted the context: provider, or the name of a ruler. Not in codex.
	Source string `json:"source"`
}

// TokenUsage is what a thread has used.
type TokenUsage struct {
	// Total adds up all requests of the thread.
	Total TokenCounts `json:"total"`
	// Last is the newest request. Its totalTokens is the size of the context: the
	// full next request, which a compaction makes smaller.
	Last TokenCounts `json:"last"`
	// ModelContextWindow is null if unknown.
	ModelContextWindow *int `json:"modelContextWindow"`
}

// TokenCounts counts tokens as the provider reports them.
type TokenCounts struct {
	TotalTokens           int `json:"totalTokens"`
	InputTokens           int `json:"inputTokens"`
	CachedInputTokens     int `json:"cachedInputTokens"`
	CacheWriteInputTokens int `json:"cacheWriteInputTokens"`
	OutputTokens          int `json:"outputTokens"`
	ReasoningOutputTokens int `json:"reasoningOutputTokens"`
}

// ErrorParams: something failed. With willRetry the turn goes on.
type ErrorParams struct {
	ThreadID  string    `json:"threadId"`
	TurnID    string    `json:"turnId"`
	Error     TurnError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

// WarningParams: something the user should know that stops nothing.
type WarningParams struct {
	ThreadID *string `json:"threadId"`
	Message  string  `json:"message"`
}

// StreamLiveParams: everything up to here was replayed; what follows is live.
// Sent once per subscription.
type StreamLiveParams struct {
	// Cursor is the position of the stream.
	Cursor string `json:"cursor"`
}

// StreamResetParams: the cursor cannot be served, and the stream ends. Read the
// thread again and follow from its asOf, or follow everything that is kept.
type StreamResetParams struct {
	// Reason: the cursor is of another journal, is beyond the newest event, or
	// events after it were trimmed.
	Reason string `json:"reason" enum:"journalChanged,ahead,expired"`
	// Oldest is the number in cursor.
	Oldest int64 `json:"oldest"`
	// Cursor is the oldest position that can be followed from: from there on
	// nothing is missing.
	Cursor string `json:"cursor"`
}
