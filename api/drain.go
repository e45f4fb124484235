package api

import (
	"context"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// CatchUp returns when everybody who follows was sent everything that there is by
// now, or ctx is done. A server that stops calls it between Service.Stop and the end
// of its Serve calls: so how the turns ended that it interrupted is told on every
// connection, before that is closed.
func (s *Server) CatchUp(ctx context.Context) {
	for _, h := range s.follow.list() {
		h.catchUp(ctx)
	}
}

// A hearer is told what happens.
type hearer interface {
	// catchUp returns when what there is by now was told, or ctx is done, or nothing
	// more will be told.
	catchUp(ctx context.Context)
}

// hearers are those of a Server.
type hearers struct {
	mu  sync.Mutex
	all map[hearer]struct{}
}

func (hs *hearers) add(h hearer) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.all == nil {
		hs.all = map[hearer]struct{}{}
	}
	hs.all[h] = struct{}{}
}

func (hs *hearers) remove(h hearer) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.all, h)
}

func (hs *hearers) list() []hearer {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	all := make([]hearer, 0, len(hs.all))
	for h := range hs.all {
		all = append(all, h)
	}
	return all
}

// lookAgain is how often it is looked whether a follower was told enough. Only who
// is about to end looks: a follower that idles holds nothing for it.
const lookAgain = 2 * time.Millisecond

// reached returns when told says that the newest event of svc was told, when ended
// says that nothing more will be, or ctx is done.
func reached(ctx context.Context, svc *threads.Service, thread transcript.ThreadID, told func() int64, ended func() bool) {
	newest, err := svc.Newest(ctx, thread)
	if err != nil {
		return // deleted, which is told
	}
	var again *time.Ticker
	for told() < newest.N && !ended() {
		if again == nil {
			again = time.NewTicker(lookAgain)
			defer again.Stop()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// guests are the WebSockets that are open or about to be. The zero guests let
// everybody in.
type guests struct {
	mu   sync.Mutex // guards what follows
	n    int
	shut bool          // nobody is let in any more
	left chan struct{} // closed when the last one leaves, if somebody wants to know
}

func (g *guests) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.n++
	return true
}

func (g *guests) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.left != nil {
		close(g.left)
		g.left = nil
	}
}

// Refuse lets no WebSocket in any more: who asks for one is answered with 503.
func (s *Server) Refuse() {
	s.guests.mu.Lock()
	defer s.guests.mu.Unlock()
	s.guests.shut = true
}

// RefuseIfAlone is Refuse if no WebSocket is open; else it returns false, and a
// channel that is closed when none is, for whoever then calls it again.
func (s *Server) RefuseIfAlone() (alone bool, left <-chan struct{}) {
	g := &s.guests
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.shut = true
		return true, nil
	}
	if g.left == nil {
		g.left = make(chan struct{})
	}
	return false, g.left
}
