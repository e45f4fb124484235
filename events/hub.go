package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// A TextOp says what an event does to an item with streamed text.
type TextOp uint8

// The text operations.
const (
	TextNone   TextOp = iota
	TextOpens         // from here on the item's text is extended
	TextCloses        // the item is complete; the event carries its whole text
)

// A TextChange is what a Hub must know of an event. Text is the whole text of
// an item that is closed; it begins with what was streamed.
type TextChange struct {
	Op   TextOp
	Item string
	Text string
}

// A Hub is a Journal that can be followed. All appends of a process go through
// its one Hub. It also holds the texts that are being streamed: they are seen
// by followers at once and stored at most once per FlushInterval and item.
//
// Guarantees:
//
//   - Durable before visible: an event is delivered after its commit only.
//   - A follower gets every event after its cursor once, in order. What it
//     gets of a text is contiguous, starts at offset 0, comes after the opening
//     event and before the closing one, and adds up to the closing text.
//   - Once a follower is live, no delta is delivered before an event that was
//     appended before it.
//   - Deltas end at rune boundaries, wherever Extend was given a cut text.
//   - A follower is a cursor. It never blocks an append or another follower,
//     however slow it is, and nothing is queued for it: the deltas that it
//     missed reach it as one.
//   - A stored open text is gone when the commit that closes its item is there.
type Hub struct {
	// FlushFailed, if set before first use, is told when an open text could not
	// be stored. It is tried again after FlushInterval; only what a crash would
	// lose grows meanwhile. It must not use the hub.
	FlushFailed func(thread string, err error)

	journal Journal
	textOf  func(Event) TextChange

	// commits is held for reading from before an append until its followers
	// know; holding it for writing is a moment at which everything committed
	// is published.
	commits sync.RWMutex

	mu      sync.Mutex         // guards everything below, and is never held during I/O
	streams map[string]*stream // what is followed; "" is all threads
	texts   map[string]*texts
	doubts  map[string]int64 // threads whose last append may or may not be there: the seq before it
	closing bool

	kick chan struct{} // there is an unsaved text
	stop chan struct{} // the flusher shall end
	done chan struct{} // followers shall end
	wg   sync.WaitGroup
}

// FlushInterval is how much streamed text a crash can lose, and how often the
// text of one item is stored at most.
const FlushInterval = 250 * time.Millisecond

// texts are the open texts of a thread.
type texts struct {
	// gate is held while an open text is being stored and while a commit that
	// closes items runs, so that no row comes back after its item closed.
	gate  gate
	items []*openText // in the order of their opening; guarded by Hub.mu
}

// A gate is a mutex that testing/synctest understands: the one who has it may
// wait for a timer.
type gate chan struct{}

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }

type openText struct {
	opened Event
	item   string
	buf    []byte // only ever appended to: slices of it stay as they are
	ready  int    // bytes of buf that are whole runes
	dirty  bool   // has text that is not stored
}

// NewHub returns a Hub over j. textOf must depend on Type and Data only.
func NewHub(j Journal, textOf func(Event) TextChange) *Hub {
	h := &Hub{
		journal: j, textOf: textOf,
		streams: map[string]*stream{}, texts: map[string]*texts{}, doubts: map[string]int64{},
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	h.wg.Go(h.flushLoop)
	return h
}

// Close stores the open texts and ends all followers with ErrClosed. It waits
// for appends, not for followers, which run in their callers' goroutines. It
// does not close the journal.
func (h *Hub) Close() error {
	h.mu.Lock()
	if h.closing {
		h.mu.Unlock()
		return nil
	}
	h.closing = true
	h.mu.Unlock()
	close(h.stop)
	h.wg.Wait()
	h.commits.Lock()
	defer h.commits.Unlock()
	err := h.flush()
	close(h.done)
	return err
}

// Append is Journal.Append, and then followers see it. Events that close an
// item end its open text in the same commit.
func (h *Hub) Append(ctx context.Context, a Append) (head int64, err error) {
	h.commits.RLock()
	defer h.commits.RUnlock()
	if h.isClosing() {
		return 0, ErrClosed
	}
	if err := h.settle(ctx, a.Thread); err != nil {
		return 0, err
	}
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
		return 0, h.failed(ctx, a, err)
	}
	entries := make([]entry, len(a.Events))
	for i, e := range a.Events {
		entries[i] = entry{e, changes[i]}
	}
	h.publish(a.Thread, entries, a.Closed, a.Delete)
	return head, nil
}

func (h *Hub) isClosing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closing
}

func (h *Hub) openTexts(thread string) *texts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.texts[thread]
}

// failed handles an append that returned err. Unless err says that nothing
// happened, the journal is asked, so that followers see what is there.
func (h *Hub) failed(ctx context.Context, a Append, err error) error {
	for _, sure := range []error{ErrConflict, ErrInvalid, ErrNotFound, ErrFull, ErrClosed} {
		if errors.Is(err, sure) {
			return err
		}
	}
	h.mu.Lock()
	h.doubts[a.Thread] = a.Expect
	h.mu.Unlock()
	return errors.Join(err, h.settle(context.WithoutCancel(ctx), a.Thread))
}

// settle publishes what an append of unknown outcome left in the journal.
// Until that succeeds, nothing else is appended to the thread and no open text
// of it is stored.
func (h *Hub) settle(ctx context.Context, thread string) error {
	h.mu.Lock()
	after, doubt := h.doubts[thread]
	h.mu.Unlock()
	if !doubt {
		return nil
	}
	info, err := h.journal.Info(ctx, thread)
	for err == nil && info.Head > after {
		var evs []Event
		if evs, err = h.journal.Read(ctx, thread, after, readLimit); err != nil || len(evs) == 0 {
			break
		}
		entries := make([]entry, len(evs))
		var closed []string
		for i, e := range evs {
			entries[i] = entry{e, h.textOf(e)}
			if c := entries[i].change; c.Op == TextCloses {
				closed = append(closed, c.Item)
			}
		}
		after = evs[len(evs)-1].Seq
		h.publish(thread, entries, closed, info.Deleted)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("settle %s: %w", thread, err)
	}
	h.mu.Lock()
	delete(h.doubts, thread)
	h.mu.Unlock()
	return nil
}

// publish makes committed events of one thread visible.
func (h *Hub) publish(thread string, entries []entry, closed []string, deleted bool) {
	if deleted {
		entries = entries[len(entries)-1:]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		if e.change.Op == TextOpens {
			h.openItem(thread, e)
		}
	}
	h.closeItems(thread, closed, deleted)
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

func (h *Hub) openItem(thread string, e entry) {
	t := h.texts[thread]
	if t == nil {
		t = &texts{gate: make(gate, 1)}
		h.texts[thread] = t
	}
	if o := h.find(thread, e.change.Item); o != nil && o.opened.Seq == e.Seq {
		return
	}
	t.items = slices.DeleteFunc(t.items, func(o *openText) bool { return o.item == e.change.Item })
	t.items = append(t.items, &openText{opened: e.Event, item: e.change.Item})
}

func (h *Hub) closeItems(thread string, closed []string, all bool) {
	t := h.texts[thread]
	if t == nil {
		return
	}
	t.items = slices.DeleteFunc(t.items, func(o *openText) bool {
		gone := all || slices.Contains(closed, o.item)
		o.dirty = o.dirty && !gone
		return gone
	})
	if len(t.items) == 0 {
		delete(h.texts, thread)
	}
}

// find returns an open text. The caller holds h.mu.
func (h *Hub) find(thread, item string) *openText {
	if t := h.texts[thread]; t != nil {
		for _, o := range t.items {
			if o.item == item {
				return o
			}
		}
	}
	return nil
}

// Extend adds text to an open item and returns the offset of its first byte in
// the item's text. It fails with ErrNotFound if the item is not open.
func (h *Hub) Extend(thread, item, text string) (offset int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return 0, ErrClosed
	}
	o := h.find(thread, item)
	if o == nil {
		return 0, fmt.Errorf("extend %s of %s: %w", item, thread, ErrNotFound)
	}
	offset = int64(len(o.buf))
	o.buf = append(o.buf, text...)
	before := o.ready
	if o.ready = wholeRunes(o.buf); o.ready == before {
		return offset, nil
	}
	if !o.dirty {
		o.dirty = true
		h.kickFlusher()
	}
	for _, name := range [...]string{"", thread} {
		if s := h.streams[name]; s != nil {
			s.wake()
		}
	}
	return offset, nil
}

// wholeRunes returns the length of b without a rune that is cut at its end.
func wholeRunes(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}

func (h *Hub) kickFlusher() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}
