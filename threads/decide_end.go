package threads

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// endTurn is the end of a session's run, or the discovery that it died.
type endTurn struct {
	turn    transcript.TurnID
	end     adapters.End
	err     *transcript.TurnError // the turn failed
	stopped bool                  // the turn was interrupted
	partial map[transcript.ItemID]string
	native  bool // the session compacts by itself
	died    bool // nobody saw the run end: the server stopped
}

func (c endTurn) decide(s *state, env env) (decision, error) {
	turn := s.activeTurn()
	if turn == nil || turn.ID != c.turn {
		return decision{}, nil // it was ended before
	}
	c.stopped = c.stopped || s.Stopping
	ps := reported(s, env, c.turn, c.end.Updates)
	ps = append(ps, s.abandonForeign(env, ps, c.stopped, c.died)...)
	effects := foreignHooks(ps)
	ofTurn := func(r Request) bool { return r.TurnID == c.turn }
	asked := cancelRequests(s, ofTurn)
	if more := s.unreadInput(env.read); len(more) > 0 && c.err == nil && !c.stopped {
		ps = append(append(ps, asked...), s.unflag(ofTurn)...)
		return decision{payloads: ps, effects: append(effects, runTurn{turn: c.turn, input: more})}, nil
	}
	if c.err == nil && !c.stopped && s.Budget.Limit > 0 {
		ps = append(ps, s.uncounted(env, c.turn, ps)...)
	}
	ps = append(ps, closeOpen(s, env, c, ps)...)
	done := *turn
	done.CompletedAt, done.Status = env.now, transcript.TurnCompleted
	status := StatusIdle
	switch {
	case c.stopped:
		done.Status = transcript.TurnInterrupted
	case c.err != nil:
		done.Status, done.Error = transcript.TurnFailed, c.err
		status = StatusSystemError
	}
	ps = append(ps, StatusChanged{Status: status})
	if c.err != nil && !c.stopped {
		ps = append(ps, ErrorRaised{TurnID: c.turn, Error: *c.err, Learned: env.learned})
	}
	untold := env.runtime && done.Status != transcript.TurnCompleted && s.unheard()
	return decision{payloads: append(append(ps, TurnCompleted{Turn: done, Untold: untold}), asked...), effects: effects}, nil
}

// unreadInput returns what the user said since the model read the context: a
// message that steered too late. The turn is not over until it is read.
func (s *state) unreadInput(read int) []transcript.Part {
	var parts []transcript.Part
	for _, it := range s.Transcript.Items[min(read, len(s.Transcript.Items)):] {
		if u, ok := it.Body.(transcript.UserMessage); ok && it.Turn == s.Active {
			parts = append(parts, u.Content...)
		}
	}
	return parts
}

// closeOpen completes what a turn leaves open: texts with what was streamed of
// them, and every unanswered call with one synthetic result.
func closeOpen(s *state, env env, c endTurn, ended []Payload) []Payload {
	closed := map[transcript.ItemID]bool{}
	for _, p := range ended {
		if p, ok := p.(ItemCompleted); ok {
			closed[p.Item.ID] = true
		}
	}
	var ps []Payload
	for _, i := range s.indexesOf(maps.Keys(s.open)) {
		it := s.Transcript.Items[i]
		if closed[it.ID] {
			continue
		}
		if body, ok := partialBody(it.Body, c.partial[it.ID], s.declined(it.ID)); ok {
			it.Body, it.CompletedAt = body, env.now
			ps = append(ps, ItemCompleted{Item: it})
		}
	}
	return append(ps, answerOpen(s, env, ended)...)
}

// mayHaveRunText is the result of a call that was approved and then stopped.
const mayHaveRunText = "aborted: this call was approved and may have run, in whole or in part"

// answerOpen gives every call that has no result once ended is committed its
// synthetic one, in order.
func answerOpen(s *state, env env, ended []Payload) []Payload {
	var ps []Payload
	waiting := s.waitingCalls(ended)
	for _, it := range slices.SortedFunc(maps.Values(waiting), func(a, b transcript.Item) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	}) {
		result := transcript.SyntheticResult(it, it.Body.(transcript.ToolCall))
		result.CompletedAt = env.now
		if body, ok := result.Body.(transcript.ToolResult); ok && s.mayHaveRun(it.ID) {
			body.Output = transcript.TextParts(mayHaveRunText)
			result.Body = body
		}
		ps = append(ps, ItemCompleted{Item: result, Call: &it})
	}
	return ps
}

// indexesOf returns where the items stand in the transcript, in order.
func (s *state) indexesOf(ids iter.Seq[transcript.ItemID]) []int {
	var at []int
	for id := range ids {
		at = append(at, s.itemAt[id])
	}
	slices.Sort(at)
	return at
}

// partialBody returns the final body of an item that will not be completed by
// its session; false if there is nothing to say.
func partialBody(b transcript.Body, text string, declined bool) (transcript.Body, bool) {
	status := "failed"
	if declined {
		status = "declined"
	}
	switch b := b.(type) {
	case transcript.AgentMessage:
		b.Text = text
		return b, text != ""
	case transcript.Reasoning:
		b.Text = text
		return b, text != ""
	case transcript.Command:
		b.Status = status
		return b, true
	case transcript.FileChange:
		b.Status = status
		return b, true
	default:
		return nil, false
	}
}

// waitingCalls returns the calls that have no result once ps are committed.
func (s *state) waitingCalls(ps []Payload) map[transcript.CallID]transcript.Item {
	waiting := make(map[transcript.CallID]transcript.Item, len(s.calls))
	for id, item := range s.calls {
		waiting[id] = s.Transcript.Items[s.itemAt[item]]
	}
	for _, p := range ps {
		switch p := p.(type) {
		case ItemStarted:
			if call, ok := p.Item.Body.(transcript.ToolCall); ok {
				waiting[call.CallID] = p.Item
			}
		case ItemCompleted:
			if r, ok := p.Item.Body.(transcript.ToolResult); ok {
				delete(waiting, r.CallID)
			}
		default:
		}
	}
	return waiting
}
