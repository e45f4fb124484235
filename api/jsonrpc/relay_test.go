package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// relayed connects a client to a server by way of a relay, all in memory.
func relayed(t *testing.T, h Handler, o Options) (p *peer, relay chan error, stop context.CancelFunc) {
	t.Helper()
	serverEnd, relayUp := Pipe()
	p = connect(t, nil, serverEnd, h, Options{})
	client, relayDown := Pipe()
	p.Transport = client
	ctx, stop := context.WithCancel(context.Background())
	relay = make(chan error, 1)
	go func() { relay <- Relay(ctx, relayDown, relayUp, o) }()
	return p, relay, stop
}

func TestRelayCarriesEverythingBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, relay, stop := relayed(t, &script{}, Options{})
		defer stop()
		for i := range 500 {
			p.send(`{"id":%d,"method":"m","params":[%d]}`, i, i)
			p.want(fmt.Sprintf(`{"id":%d,"result":[%d]}`, i, i))
		}
		p.send(`no JSON`)
		if got := p.recv(); !strings.Contains(got, "-32700") {
			t.Error(got)
		}
		go func() {
			for i := range 1000 {
				if err := p.conn.Send(context.Background(), fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			}
		}()
		for i := range 1000 {
			p.want(fmt.Sprint(i))
		}
		if err := errors.Join(p.hangUp(), <-relay); err != nil {
			t.Error(err)
		}
	})
}

func TestRelayPassesOnHowTheServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, relay, stop := relayed(t, &script{}, Options{})
		defer stop()
		p.alive()
		if err := p.conn.Send(t.Context(), []byte(`"last"`)); err != nil {
			t.Fatal(err)
		}
		p.conn.Close(4401, "token replaced")
		p.want(`"last"`)
		var closed *CloseError
		if _, err := p.Read(); !errors.As(err, &closed) || *closed != (CloseError{4401, "token replaced"}) {
			t.Errorf("%v", err)
		}
		if err := <-relay; !errors.As(err, &closed) {
			t.Errorf("%v", err)
		}
		p.stop()
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	})
}

func TestRelayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, relay, stop := relayed(t, &script{}, Options{})
		p.alive()
		stop()
		if _, err := p.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
		if err := errors.Join(<-relay, <-p.done); err != nil {
			t.Error(err)
		}
		p.stop()
	})
}

func TestRelayEndsWithAClientThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, relay, stop := relayed(t, &script{}, Options{QueueFrames: 1})
		defer stop()
		start := time.Now()
		if err := p.conn.Send(t.Context(), []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		if err := <-relay; err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		p.stop()
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	})
}

func TestRelayBringsTheAnswersToStandardInputThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serverEnd, relayUp := Pipe()
		p := connect(t, nil, serverEnd, &script{req: func(_ context.Context, r *Request) {
			time.Sleep(time.Second)
			r.Reply(1)
		}}, Options{})
		var out bytes.Buffer
		in := strings.NewReader(`{"id":1,"method":"m"}` + "\n" + `{"method":"n"}` + "\n" + `{"id":2}` + "\n" + `{"id":"x","result":1}` + "\n" + `{"id":3,"method":"m"}`)
		start := time.Now()
		if err := Relay(t.Context(), Lines(in, &out, func() error { return nil }), relayUp, Options{}); err != nil {
			t.Error(err)
		}
		if got := strings.Count(out.String(), "\n"); got != 3 || time.Since(start) != 2*time.Second {
			t.Errorf("after %v:\n%s", time.Since(start), out.String())
		}
		if err := <-p.done; err != nil {
			t.Error(err)
		}
		p.stop()
	})
}

func TestRelayFromLinesToAUnixSocket(t *testing.T) {
	s := listen(t, "unix", scripted(&script{}), Options{})
	up, err := Dial(t.Context(), s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var in strings.Builder
	for i := range 50 {
		fmt.Fprintf(&in, `{"id":%d,"method":"m","params":%d}`+"\n", i, i)
	}
	if err := Relay(t.Context(), Lines(strings.NewReader(in.String()), &out, func() error { return nil }), up, Options{}); err != nil {
		t.Error(err)
	}
	var want strings.Builder
	for i := range 50 {
		fmt.Fprintf(&want, `{"id":%d,"result":%d}`+"\n", i, i)
	}
	if out.String() != want.String() {
		t.Errorf("%s", out.String())
	}
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// What a server may send, a relay reads: also what is larger than a frame of a
// client, such as an item whose text is 4 MiB of characters that JSON escapes.
func TestARelayOutlivesWhatItsServerMaySend(t *testing.T) {
	s := listen(t, "unix", scripted(&script{}), Options{})
	up, err := Dial(t.Context(), s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	owner := <-s.conns
	client, down := Pipe()
	relay := make(chan error, 1)
	go func() { relay <- Relay(t.Context(), down, up, Options{}) }()
	p := &peer{t: t, Transport: client}
	frame, err := json.Marshal(strings.Repeat("\x01", 4<<20))
	if err != nil || len(frame) <= MaxFrame {
		t.Fatalf("%d bytes, %v", len(frame), err)
	}
	if err := owner.Send(t.Context(), frame); err != nil {
		t.Fatal(err)
	}
	if got := p.recv(); got != string(frame) {
		t.Errorf("%d bytes, want %d", len(got), len(frame))
	}
	p.alive()
	if err := owner.Send(t.Context(), bytes.Repeat([]byte("1"), MaxMessage+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(); !strings.Contains(fmt.Sprint(err), "1009") {
		t.Errorf("the client is told %v", err)
	}
	var lost *ServerError
	if err := <-relay; !errors.As(err, &lost) || !errors.Is(err, ErrTooBig) || !strings.Contains(err.Error(), fmt.Sprint(MaxMessage)) {
		t.Errorf("%v", err)
	}
}

// A relay says whose end it was.
func TestARelayTellsTheServersEndFromTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, relay, stop := relayed(t, &script{}, Options{WriteTimeout: time.Second})
		defer stop()
		p.alive()
		for range 300 { // nobody reads them
			if p.conn.Send(t.Context(), bytes.Repeat([]byte("1"), 10_000)) != nil {
				break
			}
		}
		err := <-relay
		var lost *ServerError
		if err == nil || errors.As(err, &lost) || errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "took nothing") {
			t.Errorf("a client that does not read: %v", err)
		}
		p.stop()
		if err := <-p.done; err != nil {
			t.Logf("it ended with %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p, relay, stop := relayed(t, &script{}, Options{})
		defer stop()
		p.alive()
		p.conn.Close(StatusTryLater, "slow consumer")
		var lost *ServerError
		var closed *CloseError
		if err := <-relay; !errors.As(err, &lost) || !errors.As(err, &closed) || closed.Status != StatusTryLater {
			t.Errorf("a server that ends it: %v", err)
		}
		p.stop()
		if err := <-p.done; err != nil {
			t.Logf("it ended with %v", err)
		}
	})
}
