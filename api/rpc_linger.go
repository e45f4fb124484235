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
		if sub.thread != "" { // all of them: without an end, and without a seq
			subs = append(subs, sub)
		}
	}
	p.mu.Unlock()
	for _, sub := range subs {
		read, err := p.server.service(sub.thread).ReadThread(ctx, sub.thread)
		if err != nil {
			continue // deleted, which is told
		}
		sub.reach(ctx, read.AsOf.N)
	}
}

// reach returns when the events up to seq are queued, or nothing more will be.
func (sub *subscription) reach(ctx context.Context, seq int64) {
	for sub.told.Load() < seq {
		select {
		case <-sub.more:
		case <-sub.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tells notes that everything that was added is queued.
func (sub *subscription) tells() {
	sub.told.Store(sub.newest)
	select {
	case sub.more <- struct{}{}:
	default:
	}
}
