package api

import (
	"encoding/json"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The types of this file are the parameters and results of the methods. Members
// without omitempty are required. The tags say what decode.go checks and what
// openapi.yaml tells: min and max bound numbers, and the length of strings and
// lists; enum lists what is allowed; in says where REST takes a member from
// (path, query, header, or both for query and body; else the body of a POST and
// the query of everything else).

// Empty is an object without members.
type Empty struct{}

// PageParams selects a page of a list.
type PageParams struct {
	// Cursor is the nextCursor of the page before.
	Cursor string `json:"cursor,omitempty" max:"1000"`
	// Limit is the most elements to return; default 100. A page can be shorter, also
	// because its texts are long, and still not be the last one.
	Limit int `json:"limit,omitempty" min:"1" max:"1000"`
}

func (p PageParams) query(desc bool) threads.PageQuery {
	return threads.PageQuery{Cursor: p.Cursor, Limit: p.Limit, Desc: desc}
}

// NextPage tells how a list goes on.
type NextPage struct {
	// NextCursor is null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// BackPage tells how to go the other way from where a page began.
type BackPage struct {
	// BackwardsCursor is the cursor, with the other sortDirection, of the page that
	// begins with the first element of this one; null on an empty page.
	BackwardsCursor *string `json:"backwardsCursor"`
}

// ThreadListResult is a page of threads.
type ThreadListResult struct {
	Data []protocol.Thread `json:"data"`
	NextPage
	BackPage
	// ReadStates is codex's; always null here.
	ReadStates *Empty `json:"readStates"`
}

// ThreadParams names a thread.
type ThreadParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
}

// TurnParams names a turn.
type TurnParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	TurnID   string `json:"turnId" in:"path" id:"turn"`
}

// TurnReadResult is a turn with its items, or, if these are many or long, with the
// first of them.
type TurnReadResult struct {
	// Turn has the itemsView full if all its items are there, else summary.
	Turn protocol.Turn `json:"turn"`
	// NextCursor is the cursor of thread/items/list, with this turnId, for the other
	// items; null if there are none.
	NextCursor *string `json:"nextCursor"`
}

// ItemListParams selects a page of the items of a thread.
type ItemListParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// TurnID selects the items of one turn; default: of all.
	TurnID string `json:"turnId,omitempty" id:"turn"`
	PageParams
	// SortDirection is asc, oldest first, by default.
	SortDirection string `json:"sortDirection,omitempty" enum:"asc,desc"`
}

// ItemListResult is a page of the timeline.
type ItemListResult struct {
	Data []ItemEntry `json:"data"`
	NextPage
	BackPage
}

// ItemEntry is an item and the turn it belongs to.
type ItemEntry struct {
	TurnID string              `json:"turnId"`
	Item   protocol.ThreadItem `json:"item"`
	// StartedAtMs is in unix milliseconds; null if unknown.
	StartedAtMs *int64 `json:"startedAtMs"`
	// CompletedAtMs is in unix milliseconds; null while the item is open.
	CompletedAtMs *int64 `json:"completedAtMs"`
}

// CompactStartParams asks for a compaction.
type CompactStartParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Route is who shall compact: the provider (native) or this server (local).
	// Default: native if the session can, else local. A route that does not exist
	// is refused, never replaced.
	Route string `json:"route,omitempty" enum:"native,local"`
	// Writer is how a local checkpoint is written; default: the best that works.
	Writer string `json:"writer,omitempty" enum:"model,extractive,fixed"`
	// Budget bounds the resulting context, in tokens; default: the policy's target.
	Budget int `json:"budget,omitempty" min:"1" max:"100000000"`
	// Instructions is for the model writer.
	Instructions string `json:"instructions,omitempty" max:"4000"`
	// Wait asks for the terminal record instead of an acknowledgement.
	Wait bool `json:"wait,omitempty" in:"both"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// CompactStartResult acknowledges a compaction. With wait its record is terminal.
type CompactStartResult struct {
	CompactionID string            `json:"compactionId"`
	Compaction   compaction.Record `json:"compaction"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`

	waited bool
}

// CompactionParams names a compaction.
type CompactionParams struct {
	ThreadID     string `json:"threadId" in:"path" id:"thread"`
	CompactionID string `json:"compactionId" in:"path" id:"compaction"`
}

// CompactionReadResult is the record of a compaction.
type CompactionReadResult struct {
	Compaction compaction.Record `json:"compaction"`
}

// CompactionListParams selects a page of the compactions of a thread, newest first.
type CompactionListParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	PageParams
}

// CompactionListResult is a page of compactions.
type CompactionListResult struct {
	Data []compaction.Record `json:"data"`
	NextPage
}

// CompactionUpdatedParams: a compaction changed its phase. The record is whole
// each time. Not in codex.
type CompactionUpdatedParams struct {
	ThreadID   string            `json:"threadId"`
	Compaction compaction.Record `json:"compaction"`
}

// ContextReadParams selects an epoch.
type ContextReadParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Epoch is the number of a context window; default: the current one.
	Epoch *int `json:"epoch,omitempty" min:"0" max:"1000000000"`
	// Cursor is the nextCursor of the page before; it is of an epoch, so that a page
	// is never of another one than the page before.
	Cursor string `json:"cursor,omitempty" max:"100"`
	// Limit is the most entries to return; default 1000. A page can be shorter,
	// because its texts are long, and still not be the last one.
	Limit int `json:"limit,omitempty" min:"1" max:"1000"`
}

// ContextReadResult is what a request of an epoch holds.
type ContextReadResult struct {
	Epoch int `json:"epoch"`
	// CurrentEpoch is the number of the current context window.
	CurrentEpoch int         `json:"currentEpoch"`
	Base         ContextBase `json:"base"`
	// Entries are in order; the first one may be the checkpoint.
	Entries []ContextEntry `json:"entries"`
	// NextCursor is null if there are no more entries.
	NextCursor *string `json:"nextCursor"`
	// Tokens is the size of base and all entries by ruler.
	Tokens int    `json:"tokens"`
	Ruler  string `json:"ruler"`
	// Window is the context window in tokens; null if unknown.
	Window *int `json:"window"`
	// Reanchor is what the first request of the epoch will carry beside it; null
	// once it was sent.
	Reanchor *string `json:"reanchor"`
	// CompactionID is the compaction that opened the epoch; null for epoch 0, and if an
	// undo did.
	CompactionID *string `json:"compactionId"`
	// Undoes is the compaction whose undo opened the epoch; null if none did.
	Undoes *string `json:"undoes"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// ContextBase is what no compaction touches of a request.
type ContextBase struct {
	System string `json:"system"`
	// Preamble is what this server adds to system for each request: the instruction
	// files of the working folder as they are now, and the pins. Null if there is
	// nothing.
	Preamble *string       `json:"preamble"`
	Tools    []ContextTool `json:"tools"`
	Tokens   int           `json:"tokens"`
}

// ContextTool is a tool that the model is offered.
type ContextTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Schema is a JSON Schema of the arguments.
	Schema json.RawMessage `json:"schema"`
}

// ContextEntry is one item as it is rendered in a context.
type ContextEntry struct {
	ItemID string          `json:"itemId"`
	TurnID string          `json:"turnId"`
	Kind   transcript.Kind `json:"kind"`
	// Form says how much of the item is left.
	Form transcript.Form `json:"form"`
	// CallID joins a call with its result; null for other items.
	CallID *string `json:"callId"`
	// Text is what the item says; that of a call is its name and arguments.
	Text string `json:"text"`
	// Tokens is the size of text by ruler.
	Tokens int `json:"tokens"`
}

// EventsReadParams selects events of a thread.
type EventsReadParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	EventsParams
}

// EventsParams selects events.
type EventsParams struct {
	// After is a cursor; default: the beginning.
	After string `json:"after,omitempty" max:"100"`
	// Limit is the most events of a page; default 100. A page can be shorter, because
	// its events are large, and still not be the last one. Streams have no limit.
	Limit int `json:"limit,omitempty" min:"1" max:"1000"`
}

// EventsReadResult is a page of events. It can be shorter than its limit, because
// the events are large; only an empty one says that there are no more for now.
type EventsReadResult struct {
	Data []protocol.Notification `json:"data"`
	// Cursor is the position after the last one: the after of the next page.
	Cursor string `json:"cursor"`
}

// ProviderListResult is what is configured.
type ProviderListResult struct {
	Data []Provider `json:"data"`
}

// Provider is a configured endpoint or runtime.
type Provider struct {
	// Name is what modelProvider takes.
	Name string `json:"name"`
	// Kind is the adapter's name.
	Kind      string  `json:"kind"`
	IsDefault bool    `json:"isDefault"`
	Models    []Model `json:"models"`
	// Error says why the models could not be listed.
	Error *string `json:"error"`
}

// Model is what a provider can run. The first one is its default.
type Model struct {
	ID          string `json:"id"`
	DisplayName string `json:"displayName"`
	// ContextWindow is in tokens; null if unknown.
	ContextWindow *int `json:"contextWindow"`
	// WindowSource says who told the window: config, server or builtin; null if it is
	// unknown.
	WindowSource *string `json:"windowSource"`
	// MaxOutput is in tokens; null if unknown.
	MaxOutput *int `json:"maxOutput"`
	// Price is null if unknown.
	Price *Price `json:"price"`
}

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cachedInput"`
	Output      float64 `json:"output"`
}

// ImportParams says what the imported thread continues with.
type ImportParams struct {
	// Provider is the name of a configured provider; default: the first one.
	Provider string `json:"provider,omitempty" in:"query" max:"200"`
	// Model is what the provider shall run; default: its first one.
	Model string `json:"model,omitempty" in:"query" max:"200"`
	// Cwd is the working directory; default: that of the file.
	Cwd string `json:"cwd,omitempty" in:"query" max:"4096"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// ImportResult tells what became of an imported file.
type ImportResult struct {
	Thread protocol.Thread `json:"thread"`
	// Source is the program that wrote the file.
	Source string `json:"source"`
	// Items counts what was imported, by kind.
	Items map[string]int `json:"items"`
	// Epochs is the number of boundaries that the file brought along.
	Epochs int `json:"epochs"`
	// Warnings tells what could not be read as meant.
	Warnings []string `json:"warnings"`
	// Skipped counts records left out on purpose, by type.
	Skipped map[string]int `json:"skipped"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}
