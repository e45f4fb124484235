package adaptertest

import (
	"strings"
	"testing"
)

func TestARuntimePassesTheSuite(t *testing.T) {
	RunRuntime(t, func(t *testing.T, s Script) Program { return newDouble(t, s, "") })
}

// TestTheRuntimeCasesReportBrokenRuntimes is what makes them worth running: each fault is
// reported by the case that is about it, and each case reports at least one.
func TestTheRuntimeCasesReportBrokenRuntimes(t *testing.T) {
	caught := map[string]bool{}
	for _, b := range []struct{ fault, by, want string }{
		{"has no id", "a session has an id that stays", "no native id once it is open"},
		{"has another id with each turn", "a session has an id that stays", "after a turn"},
		{"has no id once it is closed", "a session has an id that stays", "after Close"},
		{"has one session for all", "two sessions are two", "two sessions have the id"},
		{"tells the newest session", "two sessions are two", "was never told"},
		{"begins anew instead of resuming", "a closed session is resumed", "is resumed as"},
		{"forgets what it resumes", "a closed session is resumed", "was never told"},
		{"tells the history again when it resumes", "a closed session is resumed", "times"},
		{"tells an input twice", "a closed session is resumed", "2 times"},
		{"keeps the lease of what it closed", "a closed session is resumed", "in use"},
		{"loses what is closed in a turn", "a session that was closed in a turn is resumed", "unknown"},
		{"takes a turn that was cut for one that ended", "a session that was closed in a turn is resumed", "ended well"},
		{"makes the session that nobody knows", "a session nobody knows is ErrNoSession", "is opened, want"},
		{"says of what is unknown only that it failed", "a session nobody knows is ErrNoSession", "want an error that is"},
		{"keeps the lease of what it did not open", "a session nobody knows is ErrNoSession", "want an error that is"},
		{"tells no client why", "a session nobody knows is ErrNoSession", "no *fault.Error"},
		{"makes what was lost anew", "a session that was lost is ErrNoSession", "is opened, want"},
		{"takes no seed", "a seed is told to a fresh session when it is opened", "0 times"},
		{"tells only the end of a seed", "a seed is told to a fresh session when it is opened", "0 times"},
		{"tells a seed out of order", "a seed is told to a fresh session when it is opened", "out of order"},
		{"tells a seed with the first input", "a seed is told to a fresh session when it is opened", "before the first turn"},
		{"seeds the session that was there", "a seeded session is no resumed one", "was told"},
		{"tells the history again when it resumes", "a seeded session is no resumed one", "after it was resumed"},
		{"tells no notes", "notes are told beside the input, once", "0 times"},
		{"mixes the notes into the input", "notes are told beside the input, once", "mixed into the words of the user"},
		{"tells the notes with every input", "notes are told beside the input, once", "2 times"},
		{"runs the commands of users", "a command in the words of the user is text", "was never told"},
		{"lets two drive one session", "a fresh session has one driver", "is opened, want"},
		{"lets two drive one session", "a resumed session has one driver", "is opened, want"},
		{"leases only what it resumes", "a fresh session has one driver", "is opened, want"},
		{"says of what is in use only that it failed", "a fresh session has one driver", "want an error that is"},
		{"ends the session that is in use", "a fresh session has one driver", "no such session any more"},
		{"keeps the lease of what it closed", "a fresh session has one driver", "in use"},
		{"closes once only", "closing again and at the same time is no error", "file already closed"},
		{"runs although it is closed", "closing again and at the same time is no error", "a closed session runs a turn"},
		{"takes a steer although it is closed", "closing again and at the same time is no error", "steer of a closed session"},
		{"probes no program", "the probe says what is there", "names no program"},
		{"has another word for a login", "the probe says what is there", "want ok, missing or unknown"},
		{"does not say how to log in", "the probe says what is there", "not what to do"},
		{"has a problem that is none", "the probe says what is there", "has the problem"},
		{"probes another ability", "the probe says what is there", "the probe says of the compaction"},
		{"has another id with each turn", "a compaction keeps the session", "after a compaction"},
		{"forgets the session when it compacts", "a compaction keeps the session", "no such session any more"},
		{"claims that it told how things stand", "a model that was re-anchored was told so", "nobody asked with what"},
		{"hides that it told how things stand", "a model that was re-anchored was told so", "told 2 times"},
		{"takes what is nothing to compact for a success", "a compaction that finds nothing is ErrNothingToCompact", "means completed"},
		{"takes what is nothing to compact for a failure", "a compaction that finds nothing is ErrNothingToCompact", "means failed"},
		{"takes what is lossy for a success", "a compaction that loses the history is ErrLossy", "means completed"},
		{"takes what is uncertain for a success", "a compaction nobody can tell about is ErrUncertain", "means completed"},
		{"takes what is uncertain for a failure", "a compaction nobody can tell about is ErrUncertain", "means failed"},
		{"takes what is refused for a failure", "a compaction that is not possible is a RefusedError", "means failed"},
		{"cannot name refused", "a compaction that is not possible is a RefusedError", "needs code, reason and remedy"},
		{"takes what is denied for a failure", "a compaction that is denied is fault.Denied", "means failed"},
		{"takes what is failed for a success", "a compaction whose model fails is none of these", "means completed"},
		{"is over when a compaction is failed", "a compaction whose model fails is none of these", "closed"},
	} {
		t.Run(b.fault+"/"+b.by, func(t *testing.T) {
			caught[b.by] = true
			if all := reportsOf(t, b.fault, b.by); !strings.Contains(all, b.want) {
				t.Errorf("reports %q, want one with %q", all, b.want)
			}
		})
	}
	for _, c := range runtimeCases {
		if !caught[c.name] {
			t.Errorf("no broken runtime is caught by %q", c.name)
		}
		if all := reportsOf(t, "", c.name); all != "" {
			t.Errorf("a runtime that is as it should be is reported: %s", all)
		}
	}
}

// reportsOf runs one case on a runtime with a fault, and returns what it reports.
func reportsOf(t *testing.T, fault, by string) string {
	t.Helper()
	n := &notes{}
	found := false
	for _, c := range runtimeCases {
		if c.name != by {
			continue
		}
		found = true
		script, check := c.make()
		w := newWorld(n, newDouble(n, script, fault), "/work")
		within(t, c.name, func() { check(t.Context(), w) })
		within(t, "Close", w.close)
	}
	if !found {
		t.Fatalf("there is no case %q", by)
	}
	return strings.Join(n.errs, "\n")
}
