package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
)

const importMiB = 64

// A beside is what others waited at most while an import ran.
type beside struct {
	whole, append, follow time.Duration
}

// besideImport appends to one thread, and subscribes to it, one after the other,
// while an import into another thread is one append.
func besideImport() (b beside, err error) {
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j, err := sqlite.Open(filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
	if err != nil {
		return b, err
	}
	hub := events.NewHub(j, func(events.Event) events.TextChange { return events.TextChange{} })
	defer func() { err = errors.Join(err, hub.Close(), j.Close()) }()
	if err := appendOne(hub, 0); err != nil {
		return b, err
	}
	imported := make(chan error, 1)
	start := time.Now()
	go func() {
		a := events.Append{Thread: "import"}
		for range importMiB << 20 / size {
			a.Events = append(a.Events, events.Event{Type: eventType, Data: payload()})
		}
		_, err := hub.Append(context.Background(), a)
		b.whole = time.Since(start)
		imported <- err
	}()
	for head := int64(1); ; head++ {
		select {
		case err := <-imported:
			return b, err
		default:
		}
		t := time.Now()
		if err := follow(hub, head); err != nil {
			return b, errors.Join(err, <-imported)
		}
		b.follow = max(b.follow, time.Since(t))
		t = time.Now()
		if err := appendOne(hub, head); err != nil {
			return b, errors.Join(err, <-imported)
		}
		b.append = max(b.append, time.Since(t))
	}
}

func appendOne(hub *events.Hub, head int64) error {
	a := events.Append{Thread: "t", Expect: head, Events: []events.Event{{Type: eventType, Data: payload()}}}
	_, err := hub.Append(context.Background(), a)
	return err
}

// follow subscribes to the newest event and leaves once it is live.
func follow(hub *events.Hub, head int64) error {
	at, err := hub.Head(context.Background(), "t")
	if err != nil {
		return err
	}
	if at.N != head {
		return fmt.Errorf("the thread is at %d, want %d", at.N, head)
	}
	for m, err := range hub.Follow(context.Background(), events.FollowQuery{Thread: "t", After: &at}) {
		if err != nil || m.Kind == events.KindLive {
			return err
		}
	}
	return errors.New("the sequence ended")
}
