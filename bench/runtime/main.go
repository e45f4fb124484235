// Command runtime measures what a turn of a program that keeps its own history costs
// this process, and whether one that floods delays the threads of others.
//
//	go run ./bench/runtime
//
// The program is this command once more, a child per thread as codex would be, that
// speaks codex's wire over its standard I/O and has no model behind it; its CPU is not
// counted. The turns go through the whole service and the real journal. The targets
// are 1 ms of CPU per turn and 20 µs per delta, and that a thread's turns beside a flood
// wait for a core, not for the flood's end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/codex"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func main() {
	run := func() error { return measure() }
	if slices.Contains(os.Args, "app-server") {
		run = servePeer
	} else {
		flag.Parse()
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/runtime:", err)
		os.Exit(1)
	}
}

const (
	turns  = 400
	deltas = 20_000
)

func measure() (err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	svc, err := openService(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.Close(context.WithoutCancel(ctx))) }()
	calm, err := open(ctx, svc)
	if err != nil {
		return err
	}
	defer calm.close()
	flood, err := open(ctx, svc)
	if err != nil {
		return err
	}
	defer flood.close()
	if err := alone(ctx, calm, flood); err != nil {
		return err
	}
	return beside(ctx, calm, flood)
}

func openService(ctx context.Context, dir string) (*threads.Service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	j, err := sqlite.Open(filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	program := codex.New(codex.Options{Program: self, Home: dir, LeaseDir: filepath.Join(dir, "leases"), Env: []string{"HOME=" + dir}})
	return threads.Open(ctx, threads.Config{Journal: j, Providers: []threads.Provider{{Name: "bench", Kind: "codex", Adapter: program}}})
}

// alone measures turns, and deltas, with nothing else to do.
func alone(ctx context.Context, calm, flood *talk) error {
	took := []time.Duration{}
	cpu, err := spend(func() (err error) { took, err = calm.say(ctx, "hello", turns); return err })
	if err != nil {
		return err
	}
	fmt.Printf("a turn                 %8v of CPU, median %v, p95 %v (%d turns)\n", cpu/turns, at(took, 50), at(took, 95), turns)
	cpu, err = spend(func() error { _, err := flood.say(ctx, "flood 1", 1); return err })
	if err != nil {
		return err
	}
	fmt.Printf("a delta                %8v of CPU (%d deltas, followed; target 20 µs)\n", cpu/deltas, deltas)
	return nil
}

// beside measures turns of one thread while another one floods.
func beside(ctx context.Context, calm, flood *talk) error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, err := flood.say(ctx, "flood 1000", 1)
		ended <- err
	}()
	took, err := calm.say(ctx, "hello", turns)
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the flood was over before the turns were: %w", err)
	default:
	}
	fmt.Printf("a turn beside a flood  median %v, p95 %v\n", at(took, 50), at(took, 95))
	return nil
}

// A talk is a thread, and somebody who follows it.
type talk struct {
	svc   *threads.Service
	id    transcript.ThreadID
	ended chan transcript.Turn
	close context.CancelFunc
}

func open(ctx context.Context, svc *threads.Service) (*talk, error) {
	th, err := svc.CreateThread(ctx, threads.CreateParams{})
	if err != nil {
		return nil, err
	}
	t := &talk{svc: svc, id: th.Thread.ID, ended: make(chan transcript.Turn, 1)}
	ctx, t.close = context.WithCancel(ctx)
	go t.follow(ctx)
	return t, nil
}

func (t *talk) follow(ctx context.Context) {
	for m, err := range t.svc.Follow(ctx, t.id, nil, time.Hour) {
		if err != nil {
			return
		}
		if m.Kind != events.KindEvent || m.Event.Type != (threads.TurnCompleted{}).EventType() {
			continue
		}
		if p, err := threads.Decode(m.Event); err == nil {
			t.ended <- p.(threads.TurnCompleted).Turn
		}
	}
}

// say makes n turns, one after the other, and returns how long each took.
func (t *talk) say(ctx context.Context, text string, n int) ([]time.Duration, error) {
	var took []time.Duration
	for range n {
		begun := time.Now()
		if _, err := t.svc.StartTurn(ctx, threads.StartTurnParams{Thread: t.id, Input: transcript.TextParts(text)}); err != nil {
			return nil, err
		}
		select {
		case turn := <-t.ended:
			if turn.Status != transcript.TurnCompleted {
				return nil, fmt.Errorf("a turn ended %s: %+v", turn.Status, turn.Error)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took, nil
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(10 * time.Microsecond)
}

func spend(f func() error) (time.Duration, error) {
	before, err := used()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := used()
	return after - before, err
}

func used() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
