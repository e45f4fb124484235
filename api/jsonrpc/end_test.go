package jsonrpc

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestContextEndsAConnectionInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{req: func(ctx context.Context, r *Request) {
			<-ctx.Done()
			r.Reply("too late")
		}}, Options{})
		p.send(`{"id":1,"method":"m"}`)
		if err := p.conn.Send(t.Context(), []byte(`"queued"`), []byte(`"before"`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.stop()
		p.want(`"queued"`)
		p.want(`"before"`)
		var closed *CloseError
		if _, err := p.Read(); !errors.As(err, &closed) || closed.Status != StatusGoingAway || closed.Reason == "" {
			t.Errorf("%v", err)
		}
		if err := <-p.done; err != nil {
			t.Error(err)
		}
		if err := p.conn.Send(t.Context(), []byte(`1`)); !errors.Is(err, ErrClosed) {
			t.Errorf("send after the end: %v", err)
		}
	})
}

func TestCloseGivesUpOnAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{}, Options{})
		if err := p.conn.Send(t.Context(), []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		p.conn.Close(4401, "token replaced")
		if err := <-p.done; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != closeTime {
			t.Errorf("after %v", d)
		}
		var closed *CloseError
		if _, err := p.Read(); !errors.As(err, &closed) || *closed != (CloseError{4401, "token replaced"}) || errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
		p.stop()
	})
}

func TestWhatWasReadIsHandledAfterAnEndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled []string
		var errs []error
		p := connectPipe(t, &script{req: func(ctx context.Context, r *Request) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			handled = append(handled, r.Method)
			errs = append(errs, ctx.Err())
			r.Reply(1)
		}}, Options{})
		for i := range 5 {
			p.send(`{"id":%d,"method":"%d"}`, i, i)
		}
		start := time.Now()
		if err := p.hangUp(); err != nil {
			t.Error(err)
		}
		if len(handled) != 5 || errors.Join(errs...) != nil || time.Since(start) != 5*time.Second {
			t.Errorf("%v, %v after %v", handled, errs, time.Since(start))
		}
	})
}

// TestAWriteThatFailsDoesNotHideAnEndInOrder: it may be noticed first.
func TestAWriteThatFailsDoesNotHideAnEndInOrder(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			handled := 0
			p := connectPipe(t, &script{req: func(ctx context.Context, r *Request) {
				select {
				case <-time.After(time.Second):
					handled++
				case <-ctx.Done():
				}
			}}, Options{})
			for i := range 3 {
				p.send(`{"id":%d,"method":"m"}`, i)
			}
			if err := p.conn.Send(t.Context(), []byte(`"being written"`)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_ = p.Close(StatusNormal, "")
			if err := <-p.done; err != nil || handled != 3 {
				t.Errorf("%d handled, %v", handled, err)
			}
			p.stop()
		})
	}
}

func TestHandlersAreGivenUpSomeTimeAfterAnEndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectPipe(t, &script{req: func(ctx context.Context, r *Request) { <-ctx.Done() }}, Options{})
		p.send(`{"id":1,"method":"for ever"}`)
		start := time.Now()
		if err := p.hangUp(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != drainTime {
			t.Errorf("after %v", d)
		}
	})
}

func TestABrokenConnectionEndsItsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		p := connectPipe(t, &script{req: func(ctx context.Context, r *Request) { ran++; <-ctx.Done() }}, Options{})
		p.send(`{"id":1,"method":"m"}`)
		p.send(`{"id":2,"method":"waits"}`)
		synctest.Wait()
		_ = p.Close(1002, "protocol error")
		var closed *CloseError
		if err := <-p.done; !errors.As(err, &closed) || closed.Status != 1002 {
			t.Errorf("%v", err)
		}
		if ran != 1 {
			t.Errorf("%d ran", ran)
		}
		p.stop()
	})
}
