package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// errLater is what the methods of this commit answer until they are built.
var errLater = fault.New(fault.Unavailable, "not yet")

// revert folds what is not built yet.
func (s *state) revert(ThreadReverted) {}

// A Joined is what a client needs that begins to take part in a thread. It is one
// moment: who follows from AsOf misses nothing and sees nothing twice.
type Joined struct {
	Thread   Thread
	Usage    *UsageUpdated // the newest report; nil if there is none
	Requests []Request     // that wait for an answer, oldest first
	Active   *TurnView     // the turn in progress, with its completed items; nil if idle
	AsOf     events.Cursor
}

// Join loads a thread and returns what there is to know about it right now.
func (s *Service) Join(context.Context, transcript.ThreadID) (Joined, error) {
	return Joined{}, errLater
}

// ForkParams says what a fork takes over. At most one of LastTurn and BeforeTurn
// is set; without them it takes all turns that have ended.
type ForkParams struct {
	Thread         transcript.ThreadID
	LastTurn       transcript.TurnID // the last one to take, which must have ended
	BeforeTurn     transcript.TurnID // the first one to leave
	Settings       SettingsPatch
	Origin         Origin // ForkedFrom is set by the service
	IdempotencyKey string
}

// Fork makes a thread of the beginning of another one. Turns and items keep their
// ids. The fork has the epoch that the source had at that point: its first request
// is what the source's next one would have been.
func (s *Service) Fork(context.Context, ForkParams) (ThreadRead, error) {
	return ThreadRead{}, errLater
}

// Revert takes a turn and all that follow it out of a thread that is idle, and
// restores the epoch of before. Nothing leaves the journal.
func (s *Service) Revert(_ context.Context, _ transcript.ThreadID, before transcript.TurnID) (ThreadRead, error) {
	return ThreadRead{}, errLater
}

// SetName names a thread; an empty name takes the name away.
func (s *Service) SetName(context.Context, transcript.ThreadID, string) error { return errLater }

// Archive puts a thread that is idle away: it is not listed unless asked for, and
// takes no input.
func (s *Service) Archive(context.Context, transcript.ThreadID) error { return errLater }

// Unarchive brings a thread back.
func (s *Service) Unarchive(context.Context, transcript.ThreadID) (ThreadRead, error) {
	return ThreadRead{}, errLater
}

// A SettingsPatch changes what is not nil.
type SettingsPatch struct {
	Provider, Model, Cwd, ApprovalPolicy, Sandbox, Effort, Mode *string
}

// UpdateSettings changes what a thread runs with, from its next request on. What
// changes nothing writes nothing.
func (s *Service) UpdateSettings(context.Context, transcript.ThreadID, SettingsPatch) (Settings, error) {
	return Settings{}, errLater
}

// A MetadataPatch changes what is not nil; an empty text clears.
type MetadataPatch struct{ SHA, Branch, OriginURL *string }

// UpdateMetadata changes what clients said about a thread.
func (s *Service) UpdateMetadata(context.Context, transcript.ThreadID, MetadataPatch) (ThreadRead, error) {
	return ThreadRead{}, errLater
}

// InjectItems adds raw items of the Responses API to the context of an idle
// thread, without a turn: no client sees them as messages.
func (s *Service) InjectItems(context.Context, transcript.ThreadID, []transcript.RawJSON) error {
	return errLater
}

// Queue returns what waits for its turn, in order.
func (s *Service) Queue(context.Context, transcript.ThreadID) ([]QueuedTurn, error) {
	return nil, errLater
}

// DeleteQueued takes an input out of the queue; false if it is not there.
func (s *Service) DeleteQueued(context.Context, transcript.ThreadID, transcript.TurnID) (bool, error) {
	return false, errLater
}

// Loaded returns the threads that are loaded, in the order of their ids.
func (s *Service) Loaded() []transcript.ThreadID { return nil }

// SteerTurn puts an input into the running turn, which must be expect. It fails
// with Busy and a NotSteerable as data while the thread is compacted.
func (s *Service) SteerTurn(_ context.Context, _ StartTurnParams, expect transcript.TurnID) (TurnAck, error) {
	return TurnAck{}, errLater
}

// NotSteerable is the data of the fault of a steer that came during a compaction.
type NotSteerable struct{ TurnKind transcript.TurnKind }

// A ThreadQuery selects threads. The zero query is all that are not archived,
// newest change first.
type ThreadQuery struct {
	PageQuery       // Desc is ignored: see Ascending
	ByCreation bool // order by creation, not by the newest change
	Ascending  bool
	Archived   bool     // those that are archived, and only those
	Providers  []string // of one of these; empty: of any
	Cwds       []string
	Sources    []string              // Origin.Source
	Search     string                // in name and preview, without regard to case
	Only       []transcript.ThreadID // nil: all
	Except     []transcript.ThreadID
}

// FindThreads lists the threads that a query selects.
func (s *Service) FindThreads(context.Context, ThreadQuery) (ThreadPage, error) {
	return ThreadPage{}, errLater
}
