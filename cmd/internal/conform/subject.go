package conform

import (
	"github.com/plimsoll-dev/plimsoll/adapters"
)

// A Subject is a provider under test.
type Subject struct {
	Name    string // of the column
	Kind    string // the adapter's name
	Version string // of the program; empty if it has none
	// Missing says why nothing of it can be tried, such as a program that is not
	// installed; empty if it can.
	Missing string
	// Scripted is set if its model is played by this package; nil: it is a real one,
	// and only the rows run that need no control of it.
	Scripted *Scripted
	// Tools: see threads.Provider.
	Tools bool
	// Open returns the adapter of one server. It is called again for each server that
	// a row starts.
	Open func(Site) (adapters.Adapter, error)
}

// Scripted says how the model of a subject is made to do things.
type Scripted struct {
	Habits string // of the model server: see package upstream
	// Run is the directive by which the model runs the command that makes a file, after an
	// approval.
	Run func(path string) string
	// Runtime: it keeps its own history.
	Runtime bool
	// Process: each session has a child, whose environment names the folder of the site.
	Process bool
	// Refusing: it honours Site.Refuse.
	Refusing bool
	// Pretends: for that it needs a tap.
	Pretends bool
	// Window is the context window that it reports, in tokens.
	Window int
	// Full is the usage, in tokens, after which the program compacts before its next
	// request if it may.
	Full int
	// Quiet: its adapter tells it to make no compactions by itself; it honours Site.Loud.
	Quiet bool
	// Foreign are lines by which the program seems to tell of a compaction that is not
	// ours; {{session}} in them is the id of our session. Nil: nothing of the kind can come.
	Foreign []string
	// Inject makes the program say them. Nil if it is done by the tap.
	Inject func(s Site, lines []string) error
}

// A Site is where a subject works.
type Site struct {
	Dir    string // private; homes and other files go here
	Work   string // the folder that threads work in
	URL    string // of the model server; empty for a real one
	Tap    string // the program that stands between adapter and program: see Tap; empty: none
	Refuse bool   // the program is to be one that cannot compact
	Loud   bool   // the program is to compact by itself, whatever its adapter tells it
}

// Outcome is how a row ended.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"
	Refused Outcome = "refused" // and the refusal reached the client
	Skipped Outcome = "skipped"
	Fail    Outcome = "FAIL"
)

// A Result is what a row found.
type Result struct {
	Provider   string  `json:"provider"`
	Version    string  `json:"version"`
	Row        string  `json:"row"`
	Outcome    Outcome `json:"outcome"`
	Code       string  `json:"code,omitempty"`     // of a refusal
	Reason     string  `json:"reason,omitempty"`   // of a refusal, or why it was skipped
	Expected   string  `json:"expected,omitempty"` // of a failure
	Seen       string  `json:"seen,omitempty"`
	DurationMs int64   `json:"durationMs"`
}
