// Package adapters is the contract between the server and the providers.
//
// There are two families. Runtimes own their loop and their history and
// implement Adapter and Session themselves. Models are stateless endpoints
// behind Model; adapters/agent makes a Session of a Model.
//
// Who calls whom: a thread's actor calls Session methods from goroutines that
// it owns; the session calls its Host from the goroutine of Run or Compact. The
// Host posts to the actor's mailbox, so a session may block on its Host, and the
// actor never waits for a session.
//
// This package declares interfaces on the provider's side although the server
// consumes them, because there are ten implementations and one suite that all of
// them pass (adapters/adaptertest).
package adapters

import (
	"context"
	"iter"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// An Adapter opens sessions with one provider.
type Adapter interface {
	// Models lists what the provider offers; the first one is its default.
	Models(ctx context.Context) ([]ModelInfo, error)
	// Open starts or resumes the session of a thread. It does no work that the
	// user pays for.
	Open(ctx context.Context, p OpenParams) (Session, error)
}

// ModelInfo describes one model. Zero limits mean unknown. All are tokens.
type ModelInfo struct {
	ID            string `json:"id"`
	DisplayName   string `json:"displayName"`
	ContextWindow int    `json:"contextWindow"`
	MaxOutput     int    `json:"maxOutput"`
	// WindowSource says who told ContextWindow: config, server (a props or models
	// endpoint) or builtin. Empty if it is unknown.
	WindowSource string `json:"windowSource,omitempty"`
	Images       bool   `json:"images,omitempty"` // it takes images
	Price        *Price `json:"price,omitempty"`  // nil if unknown
}

// A Price is in US dollars per million tokens.
type Price struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cachedInput"`
	Output      float64 `json:"output"`
}

// OpenParams says what a session is for.
type OpenParams struct {
	Thread transcript.ThreadID
	// NativeID is that of the session to resume; empty for a new one. Only runtimes
	// see one. One that the provider does not know any more is ErrNoSession, one that
	// another process drives is ErrInUse.
	NativeID string
	// Seed is a history that a new session of a Runtime begins with although it did
	// not make it: the checkpoint and what was kept, in the order of the context. Open
	// fails if the session does not take it.
	Seed  []transcript.Entry
	Model string
	Cwd   string
	// Approval and Sandbox are the thread's settings now; each turn brings its own.
	Approval, Sandbox string
	// Tools are declared by the clients of the thread and run by them. A model's
	// session offers them beside its own; Host.Tool runs them.
	Tools []ToolSpec
	// Blob returns the bytes of an image by its hash. Nil: images are told as text.
	Blob func(hash string) ([]byte, error)
}

// A Session is one thread's conversation with its provider. Run and Compact are
// never called at the same time, nor twice at once; Steer, Interrupt,
// Compaction and Close may be called while one of them runs.
type Session interface {
	// NativeID is the provider's own id of the session; empty if it has none.
	NativeID() string
	// Base is what no compaction can shrink of this session's requests.
	Base() Base
	// Run performs one turn and returns how it ended. Updates that belong to the
	// end of the turn are in the End, so that they share its commit. Run returns
	// promptly once ctx is done; an error means that the turn failed, or was
	// interrupted if ctx is done.
	Run(ctx context.Context, in TurnInput, host Host) (End, error)
	// Steer adds input to the running turn. It fails with ErrNotSteerable when
	// the session cannot; the server then runs the turn once more with it. After it
	// succeeded, a model's session asks for Host.Context once more before the
	// turn ends; that Context holds the input, which the server journals.
	Steer(ctx context.Context, input []transcript.Part) error
	// Interrupt asks the provider to stop the running turn; Run then returns. If
	// that ends it early without ctx being done, the error wraps
	// context.Canceled.
	Interrupt(ctx context.Context) error
	// Compaction says what the session can do natively, right now.
	Compaction() Ability
	// Compact runs the provider's own compaction and returns when its matching
	// completion arrived. It is only called if Compaction is native. The errors that
	// mean something are in errors.go: ErrNothingToCompact, ErrUncertain, ErrLossy, a
	// *RefusedError, and a fault.Denied.
	Compact(ctx context.Context, in CompactInput, host Host) (NativeResult, error)
	// Close ends the session and returns when nothing of it is left: no goroutine, no
	// child process, no lease. What runs ends with an error, as if its context were done,
	// and no later Run or Compact succeeds; Steer is ErrNotSteerable. Close may be called
	// again, and at the same time; one that finds nothing left to do returns nil. The
	// provider's own conversation lives on, for the next Open with its NativeID.
	Close() error
}

// Base is the part of each request that is the same for every one: system text
// and tool declarations.
type Base struct {
	System string
	Tools  []ToolSpec
}

// A ToolSpec declares a tool to a model. Schema is a JSON Schema object.
type ToolSpec struct {
	Name        string
	Description string
	Schema      transcript.RawJSON
}

// TurnInput is what starts a turn. The user's message is already the last item
// of Host.Context; models need nothing else, runtimes send Input.
type TurnInput struct {
	Turn  transcript.TurnID
	Input []transcript.Part
	// Continue says that the turn was begun by another process and only waits for
	// answers: the calls at the end of Host.Context that have no result are to be
	// given to Host.Tool again. Only the sessions of a Continuer see it.
	Continue bool
	// Approval and Sandbox are the thread's settings for this turn.
	Approval string // untrusted | on-request | never
	Sandbox  string // read-only | workspace-write | danger-full-access
	Effort   string // of reasoning, in the provider's words; may be empty
	// Notes is text of the server that a runtime is told with the input, as a part of
	// its own and never as the user's words: pins, and how things stand after a
	// compaction. Models find it in the context. Empty: there is nothing to tell.
	Notes string
}

// CompactInput asks for a native compaction.
type CompactInput struct {
	ID           transcript.CompactionID
	Instructions string // of the user and of hooks, for the summary; may be empty
}

// End is how a turn ended without an error.
type End struct {
	Updates []Update   // committed together with the turn's completion
	Stop    StopReason // of the last request; empty if the provider did not say
}

// Host is what a session may ask of the server. All methods block until the
// answer is there and fail when ctx is done or the thread is closing.
type Host interface {
	// Context returns what the next request must hold. Calling it is a step
	// boundary: a compaction that waits for one happens before it returns.
	Context(ctx context.Context) (Context, error)
	// Tool runs one tool call and returns its result. The session must have
	// emitted the call's ItemStarted before; the server completes that item and
	// journals the result's, so the session emits neither. Calls of one step may
	// be run at the same time.
	Tool(ctx context.Context, call transcript.Item) (transcript.ToolResult, error)
	// Ask asks the people behind the clients, and waits until one of them answers,
	// however long that takes and whoever is connected. It fails when ctx is done.
	// Where the approval policy is never it returns Decline at once.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Overflowed reports that the provider refused the last request as larger than
	// its window, or that an answer ended because the window was full. It compacts
	// and returns the smaller context to try again with. It fails with the error
	// that the turn is to end with if there is none: automatic compaction is off,
	// or the turn has overflowed before. Only models call it.
	Overflowed(ctx context.Context, o Overflow) (Context, error)
	// Lighten has the oldest images of the context told as text, from now on, until
	// enough bytes are gone, and returns how many went; the next Context is without
	// them. It is 0 if there is nothing to leave out, or if automatic compaction is
	// off. Tokens are no matter of it, and no model is called. Only models call it.
	Lighten(ctx context.Context, h Heavy) (freed int, err error)
	// Emit journals updates in one commit and returns when they are durable. A
	// TextDelta is not journaled and returns at once.
	Emit(ctx context.Context, updates ...Update) error
	// NewItemID returns an id for an item that the session makes.
	NewItemID() transcript.ItemID
	// Reanchor returns what the first request after a compaction is to restate, as
	// things stand now; empty if there is nothing. A runtime that can tell its model
	// between a compaction and the next request does so, and says so in
	// NativeResult.Reanchored. Only runtimes call it.
	Reanchor(ctx context.Context) (string, error)
	// MayCompact asks the hooks of the user whether a compaction that the provider is
	// about to make by itself may run: a fault.Denied says why not, another error that
	// nobody could be asked. What they say for the summary is returned. It is not asked
	// about what Compact does, whose hooks were asked before. Only runtimes call it.
	MayCompact(ctx context.Context) (instructions string, err error)
}

// Context is the input of one model request, after the Base.
type Context struct {
	Epoch   int
	Entries []transcript.Entry
	Tokens  int // estimate of the entries, by transcript.Ruler
	// Preamble is what the server adds to the system text of this request:
	// instruction files and pins, as they are now. It is part of the base, which no
	// compaction touches.
	Preamble string
}

// An Overflow is what a provider said about a request that did not fit. The
// numbers are tokens, 0 if it did not say.
type Overflow struct {
	Requested int
	Limit     int  // of the window: it is learned
	Length    bool // the answer ended because the window was full
	Err       error
}

// Heavy is a request that has too many bytes.
type Heavy struct {
	Bytes   int            // of the request, about
	Limit   int            // of what the endpoint takes; 0: unknown
	Excess  int            // the bytes that must go
	Images  map[string]int // what each image has in a request, by the hash of its blob
	Refused bool           // the provider said so, it is no forecast
}

// Update is what a session reports while it works: the closed set below.
type Update interface{ update() }

// ItemStarted opens an item. A body with text starts empty and grows by
// TextDelta; a ToolCall is complete when it is started.
type ItemStarted struct{ Item transcript.Item }

// TextDelta adds text to an open AgentMessage or Reasoning, at most 4 MiB in all.
// The output of a Command is reported whole when it completes.
type TextDelta struct {
	Item transcript.ItemID
	Text string
}

// ItemCompleted closes an open item, or adds one that was never open. The text
// of its body is authoritative.
type ItemCompleted struct{ Item transcript.Item }

// UsageReported is the provider's count for one request. Tokens.
type UsageReported struct {
	Usage Usage
	// Window is the context window that the provider named with it; 0 if it did not.
	Window int
}

// CompactionBegan tells that the provider compacts its history by itself, in the
// middle of a turn. CompactionEnded follows, or the turn ends.
type CompactionBegan struct{}

// CompactionEnded ends what CompactionBegan told of: Err is nil if the history was
// replaced.
type CompactionEnded struct {
	Result NativeResult
	Err    error
}

// PlanUpdated replaces the current plan.
type PlanUpdated struct{ Plan transcript.Plan }

// Retrying tells that a request failed and is tried again.
type Retrying struct{ Message string }

// Warned tells the user something that stops nothing, such as a request that had
// to be repaired before it was sent.
type Warned struct{ Message string }

func (ItemStarted) update()   {}
func (TextDelta) update()     {}
func (ItemCompleted) update() {}
func (UsageReported) update() {}
func (PlanUpdated) update()   {}
func (Retrying) update()      {}
func (Warned) update()        {}

func (CompactionBegan) update() {}
func (CompactionEnded) update() {}

// Usage counts the tokens of one request as the provider reports them.
type Usage struct {
	InputTokens           int `json:"inputTokens"` // the whole input, cached or not
	CachedInputTokens     int `json:"cachedInputTokens"`
	CacheWriteInputTokens int `json:"cacheWriteInputTokens"`
	OutputTokens          int `json:"outputTokens"` // reasoning included
	ReasoningOutputTokens int `json:"reasoningOutputTokens"`
}

// Ability is what a session can do about compaction by itself: Native is set, or
// Refusal is. It is a value that reaches the client, never an empty success.
type Ability struct {
	Native  *Native
	Refusal *Refusal
}

// Native describes a provider's own compaction.
type Native struct {
	Form string `json:"form"` // such as codex-turn, claude-command, responses-item
}

// Refusal says why not, and what to do instead.
type Refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// UseLocal is the remedy of a session that cannot compact by itself. Some clients
// cannot name a route; then the configuration does.
const UseLocal = `use route local; a client that names none gets it from [compaction] route = "local" in config.toml`

// NativeResult is what a provider disclosed of a compaction that completed. Before
// and After are its own figures for the context, in tokens, and 0 if it told none:
// they are recorded as they are, also where After is the larger one.
type NativeResult struct {
	Form          string
	Disclosed     transcript.RawJSON // nil if nothing
	Usage         *Usage
	Before, After int
	Window        int // that it named; 0 if it did not
	// Reanchored: the model is told what Host.Reanchor returned before its next request.
	Reanchored bool
	Warnings   []string
}

// A Runtime is an Adapter whose sessions keep their own history: they are given
// inputs, never contexts, and can begin with a Seed.
type Runtime interface {
	Adapter
	// Probe says what can be known of the program without paying for anything. What is
	// wrong is in the Probe.
	Probe(ctx context.Context) Probe
}

// A Probe is what is known of a runtime's program. Empty strings are unknown.
type Probe struct {
	Program string // path of what would be started
	Version string // as it says itself
	// Tested is the version that the adapter was made for.
	Tested string
	// Login is ok, missing or unknown; LoginDetail says how, or what to do.
	Login, LoginDetail string
	Compaction         Ability // of a session that would be opened now
	Problems           []Problem
}

// A Problem is something that keeps a runtime from working, and what helps.
type Problem struct {
	Text string `json:"text"`
	Fix  string `json:"fix"`
}

// A Recoverer is a Session that can tell what became of a native compaction which
// another process asked for.
type Recoverer interface {
	// Recover returns the result if the compaction completed. ErrNotCompacted: it did
	// not, and the history is as it was. ErrUncertain: nobody can tell.
	Recover(ctx context.Context, c Unfinished) (NativeResult, error)
}

// Unfinished is a native compaction whose end nobody saw.
type Unfinished struct {
	ID        transcript.CompactionID
	StartedAt time.Time // when it was asked for, about
}

// A Model is a stateless endpoint: each request carries the whole context. It is
// safe for concurrent use.
type Model interface {
	// Models lists what can be asked for; the first one is the default.
	Models(ctx context.Context) ([]ModelInfo, error)
	// Base returns the system text and tools this model is used with.
	Base() Base
	// Stream performs one request. The sequence ends after a Done chunk, or with
	// an error as its last pair. Stopping the iteration cancels the request.
	Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error]
	// Count returns the input tokens of a request if the provider can tell
	// without a paid request.
	Count(ctx context.Context, req Request) (tokens int, known bool, err error)
	// Compaction is the endpoint's native ability, or its refusal.
	Compaction() Ability
}

// A Carrier is a Model that tells how it treats images. One that is none shows them
// and has no known limit.
type Carrier interface {
	// Carries says whether requests to a model show images, and how many bytes such a
	// request may have; 0: unknown.
	Carries(model string) (images bool, maxBytes int)
}

// A Request is one model request: the base, then the entries in order.
type Request struct {
	Model   string
	Base    Base
	Entries []transcript.Entry
	// MaxOutput bounds the answer, reasoning included, in tokens; 0: the model's own
	// limit.
	MaxOutput int
	Effort    string // reasoning effort, in the provider's words; may be empty
	// Writer marks the request of a checkpoint writer: no tools, and the text that
	// marks the writer's prompt (transcript.WriterMark) belongs into it. It is never
	// sent twice as it is: who asks decides what to try after a failure.
	Writer bool
	// Blob returns the bytes of an image by its hash. Nil: images are told as text.
	Blob func(hash string) ([]byte, error)
}

// Chunk is a piece of a model's answer: the closed set below. Chunks of one part
// are contiguous: a part ends when one of another part, or Done, begins.
type Chunk interface{ chunk() }

// MessageText is more text of the answer.
type MessageText struct{ Text string }

// ReasoningText is more text of the disclosed thinking.
type ReasoningText struct{ Text string }

// CallChunk is one whole tool call.
type CallChunk struct{ Call transcript.ToolCall }

// UsageChunk is the provider's count for this request so far; the last one wins.
type UsageChunk struct{ Usage Usage }

// Repaired tells of a request that broke a rule of the wire format and was mended
// before it was sent. It comes before everything else.
type Repaired struct {
	Rule string // L1 … L13, or RuleImages
	Text string // what was wrong, and what was sent instead; no message bodies
}

// RuleImages is the rule of a Repaired that tells of images which the model was
// told of in words, because it takes none.
const RuleImages = "images"

// Retried tells that an attempt failed before anything of an answer came and that
// another one is made.
type Retried struct{ Message string }

// Done is the last chunk.
type Done struct{ Stop StopReason }

func (MessageText) chunk()   {}
func (ReasoningText) chunk() {}
func (CallChunk) chunk()     {}
func (UsageChunk) chunk()    {}
func (Repaired) chunk()      {}
func (Retried) chunk()       {}
func (Done) chunk()          {}

// StopReason says why a model stopped.
type StopReason string

// The stop reasons.
const (
	StopEnd    StopReason = "end"
	StopTools  StopReason = "tools"  // it waits for the results of its calls
	StopLength StopReason = "length" // it ran into the bound of its output
	// StopWindow: the context window was full. Adapters tell it from StopLength.
	StopWindow StopReason = "window"
	StopFilter StopReason = "filter" // the provider's content filter cut the answer
)
