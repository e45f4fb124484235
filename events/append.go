package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Append is Journal.Append, and then followers see it. Events that close an
// item end its open text in the same commit. Appends of one thread run one
// after another; one that stops waiting for its turn changed nothing.
func (h *Hub) Append(ctx context.Context, a Append) (head int64, err error) {
	l, err := h.enter(ctx, a.Thread)
	if err != nil {
		return 0, err
	}
	defer h.leave(a.Thread, l)
	if err := h.settle(ctx, a.Thread); err != nil {
		return 0, err
	}
	closed := a.Closed
	changes := make([]TextChange, len(a.Events))
	for i, e := range a.Events {
		changes[i] = h.textOf(e)
		if c := changes[i]; c.Op == TextCloses && !slices.Contains(a.Closed, c.Item) {
			a.Closed = append(slices.Clip(a.Closed), c.Item)
		}
	}
	if t := h.openTexts(a.Thread); t != nil && (len(a.Closed) > 0 || a.Delete) {
		t.gate.enter()
		defer t.gate.leave()
	}
	head, err = h.journal.Append(ctx, a)
	if err != nil {
		return 0, h.failed(ctx, a, closed, err)
	}
	entries := make([]entry, len(a.Events))
	for i, e := range a.Events {
		entries[i] = entry{e, changes[i]}
	}
	h.publish(a.Thread, entries, closed, a.Delete)
	return head, nil
}

// A line orders the appends of one thread. It is held from before an append
// until followers know of it, so that a thread's events are published in order.
// Nothing but appends waits for it.
type line struct {
	gate  gate
	users int // appends that have it or wait for it; guarded by Hub.mu
}

func (h *Hub) enter(ctx context.Context, thread string) (*line, error) {
	h.mu.Lock()
	if h.closing {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	l := h.lines[thread]
	if l == nil {
		l = &line{gate: make(gate, 1)}
		h.lines[thread] = l
	}
	l.users++
	h.appends.Add(1)
	h.mu.Unlock()
	select {
	case l.gate <- struct{}{}:
		return l, nil
	case <-ctx.Done():
		h.quit(thread, l)
		return nil, fmt.Errorf("append to %s: wait for the append before: %w", thread, ctx.Err())
	}
}

func (h *Hub) leave(thread string, l *line) {
	l.gate.leave()
	h.quit(thread, l)
}

func (h *Hub) quit(thread string, l *line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(h.lines, thread)
	}
	h.appends.Done()
}

// A doubt is an append that may or may not be in the journal.
type doubt struct {
	after  int64    // the seq before it, or of the newest of its events that was found
	closed []string // what it lists as closed
}

// failed handles an append that returned err. Unless err says that nothing
// happened, the journal is asked, so that followers see what is there.
func (h *Hub) failed(ctx context.Context, a Append, closed []string, err error) error {
	for _, sure := range []error{ErrConflict, ErrInvalid, ErrNotFound, ErrFull, ErrClosed} {
		if errors.Is(err, sure) {
			return err
		}
	}
	h.mu.Lock()
	h.doubts[a.Thread] = doubt{a.Expect, closed}
	h.mu.Unlock()
	return errors.Join(err, h.settle(context.WithoutCancel(ctx), a.Thread))
}

// settle publishes what an append of unknown outcome left in the journal.
// Until that succeeds, nothing else is appended to the thread and no open text
// of it is stored. The caller has the thread's line.
func (h *Hub) settle(ctx context.Context, thread string) error {
	h.mu.Lock()
	d, doubt := h.doubts[thread]
	h.mu.Unlock()
	if !doubt {
		return nil
	}
	info, err := h.journal.Info(ctx, thread)
	for err == nil && d.after < info.Head {
		var evs []Event
		if evs, err = h.journal.Read(ctx, thread, d.after, readLimit); err != nil || len(evs) == 0 {
			break
		}
		entries := make([]entry, len(evs))
		for i, e := range evs {
			entries[i] = entry{e, h.textOf(e)}
		}
		d.after = evs[len(evs)-1].Seq
		var closed []string
		if d.after == info.Head {
			closed = d.closed
		}
		h.publish(thread, entries, closed, info.Deleted)
		h.mu.Lock()
		h.doubts[thread] = d
		h.mu.Unlock()
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("settle %s: %w", thread, err)
	}
	h.mu.Lock()
	delete(h.doubts, thread)
	h.mu.Unlock()
	return nil
}

// publish makes committed events of one thread visible, and ends the items that
// their commit lists as closed. The caller has the thread's line.
func (h *Hub) publish(thread string, entries []entry, closed []string, deleted bool) {
	if deleted {
		entries = entries[len(entries)-1:]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range entries {
		h.changeText(thread, &entries[i])
	}
	h.endItems(thread, func(o *openText) bool { return deleted || slices.Contains(closed, o.item) })
	if s := h.streams[""]; s != nil {
		if deleted {
			s.tail.reset() // it may have what was deleted
		}
		s.publish(entries, posOf)
	}
	if s := h.streams[thread]; s != nil {
		s.ended = s.ended || deleted
		s.publish(entries, seqOf)
	}
}
