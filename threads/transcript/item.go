package transcript

import "time"

// ThreadID names a thread: a UUID in lower-case text form, because codex
// clients reject anything else (codex 0.171, observed).
type ThreadID string

// TurnID names a turn, ItemID an item; unique within their thread.
type (
	TurnID string
	ItemID string
)

// CallID joins a ToolCall with its ToolResult. It is the provider's own id.
type CallID string

// CompactionID names one compaction; unique within its thread.
type CompactionID string

// An Item is one step of a conversation.
type Item struct {
	ID          ItemID
	Turn        TurnID
	StartedAt   time.Time // zero if the source did not say
	CompletedAt time.Time // zero while the item is open
	Body        Body
}

// TurnStatus is how far a turn got, in codex's words.
type TurnStatus string

// The statuses of a turn.
const (
	TurnQueued      TurnStatus = "queued" // accepted, waiting; never stored in a Turn of the transcript
	TurnInProgress  TurnStatus = "inProgress"
	TurnCompleted   TurnStatus = "completed"
	TurnInterrupted TurnStatus = "interrupted"
	TurnFailed      TurnStatus = "failed"
)

// TurnKind says what a turn is for.
type TurnKind string

// The kinds of turn. A manual compaction is a turn of its own.
const (
	TurnUser    TurnKind = "user"
	TurnCompact TurnKind = "compact"
)

// A Turn groups the items that one input caused.
type Turn struct {
	ID          TurnID
	Kind        TurnKind
	Status      TurnStatus
	Error       *TurnError
	StartedAt   time.Time
	CompletedAt time.Time // zero while it is in progress
}

// A TurnError says why a turn failed.
type TurnError struct {
	Message string `json:"message"`
	Code    string `json:"code"` // a fault.Code, or a provider's error class
}

// Body is what an item says: the closed set of types in this file.
type Body interface {
	// Kind is the discriminator used in JSON and in counts.
	Kind() Kind
}

// Kind names a Body type.
type Kind string

// The kinds of body.
const (
	KindUserMessage       Kind = "userMessage"
	KindAgentMessage      Kind = "agentMessage"
	KindReasoning         Kind = "reasoning"
	KindToolCall          Kind = "toolCall"
	KindToolResult        Kind = "toolResult"
	KindCommand           Kind = "command"
	KindFileChange        Kind = "fileChange"
	KindPlan              Kind = "plan"
	KindImage             Kind = "image"
	KindNotice            Kind = "notice"
	KindCheckpoint        Kind = "checkpoint"
	KindContextCompaction Kind = "contextCompaction"
	KindOpaque            Kind = "opaque"
)

// A Part is a piece of a message: text, or an image stored as a blob.
type Part struct {
	Type      PartType `json:"type"`
	Text      string   `json:"text,omitempty"`
	Blob      string   `json:"blob,omitempty"`      // sha256 of the bytes, lower-case hex
	MediaType string   `json:"mediaType,omitempty"` // of the blob
}

// PartType discriminates a Part.
type PartType string

// The types of part.
const (
	PartText  PartType = "text"
	PartImage PartType = "image"
)

// TextParts returns s as the only part of a message.
func TextParts(s string) []Part { return []Part{{Type: PartText, Text: s}} }

// UserMessage is what the user said, verbatim.
type UserMessage struct {
	Content  []Part `json:"content"`
	ClientID string `json:"clientId,omitempty"` // the id the client gave the message
}

// AgentMessage is what the model said to the user.
type AgentMessage struct {
	Text string `json:"text"`
}

// Reasoning is what the model disclosed of its thinking.
type Reasoning struct {
	Text string `json:"text"`
}

// ToolCall is the model asking for a tool to be run. Arguments is a JSON value,
// normally an object, exactly as the model gave it.
type ToolCall struct {
	CallID    CallID  `json:"callId"`
	Name      string  `json:"name"`
	Arguments RawJSON `json:"arguments"`
}

// ToolResult answers a ToolCall. Synthetic results are made by the server when
// nothing else will ever answer the call (interrupt, crash).
type ToolResult struct {
	CallID    CallID `json:"callId"`
	Output    []Part `json:"output"`
	IsError   bool   `json:"isError,omitempty"`
	Synthetic bool   `json:"synthetic,omitempty"`
}

// Command is a command that a runtime ran, with its output: call and result in
// one item, as runtimes report it.
type Command struct {
	Command  string `json:"command"`
	Cwd      string `json:"cwd"`
	Output   string `json:"output"`
	ExitCode *int   `json:"exitCode"` // nil while running or if unknown
	Status   string `json:"status"`   // inProgress | completed | failed | declined
}

// FileChange is a change to files that a runtime made or proposed.
type FileChange struct {
	Changes []Change `json:"changes"`
	Status  string   `json:"status"` // inProgress | completed | failed | declined
}

// A Change is one file of a FileChange.
type Change struct {
	Path string `json:"path"`
	Op   string `json:"op"` // add | update | delete
	Diff string `json:"diff"`
}

// Plan is the agent's list of steps; the newest one is the current plan.
type Plan struct {
	Steps []PlanStep `json:"steps"`
}

// A PlanStep is one step of a Plan.
type PlanStep struct {
	Step   string `json:"step"`
	Status string `json:"status"` // pending | inProgress | completed
}

// Image is an image shown to the model outside a message.
type Image struct {
	Blob      string `json:"blob"`
	MediaType string `json:"mediaType"`
	Path      string `json:"path,omitempty"`
}

// Notice is text that reached the model but is nobody's own words: a host's
// reminder, the output of a local command, a re-anchor snapshot.
type Notice struct {
	Source string `json:"source"` // meta | microcompact | reanchor | pressure | pins | …
	Text   string `json:"text"`
}

// SourcePins is the source of a Notice that told a provider's own session of the pins.
// It is part of no context: those that need the pins have them in their base.
const SourcePins = "pins"

// Checkpoint stands for the items that a compaction summarised. It lives in a
// Boundary, is part of the context and is never shown as a message.
type Checkpoint struct {
	Version string   `json:"version"` // format of Text, such as extractive-1; native for a provider's own
	Text    string   `json:"text"`
	Ledger  *RawJSON `json:"ledger,omitempty"` // deterministic facts, merged over generations; opaque here
}

// ContextCompaction marks in the timeline where a compaction happened.
type ContextCompaction struct {
	CompactionID CompactionID `json:"compactionId"`
}

// Opaque is an item of a provider that only its origin understands. It is kept
// byte for byte and sent to no other origin. Text is what it says, for everybody
// else; empty if it says nothing that could be read.
type Opaque struct {
	Origin string  `json:"origin"`
	Raw    RawJSON `json:"raw"`
	Text   string  `json:"text,omitempty"`
}

// Kind implements Body.
func (UserMessage) Kind() Kind { return KindUserMessage }

// Kind implements Body.
func (AgentMessage) Kind() Kind { return KindAgentMessage }

// Kind implements Body.
func (Reasoning) Kind() Kind { return KindReasoning }

// Kind implements Body.
func (ToolCall) Kind() Kind { return KindToolCall }

// Kind implements Body.
func (ToolResult) Kind() Kind { return KindToolResult }

// Kind implements Body.
func (Command) Kind() Kind { return KindCommand }

// Kind implements Body.
func (FileChange) Kind() Kind { return KindFileChange }

// Kind implements Body.
func (Plan) Kind() Kind { return KindPlan }

// Kind implements Body.
func (Image) Kind() Kind { return KindImage }

// Kind implements Body.
func (Notice) Kind() Kind { return KindNotice }

// Kind implements Body.
func (Checkpoint) Kind() Kind { return KindCheckpoint }

// Kind implements Body.
func (ContextCompaction) Kind() Kind { return KindContextCompaction }

// Kind implements Body.
func (Opaque) Kind() Kind { return KindOpaque }
