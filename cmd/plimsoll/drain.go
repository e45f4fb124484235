package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads"
)

// tellAfter is how long those who follow may take to be told how their turns ended.
const tellAfter = 2 * time.Second

// drain takes no more work, and returns when what ran is interrupted and journaled
// and those who follow were told of it, as far as they take it in time. Connections
// stay open, and requests are refused: the server is closing. It does it once.
func (s *server) drain() {
	s.drained.Do(func() {
		s.api.Refuse()
		s.unlist()
		s.interrupt()
		ctx, cancel := context.WithTimeout(context.Background(), tellAfter)
		defer cancel()
		s.api.CatchUp(ctx)
	})
}

// unlist takes the home's socket away: who comes now waits for the home and gets
// all of it, instead of a server that is about to end. Who is connected stays.
func (r *running) unlist() {
	_ = os.Remove(r.home.path(socketFile)) // or it is gone already
}

// interrupt stops both services. What does not stop in time is for Close to report.
func (r *running) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), stopAfter)
	defer cancel()
	var wg sync.WaitGroup
	for _, svc := range []*threads.Service{r.svc, r.ephemeral} {
		wg.Go(func() { _ = svc.Stop(ctx) })
	}
	wg.Wait()
}

// end stops the server in order.
func (s *server) end() {
	s.drain()
	s.stop()
}
