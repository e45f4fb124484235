package adaptertest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds the cases about the sessions of a runtime.

var runtimeCases = slices.Concat([]runtimeCase{
	{"a session has an id that stays", idStays},
	{"two sessions are two", twoSessions},
	{"a closed session is resumed", resumed},
	{"a session that was closed in a turn is resumed", resumedAfterCut},
	{"a session nobody knows is ErrNoSession", unknownSession},
	{"a session that was lost is ErrNoSession", lostSession},
	{"a seed is told to a fresh session when it is opened", seeded},
	{"a seeded session is no resumed one", seededIsFresh},
	{"notes are told beside the input, once", notesTold},
	{"a command in the words of the user is text", commandIsText},
	{"a fresh session has one driver", driven(false)},
	{"a resumed session has one driver", driven(true)},
	{"closing again and at the same time is no error", closedOften},
	{"the probe says what is there", probed},
}, runtimeCompactions)

// unknownID is the id of no session.
const unknownID = "0190a3f4-ffff-7000-8000-00000000dead"

func idStays() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), Answer("Two.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		id := s.NativeID()
		if id == "" {
			w.r.Errorf("the session has no native id once it is open: nobody could resume it")
		}
		same := func(when string) {
			if now := s.NativeID(); now != id {
				w.r.Errorf("the native id was %q and is %q after %s", id, now, when)
			}
		}
		w.plays(ctx, s, "hello")
		same("a turn")
		w.plays(ctx, s, "and again")
		same("two turns")
		w.shut(s)
		same("Close")
	}
}

func twoSessions() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), Answer("Two.")}, func(ctx context.Context, w *world) {
		a, b := w.open(ctx, w.Runtime, adapters.OpenParams{}), w.open(ctx, w.Runtime, adapters.OpenParams{})
		if a == nil || b == nil {
			return
		}
		if a.NativeID() == b.NativeID() {
			w.r.Errorf("two sessions have the id %s", a.NativeID())
		}
		w.plays(ctx, a, "hello to the first")
		w.plays(ctx, b, "hello to the second")
		w.wantTold(a.NativeID(), "hello to the first")
		w.wantTold(b.NativeID(), "hello to the second")
		w.wantUntold(a.NativeID(), "hello to the second")
		w.wantUntold(b.NativeID(), "hello to the first")
	}
}

// again closes a session and resumes it as another server would; nil if it cannot be.
func (w *world) again(ctx context.Context, s adapters.Session) adapters.Session {
	w.r.Helper()
	id := s.NativeID()
	w.shut(s)
	next := w.open(ctx, w.Other, adapters.OpenParams{NativeID: id})
	if next != nil && next.NativeID() != id {
		w.r.Errorf("session %s is resumed as %s", id, next.NativeID())
	}
	return next
}

func resumed() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), Answer("Two."), Answer("Three.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		w.plays(ctx, s, "the first message")
		for _, text := range []string{"the second message", "the third message"} {
			if s = w.again(ctx, s); s == nil {
				return
			}
			w.plays(ctx, s, text)
		}
		w.wantTold(s.NativeID(), "the first message", "the second message", "the third message")
	}
}

func resumedAfterCut() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), {Say("Two, "), Hang()}, Answer("Three.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		w.plays(ctx, s, "the first message")
		var closing sync.WaitGroup
		var failed error
		atFirstDelta(w.host, func() { closing.Go(func() { failed = s.Close() }) })
		if _, err := w.host.Play(ctx, s, "hang on"); err == nil {
			w.r.Errorf("a turn that was cut by Close ended well")
		}
		closing.Wait()
		ok(w.r, "close in a turn", failed)
		w.host.OnUpdate = nil
		if s = w.again(ctx, s); s == nil {
			return
		}
		w.plays(ctx, s, "the last message")
		w.wantTold(s.NativeID(), "the first message", "the last message")
	}
}

// unknownSession asks twice: what was refused must leave no lease behind.
func unknownSession() (Script, func(context.Context, *world)) {
	return Script{Answer("One.")}, func(ctx context.Context, w *world) {
		for range 2 {
			w.refuses(ctx, w.Runtime, unknownID, adapters.ErrNoSession)
		}
		if s := w.open(ctx, w.Runtime, adapters.OpenParams{}); s != nil {
			w.plays(ctx, s, "hello")
		}
	}
}

func lostSession() (Script, func(context.Context, *world)) {
	return Script{Answer("One.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		w.plays(ctx, s, "hello")
		w.shut(s)
		w.Lose(s.NativeID())
		w.refuses(ctx, w.Other, s.NativeID(), adapters.ErrNoSession)
	}
}

// What a seed holds, in order.
const (
	seedNotes  = "checkpoint: the lexer is done"
	seedAsk    = "please write the parser"
	seedCall   = "parser.go"
	seedResult = "func parse"
	seedAnswer = "The parser is written."
)

func seed() []transcript.Entry {
	return []transcript.Entry{
		entry("seed-1", transcript.Checkpoint{Version: "checkpoint-1", Text: seedNotes}),
		entry("seed-2", transcript.UserMessage{Content: transcript.TextParts(seedAsk)}),
		entry("seed-3", transcript.ToolCall{CallID: "call-1", Name: "read_file", Arguments: transcript.RawJSON(`{"path":"` + seedCall + `"}`)}),
		entry("seed-4", transcript.ToolResult{CallID: "call-1", Output: transcript.TextParts(seedResult)}),
		entry("seed-5", transcript.AgentMessage{Text: seedAnswer}),
	}
}

// wantSeeded checks that a session was told the whole seed once, and in what order. How
// it is cut into parts is the adapter's business.
func (w *world) wantSeeded(id, when string) {
	w.r.Helper()
	told, last := w.Told(id), -1
	for _, text := range []string{seedNotes, seedAsk, seedCall, seedResult, seedAnswer} {
		if n := count(told, text); n != 1 {
			w.r.Errorf("%s session %s was told %q of the seed %d times, want once: %q", when, id, text, n, told)
			return
		}
		at := index(told, text)
		if at < last {
			w.r.Errorf("%s session %s was told the seed out of order: %q", when, id, told)
		}
		last = at
	}
}

func seeded() (Script, func(context.Context, *world)) {
	return Script{Answer("One.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{Seed: seed()})
		if s == nil {
			return
		}
		w.wantSeeded(s.NativeID(), "before the first turn")
		w.plays(ctx, s, "and the tests?")
		w.wantTold(s.NativeID(), seedAnswer, "and the tests?")
	}
}

func seededIsFresh() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), Answer("Two."), Answer("Three.")}, func(ctx context.Context, w *world) {
		old := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if old == nil {
			return
		}
		w.plays(ctx, old, "the first message")
		s := w.open(ctx, w.Runtime, adapters.OpenParams{Seed: seed()})
		if s == nil {
			return
		}
		if s.NativeID() == old.NativeID() {
			w.r.Errorf("the seed went into session %s, which was there before", old.NativeID())
		}
		w.wantUntold(old.NativeID(), seedAsk)
		w.plays(ctx, s, "hello to the seeded one")
		if s = w.again(ctx, s); s == nil {
			return
		}
		w.wantSeeded(s.NativeID(), "after it was resumed")
		if old = w.again(ctx, old); old != nil {
			w.plays(ctx, old, "the last message")
			w.wantTold(old.NativeID(), "the first message", "the last message")
		}
	}
}

func notesTold() (Script, func(context.Context, *world)) {
	const note = "the user has pinned: keep the API"
	return Script{Answer("One."), Answer("Two.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		w.host.Notes = note
		w.plays(ctx, s, "the first message")
		w.host.Notes = ""
		w.plays(ctx, s, "the second message")
		told := w.Told(s.NativeID())
		if n := count(told, note); n != 1 {
			w.r.Errorf("the program was told the notes %d times, want once: %q", n, told)
		}
		if at := index(told, note); at >= 0 && at == index(told, "the first message") {
			w.r.Errorf("the notes are mixed into the words of the user: %q", told[at])
		}
		w.wantTold(s.NativeID(), "the first message", "the second message")
	}
}

func commandIsText() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), Answer("That is a command."), Answer("Three.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		w.plays(ctx, s, "the first message")
		w.plays(ctx, s, "/compact")
		w.plays(ctx, s, "the last message")
		w.wantTold(s.NativeID(), "the first message", "/compact", "the last message")
	}
}

// driven opens a session twice. What is refused must not disturb the one that has it, and
// what is closed is free.
func driven(resume bool) func() (Script, func(context.Context, *world)) {
	return func() (Script, func(context.Context, *world)) {
		return Script{Answer("One."), Answer("Two.")}, func(ctx context.Context, w *world) {
			s := w.open(ctx, w.Runtime, adapters.OpenParams{})
			if s == nil {
				return
			}
			w.plays(ctx, s, "the first message")
			if resume {
				if s = w.again(ctx, s); s == nil {
					return
				}
			}
			w.refuses(ctx, w.Other, s.NativeID(), adapters.ErrInUse)
			w.refuses(ctx, w.Runtime, s.NativeID(), adapters.ErrInUse)
			w.plays(ctx, s, "the second message")
			w.again(ctx, s)
		}
	}
}

func closedOften() (Script, func(context.Context, *world)) {
	return Script{Answer("One."), Answer("What nobody may hear.")}, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		w.plays(ctx, s, "hello")
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = s.Close() })
		}
		all.Wait()
		ok(w.r, "Close, four times at once", errors.Join(errs...))
		w.shut(s)
		if _, err := w.host.Play(ctx, s, "hello"); err == nil {
			w.r.Errorf("a closed session runs a turn")
		}
		if err := s.Steer(ctx, transcript.TextParts("hello")); !errors.Is(err, adapters.ErrNotSteerable) {
			w.r.Errorf("steer of a closed session: %v", err)
		}
	}
}

func probed() (Script, func(context.Context, *world)) {
	return Script{}, func(ctx context.Context, w *world) {
		p := w.Runtime.Probe(ctx)
		if p.Program == "" {
			w.r.Errorf("the probe names no program: %+v", p)
		}
		if !slices.Contains([]string{"ok", "missing", "unknown"}, p.Login) {
			w.r.Errorf("the probe's login is %q, want ok, missing or unknown", p.Login)
		}
		if p.Login == "missing" && p.LoginDetail == "" {
			w.r.Errorf("the probe says that nobody is logged in, and not what to do")
		}
		for _, problem := range p.Problems {
			w.r.Errorf("a program that works has the problem %+v", problem)
		}
		s := w.open(ctx, w.Runtime, adapters.OpenParams{})
		if s == nil {
			return
		}
		if got, want := abilityOf(p.Compaction), abilityOf(s.Compaction()); got != want {
			w.r.Errorf("the probe says of the compaction %q, the session %q", got, want)
		}
		done, cancel := context.WithCancel(ctx)
		cancel()
		for _, problem := range w.Runtime.Probe(done).Problems { // and it comes back
			if problem.Text == "" || problem.Fix == "" {
				w.r.Errorf("the problem %+v needs a text and what helps", problem)
			}
		}
	}
}

// abilityOf is an ability in one word: its form, or the code of its refusal.
func abilityOf(a adapters.Ability) string {
	switch {
	case (a.Native == nil) == (a.Refusal == nil):
		return "neither native nor refused, or both"
	case a.Native != nil:
		return "native " + a.Native.Form
	}
	return "refused " + a.Refusal.Code
}
