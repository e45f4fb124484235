package threads_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// noted says what the notes of the newest turn are about.
func noted(e *engine) string {
	ins := e.told()
	notes := ins[len(ins)-1].Notes
	var about []string
	for _, c := range [][2]string{{"taken the pins away", "unpinned"}, {"pins were changed", "changed"}, {"Never force-push.", "one"}, {"Speak Danish.", "two"}, {"[state after compaction", "state"}} {
		if strings.Contains(notes, c[0]) {
			about = append(about, c[1])
		}
	}
	if notes != "" && len(about) == 0 {
		return notes
	}
	return strings.Join(about, " ")
}

// Pins are told to each native session once, again after its history was replaced, and
// when they changed; how things stand once after each replacement.
func TestRuntimesAreToldOfPinsAndOfHowThingsStand(t *testing.T) {
	e := newEngine()
	b := driving(t, e)
	id := b.create()
	step := func(do func(), want string) {
		t.Helper()
		do()
		b.said(id, "go on")
		if got := noted(e); got != want {
			t.Errorf("the notes are about %q, want %q", got, want)
		}
		b.said(id, "and on")
		if got := noted(e); got != "" {
			t.Errorf("the notes of the turn after that are about %q", got)
		}
	}
	compact := func() { b.compact(threads.CompactParams{Thread: id}) }
	var one, two string
	step(func() {}, "")
	step(func() { one = b.pin(id, "Never force-push.").Pin.ID }, "one")
	step(compact, "one state")
	step(func() { two = b.pin(id, "Speak Danish.").Pin.ID }, "changed one two")
	step(func() { compact(); compact() }, "one two state")
	step(func() {
		_, err := b.svc.RemovePin(t.Context(), id, one)
		b.must(err)
	}, "changed two")
	step(func() {
		_, err := b.svc.RemovePin(t.Context(), id, two)
		b.must(err)
	}, "unpinned")
	step(compact, "state")
	step(func() { b.pin(id, "Speak Danish.") }, "two")
	for _, in := range e.told() {
		if s := transcript.PartsText(in.Input); s != "go on" && s != "and on" {
			t.Errorf("the user's words are %q", s)
		}
	}
	c, err := b.svc.ReadContext(t.Context(), id, nil)
	b.must(err)
	for _, en := range c.Entries {
		if strings.Contains(transcript.Text(en.Item.Body), "Danish") {
			t.Errorf("pins are in the context: %s", transcript.Text(en.Item.Body))
		}
	}
}

// What a session was told survives the server, and is not told again to the same one; a
// fresh one knows nothing.
func TestAFreshNativeSessionIsToldOfThePins(t *testing.T) {
	e := newEngine()
	fresh := true
	var ids []string
	e.names = func(p adapters.OpenParams) string {
		if fresh || len(ids) == 0 {
			ids = append(ids, "session-"+string(rune('a'+len(ids))))
		}
		return ids[len(ids)-1]
	}
	b := driving(t, e)
	id := b.create()
	b.pin(id, "Never force-push.")
	b.said(id, "hello")
	if got := noted(e); got != "one" {
		t.Errorf("the first turn is told %q", got)
	}
	for _, c := range []struct {
		fresh bool
		want  string
	}{{false, ""}, {true, "one"}, {false, ""}} {
		fresh = c.fresh
		b.restart()
		b.said(id, "hello again")
		if got := noted(e); got != c.want {
			t.Errorf("after a restart (fresh %v) the turn is told %q, want %q", c.fresh, got, c.want)
		}
	}
}

// Of a turn from which nothing was heard nobody knows whether its notes arrived: the
// next one has them again. One that got as far as an answer was told.
func TestNotesOfATurnThatNobodyHeardOfAreToldAgain(t *testing.T) {
	e := newEngine()
	b := driving(t, e)
	id := b.create()
	b.pin(id, "Never force-push.")
	b.said(id, "hello")
	b.compact(threads.CompactParams{Thread: id})
	good := e.run
	e.run = func(context.Context, adapters.TurnInput, adapters.Host) (adapters.End, error) {
		return adapters.End{}, errors.New("the program died")
	}
	b.said(id, "dies")
	first := noted(e)
	e.run = func(ctx context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		if err := h.Emit(ctx, says(h, "I have begun", 0).Updates...); err != nil {
			return adapters.End{}, err
		}
		return adapters.End{}, errors.New("the program died later")
	}
	b.restart() // the fact that they were not told is journaled
	b.said(id, "dies later")
	second := noted(e)
	e.run = good
	b.said(id, "works")
	if got := []string{first, second, noted(e)}; !slices.Equal(got, []string{"one state", "one state", ""}) {
		t.Errorf("the turns are told %q", got)
	}
}

// A runtime that can tell its model by itself is given the pins with the rest.
func TestReanchorOfARuntimeHasThePins(t *testing.T) {
	e := newEngine()
	var text string
	e.compact = func(ctx context.Context, _ adapters.CompactInput, h adapters.Host) (_ adapters.NativeResult, err error) {
		text, err = h.Reanchor(ctx)
		return adapters.NativeResult{Form: "engine", Reanchored: true}, err
	}
	b := driving(t, e)
	id := b.create()
	b.pin(id, "Never force-push.")
	b.said(id, "hello")
	b.compact(threads.CompactParams{Thread: id})
	if !strings.Contains(text, "Never force-push.") || !strings.Contains(text, "[state after compaction") {
		t.Errorf("Reanchor is %q", text)
	}
	b.said(id, "go on")
	if got := noted(e); got != "" {
		t.Errorf("what the adapter told is told again: %q", got)
	}
}
