package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A hundred subscribers reconnect while a thread is busy; every tenth reads slowly.
// BenchmarkReconnects does it 641 times each.
func TestReconnectsLoseNothingAndRepeatNothing(t *testing.T) { reconnects(t, 100, 20) }

func BenchmarkReconnects(b *testing.B) {
	for b.Loop() {
		reconnects(b, 100, 641)
	}
}

// perConnection is how many events a subscriber reads on average before it leaves.
const perConnection = 4

// A busy is a thread on which something happens as long as somebody can follow.
type busy struct {
	d       *door
	thread  transcript.ThreadID
	journal string
	total   int64        // the last event there will be
	front   atomic.Int64 // the furthest that a subscriber is

	mu        sync.Mutex // guards published
	moved     *sync.Cond // front or published grew
	published int64
}

func reconnects(t testing.TB, subscribers, times int) {
	d := open(t)
	r, err := d.svc.ReadThread(t.Context(), transcript.ThreadID(d.newThread("offline")))
	if err != nil {
		t.Fatal(err)
	}
	b := &busy{d: d, thread: r.Thread.ID, journal: r.AsOf.Journal, total: int64(perConnection*times) + 1, published: 1}
	b.moved = sync.NewCond(&b.mu)
	var wg sync.WaitGroup
	var conns atomic.Int64
	for i := range subscribers {
		wg.Go(func() { conns.Add(b.follow(t, rand.New(rand.NewPCG(1, uint64(i))), i%10 == 0)) })
	}
	b.publish(t)
	wg.Wait()
	if n := conns.Load(); n < int64(subscribers*times)*9/10 {
		t.Errorf("%d connections, want about %d", n, subscribers*times)
	}
	t.Logf("%d subscribers, %d connections, %d events: no gap, no repetition", subscribers, conns.Load(), b.total)
}

// publish has something happen, a little ahead of the fastest subscriber.
func (b *busy) publish(t testing.TB) {
	for n := int64(2); n <= b.total; n++ {
		b.mu.Lock()
		for n > b.front.Load()+32 {
			b.moved.Wait()
		}
		b.mu.Unlock()
		if err := b.d.svc.SetName(context.Background(), b.thread, fmt.Sprint("name ", n)); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		b.published = n
		b.moved.Broadcast()
		b.mu.Unlock()
	}
}

// follow reads every event once, over one connection after the other, and returns
// how many there were. A slow subscriber takes an event for each that happens.
func (b *busy) follow(t testing.TB, rnd *rand.Rand, slow bool) (conns int64) {
	for at := int64(0); at < b.total; conns++ {
		n, err := b.connect(at, min(b.total, at+1+rnd.Int64N(2*perConnection-1)), slow)
		if err != nil {
			t.Errorf("after event %d: %v", at, err)
			b.reached(b.total)
			return conns
		}
		at = n
	}
	return conns
}

// connect follows from an event up to another and leaves without a word.
func (b *busy) connect(from, to int64, slow bool) (at int64, err error) {
	client, server := jsonrpc.Pipe()
	served := make(chan error, 1)
	go func() { served <- b.d.server.ServeConn(context.Background(), server) }()
	defer func() {
		client.Close(jsonrpc.StatusNormal, "")
		err = errors.Join(err, <-served)
	}()
	for _, f := range []string{
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"s","version":"1"}}}`,
		`{"id":2,"method":"thread/subscribe","params":{"threadId":"` + string(b.thread) + `","after":"` + b.journal + "." + strconv.FormatInt(from, 10) + `"}}`,
	} {
		if err := client.Write([]byte(f)); err != nil {
			return 0, err
		}
	}
	for at = from; at < to; {
		f, err := client.Read()
		if err != nil {
			return 0, err
		}
		seq := seqOf(f)
		if seq == 0 {
			continue // an answer, or stream/live
		}
		if seq != at+1 {
			return 0, fmt.Errorf("then came %d", seq)
		}
		at = seq
		b.reached(at)
		if slow {
			b.another(at)
		}
	}
	return at, nil
}

// reached notes how far a subscriber is.
func (b *busy) reached(at int64) {
	for old := b.front.Load(); at > old; old = b.front.Load() {
		if b.front.CompareAndSwap(old, at) {
			b.mu.Lock()
			b.moved.Broadcast()
			b.mu.Unlock()
			return
		}
	}
}

// another waits until something has happened, if there is more to come.
func (b *busy) another(at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for was := b.published; b.published == was && was < b.total && at < b.front.Load(); {
		b.moved.Wait()
	}
}

// seqOf finds the position in a frame; 0 if it has none.
func seqOf(frame []byte) int64 {
	_, rest, ok := bytes.Cut(frame, []byte(`},"seq":`))
	if !ok {
		return 0
	}
	digits, _, _ := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
