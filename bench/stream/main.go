// Command stream measures what it costs to stream one answer to a client, and
// whether a client that hardly reads slows down the others.
//
//	go run ./bench/stream -deltas 20000
//
// It is done twice: with a model that says all it has at once, whose deltas reach
// the client merged, and with one that pauses after each, whose deltas are sent one
// by one and are more than the sockets between a slow client and here can hold.
//
// The server runs in this process on the real journal, in a temporary folder; the
// clients are a second process, so that their share of the CPU is not counted. The
// targets are 0.4 s of CPU for 20,000 deltas with every byte delivered, and that a
// reader of 1 KB a second costs the others no more than a tenth of their time and
// this process no memory that grows with what the reader has not read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
)

const token = "bench"

// pause is what one by one means: about as fast as a client can take single deltas.
const pause = 50 * time.Microsecond

func main() {
	deltas := flag.Int("deltas", 20_000, "deltas of a turn")
	rounds := flag.Int("rounds", 5, "turns of each kind; the median counts")
	client := flag.String("client", "", "run one client, `fast` or slow (used by the command itself)")
	flag.Parse()
	run := func() error { return serve(*deltas, *rounds) }
	if kind, target, ok := strings.Cut(*client, "@"); ok {
		run = func() error { return connect(kind, target) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/stream:", err)
		os.Exit(1)
	}
}

// serve runs the server and the clients, and prints what it measured.
func serve(deltas, rounds int) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	journal, err := sqlite.Open(filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	svc, err := threads.Open(ctx, threads.Config{
		Journal: journal,
		Providers: []threads.Provider{
			{Name: "at once", Kind: "hose", Adapter: agent.New(hose{pieces: deltas})},
			{Name: "one by one", Kind: "hose", Adapter: agent.New(hose{pieces: deltas, pause: pause})},
		},
	})
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, svc.Close(ctx))
	}
	served := make(chan error, 1)
	go func() {
		served <- api.New(api.Options{Service: svc, Token: func() string { return token }}).Serve(ctx, ln)
	}()
	err = errors.Join(
		measure(ctx, "at once", ln.Addr().String(), deltas, rounds),
		measure(ctx, "one by one", ln.Addr().String(), deltas, max(1, rounds/2)),
	)
	cancel()
	return errors.Join(err, <-served, svc.Close(context.WithoutCancel(ctx)))
}

// measure compares turns that one client watches with turns that a slow one
// watches too.
func measure(ctx context.Context, provider, address string, deltas, rounds int) error {
	fast, err := startClient(ctx, "fast@"+address+"/"+provider)
	if err != nil {
		return err
	}
	thread, err := fast.thread()
	if err != nil {
		return err
	}
	alone, err := fast.turns(rounds)
	if err != nil {
		return err
	}
	fmt.Printf("%d deltas, %s, to one client: %v of CPU here, %v until the client had all %d bytes in %d notifications (median of %d); resident memory %+d KB, which is the thread's own text\n",
		deltas, provider, alone.cpu.Round(time.Millisecond), alone.wall.Round(time.Millisecond), alone.bytes, alone.frames, rounds, alone.grown)
	slow, err := startClient(ctx, "slow@"+address+"/"+thread)
	if err != nil {
		return err
	}
	if err := slow.expect("live"); err != nil {
		return err
	}
	beside, err := fast.turns(rounds)
	if err != nil {
		return err
	}
	fmt.Printf("beside a reader of 1 KB a second: %v of CPU, %v until the other client had all (%+.0f %%); resident memory %+d KB\n",
		beside.cpu.Round(time.Millisecond), beside.wall.Round(time.Millisecond),
		100*(float64(beside.wall)/float64(alone.wall)-1), beside.grown)
	return errors.Join(slow.kill(), fast.stop())
}

// cpu returns the processor time that this process has used.
func cpu() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
