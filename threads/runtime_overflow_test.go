package threads_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// overflowing returns a thread of a runtime whose next turn will not fit.
func overflowing(t *testing.T, k *keeper, change ...func(*threads.Config)) (*bench, transcript.ThreadID) {
	b := keeping(t, k, append([]func(*threads.Config){func(c *threads.Config) { c.Policy = compaction.Policy{} }}, change...)...)
	id := b.create()
	b.filled(id, 20)
	k.fits = len(strings.Join(k.history(b.native(id)), ""))
	return b, id
}

// outcome says one more thing and returns how that turn ended.
func (b *bench) outcome(id transcript.ThreadID, text string) transcript.Turn {
	b.t.Helper()
	ack := b.start(id, text)
	return b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn
}

func TestATurnOfARuntimeThatDoesNotFitIsRunOnceMoreAfterACompaction(t *testing.T) {
	for name, refuses := range map[string]bool{"native": false, "rebased": true} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper()
			k.refuses = refuses
			b, id := overflowing(t, k, func(c *threads.Config) { c.Providers[0].AutoRebase = refuses })
			before := len(k.runs)
			turn := b.outcome(id, "and now the next")
			if turn.Status != transcript.TurnCompleted {
				t.Fatalf("the turn ended %s: %+v; %s", turn.Status, turn.Error, mustJSON(t, b.records(id)))
			}
			recs := b.records(id)
			if len(recs) != 1 || recs[0].Trigger != compaction.TriggerOverflow || *recs[0].Outcome != compaction.Completed || recs[0].TurnID != turn.ID {
				t.Errorf("records %s", mustJSON(t, recs))
			}
			if said := k.runs[before:]; len(said) != 2 || transcript.PartsText(said[1].Input) != "and now the next" {
				t.Errorf("the program was told %+v", said)
			}
			if refuses {
				b.wantKept(t, k, id)
			}
			if h := k.history(b.native(id)); h[len(h)-2] != "and now the next" || strings.Count(strings.Join(h, ""), "and now the next") != 2 { // with the answer
				t.Errorf("the session holds %q", h)
			}
		})
	}
}

func TestATurnOfARuntimeIsRunOnceMoreAtMost(t *testing.T) {
	k := newKeeper()
	b, id := overflowing(t, k)
	k.fits = 1
	before := len(k.runs)
	turn := b.outcome(id, "and now the next")
	if turn.Status != transcript.TurnFailed || turn.Error.Code != string(adapters.ClassOverflow) {
		t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
	}
	if n, recs := len(k.runs)-before, b.records(id); n != 2 || len(recs) != 1 {
		t.Errorf("%d runs, records %s", n, mustJSON(t, recs))
	}
	k.fits = 0
	if turn := b.outcome(id, "once more"); turn.Status != transcript.TurnCompleted {
		t.Errorf("the thread is not usable: %+v", turn)
	}
}

func TestWhatARuntimeHasBegunOrCannotMakeRoomForIsNotRunAgain(t *testing.T) {
	cases := map[string]struct {
		change func(*keeper)
		config func(*threads.Config)
		why    string
	}{
		"begun":         {func(k *keeper) { k.begins = true }, func(*threads.Config) {}, "had begun"},
		"cannot":        {func(k *keeper) { k.refuses = true }, func(*threads.Config) {}, "cannot compact"},
		"off":           {func(*keeper) {}, func(c *threads.Config) { c.Policy = compaction.Policy{Off: true} }, "is off"},
		"does not help": {func(k *keeper) { k.lossy = true }, func(*threads.Config) {}, "nativeInvalid"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := newKeeper()
			c.change(k)
			b, id := overflowing(t, k, c.config)
			before := len(k.runs)
			turn := b.outcome(id, "and now the next")
			if turn.Status != transcript.TurnFailed || turn.Error.Code != string(adapters.ClassOverflow) ||
				!strings.Contains(turn.Error.Message, c.why) || !strings.Contains(turn.Error.Message, "the prompt is too long") {
				t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
			}
			if n := len(k.runs) - before; n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// What was pinned, and how things stand, are told with the turn that is run again.
func TestATurnThatIsRunAgainRestatesWhatTheHistoryLost(t *testing.T) {
	k := newKeeper()
	b, id := overflowing(t, k)
	b.pin(id, "never touch main")
	before := len(k.runs)
	if turn := b.outcome(id, "and now the next"); turn.Status != transcript.TurnCompleted {
		t.Fatalf("the turn ended %+v", turn.Error)
	}
	if runs := k.runs[before:]; len(runs) != 2 || strings.Contains(runs[0].Notes, "working directory") || !strings.Contains(runs[1].Notes, "working directory") {
		t.Errorf("the program was told %+v", runs)
	}
	for i, run := range k.runs[before:] {
		if n := strings.Count(run.Notes, "never touch main"); n != 1 {
			t.Errorf("run %d was told the pin %d times: %q", i, n, run.Notes)
		}
	}
}
