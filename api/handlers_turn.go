package api

import (
	"context"
	"reflect"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// turnStart gives a thread an input. The answer comes when the input is durable,
// not when the turn is done: follow the events.
func (s *Server) turnStart(ctx context.Context, p *TurnStartParams) (*TurnStartResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	if source, _ := s.passing.Load(id); p.OutputSchema != nil && source != sourceTitle {
		return nil, invalid("field `outputSchema` is not served yet; leave it out")
	}
	patch, err := p.patch()
	if err != nil {
		return nil, err
	}
	svc := s.service(id)
	input, images, err := p.Input.parts(ctx, svc)
	if err != nil {
		return nil, err
	}
	ack, err := svc.StartTurn(ctx, threads.StartTurnParams{
		Thread: id, Input: input, Images: images, ClientID: p.ClientUserMessageID,
		Mode: threads.InputMode(p.Mode), Settings: patch, IdempotencyKey: p.ClientRequestID,
		MaxTotalTokens: p.MaxTotalTokens,
	})
	if err != nil {
		return nil, err
	}
	return &TurnStartResult{Turn: wireTurnView(ack.Turn), Queued: ack.Queued, Steered: ack.Steered, AsOf: ack.AsOf.String()}, nil
}

// turnSteer puts an input into the turn that runs.
func (s *Server) turnSteer(ctx context.Context, p *TurnSteerParams) (*TurnSteerResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	svc := s.service(id)
	input, images, err := p.Input.parts(ctx, svc)
	if err != nil {
		return nil, err
	}
	ack, err := svc.SteerTurn(ctx, threads.StartTurnParams{
		Thread: id, Input: input, Images: images, ClientID: p.ClientUserMessageID, IdempotencyKey: p.ClientRequestID,
	}, transcript.TurnID(p.ExpectedTurnID))
	return &TurnSteerResult{string(ack.Turn.ID)}, err
}

// turnInterrupt stops a running turn, or takes a queued one out of the queue. What
// the turn has said so far is kept.
func (s *Server) turnInterrupt(ctx context.Context, p *TurnParams) (*Empty, error) {
	id := transcript.ThreadID(p.ThreadID)
	return &Empty{}, s.service(id).InterruptTurn(ctx, id, transcript.TurnID(p.TurnID))
}

// turnList lists the turns of a thread. A turn whose items no answer can hold is
// shown in a smaller view, and says so.
func (s *Server) turnList(ctx context.Context, p *TurnListParams) (*TurnListResult, error) {
	for {
		r, err := s.turnPage(ctx, p)
		if err != nil || len(r.Data) != 1 || p.ItemsView != string(threads.ItemsFull) && p.ItemsView != string(threads.ItemsSummary) ||
			weigh(reflect.ValueOf(r.Data)) <= maxAlone {
			return r, err
		}
		smaller := *p
		smaller.Limit, smaller.ItemsView = 1, string(threads.ItemsSummary)
		if p.ItemsView == smaller.ItemsView {
			smaller.ItemsView = string(threads.ItemsNone)
		}
		p = &smaller
	}
}

// turnPage reads a page of turns in the view that is asked for.
func (s *Server) turnPage(ctx context.Context, p *TurnListParams) (*TurnListResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	data, next, back, err := pageOf(s, p.query(p.SortDirection != "asc"), func(q threads.PageQuery) ([]protocol.Turn, string, string, error) {
		page, err := s.service(id).ListTurns(ctx, id, threads.TurnQuery{PageQuery: q, View: threads.ItemsView(p.ItemsView)})
		return mapped(page.Turns, wireTurnView), page.Next, page.Back, err
	})
	return &TurnListResult{data, next, back}, err
}

// turnRead reads a turn with its items. Of a turn with more than 1,000 of them, or
// with long ones, it reads the first; the list of items has the others.
func (s *Server) turnRead(ctx context.Context, p *TurnParams) (*TurnReadResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	view, err := s.service(id).ReadTurn(ctx, id, transcript.TurnID(p.TurnID))
	if err != nil {
		return nil, err
	}
	page, err := s.items(ctx, &ItemListParams{ThreadID: p.ThreadID, TurnID: p.TurnID, PageParams: PageParams{Limit: maxPage}})
	if err != nil {
		return nil, err
	}
	r := &TurnReadResult{Turn: wireTurnView(view), NextCursor: page.NextCursor}
	r.Turn.ItemsView = string(threads.ItemsFull)
	if page.NextCursor != nil {
		r.Turn.ItemsView = string(threads.ItemsSummary)
	}
	for _, e := range page.Data {
		r.Turn.Items = append(r.Turn.Items, e.Item)
	}
	return r, nil
}

// itemList lists the items of a thread. A tool call and its result are one item.
func (s *Server) itemList(ctx context.Context, p *ItemListParams) (*ItemListResult, error) {
	if p.TurnID != "" { // one that does not exist is not one without items
		id := transcript.ThreadID(p.ThreadID)
		if _, err := s.service(id).ReadTurn(ctx, id, transcript.TurnID(p.TurnID)); err != nil {
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
	id := transcript.ThreadID(p.ThreadID)
	lines, next, back, err := pageOf(s, p.query(p.SortDirection == "desc"), func(q threads.PageQuery) ([]line, string, string, error) {
		page, err := s.service(id).ListItems(ctx, id, threads.ItemQuery{PageQuery: q, Turn: transcript.TurnID(p.TurnID)})
		return mapped(page.Items, func(v threads.ItemView) line {
			entry, shown := wireItemEntry(v)
			return line{entry, shown}
		}), page.Next, page.Back, err
	})
	r := &ItemListResult{[]ItemEntry{}, next, back}
	for _, l := range lines {
		if l.shown {
			r.Data = append(r.Data, l.ItemEntry)
		}
	}
	return r, err
}

func weighItem(i *protocol.ThreadItem) int { return weigh(reflect.ValueOf(i)) }

// queueList lists what waits for its turn, in order.
func (s *Server) queueList(ctx context.Context, p *ThreadPageParams) (*QueueListResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	queue, err := s.service(id).Queue(ctx, id)
	if err != nil {
		return nil, err
	}
	queue, next, err := pageOfAll(p.PageParams, queue)
	return &QueueListResult{mapped(queue, wireQueued), next}, err
}

// queueDelete takes an input out of the queue: it never becomes a turn.
func (s *Server) queueDelete(ctx context.Context, p *QueueDeleteParams) (*QueueDeleteResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	deleted, err := s.service(id).DeleteQueued(ctx, id, transcript.TurnID(p.QueuedSubmissionID))
	return &QueueDeleteResult{deleted}, err
}

// shellCommand runs nothing and says so by a turn that fails: commands of people
// are run by their own shells, and an error would end the codex TUI.
func (s *Server) shellCommand(ctx context.Context, p *ShellCommandParams) (*Empty, error) {
	id := transcript.ThreadID(p.ThreadID)
	return &Empty{}, s.service(id).RefuseTurn(ctx, id, "the command was not run: this server runs no commands of its clients; use a shell of your own")
}
