package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// maxEphemeral bounds what all ephemeral threads of a home hold, in bytes.
const maxEphemeral = 64 << 20

// openEphemeral opens the service of the threads that are not kept: like that of a
// home, with one provider more, and in memory.
func openEphemeral(cfg threads.Config) (*threads.Service, error) {
	cfg.Journal = &bounded{Journal: mem.New(), max: maxEphemeral, held: map[string]int{}}
	cfg.Providers = append(slices.Clip(cfg.Providers), ephemeralProviders()...)
	svc, err := threads.Open(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("open ephemeral threads: %w", err)
	}
	return svc, nil
}

// A bounded journal is full when the events of its threads hold max bytes; their
// snapshots are no larger. To delete a thread is always possible.
type bounded struct {
	events.Journal
	max int

	mu   sync.Mutex // guards what follows
	used int
	held map[string]int // by thread, of those that are not deleted
}

// eventOverhead is about what an event, and an append as such, takes beside its data.
const eventOverhead = 256

// Append implements events.Journal.
func (b *bounded) Append(ctx context.Context, a events.Append) (int64, error) {
	size := eventOverhead + len(a.Info)
	for _, e := range a.Events {
		size += eventOverhead + len(e.Data)
	}
	for _, blob := range a.Blobs {
		size += len(blob.Data)
	}
	if !b.reserve(a.Thread, size, a.Delete) {
		return 0, fault.Wrap(fault.Full, events.ErrFull,
			"all ephemeral threads together hold %d MiB at most, in memory; nothing was changed; delete some of them and retry", b.max>>20)
	}
	head, err := b.Journal.Append(ctx, a)
	switch {
	case err != nil:
		b.free(a.Thread, size)
	case a.Delete:
		b.free(a.Thread, -1)
	}
	return head, err
}

func (b *bounded) reserve(thread string, size int, always bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+size > b.max && !always {
		return false
	}
	b.used += size
	b.held[thread] += size
	return true
}

// free gives back what a thread holds, all of it if size is negative.
func (b *bounded) free(thread string, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if size < 0 {
		size = b.held[thread]
	}
	b.used -= size
	if b.held[thread] -= size; b.held[thread] == 0 {
		delete(b.held, thread)
	}
}
