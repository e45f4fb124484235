package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
)

func seqAndPos(t *testing.T, f *fixture) {
	f.add("a", 0, "1", "2")
	f.add("b", 0, "3")
	f.add("a", 2, "4")
	f.same("thread a", brief(f.read("a", 0)), []string{`a/1="1"`, `a/2="2"`, `a/3="4"`})
	f.same("thread b", brief(f.read("b", 0)), []string{`b/1="3"`})
	all := f.readAll(0)
	f.same("all threads", brief(all), []string{`a/1="1"`, `a/2="2"`, `b/1="3"`, `a/3="4"`})
	for i := 1; i < len(all); i++ {
		if all[i].Pos <= all[i-1].Pos {
			t.Fatalf("pos %d follows %d", all[i].Pos, all[i-1].Pos)
		}
	}
	f.same("an event read both ways", f.read("b", 0)[0], all[2])
	f.same("an event", all[2], events.Event{Seq: 1, Pos: all[2].Pos, Thread: "b", Type: "test/3", At: at, Data: data("3")})
}

func fillsIn(t *testing.T, f *fixture) {
	f.add("other", 0, "x")
	evs := []events.Event{{Type: "t", Data: data("1")}, {Type: "t", Data: data("2"), At: at.Add(123 * time.Microsecond).Local()}}
	before := time.Now().Add(-time.Millisecond)
	f.append(events.Append{Thread: "a", Events: evs})
	f.same("what was filled in", evs, f.read("a", 0))
	if evs[0].At.Before(before) || evs[0].At.After(time.Now()) {
		t.Fatalf("at is %v", evs[0].At)
	}
	f.same("time in milliseconds and UTC", evs[1].At, at)
}

func payloads(t *testing.T, f *fixture) {
	texts := []string{
		"", "line\nline\r\n", "sep\u2028\u2029", "nul\x00nul", "quote\"\\'", "\ud7ff\ufffd", "\U0001F600 你好",
		"\x7f\x1f\x1b[0m", "'; drop table event; --", strings.Repeat("long ", 200_000),
	}
	for i, s := range texts {
		f.append(events.Append{Thread: "a", Expect: int64(i), Events: []events.Event{{Type: "t", At: at, Data: data(s)}}})
	}
	raw := json.RawMessage(" {\"b\": 1e400, \"a\":\t\"\\u0000\\ud800\", \"a\":12345678901234567890}")
	f.append(events.Append{Thread: "a", Expect: int64(len(texts)), Events: []events.Event{{Type: "ty\x00pe\n", At: at, Data: raw}}})
	f.reopen()
	got := f.read("a", 0)
	for i, s := range texts {
		var back string
		f.ok(json.Unmarshal(got[i].Data, &back))
		if back != s {
			t.Errorf("text %d changed: %.80q is now %.80q", i, s, back)
		}
	}
	f.same("raw bytes", string(got[len(texts)].Data), string(raw))
	f.same("type", got[len(texts)].Type, "ty\x00pe\n")
	f.append(events.Append{Thread: "na\x00me'\"\u2028", Events: eventsOf("1")})
	f.same("a strange thread id", brief(f.read("na\x00me'\"\u2028", 0)), []string{"na\x00me'\"\u2028/1=\"1\""})
}

func malformed(t *testing.T, f *fixture) {
	f.add("a", 0, "1")
	good := event("x")
	for name, a := range map[string]events.Append{
		"no thread":          {Events: []events.Event{good}},
		"no events":          {Thread: "a", Expect: 1},
		"negative expect":    {Thread: "a", Expect: -1, Events: []events.Event{good}},
		"no type":            {Thread: "a", Expect: 1, Events: []events.Event{good, {Data: data("x")}}},
		"no data":            {Thread: "a", Expect: 1, Events: []events.Event{good, {Type: "t"}}},
		"data is not JSON":   {Thread: "a", Expect: 1, Events: []events.Event{good, {Type: "t", Data: []byte("{")}}},
		"raw newline":        {Thread: "a", Expect: 1, Events: []events.Event{good, {Type: "t", Data: []byte("\"a\nb\"")}}},
		"info is not JSON":   {Thread: "a", Expect: 1, Events: []events.Event{good}, Info: []byte("nope")},
		"wrong hash":         {Thread: "a", Expect: 1, Events: []events.Event{good}, Blobs: []events.Blob{{Hash: events.BlobHash(nil), Data: []byte("x")}}},
		"hash is not one":    {Thread: "a", Expect: 1, Events: []events.Event{good}, Blobs: []events.Blob{{Hash: "zz"}}},
		"deletion with blob": {Thread: "a", Expect: 1, Events: []events.Event{good}, Delete: true, Blobs: []events.Blob{blob("x")}},
	} {
		if _, err := f.j.Append(f.ctx(), a); !errors.Is(err, events.ErrInvalid) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	f.same("events", brief(f.readAll(0)), []string{`a/1="1"`})
}

func conflict(t *testing.T, f *fixture) {
	f.add("a", 0, "1", "2")
	f.ok(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i", Text: "text"}))
	before := f.info("a")
	for _, expect := range []int64{0, 1, 3, 1 << 40} {
		_, err := f.j.Append(f.ctx(), events.Append{
			Thread: "a", Expect: expect, Events: eventsOf("x"),
			Info: data("x"), Blobs: []events.Blob{blob("lost")}, Closed: []string{"i"},
		})
		f.fails(err, events.ErrConflict)
	}
	_, err := f.j.Append(f.ctx(), events.Append{Thread: "new", Expect: 1, Events: eventsOf("x")})
	f.fails(err, events.ErrConflict)
	_, err = f.j.Info(f.ctx(), "new")
	f.fails(err, events.ErrNotFound)
	f.same("info", f.info("a"), before)
	f.same("open texts", f.open("a"), []events.OpenText{{Item: "i", Text: "text"}})
	_, err = f.j.Blob(f.ctx(), blob("lost").Hash)
	f.fails(err, events.ErrNotFound)
	f.add("a", 2, "3")
	f.same("events", brief(f.readAll(0)), []string{`a/1="1"`, `a/2="2"`, `a/3="3"`})
}

func cancelled(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx())
	cancel()
	_, err := f.j.Append(ctx, events.Append{Thread: "a", Events: eventsOf("x")})
	f.fails(err, context.Canceled)
	_, err = f.j.Info(f.ctx(), "a")
	f.fails(err, events.ErrNotFound)
}

func infos(t *testing.T, f *fixture) {
	f.append(events.Append{Thread: "a", Events: eventsOf("1")})
	first := f.info("a")
	f.same("info of a new thread", first, events.ThreadInfo{
		Thread: "a", JournalID: first.JournalID, Head: 1,
		HeadPos: f.readAll(0)[0].Pos, Oldest: 1, UpdatedAt: at,
	})
	later := event("2")
	later.At = at.Add(time.Hour)
	f.append(events.Append{Thread: "a", Expect: 1, Events: []events.Event{later}, Info: json.RawMessage(`{"x":1}`)})
	f.add("a", 2, "3")
	f.reopen()
	got := f.info("a")
	f.same("info", got, events.ThreadInfo{
		Thread: "a", JournalID: first.JournalID, Head: 3,
		HeadPos: f.readAll(0)[2].Pos, Oldest: 1, UpdatedAt: at, Info: json.RawMessage(`{"x":1}`),
	})
	f.append(events.Append{Thread: "a", Expect: 3, Events: eventsOf("4"), Info: json.RawMessage(`null`)})
	f.same("info", string(f.info("a").Info), "null")
	f.append(events.Append{Thread: "b", Events: eventsOf("1"), Info: json.RawMessage(`"b"`)})
	f.same("info of another", string(f.info("b").Info), `"b"`)
	for _, id := range []string{f.j.ID(), first.JournalID, f.info("b").JournalID} {
		_, err := events.ParseCursor(events.Cursor{Journal: id, N: 1}.String())
		f.ok(err)
	}
	if first.JournalID == f.info("b").JournalID {
		t.Fatal("two threads share a journal id")
	}
}

func producers(t *testing.T, f *fixture) {
	const n, each = 20, 25
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for p := range n {
		wg.Go(func() {
			var err error
			for i := range int64(each) {
				_, e := f.j.Append(f.ctx(), events.Append{
					Thread: fmt.Sprint("t", p), Expect: i,
					Events: eventsOf(fmt.Sprint(i)), Info: data(fmt.Sprint(i)),
				})
				err = errors.Join(err, e)
			}
			errs <- err
		})
	}
	wg.Wait()
	for range n {
		f.ok(<-errs)
	}
	all := f.readAll(0)
	if len(all) != n*each {
		t.Fatalf("%d events, want %d", len(all), n*each)
	}
	next := map[string]int64{}
	for i, e := range all {
		if next[e.Thread]++; e.Seq != next[e.Thread] {
			t.Fatalf("%s: seq %d at place %d", e.Thread, e.Seq, next[e.Thread])
		}
		if i > 0 && e.Pos <= all[i-1].Pos {
			t.Fatalf("pos %d follows %d", e.Pos, all[i-1].Pos)
		}
	}
	for p := range n {
		f.same("info", string(f.info(fmt.Sprint("t", p)).Info), string(data(fmt.Sprint(each-1))))
	}
}

// race has many writers try the same place: one gets it each time, and those
// who share a transaction with a loser are not taken down.
func race(t *testing.T, f *fixture) {
	const n, rounds = 8, 20
	for round := range int64(rounds) {
		var wg sync.WaitGroup
		errs := make(chan error, n)
		for w := range n {
			wg.Go(func() {
				_, err := f.j.Append(f.ctx(), events.Append{Thread: "a", Expect: round, Events: eventsOf(fmt.Sprint(w))})
				errs <- err
			})
		}
		wg.Wait()
		won := 0
		for range n {
			switch err := <-errs; {
			case err == nil:
				won++
			case !errors.Is(err, events.ErrConflict):
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d won", round, won)
		}
	}
	if got := f.info("a").Head; got != rounds {
		t.Fatalf("head %d, want %d", got, rounds)
	}
}

func closed(t *testing.T, f *fixture) {
	f.add("a", 0, "1")
	f.ok(f.j.Close())
	f.ok(f.j.Close())
	_, err := f.j.Append(f.ctx(), events.Append{Thread: "a", Expect: 1, Events: eventsOf("x")})
	f.fails(err, events.ErrClosed)
	_, err = f.j.Read(f.ctx(), "a", 0, 1)
	f.fails(err, events.ErrClosed)
	f.fails(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i"}), events.ErrClosed)
	_, err = f.j.List(f.ctx(), events.ListQuery{})
	f.fails(err, events.ErrClosed)
}
