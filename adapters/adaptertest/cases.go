package adaptertest

import (
	"context"
	"errors"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// This file holds the cases of Run.

func models(t *testing.T, f fixture) {
	infos, err := f.adapter.Models(t.Context())
	ok(t, "models", err)
	if len(infos) == 0 {
		t.Error("the adapter lists no model")
	}
	seen := map[string]bool{}
	for _, m := range infos {
		if m.ID == "" || seen[m.ID] {
			t.Errorf("model id %q is empty or listed twice", m.ID)
		}
		if m.ContextWindow < 0 || m.MaxOutput < 0 {
			t.Errorf("model %s has negative limits: %+v", m.ID, m)
		}
		seen[m.ID] = true
	}
}

func answer(t *testing.T, f fixture) {
	_, err := f.host.Play(t.Context(), f.session, "hello")
	ok(t, "run", err)
	if texts := said(f.host.Items()); len(texts) == 0 || texts[len(texts)-1] == "" {
		t.Errorf("the turn ended without an answer: %q", texts)
	}
	usages := f.host.Usages()
	if len(usages) == 0 || usages[0].InputTokens <= 0 || usages[0].OutputTokens <= 0 {
		t.Errorf("the usage of the request was not reported: %+v", usages)
	}
}

func manyTurns(t *testing.T, f fixture) {
	for _, text := range []string{"hello", "and again", "once more"} {
		_, err := f.host.Play(t.Context(), f.session, text)
		ok(t, text, err)
	}
	if texts := said(f.host.Items()); len(texts) < 3 {
		t.Errorf("three turns got %d answers", len(texts))
	}
}

func compactionIsAValue(t *testing.T, f fixture) {
	a := f.session.Compaction()
	switch {
	case (a.Native == nil) == (a.Refusal == nil):
		t.Errorf("the ability must be native or a refusal: %+v", a)
	case a.Native != nil:
		if a.Native.Form == "" {
			t.Error("native compaction has no form")
		}
	default:
		if a.Refusal.Code == "" || a.Refusal.Reason == "" || a.Refusal.Remedy == "" {
			t.Errorf("a refusal needs code, reason and remedy: %+v", *a.Refusal)
		}
		if _, err := f.session.Compact(t.Context(), adapters.CompactInput{ID: "compaction-1"}, f.host); err == nil {
			t.Error("a session that refuses to compact reports success")
		}
		if n := len(f.host.Commits()); n != 0 {
			t.Errorf("a refused compaction journaled %d commits", n)
		}
	}
}

func cancelAtFirstDelta(t *testing.T, f fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	atFirstDelta(f.host, cancel)
	_, err := f.host.Play(ctx, f.session, "hello")
	interrupted(t, err)
	f.host.OnUpdate = nil
	_, err = f.host.Play(t.Context(), f.session, "are you still there?")
	ok(t, "the turn after a cancelled one", err)
}

func cancelledBefore(t *testing.T, f fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.host.Play(ctx, f.session, "hello")
	interrupted(t, err)
	if n := len(f.host.Commits()); n != 0 {
		t.Errorf("a turn that was cancelled before it began journaled %d commits", n)
	}
}

// interruptAtFirstDelta interrupts while the session waits for its host, as
// happens when the disk is slow: Interrupt must not wait for Run.
func interruptAtFirstDelta(t *testing.T, f fixture) {
	ok(t, "interrupt without a turn", f.session.Interrupt(t.Context()))
	atFirstDelta(f.host, func() { ok(t, "interrupt", f.session.Interrupt(t.Context())) })
	_, err := f.host.Play(t.Context(), f.session, "hello")
	interrupted(t, err)
}

func closeWhileRunning(t *testing.T, f fixture) {
	closed := make(chan struct{})
	atFirstDelta(f.host, func() {
		go func() {
			defer close(closed)
			ok(t, "close", f.session.Close())
		}()
	})
	if _, err := f.host.Play(t.Context(), f.session, "hello"); err == nil {
		// The answer may have been complete before Close took effect.
		t.Log("the turn ended before it was closed")
	}
	<-closed
	if _, err := f.host.Play(t.Context(), f.session, "hello"); err == nil {
		t.Error("a closed session runs a turn")
	}
	if err := f.session.Steer(t.Context(), nil); !errors.Is(err, adapters.ErrNotSteerable) {
		t.Errorf("steer of a closed session: %v", err)
	}
}

func steerIdle(t *testing.T, f fixture) {
	if err := f.session.Steer(t.Context(), nil); !errors.Is(err, adapters.ErrNotSteerable) {
		t.Errorf("steer before the first turn: %v", err)
	}
	_, err := f.host.Play(t.Context(), f.session, "hello")
	ok(t, "run", err)
	if err := f.session.Steer(t.Context(), nil); !errors.Is(err, adapters.ErrNotSteerable) {
		t.Errorf("steer after the turn: %v", err)
	}
}
