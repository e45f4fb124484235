package threads

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// state is what the journal says about one thread. It is owned by the thread's
// actor; nothing else reads or writes it. The exported fields are its snapshot.
type state struct {
	ID              transcript.ThreadID
	Seq             int64
	CreatedAt       time.Time
	UpdatedAt       time.Time
	Settings        Settings
	Name            string
	Preview         string
	Imported        *Imported
	Origin          Origin
	Tools           []DynamicTool // declared by clients
	Archived        bool
	Git             *GitInfo
	Status          StatusType
	Flags           []StatusFlag // why an active thread waits
	Transcript      transcript.Transcript
	Active          transcript.TurnID // the turn in progress; empty when idle
	Queue           []QueuedTurn
	Plan            *transcript.Plan
	Plans           []turnPlan   // of each turn its last one; a revert goes back to one of them
	Usage           UsageUpdated // the newest report
	Compactions     []compaction.Record
	CompactRequests map[transcript.CompactionID]CompactRequest // of compactions that did not end
	Requests        []Request                                  // that wait for an answer, oldest first
	Granted         []string                                   // what was accepted for the session, oldest first: keys of later questions that need no answer
	Answers         []answered                                 // given in the turn in progress
	Resolved        []AlreadyResolved                          // the newest ones, oldest first: what a late answer is told
	Stopping        bool                                       // the turn in progress was told to end while it waited
	Reanchor        string                                     // text that the next request must carry
	Told            Told                                       // what the native session knows of the pins
	Reanchors       []string                                   // of each boundary, its text
	Gate            compaction.Gate                            // of automatic compactions
	Meter           compaction.Meter                           // how large the next request is
	Budget          compaction.Budget                          // of the turn in progress
	Pressed         bool                                       // the turn in progress was told that its budget is nearly spent
	Overfull        bool                                       // a runtime takes no more before it was compacted
	Overflows       int                                        // of the turn in progress, with a compaction each
	Learned         []LearnedWindow                            // newest last; one per model
	Pins            []Pin
	Accepted        map[string]Accepted
	Native          NativeSession   // of a runtime
	Left            []NativeSession // that rebases left and an undo can go back to, oldest first
	Deleted         bool

	journal  string // the id of the thread's journal, the first half of its cursors
	unpacked int64  // seq of the snapshot that the state was loaded from; 0: none
	index
}

// cursor is the thread's present position.
func (s *state) cursor() events.Cursor { return events.Cursor{Journal: s.journal, N: s.Seq} }

// snapshotVersion changes whenever a snapshot of before cannot be used any more;
// the state is then folded from the first event.
const snapshotVersion = 11

// An idempotency key is remembered for acceptedFor, unless a thread is given more
// than maxAccepted of them in that time.
const (
	acceptedFor = 24 * time.Hour
	maxAccepted = 10_000
)

// index is derived from the transcript and kept beside it, so that no command
// costs time in proportion to the thread's length.
type index struct {
	turnAt   map[transcript.TurnID]int
	itemAt   map[transcript.ItemID]int
	extent   map[transcript.TurnID]extent            // where a turn's items stand
	open     map[transcript.ItemID]bool              // started, not completed; calls are in calls
	calls    map[transcript.CallID]transcript.ItemID // calls without a result
	resultOf map[transcript.ItemID]int               // index of the result, by its call's item
	paired   map[transcript.ItemID]bool              // results that have a call
	context  []transcript.Entry                      // of the current epoch
	tokens   int                                     // of context, by transcript.Tokens
	bare     int                                     // of context, by transcript.Estimate
	unended  []transcript.CompactionID               // compactions without an outcome, oldest first
}

func newState(id transcript.ThreadID) *state {
	s := &state{ID: id, Status: StatusIdle, CompactRequests: map[transcript.CompactionID]CompactRequest{}, Accepted: map[string]Accepted{}}
	s.index = newIndex()
	return s
}

func newIndex() index {
	return index{
		turnAt:   map[transcript.TurnID]int{},
		itemAt:   map[transcript.ItemID]int{},
		extent:   map[transcript.TurnID]extent{},
		open:     map[transcript.ItemID]bool{},
		calls:    map[transcript.CallID]transcript.ItemID{},
		resultOf: map[transcript.ItemID]int{},
		paired:   map[transcript.ItemID]bool{},
	}
}

// evolve folds one event into the state. It is total and deterministic: it never
// fails, whatever the order of events, and depends on nothing but its arguments.
func evolve(s *state, seq int64, at time.Time, p Payload) {
	s.Seq, s.UpdatedAt = seq, at
	s.foldSession(p)
	s.foldOverflow(p)
	s.accept(acceptedIn(p), at)
	s.learn(learnedIn(p))
	if s.otherContext(p) {
		defer s.remeasure(p)
	}
	switch p := p.(type) {
	case ThreadStarted, ThreadDeleted, NameUpdated, ThreadArchived, ThreadUnarchived, SettingsUpdated, MetadataUpdated:
		s.evolveThread(p)
	case ThreadReverted:
		s.revert(p)
	case RequestCreated:
		s.ask(p.Request)
	case RequestResolved:
		s.resolve(p)
	case StatusChanged:
		s.Status, s.Flags = p.Status, p.Flags
		s.Stopping = s.Stopping || p.Stopping
	case QueueChanged:
		s.Queue = p.Queue
	case TurnStarted:
		s.startTurn(p)
	case TurnCompleted:
		s.completeTurn(p.Turn)
		if p.Untold {
			s.forgetNotes(p.Turn.ID)
		}
	case ItemStarted:
		s.addItem(p.Item, p.Item.Body.Kind() != transcript.KindToolCall)
	case ItemCompleted:
		s.completeItem(p)
	case PlanUpdated:
		s.setPlan(p.TurnID, p.Plan)
	case UsageUpdated:
		s.takeUsage(p)
	case CompactionUpdated:
		s.updateCompaction(p)
	case PinsChanged:
		s.Pins = p.Pins
	case CompactionUndone:
		s.undo(p)
	case ErrorRaised, WarningRaised:
		// shown to clients; nothing to remember
	case SessionUpdated:
		// see foldSession
	}
}

// evolveThread folds what describes the thread as such.
func (s *state) evolveThread(p Payload) {
	switch p := p.(type) {
	case ThreadStarted:
		s.Settings, s.Name, s.Imported = p.Settings, p.Name, p.Imported
		s.Origin, s.Tools, s.Git = p.Origin, p.Tools, p.Git
		s.CreatedAt = transcript.FromMillis(p.CreatedAt)
	case ThreadDeleted:
		s.Deleted = true
	case NameUpdated:
		s.Name = p.Name
	case ThreadArchived:
		s.Archived = true
	case ThreadUnarchived:
		s.Archived = false
	case SettingsUpdated:
		s.Settings = p.Settings
	case MetadataUpdated:
		s.Git = p.Git
	default: // the other subjects are evolve's
	}
}

// acceptedIn returns the idempotency key that an event makes known, or nil.
func acceptedIn(p Payload) *Accepted {
	switch p := p.(type) {
	case ThreadStarted:
		return p.Accepted
	case StatusChanged:
		return p.Accepted
	case QueueChanged:
		return p.Accepted
	case ItemCompleted:
		return p.Accepted
	case CompactionUpdated:
		return p.Accepted
	case CompactionUndone:
		return p.Accepted
	case PinsChanged:
		return p.Accepted
	default:
		return nil
	}
}

// accept remembers an idempotency key.
func (s *state) accept(a *Accepted, now time.Time) {
	if a == nil {
		return
	}
	if len(s.Accepted) >= maxAccepted {
		s.forgetKeys(now)
	}
	s.Accepted[a.Key] = *a
}

// forgetKeys makes room: keys that expired go, or else the older half.
func (s *state) forgetKeys(now time.Time) {
	keys := slices.SortedFunc(maps.Keys(s.Accepted), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Accepted[a].At, s.Accepted[b].At), cmp.Compare(a, b))
	})
	for i, k := range keys {
		if i < len(keys)/2 || now.Sub(transcript.FromMillis(s.Accepted[k].At)) > acceptedFor {
			delete(s.Accepted, k)
		}
	}
}

func (s *state) startTurn(p TurnStarted) {
	if _, again := s.turnAt[p.Turn.ID]; again {
		return
	}
	s.turnAt[p.Turn.ID] = len(s.Transcript.Turns)
	s.Transcript.Turns = append(s.Transcript.Turns, p.Turn)
	s.Active = p.Turn.ID
	s.Budget, s.Pressed, s.Overflows = compaction.Budget{Limit: p.MaxTotalTokens}, false, 0
}

func (s *state) completeTurn(t transcript.Turn) {
	if i, ok := s.turnAt[t.ID]; ok {
		s.Transcript.Turns[i] = t
	}
	if s.Active == t.ID {
		s.Active, s.Answers, s.Stopping = "", nil, false
	}
	clear(s.open) // what a turn leaves open, nobody will close
}

// addItem appends an item to the transcript and, as far as models see it, to the
// current context.
func (s *state) addItem(it transcript.Item, open bool) {
	if _, dup := s.itemAt[it.ID]; dup {
		return
	}
	i := len(s.Transcript.Items)
	s.itemAt[it.ID] = i
	s.Transcript.Items = append(s.Transcript.Items, it)
	s.extend(it.Turn, i)
	if open {
		s.open[it.ID] = true
	}
	s.pairCall(i)
	switch b := it.Body.(type) {
	case transcript.UserMessage:
		if s.Preview == "" {
			s.Preview = preview(transcript.Text(b))
		}
	case transcript.Plan:
		s.setPlan(it.Turn, b)
	case transcript.Notice:
		s.Pressed = s.Pressed || b.Source == sourcePressure && it.Turn == s.Active
	default:
	}
	if transcript.InContext(it) {
		s.addEntry(it)
	}
}

// pairCall notes a call that waits for its result, or the result that ends it.
func (s *state) pairCall(i int) {
	switch b := s.Transcript.Items[i].Body.(type) {
	case transcript.ToolCall:
		s.calls[b.CallID] = s.Transcript.Items[i].ID
	case transcript.ToolResult:
		if call, ok := s.calls[b.CallID]; ok {
			s.resultOf[call], s.paired[s.Transcript.Items[i].ID] = i, true
			delete(s.calls, b.CallID)
		}
	default:
	}
}

func (s *state) addEntry(it transcript.Item) {
	s.context = append(s.context, transcript.Entry{Item: it, Form: transcript.FormWhole})
	s.weigh(it.Body, 1)
	s.Meter.Add(it.Body)
}

// weigh adds n times the size of a body to the size of the context.
func (s *state) weigh(b transcript.Body, n int) {
	s.tokens += n * transcript.Tokens(b)
	s.bare += n * transcript.Estimate(b)
}

// completeItem gives an open item its final body, or adds a whole one.
func (s *state) completeItem(p ItemCompleted) {
	if p.Reanchor {
		s.Reanchor = ""
	}
	if p.Told != nil {
		s.Told = *p.Told
	}
	i, started := s.itemAt[p.Item.ID]
	if !started {
		s.addItem(p.Item, false)
		return
	}
	if was := s.Transcript.Items[i]; !s.open[was.ID] && !was.CompletedAt.IsZero() {
		return // it is complete
	}
	delete(s.open, p.Item.ID)
	s.Transcript.Items[i] = p.Item
	s.putEntry(i)
}

// putEntry shows an item that was open in its final form, at its place in the
// context. Items that were opened after it are few.
func (s *state) putEntry(i int) {
	it := s.Transcript.Items[i]
	if n := s.Transcript.Epoch(); n > 0 && i < s.Transcript.Boundaries[n-1].Covered {
		return // the boundary decided what is shown of it
	}
	at := len(s.context)
	for at > 0 {
		if j, ok := s.itemAt[s.context[at-1].Item.ID]; !ok || j < i {
			break
		}
		at--
	}
	var was transcript.Body
	if at < len(s.context) && s.context[at].Item.ID == it.ID {
		was = s.context[at].Item.Body
		s.weigh(was, -1)
		s.context = slices.Delete(s.context, at, at+1)
	}
	if transcript.InContext(it) {
		s.context = slices.Insert(s.context, at, transcript.Entry{Item: it, Form: transcript.FormWhole})
		s.weigh(it.Body, 1)
		s.Meter.Complete(was, it.Body)
	}
}

// reindexContext rebuilds the context of the current epoch from the transcript.
func (s *state) reindexContext() {
	s.context, s.tokens, s.bare = currentContext(&s.Transcript), 0, 0
	for _, e := range s.context {
		s.weigh(e.Item.Body, 1)
	}
}

// currentContext is the context of the newest epoch; none if its boundary keeps
// an unknown item, which only a history that was edited has.
func currentContext(t *transcript.Transcript) []transcript.Entry {
	entries, err := t.Context(t.Epoch())
	if err != nil {
		return nil
	}
	return entries
}

// reindex rebuilds everything that a snapshot does not hold.
func (s *state) reindex() {
	s.index = newIndex()
	for i, t := range s.Transcript.Turns {
		s.turnAt[t.ID] = i
	}
	for i, it := range s.Transcript.Items {
		s.itemAt[it.ID] = i
		s.extend(it.Turn, i)
		s.pairCall(i)
		if it.CompletedAt.IsZero() && it.Turn == s.Active && s.Active != "" {
			s.open[it.ID] = true
		}
	}
	for i := range s.Compactions {
		if r := &s.Compactions[i]; !r.Terminal() {
			s.unended = append(s.unended, r.CompactionID)
		}
	}
	s.reindexContext()
}

// activeTurn returns the turn in progress, or nil.
func (s *state) activeTurn() *transcript.Turn {
	if s.Active == "" {
		return nil
	}
	return &s.Transcript.Turns[s.turnAt[s.Active]]
}

// addUsage returns the total after one more request.
func addUsage(total, u adapters.Usage) adapters.Usage {
	total.InputTokens += u.InputTokens
	total.CachedInputTokens += u.CachedInputTokens
	total.CacheWriteInputTokens += u.CacheWriteInputTokens
	total.OutputTokens += u.OutputTokens
	total.ReasoningOutputTokens += u.ReasoningOutputTokens
	return total
}

// previewRunes bounds Thread.Preview.
const previewRunes = 120

func preview(s string) string {
	s = strings.Join(strings.Fields(firstRunes(s, 4*previewRunes)), " ")
	return firstRunes(s, previewRunes)
}

// firstRunes returns at most n code points of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
