package events

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxPuts bounds how many open texts are stored at once; a Journal commits
// them together.
const maxPuts = 16

// flushLoop stores open texts, FlushInterval after the first of them changed,
// so that no item is stored more often than that.
func (h *Hub) flushLoop() {
	for {
		select {
		case <-h.kick:
		case <-h.stop:
			return
		}
		timer := time.NewTimer(FlushInterval)
		select {
		case <-timer.C:
		case <-h.stop:
			timer.Stop()
			return
		}
		// Close flushes once more and returns what fails then.
		_ = h.flush()
	}
}

// flush stores every text that changed and reports failures.
func (h *Hub) flush() error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, maxPuts)
	for thread, u := range h.unsaved() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := h.flushThread(thread, u); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				if h.FlushFailed != nil {
					h.FlushFailed(thread, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// unsaved are the texts of a thread that changed.
type unsaved struct {
	gate  gate // of the thread's texts
	items []*openText
}

func (h *Hub) unsaved() map[string]unsaved {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]unsaved{}
	for thread, t := range h.texts {
		for _, o := range t.items {
			if o.dirty {
				all[thread] = unsaved{t.gate, append(all[thread].items, o)}
			}
		}
	}
	return all
}

// flushThread stores the texts of a thread that changed, each once: what is
// added meanwhile waits for the next time. With the gate held none of them can
// end. It does not wait for a commit that ends items: other threads have texts
// to store too.
func (h *Hub) flushThread(thread string, u unsaved) error {
	if !u.gate.tryEnter() {
		h.kickFlusher() // later
		return nil
	}
	defer u.gate.leave()
	var errs []error
	for _, o := range u.items {
		text, ok := h.takeDirty(thread, o)
		if !ok {
			continue
		}
		if err := h.journal.PutOpen(context.Background(), thread, OpenText{Item: o.item, Text: text}); err != nil {
			errs = append(errs, err)
			h.markDirty(o)
		}
	}
	return errors.Join(errs...)
}

func (h *Hub) takeDirty(thread string, o *openText) (text string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, doubt := h.doubts[thread]; doubt {
		h.kickFlusher() // later
		return "", false
	}
	if !o.dirty {
		return "", false
	}
	o.dirty = false
	return string(o.buf[:o.ready]), true
}

func (h *Hub) markDirty(o *openText) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.dirty = true
	h.kickFlusher()
}
