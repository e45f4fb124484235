package threads_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file has what tests of native sessions share: a runtime that keeps what was said
// in each of its sessions, over restarts of the server, as a program does in its files.

// keeps is a script whose turns answer, and whose compactions end in a way.
func keeps(t testing.TB, compact string) *fake.Script {
	t.Helper()
	s, err := fake.Parse("-- compact " + compact + " --\n" +
		"-- turn breaks --\nsay Half an answer, and then\nfail the program broke\n" +
		"-- turn works --\nthink What is there?\nrun ls => a.go\ncall look {\"n\":1}\nsay Seen.\n" +
		"-- turn floods --\nsay I begin.\noverflow\n" +
		"-- turn * --\nsay Noted, and done.\n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newKeeper returns a runtime whose native compactions end in a way.
func newKeeper(t testing.TB, compact string) *fake.Runtime {
	return fake.NewRuntime(keeps(t, compact), fake.RuntimeOptions{Window: 64_000, Base: 500})
}

// keeping returns a bench whose provider is a keeper, and nothing compacts by itself.
func keeping(t *testing.T, k *fake.Runtime, change ...func(*threads.Config)) *bench {
	t.Helper()
	return newBench(t, append([]func(*threads.Config){func(c *threads.Config) {
		c.Providers = []threads.Provider{{Name: "keeper", Kind: "keeper", Adapter: k}}
		c.Policy = compaction.Policy{Off: true}
	}}, change...)...)
}

// rebasing lets a keeper be rebased by itself.
func rebasing(c *threads.Config) { c.Providers[0].AutoRebase = true }

// native is the id of a thread's session.
func (b *bench) native(id transcript.ThreadID) string { return b.read(id).NativeSession }

// wantSession: the newest change of a thread's session is want.
func (b *bench) wantSession(id transcript.ThreadID, want threads.SessionUpdated) {
	b.t.Helper()
	var got threads.SessionUpdated
	for _, p := range b.payloads(id) {
		if s, is := p.(threads.SessionUpdated); is {
			got = s
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("the session that was told of last (-want +got):\n%s", diff)
	}
}

func history(t testing.TB, k *fake.Runtime, native string) []string {
	t.Helper()
	h, err := k.History(native)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func forget(t testing.TB, k *fake.Runtime, native string) {
	t.Helper()
	if err := k.Lose(native); err != nil {
		t.Fatal(err)
	}
}

// wantKept checks that the session of a thread has what the thread's context holds.
func (b *bench) wantKept(t testing.TB, k *fake.Runtime, id transcript.ThreadID) {
	t.Helper()
	native := b.native(id)
	if diff := cmp.Diff(fake.Told(b.entries(id)), history(t, k, native)); diff != "" {
		t.Fatalf("session %q of %s (-context +history):\n%s", native, id, diff)
	}
}

// filled has turns that are worth compacting.
func (b *bench) filled(id transcript.ThreadID, turns int) {
	for i := range turns {
		b.said(id, fmt.Sprintf("part %d: %s", i, strings.Repeat("words of the work. ", 120)))
	}
}
