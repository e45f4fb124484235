package api

import (
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// BenchmarkDeltas sends 20,000 deltas of one item to one client over a WebSocket
// (codex.md §9): as fast as the model can, where those that wait are merged, and one
// by one, each when the client has the one before, so that none is. The client is in
// this process: cpu-ms/op, of both, is more than what the server takes.
func BenchmarkDeltas(b *testing.B) {
	for _, w := range []struct {
		name string
		each bool
	}{{"Flood", false}, {"OneByOne", true}} {
		b.Run(w.name, func(b *testing.B) {
			d := open(b)
			tcp, stop := d.listen("tcp", "127.0.0.1:0", d.server.Serve)
			c := d.mustDialWS("ws://"+tcp, bearer(testToken))
			c.hello("bench", "")
			thread := c.start("puppet")
			start := cpuTime(b)
			frames := 0
			for b.Loop() {
				frames += deltas(b, d, c, thread, 20_000, w.each)
			}
			b.ReportMetric(float64((cpuTime(b)-start).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(frames)/float64(b.N), "frames/op")
			c.close()
			stop()
		})
	}
}

// deltas runs a turn of n deltas and returns how many frames they came in.
func deltas(b *testing.B, d *door, c *caller, thread string, n int, each bool) (frames int) {
	b.Helper()
	c.say(thread, "go")
	got := make(chan struct{}, 1)
	go func() {
		for i := range n {
			if each && i > 0 {
				<-got
			}
			d.puppet.chunks <- text("word ")
		}
		if each {
			<-got
		}
		d.puppet.chunks <- done()
	}()
	size := 0
	for {
		f := c.next()
		c.seen = c.seen[:0]
		switch f.Method {
		case methodMessageDelta:
			size += len(decodeParams[protocol.AgentMessageDeltaParams](b, f).Delta)
			frames++
			if each {
				got <- struct{}{}
			}
		case "turn/completed":
			if size != n*len("word ") {
				b.Fatalf("%d bytes came, want %d", size, n*len("word "))
			}
			return frames
		}
	}
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
