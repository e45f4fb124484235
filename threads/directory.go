package threads

import (
	"context"
	"slices"

	"github.com/plimsoll-dev/plimsoll/events"
)

// directory describes every thread of a journal, so that a listing decodes only
// what changed since the one before. It is exact: an event of a thread gives it a
// new position, beyond all that there were, so what stands at or before the newest
// position that was seen has not changed. It is filled by the first listing, and
// holds about 1 KB per thread.
type directory struct {
	gate       chan struct{} // holds one token; who has it may use the rest
	known      map[string]*listing
	byChange   []*listing // ascending
	byCreation []*listing // ascending
	seen       int64      // the newest position that is taken in
}

// A listing is one thread in a directory. It is never changed, only replaced.
type listing struct {
	thread Thread
	head   int64 // position of its newest event
}

func newDirectory() *directory {
	d := &directory{gate: make(chan struct{}, 1), known: map[string]*listing{}}
	d.gate <- struct{}{}
	return d
}

// directoryPage is how many threads are read at once: few are enough for a
// directory that is nearly up to date.
const directoryPage = 8

// read brings the directory up to date and lends it to f.
func (d *directory) read(ctx context.Context, j events.Journal, f func(*directory)) error {
	select {
	case <-d.gate:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { d.gate <- struct{}{} }()
	for {
		changed, err := d.changes(ctx, j)
		if err != nil {
			return err
		}
		d.take(changed)
		if len(changed) < directoryPage { // they came as one page, which is of one moment
			f(d)
			return nil
		}
	}
}

// changes returns the threads with events that were not seen, newest first.
func (d *directory) changes(ctx context.Context, j events.Journal) ([]events.ThreadInfo, error) {
	var all []events.ThreadInfo
	for q := (events.ListQuery{Limit: directoryPage, IncludeDeleted: true}); ; q.Limit = maxPage {
		infos, err := j.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if info.HeadPos <= d.seen {
				return all, nil
			}
			all = append(all, info)
		}
		if len(infos) < q.Limit {
			return all, nil
		}
		q.BeforePos = infos[len(infos)-1].HeadPos
	}
}

// take puts threads that changed in their new places.
func (d *directory) take(changed []events.ThreadInfo) {
	if len(changed) == 0 {
		return
	}
	stale := map[*listing]bool{}
	for _, info := range slices.Backward(changed) {
		if old := d.known[info.Thread]; old != nil {
			stale[old] = true
			delete(d.known, info.Thread)
		}
		if info.Deleted {
			continue
		}
		t, err := listed(info)
		if err != nil {
			t.Damaged = err.Error()
		}
		l := &listing{t, info.HeadPos}
		d.known[info.Thread] = l
		d.byChange, d.byCreation = append(d.byChange, l), append(d.byCreation, l)
	}
	d.seen = changed[0].HeadPos
	d.byChange, d.byCreation = arranged(d.byChange, stale, false), arranged(d.byCreation, stale, true)
}

// arranged takes the stale listings out and sorts what is not in its place.
func arranged(list []*listing, stale map[*listing]bool, byCreation bool) []*listing {
	if len(stale) > 0 {
		list = slices.DeleteFunc(list, func(l *listing) bool { return stale[l] })
	}
	compare := func(a, b *listing) int { return a.place(byCreation).compare(b.place(byCreation)) }
	if !slices.IsSortedFunc(list, compare) {
		slices.SortFunc(list, compare)
	}
	return list
}

func (d *directory) order(byCreation bool) []*listing {
	if byCreation {
		return d.byCreation
	}
	return d.byChange
}
