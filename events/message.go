package events

import "time"

// A FollowQuery says what to follow and from where.
type FollowQuery struct {
	Thread    string        // "" means all threads
	After     *Cursor       // nil means from the beginning
	Heartbeat time.Duration // after so much silence; 0 means never
}

// A Kind says what a Message is.
type Kind uint8

// The kinds of messages.
const (
	KindEvent     Kind = iota + 1 // Event and, if it is one, Repeat
	KindDelta                     // Delta
	KindLive                      // the backlog is over; once per sequence
	KindReset                     // Reset: the cursor cannot be served; the sequence ends
	KindHeartbeat                 // nothing happened
)

// A Message is one step of following. Cursor is where the follower is after
// it; for a reset, the oldest position that can be followed from.
type Message struct {
	Kind   Kind
	Cursor Cursor
	More   bool // another message follows at once: a door may wait with sending
	Event  Event
	Repeat bool // an event before the cursor, that opened an item which is still open
	Delta  Delta
	Reset  *Reset
}

// A Delta is a piece of the text of an item.
type Delta struct {
	Opened *Event // the event that opened the item
	Item   string
	Offset int64 // of its first byte in the item's text, which is UTF-8
	Text   string
}
