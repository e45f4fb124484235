package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// This file holds the cases for sessions that compact natively.

// nativeCase makes a script and the check that goes with it. It reports to a
// Reporter, so that a test can see it fail.
type nativeCase struct {
	name string
	make func() (Script, func(context.Context, Reporter, fixture))
}

// native are the cases of RunScripted that need a native compaction.
var native = []nativeCase{
	{"it ends with its completion", nativeCompletes},
	{"what was not disclosed is not made up", nativeDisclosesNothing},
	{"the completion of another one does not end it", nativeIgnoresOthers},
	{"a failure is a failure", nativeFails},
	{"a provider that stops without completing it fails it", nativeNeverCompletes},
	{"cancelling ends it", nativeCancelled},
	{"a done context starts nothing", nativeCancelledBefore},
	{"closing ends it", nativeClosed},
}

// runNative runs the cases if the session says that it compacts natively.
func runNative(t *testing.T, play func(t *testing.T, s Script) adapters.Adapter) {
	refused := ""
	start(t, func(t *testing.T) adapters.Adapter { return play(t, Script{}) }, func(_ *testing.T, f fixture) {
		if r := f.session.Compaction().Refusal; r != nil {
			refused = r.Code
		}
	})
	if refused != "" {
		t.Skipf("the session refuses to compact: %s", refused)
	}
	for _, c := range native {
		t.Run(c.name, func(t *testing.T) {
			script, check := c.make()
			open := func(t *testing.T) adapters.Adapter { return play(t, script) }
			start(t, open, func(t *testing.T, f fixture) { check(t.Context(), t, f) })
		})
	}
}

// nativeWorks is the case of Run: with a provider that nobody controls, only the
// good end can be asked for.
func nativeWorks(t *testing.T, f fixture) {
	if f.session.Compaction().Native == nil {
		return // compactionIsAValue looks at the refusal
	}
	_, err := f.host.Play(t.Context(), f.session, "hello")
	ok(t, "the turn before the compaction", err)
	compacted(t.Context(), t, f)
	_, err = f.host.Play(t.Context(), f.session, "are you still there?")
	ok(t, "the turn after the compaction", err)
}

// compacted runs a compaction that must complete, and checks what holds for each.
func compacted(ctx context.Context, r Reporter, f fixture) adapters.NativeResult {
	r.Helper()
	ability := f.session.Compaction()
	res, err := f.host.Compact(ctx, f.session, "compaction-1")
	ok(r, "compact", err)
	if ability.Native != nil && res.Form != ability.Native.Form {
		r.Errorf("the result has the form %q, the ability %q", res.Form, ability.Native.Form)
	}
	if res.Disclosed != nil && !json.Valid(res.Disclosed) {
		r.Errorf("what was disclosed is not JSON: %.80q", res.Disclosed)
	}
	if u := res.Usage; u != nil && (u.InputTokens < 0 || u.OutputTokens < 0) {
		r.Errorf("usage %+v", *u)
	}
	return res
}

// goesOn checks that the session answers the next message.
func goesOn(ctx context.Context, r Reporter, f fixture, want ...string) {
	r.Helper()
	_, err := f.host.Play(ctx, f.session, "are you still there?")
	ok(r, "the turn after the compaction", err)
	if diff := cmp.Diff(want, said(f.host.Items())); diff != "" {
		r.Errorf("answers (-want +got):\n%s", diff)
	}
}

func nativeCompletes() (Script, func(context.Context, Reporter, fixture)) {
	const kept = "never touch the lexer"
	return Script{Answer("One."), {Spend(30, 4), Compacted(kept)}, Answer("Two.")},
		func(ctx context.Context, r Reporter, f fixture) {
			_, err := f.host.Play(ctx, f.session, "hello")
			ok(r, "run", err)
			res := compacted(ctx, r, f)
			if res.Disclosed != nil && !strings.Contains(string(res.Disclosed), kept) {
				r.Errorf("disclosed is %s, the provider said %q", res.Disclosed, kept)
			}
			if diff := cmp.Diff(&adapters.Usage{InputTokens: 30, OutputTokens: 4}, res.Usage); diff != "" {
				r.Errorf("usage (-want +got):\n%s", diff)
			}
			goesOn(ctx, r, f, "One.", "Two.")
		}
}

func nativeDisclosesNothing() (Script, func(context.Context, Reporter, fixture)) {
	return Script{{Compacted("")}, Answer("One.")},
		func(ctx context.Context, r Reporter, f fixture) {
			if res := compacted(ctx, r, f); res.Usage != nil {
				r.Errorf("usage %+v, the provider reported none", *res.Usage)
			}
			goesOn(ctx, r, f, "One.")
		}
}

func nativeIgnoresOthers() (Script, func(context.Context, Reporter, fixture)) {
	return Script{{CompactedOther("of another"), Spend(30, 4), Compacted("its own")}, Answer("One.")},
		func(ctx context.Context, r Reporter, f fixture) {
			res := compacted(ctx, r, f)
			if res.Usage == nil || strings.Contains(string(res.Disclosed), "of another") {
				r.Errorf("the completion of another compaction ended it: disclosed %s, usage %+v", res.Disclosed, res.Usage)
			}
			goesOn(ctx, r, f, "One.")
		}
}

func nativeFails() (Script, func(context.Context, Reporter, fixture)) {
	return Script{{Spend(7, 2), Fail(errors.New("connection reset"))}, Answer("One.")},
		func(ctx context.Context, r Reporter, f fixture) {
			if _, err := f.host.Compact(ctx, f.session, "compaction-1"); err == nil || errors.Is(err, context.Canceled) {
				r.Errorf("a compaction that broke ended with %v", err)
			}
			goesOn(ctx, r, f, "One.")
		}
}

func nativeNeverCompletes() (Script, func(context.Context, Reporter, fixture)) {
	return Script{{Spend(7, 2)}, Answer("One.")},
		func(ctx context.Context, r Reporter, f fixture) {
			if _, err := f.host.Compact(ctx, f.session, "compaction-1"); err == nil {
				r.Errorf("a compaction that never completed is a success")
			}
			goesOn(ctx, r, f, "One.")
		}
}

// nativeCancelled also asks, while the compaction runs, what may be asked then.
func nativeCancelled() (Script, func(context.Context, Reporter, fixture)) {
	running := make(chan struct{})
	return Script{{HangThen(func() { close(running) })}, Answer("One.")},
		func(ctx context.Context, r Reporter, f fixture) {
			cancelled, cancel := context.WithCancel(ctx)
			over, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				defer cancel()
				if !awaits(r, running, over) {
					return
				}
				if err := f.session.Steer(ctx, nil); !errors.Is(err, adapters.ErrNotSteerable) {
					r.Errorf("steer during a compaction: %v", err)
				}
				if a := f.session.Compaction(); (a.Native == nil) == (a.Refusal == nil) {
					r.Errorf("the ability during a compaction: %+v", a)
				}
			}()
			_, err := f.host.Compact(cancelled, f.session, "compaction-1")
			close(over)
			interrupted(r, err)
			<-done
			goesOn(ctx, r, f, "One.")
		}
}

// nativeCancelledBefore has a script without any compaction: none may be asked
// for.
func nativeCancelledBefore() (Script, func(context.Context, Reporter, fixture)) {
	return Script{Answer("One.")},
		func(ctx context.Context, r Reporter, f fixture) {
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			_, err := f.host.Compact(cancelled, f.session, "compaction-1")
			interrupted(r, err)
			if n := len(f.host.Commits()); n != 0 {
				r.Errorf("a compaction that was cancelled before it began journaled %d commits", n)
			}
			goesOn(ctx, r, f, "One.")
		}
}

func nativeClosed() (Script, func(context.Context, Reporter, fixture)) {
	running := make(chan struct{})
	return Script{{HangThen(func() { close(running) })}},
		func(ctx context.Context, r Reporter, f fixture) {
			over, closed := make(chan struct{}), make(chan error, 1)
			go func() {
				if !awaits(r, running, over) {
					closed <- nil
					return
				}
				closed <- f.session.Close()
			}()
			if _, err := f.host.Compact(ctx, f.session, "compaction-1"); err == nil {
				r.Errorf("the compaction of a closed session succeeded")
			}
			close(over)
			ok(r, "close", <-closed)
		}
}

// awaits reports whether the provider got to where it hangs before the compaction
// was over.
func awaits(r Reporter, hangs, over <-chan struct{}) bool {
	select {
	case <-hangs:
		return true
	case <-over:
		r.Errorf("the compaction is over although its provider never answered")
		return false
	}
}
