package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// threadStart creates a thread.
func (s *Server) threadStart(ctx context.Context, p *ThreadStartParams) (*ThreadStartResult, error) {
	r, err := s.svc.CreateThread(ctx, threads.CreateParams{
		Settings: threads.Settings{
			Provider: p.ModelProvider, Model: p.Model, Cwd: p.Cwd,
			ApprovalPolicy: p.ApprovalPolicy, Sandbox: p.Sandbox,
		},
		Name:           p.Name,
		IdempotencyKey: p.ClientRequestID,
	})
	if err != nil {
		return nil, err
	}
	set := r.Thread.Settings
	return &ThreadStartResult{
		Thread: s.wireThread(r.Thread), Model: set.Model, ModelProvider: set.Provider, Cwd: set.Cwd,
		ApprovalPolicy: set.ApprovalPolicy, ApprovalsReviewer: "user", Sandbox: wireSandbox(set.Sandbox),
		AsOf: r.AsOf.String(),
	}, nil
}

// joined implements joiner: who made a thread sees it from its first event on.
func (r *ThreadStartResult) joined() joining {
	return joining{thread: transcript.ThreadID(r.Thread.ID)}
}

// threadList lists threads, newest change first.
func (s *Server) threadList(ctx context.Context, p *ThreadListParams) (*ThreadListResult, error) {
	data, next, err := pageOf(s, p.query(true), func(q threads.PageQuery) ([]protocol.Thread, string, error) {
		page, err := s.svc.ListThreads(ctx, q)
		return mapped(page.Threads, s.wireThread), page.Next, err
	})
	return &ThreadListResult{data, NextPage{next}}, err
}

// threadRead reads a thread, and the cursor to follow it from.
func (s *Server) threadRead(ctx context.Context, p *ThreadParams) (*ThreadReadResult, error) {
	r, err := s.svc.ReadThread(ctx, transcript.ThreadID(p.ThreadID))
	if err != nil {
		return nil, err
	}
	return &ThreadReadResult{Thread: s.wireThread(r.Thread), AsOf: r.AsOf.String()}, nil
}

// threadDelete stops what a thread does and deletes it with all its events. Only
// the fact of the deletion remains.
func (s *Server) threadDelete(ctx context.Context, p *ThreadParams) (*Empty, error) {
	return &Empty{}, s.svc.DeleteThread(ctx, transcript.ThreadID(p.ThreadID))
}

// turnStart gives a thread an input. The answer comes when the input is durable,
// not when the turn is done: follow the events.
func (s *Server) turnStart(ctx context.Context, p *TurnStartParams) (*TurnStartResult, error) {
	ack, err := s.svc.StartTurn(ctx, threads.StartTurnParams{
		Thread: transcript.ThreadID(p.ThreadID), Input: p.Input.parts(), ClientID: p.ClientUserMessageID,
		Mode: threads.InputMode(p.Mode), IdempotencyKey: p.ClientRequestID,
	})
	if err != nil {
		return nil, err
	}
	return &TurnStartResult{Turn: wireTurnView(ack.Turn), Queued: ack.Queued, Steered: ack.Steered, AsOf: ack.AsOf.String()}, nil
}

// turnInterrupt stops a running turn, or takes a queued one out of the queue. What
// the turn has said so far is kept.
func (s *Server) turnInterrupt(ctx context.Context, p *TurnParams) (*Empty, error) {
	return &Empty{}, s.svc.InterruptTurn(ctx, transcript.ThreadID(p.ThreadID), transcript.TurnID(p.TurnID))
}

// turnList lists the turns of a thread without their items.
func (s *Server) turnList(ctx context.Context, p *TurnListParams) (*TurnListResult, error) {
	data, next, err := pageOf(s, p.query(p.SortDirection != "asc"), func(q threads.PageQuery) ([]protocol.Turn, string, error) {
		page, err := s.svc.ListTurns(ctx, transcript.ThreadID(p.ThreadID), threads.TurnQuery{PageQuery: q})
		return mapped(page.Turns, wireTurnView), page.Next, err
	})
	return &TurnListResult{data, NextPage{next}}, err
}

// turnRead reads a turn with its items. Of a turn with more than 1,000 of them, or
// with long ones, it reads the first; the list of items has the others.
func (s *Server) turnRead(ctx context.Context, p *TurnParams) (*TurnReadResult, error) {
	view, err := s.svc.ReadTurn(ctx, transcript.ThreadID(p.ThreadID), transcript.TurnID(p.TurnID))
	if err != nil {
		return nil, err
	}
	page, err := s.items(ctx, &ItemListParams{ThreadID: p.ThreadID, TurnID: p.TurnID, PageParams: PageParams{Limit: maxPage}})
	if err != nil {
		return nil, err
	}
	r := &TurnReadResult{Turn: wireTurnView(view), NextCursor: page.NextCursor}
	r.Turn.ItemsView = "full"
	if page.NextCursor != nil {
		r.Turn.ItemsView = "summary"
	}
	for _, e := range page.Data {
		r.Turn.Items = append(r.Turn.Items, e.Item)
	}
	return r, nil
}

// itemList lists the items of a thread. A tool call and its result are one item.
func (s *Server) itemList(ctx context.Context, p *ItemListParams) (*ItemListResult, error) {
	if p.TurnID != "" { // one that does not exist is not one without items
		if _, err := s.svc.ReadTurn(ctx, transcript.ThreadID(p.ThreadID), transcript.TurnID(p.TurnID)); err != nil {
			return nil, err
		}
	}
	return s.items(ctx, p)
}

func (s *Server) items(ctx context.Context, p *ItemListParams) (*ItemListResult, error) {
	type line struct {
		ItemEntry
		shown bool
	}
	lines, next, err := pageOf(s, p.query(p.SortDirection == "desc"), func(q threads.PageQuery) ([]line, string, error) {
		page, err := s.svc.ListItems(ctx, transcript.ThreadID(p.ThreadID), threads.ItemQuery{PageQuery: q, Turn: transcript.TurnID(p.TurnID)})
		return mapped(page.Items, func(v threads.ItemView) line {
			entry, shown := wireItemEntry(v)
			return line{entry, shown}
		}), page.Next, err
	})
	r := &ItemListResult{[]ItemEntry{}, NextPage{next}}
	for _, l := range lines {
		if l.shown {
			r.Data = append(r.Data, l.ItemEntry)
		}
	}
	return r, err
}

// compactStart starts a compaction, or returns the one that runs. The answer is
// an acknowledgement; the outcome is in the events, or, with wait, in the answer.
// An explicit refusal is a problem then that carries the record.
func (s *Server) compactStart(ctx context.Context, p *CompactStartParams) (*CompactStartResult, error) {
	ack, err := s.svc.StartCompaction(ctx, threads.CompactParams{
		Thread: transcript.ThreadID(p.ThreadID), Route: compaction.Route(p.Route), Writer: compaction.Writer(p.Writer),
		Budget: p.Budget, Instructions: p.Instructions, Wait: p.Wait, IdempotencyKey: p.ClientRequestID,
	})
	if err != nil {
		return nil, err
	}
	rec := ack.Record
	r := &CompactStartResult{CompactionID: string(rec.CompactionID), Compaction: rec, AsOf: ack.AsOf.String(), waited: p.Wait}
	if p.Wait && rec.Outcome != nil && *rec.Outcome == compaction.Refused {
		return nil, refusal(r)
	}
	return r, nil
}

func (r *CompactStartResult) status() int {
	if r.waited {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// refusal is the problem of a compaction that ended refused while the client
// waited for it.
func refusal(r *CompactStartResult) error {
	text := []string{"the compaction was refused"}
	for _, more := range []*string{r.Compaction.Reason, r.Compaction.Remedy} {
		if more != nil && *more != "" {
			text = append(text, *more)
		}
	}
	f := fault.New(fault.Refused, "%s", strings.Join(text, "; "))
	f.Data = r
	return f
}

// compactList lists the compactions of a thread, newest first.
func (s *Server) compactList(ctx context.Context, p *CompactionListParams) (*CompactionListResult, error) {
	data, next, err := pageOf(s, p.query(true), func(q threads.PageQuery) ([]compaction.Record, string, error) {
		page, err := s.svc.ListCompactions(ctx, transcript.ThreadID(p.ThreadID), q)
		return mapped(page.Records, func(r compaction.Record) compaction.Record { return r }), page.Next, err
	})
	return &CompactionListResult{data, NextPage{next}}, err
}

// compactRead reads the record of a compaction: what was summarised and kept,
// what it cost, how it ended.
func (s *Server) compactRead(ctx context.Context, p *CompactionParams) (*CompactionReadResult, error) {
	rec, err := s.svc.ReadCompaction(ctx, transcript.ThreadID(p.ThreadID), transcript.CompactionID(p.CompactionID))
	if err != nil {
		return nil, err
	}
	return &CompactionReadResult{Compaction: rec}, nil
}

// providerList lists the configured providers and their models.
func (s *Server) providerList(ctx context.Context, _ *Empty) (*ProviderListResult, error) {
	return &ProviderListResult{Data: mapped(s.svc.Providers(ctx), wireProvider)}, nil
}

// mapped is never nil, so that it encodes as a list.
func mapped[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func positive(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
