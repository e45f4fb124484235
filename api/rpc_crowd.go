package api

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A crowd knows which connections follow a thread, which of them could not deal with
// what they were asked, and which keep an ephemeral thread.
type crowd struct {
	mu        sync.Mutex // guards what follows; nothing else is locked while it is held
	followers map[transcript.ThreadID]peers
	users     map[transcript.ThreadID]peers
	holds     map[*peer]map[transcript.ThreadID]bool // users the other way round
	failures  map[transcript.ThreadID]map[threads.RequestID][]failed
}

type peers map[*peer]bool

// failed is the answer of a connection that could not deal with a request.
type failed struct {
	who  *peer
	text string
}

// add adds a connection to those of a thread.
func add(of *map[transcript.ThreadID]peers, id transcript.ThreadID, p *peer) {
	if *of == nil {
		*of = map[transcript.ThreadID]peers{}
	}
	if (*of)[id] == nil {
		(*of)[id] = peers{}
	}
	(*of)[id][p] = true
}

func remove(of map[transcript.ThreadID]peers, id transcript.ThreadID, p *peer) {
	if delete(of[id], p); len(of[id]) == 0 {
		delete(of, id)
	}
}

// follow notes that a connection follows a thread.
func (c *crowd) follow(id transcript.ThreadID, p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.followers, id, p)
}

// part is the end of follow.
func (c *crowd) part(id transcript.ThreadID, p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	remove(c.followers, id, p)
	for request := range c.failures[id] {
		c.retract(id, request, p)
	}
}

// fail notes that a connection could not deal with a request.
func (c *crowd) fail(id transcript.ThreadID, request threads.RequestID, f failed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retract(id, request, f.who)
	if c.failures == nil {
		c.failures = map[transcript.ThreadID]map[threads.RequestID][]failed{}
	}
	if c.failures[id] == nil {
		c.failures[id] = map[threads.RequestID][]failed{}
	}
	c.failures[id][request] = append(c.failures[id][request], f)
}

// asks notes that a connection is asked: it may be able to deal with it now.
func (c *crowd) asks(id transcript.ThreadID, request threads.RequestID, p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retract(id, request, p)
}

func (c *crowd) retract(id transcript.ThreadID, request threads.RequestID, p *peer) {
	left := slices.DeleteFunc(c.failures[id][request], func(f failed) bool { return f.who == p })
	c.keepFailures(id, request, left)
}

// resolve forgets a request.
func (c *crowd) resolve(id transcript.ThreadID, request threads.RequestID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepFailures(id, request, nil)
}

func (c *crowd) keepFailures(id transcript.ThreadID, request threads.RequestID, left []failed) {
	if len(left) > 0 {
		c.failures[id][request] = left
		return
	}
	if delete(c.failures[id], request); len(c.failures[id]) == 0 {
		delete(c.failures, id)
	}
}

// hopeless returns the requests of a thread that every connection which follows it
// could not deal with, and what the last of them said. There is hope if nobody
// follows: somebody may.
func (c *crowd) hopeless(id transcript.ThreadID) map[threads.RequestID]failed {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[threads.RequestID]failed{}
	for request, fs := range c.failures[id] {
		if n := len(c.followers[id]); n > 0 && n == len(fs) { // who leaves takes its failures along
			all[request] = fs[len(fs)-1]
		}
	}
	return all
}

// keep notes that a connection keeps an ephemeral thread.
func (c *crowd) keep(id transcript.ThreadID, p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.users, id, p)
	if c.holds == nil {
		c.holds = map[*peer]map[transcript.ThreadID]bool{}
	}
	if c.holds[p] == nil {
		c.holds[p] = map[transcript.ThreadID]bool{}
	}
	c.holds[p][id] = true
}

// release is the end of a connection. It returns the ephemeral threads that nobody
// keeps any more.
func (c *crowd) release(p *peer) []transcript.ThreadID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var unused []transcript.ThreadID
	for id := range c.holds[p] {
		if remove(c.users, id, p); c.users[id] == nil {
			unused = append(unused, id)
		}
	}
	delete(c.holds, p)
	return unused
}

// vanish forgets a thread that was deleted.
func (c *crowd) vanish(id transcript.ThreadID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.users[id] {
		if delete(c.holds[p], id); len(c.holds[p]) == 0 {
			delete(c.holds, p)
		}
	}
	delete(c.users, id)
	delete(c.failures, id)
}

// giveUp answers the requests of a thread that nobody who is there can deal with.
func (s *Server) giveUp(ctx context.Context, id transcript.ThreadID) {
	for request, f := range s.crowd.hopeless(id) {
		ctx := withClient(ctx, f.who.client.Load().name)
		err := s.service(id).Answer(ctx, id, request, threads.RequestAnswer{Failed: f.text}, clientOf(ctx))
		switch code := fault.CodeOf(err); {
		case err == nil, code == fault.Conflict, code == fault.NotFound:
			s.crowd.resolve(id, request) // also if somebody was faster
		case ctx.Err() == nil:
			s.log.Error("request not given up", slog.String("thread", string(id)), slog.Any("error", err))
		}
	}
}

// hold keeps an ephemeral thread as long as this connection is there.
func (p *peer) hold(id transcript.ThreadID) {
	if _, passing := p.server.passing.Load(id); passing {
		p.server.crowd.keep(id, p)
	}
}

// release lets go of ephemeral threads: those that nobody else uses are deleted.
func (p *peer) release() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second)
	defer cancel()
	for _, id := range p.server.crowd.release(p) {
		err := p.server.forget(ctx, id)
		if code := fault.CodeOf(err); err != nil && code != fault.NotFound && code != fault.Unavailable { // they end with their service
			p.log.Warn("ephemeral thread not deleted", slog.String("thread", string(id)), slog.Any("error", err))
		}
	}
}
