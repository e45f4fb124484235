package threads_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// sessionTale, if set, makes the crash child play a story of changes of a native session.
// The runtime's sessions are files that outlive the child.
const sessionTale = "PLIMSOLL_TEST_CRASH_SESSION"

func sessionsOf(path string) string { return path + ".sessions" }

func openKeeper(path string) (*threads.Service, events.Journal, *fake.Runtime, error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, nil, nil, err
	}
	script, err := fake.Parse("-- compact none it has no such command --\n-- turn * --\nsay Noted, and done.\n")
	if err != nil {
		return nil, nil, nil, err
	}
	k := fake.NewRuntime(script, fake.RuntimeOptions{Dir: sessionsOf(path), Base: 500})
	svc, err := threads.Open(context.Background(), threads.Config{
		Journal: j, Policy: compaction.Policy{Off: true}, Providers: []threads.Provider{{Name: "keeper", Kind: "keeper", Adapter: k}},
	})
	return svc, j, k, err
}

// sessionChild plays the story. Its turns are in the prologue: what a program hears in a
// turn that is killed is its own.
func sessionChild(path string, at int64) {
	svc, _, _, err := openKeeper(path)
	if err != nil {
		panic(err)
	}
	s := story{svc, context.Background()}
	if at == prologue {
		id := s.create()
		for n := range 10 {
			s.turn(id, fmt.Sprint(n, big("chapter", 400)))
		}
		s.compact(threads.CompactParams{Thread: id, Wait: true, Budget: 3000})
		s.turn(id, big("what was said since", 400))
		try(svc.Close(s.ctx))
		return
	}
	armFailpoints(at)
	id := must(svc.ListThreads(s.ctx, threads.PageQuery{})).Threads[0].ID
	say(said{What: "thread", Thread: id})
	s.undoNewest(id) // a fresh session is told all
	s.compact(threads.CompactParams{Thread: id, Wait: true, Budget: 3000})
	s.undoNewest(id) // the one before goes on
}

func (s story) undoNewest(id transcript.ThreadID) {
	recs := must(s.svc.ListCompactions(s.ctx, id, threads.PageQuery{})).Records
	last := recs[len(recs)-1].CompactionID
	must(s.svc.UndoCompaction(s.ctx, threads.UndoParams{Thread: id, Compaction: last}))
	say(said{What: "undone", Thread: id, ID: string(last)})
}

// A server that is killed while the session of a thread changes leaves the one before or
// the one after, and that has what the thread's context holds.
func TestKill9DuringAChangeOfSessionLeavesTheOldOneOrTheNewOne(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "prologue.db")
	if err := os.Mkdir(sessionsOf(begin), 0o700); err != nil {
		t.Fatal(err)
	}
	tale := sessionTale + "=1"
	playUntil(t, begin, prologue, tale)
	copied := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "killed.db")
		written, err := os.ReadFile(begin)
		if err == nil {
			err = os.WriteFile(path, written, 0o600)
		}
		if err == nil {
			err = os.CopyFS(sessionsOf(path), os.DirFS(sessionsOf(begin)))
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, hits, _ := playUntil(t, copied(t), 0, tale)
	for _, must := range []string{"rebase/opening", "rebase/opened", "compaction/committing", "compaction/verdict"} {
		if !slices.Contains(hits, must) {
			t.Fatalf("the story does not come by %s: %v", must, hits)
		}
	}
	t.Logf("%d rounds", len(hits))
	for n := 1; n <= len(hits); n++ {
		t.Run(fmt.Sprint("hit ", n), func(t *testing.T) {
			t.Parallel()
			path := copied(t)
			acks, _, killed := playUntil(t, path, n, tale)
			if killed == "" {
				t.Fatal("the child was not killed")
			}
			checkSessions(t, path, killed, acks)
		})
	}
}

// checkSessions opens what the killed process left and holds it to the contract.
func checkSessions(t *testing.T, path, where string, acks []said) {
	t.Helper()
	svc, j, k, err := openKeeper(path)
	if err != nil {
		t.Fatalf("%s: open: %v", where, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := svc.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", where, err)
		}
	}()
	b := &bench{t: t, svc: svc, journal: &counting{Journal: j}}
	for _, id := range threadsOf(acks) {
		story{svc, t.Context()}.rested(id)
		b.wantKeptIn(t, k, id, where)
		endsOnce(t, b, id)
		for _, r := range b.records(id) {
			if done := *r.Outcome == compaction.Completed; done != (r.Rebase != nil) {
				t.Errorf("%s: record %s", where, mustJSON(t, r))
			}
		}
		checkUndone(t, b, id, where, acks)
		b.said(id, "the thread goes on")
		b.wantKeptIn(t, k, id, where)
	}
}

func (b *bench) wantKeptIn(t *testing.T, k *fake.Runtime, id transcript.ThreadID, where string) {
	t.Helper()
	native := b.native(id)
	if diff := cmp.Diff(fake.Told(b.entries(id)), history(t, k, native)); diff != "" {
		t.Errorf("%s: session %q (-context +history):\n%s", where, native, diff)
	}
}

// checkUndone: an undo that was acknowledged is in the journal, with its session.
func checkUndone(t *testing.T, b *bench, id transcript.ThreadID, where string, acks []said) {
	t.Helper()
	done := map[string]bool{}
	for _, p := range b.payloads(id) {
		if u, ok := p.(threads.CompactionUndone); ok {
			done[string(u.CompactionID)] = u.Session != nil && u.Session.ID != ""
		}
	}
	for _, a := range acks {
		if a.What == "undone" && !done[a.ID] {
			t.Errorf("%s: the undo of %s was acknowledged and is lost", where, a.ID)
		}
	}
}
