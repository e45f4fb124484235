package api

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// ServeLines is ServeConn for a transport that jsonrpc.Lines returned, such as
// standard input and output. When the client has ended its input and is answered,
// the connection stays until wait has returned, and the client is told what
// happened up to then in what it follows. The context of wait ends with the output.
func (s *Server) ServeLines(ctx context.Context, lines jsonrpc.Transport, wait func(context.Context)) error {
	p := s.newPeer(ctx)
	return p.serve(ctx, jsonrpc.Lingering(lines, func(ctx context.Context) {
		wait(ctx)
		p.catchUp(ctx)
	}))
}

// catchUp returns when the client was sent everything that the threads it follows
// have by now.
func (p *peer) catchUp(ctx context.Context) {
	p.mu.Lock()
	subs := make([]*subscription, 0, len(p.subs))
	for _, sub := range p.subs {
		subs = append(subs, sub)
	}
	p.mu.Unlock()
	for _, sub := range subs {
		sub.catchUp(ctx)
	}
}

// catchUp implements hearer: what is told is queued on the connection.
func (sub *subscription) catchUp(ctx context.Context) {
	reached(ctx, sub.peer.server.service(sub.thread), sub.thread, sub.told.Load, func() bool {
		select {
		case <-sub.done:
			return true
		default:
			return false
		}
	})
}
