package events

import (
	"sync"
	"time"
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
//   - Threads do not wait for each other. An append waits for appends of its
//     own thread only; beginning to follow, one thread or all of them, waits
//     for none. What they share beyond that is the journal.
//   - An item ends with the commit whose events close it or that lists it as
//     Closed, also if that append said that it failed: from then on it takes no
//     text, is not told to who begins to follow, and its stored text is gone.
type Hub struct {
	// FlushFailed, if set before first use, is told when an open text could not
	// be stored. It is tried again after FlushInterval; only what a crash would
	// lose grows meanwhile. It must not use the hub.
	FlushFailed func(thread string, err error)

	journal Journal
	textOf  func(Event) TextChange

	mu      sync.Mutex         // guards what follows, and is never held during I/O
	streams map[string]*stream // what is followed; "" is all threads
	lines   map[string]*line   // of threads that are being appended to
	texts   map[string]*texts
	doubts  map[string]doubt // threads whose last append may or may not be there
	closing bool             // no append begins any more
	appends sync.WaitGroup   // what has a line or waits for one

	kick chan struct{}  // there is an unsaved text
	stop chan struct{}  // the flusher shall end
	done chan struct{}  // followers shall end
	wg   sync.WaitGroup // the flusher
}

// FlushInterval is how much streamed text a crash can lose, and how often the
// text of one item is stored at most. A text waits longer while a commit of its
// thread that ends items is running.
const FlushInterval = 250 * time.Millisecond

// NewHub returns a Hub over j. textOf must depend on Type and Data only.
func NewHub(j Journal, textOf func(Event) TextChange) *Hub {
	h := &Hub{
		journal: j, textOf: textOf,
		streams: map[string]*stream{}, lines: map[string]*line{}, texts: map[string]*texts{}, doubts: map[string]doubt{},
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
	h.appends.Wait()
	err := h.flush()
	close(h.done)
	return err
}
