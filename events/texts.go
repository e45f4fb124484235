package events

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// texts are the open texts of a thread.
type texts struct {
	// gate is held while an open text is being stored and while a commit that
	// ends items runs, so that no row comes back after its item ended.
	gate  gate
	items []*openText // in the order of their opening; guarded by Hub.mu
}

// A gate is a mutex that testing/synctest understands: the one who has it may
// wait for a timer.
type gate chan struct{}

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }

// tryEnter enters unless that means waiting.
func (g gate) tryEnter() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

// An openText is the text of an item that is open. Hub.mu guards it.
type openText struct {
	opened Event
	item   string
	buf    []byte // only ever appended to: slices of it stay as they are
	ready  int    // bytes of buf that are whole runes
	dirty  bool   // has text that is not stored
	ended  bool   // the item is not open any more
}

func (h *Hub) openTexts(thread string) *texts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.texts[thread]
}

// OpenTexts returns what was streamed so far of the open items of a thread, in
// the order in which they were opened, cut to whole runes.
func (h *Hub) OpenTexts(thread string) []OpenText {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.texts[thread]
	if t == nil {
		return nil
	}
	open := make([]OpenText, len(t.items))
	for i, o := range t.items {
		open[i] = OpenText{Item: o.item, Text: string(o.buf[:o.ready])}
	}
	return open
}

// changeText does to the open texts what an event says. The caller holds h.mu.
func (h *Hub) changeText(thread string, e *entry) {
	switch e.change.Op {
	case TextOpens:
		h.openItem(thread, e)
	case TextCloses:
		h.endItems(thread, func(o *openText) bool { return o.item == e.change.Item })
	case TextNone:
	}
}

func (h *Hub) openItem(thread string, e *entry) {
	if o := h.find(thread, e.change.Item); o != nil && o.opened.Seq == e.Seq {
		return
	}
	h.endItems(thread, func(o *openText) bool { return o.item == e.change.Item })
	t := h.texts[thread]
	if t == nil {
		t = &texts{gate: make(gate, 1)}
		h.texts[thread] = t
	}
	o := &openText{opened: e.Event, item: e.change.Item}
	t.items = append(t.items, o)
	if s := h.streams[""]; s != nil {
		s.opens(o, e.Pos)
	}
	if s := h.streams[thread]; s != nil {
		s.opens(o, e.Seq)
	}
}

// endItems ends the items of a thread that end says. The caller holds h.mu.
func (h *Hub) endItems(thread string, end func(*openText) bool) {
	t := h.texts[thread]
	if t == nil {
		return
	}
	t.items = slices.DeleteFunc(t.items, func(o *openText) bool {
		o.ended = end(o)
		o.dirty = o.dirty && !o.ended
		return o.ended
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
