package compaction

import "slices"

import "fmt"

// A Phase is a step in the life of one compaction. Each change of phase is an
// event of the thread.
type Phase string

// The phases, in order. Whatever happens, the last one is PhaseTerminal, and the
// record then has its outcome.
const (
	PhaseRequested  Phase = "requested"  // journaled; waits for a step boundary or the end of the turn
	PhaseHooking    Phase = "hooking"    // pre hooks run
	PhaseRunning    Phase = "running"    // the provider or a writer is at work
	PhaseCommitting Phase = "committing" // the result is checked and about to become the context
	PhaseTerminal   Phase = "terminal"
)

// next is the whole state machine. Any phase may end; none may be skipped on the
// way to a changed context.
var next = map[Phase][]Phase{
	PhaseRequested:  {PhaseHooking, PhaseTerminal},
	PhaseHooking:    {PhaseRunning, PhaseTerminal},
	PhaseRunning:    {PhaseCommitting, PhaseTerminal},
	PhaseCommitting: {PhaseTerminal},
	PhaseTerminal:   nil,
}

// To returns q if p may be followed by it.
func (p Phase) To(q Phase) (Phase, error) {
	if slices.Contains(next[p], q) {
		return q, nil
	}
	return p, fmt.Errorf("compaction: phase %q cannot be followed by %q", p, q)
}

// allowed says in which phases each outcome may be reached. Completed needs a
// commit; the others leave the context as it was.
var allowed = map[Outcome][]Phase{
	Completed: {PhaseCommitting},
	Unchanged: {PhaseRunning, PhaseCommitting},
	Refused:   {PhaseRequested, PhaseHooking, PhaseRunning},
	Denied:    {PhaseHooking, PhaseRunning}, Failed: {PhaseRequested, PhaseHooking, PhaseRunning, PhaseCommitting},
	Cancelled:   {PhaseRequested, PhaseHooking, PhaseRunning},
	Interrupted: {PhaseRequested, PhaseHooking, PhaseRunning, PhaseCommitting},
	Uncertain:   {PhaseRunning, PhaseCommitting},
}

// CanEnd reports an error if a compaction in phase p cannot end with o.
func (p Phase) CanEnd(o Outcome) error {
	if slices.Contains(allowed[o], p) {
		return nil
	}
	return fmt.Errorf("compaction: phase %q cannot end with outcome %q", p, o)
}
