package api

import (
	"errors"
	"sync"

	"github.com/plimsoll-dev/plimsoll/events"
)

// frames keeps the newest events as they are sent, so that an event that many
// follow is mapped and encoded once. The bytes are shared: nobody changes them.
type frames struct {
	encode func(events.Event) ([]byte, error)

	mu   sync.Mutex // guards the fields below; never held while encoding
	byAt map[spot]*entry
	ring [keptFrames]spot // places in the order of their coming
	next int
}

// keptFrames bounds what is kept. Followers of what happens now are at most a
// few events apart; a replay gains nothing and loses nothing.
const keptFrames = 64

// maxKeptFrame is the largest frame that is kept for others.
const maxKeptFrame = 64 << 10

// A spot is where an event is. Its position among all threads would not do: there
// are two journals.
type spot struct {
	thread string
	seq    int64
}

type entry struct {
	once sync.Once
	data []byte
	err  error
}

func newFrames(encode func(events.Event) ([]byte, error)) *frames {
	return &frames{encode: encode, byAt: map[spot]*entry{}}
}

// of returns the frame of an event.
func (f *frames) of(e events.Event) ([]byte, error) {
	if len(e.Data) > maxKeptFrame {
		return f.encode(e)
	}
	en := f.entry(spot{e.Thread, e.Seq})
	en.once.Do(func() {
		en.err = errEncoding // of those who come later, if it panics
		en.data, en.err = f.encode(e)
	})
	return en.data, en.err
}

var errEncoding = errors.New("the event could not be encoded")

func (f *frames) entry(at spot) *entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if en, ok := f.byAt[at]; ok {
		return en
	}
	delete(f.byAt, f.ring[f.next]) // a thread has a name: an unused slot deletes nothing
	en := &entry{}
	f.byAt[at], f.ring[f.next] = en, at
	f.next = (f.next + 1) % keptFrames
	return en
}
