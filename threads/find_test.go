package threads_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (b *bench) find(q threads.ThreadQuery) threads.ThreadPage {
	b.t.Helper()
	p, err := b.svc.FindThreads(b.t.Context(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// walk pages through a query and returns the ids.
func (b *bench) walk(q threads.ThreadQuery) []transcript.ThreadID {
	b.t.Helper()
	ids := []transcript.ThreadID{}
	for {
		p := b.find(q)
		for _, t := range p.Threads {
			ids = append(ids, t.ID)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return ids
		}
	}
}

func TestFindFilters(t *testing.T) {
	b := newBench(t)
	make := func(name, cwd, source string) transcript.ThreadID {
		r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Name: name, Settings: threads.Settings{Cwd: cwd}, Origin: threads.Origin{Source: source}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Thread.ID
	}
	harbour, dock := make("The Harbour", "/a", "user"), make("", "/b/", "user")
	title, plain := make("Title", "/a", "thread_title"), make("Plain", "/c", "")
	b.turn(dock, "Where does the FERRY dock?", "there")
	if err := b.svc.Archive(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    threads.ThreadQuery
		want []transcript.ThreadID
	}{
		"all":              {threads.ThreadQuery{}, []transcript.ThreadID{dock, title, harbour}},
		"archived":         {threads.ThreadQuery{Archived: true}, []transcript.ThreadID{plain}},
		"cwd":              {threads.ThreadQuery{Cwds: []string{"/b"}}, []transcript.ThreadID{dock}},
		"cwds":             {threads.ThreadQuery{Cwds: []string{"/a/", "/b"}}, []transcript.ThreadID{dock, title, harbour}},
		"source":           {threads.ThreadQuery{Sources: []string{"user"}}, []transcript.ThreadID{dock, harbour}},
		"provider":         {threads.ThreadQuery{Providers: []string{"other"}}, nil},
		"own provider":     {threads.ThreadQuery{Providers: []string{"other", "puppet"}}, []transcript.ThreadID{dock, title, harbour}},
		"name":             {threads.ThreadQuery{Search: "hARBOUR"}, []transcript.ThreadID{harbour}},
		"preview":          {threads.ThreadQuery{Search: "ferry"}, []transcript.ThreadID{dock}},
		"only":             {threads.ThreadQuery{Only: []transcript.ThreadID{harbour, plain, "nope"}}, []transcript.ThreadID{harbour}},
		"only none":        {threads.ThreadQuery{Only: []transcript.ThreadID{}}, nil},
		"except":           {threads.ThreadQuery{Except: []transcript.ThreadID{harbour, title}}, []transcript.ThreadID{dock}},
		"creation":         {threads.ThreadQuery{ByCreation: true, Ascending: true, Only: []transcript.ThreadID{dock, harbour}}, b.inCreationOrder(harbour, dock)},
		"change ascending": {threads.ThreadQuery{Ascending: true}, []transcript.ThreadID{harbour, title, dock}},
	} {
		if diff := cmp.Diff(append([]transcript.ThreadID{}, c.want...), b.walk(c.q)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	for _, c := range []struct {
		cursor     string
		byCreation bool
	}{{"zzz", false}, {"0", false}, {"-5", false}, {"1|x", false}, {"5", true}, {"5|", true}, {"|x", true}, {"@", false}} {
		_, err := b.svc.FindThreads(t.Context(), threads.ThreadQuery{PageQuery: threads.PageQuery{Cursor: c.cursor}, ByCreation: c.byCreation})
		if fault.CodeOf(err) != fault.Invalid || fault.MessageOf(err) != "invalid cursor: "+c.cursor {
			t.Errorf("cursor %q: %v", c.cursor, err)
		}
	}
}

// inCreationOrder sorts threads as a listing by creation does.
func (b *bench) inCreationOrder(ids ...transcript.ThreadID) []transcript.ThreadID {
	slices.SortFunc(ids, func(x, y transcript.ThreadID) int {
		return cmp2(b.read(x).CreatedAt.Compare(b.read(y).CreatedAt), strings.Compare(string(x), string(y)))
	})
	return ids
}

func cmp2(first, second int) int {
	if first != 0 {
		return first
	}
	return second
}

// Whatever happens between two listings, a listing is what a new server that
// reads everything would say, in every order and direction, over pages and back.
func TestListingIsAlwaysWhatTheJournalHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		var ids []transcript.ThreadID
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			step := rapid.IntRange(0, 7).Draw(rt, "step")
			if step < 3 || len(ids) == 0 {
				ids = append(ids, b.create())
				continue
			}
			id := rapid.SampledFrom(ids).Draw(rt, "thread")
			var err error
			switch step {
			case 3:
				err = b.svc.SetName(t.Context(), id, rapid.StringMatching("[a-c]{0,3}").Draw(rt, "name"))
			case 4:
				_, err = b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
			case 5:
				err = b.svc.DeleteThread(t.Context(), id)
				ids = slices.DeleteFunc(ids, func(other transcript.ThreadID) bool { return other == id })
			case 6:
				err = b.svc.Archive(t.Context(), id)
			default:
				b.find(threads.ThreadQuery{}) // so that the next one has something to build on
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		fresh := &bench{t: t, journal: b.journal, config: b.config}
		fresh.open()
		defer fresh.close()
		for _, q := range []threads.ThreadQuery{{}, {Ascending: true}, {ByCreation: true}, {ByCreation: true, Ascending: true}, {Archived: true}} {
			q.Limit = 1000
			want := fresh.find(q)
			if diff := cmp.Diff(want, b.find(q)); diff != "" {
				rt.Fatalf("query %+v (-new +this):\n%s", q, diff)
			}
			q.Limit = rapid.IntRange(1, 4).Draw(rt, "limit")
			b.checkPages(rt, q, want.Threads)
		}
	})
}

// checkPages walks a query and, from each page, one page back.
func (b *bench) checkPages(rt *rapid.T, q threads.ThreadQuery, want []threads.Thread) {
	for at := 0; ; {
		p := b.find(q)
		if n := min(q.Limit, len(want)-at); len(p.Threads) != n || (p.Next == "") != (at+n == len(want)) || (p.Back == "") != (n == 0) {
			rt.Fatalf("page at %d of %d has %d threads, next %q, back %q", at, len(want), len(p.Threads), p.Next, p.Back)
		}
		if diff := cmp.Diff(want[at:at+len(p.Threads)], p.Threads); diff != "" {
			rt.Fatalf("page at %d:\n%s", at, diff)
		}
		if p.Back != "" {
			back := q
			back.Cursor, back.Ascending, back.Limit = p.Back, !q.Ascending, at+1
			turned := b.find(back).Threads
			slices.Reverse(turned)
			if diff := cmp.Diff(want[:at+1], turned); diff != "" {
				rt.Fatalf("the way back from %d:\n%s", at, diff)
			}
		}
		if at += len(p.Threads); p.Next == "" {
			return
		}
		q.Cursor = p.Next
	}
}

func TestListingWhileThreadsChangeShowsEachExactlyOnce(t *testing.T) {
	b := newBench(t)
	still := map[transcript.ThreadID]bool{}
	for range 40 {
		still[b.create()] = true
	}
	busy := b.create()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := b.svc.SetName(t.Context(), busy, fmt.Sprint("name ", i)); err != nil {
				t.Errorf("name: %v", err)
				return
			}
			if _, err := b.svc.CreateThread(t.Context(), threads.CreateParams{}); err != nil {
				t.Errorf("create: %v", err)
				return
			}
			if i > 300 {
				return
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 10 {
				seen := map[transcript.ThreadID]int{}
				for _, id := range b.walk(threads.ThreadQuery{PageQuery: threads.PageQuery{Limit: 7}}) {
					seen[id]++
				}
				for id := range still {
					if seen[id] != 1 {
						t.Errorf("thread %s is listed %d times", id, seen[id])
					}
				}
			}
		})
	}
	b.walk(threads.ThreadQuery{})
	close(stop)
	wg.Wait()
}

// A thread that waits is listed as the journal has it, whether it is loaded or not.
func TestListedStatusIsAsJournaled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.create()
		ack := b.start(id, "go")
		r := b.request()
		if got := b.find(threads.ThreadQuery{}).Threads[0].Status; got != threads.StatusActive {
			t.Errorf("status %s during a turn", got)
		}
		r.fail <- errScripted
		b.await(id, ended(ack.Turn.ID))
		time.Sleep(6 * time.Minute) // of synctest's clock: the thread is unloaded
		synctest.Wait()
		if n := len(b.svc.Loaded()); n != 0 {
			t.Errorf("%d threads are loaded", n)
		}
		if got := b.find(threads.ThreadQuery{}).Threads[0].Status; got != threads.StatusSystemError {
			t.Errorf("status %s after a failure", got)
		}
		if n := len(b.svc.Loaded()); n != 0 {
			t.Error("a listing loaded a thread")
		}
	})
}

func BenchmarkFindThreads(b *testing.B) {
	j, err := sqlite.Open(filepath.Join(b.TempDir(), "find.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	svc, err := threads.Open(b.Context(), threads.Config{
		Journal: j, Providers: []threads.Provider{{Name: "puppet", Kind: "puppet", Adapter: agent.New(newPuppet())}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := svc.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	var last transcript.ThreadID
	for i := range 500 {
		r, err := svc.CreateThread(b.Context(), threads.CreateParams{Name: fmt.Sprint("thread ", i)})
		if err != nil {
			b.Fatal(err)
		}
		last = r.Thread.ID
	}
	list := func(b *testing.B, q threads.ThreadQuery) {
		if p, err := svc.FindThreads(b.Context(), q); err != nil || len(p.Threads) != 25 {
			b.Fatalf("%d threads, %v", len(p.Threads), err)
		}
	}
	for name, q := range map[string]threads.ThreadQuery{
		"change": {PageQuery: threads.PageQuery{Limit: 25}}, "creation": {PageQuery: threads.PageQuery{Limit: 25}, ByCreation: true},
		"search": {PageQuery: threads.PageQuery{Limit: 25}, Search: "HREAD 2"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				list(b, q)
			}
		})
	}
	b.Run("one changed", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			if err := svc.SetName(b.Context(), last, fmt.Sprint("changed ", i)); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			list(b, threads.ThreadQuery{PageQuery: threads.PageQuery{Limit: 25}})
		}
	})
}

// listing reads must not grow with what has not changed.
func TestListingReadsOnlyWhatChanged(t *testing.T) {
	counts := &listCounting{}
	b := newBench(t, func(c *threads.Config) {
		counts.Journal = c.Journal
		c.Journal = counts
	})
	for range 60 {
		b.create()
	}
	b.find(threads.ThreadQuery{})
	counts.rows = 0
	b.find(threads.ThreadQuery{})
	b.find(threads.ThreadQuery{ByCreation: true, Search: "x"})
	if counts.rows > 20 {
		t.Errorf("two listings of what had not changed read %d rows", counts.rows)
	}
}

// A thread that moves between two pages of the journal is on neither.
func TestListingHasAThreadThatChangedWhileItWasRead(t *testing.T) {
	counts := &listCounting{}
	b := newBench(t, func(c *threads.Config) {
		counts.Journal = c.Journal
		c.Journal = counts
	})
	oldest := b.create()
	for range 30 {
		b.create()
	}
	calls := 0
	counts.between = func() {
		if calls++; calls == 1 {
			if err := b.svc.SetName(t.Context(), oldest, "moved"); err != nil {
				t.Error(err)
			}
		}
	}
	page := b.find(threads.ThreadQuery{})
	if len(page.Threads) != 31 || page.Threads[0].ID != oldest || page.Threads[0].Name != "moved" {
		t.Errorf("%d threads, the first is %q", len(page.Threads), page.Threads[0].Name)
	}
}

// listCounting counts the rows that listings read.
type listCounting struct {
	events.Journal
	rows    int
	between func() // called after each List
}

func (l *listCounting) List(ctx context.Context, q events.ListQuery) ([]events.ThreadInfo, error) {
	infos, err := l.Journal.List(ctx, q)
	l.rows += len(infos)
	if l.between != nil {
		l.between()
	}
	return infos, err
}
