package events

import "slices"

// An entry is an event with what it does to a text.
type entry struct {
	Event
	change TextChange
}

func seqOf(e *Event) int64 { return e.Seq }
func posOf(e *Event) int64 { return e.Pos }

// A stream is what the followers of one thread, or of all threads, share.
// Hub.mu guards it.
type stream struct {
	refs   int    // followers
	id     string // names the journal in cursors
	head   int64  // newest position published
	ended  bool   // the thread was deleted
	tail   tail
	signal chan struct{}

	start int64      // the furthest that one of the followers began at
	late  []lateText // see opens
	lates int        // how many there ever were
}

// A lateText is an item whose opening was published after someone began to
// follow at a cursor that is not before it: the journal had it already.
type lateText struct {
	n    int // counts them
	text *openText
}

// opens notes the opening of an item if a follower began after it and so will
// not come across it.
func (s *stream) opens(o *openText, pos int64) {
	if pos > s.start {
		return
	}
	s.late = slices.DeleteFunc(s.late, func(l lateText) bool { return l.text.ended })
	s.lates++
	s.late = append(s.late, lateText{s.lates, o})
}

// changed returns a channel that is closed at the next change. A follower
// takes it before it reads, so that no change falls between the two.
func (s *stream) changed() <-chan struct{} {
	if s.signal == nil {
		s.signal = make(chan struct{})
	}
	return s.signal
}

func (s *stream) wake() {
	if s.signal != nil {
		close(s.signal)
		s.signal = nil
	}
}

func (s *stream) publish(entries []entry, pos func(*Event) int64) {
	for i := range entries {
		n := pos(&entries[i].Event)
		s.head = max(s.head, n)
		s.tail.add(entries[i], n)
	}
	s.wake()
}

// A tail keeps the newest events of a stream, as a cache of the journal: all
// there are with a position in (from, to].
type tail struct {
	from, to int64
	entries  []entry // only ever appended to: slices of it stay as they are
	bytes    int
}

const (
	tailEntries = 256
	tailBytes   = 128 << 10
)

func (t *tail) reset() { *t = tail{} }

func (t *tail) add(e entry, pos int64) {
	if pos <= t.to {
		return // published late: it is in the journal
	}
	if pos != t.to+1 || len(t.entries) == 0 {
		*t = tail{from: pos - 1}
	}
	t.to = pos
	t.entries = append(t.entries, e)
	t.bytes += e.size()
	for len(t.entries) > tailEntries || t.bytes > tailBytes {
		t.bytes -= t.entries[0].size()
		t.entries = t.entries[1:]
		t.from++
	}
}

func (e *entry) size() int { return len(e.Data) + len(e.change.Text) }

// after returns up to limit events after a position, or false if it does not
// have them all.
func (t *tail) after(pos int64, limit int) ([]entry, bool) {
	if pos < t.from || pos > t.to {
		return nil, false
	}
	rest := t.entries[pos-t.from:]
	n := min(limit, len(rest))
	return rest[:n:n], true
}
