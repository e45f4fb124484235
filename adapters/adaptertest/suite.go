package adaptertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// deadline is how long "promptly" may take on a loaded machine.
const deadline = 10 * time.Second

// Run holds an adapter to the rules that need no control over its provider. open
// makes an adapter whose provider answers any message with some text and, if its
// sessions compact natively, completes the compactions they ask for.
func Run(t *testing.T, open func(t *testing.T) adapters.Adapter) { run(t, open, open) }

// run takes an adapter of its own for the native compaction between two turns.
func run(t *testing.T, open, openNative func(t *testing.T) adapters.Adapter) {
	t.Run("a native compaction completes", func(t *testing.T) { start(t, openNative, nativeWorks) })
	for name, c := range map[string]func(*testing.T, fixture){
		"models are listed, the default first": models,
		"a message gets an answer":             answer,
		"a session takes turn after turn":      manyTurns,
		"compaction is native or refused":      compactionIsAValue,
		"cancelling ends the turn":             cancelAtFirstDelta,
		"a done context starts nothing":        cancelledBefore,
		"interrupting ends the turn":           interruptAtFirstDelta,
		"closing ends the turn":                closeWhileRunning,
		"an idle session takes no steer":       steerIdle,
	} {
		t.Run(name, func(t *testing.T) {
			start(t, open, c)
		})
	}
}

// RunScripted holds an adapter to all rules. play makes an adapter whose provider
// plays the script on the adapter's own wire.
func RunScripted(t *testing.T, play func(t *testing.T, s Script) adapters.Adapter) {
	run(t, func(t *testing.T) adapters.Adapter {
		return play(t, Script{Answer("One two three."), Answer("Four five six."), Answer("Seven.")})
	}, func(t *testing.T) adapters.Adapter {
		return play(t, Script{Answer("One two three."), {Spend(10, 5), Compacted("")}, Answer("Four five six.")})
	})
	t.Run("native compaction", func(t *testing.T) { runNative(t, play) })
	t.Run("questions", func(t *testing.T) { runAsk(t, play) })
	for _, c := range scripted {
		t.Run(c.name, func(t *testing.T) {
			script, check := c.make()
			start(t, func(t *testing.T) adapters.Adapter { return play(t, script) }, check)
		})
	}
}

// fixture is what a case works on.
type fixture struct {
	adapter adapters.Adapter
	session adapters.Session
	host    *Host
	cwd     string
}

// thread is the id of the thread that sessions are opened for.
const thread = "0190a3f4-0000-7000-8000-000000000001"

// start opens a session, runs one case on it, and checks that nothing is left.
func start(t *testing.T, open func(*testing.T) adapters.Adapter, c func(*testing.T, fixture)) {
	before := goleak.IgnoreCurrent()
	a := open(t)
	cwd := t.TempDir()
	s, err := a.Open(t.Context(), adapters.OpenParams{Thread: thread, Cwd: cwd})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	f := fixture{adapter: a, session: s, host: NewHost(t), cwd: cwd}
	within(t, "the case", func() { c(t, f) })
	within(t, "Close", func() {
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	goleak.VerifyNone(t, before)
}

// within fails the test if f takes longer than promptly. f must not call FailNow.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(deadline):
		t.Fatalf("%s did not end within %v", what, deadline)
	}
}

// ok reports an unexpected error.
func ok(r Reporter, what string, err error) {
	r.Helper()
	if err != nil {
		r.Errorf("%s: %v", what, err)
	}
}

// interrupted reports a turn or compaction that did not end as one does that was
// stopped.
func interrupted(r Reporter, err error) {
	r.Helper()
	if !errors.Is(err, context.Canceled) {
		r.Errorf("what was stopped ended with %v, want an error that is context.Canceled", err)
	}
}

// said returns the answers in a transcript.
func said(items []transcript.Item) []string {
	texts := []string{}
	for _, it := range items {
		if m, is := it.Body.(transcript.AgentMessage); is {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// results returns the tool results in a transcript.
func results(items []transcript.Item) []transcript.ToolResult {
	var out []transcript.ToolResult
	for _, it := range items {
		if r, is := it.Body.(transcript.ToolResult); is {
			out = append(out, r)
		}
	}
	return out
}

// atFirstDelta makes the host call f once, before the first delta returns.
func atFirstDelta(h *Host, f func()) {
	done := false
	h.OnUpdate = func(u adapters.Update) {
		if _, is := u.(adapters.TextDelta); is && !done {
			done = true
			f()
		}
	}
}
