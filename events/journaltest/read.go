package journaltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
)

func resets(t *testing.T, f *fixture) {
	f.add("a", 0, "1", "2", "3")
	f.add("b", 0, "1")
	head := f.info("b").HeadPos
	_, err := f.j.Read(f.ctx(), "a", 4, 10)
	f.resets(err, events.Reset{Reason: events.ResetAhead})
	_, _, err = f.j.ReadAll(f.ctx(), head+1, 10)
	f.resets(err, events.Reset{Reason: events.ResetAhead})
	_, err = f.j.Read(f.ctx(), "nobody", 0, 10)
	f.fails(err, events.ErrNotFound)
	f.same("at the head", brief(f.read("a", 3)), []string{})
	f.same("at the head of all", brief(f.readAll(head)), []string{})

	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 2, Data: []byte("s")}))
	f.ok(f.j.Trim(f.ctx(), "a", 2))
	for _, after := range []int64{0, 1} {
		_, err = f.j.Read(f.ctx(), "a", after, 10)
		f.resets(err, events.Reset{Reason: events.ResetExpired, Oldest: 2})
	}
	_, err = f.j.Read(f.ctx(), "a", 4, 10)
	f.resets(err, events.Reset{Reason: events.ResetAhead, Oldest: 2})
	f.same("from the reset on", brief(f.read("a", 2)), []string{`a/3="3"`})
}

func readsPage(t *testing.T, f *fixture) {
	for i := range int64(10) {
		f.add("a", i, fmt.Sprint(i))
		f.add("b", i, fmt.Sprint(i))
	}
	var got []events.Event
	for after := int64(0); ; {
		evs, err := f.j.Read(f.ctx(), "a", after, 3)
		f.ok(err)
		if len(evs) == 0 {
			break
		}
		if len(evs) > 3 {
			t.Fatalf("%d events on a page of 3", len(evs))
		}
		got, after = append(got, evs...), evs[len(evs)-1].Seq
	}
	f.same("pages of a thread", got, f.read("a", 0))
	got = nil
	for after := int64(0); ; {
		evs, head, err := f.j.ReadAll(f.ctx(), after, 7)
		f.ok(err)
		f.same("head", head, f.info("b").HeadPos)
		if len(evs) == 0 {
			break
		}
		got, after = append(got, evs...), evs[len(evs)-1].Pos
	}
	f.same("pages of all threads", got, f.readAll(0))
	evs, head, err := f.j.ReadAll(f.ctx(), 0, 0)
	f.ok(err)
	if len(evs) != 0 || head != f.info("b").HeadPos {
		t.Fatalf("asked for nothing, got %d events and head %d", len(evs), head)
	}
}

func listPages(t *testing.T, f *fixture) {
	for i := range 25 {
		f.add(fmt.Sprintf("t%02d", i), 0, "1")
	}
	f.add("t03", 1, "2")
	f.append(events.Append{Thread: "t20", Expect: 1, Events: eventsOf("2"), Delete: true})
	f.add("t11", 1, "2")
	want := []string{"t11", "t03"}
	for i := 24; i >= 0; i-- {
		if i != 3 && i != 11 && i != 20 {
			want = append(want, fmt.Sprintf("t%02d", i))
		}
	}
	f.same("by newest change", f.listed(events.ListQuery{Limit: 7}), want)
	f.same("with the deleted", f.listed(events.ListQuery{Limit: 7, IncludeDeleted: true}), slices.Insert(slices.Clone(want), 1, "t20"))
	all, err := f.j.List(f.ctx(), events.ListQuery{})
	f.ok(err)
	f.same("one page", names(all), want)
	for _, info := range all {
		f.same("listed info", info, f.info(info.Thread))
	}
	for i := range 100 {
		f.add(fmt.Sprint("more", i), 0, "1")
	}
	all, err = f.j.List(f.ctx(), events.ListQuery{})
	f.ok(err)
	f.same("limit by default", len(all), 100)
}

// listed pages through a list.
func (f *fixture) listed(q events.ListQuery) []string {
	f.t.Helper()
	var got []string
	for {
		page, err := f.j.List(f.ctx(), q)
		f.ok(err)
		if len(page) > q.Limit {
			f.t.Fatalf("%d threads on a page of %d", len(page), q.Limit)
		}
		if len(page) == 0 {
			return got
		}
		got, q.BeforePos = append(got, names(page)...), page[len(page)-1].HeadPos
	}
}

func reopening(t *testing.T, f *fixture) {
	f.append(events.Append{Thread: "a", Events: eventsOf("1", "2", "3"), Info: data("info"), Blobs: []events.Blob{blob("kept")}})
	f.add("b", 0, "1")
	f.append(events.Append{Thread: "b", Expect: 1, Events: eventsOf("2"), Delete: true})
	f.ok(f.j.PutOpen(f.ctx(), "a", events.OpenText{Item: "i", Text: "so far"}))
	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 2, Version: 7, Data: []byte("fold")}))
	f.ok(f.j.Trim(f.ctx(), "a", 1))
	f.ok(f.j.Index(f.ctx(), "a", 3, []events.Doc{{Ref: "r", Text: "needle"}}))
	id, infoA, infoB, all := f.j.ID(), f.info("a"), f.info("b"), brief(f.readAll(1))

	f.reopen()
	f.same("id", f.j.ID(), id)
	f.same("info of a", f.info("a"), infoA)
	f.same("info of b", f.info("b"), infoB)
	f.same("events", brief(f.readAll(1)), all)
	_, _, err := f.j.ReadAll(f.ctx(), 0, 1)
	f.resets(err, events.Reset{Reason: events.ResetExpired, Oldest: 1})
	f.same("open texts", f.open("a"), []events.OpenText{{Item: "i", Text: "so far"}})
	snap, err := f.j.Snapshot(f.ctx(), "a")
	f.ok(err)
	f.same("snapshot", snap, events.Snapshot{Seq: 2, Version: 7, Data: []byte("fold")})
	got, err := f.j.Blob(f.ctx(), blob("kept").Hash)
	f.ok(err)
	f.same("blob", string(got), "kept")
	upTo, err := f.j.IndexedTo(f.ctx(), "a")
	f.ok(err)
	f.same("index cursor", upTo, int64(3))
	f.same("search", f.found("a", "needle"), []string{"r"})
	f.add("a", 3, "4")
	_, err = f.j.Append(f.ctx(), events.Append{Thread: "b", Expect: 2, Events: eventsOf("x")})
	f.fails(err, events.ErrConflict)
}

// noReuse removes what has the newest position: an old cursor must not come to
// mean another event.
func noReuse(t *testing.T, f *fixture) {
	f.add("a", 0, "1", "2")
	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 2, Data: []byte("s")}))
	f.ok(f.j.Trim(f.ctx(), "a", 2))
	pos := f.info("a").HeadPos
	f.reopen()
	f.same("nothing is left", brief(f.readAll(pos)), []string{})
	f.add("b", 0, "1")
	if got := f.info("b").HeadPos; got <= pos {
		t.Fatalf("pos %d was given out before", got)
	}
	f.add("a", 2, "3")
	f.same("after trimming all", brief(f.read("a", 2)), []string{`a/3="3"`})
}
