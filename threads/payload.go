package threads

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Payload is what one event of a thread says. Its type's name on the wire is
// that of the notification that clients see: one event is one notification.
// Facts that no client sees ride in the row of a visible event.
type Payload interface {
	// EventType is the notification's method name.
	EventType() string
}

// ThreadStarted is always the first event of a thread.
type ThreadStarted struct {
	Settings  Settings      `json:"settings"`
	Name      string        `json:"name,omitempty"`
	CreatedAt int64         `json:"createdAtMs"`
	Origin    Origin        `json:"origin,omitzero"`
	Tools     []DynamicTool `json:"tools,omitempty"`
	Git       *GitInfo      `json:"git,omitempty"`
	Imported  *Imported     `json:"imported,omitempty"`
	Accepted  *Accepted     `json:"accepted,omitempty"`
}

// Settings is what a thread runs with. It lives in the thread, never in its
// context, so that no compaction can change it.
type Settings struct {
	Provider       string `json:"provider"`
	Model          string `json:"model"`
	Cwd            string `json:"cwd"`
	ApprovalPolicy string `json:"approvalPolicy"`   // untrusted | on-request | never
	Sandbox        string `json:"sandbox"`          // read-only | workspace-write | danger-full-access
	Effort         string `json:"effort,omitempty"` // reasoning effort, in the provider's words
	Mode           string `json:"mode,omitempty"`   // collaboration mode: default | plan; empty is default
}

// Imported says where a thread's history came from.
type Imported struct {
	Source   string `json:"source"`
	SourceID string `json:"sourceId"`
	Hash     string `json:"hash"` // sha256 of the imported bytes
	Warnings int    `json:"warnings"`
}

// Accepted is an idempotency key that was used, and what it was used for. The
// same key with the same body gets the same answer; with another body a conflict.
type Accepted struct {
	Key    string `json:"key"`
	Hash   string `json:"hash"` // of the request's body
	Result string `json:"result"`
	At     int64  `json:"atMs"`
	// Steered: the input went into a running turn.
	Steered bool `json:"steered,omitempty"`
}

// ThreadDeleted is the last event of a thread, and the only one that remains.
type ThreadDeleted struct{}

// StatusType is the state of a thread, in codex's words.
type StatusType string

// The statuses. SystemError stays until the next turn.
const (
	StatusIdle        StatusType = "idle"
	StatusActive      StatusType = "active"
	StatusSystemError StatusType = "systemError"
)

// A StatusFlag says what an active thread waits for, in codex's words.
type StatusFlag string

// The flags of an active thread.
const (
	WaitingOnApproval  StatusFlag = "waitingOnApproval"
	WaitingOnUserInput StatusFlag = "waitingOnUserInput"
)

// StatusChanged tells the thread's new status.
type StatusChanged struct {
	Status StatusType   `json:"status"`
	Flags  []StatusFlag `json:"flags,omitempty"` // of an active thread
	// Stopping says that the turn in progress was told to end while it waited for
	// answers: it takes none any more, and no restart brings it back.
	Stopping bool      `json:"stopping,omitempty"`
	Accepted *Accepted `json:"accepted,omitempty"`
}

// A QueuedTurn is an input that was accepted and waits for its turn.
type QueuedTurn struct {
	TurnID   transcript.TurnID `json:"turnId"`
	Input    []transcript.Part `json:"input"`
	ClientID string            `json:"clientId,omitempty"`
	QueuedAt int64             `json:"queuedAtMs"`

	MaxTotalTokens int `json:"maxTotalTokens,omitempty"` // of the turn that it becomes
}

// QueueChanged is the whole queue after a change.
type QueueChanged struct {
	Queue    []QueuedTurn `json:"queue"`
	Accepted *Accepted    `json:"accepted,omitempty"`
}

// TurnStarted opens a turn.
type TurnStarted struct {
	Turn transcript.Turn `json:"turn"`
	// MaxTotalTokens is the task's budget: of all requests of the turn. 0: none.
	MaxTotalTokens int `json:"maxTotalTokens,omitempty"`
}

// TurnCompleted ends a turn; Turn.Status says how.
type TurnCompleted struct {
	Turn transcript.Turn `json:"turn"`
	// Untold: a runtime was to be told notes with the turn, and nothing was heard of it.
	Untold bool `json:"untold,omitempty"`
}

// ItemStarted opens an item, or adds a whole tool call that waits for its
// result.
type ItemStarted struct {
	Item transcript.Item `json:"item"`
}

// ItemCompleted closes an open item or adds a whole one. For a tool result, Call
// is the item it answers, so that the event can be shown without a look-up.
type ItemCompleted struct {
	Item     transcript.Item  `json:"item"`
	Call     *transcript.Item `json:"call,omitempty"` // nil for a result without a call
	Reanchor bool             `json:"reanchor,omitempty"`
	Told     *Told            `json:"told,omitempty"` // the item tells a native session of the pins
	Accepted *Accepted        `json:"accepted,omitempty"`
}

// PlanUpdated replaces the plan of the thread.
type PlanUpdated struct {
	TurnID transcript.TurnID `json:"turnId"`
	Plan   transcript.Plan   `json:"plan"`
}

// UsageUpdated tells the token counts after a request or a compaction.
type UsageUpdated struct {
	TurnID  transcript.TurnID `json:"turnId"`
	Last    adapters.Usage    `json:"last"`
	Total   adapters.Usage    `json:"total"`
	Context int               `json:"context"` // tokens of the full next request
	Base    int               `json:"base"`    // of it, what no compaction can shrink; by transcript.Ruler
	Source  string            `json:"source"`  // who counted Context: provider, estimate, or a ruler; unknown: nobody has
	Window  int               `json:"window"`  // context window; 0 if unknown

	// Estimate is the meter's bare estimate of the request that Last counts; 0 if
	// Last is of no request. Model is what the request went to.
	Estimate int              `json:"estimate,omitempty"`
	Model    string           `json:"model,omitempty"`
	Gate     *compaction.Gate `json:"gate,omitempty"` // if this changed it
	Learned  *LearnedWindow   `json:"learned,omitempty"`
}

// ErrorRaised tells of a failure. With WillRetry the turn goes on.
type ErrorRaised struct {
	TurnID    transcript.TurnID    `json:"turnId"`
	Error     transcript.TurnError `json:"error"`
	WillRetry bool                 `json:"willRetry"`
	Learned   *LearnedWindow       `json:"learned,omitempty"`
}

// A LearnedWindow is a context window that a provider named. One that it named when it
// refused a request counts for as long as LearnedFor, and only if it is smaller than
// what is known. One that it reports beside its counts (Source provider) is no guess:
// it counts until it reports another one.
type LearnedWindow struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Tokens   int    `json:"tokens"`
	At       int64  `json:"atMs"`
	Source   string `json:"source,omitempty"` // provider, or empty: from a refusal
}

// WarningRaised tells the user something that stops nothing.
type WarningRaised struct {
	Message string `json:"message"`
}

// CompactionUpdated is the whole record after each change of phase. The commit
// of a completed compaction carries the boundary in the same row.
type CompactionUpdated struct {
	Record   compaction.Record    `json:"record"`
	Boundary *transcript.Boundary `json:"boundary,omitempty"`
	Reanchor string               `json:"reanchor,omitempty"` // text for the first request of the new epoch
	Request  *CompactRequest      `json:"request,omitempty"`  // in the first row of a compaction
	Accepted *Accepted            `json:"accepted,omitempty"`

	// Session is the native session that the commit brings with it.
	Session *NativeSession `json:"session,omitempty"`

	Prune   *transcript.Prune `json:"prune,omitempty"` // of a compaction that ended with a prune
	Gate    *compaction.Gate  `json:"gate,omitempty"`  // in the last row, if this changed it
	Learned *LearnedWindow    `json:"learned,omitempty"`
}

// CompactionUndone takes a completed compaction back. Of a compaction that opened an
// epoch it carries the boundary that restores what was before, and the prunes that are
// in effect there; of a prune, none.
type CompactionUndone struct {
	CompactionID transcript.CompactionID `json:"compactionId"`
	Boundary     *transcript.Boundary    `json:"boundary,omitempty"`
	Prunes       []transcript.Prune      `json:"prunes,omitempty"`
	Session      *NativeSession          `json:"session,omitempty"` // that has the restored context
	Gate         *compaction.Gate        `json:"gate,omitempty"`
	Accepted     *Accepted               `json:"accepted,omitempty"`
}

// A Pin is a text that every request carries, verbatim, as part of its base.
type Pin struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Hash    string `json:"hash"`   // sha256 of Text, lower-case hex
	Tokens  int    `json:"tokens"` // by transcript.EstimateText
	AddedAt int64  `json:"addedAtMs"`
}

// PinsChanged is all pins of a thread after a change.
type PinsChanged struct {
	Pins     []Pin     `json:"pins"`
	Accepted *Accepted `json:"accepted,omitempty"`
}

// A CompactRequest is how a compaction was asked for.
type CompactRequest struct {
	Route        compaction.Route  `json:"route,omitempty"`
	Writer       compaction.Writer `json:"writer,omitempty"`
	Budget       int               `json:"budget,omitempty"`
	Instructions string            `json:"instructions,omitempty"`
}

// EventType implements Payload.
func (ThreadStarted) EventType() string { return "thread/started" }

// EventType implements Payload.
func (ThreadDeleted) EventType() string { return "thread/deleted" }

// EventType implements Payload.
func (StatusChanged) EventType() string { return "thread/status/changed" }

// EventType implements Payload.
func (QueueChanged) EventType() string { return "thread/queue/changed" }

// EventType implements Payload.
func (TurnStarted) EventType() string { return "turn/started" }

// EventType implements Payload.
func (TurnCompleted) EventType() string { return "turn/completed" }

// EventType implements Payload.
func (ItemStarted) EventType() string { return "item/started" }

// EventType implements Payload.
func (ItemCompleted) EventType() string { return "item/completed" }

// EventType implements Payload.
func (PlanUpdated) EventType() string { return "turn/plan/updated" }

// EventType implements Payload.
func (UsageUpdated) EventType() string { return "thread/tokenUsage/updated" }

// EventType implements Payload.
func (ErrorRaised) EventType() string { return "error" }

// EventType implements Payload.
func (WarningRaised) EventType() string { return "warning" }

// EventType implements Payload.
func (CompactionUpdated) EventType() string { return "thread/compaction/updated" }

// EventType implements Payload.
func (CompactionUndone) EventType() string { return "thread/compaction/undone" }

// EventType implements Payload.
func (PinsChanged) EventType() string { return "thread/pins/changed" }

// decoders is the registry of event types; the fold refuses what is not here
// (TestStoredFormOfEveryEventTypeStays).
var decoders = map[string]func([]byte) (Payload, error){
	ThreadStarted{}.EventType():     decodeAs[ThreadStarted],
	ThreadDeleted{}.EventType():     decodeAs[ThreadDeleted],
	NameUpdated{}.EventType():       decodeAs[NameUpdated],
	ThreadArchived{}.EventType():    decodeAs[ThreadArchived],
	ThreadUnarchived{}.EventType():  decodeAs[ThreadUnarchived],
	SettingsUpdated{}.EventType():   decodeAs[SettingsUpdated],
	MetadataUpdated{}.EventType():   decodeAs[MetadataUpdated],
	ThreadReverted{}.EventType():    decodeAs[ThreadReverted],
	RequestCreated{}.EventType():    decodeAs[RequestCreated],
	RequestResolved{}.EventType():   decodeAs[RequestResolved],
	StatusChanged{}.EventType():     decodeAs[StatusChanged],
	QueueChanged{}.EventType():      decodeAs[QueueChanged],
	TurnStarted{}.EventType():       decodeAs[TurnStarted],
	TurnCompleted{}.EventType():     decodeAs[TurnCompleted],
	ItemStarted{}.EventType():       decodeAs[ItemStarted],
	ItemCompleted{}.EventType():     decodeAs[ItemCompleted],
	PlanUpdated{}.EventType():       decodeAs[PlanUpdated],
	UsageUpdated{}.EventType():      decodeAs[UsageUpdated],
	ErrorRaised{}.EventType():       decodeAs[ErrorRaised],
	WarningRaised{}.EventType():     decodeAs[WarningRaised],
	CompactionUpdated{}.EventType(): decodeAs[CompactionUpdated],
	CompactionUndone{}.EventType():  decodeAs[CompactionUndone],
	PinsChanged{}.EventType():       decodeAs[PinsChanged],
	SessionUpdated{}.EventType():    decodeAs[SessionUpdated],
}

func decodeAs[P Payload](b []byte) (Payload, error) {
	var p P
	err := json.Unmarshal(b, &p)
	return p, err
}

// Decode returns the payload of an event.
func Decode(e events.Event) (Payload, error) {
	d, ok := decoders[e.Type]
	if !ok {
		return nil, fmt.Errorf("event %d of thread %s: unknown type %q", e.Seq, e.Thread, e.Type)
	}
	p, err := d(e.Data)
	if err != nil {
		return nil, fmt.Errorf("event %d of thread %s (%s): %w", e.Seq, e.Thread, e.Type, err)
	}
	if c, ok := p.(checker); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("event %d of thread %s (%s): %w", e.Seq, e.Thread, e.Type, err)
		}
	}
	return p, nil
}

// A checker is a payload that its JSON type alone does not make valid.
type checker interface{ check() error }

func (p ItemStarted) check() error   { return checkItem(p.Item) }
func (p ItemCompleted) check() error { return checkItem(p.Item) }

func (p CompactionUpdated) check() error {
	if p.Record.CompactionID == "" {
		return errors.New("the compaction has no id")
	}
	if b := p.Boundary; b != nil && b.Checkpoint != nil {
		return checkItem(*b.Checkpoint)
	}
	return nil
}

func (p TurnStarted) check() error {
	if p.Turn.ID == "" {
		return errors.New("the turn has no id")
	}
	return nil
}

func checkItem(it transcript.Item) error {
	if it.ID == "" || it.Body == nil {
		return errors.New("the item has no id or no body")
	}
	return nil
}
