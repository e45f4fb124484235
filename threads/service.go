package threads

import (
	"context"

	"iter"
	"log/slog"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Config is what a Service runs with.
type Config struct {
	Journal   events.Journal // owned by the Service from Open on: Close closes it
	Providers []Provider     // the first one is the default; at least one
	Tools     map[string]Tool
	Logger    *slog.Logger  // nil: nothing is logged
	Checks    []string      // prefixes of commands that verify the work
	IdleAfter time.Duration // an idle thread is unloaded after this; 0 means 5 minutes
	StopAfter time.Duration // a session that does not stop when interrupted is abandoned after this; 0 means 10 s
}

// A Tool runs one call and returns its result. It must return when ctx is done.
type Tool func(ctx context.Context, call transcript.ToolCall) (transcript.ToolResult, error)

// Service hosts the threads of one journal. It is safe for concurrent use. All
// methods that change a thread return when the change is durable.
type Service struct {
	cfg Config
	hub *events.Hub
}

// CreateParams describes a new thread; empty fields get defaults.
type CreateParams struct {
	Settings       Settings
	Name           string
	IdempotencyKey string
}

// StartTurnParams is one input of the user.
type StartTurnParams struct {
	Thread         transcript.ThreadID
	Input          []transcript.Part
	ClientID       string // echoed in the user message
	Mode           InputMode
	IdempotencyKey string
}

// InputMode says what happens to an input that arrives while a turn runs.
type InputMode string

// The input modes. The zero InputMode is ModeQueue.
const (
	ModeQueue InputMode = "queue" // it becomes a turn of its own, later
	ModeSteer InputMode = "steer" // it goes into the running turn; if there is none it starts one
)

// CompactParams asks for a compaction.
type CompactParams struct {
	Thread         transcript.ThreadID
	Route          compaction.Route  // empty: native if the session can, else local
	Writer         compaction.Writer // empty: the best that works
	Budget         int               // bound of the resulting context in tokens; 0: the policy's target
	Instructions   string            // for the model writer; at most 4,000 characters
	Wait           bool              // reply with the terminal record
	IdempotencyKey string
}

// PageQuery selects a page. Cursor is what the page before returned as Next.
type PageQuery struct {
	Cursor string
	Limit  int // 1 to 1,000; 0 means 100
	Desc   bool
}

// ItemQuery selects items of a thread.
type ItemQuery struct {
	PageQuery
	Turn transcript.TurnID // empty: of all turns
}

// ImportParams says how to import a session file.
type ImportParams struct {
	Provider       string // that the thread continues with; empty: the default
	Model          string
	Cwd            string // empty: that of the file
	IdempotencyKey string
}

// Follow delivers the events of one thread, or of all threads if thread is
// empty, after a cursor (nil: from the beginning), and then live, until ctx is
// done or the consumer stops. See events.Hub.
func (s *Service) Follow(ctx context.Context, thread transcript.ThreadID, after *events.Cursor, heartbeat time.Duration) iter.Seq2[events.Message, error] {
	return s.hub.Follow(ctx, events.FollowQuery{Thread: string(thread), After: after, Heartbeat: heartbeat})
}
