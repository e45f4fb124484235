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
	for thread, t := range h.dirtyThreads() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := h.flushThread(thread, t); err != nil {
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

func (h *Hub) dirtyThreads() map[string]*texts {
	h.mu.Lock()
	defer h.mu.Unlock()
	dirty := map[string]*texts{}
	for thread, t := range h.texts {
		for _, o := range t.items {
			if o.dirty {
				dirty[thread] = t
				break
			}
		}
	}
	return dirty
}

// flushThread stores the changed texts of a thread. With the gate held none of
// them can be closed meanwhile.
func (h *Hub) flushThread(thread string, t *texts) error {
	t.gate.enter()
	defer t.gate.leave()
	var errs []error
	for {
		o, text := h.takeDirty(thread, t)
		if o == nil {
			return errors.Join(errs...)
		}
		if err := h.journal.PutOpen(context.Background(), thread, OpenText{Item: o.item, Text: text}); err != nil {
			errs = append(errs, err)
			defer h.markDirty(o)
		}
	}
}

func (h *Hub) takeDirty(thread string, t *texts) (*openText, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, doubt := h.doubts[thread]; doubt {
		h.kickFlusher() // later
		return nil, ""
	}
	for _, o := range t.items {
		if o.dirty {
			o.dirty = false
			return o, string(o.buf[:o.ready])
		}
	}
	return nil, ""
}

func (h *Hub) markDirty(o *openText) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.dirty = true
	h.kickFlusher()
}
