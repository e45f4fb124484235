package threads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// brittle is a journal that takes so many commits more, and then none until it is mended:
// what comes after them never happened, as after a kill.
type brittle struct {
	events.Journal
	mu   sync.Mutex
	left int    // -1: it does not break
	tell func() // that it broke; may be nil
}

func (j *brittle) breaksAfter(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = n
}

func (j *brittle) tells(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tell = f
}

func (j *brittle) Append(ctx context.Context, a events.Append) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left == 0 {
		if j.tell != nil {
			j.tell()
		}
		return 0, errScripted
	}
	if j.left > 0 {
		j.left--
	}
	return j.Journal.Append(ctx, a)
}

// sessionsModel is the model of the random test: threads of one runtime.
type sessionsModel struct {
	t       *testing.T
	b       *bench
	k       *fake.Runtime
	journal *brittle
	ids     []transcript.ThreadID
	turns   map[transcript.ThreadID][]transcript.TurnID
	n       int
	lossy   map[string]bool // sessions whose loss the server was told of
	noted   map[string]int  // sessions that were compacted natively: what their threads held then
}

func newSessionsModel(t *testing.T) *sessionsModel {
	m := &sessionsModel{
		t: t, k: newKeeper(t, "ok"), journal: &brittle{left: -1},
		turns: map[transcript.ThreadID][]transcript.TurnID{}, lossy: map[string]bool{}, noted: map[string]int{},
	}
	m.b = keeping(t, m.k, rebasing, func(c *threads.Config) {
		m.journal.Journal, c.Journal = c.Journal, m.journal
		c.Tools = map[string]threads.Tool{"look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("seen")}, nil
		}}
	})
	m.ids = append(m.ids, m.b.create())
	return m
}

// thread draws one of the threads.
func (m *sessionsModel) thread(rt *rapid.T) transcript.ThreadID {
	return m.ids[rapid.IntRange(0, len(m.ids)-1).Draw(rt, "thread")]
}

func (m *sessionsModel) turn(rt *rapid.T) {
	id := m.thread(rt)
	m.n++
	kind := rapid.SampledFrom([]string{"plain", "works", "breaks", "floods"}).Draw(rt, "kind")
	turn := m.b.played(id, fmt.Sprintf("%s %d %s", kind, m.n, strings.Repeat("word ", 150)))
	m.turns[id] = append(m.turns[id], turn.ID)
}

// disturbed has something happen on a journal that may break in the middle of it, after
// which the server begins anew.
func (m *sessionsModel) disturbed(rt *rapid.T, f func()) {
	if !rapid.Bool().Draw(rt, "killed") {
		f()
		return
	}
	m.killed(rapid.IntRange(0, 6).Draw(rt, "commits"), f)
}

func (m *sessionsModel) killed(commits int, f func()) {
	m.journal.breaksAfter(commits)
	f()
	m.journal.breaksAfter(-1)
	m.b.restart()
	for _, id := range m.ids {
		m.b.settle(id)
	}
}

// ask has a compaction happen; nobody says that it works.
func (m *sessionsModel) ask(id transcript.ThreadID, route compaction.Route) {
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	m.journal.tells(cancel)
	_, _ = m.b.svc.StartCompaction(ctx, threads.CompactParams{Thread: id, Route: route, Budget: 1500, Wait: true})
}

func (m *sessionsModel) local(rt *rapid.T) {
	id := m.thread(rt)
	if rapid.Bool().Draw(rt, "rejected") {
		m.k.Reject(errors.New("no room"))
	}
	m.disturbed(rt, func() { m.ask(id, compaction.RouteLocal) })
	m.k.Reject(nil)
}

func (m *sessionsModel) native(rt *rapid.T) {
	id := m.thread(rt)
	how := rapid.SampledFrom([]string{"ok", "ok", "fail", "refuse", "nothing", "uncertain", "lossy", "lossy", "none"}).Draw(rt, "how")
	route := rapid.SampledFrom([]compaction.Route{"", compaction.RouteNative}).Draw(rt, "route")
	if rapid.Bool().Draw(rt, "rejected") {
		m.k.Reject(errors.New("no room"))
	}
	m.k.Play(keeps(m.t, how))
	before := m.compacted()
	m.disturbed(rt, func() { m.ask(id, route) })
	m.k.Reject(nil)
	m.k.Play(keeps(m.t, "ok"))
	for native, n := range m.compacted() {
		if n > before[native] {
			recs := m.b.records(id)
			m.lossy[native] = strings.Contains(mustJSON(m.t, recs[len(recs)-1]), "nativeInvalid")
			m.noted[native] = len(fake.Told(m.b.entries(id)))
		}
	}
}

// compacted is how often each session was compacted natively.
func (m *sessionsModel) compacted() map[string]int {
	out := map[string]int{}
	for n := 1; ; n++ {
		id := fmt.Sprintf("fake-%d", n)
		if history(m.t, m.k, id) == nil {
			return out
		}
		out[id] = m.k.Compacted(id)
	}
}

func (m *sessionsModel) undo(rt *rapid.T) {
	id := m.thread(rt)
	m.disturbed(rt, func() { m.undoNewest(id) })
}

// undoNewest takes back the newest compaction that can be.
func (m *sessionsModel) undoNewest(id transcript.ThreadID) {
	for _, r := range slices.Backward(m.b.records(id)) {
		if _, err := m.b.svc.UndoCompaction(m.t.Context(), threads.UndoParams{Thread: id, Compaction: r.CompactionID}); err == nil || errors.Is(err, errScripted) {
			return
		}
	}
}

func (m *sessionsModel) fork(rt *rapid.T) {
	id := m.thread(rt)
	if len(m.ids) > 3 {
		return
	}
	fork := m.b.fork(threads.ForkParams{Thread: id}).ID
	m.ids, m.turns[fork] = append(m.ids, fork), slices.Clone(m.turns[id])
}

func (m *sessionsModel) revert(rt *rapid.T) {
	id := m.thread(rt)
	turns := m.turns[id]
	if len(turns) == 0 {
		return
	}
	at := rapid.IntRange(0, len(turns)-1).Draw(rt, "turn")
	m.b.revert(id, turns[at])
	m.turns[id] = turns[:at]
}

func (m *sessionsModel) model(rt *rapid.T) {
	id := m.thread(rt)
	model := rapid.SampledFrom([]string{"fake", "fake-other"}).Draw(rt, "model")
	if _, err := m.b.svc.UpdateSettings(m.t.Context(), id, threads.SettingsPatch{Model: &model}); err != nil {
		rt.Fatalf("%v", err)
	}
}

// check: the session of each thread has what its context holds, from the provider's own
// compaction on if there was one; it is nobody else's, and has not lost its history.
func (m *sessionsModel) check(rt *rapid.T) {
	whose := map[string]transcript.ThreadID{}
	for _, id := range m.ids {
		native := m.b.native(id)
		if native == "" {
			continue // the next turn begins one
		}
		if other, taken := whose[native]; taken {
			rt.Fatalf("threads %s and %s are both in session %s", id, other, native)
		}
		whose[native] = id
		if m.lossy[native] {
			rt.Fatalf("thread %s is in session %s, which lost its history", id, native)
		}
		want, got := fake.Told(m.b.entries(id)), history(m.t, m.k, native)
		if n, noted := m.noted[native]; noted {
			want = append([]string{fake.NativeNotes}, want[min(n, len(want)):]...)
		}
		if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
			rt.Fatalf("session %s of thread %s (-context +history):\n%s", native, id, diff)
		}
	}
}

// Whatever is done to threads and whenever the server dies in between, a session has what
// its thread's context holds. Turns do not die in it: what a program said in a turn that
// nobody saw is its own.
func TestSessionsHoldWhatContextsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newSessionsModel(t)
		defer m.b.close()
		rt.Repeat(map[string]func(*rapid.T){
			"turn": m.turn, "again": m.turn, "local": m.local, "native": m.native, "undo": m.undo,
			"fork": m.fork, "revert": m.revert, "model": m.model,
			"restart": func(*rapid.T) { m.b.restart() },
			"":        m.check,
		})
	})
}

// Each change of session, stopped at each of its commits, is whole or did not happen.
func TestAChangeOfSessionIsWholeOrDidNotHappen(t *testing.T) {
	for name, change := range map[string]func(*sessionsModel, transcript.ThreadID){
		"local": func(m *sessionsModel, id transcript.ThreadID) { m.ask(id, compaction.RouteLocal) },
		"undo":  func(m *sessionsModel, id transcript.ThreadID) { m.undoNewest(id) },
	} {
		t.Run(name, func(t *testing.T) {
			same := map[bool]int{}
			for commits := range 8 {
				m := newSessionsModel(t)
				id := m.ids[0]
				m.b.filled(id, 8)
				if name == "undo" {
					m.ask(id, compaction.RouteLocal)
				}
				before := m.b.native(id)
				m.killed(commits, func() { change(m, id) })
				same[m.b.native(id) == before]++
				m.b.wantKept(t, m.k, id)
				m.b.said(id, "go on")
				m.b.wantKept(t, m.k, id)
			}
			if same[true] == 0 || same[false] == 0 {
				t.Errorf("the session is the one before: %v", same)
			}
		})
	}
}
