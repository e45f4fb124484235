package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestALingeringConnectionTellsWhatARequestSetOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		answered, over := make(chan struct{}), make(chan struct{})
		tr := Lingering(Lines(strings.NewReader(`{"id":1,"method":"m","params":[1]}`+"\n"), &out, func() error { return nil }), func(context.Context) {
			close(answered)
			<-over
		})
		conn := NewConn(tr, Options{})
		go func() {
			defer close(over)
			<-answered
			if err := conn.Send(context.Background(), []byte(`{"method":"late"}`)); err != nil {
				t.Error(err)
			}
		}()
		if err := conn.Serve(t.Context(), &script{}); err != nil {
			t.Error(err)
		}
		if got, want := out.String(), `{"id":1,"result":[1]}`+"\n"+`{"method":"late"}`+"\n"; got != want {
			t.Errorf("got %q", got)
		}
	})
}

func TestLingeringEndsWhenNobodyCanBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		tr := Lingering(Lines(strings.NewReader(""), io.Discard, func() error { return nil }), func(ctx context.Context) {
			stop()
			<-ctx.Done()
		})
		if err := Serve(ctx, tr, &script{}, Options{}); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestLingeringEndsWhenTheOutputIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		tr := Lingering(Lines(strings.NewReader(""), &scribbler{err: errors.New("broken pipe")}, func() error { return nil }), func(ctx context.Context) {
			if err := conn.Send(context.Background(), []byte(`1`)); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
		})
		conn = NewConn(tr, Options{})
		if err := conn.Serve(t.Context(), &script{}); err != nil {
			t.Error(err)
		}
	})
}
