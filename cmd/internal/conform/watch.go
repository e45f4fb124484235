package conform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file is how rows do things and wait for what comes of them.

// await waits until one of the messages satisfies ok.
func (s *server) await(expected string, ok func(events.Message) bool) { s.awaitFrom(0, expected, ok) }

// awaitFrom is await for the messages from an index on.
func (s *server) awaitFrom(i int, expected string, ok func(events.Message) bool) {
	for {
		s.mu.Lock()
		seen, more, ended := s.seen, s.more, s.ended
		s.mu.Unlock()
		for ; i < len(seen); i++ {
			if ok(seen[i]) {
				return
			}
		}
		s.w.demand(ended == nil, expected, "the server stopped telling: %v; %s", ended, s.last())
		select {
		case <-more:
		case <-s.w.ctx.Done():
			s.w.demand(false, expected, "nothing of the kind in time; %s", s.last())
		}
	}
}

// last tells the newest things that the server told, for failures.
func (s *server) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, m := range s.seen[max(0, len(s.seen)-8):] {
		switch m.Kind {
		case events.KindEvent:
			out = append(out, m.Event.Type+" "+clip(string(m.Event.Data), 300))
		case events.KindDelta:
			out = append(out, fmt.Sprintf("delta %q", clip(m.Delta.Text, 60)))
		case events.KindLive, events.KindReset, events.KindHeartbeat:
		}
	}
	return "last seen: " + strings.Join(out, " | ")
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}

// payload returns what an event says; nil for other messages.
func payload(m events.Message) threads.Payload {
	if m.Kind != events.KindEvent {
		return nil
	}
	p, err := threads.Decode(m.Event)
	if err != nil {
		return nil
	}
	return p
}

// start gives the thread an input.
func (s *server) start(text string) threads.TurnAck {
	s.mu.Lock()
	s.from = len(s.seen)
	s.mu.Unlock()
	ack, err := s.svc.StartTurn(s.w.ctx, threads.StartTurnParams{Thread: s.thread, Input: transcript.TextParts(text)})
	s.w.must(err, "an input is accepted")
	s.w.prompts[ack.Turn.ID] = text
	return ack
}

// end waits for the end of a turn, and for the thread to rest.
func (s *server) end(ack threads.TurnAck) transcript.Turn {
	var turn transcript.Turn
	s.await("the turn ends", func(m events.Message) bool {
		p, ok := payload(m).(threads.TurnCompleted)
		turn = p.Turn
		return ok && turn.ID == ack.Turn.ID
	})
	return turn
}

// settle waits until nothing goes on in the thread.
func (s *server) settle() {
	tick := time.NewTicker(10 * time.Millisecond) // work that was given up ends without a word
	defer tick.Stop()
	for {
		busy, at, err := s.svc.AtWork(s.w.ctx, s.thread)
		s.w.must(err, "the thread can be read")
		if !busy {
			s.await("everything up to the rest is told", func(m events.Message) bool { return m.Kind == events.KindLive || m.Cursor.N >= at.N })
			return
		}
		select {
		case <-tick.C:
		case <-s.w.ctx.Done():
			s.w.demand(false, "the thread comes to rest", "it is still at work; %s", s.last())
		}
	}
}

// turn is one whole turn that must complete.
func (s *server) turn(text string) threads.TurnAck {
	ack := s.start(text)
	turn := s.end(ack)
	s.w.demand(turn.Status == transcript.TurnCompleted, "the turn completes", "it is %s%s", turn.Status, because(turn.Error))
	s.settle()
	return ack
}

func because(e *transcript.TurnError) string {
	if e == nil {
		return ""
	}
	return ": " + e.Code + ": " + e.Message
}

// says waits until an open text holds something.
func (s *server) says(text string) {
	all, expected := map[string]string{}, fmt.Sprintf("%q is streamed before the answer ends", text)
	s.awaitFrom(s.from, expected, func(m events.Message) bool {
		s.unended(m, expected)
		if m.Kind == events.KindDelta {
			all[m.Delta.Item] += m.Delta.Text
			return strings.Contains(all[m.Delta.Item], text)
		}
		return false
	})
}

// unended demands that the turn in which something is expected has not ended.
func (s *server) unended(m events.Message, expected string) {
	if p, ok := payload(m).(threads.TurnCompleted); ok {
		s.w.demand(false, expected, "the turn is %s without it%s", p.Turn.Status, because(p.Turn.Error))
	}
}

// answers returns what the model said in a turn.
func (s *server) answers(turn transcript.TurnID) string {
	var out []string
	for _, it := range s.items() {
		if m, ok := it.Body.(transcript.AgentMessage); ok && it.Turn == turn {
			out = append(out, m.Text)
		}
	}
	return strings.Join(out, "\n")
}

// items returns the items that were completed.
func (s *server) items() (items []transcript.Item) {
	for _, p := range s.payloads() {
		if c, ok := p.(threads.ItemCompleted); ok {
			items = append(items, c.Item)
		}
	}
	return items
}

func (s *server) payloads() (all []threads.Payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.seen {
		if m.Repeat {
			continue
		}
		if p := payload(m); p != nil {
			all = append(all, p)
		}
	}
	return all
}

// compact asks for a compaction.
func (s *server) compact(p threads.CompactParams) compaction.Record {
	p.Thread = s.thread
	ack, err := s.svc.StartCompaction(s.w.ctx, p)
	s.w.must(err, "the request for a compaction is acknowledged")
	return ack.Record
}

// compacted waits for the terminal record, as clients see it.
func (s *server) compacted(id transcript.CompactionID) compaction.Record {
	var rec compaction.Record
	s.await("the compaction ends", func(m events.Message) bool {
		u, ok := payload(m).(threads.CompactionUpdated)
		rec = u.Record
		return ok && rec.CompactionID == id && rec.Terminal()
	})
	s.settle()
	return rec
}

func outcomeOf(r compaction.Record) string {
	var b strings.Builder
	if r.Outcome == nil {
		return "not ended, in the phase " + string(r.Phase)
	}
	b.WriteString(string(*r.Outcome))
	for _, s := range []*string{r.Code, r.Reason, r.Remedy} {
		if s != nil {
			b.WriteString(": " + *s)
		}
	}
	for _, k := range r.Skipped {
		fmt.Fprintf(&b, " [%s %s: %s]", k.Link, k.Code, k.Reason)
	}
	return b.String()
}

// request waits for the next request that waits for an answer.
func (s *server) request() threads.Request {
	var r threads.Request
	const expected = "an approval is asked for"
	s.awaitFrom(s.from, expected, func(m events.Message) bool {
		s.unended(m, expected)
		c, ok := payload(m).(threads.RequestCreated)
		r = c.Request
		return ok
	})
	return r
}

func (s *server) answer(r threads.Request, d adapters.Decision) {
	s.w.must(s.svc.Answer(s.w.ctx, s.thread, r.ID, threads.RequestAnswer{Decision: d}, "conform"), "the answer to the approval is taken")
}

// writers counts the requests for summaries.
func (w *world) writers() (n int) {
	for _, r := range w.model.Asked() {
		if r.Writer {
			n++
		}
	}
	return n
}

// holding returns the last request that was no writer's and holds a text.
func (w *world) holding(text string) string {
	all := w.model.Asked()
	for _, r := range slices.Backward(all) {
		if !r.Writer && strings.Contains(string(r.Body), text) {
			return string(r.Body)
		}
	}
	w.demand(false, fmt.Sprintf("the model is sent %q", text), "of %d requests none holds it", len(all))
	return ""
}

// restart ends the server and starts another one on the same journal.
func (w *world) restart() {
	thread := w.ids.thread
	w.must(w.ids.close(), "the server ends cleanly")
	w.ids = w.serve(w.journal())
	w.ids.follow(thread)
}

// sessions returns the ids of the program's sessions that the thread has had, as clients
// are told of them.
func (s *server) sessions() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.seen {
		if m.Kind != events.KindEvent || m.Repeat || m.Event.Type != (threads.SessionUpdated{}).EventType() {
			continue
		}
		var told threads.SessionUpdated
		if json.Unmarshal(m.Event.Data, &told) == nil {
			ids = append(ids, told.NativeID)
		}
	}
	return ids
}

// oneSession demands that a runtime's thread has been in one session of its program all
// the time, which clients are told of.
func (w *world) oneSession() {
	if w.runtime() {
		ids := w.ids.sessions()
		w.demand(len(ids) == 1 && ids[0] != "", "the thread has one session of the program, and says which", "it had %q", ids)
	}
}
