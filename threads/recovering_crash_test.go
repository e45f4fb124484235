package threads_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// nativeTale, if set, makes the crash child play a story on a runtime. Its program's
// memory is a file that outlives the child: what it was asked for and what it did.
const nativeTale = "PLIMSOLL_TEST_CRASH_NATIVE"

// A program is the file.
type program string

func (p program) note(what string, id transcript.CompactionID) {
	f := must(os.OpenFile(string(p), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	must(fmt.Fprintln(f, what, id))
	try(f.Close())
}

func (p program) did(what string, id transcript.CompactionID) bool {
	data, err := os.ReadFile(string(p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	return strings.Contains(string(data), fmt.Sprintln(what, id))
}

// engine is the runtime on that program.
func (p program) engine() *engine {
	e := newEngine()
	e.run = func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		if transcript.PartsText(in.Input) == "overflow" {
			if err := h.Emit(ctx, adapters.CompactionBegan{}); err != nil {
				return adapters.End{}, err
			}
			failpoint.Hit("provider/own")
			if err := h.Emit(ctx, adapters.CompactionEnded{Result: adapters.NativeResult{Form: "auto", After: 9_000}}); err != nil {
				return adapters.End{}, err
			}
		}
		return says(h, "done", 40_000), nil
	}
	e.compact = func(_ context.Context, in adapters.CompactInput, _ adapters.Host) (adapters.NativeResult, error) {
		p.note("asked", in.ID)
		failpoint.Hit("provider/asked")
		p.note("done", in.ID)
		failpoint.Hit("provider/done")
		return adapters.NativeResult{Form: "engine", After: 8_000}, nil
	}
	e.recover = func(_ context.Context, c adapters.Unfinished) (adapters.NativeResult, error) {
		switch {
		case p.did("done", c.ID):
			return adapters.NativeResult{Form: "engine", After: 8_000}, nil
		case p.did("asked", c.ID):
			return adapters.NativeResult{}, adapters.ErrUncertain
		}
		return adapters.NativeResult{}, adapters.ErrNotCompacted
	}
	return e
}

func openNative(path string) (*threads.Service, events.Journal, error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	e := program(path + ".program").engine()
	svc, err := threads.Open(context.Background(), threads.Config{
		Journal: j, Providers: []threads.Provider{{Name: "engine", Kind: "engine", Adapter: e}},
	})
	return svc, j, err
}

// nativeChild plays the story; on what another child left it only waits for its end.
func nativeChild(path string, at int64) {
	armFailpoints(at)
	svc, _, err := openNative(path)
	if err != nil {
		panic(err)
	}
	s := story{svc, context.Background()}
	if list := must(svc.ListThreads(s.ctx, threads.PageQuery{})).Threads; len(list) > 0 {
		for _, t := range list {
			s.rested(t.ID)
		}
		return
	}
	id := s.create()
	s.turn(id, "chapter")
	s.compact(threads.CompactParams{Thread: id, Wait: true})
	turn := s.start(id, "overflow")
	s.compact(threads.CompactParams{Thread: id})
	last := s.start(id, "chapter")
	s.await(id, turn)
	s.await(id, last)
	s.rested(id)
}

// rested waits until a thread rests and nothing waits in it.
func (s story) rested(id transcript.ThreadID) {
	for {
		read := must(s.svc.ReadThread(s.ctx, id))
		if read.Thread.Status != threads.StatusActive && read.Thread.Queued == 0 {
			return
		}
		for m, err := range s.svc.Follow(s.ctx, id, &read.AsOf, 0) {
			if err != nil || m.Event.Seq > 0 {
				break
			}
		}
	}
}

// I7 for native compactions: wherever the server is killed, also while it asks what
// became of one, each has one end, and that is what the provider did.
func TestKill9DuringANativeCompactionEndsItAsTheProviderSays(t *testing.T) {
	t.Parallel()
	_, hits, _ := playUntil(t, filepath.Join(t.TempDir(), "whole.db"), 0, nativeTale+"=1")
	seen := map[string]bool{}
	for _, h := range hits {
		seen[h] = true
	}
	for _, must := range []string{"provider/asked", "provider/done", "provider/own", "compaction/running", "compaction/committing"} {
		if !seen[must] {
			t.Fatalf("the story does not come by %s: %v", must, hits)
		}
	}
	ends := make(chan compaction.Outcome, 10_000)
	t.Run("kill", func(t *testing.T) {
		for n := 1; n <= len(hits); n++ {
			for _, again := range []int{0, 1, 2, 3, 4} { // the hit of the recovery that kills
				if again > 0 && !strings.HasPrefix(hits[n-1], "provider/") && !strings.HasPrefix(hits[n-1], "compaction/committing") {
					continue
				}
				t.Run(fmt.Sprint("hit ", n, " ", again), func(t *testing.T) {
					t.Parallel()
					path := filepath.Join(t.TempDir(), "killed.db")
					acks, _, killed := playUntil(t, path, n, nativeTale+"=1")
					if again > 0 {
						_, _, then := playUntil(t, path, again, nativeTale+"=1")
						killed += ", " + then
					}
					checkNative(t, path, killed, acks, ends)
				})
			}
		}
	})
	close(ends)
	told := map[compaction.Outcome]int{}
	for o := range ends {
		told[o]++
	}
	t.Logf("%d hits, outcomes %v", len(hits), told)
	for _, o := range []compaction.Outcome{compaction.Completed, compaction.Failed, compaction.Uncertain, compaction.Interrupted} {
		if told[o] == 0 {
			t.Errorf("no compaction ended %s: %v", o, told)
		}
	}
}

// checkNative opens what was left and holds each compaction to what the program did.
func checkNative(t *testing.T, path, where string, acks []said, ends chan<- compaction.Outcome) {
	t.Helper()
	svc, j, err := openNative(path)
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
	s := story{svc, t.Context()}
	for _, id := range threadsOf(acks) {
		s.rested(id)
		endsOnce(t, b, id)
		for _, r := range b.records(id) {
			ends <- *r.Outcome
			checkNativeEnd(t, where, program(path+".program"), r)
		}
		b.said(id, "chapter") // the thread goes on
	}
	for _, a := range acks {
		if a.What == "compaction" {
			if _, err := svc.ReadCompaction(t.Context(), a.Thread, transcript.CompactionID(a.ID)); err != nil {
				t.Errorf("%s: %v", where, err)
			}
		}
	}
}

func threadsOf(acks []said) (ids []transcript.ThreadID) {
	for _, a := range acks {
		if a.What == "thread" {
			ids = append(ids, a.Thread)
		}
	}
	return ids
}

// checkNativeEnd: what is completed was done, what was done and asked for is completed,
// and what may have been done is uncertain.
func checkNativeEnd(t *testing.T, where string, p program, r compaction.Record) {
	t.Helper()
	asked, done := p.did("asked", r.CompactionID), p.did("done", r.CompactionID)
	completed := *r.Outcome == compaction.Completed
	switch {
	case r.Trigger == compaction.TriggerProvider:
		if !completed && *r.Outcome != compaction.Uncertain {
			t.Errorf("%s: the provider's own compaction is %s", where, *r.Outcome)
		}
	case done != completed:
		t.Errorf("%s: compaction %s is %s, the provider did it: %v", where, r.CompactionID, *r.Outcome, done)
	case asked && !done && *r.Outcome != compaction.Uncertain:
		t.Errorf("%s: compaction %s was asked for, and is %s", where, r.CompactionID, *r.Outcome)
	}
}
