package threads

import (
	"context"
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
	Active   *TurnView     // the turn in progress; nil if idle
	AsOf     events.Cursor
	// TurnsCursor and ItemsCursor page backwards, in descending order, through what
	// there is now: the first page begins with the newest. Empty if there is nothing.
	TurnsCursor, ItemsCursor string
}

// Join loads a thread and returns what there is to know about it right now. The
// items of the turn in progress are there in full but for texts that are still
// streamed: who follows from AsOf is told those from their beginning.
func (s *Service) Join(ctx context.Context, id transcript.ThreadID) (Joined, error) {
	return query(ctx, s, id, func(a *actor) Joined { return a.state.joined(a.window) })
}

func (s *state) joined(window int) Joined {
	j := Joined{
		Thread: s.view(window), Requests: append([]Request{}, s.Requests...), AsOf: s.cursor(),
		TurnsCursor: newest(len(s.Transcript.Turns)), ItemsCursor: newest(len(s.Transcript.Items)),
	}
	if s.Usage.Source != "" {
		j.Usage = new(s.Usage)
	}
	if s.Active != "" {
		v := s.turnView(s.turnAt[s.Active], ItemsFull)
		v.Items = slices.DeleteFunc(v.Items, func(v ItemView) bool { return s.open[v.Item.ID] && streams(v.Item.Body) })
		j.Active = &v
	}
	return j
}
