package threads

import (
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Thread is what clients see of a thread without its turns.
type Thread struct {
	ID        transcript.ThreadID `json:"id"`
	Settings  Settings            `json:"settings"`
	Name      string              `json:"name"`
	Preview   string              `json:"preview"` // first user text, one line, at most 120 code points
	Status    StatusType          `json:"status"`
	CreatedAt time.Time           `json:"createdAt"`
	UpdatedAt time.Time           `json:"updatedAt"`
	Imported  *Imported           `json:"imported"`
	Origin    Origin              `json:"origin"`
	Archived  bool                `json:"archived"`
	Git       *GitInfo            `json:"git"`
	Flags     []StatusFlag        `json:"flags"` // why an active thread waits
	Turns     int                 `json:"turns"`
	Items     int                 `json:"items"`
	Queued    int                 `json:"queued"`
	Epoch     int                 `json:"epoch"`
	Occupancy Occupancy           `json:"occupancy"`
	// NativeSession is the provider's id of the thread's session; empty if it has none
	// whose history is the thread's.
	NativeSession string `json:"nativeSession,omitempty"`
	// Damaged is why the thread cannot be read; empty for a healthy one. A
	// damaged thread is listed, never hidden.
	Damaged string `json:"damaged,omitempty"`
}

// Occupancy is how full the context of a thread is, in tokens.
type Occupancy struct {
	Context int    `json:"context"` // of the full next request, as far as known
	Base    int    `json:"base"`    // of it, what no compaction can shrink
	Window  int    `json:"window"`  // 0 if unknown
	Source  string `json:"source"`
}

// A ThreadRead is a thread and the position its description is as of: a follower
// that starts after AsOf misses nothing and sees nothing twice.
type ThreadRead struct {
	Thread Thread
	AsOf   events.Cursor
}

// A ThreadPage is a page of a list. Next is empty on the last one. Back is the
// cursor of the page that begins with the first thread of this one and goes the
// other way; empty if the page is.
type ThreadPage struct {
	Threads []Thread
	Next    string
	Back    string
}

// A TurnPage is a page of turns; Next and Back are as in a ThreadPage.
type TurnPage struct {
	Turns []TurnView
	Next  string
	Back  string
}

// A TurnView is a turn; a queued one has no times yet.
type TurnView struct {
	transcript.Turn
	View  ItemsView  // what Items holds
	Items []ItemView // never nil
}

// An ItemPage is a page of items; Next and Back are as in a ThreadPage. Results
// stand beside their calls.
type ItemPage struct {
	Items []ItemView
	Next  string
	Back  string
}

// An ItemView is an item of the timeline. A tool call carries its result; the
// result has no view of its own unless its call does not exist.
type ItemView struct {
	Item   transcript.Item
	Result *transcript.Item
}

// A TurnAck is the reply to StartTurn.
type TurnAck struct {
	Turn    TurnView
	Queued  bool
	Steered bool // the input went into the running turn
	AsOf    events.Cursor
}

// A CompactAck is the reply to StartCompaction: only an acknowledgement unless
// the caller waited, in which case Record is terminal.
type CompactAck struct {
	Record compaction.Record
	AsOf   events.Cursor
}

// A CompactionPage is a page of records, newest first.
type CompactionPage struct {
	Records []compaction.Record
	Next    string
}

// A ContextRead is the context of one epoch.
type ContextRead struct {
	Epoch  int
	Epochs int // the current epoch's number
	Base   adapters.Base
	// Preamble is what the server adds to the base: instruction files and pins.
	Preamble string
	Entries  []transcript.Entry
	Tokens   int // of base and entries, by transcript.Ruler
	BaseTok  int
	Window   int
	// Reanchor is the text that the next request of this epoch will carry; empty
	// once it was sent.
	Reanchor string
	Boundary *transcript.Boundary // that opened the epoch; nil for epoch 0
	AsOf     events.Cursor
}

// A Provider is a configured endpoint or runtime.
type Provider struct {
	Name    string // as in the configuration and in Settings.Provider
	Kind    string // the adapter's name
	Adapter adapters.Adapter
	// Tools: its sessions are of models that call tools, and are offered the server's
	// own, update_plan and recall.
	Tools bool
	// AutoRebase: where its sessions cannot compact by themselves, automatic
	// compactions are local ones, after which a fresh session begins. What the program
	// knew beside this thread is gone then, so somebody has to want it.
	AutoRebase bool
}

// A ProviderInfo is what clients see of a provider. Error says why its models
// could not be listed.
type ProviderInfo struct {
	Name    string
	Kind    string
	Default bool
	Models  []adapters.ModelInfo
	Error   string
}

// An ImportResult tells what became of an imported file.
type ImportResult struct {
	Thread   Thread
	Source   string
	Items    map[transcript.Kind]int
	Epochs   int
	Warnings []string
	Skipped  map[string]int
	AsOf     events.Cursor
}
