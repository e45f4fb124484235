package threads_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// overflowing returns a thread of a runtime whose next turn will not fit.
func overflowing(t *testing.T, k *fake.Runtime, change ...func(*threads.Config)) (*bench, transcript.ThreadID) {
	b := keeping(t, k, append([]func(*threads.Config){func(c *threads.Config) { c.Policy = compaction.Policy{} }}, change...)...)
	id := b.create()
	b.filled(id, 20)
	k.Limit(b.read(id).Occupancy.Context)
	return b, id
}

// outcome says one more thing and returns how that turn ended.
func (b *bench) outcome(id transcript.ThreadID, text string) transcript.Turn {
	b.t.Helper()
	ack := b.start(id, text)
	return b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn
}

func TestATurnOfARuntimeThatDoesNotFitIsRunOnceMoreAfterACompaction(t *testing.T) {
	for name, how := range map[string]string{"native": "ok", "rebased": "none it has no such command"} {
		t.Run(name, func(t *testing.T) {
			refuses := name == "rebased"
			k := newKeeper(t, how)
			b, id := overflowing(t, k, func(c *threads.Config) { c.Providers[0].AutoRebase = refuses })
			before := len(k.Inputs())
			turn := b.outcome(id, "and now the next")
			if turn.Status != transcript.TurnCompleted {
				t.Fatalf("the turn ended %s: %+v; %s", turn.Status, turn.Error, mustJSON(t, b.records(id)))
			}
			recs := b.records(id)
			if len(recs) != 1 || recs[0].Trigger != compaction.TriggerOverflow || *recs[0].Outcome != compaction.Completed || recs[0].TurnID != turn.ID {
				t.Errorf("records %s", mustJSON(t, recs))
			}
			if said := k.Inputs()[before:]; len(said) != 2 || transcript.PartsText(said[1].Input) != "and now the next" {
				t.Errorf("the program was told %+v", said)
			}
			if refuses {
				b.wantKept(t, k, id)
			}
			if h := history(t, k, b.native(id)); h[len(h)-2] != "userMessage: and now the next" {
				t.Errorf("the session holds %q", h)
			}
		})
	}
}

func TestATurnOfARuntimeIsRunOnceMoreAtMost(t *testing.T) {
	k := newKeeper(t, "ok")
	b, id := overflowing(t, k)
	k.Limit(1)
	before := len(k.Inputs())
	turn := b.outcome(id, "and now the next")
	if turn.Status != transcript.TurnFailed || turn.Error.Code != string(adapters.ClassOverflow) {
		t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
	}
	if n, recs := len(k.Inputs())-before, b.records(id); n != 2 || len(recs) != 1 {
		t.Errorf("%d runs, records %s", n, mustJSON(t, recs))
	}
	k.Limit(64_000)
	if turn := b.outcome(id, "once more"); turn.Status != transcript.TurnCompleted {
		t.Errorf("the thread is not usable: %+v", turn)
	}
}

func TestWhatARuntimeHasBegunOrCannotMakeRoomForIsNotRunAgain(t *testing.T) {
	cases := map[string]struct {
		how    string
		config func(*threads.Config)
		input  string
		why    string
	}{
		"begun":         {"ok", func(*threads.Config) {}, "it floods", "had begun"},
		"cannot":        {"none it has no such command", func(*threads.Config) {}, "and now the next", "cannot compact"},
		"off":           {"ok", never, "and now the next", "is off"},
		"does not help": {"lossy", func(*threads.Config) {}, "and now the next", "nativeInvalid"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, c.how)
			b, id := overflowing(t, k, c.config)
			if c.input == "it floods" { // by its script, when it has begun
				k.Limit(64_000)
			}
			before := len(k.Inputs())
			turn := b.outcome(id, c.input)
			if turn.Status != transcript.TurnFailed || turn.Error.Code != string(adapters.ClassOverflow) ||
				!strings.Contains(turn.Error.Message, c.why) || !strings.Contains(turn.Error.Message, "prompt is too long") {
				t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
			}
			if n := len(k.Inputs()) - before; n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// What was pinned, and how things stand, are told with the turn that is run again.
func TestATurnThatIsRunAgainRestatesWhatTheHistoryLost(t *testing.T) {
	k := newKeeper(t, "ok")
	b, id := overflowing(t, k)
	b.pin(id, "never touch main")
	before := len(k.Inputs())
	if turn := b.outcome(id, "and now the next"); turn.Status != transcript.TurnCompleted {
		t.Fatalf("the turn ended %+v", turn.Error)
	}
	if runs := k.Inputs()[before:]; len(runs) != 2 || strings.Contains(runs[0].Notes, "working directory") || !strings.Contains(runs[1].Notes, "working directory") {
		t.Errorf("the program was told %+v", runs)
	}
	for i, run := range k.Inputs()[before:] {
		if n := strings.Count(run.Notes, "never touch main"); n != 1 {
			t.Errorf("run %d was told the pin %d times: %q", i, n, run.Notes)
		}
	}
}

// Whether a session can compact is asked of the session: after a restart, when nobody has
// seen it do so, too.
func TestTheFirstTurnAfterARestartIsRunOnceMore(t *testing.T) {
	k := newKeeper(t, "ok")
	b, id := overflowing(t, k)
	b.restart()
	if turn := b.outcome(id, "and now the next"); turn.Status != transcript.TurnCompleted {
		t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
	}
	b.wantOutcomes(id, "overflow completed")
}

// bursting is an engine whose turns overflow, if they say "big", until it was compacted a
// number of times. One that says "work" is heard of before.
func bursting(compactions int) *engine {
	e := newEngine()
	e.run = func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		text := transcript.PartsText(in.Input)
		if strings.Contains(text, "work") {
			if err := h.Emit(ctx, says(h, "I begin", 0).Updates...); err != nil {
				return adapters.End{}, err
			}
		}
		e.mu.Lock()
		over := strings.Contains(text, "big") && len(e.asked) < compactions
		e.mu.Unlock()
		if over {
			return adapters.End{}, &adapters.Error{Class: adapters.ClassOverflow, Message: "prompt is too long"}
		}
		return says(h, "done", 40_000), nil
	}
	return e
}

// What was begun is not begun again: the turn fails, and the next input waits for a
// compaction, once.
func TestAThreadThatOverflowedIsCompactedBeforeItsNextInput(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			e := bursting(1)
			b := driving(t, e)
			id := b.create()
			b.said(id, "hello")
			turn := b.outcome(id, "big work")
			if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, "before its next input") {
				t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
			}
			b.wantOutcomes(id, "")
			if restart {
				b.restart()
			}
			b.said(id, "go on")
			b.said(id, "and on")
			b.wantOutcomes(id, "overflow completed")
			var given []string
			for _, in := range e.told() {
				given = append(given, transcript.PartsText(in.Input))
			}
			if got := strings.Join(given, ", "); got != "hello, big work, go on, and on" {
				t.Errorf("the program was given %q", got)
			}
		})
	}
}

// I10: what did not suffice once is not done twice, however often it is asked for.
func TestARuntimeThatAlwaysOverflowsIsCompactedOnce(t *testing.T) {
	b := driving(t, bursting(1_000))
	id := b.create()
	b.said(id, "hello")
	for i := range 5 {
		turn := b.outcome(id, "big")
		want := "compacted already"
		if i == 0 {
			want = "prompt is too long"
		}
		if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, want) {
			t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
		}
		b.settle(id)
	}
	b.wantOutcomes(id, "overflow completed")
	b.said(id, "small")
	b.outcome(id, "big")
	b.wantOutcomes(id, "overflow completed, overflow completed")
}

// Compactions that fail are tried as often as the breaker lets them.
func TestAnOverflowIsNotAnsweredAfterTheBreakerOpened(t *testing.T) {
	e := bursting(1_000)
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		return adapters.NativeResult{}, &adapters.Error{Class: adapters.ClassServer, Message: "the server broke"}
	}
	b := driving(t, e)
	id := b.create()
	b.said(id, "hello")
	for i := range 5 {
		turn := b.outcome(id, "big")
		want := "the server broke"
		if i >= 3 {
			want = "failed several times"
		}
		if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, want) {
			t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
		}
	}
	if n := len(b.records(id)); n != 3 {
		t.Errorf("%d compactions", n)
	}
	endsOnce(t, b, id)
}

// I7: a server that dies while it compacts for an overflow cannot say that the provider did
// not. The turn died with it.
func TestACompactionForAnOverflowIsAskedForAfterARestart(t *testing.T) {
	for want, result := range map[string]error{
		"overflow completed": nil, "overflow failed(notCompacted)": adapters.ErrNotCompacted, "overflow uncertain(nativeUncertain)": adapters.ErrUncertain,
	} {
		t.Run(want, func(t *testing.T) {
			e := bursting(1)
			e.recover = func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
				return adapters.NativeResult{Form: "engine"}, result
			}
			b := driving(t, e)
			j := b.failing()
			id := b.create()
			b.said(id, "hello")
			reached, release := holdAt(t, "compaction/verdict")
			ack := b.start(id, "big")
			<-reached
			b.crash(j, id, release)
			turn := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn
			if turn.Status != transcript.TurnInterrupted {
				t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
			}
			b.wantOutcomes(id, want)
			b.said(id, "the thread goes on")
			endsOnce(t, b, id)
		})
	}
}
