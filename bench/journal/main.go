// Command journal measures what the journal costs beside bare SQLite, what
// group commit gains, how long an import holds up others, and what an idle
// follower holds. It prints a table.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
)

const (
	runs      = 5
	eventType = "item/completed"
	size      = 1000 // bytes of an event's data
	single    = 4000 // appends of one producer per run
	producers = 64
	each      = 400 // appends of each of many producers per run
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/journal:", err)
		os.Exit(1)
	}
}

func run() error {
	data := payload()
	var raw, one, many []float64
	for range runs {
		for _, m := range []struct {
			to   *[]float64
			n    int
			work func(dir string) (time.Duration, error)
		}{
			{&raw, single, func(dir string) (time.Duration, error) { return rawLoop(dir, single, data) }},
			{&one, single, func(dir string) (time.Duration, error) { return appends(dir, 1, single, data) }},
			{&many, producers * each, func(dir string) (time.Duration, error) { return appends(dir, producers, each, data) }},
		} {
			rate, err := measure(m.n, m.work)
			if err != nil {
				return err
			}
			*m.to = append(*m.to, rate)
		}
	}
	imp, err := besideImport()
	if err != nil {
		return err
	}
	idle, err := idleFollower()
	if err != nil {
		return err
	}
	r, o, p := median(raw), median(one), median(many)
	fmt.Printf("%d-byte events, synchronous=FULL, median of %d alternating runs\n\n", size, runs)
	fmt.Printf("%-34s %10.0f /s  %s\n", "raw insert loop", r, spread(raw))
	fmt.Printf("%-34s %10.0f /s  %s  %.0f %% of raw (target 75 %%)\n", "append, 1 producer", o, spread(one), 100*o/r)
	fmt.Printf("%-34s %10.0f /s  %s  %.1f x one producer (target 4 x)\n", fmt.Sprintf("append, %d producers", producers), p, spread(many), p/o)
	fmt.Printf("%-34s %10.0f ms  while one append of %d MiB took %.0f ms\n", "longest append beside an import",
		imp.append.Seconds()*1e3, importMiB, imp.whole.Seconds()*1e3)
	fmt.Printf("%-34s %10.0f ms  from subscribing to live\n", "longest subscription beside it", imp.follow.Seconds()*1e3)
	fmt.Printf("%-34s %10.0f bytes (budget of a whole subscriber: 20,000)\n", "idle follower", idle)
	return nil
}

func payload() []byte {
	return []byte(`{"text":"` + strings.Repeat("x", size-11) + `"}`)
}

func measure(n int, work func(dir string) (time.Duration, error)) (rate float64, err error) {
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	took, err := work(dir)
	return float64(n) / took.Seconds(), err
}

// appends has each of many producers append n events, one by one, to a thread
// of its own.
func appends(dir string, producers, n int, data []byte) (took time.Duration, err error) {
	j, err := sqlite.Open(filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	errs := make(chan error, producers)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			errs <- produce(j, fmt.Sprintf("thread-%d", p), n, data)
		})
	}
	wg.Wait()
	took = time.Since(start)
	for range producers {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	return took, j.Close()
}

func produce(j events.Journal, thread string, n int, data []byte) error {
	for i := range int64(n) {
		a := events.Append{Thread: thread, Expect: i, Events: []events.Event{{Type: eventType, Data: bytes.Clone(data)}}}
		if _, err := j.Append(context.Background(), a); err != nil {
			return err
		}
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func spread(v []float64) string {
	return fmt.Sprintf("(%.0f–%.0f)", slices.Min(v), slices.Max(v))
}
