// Command turn measures what a plain turn on a chat-completions server costs this
// process beside the exchange itself, and whether a long tool argument stays
// linear.
//
//	go run ./bench/turn -turns 400
//
// The server of the model is a second process, so that its share of the CPU is not
// counted. Half of the exchanges are turns of a thread on the real journal, half are
// the same requests sent with net/http alone, alternating in rounds; the difference
// is what the turn costs. The targets are 1 ms of CPU and 4 commits per turn, and
// that an argument of 10 MB in pieces of 1 KB takes no more than 2.3 times as long as
// one of 5 MB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/chat"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func main() {
	turns := flag.Int("turns", 400, "turns of a round")
	rounds := flag.Int("rounds", 5, "rounds; the median counts")
	serving := flag.Bool("serve", false, "be the model server (used by the command itself)")
	flag.Parse()
	run := func() error { return measure(*turns, *rounds) }
	if *serving {
		run = serveModel
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/turn:", err)
		os.Exit(1)
	}
}

// counting counts commits.
type counting struct {
	events.Journal
	commits atomic.Int64
}

func (c *counting) Append(ctx context.Context, a events.Append) (int64, error) {
	c.commits.Add(1)
	return c.Journal.Append(ctx, a)
}

// measure runs the rounds and prints what came of them.
func measure(turns, rounds int) (err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, url, err := startServer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	journal, err := sqlite.Open(filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	counted := &counting{Journal: journal}
	svc, err := openService(ctx, counted, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.Close(context.WithoutCancel(ctx))) }()
	if err := plain(ctx, svc, counted, url, turns, rounds); err != nil {
		return err
	}
	return arguments(ctx, svc)
}

func openService(ctx context.Context, j events.Journal, url string) (*threads.Service, error) {
	model, err := chat.New(chat.Options{Name: "bench", BaseURL: url, ContextWindow: 1 << 24})
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return threads.Open(ctx, threads.Config{Journal: j, Providers: []threads.Provider{{Name: "bench", Kind: "chat", Adapter: agent.New(model)}}})
}

// plain compares turns with bare exchanges.
func plain(ctx context.Context, svc *threads.Service, counted *counting, url string, turns, rounds int) error {
	var ours, bare []time.Duration
	var commits float64
	for range rounds {
		th, err := svc.CreateThread(ctx, threads.CreateParams{})
		if err != nil {
			return err
		}
		begun := counted.commits.Load()
		spent, err := spend(func() error { return say(ctx, svc, th.Thread.ID, "hello", turns) })
		if err != nil {
			return err
		}
		ours = append(ours, spent/time.Duration(turns))
		commits = float64(counted.commits.Load()-begun) / float64(turns)
		bodies, err := lastBodies(url, turns)
		if err != nil {
			return err
		}
		spent, err = spend(func() error { return exchange(url, bodies) })
		if err != nil {
			return err
		}
		bare = append(bare, spent/time.Duration(turns))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	diff := ours[rounds/2] - bare[rounds/2]
	fmt.Printf("%d turns a round, each with all turns before it as its context; median of %d rounds\n", turns, rounds)
	fmt.Printf("  turn             %8v of CPU (%v to %v)\n", ours[rounds/2], ours[0], ours[rounds-1])
	fmt.Printf("  bare exchange    %8v of CPU (%v to %v)\n", bare[rounds/2], bare[0], bare[rounds-1])
	fmt.Printf("  beyond it        %8v of CPU per turn (target 1 ms)\n", diff)
	fmt.Printf("  commits          %8.1f per turn (target 4)\n", commits)
	return nil
}

// say makes turns, one after the other.
func say(ctx context.Context, svc *threads.Service, id transcript.ThreadID, text string, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan transcript.Turn, 1)
	failed := make(chan error, 1)
	go func() {
		for m, err := range svc.Follow(ctx, id, nil, time.Hour) {
			if err != nil {
				failed <- err
				return
			}
			if m.Kind != events.KindEvent || m.Event.Type != (threads.TurnCompleted{}).EventType() {
				continue
			}
			if p, err := threads.Decode(m.Event); err == nil {
				if done, ok := p.(threads.TurnCompleted); ok {
					ended <- done.Turn
				}
			}
		}
	}()
	for range n {
		if _, err := svc.StartTurn(ctx, threads.StartTurnParams{Thread: id, Input: transcript.TextParts(text)}); err != nil {
			return err
		}
		select {
		case turn := <-ended:
			if turn.Status != transcript.TurnCompleted {
				return fmt.Errorf("a turn ended %s: %+v", turn.Status, turn.Error)
			}
		case err := <-failed:
			return err
		}
	}
	return nil
}

// arguments times one call with a long argument. Its thread has no such tool, so the
// call is answered at once.
func arguments(ctx context.Context, svc *threads.Service) error {
	times := map[string]time.Duration{}
	for _, model := range []string{args5, args10} {
		var all []time.Duration
		for range 3 {
			th, err := svc.CreateThread(ctx, threads.CreateParams{Settings: threads.Settings{Model: model}})
			if err != nil {
				return err
			}
			begun := time.Now()
			if err := say(ctx, svc, th.Thread.ID, "call it", 1); err != nil {
				return err
			}
			all = append(all, time.Since(begun))
		}
		slices.Sort(all)
		times[model] = all[1]
	}
	fmt.Printf("a tool call whose argument comes in pieces of 1 KB, median of 3\n")
	fmt.Printf("  5 MB %v, 10 MB %v: %.2f times (target 2.3)\n", times[args5], times[args10], float64(times[args10])/float64(times[args5]))
	return nil
}
