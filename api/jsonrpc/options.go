package jsonrpc

import (
	"log/slog"
	"time"
)

// Options is what a connection runs with. Its zero value is useful.
type Options struct {
	// Logger is told how a connection ended, what was dropped and what panicked,
	// never what was in a frame. Nil: nothing is logged.
	Logger *slog.Logger
	// WriteTimeout is how long a client may take nothing at all: 10 s.
	WriteTimeout time.Duration
	// PingEvery is the time between two pings, where the transport has them: 20 s.
	// A client that left two unanswered, and sent nothing else, is gone.
	PingEvery time.Duration
	// QueueFrames and QueueBytes bound what waits for the client: 256 and 1 MiB. A
	// frame that is larger than QueueBytes waits alone.
	QueueFrames, QueueBytes int
	// MaxWaiting bounds the requests that wait in one lane: 64. Four times as many
	// may be unanswered in all.
	MaxWaiting int
	// MaxRunning bounds how many lanes run at a time: 8.
	MaxRunning int
}

func (o Options) orDefault() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.WriteTimeout = positive(o.WriteTimeout, 10*time.Second)
	o.PingEvery = positive(o.PingEvery, 20*time.Second)
	o.QueueFrames = positive(o.QueueFrames, 256)
	o.QueueBytes = positive(o.QueueBytes, 1<<20)
	o.MaxWaiting = positive(o.MaxWaiting, 64)
	o.MaxRunning = positive(o.MaxRunning, 8)
	return o
}

func positive[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
