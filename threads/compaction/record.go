package compaction

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// Trigger says what asked for a compaction.
type Trigger string

// The triggers. Import marks a boundary that an imported session brought along.
const (
	TriggerManual   Trigger = "manual"
	TriggerImport   Trigger = "import"
	TriggerPreTurn  Trigger = "preTurn"       // an input would cross the line
	TriggerMidTurn  Trigger = "midTurn"       // a step of a tool loop crossed it
	TriggerPostTurn Trigger = "postTurn"      // a turn ended over it
	TriggerOverflow Trigger = "overflow"      // the provider refused a request as too long
	TriggerLength   Trigger = "length"        // an answer ended because the window was full
	TriggerIdle     Trigger = "idle"          // the thread rests
	TriggerWindow   Trigger = "smallerWindow" // the thread's model was changed for one with a smaller window
	TriggerBudget   Trigger = "taskBudget"    // most of the turn's token budget is spent
	// TriggerProvider: the provider compacted its history by itself, in the middle of a
	// turn. This server only tells of it.
	TriggerProvider Trigger = "provider"
	// TriggerBytes: a request has, or would have, too many bytes. It is no compaction of
	// text: images are told in words, and tokens are no matter of it.
	TriggerBytes Trigger = "payloadTooLarge"
)

// Automatic reports whether nobody asked for it.
func (t Trigger) Automatic() bool { return t != TriggerManual && t != TriggerImport }

// Recovers reports whether the turn cannot go on without a smaller context, so that
// unchanged is no end.
func (t Trigger) Recovers() bool { return t == TriggerOverflow || t == TriggerLength }

// Route is who compacts: the provider, or this server.
type Route string

// The routes. The empty Route in a request means native if the session can,
// otherwise local.
const (
	RouteNative Route = "native"
	RouteLocal  Route = "local"
)

// Writer is how a local checkpoint is written.
type Writer string

// The writers, best first.
const (
	WriterModel      Writer = "model"      // a model writes, what it must not lose is verified
	WriterExtractive Writer = "extractive" // quotes what matters, no model
	WriterFixed      Writer = "fixed"      // bounded previews; byte-for-byte reproducible, cannot fail
)

// Outcome is the one terminal outcome of a compaction (I1); empty before.
type Outcome string

// The outcomes.
const (
	Completed   Outcome = "completed"   // the context was replaced
	Unchanged   Outcome = "unchanged"   // nothing to gain; Code says why
	Refused     Outcome = "refused"     // the asked route does not exist here; Code, Reason, Remedy
	Denied      Outcome = "denied"      // a pre hook said no, or one of the provider's own
	Failed      Outcome = "failed"      // every link of the chain failed
	Cancelled   Outcome = "cancelled"   // the client asked for it
	Interrupted Outcome = "interrupted" // turn/interrupt, or the server died
	Uncertain   Outcome = "uncertain"   // the provider can no longer tell
)

// Codes of the outcome unchanged.
const (
	CodeNothingToCompact      = "nothingToCompact"
	CodeNoGain                = "noGain"
	CodeOverheadExceedsBudget = "overheadExceedsBudget"
)

// A Record is everything that is known about one compaction. It has one shape on
// every door; what is absent is null. All counts are tokens unless said.
type Record struct {
	CompactionID      transcript.CompactionID `json:"compactionId"`
	ThreadID          transcript.ThreadID     `json:"threadId"`
	TurnID            transcript.TurnID       `json:"turnId"`
	Trigger           Trigger                 `json:"trigger"`
	Route             *Route                  `json:"route"`  // null until chosen
	Writer            *Writer                 `json:"writer"` // null unless a local checkpoint was written
	Phase             Phase                   `json:"phase"`
	Outcome           *Outcome                `json:"outcome"` // null until terminal
	Code              *string                 `json:"code"`
	Reason            *string                 `json:"reason"`
	Remedy            *string                 `json:"remedy"`
	Epoch             int                     `json:"epoch"`   // the epoch the compaction found; a checkpoint opens Epoch+1
	BaseSeq           int64                   `json:"baseSeq"` // the journal position whose context is compacted
	Ruler             string                  `json:"ruler"`
	Target            *int                    `json:"target"`
	Before            *Measure                `json:"before"`
	After             *Measure                `json:"after"`
	SummarizedTurnIDs []transcript.TurnID     `json:"summarizedTurnIds"`
	RetainedTurnIDs   []transcript.TurnID     `json:"retainedTurnIds"`
	Split             *Split                  `json:"split"`
	Items             *ItemCounts             `json:"items"`
	PrunedItemIDs     []transcript.ItemID     `json:"prunedItemIds"`
	Checkpoint        *CheckpointInfo         `json:"checkpoint"`
	Native            *NativeInfo             `json:"native"`
	Rebase            *Rebase                 `json:"rebase"`
	Skipped           []Skip                  `json:"skipped"`
	Usage             *Usage                  `json:"usage"` // what the compaction itself cost at a provider
	Warnings          []string                `json:"warnings"`
	RequestedAt       int64                   `json:"requestedAt"` // unix ms
	StartedAt         *int64                  `json:"startedAt"`   // unix ms
	CompletedAt       *int64                  `json:"completedAt"` // unix ms
}

// A Measure is the size of a context. Window is the model's, null if unknown;
// Source says who counted, a ruler or a provider.
type Measure struct {
	Tokens int    `json:"tokens"`
	Window *int   `json:"window"`
	Source string `json:"source"`
	// WindowSource says who told Window: config, server, builtin, learned (from an
	// error) or provider (in a report).
	WindowSource *string `json:"windowSource"`
}

// In reports whether m is a size in a window of so many tokens; 0 or less is unknown.
func (m *Measure) In(window int) bool {
	if m == nil || m.Window == nil {
		return m != nil && window <= 0
	}
	return *m.Window == window
}

// A Window is the size of a model's context window in tokens, 0 if unknown, and who
// told it.
type Window struct {
	Tokens int
	Source string
}

// Split marks the turn through which the boundary goes.
type Split struct {
	TurnID              transcript.TurnID `json:"turnId"`
	FirstRetainedItemID transcript.ItemID `json:"firstRetainedItemId"`
}

// ItemCounts says what became of the items of the epoch. The four add up to all
// of them.
type ItemCounts struct {
	Summarized int `json:"summarized"`
	Whole      int `json:"whole"`
	Clipped    int `json:"clipped"`
	Stub       int `json:"stub"`
}

// CheckpointInfo describes the checkpoint of a completed local compaction.
type CheckpointInfo struct {
	ItemID   transcript.ItemID `json:"itemId"`
	Version  string            `json:"version"`
	Tokens   int               `json:"tokens"`
	Fidelity Fidelity          `json:"fidelity"`
}

// Fidelity counts the mechanically extracted facts of the summarised range that
// the new context still holds.
type Fidelity struct {
	Kept    int      `json:"kept"`
	Total   int      `json:"total"`
	Missing []string `json:"missing"`
}

// NativeInfo describes a provider's own compaction.
type NativeInfo struct {
	Form      string              `json:"form"`
	Disclosed *transcript.RawJSON `json:"disclosed"`
}

// A Rebase is the change of a runtime's session that makes a local compaction count for
// it: a fresh one began with the new context. The old one stays where the program keeps
// it.
type Rebase struct {
	From *string `json:"from"` // native id; null if there was none
	To   string  `json:"to"`
}

// A Skip is a link of the chain that was not taken, and why.
type Skip struct {
	Link   string `json:"link"` // native, checkpoint(extractive), …
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// Usage is what a compaction cost at a provider: the tokens of its requests, how
// many there were and how long they took, and money where the price is known.
type Usage struct {
	InputTokens  int      `json:"inputTokens"`
	OutputTokens int      `json:"outputTokens"`
	Requests     int      `json:"requests"`
	DurationMs   int64    `json:"durationMs"`
	CostUSD      *float64 `json:"costUsd"` // null if the price is unknown
}

// Replaced reports a native compaction that completed: the provider has another history.
func (r *Record) Replaced() bool {
	return r.Outcome != nil && *r.Outcome == Completed && r.Native != nil
}

// plus is the usage of two parts of one compaction, of which the first may be nil.
func (u *Usage) plus(more Usage) *Usage {
	if u == nil {
		return &more
	}
	more.InputTokens += u.InputTokens
	more.OutputTokens += u.OutputTokens
	more.Requests += u.Requests
	more.DurationMs += u.DurationMs
	if u.CostUSD == nil || more.CostUSD == nil {
		more.CostUSD = nil // the sum is unknown
	} else {
		more.CostUSD = new(*u.CostUSD + *more.CostUSD)
	}
	return &more
}

// Terminal reports whether the record has its outcome.
func (r *Record) Terminal() bool { return r.Outcome != nil }
