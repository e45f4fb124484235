package journaltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/events"
)

// A modelThread is all that the contract says about a thread.
type modelThread struct {
	head, headPos, oldest, snapshot int64
	deleted                         bool
	info                            string
	events                          []string // kept, as "seq=data"
	open                            map[string]string
	blobs                           map[string]bool
}

// A machine runs the same random steps on a journal and on the model.
type machine struct {
	t       *testing.T
	b       Backend
	j       events.Journal
	threads map[string]*modelThread
	pos     int64
	trimmed int64
	all     []string // kept, as "thread/seq", by pos
	allPos  []int64
	n       int
}

func matchesModel(t *testing.T, b Backend) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{t: t, b: b, j: b.Open(t), threads: map[string]*modelThread{}}
		defer func() {
			if err := m.j.Close(); err != nil {
				rt.Fatal(err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.append, "delete": m.delete, "putOpen": m.putOpen, "snapshot": m.putSnapshot,
			"trim": m.trim, "readAll": m.readAll, "reopen": func(*rapid.T) { m.j = m.b.Reopen(m.t, m.j) },
			"": m.check,
		})
	})
}

var ctx = context.Background()

func drawThread(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "thread")
}

func drawItem(rt *rapid.T) string { return rapid.SampledFrom([]string{"i", "j"}).Draw(rt, "item") }

func (m *machine) append(rt *rapid.T) { m.write(rt, false) }
func (m *machine) delete(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "seldom") == 0 {
		m.write(rt, true)
	}
}

func (m *machine) write(rt *rapid.T, del bool) {
	name := drawThread(rt)
	t := m.threads[name]
	head := int64(0)
	if t != nil {
		head = t.head
	}
	a := events.Append{Thread: name, Expect: head + rapid.SampledFrom([]int64{0, 0, 0, 0, 1, -1}).Draw(rt, "off"), Delete: del}
	a.Expect = max(a.Expect, 0)
	for range rapid.IntRange(1, 4).Draw(rt, "events") {
		m.n++
		a.Events = append(a.Events, event(fmt.Sprint(m.n)))
	}
	if rapid.Bool().Draw(rt, "info") {
		a.Info = data(fmt.Sprint("info", m.n))
	}
	if !del {
		for _, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2).Draw(rt, "blobs") {
			a.Blobs = append(a.Blobs, blob(s))
		}
		a.Closed = rapid.SliceOfN(rapid.SampledFrom([]string{"i", "j"}), 0, 2).Draw(rt, "closed")
	}
	_, err := m.j.Append(ctx, a)
	if a.Expect != head || t != nil && t.deleted {
		if !errors.Is(err, events.ErrConflict) {
			rt.Fatalf("append after %d at %d: %v", a.Expect, head, err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	m.apply(a)
}

// apply does to the model what a successful append does.
func (m *machine) apply(a events.Append) {
	t := m.threads[a.Thread]
	if t == nil {
		t = &modelThread{oldest: 1, open: map[string]string{}, blobs: map[string]bool{}}
		m.threads[a.Thread] = t
	}
	if a.Delete {
		*t = modelThread{head: t.head, deleted: true, open: map[string]string{}, blobs: map[string]bool{}}
		t.oldest = t.head + int64(len(a.Events))
		m.forget(a.Thread, t.oldest)
	}
	for i, e := range a.Events {
		t.head++
		m.pos = e.Pos
		if a.Delete && i < len(a.Events)-1 {
			continue
		}
		t.events = append(t.events, fmt.Sprintf("%d=%s", t.head, e.Data))
		m.all, m.allPos = append(m.all, fmt.Sprintf("%s/%d", a.Thread, t.head)), append(m.allPos, e.Pos)
	}
	t.headPos = m.pos
	if a.Info != nil {
		t.info = string(a.Info)
	}
	for _, b := range a.Blobs {
		t.blobs[b.Hash] = true
	}
	for _, item := range a.Closed {
		delete(t.open, item)
	}
}

// forget removes the events of a thread before seq from the order of all, and
// returns the newest position among them.
func (m *machine) forget(thread string, seq int64) (newest int64) {
	all, allPos := m.all, m.allPos
	m.all, m.allPos = nil, nil
	for i, id := range all {
		var n int64
		if _, err := fmt.Sscanf(id, thread+"/%d", &n); err == nil && n < seq {
			newest = allPos[i]
			continue
		}
		m.all, m.allPos = append(m.all, id), append(m.allPos, allPos[i])
	}
	return newest
}

func (m *machine) putOpen(rt *rapid.T) {
	name, item := drawThread(rt), drawItem(rt)
	m.n++
	text := fmt.Sprint("text", m.n)
	err := m.j.PutOpen(ctx, name, events.OpenText{Item: item, Text: text})
	if m.gone(rt, name, err) {
		return
	}
	m.threads[name].open[item] = text
}

// gone reports whether a thread cannot keep anything, and that err says so.
func (m *machine) gone(rt *rapid.T, name string, err error) bool {
	t := m.threads[name]
	if t == nil || t.deleted {
		if !errors.Is(err, events.ErrNotFound) {
			rt.Fatalf("%s is gone, got %v", name, err)
		}
		return true
	}
	if err != nil {
		rt.Fatal(err)
	}
	return false
}

func (m *machine) putSnapshot(rt *rapid.T) {
	name := drawThread(rt)
	seq := int64(1)
	if t := m.threads[name]; t != nil {
		seq = rapid.Int64Range(1, t.head).Draw(rt, "seq")
	}
	err := m.j.PutSnapshot(ctx, name, events.Snapshot{Seq: seq, Data: []byte("s")})
	if !m.gone(rt, name, err) {
		m.threads[name].snapshot = max(m.threads[name].snapshot, seq)
	}
}

func (m *machine) trim(rt *rapid.T) {
	name := drawThread(rt)
	seq := rapid.Int64Range(0, 8).Draw(rt, "seq")
	err := m.j.Trim(ctx, name, seq)
	t := m.threads[name]
	if t != nil && !t.deleted && seq >= t.oldest && seq > t.snapshot {
		if !errors.Is(err, events.ErrNoSnapshot) {
			rt.Fatalf("trim to %d, snapshot at %d: %v", seq, t.snapshot, err)
		}
		return
	}
	if m.gone(rt, name, err) || seq < t.oldest {
		return
	}
	t.events = t.events[seq-t.oldest+1:]
	t.oldest = seq + 1
	m.trimmed = max(m.trimmed, m.forget(name, seq+1))
}

func (m *machine) readAll(rt *rapid.T) {
	after, limit := rapid.Int64Range(0, m.pos+2).Draw(rt, "after"), rapid.IntRange(0, 5).Draw(rt, "limit")
	evs, head, err := m.j.ReadAll(ctx, after, limit)
	var r *events.Reset
	switch {
	case after > m.pos:
		if !errors.As(err, &r) || r.Reason != events.ResetAhead {
			rt.Fatalf("after %d of %d: %v", after, m.pos, err)
		}
		return
	case after < m.trimmed:
		if !errors.As(err, &r) || *r != (events.Reset{Reason: events.ResetExpired, Oldest: m.trimmed}) {
			rt.Fatalf("after %d, trimmed to %d: %v", after, m.trimmed, err)
		}
		return
	case err != nil || head != m.pos:
		rt.Fatalf("head %d, want %d: %v", head, m.pos, err)
	}
	from, _ := slices.BinarySearch(m.allPos, after+1)
	want := m.all[from:]
	want = append([]string{}, want[:min(limit, len(want))]...)
	got := []string{}
	for _, e := range evs {
		got = append(got, fmt.Sprintf("%s/%d", e.Thread, e.Seq))
	}
	if d := cmp.Diff(want, got); d != "" {
		rt.Fatalf("all after %d (-want +got):\n%s", after, d)
	}
}

// check compares all that can be seen.
func (m *machine) check(rt *rapid.T) {
	var order []string
	for name, t := range m.threads {
		m.checkThread(rt, name, t)
		order = append(order, name)
	}
	slices.SortFunc(order, func(a, b string) int { return int(m.threads[b].headPos - m.threads[a].headPos) })
	list, err := m.j.List(ctx, events.ListQuery{IncludeDeleted: true})
	if d := cmp.Diff(append([]string{}, order...), names(list)); d != "" || err != nil {
		rt.Fatalf("list (-want +got): %v\n%s", err, d)
	}
	for _, s := range []string{"x", "y", "z"} {
		kept := false
		for _, t := range m.threads {
			kept = kept || t.blobs[blob(s).Hash]
		}
		if got, err := m.j.Blob(ctx, blob(s).Hash); kept && string(got) != s || !kept && !errors.Is(err, events.ErrNotFound) {
			rt.Fatalf("blob %s: %q, %v; kept: %v", s, got, err, kept)
		}
	}
}

func (m *machine) checkThread(rt *rapid.T, name string, t *modelThread) {
	info, err := m.j.Info(ctx, name)
	if err != nil {
		rt.Fatal(err)
	}
	want := events.ThreadInfo{
		Thread: name, JournalID: info.JournalID, Head: t.head, HeadPos: t.headPos, Oldest: t.oldest,
		UpdatedAt: at, Deleted: t.deleted,
	}
	if t.info != "" {
		want.Info = []byte(t.info)
	}
	if d := cmp.Diff(want, info); d != "" {
		rt.Fatalf("info (-want +got):\n%s", d)
	}
	evs, err := m.j.Read(ctx, name, t.oldest-1, 1000)
	if err != nil {
		rt.Fatal(err)
	}
	got := []string{}
	for _, e := range evs {
		got = append(got, fmt.Sprintf("%d=%s", e.Seq, e.Data))
	}
	if d := cmp.Diff(append([]string{}, t.events...), got); d != "" {
		rt.Fatalf("events of %s (-want +got):\n%s", name, d)
	}
	open, err := m.j.Open(ctx, name)
	if err != nil {
		rt.Fatal(err)
	}
	texts := map[string]string{}
	for _, o := range open {
		texts[o.Item] = o.Text
	}
	if !maps.Equal(texts, t.open) || len(texts) != len(open) {
		rt.Fatalf("open texts of %s: %v, want %v", name, open, t.open)
	}
}
