package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"time"
)

// A pass is what a request is let in with: the hash of a token, and what it allows.
type pass struct {
	hash  [sha256.Size]byte
	scope Scope
}

func hashOf(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// admit returns the pass of a token that counts now. It compares hashes, so that the
// time it takes says nothing about the token.
func (s *Server) admit(hash [sha256.Size]byte) (pass, bool) {
	want, ok := s.token()
	if subtle.ConstantTimeCompare(hash[:], want[:]) == 1 && ok {
		return pass{hash, AllScopes}, true
	}
	if s.grants == nil {
		return pass{}, false
	}
	scope, ok := s.grants(hash)
	return pass{hash, scope}, ok
}

// counts reports whether a pass counts as it did: its token does, and allows the same.
func (s *Server) counts(p pass) bool {
	now, ok := s.admit(p.hash)
	return ok && now == p
}

// tokenOf returns the hash of the owner's token; false if there is none.
func tokenOf(o Options) func() ([sha256.Size]byte, bool) {
	if o.TokenHash != nil {
		return o.TokenHash
	}
	if o.Token == nil {
		return func() (none [sha256.Size]byte, ok bool) { return none, false }
	}
	return func() ([sha256.Size]byte, bool) {
		token := o.Token()
		return hashOf(token), token != ""
	}
}

// A term is the time for which a token counts. Its context ends with it, and the
// streams and WebSockets that were let in with the token end with its context; a
// WebSocket is closed with 4401.
type term struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	open   int // streams; guarded by the mu of its streams
}

// errReplaced is why a term ended.
var errReplaced = unauthorized("the token that this was opened with has been replaced: send the new one")

// join returns the term of a pass with one more stream. The first one of a term
// starts the one goroutine that watches the token for all of them. The caller
// holds g.mu.
func (g *streams) join(s *Server, p pass) *term {
	t := g.terms[p]
	if t == nil {
		t = &term{}
		t.ctx, t.cancel = context.WithCancelCause(g.ctx)
		if g.terms == nil {
			g.terms = map[pass]*term{}
		}
		g.terms[p] = t
		g.wg.Go(func() { g.watch(s, p, t) })
	}
	t.open++
	return t
}

// leave counts a stream out of its term. The last one ends it.
func (g *streams) leave(p pass, t *term) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.open--; t.open == 0 {
		g.end(p, t, nil)
	}
}

// end ends a term for those that are in it, and for those that would join. The
// caller holds g.mu.
func (g *streams) end(p pass, t *term, why error) {
	if g.terms[p] == t {
		delete(g.terms, p)
	}
	t.cancel(why)
}

// watch ends a term once its token is not the server's any more.
func (g *streams) watch(s *Server, p pass, t *term) {
	tick := time.NewTicker(s.timing.token)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		if s.counts(p) {
			continue
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		s.log.Info("the token was replaced: streams end", slog.Int("streams", t.open))
		g.end(p, t, errReplaced)
		return
	}
}
