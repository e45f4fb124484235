package compaction

import "testing"

var phases = []Phase{PhaseRequested, PhaseHooking, PhaseRunning, PhaseCommitting, PhaseTerminal}

var outcomes = []Outcome{Completed, Unchanged, Refused, Denied, Failed, Cancelled, Interrupted, Uncertain}

func TestPhasesOnlyGoForwardOneByOneOrEnd(t *testing.T) {
	for i, p := range phases {
		for j, q := range phases {
			legal := j == i+1 || q == PhaseTerminal && p != PhaseTerminal
			got, err := p.To(q)
			if (err == nil) != legal {
				t.Errorf("%s to %s: error %v, want legal %v", p, q, err, legal)
			}
			if want := map[bool]Phase{true: q, false: p}[legal]; got != want {
				t.Errorf("%s to %s yields %s, want %s", p, q, got, want)
			}
		}
	}
	if _, err := Phase("compacting").To(PhaseTerminal); err == nil {
		t.Error("an unknown phase may end")
	}
}

// After a crash the thread ends whatever it finds, so every phase that is not
// terminal must be able to.
func TestEveryPhaseCanEndAndEveryOutcomeIsReachable(t *testing.T) {
	for _, p := range phases {
		if err := p.CanEnd(Interrupted); (err == nil) != (p != PhaseTerminal) {
			t.Errorf("%s ends interrupted: %v", p, err)
		}
	}
	for _, o := range outcomes {
		reachable := false
		for _, p := range phases {
			reachable = reachable || p.CanEnd(o) == nil
		}
		if !reachable {
			t.Errorf("no phase ends with %s", o)
		}
	}
}

func TestOnlyACommitCompletes(t *testing.T) {
	for _, p := range phases {
		if err := p.CanEnd(Completed); (err == nil) != (p == PhaseCommitting) {
			t.Errorf("%s ends completed: %v", p, err)
		}
	}
	if PhaseCommitting.CanEnd(Cancelled) == nil {
		t.Error("a compaction can be cancelled while it commits")
	}
	if PhaseRunning.CanEnd("done") == nil {
		t.Error("an unknown outcome is allowed")
	}
}
