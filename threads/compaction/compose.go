package compaction

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// Input is what a local compaction works on. It is only read.
type Input struct {
	Entries []transcript.Entry // the context of the current epoch; Entries[0] may be its checkpoint
	Open    map[transcript.ItemID]bool
	Base    int    // tokens no compaction can shrink
	Window  int    // context window in tokens; 0 if unknown
	Budget  int    // bound of the whole resulting context; 0: the Target formula
	Writer  Writer // extractive or fixed
	Facts   Facts  // for the re-anchor
}

// Facts is what the server knows about the workspace and the thread's settings,
// restated to the model after a boundary. Empty fields are left out.
type Facts struct {
	Cwd            string
	WritableRoots  []string
	Runtime        string
	Model          string
	Mode           string
	ApprovalPolicy string
	Sandbox        string
	Plan           *transcript.Plan
	Checks         []string // prefixes of commands that verify the work, as configured
	Window         int
}

// Composed is the result of a local compaction, before anything was changed.
type Composed struct {
	Outcome         Outcome // Completed or Unchanged
	Code            string  // of Unchanged
	Target          int
	Before          int // tokens of Base + Entries
	After           int // tokens of Base + checkpoint + kept items + re-anchor; = Before if Unchanged
	Checkpoint      transcript.Checkpoint
	Kept            []transcript.Kept
	Summarized      []transcript.ItemID
	Pruned          []transcript.ItemID // clipped or stubbed by the prune pass
	SummarizedTurns []transcript.TurnID
	RetainedTurns   []transcript.TurnID
	Split           *Split
	Items           ItemCounts
	Fidelity        Fidelity
	Reanchor        string // for the first request of the new epoch
}
