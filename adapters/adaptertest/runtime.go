package adaptertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Program is the program of a Runtime in the hands of its test: a double that speaks the
// program's wire, or the real one behind a scripted model server. It plays a Script.
type Program struct {
	Runtime adapters.Runtime
	// Other drives the same sessions as another server on the same machine would. Nil:
	// Runtime does both.
	Other adapters.Runtime
	// Told returns what the model of a session has before it apart from its own answers,
	// oldest first and each part by itself: what the session was seeded with, the
	// server's notes, and what the user said.
	Told func(nativeID string) []string
	// Lose makes the program forget a session, as if somebody had deleted its file.
	Lose func(nativeID string)
}

// RunRuntime adds the cases of an adapter whose program keeps its own history: which
// session it is, how it begins, what the program is told, and what its compaction came
// to. play makes a Program that plays the script.
//
// Where a case wants a compaction to end in a certain way, the script says Fail with the
// error that the adapter is to return: adapters.ErrNothingToCompact, ErrLossy,
// ErrUncertain, a *adapters.RefusedError, or a *fault.Error with the code fault.Denied.
// The program ends it in its own words; a player whose program has none skips the case.
func RunRuntime(t *testing.T, play func(t *testing.T, s Script) Program) {
	for _, c := range runtimeCases {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			script, check := c.make()
			w := newWorld(t, play(t, script), t.TempDir())
			within(t, "the case", func() { check(t.Context(), w) })
			within(t, "Close", w.close)
			goleak.VerifyNone(t, before)
		})
	}
}

// A runtimeCase makes a script and the check that goes with it. It reports to a
// Reporter, so that a test can see it fail.
type runtimeCase struct {
	name string
	make func() (Script, func(context.Context, *world))
}

// A world is what a case of a runtime works on.
type world struct {
	Program
	r      Reporter
	cwd    string
	host   *Host
	opened []adapters.Session
}

func newWorld(r Reporter, p Program, cwd string) *world {
	if p.Other == nil {
		p.Other = p.Runtime
	}
	w := &world{Program: p, r: r, cwd: cwd, host: NewHost(r)}
	w.host.OwnIDs = true
	return w
}

// close closes whatever the case has left open.
func (w *world) close() {
	for _, s := range w.opened {
		w.shut(s)
	}
}

// open opens a session that must open; nil if it does not.
func (w *world) open(ctx context.Context, a adapters.Adapter, p adapters.OpenParams) adapters.Session {
	w.r.Helper()
	p.Thread, p.Cwd = thread, w.cwd
	s, err := a.Open(ctx, p)
	if err != nil {
		w.r.Errorf("open with the id %q and a seed of %d: %v", p.NativeID, len(p.Seed), err)
		return nil
	}
	w.opened = append(w.opened, s)
	return s
}

// refuses checks that a session is not opened, and why.
func (w *world) refuses(ctx context.Context, a adapters.Adapter, id string, want error) {
	w.r.Helper()
	s, err := a.Open(ctx, adapters.OpenParams{Thread: thread, Cwd: w.cwd, NativeID: id})
	if err == nil {
		w.opened = append(w.opened, s)
		w.r.Errorf("session %s is opened, want %q", id, want)
		return
	}
	if !errors.Is(err, want) {
		w.r.Errorf("session %s is not opened because %q, want an error that is %q", id, err, want)
	}
	if _, told := errors.AsType[*fault.Error](err); !told {
		w.r.Errorf("the error %q is for the client and no *fault.Error", err)
	}
}

// plays runs a turn that must get an answer.
func (w *world) plays(ctx context.Context, s adapters.Session, text string) {
	w.r.Helper()
	before := len(said(w.host.Items()))
	_, err := w.host.Play(ctx, s, text)
	ok(w.r, "the turn "+text, err)
	if answers := said(w.host.Items()); err == nil && len(answers) != before+1 {
		w.r.Errorf("the turn %q got %d answers", text, len(answers)-before)
	}
}

func (w *world) shut(s adapters.Session) {
	w.r.Helper()
	ok(w.r, "close", s.Close())
}

// wantTold checks that a session was told texts once each and in this order, and each as
// a part of its own: one has none of the others.
func (w *world) wantTold(id string, want ...string) {
	w.r.Helper()
	told := w.Told(id)
	last := -1
	for _, text := range want {
		switch n := count(told, text); {
		case n == 0:
			w.r.Errorf("session %s was never told %q: %q", id, text, told)
			continue
		case n > 1:
			w.r.Errorf("session %s was told %q %d times: %q", id, text, n, told)
		}
		at := index(told, text)
		switch {
		case at == last:
			w.r.Errorf("session %s was told %q in one part with what is not of the same origin: %q", id, text, told[at])
		case at < last:
			w.r.Errorf("session %s was told %q before what came first: %q", id, text, told)
		}
		last = at
	}
}

// wantUntold checks that a session was never told a text.
func (w *world) wantUntold(id, text string) {
	w.r.Helper()
	if told := w.Told(id); count(told, text) > 0 {
		w.r.Errorf("session %s was told %q: %q", id, text, told)
	}
}

// count returns how often a text is in what was told.
func count(told []string, text string) (n int) {
	for _, part := range told {
		n += strings.Count(part, text)
	}
	return n
}

func index(told []string, text string) int {
	for i, part := range told {
		if strings.Contains(part, text) {
			return i
		}
	}
	return -1
}

// entry is a body as a part of a seed.
func entry(id transcript.ItemID, b transcript.Body) transcript.Entry {
	return transcript.Entry{Item: transcript.Item{ID: id, Turn: "turn-before", Body: b}, Form: transcript.FormWhole}
}
