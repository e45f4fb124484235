package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What is pushed has the place of its Push, and a slot that is not used, however
// large, keeps nobody out but other slots.
func TestASlotThatIsNotUsedKeepsOutOnlyOtherSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{QueueFrames: 4, QueueBytes: 100})
		first, err := p.conn.Reserve(t.Context(), 9, 1000)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan *Slot)
		go func() {
			s, err := p.conn.Reserve(t.Context(), 1, 1)
			if err != nil {
				t.Error(err)
			}
			second <- s
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("a second slot was given away, beyond the bounds")
		default:
		}
		if err := p.conn.Send(t.Context(), []byte(`"sent"`)); err != nil {
			t.Fatal(err)
		}
		p.want(`"sent"`)
		p.alive() // a reply
		if err := first.Push([]byte(`"pushed 1"`), []byte(`"pushed 2"`)); err != nil {
			t.Fatal(err)
		}
		p.want(`"pushed 1"`)
		p.want(`"pushed 2"`)
		s := <-second
		if err := first.Push([]byte(`"again"`)); err == nil {
			t.Error("a slot was used twice")
		}
		s.Release()
		s.Release()
		p.alive()
		if u := p.conn.out.idle; u != (usage{}) {
			t.Errorf("%+v are reserved", u)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

// Pushing never blocks, also if the queue was filled by others meanwhile.
func TestAPushDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{QueueFrames: 2})
		s, err := p.conn.Reserve(t.Context(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		blocked := make(chan error, 1)
		go func() {
			for i := range 3 {
				if err := p.conn.Send(t.Context(), fmt.Appendf(nil, "%d", i)); err != nil {
					blocked <- err
				}
			}
			blocked <- nil
		}()
		synctest.Wait()
		start := time.Now()
		if err := s.Push([]byte(`9`)); err != nil || time.Since(start) > 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		for _, want := range []string{"0", "1", "9", "2"} {
			p.want(want)
		}
		if err := <-blocked; err != nil {
			t.Error(err)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestASlotEndsWithItsContextAndItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{QueueFrames: 1})
		s, err := p.conn.Reserve(t.Context(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.conn.Reserve(ctx, 1, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		waits := make(chan error, 1)
		go func() { _, err := p.conn.Reserve(t.Context(), 1, 1); waits <- err }()
		synctest.Wait()
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
		if err := <-waits; !errors.Is(err, ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		if err := s.Push([]byte(`1`)); !errors.Is(err, ErrClosed) {
			t.Errorf("a push after the end: %v", err)
		}
	})
}
