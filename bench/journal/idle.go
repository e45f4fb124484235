package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
)

const followers = 5000

// idleFollower returns the heap and stack that one follower of an idle thread
// holds, its goroutine and heartbeat timer included.
func idleFollower() (bytes float64, err error) {
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j, err := sqlite.Open(filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
	if err != nil {
		return 0, err
	}
	hub := events.NewHub(j, func(events.Event) events.TextChange { return events.TextChange{} })
	defer func() { err = errors.Join(err, hub.Close(), j.Close()) }()
	for i := range int64(1000) {
		a := events.Append{Thread: "t", Expect: i, Events: []events.Event{{Type: eventType, Data: payload()}}}
		if _, err := hub.Append(context.Background(), a); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	before := inUse()
	live := make(chan struct{}, followers)
	for range followers {
		done.Go(func() {
			for m, err := range hub.Follow(ctx, events.FollowQuery{Thread: "t", Heartbeat: time.Hour}) {
				if err != nil {
					return
				}
				if m.Kind == events.KindLive {
					live <- struct{}{}
				}
			}
		})
	}
	for range followers {
		<-live
	}
	return float64(inUse()-before) / followers, nil
}

// inUse collects until stacks that replaying the backlog grew are as small as
// they get: each collection halves a stack that uses less than a quarter.
func inUse() uint64 {
	for range 6 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
