package journaltest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
)

func blob(s string) events.Blob {
	return events.Blob{Hash: events.BlobHash([]byte(s)), Data: []byte(s)}
}

// open returns the open texts of a thread by item.
func (f *fixture) open(thread string) []events.OpenText {
	f.t.Helper()
	open, err := f.j.Open(f.ctx(), thread)
	f.ok(err)
	slices.SortFunc(open, func(a, b events.OpenText) int { return cmp.Compare(a.Item, b.Item) })
	return open
}

func openTexts(t *testing.T, f *fixture) {
	f.fails(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i"}), events.ErrNotFound)
	f.add("a", 0, "1")
	f.add("b", 0, "1")
	f.same("none", f.open("a"), []events.OpenText{})
	f.ok(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i", Text: "he"}))
	f.ok(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "j", Text: "\u2028\x00you"}))
	f.ok(f.j.PutOpen(f.ctx(), "b", events.OpenText{Item: "i", Text: "other"}))
	f.ok(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i", Text: "hello"}))
	f.same("two", f.open("a"), []events.OpenText{{Item: "i", Text: "hello"}, {Item: "j", Text: "\u2028\x00you"}})
	f.append(events.Append{Thread: "a", Expect: 1, Events: eventsOf("2"), Closed: []string{"i", "unknown"}})
	f.same("one", f.open("a"), []events.OpenText{{Item: "j", Text: "\u2028\x00you"}})
	f.same("of another thread", f.open("b"), []events.OpenText{{Item: "i", Text: "other"}})
	f.same("of no thread", f.open("nobody"), []events.OpenText{})
}

func blobs(t *testing.T, f *fixture) {
	_, err := f.j.Blob(f.ctx(), blob("x").Hash)
	f.fails(err, events.ErrNotFound)
	_, err = f.j.Blob(f.ctx(), "not a hash")
	f.fails(err, events.ErrNotFound)
	f.append(events.Append{Thread: "a", Events: eventsOf("1"), Blobs: []events.Blob{blob("x"), blob("y"), blob("x"), blob("")}})
	f.append(events.Append{Thread: "b", Events: eventsOf("1"), Blobs: []events.Blob{blob("x"), {Hash: blob("y").Hash}}})
	for _, want := range []string{"x", "y", ""} {
		got, err := f.j.Blob(f.ctx(), blob(want).Hash)
		f.ok(err)
		f.same("blob", string(got), want)
	}
	_, err = f.j.Append(f.ctx(), events.Append{
		Thread: "a", Expect: 1, Events: eventsOf("2"),
		Blobs: []events.Blob{blob("new"), {Hash: blob("nowhere").Hash}},
	})
	f.fails(err, events.ErrNotFound)
	_, err = f.j.Blob(f.ctx(), blob("new").Hash)
	f.fails(err, events.ErrNotFound)
	f.same("head", f.info("a").Head, int64(1))
}

func snapshots(t *testing.T, f *fixture) {
	s := events.Snapshot{Seq: 1, Version: 2, Data: []byte("one")}
	f.fails(f.j.PutSnapshot(f.ctx(), "a", s), events.ErrNotFound)
	f.add("a", 0, "1", "2")
	_, err := f.j.Snapshot(f.ctx(), "a")
	f.fails(err, events.ErrNotFound)
	f.fails(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 3, Data: []byte("x")}), events.ErrInvalid)
	f.fails(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Data: []byte("x")}), events.ErrInvalid)
	for _, step := range []struct{ put, want events.Snapshot }{
		{s, s},
		{events.Snapshot{Seq: 2, Version: 2, Data: []byte("two")}, events.Snapshot{Seq: 2, Version: 2, Data: []byte("two")}},
		{s, events.Snapshot{Seq: 2, Version: 2, Data: []byte("two")}},
		{events.Snapshot{Seq: 2, Version: 3, Data: []byte{}}, events.Snapshot{Seq: 2, Version: 3, Data: []byte{}}},
	} {
		f.ok(f.j.PutSnapshot(f.ctx(), "a", step.put))
		got, err := f.j.Snapshot(f.ctx(), "a")
		f.ok(err)
		f.same("snapshot", got, step.want)
	}
}

func trim(t *testing.T, f *fixture) {
	f.fails(f.j.Trim(f.ctx(), "a", 1), events.ErrNotFound)
	f.add("a", 0, "1", "2", "3", "4")
	f.fails(f.j.Trim(f.ctx(), "a", 1), events.ErrNoSnapshot)
	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 3, Data: []byte("s")}))
	f.fails(f.j.Trim(f.ctx(), "a", 4), events.ErrNoSnapshot)
	f.fails(f.j.Trim(f.ctx(), "a", 1<<40), events.ErrNoSnapshot)
	f.same("untouched", len(f.read("a", 0)), 4)
	f.ok(f.j.Trim(f.ctx(), "a", 0))
	f.ok(f.j.Trim(f.ctx(), "a", 2))
	f.ok(f.j.Trim(f.ctx(), "a", 1))
	f.same("kept", brief(f.read("a", 2)), []string{`a/3="3"`, `a/4="4"`})
	f.same("oldest", f.info("a").Oldest, int64(3))
	f.ok(f.j.Trim(f.ctx(), "a", 3))
	f.same("kept", brief(f.read("a", 3)), []string{`a/4="4"`})
	f.add("a", 4, "5")
	f.same("goes on", brief(f.read("a", 3)), []string{`a/4="4"`, `a/5="5"`})
}

func trimAll(t *testing.T, f *fixture) {
	f.add("a", 0, "1")
	f.add("b", 0, "1", "2")
	f.add("a", 1, "2")
	all := f.readAll(0)
	f.ok(f.j.PutSnapshot(f.ctx(), "b", events.Snapshot{Seq: 2, Data: []byte("s")}))
	f.ok(f.j.Trim(f.ctx(), "b", 2))
	cut := all[2].Pos
	for _, after := range []int64{0, all[0].Pos, all[1].Pos} {
		_, _, err := f.j.ReadAll(f.ctx(), after, 10)
		f.resets(err, events.Reset{Reason: events.ResetExpired, Oldest: cut})
	}
	f.same("from the reset on", brief(f.readAll(cut)), []string{`a/2="2"`})
	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 1, Data: []byte("s")}))
	f.ok(f.j.Trim(f.ctx(), "a", 1))
	_, _, err := f.j.ReadAll(f.ctx(), 0, 10)
	f.resets(err, events.Reset{Reason: events.ResetExpired, Oldest: cut})
	f.same("an older trim moves nothing", brief(f.readAll(cut)), []string{`a/2="2"`})
}

func deletes(t *testing.T, f *fixture) {
	f.append(events.Append{Thread: "a", Events: eventsOf("1", "2"), Info: data("secret"), Blobs: []events.Blob{blob("b")}})
	f.add("b", 0, "1")
	f.ok(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i", Text: "text"}))
	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 2, Data: []byte("s")}))
	f.ok(f.j.Index(f.ctx(), "a", 2, []events.Doc{{Ref: "r", Text: "needle"}}))
	f.append(events.Append{Thread: "a", Expect: 2, Events: eventsOf("3", "4"), Delete: true})

	info := f.info("a")
	f.same("info", info, events.ThreadInfo{
		Thread: "a", JournalID: info.JournalID, Head: 4, HeadPos: f.readAll(0)[1].Pos,
		Oldest: 4, UpdatedAt: at, Deleted: true,
	})
	f.same("all threads", brief(f.readAll(0)), []string{`b/1="1"`, `a/4="4"`})
	for after := range int64(4) {
		f.same("reads as its deletion", brief(f.read("a", after)), []string{`a/4="4"`})
	}
	f.same("at its head", brief(f.read("a", 4)), []string{})
	_, err := f.j.Read(f.ctx(), "a", 5, 1)
	f.resets(err, events.Reset{Reason: events.ResetAhead, Oldest: 3})
	for _, expect := range []int64{0, 4} {
		_, err = f.j.Append(f.ctx(), events.Append{Thread: "a", Expect: expect, Events: eventsOf("x")})
		f.fails(err, events.ErrConflict)
	}
	f.same("open texts", f.open("a"), []events.OpenText{})
	_, err = f.j.Snapshot(f.ctx(), "a")
	f.fails(err, events.ErrNotFound)
	_, err = f.j.Blob(f.ctx(), blob("b").Hash)
	f.fails(err, events.ErrNotFound)
	f.same("search", f.found("a", "needle"), []string{})
	f.fails(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i"}), events.ErrNotFound)
	f.fails(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 4, Data: []byte("s")}), events.ErrNotFound)
	f.fails(f.j.Trim(f.ctx(), "a", 4), events.ErrNotFound)
	f.fails(f.j.Index(f.ctx(), "a", 4, nil), events.ErrNotFound)
	f.append(events.Append{Thread: "b", Expect: 1, Events: eventsOf("2"), Delete: true, Info: data("tombstone")})
	f.same("info of the deletion", string(f.info("b").Info), `"tombstone"`)
	f.append(events.Append{Thread: "c", Events: eventsOf("1"), Delete: true})
	f.same("deleted at birth", f.info("c").Deleted, true)
}

func deleteBlobs(t *testing.T, f *fixture) {
	f.append(events.Append{Thread: "a", Events: eventsOf("1"), Blobs: []events.Blob{blob("own"), blob("shared")}})
	f.append(events.Append{Thread: "fork", Events: eventsOf("1"), Blobs: []events.Blob{{Hash: blob("shared").Hash}}})
	f.append(events.Append{Thread: "a", Expect: 1, Events: eventsOf("2"), Delete: true})
	_, err := f.j.Blob(f.ctx(), blob("own").Hash)
	f.fails(err, events.ErrNotFound)
	got, err := f.j.Blob(f.ctx(), blob("shared").Hash)
	f.ok(err)
	f.same("shared blob", string(got), "shared")
	f.append(events.Append{Thread: "fork", Expect: 1, Events: eventsOf("2"), Delete: true})
	_, err = f.j.Blob(f.ctx(), blob("shared").Hash)
	f.fails(err, events.ErrNotFound)
}
