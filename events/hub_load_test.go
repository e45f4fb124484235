package events_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
)

// Many producers and many followers, some slow, all disconnecting at random:
// every follower of a thread and of all threads gets everything once, in order,
// and every text adds up.
func TestManyProducersAndFollowersLoseNothing(t *testing.T) {
	both(t, func(t *testing.T, h *hub) {
		const producers, turns = 20, 10
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() { produceTurns(t, h.Hub, fmt.Sprint("t", p), turns) })
		}
		for p := range producers {
			wg.Go(func() { consume(ctx, t, h.Hub, fmt.Sprint("t", p), 4*turns) })
		}
		for range 4 {
			wg.Go(func() { consume(ctx, t, h.Hub, "", 4*turns*producers) })
		}
		wg.Wait()
	})
}

// produceTurns appends 4 events per turn: a note, an item that is streamed,
// and a note in the commit that closes it.
func produceTurns(t *testing.T, h *events.Hub, thread string, turns int) {
	head := int64(0)
	add := func(evs ...events.Event) {
		var err error
		if head, err = h.Append(context.Background(), events.Append{Thread: thread, Expect: head, Events: evs}); err != nil {
			t.Error(err)
		}
	}
	for turn := range turns {
		item := fmt.Sprint("item", turn)
		add(note("turn"))
		add(event("opens", item, ""))
		var text strings.Builder
		for i := range rand.IntN(30) {
			s := fmt.Sprintf("%d 你😀 ", i)
			text.WriteString(s)
			cut := rand.IntN(len(s))
			for _, part := range []string{s[:cut], s[cut:]} {
				if _, err := h.Extend(thread, item, part); err != nil {
					t.Error(err)
				}
			}
		}
		add(event("closes", item, text.String()), note("done"))
	}
}

// consume follows, reconnecting at random, until it saw n events.
func consume(ctx context.Context, t *testing.T, h *events.Hub, thread string, n int) {
	c := &client{thread: thread}
	for len(c.seen) < n && ctx.Err() == nil {
		c.connect()
		left := 1 + rand.IntN(60)
		for m, err := range h.Follow(ctx, events.FollowQuery{Thread: thread, After: c.cursor}) {
			if err != nil {
				break // not found: its producer has not begun
			}
			if err := c.take(m); err != nil {
				t.Errorf("follower of %q: %v", thread, err)
				return
			}
			if left--; left == 0 || len(c.seen) == n {
				break
			}
		}
	}
	next := map[string]int64{}
	for _, id := range c.seen {
		name, _, _ := strings.Cut(id, "/")
		if next[name]++; id != fmt.Sprintf("%s/%d", name, next[name]) {
			t.Errorf("follower of %q: %s at place %d", thread, id, next[name])
			return
		}
	}
	if len(c.seen) != n {
		t.Errorf("follower of %q saw %d events, want %d", thread, len(c.seen), n)
	}
}

// S12, on a small scale: one event reaches all of many idle followers.
func TestOneEventReachesAllIdleFollowers(t *testing.T) {
	h := newHub(t, mem.New())
	h.add("a", note("1"))
	const n = 2000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ready, done sync.WaitGroup
	var got atomic.Int64
	ready.Add(n)
	for range n {
		done.Go(func() {
			for m, err := range h.Follow(ctx, events.FollowQuery{Thread: "a", Heartbeat: time.Minute}) {
				if err != nil {
					t.Error(err)
				}
				if m.Kind == events.KindLive {
					ready.Done()
				}
				if m.Cursor.N == 2 {
					got.Add(1)
					return
				}
			}
		})
	}
	ready.Wait()
	h.add("a", note("2"))
	done.Wait()
	if got.Load() != n {
		t.Fatalf("%d of %d got it", got.Load(), n)
	}
}
