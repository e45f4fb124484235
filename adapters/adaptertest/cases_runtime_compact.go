package adaptertest

import (
	"context"
	"errors"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// This file holds the cases about what the compaction of a runtime came to. Sessions that
// refuse to compact pass them by refusing.

var runtimeCompactions = []runtimeCase{
	{"a compaction keeps the session", compactionKeepsSession},
	{"a model that was re-anchored was told so", reanchoredIsTold},
	{"a compaction that finds nothing is ErrNothingToCompact", outcome(adapters.ErrNothingToCompact)},
	{"a compaction that loses the history is ErrLossy", outcome(adapters.ErrLossy)},
	{"a compaction nobody can tell about is ErrUncertain", outcome(adapters.ErrUncertain)},
	{"a compaction that is not possible is a RefusedError", outcome(errImpossible)},
	{"a compaction that is denied is fault.Denied", outcome(errDenied)},
	{"a compaction whose model fails is none of these", outcome(errBroken)},
}

// What the program's compaction comes to.
var (
	errImpossible = &adapters.RefusedError{Refusal: adapters.Refusal{
		Code: "nativeUnsupported", Reason: "the command is not available here", Remedy: adapters.UseLocal,
	}}
	errDenied = fault.New(fault.Denied, "a hook says no")
	errBroken = errors.New("connection reset")
)

// compactable opens a session that says it compacts, after a turn; nil if there is none.
func (w *world) compactable(ctx context.Context) adapters.Session {
	w.r.Helper()
	s := w.open(ctx, w.Runtime, adapters.OpenParams{})
	if s == nil || s.Compaction().Native == nil {
		return nil
	}
	w.plays(ctx, s, "the first message")
	return s
}

func compactionKeepsSession() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), {Spend(30, 4), Compacted("the summary")}, Answer("Two."), Answer("Three.")}, func(ctx context.Context, w *world) {
		s := w.compactable(ctx)
		if s == nil {
			return
		}
		id := s.NativeID()
		compacted(ctx, w.r, fixture{adapter: w.Runtime, session: s, host: w.host, cwd: w.cwd})
		if now := s.NativeID(); now != id {
			w.r.Errorf("the native id was %q and is %q after a compaction", id, now)
		}
		w.plays(ctx, s, "the second message")
		if s = w.again(ctx, s); s == nil {
			return
		}
		w.plays(ctx, s, "the third message")
		w.wantTold(id, "the second message", "the third message")
	}
}

// reanchoredIsTold does what the server does: who is not told by the adapter is told with
// the next input.
func reanchoredIsTold() (Script, func(context.Context, *world)) {
	const anchor = "the branch is release-2"
	return Script{Answer("One."), {Spend(30, 4), Compacted("the summary")}, Answer("Two.")}, func(ctx context.Context, w *world) {
		s := w.compactable(ctx)
		if s == nil {
			return
		}
		asked := false
		w.host.OnReanchor = func(context.Context) (string, error) {
			asked = true
			return anchor, nil
		}
		res, err := w.host.Compact(ctx, s, "compaction-1")
		ok(w.r, "compact", err)
		if res.Reanchored && !asked {
			w.r.Errorf("the model is said to be re-anchored, and nobody asked with what")
		}
		if !res.Reanchored {
			w.host.Notes = anchor
		}
		w.plays(ctx, s, "the second message")
		if told := w.Told(s.NativeID()); count(told, anchor) != 1 {
			w.r.Errorf("the model was told %d times how things stand, want once (the adapter says it told: %t): %q", count(told, anchor), res.Reanchored, told)
		}
	}
}

// outcome ends a compaction in the program's words for an error. The session goes on
// whatever it came to, and so does the conversation.
func outcome(want error) func() (Script, func(context.Context, *world)) {
	return func() (Script, func(context.Context, *world)) {
		return Script{Answer("One."), {Fail(want)}, Answer("Two."), Answer("Three.")}, func(ctx context.Context, w *world) {
			s := w.compactable(ctx)
			if s == nil {
				return
			}
			_, err := w.host.Compact(ctx, s, "compaction-1")
			if got, want := meaning(err), meaning(want); got != want {
				w.r.Errorf("the compaction ended with %v, which means %s, want %s", err, got, want)
			}
			if refused, is := errors.AsType[*adapters.RefusedError](err); is {
				if f := refused.Refusal; f.Code == "" || f.Reason == "" || f.Remedy == "" {
					w.r.Errorf("a refusal needs code, reason and remedy: %+v", f)
				}
			}
			w.plays(ctx, s, "the second message")
			if s = w.again(ctx, s); s == nil {
				return
			}
			w.plays(ctx, s, "the third message")
			w.wantTold(s.NativeID(), "the second message", "the third message")
		}
	}
}

// meaning is how the server takes an error of Compact.
func meaning(err error) string {
	_, refused := errors.AsType[*adapters.RefusedError](err)
	switch {
	case err == nil:
		return "completed"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, adapters.ErrNothingToCompact):
		return "nothing to compact"
	case errors.Is(err, adapters.ErrUncertain):
		return "uncertain"
	case errors.Is(err, adapters.ErrLossy):
		return "lossy"
	case refused:
		return "refused"
	case fault.CodeOf(err) == fault.Denied:
		return "denied"
	}
	return "failed"
}
