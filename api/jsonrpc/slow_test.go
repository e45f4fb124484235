package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestASlowReaderSlowsDownWhoSendsToItAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{QueueFrames: 10}
		slow, fast := connectPipe(t, &script{}, o), connectPipe(t, &script{}, o)
		var sent [2]atomic.Int64
		for i, p := range []*peer{slow, fast} {
			go func() {
				for n := range 200 {
					if p.conn.Send(t.Context(), fmt.Appendf(nil, "%d", n)) != nil {
						return
					}
					sent[i].Add(1)
				}
			}()
		}
		for n := range 200 {
			fast.want(fmt.Sprint(n))
		}
		synctest.Wait()
		if got := sent[0].Load(); got != 10 || sent[1].Load() != 200 {
			t.Errorf("%d were queued for the one that does not read, %d for the other", got, sent[1].Load())
		}
		for n := range 200 { // slowly, and it is not closed
			time.Sleep(9 * time.Second)
			slow.want(fmt.Sprint(n))
			if got := sent[0].Load(); got > int64(n)+11 {
				t.Fatalf("%d were queued when %d had been read", got, n)
			}
		}
		for _, p := range []*peer{slow, fast} {
			if err := p.hangUp(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAClientThatTakesNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 4)
		p := connectPipe(t, &script{req: func(ctx context.Context, r *Request) {
			r.Reply("blocks, as the queue is full")
			ended <- nil
		}}, Options{QueueFrames: 1})
		start := time.Now()
		for range 3 {
			go func() { ended <- p.conn.Send(context.Background(), []byte(`1`), []byte(`2`)) }()
			synctest.Wait()
		}
		p.send(`{"id":1,"method":"m"}`)
		err := <-p.done
		if d := time.Since(start); err == nil || d != 10*time.Second {
			t.Errorf("%v after %v", err, d)
		}
		var closed *CloseError
		if _, err := p.Read(); !errors.As(err, &closed) || closed.Status != StatusTryLater || closed.Reason != "slow consumer: nothing was taken for 10s" {
			t.Errorf("%v", err)
		}
		var failed int
		for range 4 {
			if errors.Is(<-ended, ErrClosed) {
				failed++
			}
		}
		if failed != 2 { // the first had room, the reply has no error
			t.Errorf("%d sends failed", failed)
		}
		p.stop()
	})
}

func TestSendEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{QueueFrames: 1})
		if err := p.conn.Send(t.Context(), []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.conn.Send(ctx, []byte(`given up`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		p.want(`1`)
		p.alive() // and nothing of the other
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFramesOfOneCallStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{QueueFrames: 4, QueueBytes: 20})
		const senders, calls = 5, 40
		for s := range senders {
			go func() {
				for n := range calls {
					a, b, c := fmt.Appendf(nil, "%d %d a", s, n), fmt.Appendf(nil, "%d %d b", s, n), fmt.Appendf(nil, "%d %d c", s, n)
					if err := p.conn.Send(context.Background(), a, b, c); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		next := make([]int, senders)
		for range senders * calls {
			var s, n int
			if _, err := fmt.Sscanf(p.recv(), "%d %d a", &s, &n); err != nil || n != next[s] {
				t.Fatalf("sender %d: call %d instead of %d, %v", s, n, next[s], err)
			}
			next[s]++
			p.want(fmt.Sprintf("%d %d b", s, n))
			p.want(fmt.Sprintf("%d %d c", s, n))
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAReplyComesBeforeWhatIsSentAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pipe()
		conn := NewConn(server, Options{QueueFrames: 2})
		done := make(chan error)
		go func() {
			done <- conn.Serve(t.Context(), &script{req: func(ctx context.Context, r *Request) {
				_ = conn.Send(ctx, []byte(`"before"`))
				r.Reply("reply")
				_ = conn.Send(ctx, []byte(`"after"`), []byte(`"after that"`))
			}})
		}()
		p := &peer{t: t, Transport: client, conn: conn, stop: func() {}, done: done}
		for i := range 100 {
			p.send(`{"id":%d,"method":"m"}`, i)
			p.want(`"before"`)
			p.want(fmt.Sprintf(`{"id":%d,"result":"reply"}`, i))
			p.want(`"after"`)
			p.want(`"after that"`)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAFloodOfGarbageToAClientThatDoesNotRead is stopped by the limit for writing,
// with bounded memory.
func TestAFloodOfGarbageToAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{})
		start, n := time.Now(), 0
		for p.Write([]byte(`{`)) == nil {
			n++
		}
		if err := <-p.done; err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if n < forced.frames || n > forced.frames+1000 {
			t.Errorf("%d were taken", n)
		}
		p.stop()
	})
}

func TestSendBeforeServeIsDeliveredFirst(t *testing.T) {
	client, server := Pipe()
	conn := NewConn(server, Options{})
	if err := conn.Send(t.Context(), []byte(`"hello"`)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- conn.Serve(context.Background(), &script{}) }()
	p := &peer{t: t, Transport: client, conn: conn, stop: func() {}, done: done}
	p.want(`"hello"`)
	p.alive()
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
}

// A pinged is the end of a pipe with pings.
type pinged struct {
	Transport
	answers bool
	pong    func()
	pings   []time.Duration
	start   time.Time
}

func (p *pinged) watch(pong, _ func()) { p.pong, p.start = pong, time.Now() }

func (p *pinged) ping() error {
	p.pings = append(p.pings, time.Since(p.start))
	if p.answers {
		p.pong()
	}
	return nil
}

func TestAClientThatLeavesTwoPingsIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pipe()
		end := &pinged{Transport: server}
		p := connect(t, client, end, &script{}, Options{})
		time.Sleep(10 * time.Second)
		p.alive()
		start := time.Now()
		if err := <-p.done; err == nil || time.Since(start) != 50*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if want := fmt.Sprint([]time.Duration{20 * time.Second, 40 * time.Second}); fmt.Sprint(end.pings) != want {
			t.Errorf("pinged at %v", end.pings)
		}
		p.stop()
	})
}

func TestAClientThatAnswersPingsOrSendsLives(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			client, server := Pipe()
			end := &pinged{Transport: server, answers: answers}
			p := connect(t, client, end, &script{}, Options{PingEvery: time.Minute})
			for range 10 {
				time.Sleep(100 * time.Second)
				if !answers {
					p.alive()
				}
			}
			p.alive()
			if err := p.hangUp(); err != nil || len(end.pings) != 16 {
				t.Errorf("%v after %d pings", err, len(end.pings))
			}
		})
	}
}

// TestASlowReaderIsNotTakenForDead: its answers to pings wait behind what it reads.
func TestASlowReaderIsNotTakenForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pipe()
		p := connect(t, client, &pinged{Transport: server}, &script{}, Options{})
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			for i := 0; p.conn.Send(context.Background(), fmt.Append(nil, i)) == nil; i++ {
				time.Sleep(time.Second)
			}
		})
		for i := range 100 {
			time.Sleep(5 * time.Second)
			p.want(fmt.Sprint(i))
		}
		if err := p.hangUp(); err != nil {
			t.Error(err)
		}
	})
}

// TestQueueIsLeftInAnyOrder: who gives up waiting takes nobody's place along.
func TestQueueIsLeftInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(usage{1, 100})
		if err := q.put(t.Context(), usage{1, 1}, []byte("0")); err != nil {
			t.Fatal(err)
		}
		var cancels []context.CancelFunc
		got := make([]error, 5)
		for i := range got {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			go func() { got[i] = q.put(ctx, usage{1, 1}, fmt.Append(nil, i+1)) }()
			synctest.Wait()
		}
		cancels[0]()
		cancels[3]()
		synctest.Wait()
		var out bytes.Buffer
		var frames []frame
		for range 4 {
			frames, _, _ = q.next(frames)
			for _, f := range frames {
				out.Write(f.bytes)
			}
			q.written(frames)
			synctest.Wait()
		}
		if out.String() != "0235" || q.used != (usage{}) {
			t.Errorf("%s, %+v", &out, q.used)
		}
		for i, err := range got {
			if want := i == 0 || i == 3; errors.Is(err, context.Canceled) != want {
				t.Errorf("call %d: %v", i+1, err)
			}
		}
	})
}
