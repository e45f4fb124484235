package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
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

// threadList lists threads, newest change first.
func (s *Server) threadList(ctx context.Context, p *ThreadListParams) (*ThreadListResult, error) {
	page, err := s.svc.ListThreads(ctx, threads.PageQuery{Cursor: p.Cursor, Limit: p.Limit, Desc: true})
	if err != nil {
		return nil, err
	}
	return &ThreadListResult{Data: mapped(page.Threads, s.wireThread), NextCursor: nullable(page.Next)}, nil
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
	q := threads.PageQuery{Cursor: p.Cursor, Limit: p.Limit, Desc: p.SortDirection != "asc"}
	page, err := s.svc.ListTurns(ctx, transcript.ThreadID(p.ThreadID), q)
	if err != nil {
		return nil, err
	}
	return &TurnListResult{Data: mapped(page.Turns, wireTurnView), NextCursor: nullable(page.Next)}, nil
}

// turnRead reads a turn with its items.
func (s *Server) turnRead(ctx context.Context, p *TurnParams) (*TurnReadResult, error) {
	view, err := s.svc.ReadTurn(ctx, transcript.ThreadID(p.ThreadID), transcript.TurnID(p.TurnID))
	if err != nil {
		return nil, err
	}
	turn := wireTurnView(view)
	turn.ItemsView = "full"
	list := ItemListParams{ThreadID: p.ThreadID, TurnID: p.TurnID, Limit: 1000}
	for {
		page, err := s.itemList(ctx, &list)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Data {
			turn.Items = append(turn.Items, e.Item)
		}
		if page.NextCursor == nil {
			return &TurnReadResult{Turn: turn}, nil
		}
		list.Cursor = *page.NextCursor
	}
}

// itemList lists the items of a thread. A tool call and its result are one item.
func (s *Server) itemList(ctx context.Context, p *ItemListParams) (*ItemListResult, error) {
	page, err := s.svc.ListItems(ctx, transcript.ThreadID(p.ThreadID), threads.ItemQuery{
		PageQuery: threads.PageQuery{Cursor: p.Cursor, Limit: p.Limit, Desc: p.SortDirection == "desc"},
		Turn:      transcript.TurnID(p.TurnID),
	})
	if err != nil {
		return nil, err
	}
	r := &ItemListResult{Data: []ItemEntry{}, NextCursor: nullable(page.Next)}
	for _, v := range page.Items {
		if entry, ok := wireItemEntry(v); ok {
			r.Data = append(r.Data, entry)
		}
	}
	return r, nil
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
	page, err := s.svc.ListCompactions(ctx, transcript.ThreadID(p.ThreadID), threads.PageQuery{Cursor: p.Cursor, Limit: p.Limit, Desc: true})
	if err != nil {
		return nil, err
	}
	keep := func(r compaction.Record) compaction.Record { return r }
	return &CompactionListResult{Data: mapped(page.Records, keep), NextCursor: nullable(page.Next)}, nil
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

// contextRead reads what a request of an epoch holds: the base, and every item in
// the form it is rendered in.
func (s *Server) contextRead(ctx context.Context, p *ContextReadParams) (*ContextReadResult, error) {
	c, err := s.svc.ReadContext(ctx, transcript.ThreadID(p.ThreadID), p.Epoch)
	if err != nil {
		return nil, err
	}
	return wireContext(c), nil
}

// threadEventsRead reads the events of a thread: a page of them, or, if the client
// accepts text/event-stream, all of them and then whatever comes.
func (s *Server) threadEventsRead(ctx context.Context, p *EventsReadParams) (*EventsReadResult, error) {
	return s.readEvents(ctx, transcript.ThreadID(p.ThreadID), p.EventsParams)
}

// eventsRead reads the events of all threads, in the order of their commits: a
// page of them, or, if the client accepts text/event-stream, all of them and then
// whatever comes.
func (s *Server) eventsRead(ctx context.Context, p *EventsParams) (*EventsReadResult, error) {
	return s.readEvents(ctx, "", *p)
}

func (s *Server) readEvents(ctx context.Context, thread transcript.ThreadID, p EventsParams) (*EventsReadResult, error) {
	after, err := cursorOf("field `after`", p.After)
	if err != nil {
		return nil, err
	}
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	evs, next, err := s.svc.ReadEvents(ctx, thread, after, limit)
	if err != nil {
		return nil, err
	}
	r := &EventsReadResult{Data: make([]protocol.Notification, 0, len(evs)), Cursor: next.String()}
	for _, e := range evs {
		n, err := s.notification(e)
		if err != nil {
			return nil, err
		}
		r.Data = append(r.Data, n)
	}
	return r, nil
}

// cursorOf reads a cursor that a client sent; nil if it sent none.
func cursorOf(where, text string) (*events.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	c, err := events.ParseCursor(text)
	if err != nil {
		return nil, invalid("%s: want a cursor as this server returned it, got %q", where, clip(text))
	}
	return &c, nil
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
