package events

import (
	"cmp"
	"context"
	"slices"
)

// Beginning to follow waits for no append and holds none up: a follower joins
// its stream first and asks the journal then, so that what is published
// meanwhile reaches the stream, and what the journal knows of before it is
// published is noticed when it is (stream.opens).

// join makes f one more follower of its stream. Only the journal knows where a
// stream without followers is.
func (f *follower) join(ctx context.Context) error {
	h := f.hub
	if f.register() {
		return nil
	}
	id, head, deleted, err := h.headOf(ctx, f.thread)
	if err != nil {
		f.quit()
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := f.stream
	s.id, s.head, s.ended = id, max(s.head, head), s.ended || deleted
	f.cursor.Journal, f.target = s.id, s.head
	return nil
}

// register counts f in, and reports whether it is known where the stream is.
func (f *follower) register() bool {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[f.thread]
	if s == nil {
		s = &stream{}
		h.streams[f.thread] = s
	}
	s.refs++
	f.stream = s
	f.cursor.Journal, f.target = s.id, s.head
	return s.id != ""
}

// quit undoes register.
func (f *follower) quit() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.stream.refs--; f.stream.refs == 0 {
		delete(h.streams, f.thread)
	}
}

func (h *Hub) headOf(ctx context.Context, thread string) (id string, head int64, deleted bool, err error) {
	if thread == "" {
		_, head, err = h.bounds(ctx)
		return h.journal.ID(), head, false, err
	}
	info, err := h.journal.Info(ctx, thread)
	return info.JournalID, info.Head, info.Deleted, err
}

// begin checks the cursor, tells the items that are open before it, and
// delivers what it had to read for that.
//
//go:noinline
func (f *follower) begin(ctx context.Context, after *Cursor) error {
	if after != nil {
		if after.Journal != f.cursor.Journal {
			return f.reset(ctx, &Reset{Reason: ResetJournalChanged})
		}
		f.cursor = *after
	}
	first, err := f.check(ctx)
	if err != nil {
		return err
	}
	if err := f.repeat(f.open()); err != nil {
		return err
	}
	return f.deliver(first)
}

// check reads once if only that can tell whether the cursor is served.
func (f *follower) check(ctx context.Context) ([]entry, error) {
	if f.cursor.N == f.target {
		return nil, nil
	}
	return f.read(ctx)
}

// open fixes where the follower begins, and returns the items that were opened
// before, oldest first. Those that are published from now on are latecomers.
func (f *follower) open() (open []sentText) {
	h, s := f.hub, f.stream
	h.mu.Lock()
	defer h.mu.Unlock()
	f.start, f.target, f.late = f.cursor.N, s.head, s.lates
	s.start = max(s.start, f.start)
	if f.thread != "" {
		return f.openBefore(nil, h.texts[f.thread])
	}
	for _, t := range h.texts {
		open = f.openBefore(open, t)
	}
	slices.SortFunc(open, func(a, b sentText) int { return cmp.Compare(a.opened.Pos, b.opened.Pos) })
	return open
}

func (f *follower) openBefore(open []sentText, t *texts) []sentText {
	if t == nil {
		return open
	}
	for _, o := range t.items {
		if f.position(&o.opened) <= f.start {
			open = append(open, sentOf(o))
		}
	}
	return open
}

// latecomers returns the items that were opened before the follower began and
// published since. The caller holds Hub.mu.
func (f *follower) latecomers() (open []sentText) {
	s := f.stream
	if f.late == s.lates {
		return nil
	}
	for _, l := range s.late {
		if o := l.text; l.n > f.late && !o.ended && f.position(&o.opened) <= f.start {
			open = append(open, sentOf(o))
		}
	}
	f.late = s.lates
	return open
}
