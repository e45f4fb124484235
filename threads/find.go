package threads

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A ThreadQuery selects threads. The zero query is all that are not archived,
// newest change first.
type ThreadQuery struct {
	PageQuery       // Desc is ignored: see Ascending
	ByCreation bool // order by creation, not by the newest change
	Ascending  bool
	Archived   bool     // those that are archived, and only those
	Providers  []string // of one of these; empty: of any
	Cwds       []string
	Sources    []string              // Origin.Source
	Search     string                // in name and preview, without regard to case
	Begun      bool                  // those that something was said in, and only those
	Only       []transcript.ThreadID // nil: all
	Except     []transcript.ThreadID
}

// FindThreads lists the threads that a query selects. It loads none: each is
// described as the journal has it. Every thread that does not change meanwhile is
// on exactly one page.
func (s *Service) FindThreads(ctx context.Context, q ThreadQuery) (ThreadPage, error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return ThreadPage{}, err
	}
	from, include, err := q.from()
	if err != nil {
		return ThreadPage{}, err
	}
	var p ThreadPage
	err = s.directory.read(ctx, s.cfg.Journal, func(d *directory) {
		p = q.page(d.order(q.ByCreation), from, include, limit)
	})
	if err != nil {
		return ThreadPage{}, fmt.Errorf("list threads: %w", err)
	}
	return p, nil
}

// ListThreads lists the threads that are not archived, the one that changed last
// first. It loads none.
func (s *Service) ListThreads(ctx context.Context, q PageQuery) (ThreadPage, error) {
	return s.FindThreads(ctx, ThreadQuery{PageQuery: q})
}

// page collects the selected threads of a list, which is in ascending order.
func (q ThreadQuery) page(list []*listing, from place, include bool, limit int) ThreadPage {
	p, last, wanted := ThreadPage{Threads: []Thread{}}, "", q.filter()
	at, step := q.begin(list, from, include)
	for ; at >= 0 && at < len(list); at += step {
		l := list[at]
		if !wanted(&l.thread) {
			continue
		}
		if len(p.Threads) == limit {
			p.Next = last
			return p
		}
		last = l.cursor(q.ByCreation)
		if len(p.Threads) == 0 {
			p.Back = including + last
		}
		p.Threads = append(p.Threads, l.thread)
	}
	return p
}

// begin returns the position where a page begins, and the step to the next one.
func (q ThreadQuery) begin(list []*listing, from place, include bool) (at, step int) {
	step = -1
	if q.Ascending {
		step = 1
	}
	if from == (place{}) {
		if q.Ascending {
			return 0, step
		}
		return len(list) - 1, step
	}
	at, found := slices.BinarySearchFunc(list, from, func(l *listing, p place) int { return l.place(q.ByCreation).compare(p) })
	switch {
	case found && !include:
		at += step
	case !found && !q.Ascending:
		at--
	}
	return at, step
}

// filter returns whether the query selects a thread.
func (q ThreadQuery) filter() func(*Thread) bool {
	search := strings.ToLower(q.Search)
	cwds := make([]string, len(q.Cwds))
	for i, c := range q.Cwds {
		cwds[i] = filepath.Clean(c)
	}
	only, except := setOf(q.Only), setOf(q.Except)
	return func(t *Thread) bool {
		return t.Archived == q.Archived &&
			(!q.Begun || t.Items > 0 || t.Queued > 0 || t.Damaged != "") &&
			(q.Only == nil || only[t.ID]) && !except[t.ID] &&
			(len(q.Providers) == 0 || slices.Contains(q.Providers, t.Settings.Provider)) &&
			(len(cwds) == 0 || slices.Contains(cwds, filepath.Clean(t.Settings.Cwd))) &&
			(len(q.Sources) == 0 || slices.Contains(q.Sources, t.Origin.Source)) &&
			(search == "" || strings.Contains(strings.ToLower(t.Name), search) || strings.Contains(strings.ToLower(t.Preview), search))
	}
}

func setOf(ids []transcript.ThreadID) map[transcript.ThreadID]bool {
	set := make(map[transcript.ThreadID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// A place is where a thread stands in an order: by a number, and where threads
// have the same one, by id.
type place struct {
	n  int64
	id string
}

func (p place) compare(q place) int { return cmp.Or(cmp.Compare(p.n, q.n), cmp.Compare(p.id, q.id)) }

// from reads the cursor. By change it is the position of a thread's newest event,
// by creation the time in milliseconds and the thread's id; with an at sign before
// it the page begins with that thread.
func (q ThreadQuery) from() (p place, include bool, err error) {
	if q.Cursor == "" {
		return place{}, false, nil
	}
	text, include := strings.CutPrefix(q.Cursor, including)
	number, id, created := strings.Cut(text, "|")
	p.n, err = strconv.ParseInt(number, 10, 64)
	if err != nil || created != q.ByCreation || p.n < 0 || !created && p.n == 0 || created && id == "" {
		return place{}, false, badCursor(q.Cursor)
	}
	p.id = id
	return p, include, nil
}

// place is where the thread stands.
func (l *listing) place(byCreation bool) place {
	if byCreation {
		return place{max(transcript.Millis(l.thread.CreatedAt), 0), string(l.thread.ID)}
	}
	return place{n: l.head}
}

func (l *listing) cursor(byCreation bool) string {
	p := l.place(byCreation)
	if byCreation {
		return strconv.FormatInt(p.n, 10) + "|" + p.id
	}
	return strconv.FormatInt(p.n, 10)
}

// listed is a thread as its listing document describes it.
func listed(info events.ThreadInfo) (Thread, error) {
	t := Thread{}
	err := json.Unmarshal(info.Info, &t)
	if err != nil {
		t = Thread{Status: StatusSystemError}
		err = fmt.Errorf("its description cannot be read: %w", err)
	}
	t.ID, t.UpdatedAt = transcript.ThreadID(info.Thread), info.UpdatedAt
	return t, err
}
