package jsonrpc

import (
	"context"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// note is a notification of 200 bytes.
var note = []byte(`{"method":"item/agentMessage/delta","params":{"threadId":"0","turnId":"0","itemId":"0","delta":"` + strings.Repeat("d", 100) + `"}}`)

// nowhere is a transport that takes everything.
type nowhere struct{ end chan struct{} }

func (n nowhere) Read() ([]byte, error)   { <-n.end; return nil, io.EOF }
func (n nowhere) Write([]byte) error      { return nil }
func (n nowhere) Close(int, string) error { return nil }

func BenchmarkSend(b *testing.B) {
	n := nowhere{make(chan struct{})}
	c := NewConn(n, Options{})
	done := make(chan error)
	go func() { done <- c.Serve(context.Background(), &script{}) }()
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Send(b.Context(), note); err != nil {
			b.Fatal(err)
		}
	}
	close(n.end)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	frame := []byte(`{"id":12,"method":"thread/read","params":{"threadId":"0192f0c0-0000-7000-8000-000000000000","includeTurns":false}}`)
	trip := func(b *testing.B, tr Transport) {
		b.ReportAllocs()
		for b.Loop() {
			if err := tr.Write(frame); err != nil {
				b.Fatal(err)
			}
			if _, err := tr.Read(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("pipe", func(b *testing.B) {
		p := connectPipe(b, &script{}, Options{})
		trip(b, p)
		_ = p.hangUp()
	})
	b.Run("websocket", func(b *testing.B) {
		s := listen(b, "tcp", scripted(&script{}), Options{})
		trip(b, s.dial(b))
	})
}

// BenchmarkLargeReply is a reply of 1 MB.
func BenchmarkLargeReply(b *testing.B) {
	body := []byte(`[` + strings.Repeat(`{"type":"agentMessage","text":"abc"},`, 27_000) + `0]`)
	p := connectPipe(b, &script{req: func(_ context.Context, r *Request) { r.Reply(rawJSON(body)) }}, Options{})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p.send(`{"id":1,"method":"m"}`)
		p.recv()
	}
	_ = p.hangUp()
}

type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// BenchmarkDeltas sends 20,000 notifications of 200 bytes over a WebSocket to a
// client that reads as fast as it can, in this process too, but bare bytes.
func BenchmarkDeltas(b *testing.B) {
	for b.Loop() {
		s := listen(b, "tcp", scripted(&script{}), Options{})
		p := s.dial(b)
		raw := p.Transport.(*webSocket).s.Conn
		done := make(chan struct{})
		const n = 20_000
		go func() {
			_, _ = io.CopyN(io.Discard, raw, int64(n*(len(note)+4)))
			close(done)
		}()
		before, start := cpu(), time.Now()
		for range n {
			if err := p.conn.Send(b.Context(), note); err != nil {
				b.Fatal(err)
			}
		}
		<-done
		b.ReportMetric(float64((cpu()-before)/time.Microsecond)/1000, "cpu-ms")
		b.ReportMetric(float64(time.Since(start)/time.Microsecond)/1000, "wall-ms")
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle tells what a WebSocket takes that nobody uses, on both sides and on
// the server's: the client's is a bare socket.
func BenchmarkIdle(b *testing.B) {
	const n = 500
	for b.Loop() {
		s := listen(b, "unix", scripted(&script{}), Options{})
		ends := make([]io.Closer, n)
		warm := rawClient(b, s)
		defer warm.Close()
		before := memory()
		for i := range ends {
			ends[i] = rawClient(b, s)
		}
		b.ReportMetric(float64(memory()-before)/n, "B/conn")
		for _, c := range ends {
			_ = c.Close()
		}
		for range ends {
			if err := <-s.done; err == nil { // the clients leave without a word
				b.Fatal("ended in order")
			}
		}
	}
}

func memory() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
