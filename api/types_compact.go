package api

import (
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// CompactPreviewParams asks what a compaction would do. They are those of
// thread/compact/start.
type CompactPreviewParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Route is who would compact: the provider (native) or this server (local).
	Route string `json:"route,omitempty" enum:"native,local"`
	// Writer is how a local checkpoint would be written.
	Writer string `json:"writer,omitempty" enum:"model,extractive,fixed"`
	// Budget bounds the resulting context, in tokens; default: the policy's target.
	Budget int `json:"budget,omitempty" min:"1" max:"100000000"`
	// Instructions is for the model writer.
	Instructions string `json:"instructions,omitempty" max:"4000"`
}

// CompactPreviewResult is what a compaction would do if it ran now.
type CompactPreviewResult struct {
	// Compaction is as the record would be at its end, without ids, phase and times. A
	// refusal is among its outcomes. The sizes of a local one are those of its plan,
	// with a checkpoint that no model wrote; of a native one it says only that it
	// would be native.
	Compaction compaction.Record `json:"compaction"`
	// SummarizedItemIDs are the items that the checkpoint would stand for, a checkpoint
	// of before included.
	SummarizedItemIDs []string `json:"summarizedItemIds"`
	// ClippedItemIDs are items that would be shown in part.
	ClippedItemIDs []string `json:"clippedItemIds"`
	// StubItemIDs are items of which only a marker would be shown.
	StubItemIDs []string `json:"stubItemIds"`
	// Writers are the models that would be asked, in order; empty if none would.
	Writers []string `json:"writers"`
	// Cost is what the first of writers would use at most, estimated; null if no model
	// would be asked.
	Cost *compaction.Usage `json:"cost"`
	// AsOf is the position that the preview is of.
	AsOf string `json:"asOf"`
}

// CompactCancelResult is the terminal record of a compaction that was cancelled.
type CompactCancelResult struct {
	Compaction compaction.Record `json:"compaction"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// CompactUndoParams names a completed compaction to take back.
type CompactUndoParams struct {
	ThreadID     string `json:"threadId" in:"path" id:"thread"`
	CompactionID string `json:"compactionId" in:"path" id:"compaction"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// CompactUndoResult tells what an undo made of the context.
type CompactUndoResult struct {
	CompactionID string `json:"compactionId"`
	// Epoch is the current one. The undo of a compaction that opened an epoch opens one
	// more; of one that only pruned it stays the same.
	Epoch int `json:"epoch"`
	// Tokens is the size of the next request, as source says.
	Tokens int    `json:"tokens"`
	Source string `json:"source"`
	// Window is the context window in tokens; null if unknown.
	Window *int `json:"window"`
	// NativeID is the provider's own id of the session that has the context now; null if
	// the provider keeps no history.
	NativeID *string `json:"nativeId"`
	// Retold says that this session is a fresh one, which was told the context from the
	// journal. Otherwise the session of before goes on.
	Retold bool `json:"retold"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// ContextSearchParams is what to look for in a thread.
type ContextSearchParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Query is words, any of which may match; nothing in it is syntax.
	Query string `json:"query" min:"1" max:"1000"`
	// Limit is the most hits to return; default 10.
	Limit int `json:"limit,omitempty" min:"1" max:"50"`
}

// ContextSearchResult has the best hits first.
type ContextSearchResult struct {
	Data []SearchHit `json:"data"`
	// Complete says that all of the thread was searched. A very long thread is indexed
	// by several searches: the same one again goes on.
	Complete bool `json:"complete"`
	// IndexedSeq is the number of the last event that was searched.
	IndexedSeq int64 `json:"indexedSeq"`
	// AsOf is the position that the search is of.
	AsOf string `json:"asOf"`
}

// SearchHit is a piece of an item that matched.
type SearchHit struct {
	SearchPiece
	// Archived says that the context of now does not hold the whole item.
	Archived bool `json:"archived"`
	// Form is how the context shows the item; null if it does not.
	Form  *transcript.Form `json:"form"`
	Score float64          `json:"score"`
	// Before is the piece before this one; null at the beginning.
	Before *SearchPiece `json:"before"`
	// After is the piece after this one; null at the end.
	After *SearchPiece `json:"after"`
}

// SearchPiece is at most 1,200 characters of an item.
type SearchPiece struct {
	ItemID string          `json:"itemId"`
	TurnID string          `json:"turnId"`
	Kind   transcript.Kind `json:"kind"`
	// Part is the piece's number in its item, from 0.
	Part int    `json:"part"`
	Text string `json:"text"`
}

// PinAddParams is a text to pin.
type PinAddParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Text is carried verbatim by every request. All pins of a thread have at most a
	// tenth of the context window.
	Text string `json:"text" min:"1" max:"16000"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// PinAddResult is a pin that is there now.
type PinAddResult struct {
	Pin Pin `json:"pin"`
	// Added is false if the text was pinned before.
	Added bool `json:"added"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// PinRemoveParams names a pin.
type PinRemoveParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	PinID    string `json:"pinId" in:"path" id:"pin"`
}

// PinListResult is all pins of a thread, oldest first.
type PinListResult struct {
	Data []Pin `json:"data"`
	// Tokens is the estimate of all pins, limit the most that it may be.
	Tokens int `json:"tokens"`
	Limit  int `json:"limit"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}
