package threads

import (
	"context"
	"errors"
	"slices"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Joined is what a client needs that begins to take part in a thread. It is one
// moment: who follows from AsOf misses nothing and sees nothing twice.
type Joined struct {
	Thread   Thread
	Usage    *UsageUpdated // the newest report; nil if there is none
	Requests []Request     // that wait for an answer, oldest first
	Turns    []TurnView    // all turns in order, if they were asked for
	Page     *TurnPage     // the page that was asked for
	AsOf     events.Cursor
	// TurnsCursor and ItemsCursor page backwards, in descending order, through what
	// there is now: the first page begins with the newest. Empty if there is nothing.
	TurnsCursor, ItemsCursor string
}

// A JoinQuery says what a Joined holds of the turns. Of the turn in progress the
// items are there but for texts that are still streamed: who follows from AsOf is
// told those from their beginning.
type JoinQuery struct {
	// Bytes asks for all turns. As many of the newest as have this much text at most
	// have their items, in full if they fit on a page; the others have none. 0: no
	// turns.
	Bytes int
	Page  *TurnQuery // asks for a page of turns beside them
}

// Join loads a thread and returns what there is to know about it right now, but
// for its turns.
func (s *Service) Join(ctx context.Context, id transcript.ThreadID) (Joined, error) {
	return s.JoinWith(ctx, id, JoinQuery{})
}

// JoinWith is Join with turns.
func (s *Service) JoinWith(ctx context.Context, id transcript.ThreadID, q JoinQuery) (Joined, error) {
	type result struct {
		joined Joined
		err    error
	}
	r, err := query(ctx, s, id, func(a *actor) result {
		j, err := a.state.joined(a.window, q)
		return result{j, err}
	})
	return r.joined, errors.Join(err, r.err)
}

func (s *state) joined(window int, q JoinQuery) (Joined, error) {
	j := Joined{
		Thread: s.view(window), Requests: append([]Request{}, s.Requests...), AsOf: s.cursor(),
		TurnsCursor: newest(len(s.Transcript.Turns)), ItemsCursor: newest(len(s.Transcript.Items)),
	}
	if s.Usage.Source != "" {
		j.Usage = new(s.Usage)
	}
	if q.Bytes > 0 {
		j.Turns = s.newestInFull(q.Bytes)
	}
	if q.Page == nil {
		return j, nil
	}
	p, err := s.listTurns(*q.Page)
	s.dropStreamed(p.Turns)
	j.Page = &p
	return j, err
}

// newestInFull shows all turns, the newest of them in full as far as bytes go. One
// that would fit on no page is shown in summary.
func (s *state) newestInFull(bytes int) []TurnView {
	turns := make([]TurnView, len(s.Transcript.Turns))
	for i := range slices.Backward(turns) {
		if bytes < 0 {
			turns[i] = s.turnView(i, ItemsNone)
			continue
		}
		turns[i] = s.turnView(i, ItemsFull)
		if !fits(len(turns[i].Items), weight(turns[i].Items)) {
			turns[i] = s.turnView(i, ItemsSummary)
		}
		s.dropStreamed(turns[i : i+1])
		if bytes -= weight(turns[i].Items); bytes < 0 {
			turns[i] = s.turnView(i, ItemsNone)
		}
	}
	return turns
}

// dropStreamed leaves texts out that are still streamed.
func (s *state) dropStreamed(turns []TurnView) {
	for i := range turns {
		if turns[i].ID == s.Active {
			turns[i].Items = slices.DeleteFunc(turns[i].Items, func(v ItemView) bool { return s.open[v.Item.ID] && streams(v.Item.Body) })
		}
	}
}
