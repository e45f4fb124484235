package threads

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// An ItemsView says how much a TurnView shows of a turn's items, in codex's words.
type ItemsView string

// The items views. The zero ItemsView is ItemsNone.
const (
	ItemsNone    ItemsView = "notLoaded"
	ItemsSummary ItemsView = "summary" // the first message of the user and the last of the agent
	ItemsFull    ItemsView = "full"    // the whole timeline of the turn
)

// TurnQuery selects turns of a thread.
type TurnQuery struct {
	PageQuery
	View ItemsView
}

// maxFull bounds the text of the items on a page of turns in full view, in bytes;
// their number is bounded by maxPage.
const maxFull = 4 << 20

func fits(items, bytes int) bool { return items <= maxPage && bytes <= maxFull }

// ListTurns lists the turns of a thread in order. Queued turns are not among
// them. A page in full view ends before the turn whose items do not fit any more;
// a turn that fits on no page is shown in summary, and says so.
func (s *Service) ListTurns(ctx context.Context, id transcript.ThreadID, q TurnQuery) (TurnPage, error) {
	type result struct {
		page TurnPage
		err  error
	}
	r, err := query(ctx, s, id, func(a *actor) result {
		p, err := a.state.listTurns(q)
		return result{p, err}
	})
	return r.page, errors.Join(err, r.err)
}

func (s *state) listTurns(q TurnQuery) (TurnPage, error) {
	view, err := oneOf("itemsView", string(q.View), string(ItemsNone), string(ItemsSummary), string(ItemsFull))
	if err != nil {
		return TurnPage{}, err
	}
	at := page(q.PageQuery, len(s.Transcript.Turns), func(i int) (int, bool) { return i, true })
	p := s.turnViews(at, ItemsView(view))
	return TurnPage{p.items, p.next, p.back}, p.err
}

// turnViews shows the turns at the positions of a page, as far as they fit.
func (s *state) turnViews(at paged[int], view ItemsView) paged[TurnView] {
	p := paged[TurnView]{items: []TurnView{}, next: at.next, back: at.back, err: at.err}
	items, bytes := 0, 0
	for k, i := range at.items {
		v := s.turnView(i, view)
		if view == ItemsFull {
			items, bytes = items+len(v.Items), bytes+weight(v.Items)
			if full := !fits(items, bytes); full && k > 0 {
				p.next = strconv.Itoa(at.items[k-1])
				return p
			} else if full {
				v = s.turnView(i, ItemsSummary)
			}
		}
		p.items = append(p.items, v)
	}
	return p
}

// weight is the size of the texts of items, in bytes.
func weight(items []ItemView) (n int) {
	for _, v := range items {
		n += len(transcript.Text(v.Item.Body))
		if v.Result != nil {
			n += len(transcript.Text(v.Result.Body))
		}
	}
	return n
}

// turnView shows the turn at a position.
func (s *state) turnView(i int, view ItemsView) TurnView {
	turn := s.Transcript.Turns[i]
	v := TurnView{Turn: turn, View: view, Items: []ItemView{}}
	switch view {
	case ItemsFull:
		v.Items = s.itemsOf(turn.ID, func(ItemView) bool { return true })
	case ItemsSummary:
		v.Items = summary(s.itemsOf(turn.ID, func(v ItemView) bool {
			k := v.Item.Body.Kind()
			return k == transcript.KindUserMessage || k == transcript.KindAgentMessage
		}))
	case ItemsNone:
	}
	return v
}

// itemsOf returns those items of a turn's timeline that are wanted.
func (s *state) itemsOf(turn transcript.TurnID, want func(ItemView) bool) []ItemView {
	items := []ItemView{}
	at, ok := s.extent[turn]
	if !ok {
		return items
	}
	for i := at.first; i <= at.last; i++ {
		if s.Transcript.Items[i].Turn != turn {
			continue
		}
		if v, shown := s.itemView(i); shown && want(v) {
			items = append(items, v)
		}
	}
	return items
}

// summary returns the first message of the user and the last of the agent.
func summary(messages []ItemView) []ItemView {
	out := []ItemView{}
	for _, v := range messages {
		if v.Item.Body.Kind() == transcript.KindUserMessage {
			out = append(out, v)
			break
		}
	}
	for _, v := range slices.Backward(messages) {
		if v.Item.Body.Kind() == transcript.KindAgentMessage {
			return append(out, v)
		}
	}
	return out
}

// extent is where the items of a turn stand in the transcript. Files that were
// imported may have items of other turns between them.
type extent struct{ first, last int }

// extend notes that the item at i is there.
func (x *index) extend(turn transcript.TurnID, i int) {
	at, ok := x.extent[turn]
	if !ok {
		at.first = i
	}
	at.last = i
	x.extent[turn] = at
}

// ReadTurn returns a turn without its items, also one that waits in the queue.
func (s *Service) ReadTurn(ctx context.Context, id transcript.ThreadID, turn transcript.TurnID) (TurnView, error) {
	v, err := query(ctx, s, id, func(a *actor) *TurnView {
		if i, ok := a.state.turnAt[turn]; ok {
			return new(a.state.turnView(i, ItemsNone))
		}
		for _, q := range a.state.Queue {
			if q.TurnID == turn {
				return new(ackOf(a.state, turn).Turn)
			}
		}
		return nil
	})
	if err != nil {
		return TurnView{}, err
	}
	if v == nil {
		return TurnView{}, fault.New(fault.NotFound, "thread %s has no turn %s", id, turn)
	}
	return *v, nil
}
