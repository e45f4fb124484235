// Package journaltest is the suite that every events.Journal passes. What a
// Journal promises is fixed here, not in the tests of one implementation.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/events"
)

// A Backend is what the suite must know of an implementation.
type Backend struct {
	// Open makes an empty journal; the suite closes it.
	Open func(t *testing.T) events.Journal
	// Reopen closes j and opens what it stored.
	Reopen func(t *testing.T, j events.Journal) events.Journal
}

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"SeqIsDensePerThreadAndPosOrdersThreads", seqAndPos},
		{"AppendFillsInWhatItAssigned", fillsIn},
		{"PayloadsComeBackByteForByte", payloads},
		{"MalformedAppendsAreRefusedWhole", malformed},
		{"ConflictChangesNothing", conflict},
		{"CancelledBeforeIsNotAppended", cancelled},
		{"CursorsThatCannotBeServedAreReset", resets},
		{"ReadsPage", readsPage},
		{"ListPagesByNewestChange", listPages},
		{"InfoIsOfTheNewestAppendThatHadOne", infos},
		{"OpenTextsEndWithTheirCommit", openTexts},
		{"BlobsAreStoredOnceAndChecked", blobs},
		{"SnapshotsOnlyMoveForward", snapshots},
		{"TrimStopsAtTheSnapshot", trim},
		{"TrimExpiresCursorsOfAllThreads", trimAll},
		{"DeleteLeavesOneEvent", deletes},
		{"DeleteKeepsBlobsOfOthers", deleteBlobs},
		{"SearchFindsWordsOfOneThread", search},
		{"SearchAcceptsAnyQuery", hostileSearch},
		{"IndexReplacesAndMovesItsCursor", index},
		{"EverythingSurvivesReopening", reopening},
		{"PositionsAreNotReusedAfterReopening", noReuse},
		{"ProducersGetDenseSeqsAndOneOrder", producers},
		{"OneOfManyWins", race},
		{"ClosedJournalsSaySo", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newFixture(t, b))
		})
	}
	t.Run("MatchesModel", func(t *testing.T) {
		t.Parallel()
		matchesModel(t, b)
	})
}

// A fixture is one journal under test.
type fixture struct {
	t *testing.T
	b Backend
	j events.Journal
}

func newFixture(t *testing.T, b Backend) *fixture {
	f := &fixture{t, b, b.Open(t)}
	t.Cleanup(func() { f.ok(f.j.Close()) })
	return f
}

func (f *fixture) ctx() context.Context { return f.t.Context() }

func (f *fixture) reopen() { f.j = f.b.Reopen(f.t, f.j) }

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) fails(err, want error) {
	f.t.Helper()
	if !errors.Is(err, want) {
		f.t.Fatalf("got error %v, want %v", err, want)
	}
}

func (f *fixture) resets(err error, want events.Reset) {
	f.t.Helper()
	var r *events.Reset
	if !errors.As(err, &r) || *r != want {
		f.t.Fatalf("got error %v, want reset %+v", err, want)
	}
}

func (f *fixture) same(what string, got, want any) {
	f.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		f.t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func data(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

// at is the time that the events of the suite carry.
var at = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)

func event(text string) events.Event {
	return events.Event{Type: "test/" + text[:1], At: at, Data: data(text)}
}

// add appends one event per text and returns the new head.
func (f *fixture) add(thread string, expect int64, texts ...string) int64 {
	f.t.Helper()
	return f.append(events.Append{Thread: thread, Expect: expect, Events: eventsOf(texts...)})
}

func eventsOf(texts ...string) []events.Event {
	var evs []events.Event
	for _, s := range texts {
		evs = append(evs, event(s))
	}
	return evs
}

func (f *fixture) append(a events.Append) int64 {
	f.t.Helper()
	head, err := f.j.Append(f.ctx(), a)
	f.ok(err)
	if want := a.Expect + int64(len(a.Events)); head != want {
		f.t.Fatalf("append to %s: head %d, want %d", a.Thread, head, want)
	}
	return head
}

func (f *fixture) info(thread string) events.ThreadInfo {
	f.t.Helper()
	info, err := f.j.Info(f.ctx(), thread)
	f.ok(err)
	return info
}

func (f *fixture) read(thread string, after int64) []events.Event {
	f.t.Helper()
	evs, err := f.j.Read(f.ctx(), thread, after, 1<<20)
	f.ok(err)
	return evs
}

func (f *fixture) readAll(after int64) []events.Event {
	f.t.Helper()
	evs, _, err := f.j.ReadAll(f.ctx(), after, 1<<20)
	f.ok(err)
	return evs
}

// brief names events as "thread/seq=data".
func brief(evs []events.Event) []string {
	out := []string{}
	for _, e := range evs {
		out = append(out, fmt.Sprintf("%s/%d=%s", e.Thread, e.Seq, e.Data))
	}
	return out
}

func names(list []events.ThreadInfo) []string {
	out := []string{}
	for _, info := range list {
		out = append(out, info.Thread)
	}
	return out
}
