package conform

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The rows about compactions.

// best asks for the best compaction that the subject has: its own, or a local one that
// has something to do.
func (w *world) best() threads.CompactParams {
	if w.runtime() {
		return threads.CompactParams{Route: compaction.RouteNative}
	}
	return threads.CompactParams{Budget: 2500}
}

// contextNow is the context as the journal has it.
func (w *world) contextNow() string {
	c, err := w.ids.svc.ReadContext(w.ctx, w.thread, nil)
	w.must(err, "the context can be read")
	b, err := json.Marshal(c.Entries)
	w.must(err, "the context can be encoded")
	return string(b)
}

// isRefusal ends the row if a compaction was refused as it must be: with code, reason
// and remedy, in the reply, in the events and in the list, and with the context as it
// was.
func (w *world) isRefusal(r compaction.Record, before string) {
	if r.Outcome == nil || *r.Outcome != compaction.Refused {
		return
	}
	w.demand(r.Code != nil && *r.Code != "" && r.Reason != nil && *r.Reason != "" && r.Remedy != nil && *r.Remedy != "",
		"a refusal says code, reason and remedy", "%s", outcomeOf(r))
	list, err := w.ids.svc.ListCompactions(w.ctx, w.thread, threads.PageQuery{})
	w.must(err, "the records can be listed")
	found := false
	for _, l := range list.Records {
		found = found || l.CompactionID == r.CompactionID && l.Outcome != nil && *l.Outcome == compaction.Refused
	}
	w.demand(found, "the refusal is in the list of the thread's compactions", "it is not")
	w.demand(r.Checkpoint == nil && r.Native == nil, "a refusal claims no result", "%s with a result", outcomeOf(r))
	w.demand(w.contextNow() == before, "a refusal leaves the context as it was", "it is another one")
	if w.model != nil {
		w.demand(w.writers() == 0, "a refusal costs nothing", "%d summaries were asked for", w.writers())
	}
	w.ids.turn("PROMPT-REFUSED: and now?")
	refused(*r.Code, *r.Reason)
}

// happened demands that a compaction completed and that it was the provider's.
func (w *world) happened(r compaction.Record) {
	w.demand(r.Outcome != nil && *r.Outcome == compaction.Completed, "the compaction completes", "%s", outcomeOf(r))
	if w.runtime() {
		w.demand(r.Native != nil && r.Route != nil && *r.Route == compaction.RouteNative, "it is the provider's own", "its record has no native result")
		w.demand(r.Checkpoint == nil && r.Writer == nil, "nothing is made up for it", "its record has a checkpoint of this server")
	}
	if w.model != nil && !w.runtime() {
		w.demand(r.Writer != nil && *r.Writer == compaction.WriterModel, "the model writes the checkpoint", "%s", outcomeOf(r))
	}
	if w.model != nil {
		w.demand(w.writers() > 0, "the model is asked for a summary", "it completed and the model was asked for none")
	}
}

// replaced demands that the model's next request holds the summary in place of what
// was said.
func (w *world) replaced() {
	w.ids.turn("PROMPT-AFTER: and now?")
	if w.model == nil {
		return
	}
	body := w.holding("PROMPT-AFTER")
	w.demand(strings.Contains(body, "SUMMARY-7F3"), "the next request holds the summary", "it does not")
	if w.runtime() {
		w.demand(!strings.Contains(body, "ANSWER-1."), "the next request is without what was summarised", "it still has the first answer")
	}
	w.smaller()
}

// smaller demands that the newest request is smaller than one before.
func (w *world) smaller() {
	var largest, last upstream.Recorded
	for _, q := range w.model.Asked() {
		if !q.Writer {
			if q.Tokens > largest.Tokens {
				largest = q
			}
			last = q
		}
	}
	w.demand(last.Tokens < largest.Tokens, "the request is smaller than before", "%d tokens, the largest had %d", last.Tokens, largest.Tokens)
}

// nothing asks for compactions where there is nothing, or next to nothing, to compact.
func nothing(w *world) {
	w.open(setup{cassette: summary + answers})
	r := w.ids.compacted(w.ids.compact(w.best()).CompactionID)
	if w.runtime() {
		w.isRefusal(r, w.contextNow())
	}
	w.demand(r.Outcome != nil && *r.Outcome == compaction.Unchanged && r.Code != nil && *r.Code == compaction.CodeNothingToCompact,
		"an empty thread has nothing to compact", "%s", outcomeOf(r))
	w.demand(r.Native == nil && r.Checkpoint == nil, "nothing claims no result", "%s with a result", outcomeOf(r))
	if w.model != nil {
		w.demand(len(w.model.Asked()) == 0, "nothing costs nothing", "the model was asked %d times", len(w.model.Asked()))
	}
	w.talk(3)
	first := w.ids.compacted(w.ids.compact(threads.CompactParams{Route: compaction.RouteLocal, Budget: 2500}).CompactionID)
	w.demand(first.Outcome != nil && *first.Outcome == compaction.Completed, "a local compaction completes", "%s", outcomeOf(first))
	before := w.contextNow()
	again := w.ids.compacted(w.ids.compact(w.best()).CompactionID)
	switch {
	case again.Outcome != nil && *again.Outcome == compaction.Unchanged:
		w.demand(w.contextNow() == before, "what is unchanged leaves the context as it was", "it is another one")
	default: // notes may be made of notes
		w.demand(again.Outcome != nil && *again.Outcome == compaction.Completed, "a second one changes nothing, or completes", "%s", outcomeOf(again))
	}
	w.ids.turn("PROMPT-ON: and now?")
}

func native(w *world) {
	w.open(setup{cassette: summary + answers})
	w.talk(3)
	before := w.contextNow()
	r := w.ids.compacted(w.ids.compact(threads.CompactParams{Route: compaction.RouteNative}).CompactionID)
	w.isRefusal(r, before)
	w.happened(r)
	w.replaced()
	w.oneSession()
	w.holds()
}

func refusal(w *world) {
	w.open(setup{cassette: summary + answers, refuse: true})
	w.talk(1)
	before := w.contextNow()
	r := w.ids.compacted(w.ids.compact(threads.CompactParams{Route: compaction.RouteNative}).CompactionID)
	w.isRefusal(r, before)
	if w.model == nil {
		skip("it compacts by itself, and a real endpoint cannot be made to refuse")
	}
	w.demand(false, "a provider that cannot compact refuses", "%s", outcomeOf(r))
}

// failingSummary is a compaction whose request for a summary fails.
func failingSummary(how string) func(*world) {
	return func(w *world) {
		w.open(setup{cassette: "-- summary --\nwriter\nrepeat\n" + how + "\n" + answers})
		w.talk(3)
		before := w.contextNow()
		p := w.best()
		r := w.ids.compacted(w.ids.compact(p).CompactionID)
		if w.runtime() {
			w.isRefusal(r, before)
			w.demand(*r.Outcome != compaction.Completed, "a summary that failed is no success", "%s", outcomeOf(r))
			w.demand(r.Reason != nil && *r.Reason != "", "the failure says why", "%s", outcomeOf(r))
			w.demand(w.contextNow() == before, "the context is as it was", "it is another one")
		} else {
			w.demand(*r.Outcome == compaction.Completed, "another writer takes over", "%s", outcomeOf(r))
			w.demand(r.Writer != nil && *r.Writer != compaction.WriterModel, "the checkpoint is not called the model's", "%s", outcomeOf(r))
			w.demand(len(r.Skipped) > 0 && skipsModel(r), "the record says why the model did not write it", "%s", outcomeOf(r))
		}
		w.demand(w.writers() > 0, "the model was asked for a summary", "it was not")
		w.ids.turn("PROMPT-AFTER: and now?")
		body := w.holding("PROMPT-AFTER")
		if w.runtime() && how != "usage 10 0" { // who lost its history says so, and has lost it
			w.demand(strings.Contains(body, "ANSWER-1."), "the history is as it was", "the next request is without the first answer")
		}
		w.holds()
	}
}

func skipsModel(r compaction.Record) bool {
	for _, s := range r.Skipped {
		if strings.Contains(s.Link, "model") && s.Reason != "" {
			return true
		}
	}
	return false
}

// heldSummary is one that the model does not finish before it is released.
const heldSummary = "-- summary --\nwriter\nrepeat\nthink Let me see.\nhold summary\nsay " + summaryText + "\nusage 700 40\n"

// begun asks for a compaction and waits until the model is asked for the summary, or it
// is refused.
func (w *world) begun() compaction.Record {
	before := w.contextNow()
	r := w.ids.compact(w.best())
	var refusal *compaction.Record
	w.either(func() bool {
		for _, p := range w.ids.payloads() {
			if u, ok := p.(threads.CompactionUpdated); ok && u.Record.CompactionID == r.CompactionID && u.Record.Terminal() {
				refusal = &u.Record
			}
		}
		return refusal != nil || w.writers() > 0
	}, "the model is asked for a summary")
	if refusal != nil {
		w.isRefusal(*refusal, before)
		w.demand(w.writers() > 0, "a compaction goes on until the model has written the summary", "%s", outcomeOf(*refusal))
	}
	return r
}

// either waits for something that the model or the thread does.
func (w *world) either(is func() bool, expected string) {
	for {
		w.models.Lock()
		came := w.came
		w.models.Unlock()
		w.ids.mu.Lock()
		more := w.ids.more
		w.ids.mu.Unlock()
		if is() {
			return
		}
		select {
		case <-came:
		case <-more:
		case <-w.ctx.Done():
			w.demand(false, expected, "nothing of the kind in time; %s", w.ids.last())
		}
	}
}

func cancel(w *world) {
	w.open(setup{cassette: heldSummary + answers})
	w.talk(3)
	before := w.contextNow()
	r := w.begun()
	ack, err := w.ids.svc.CancelCompaction(w.ctx, w.thread, r.CompactionID)
	w.must(err, "the compaction can be cancelled")
	w.demand(*ack.Record.Outcome == compaction.Cancelled, "the compaction is cancelled", "%s", outcomeOf(ack.Record))
	w.model.Release("summary")
	w.ids.settle()
	w.demand(w.contextNow() == before, "the context is as it was", "it is another one")
	w.ids.turn("PROMPT-AFTER: and now?")
	w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "ANSWER-1."), "the history is as it was", "the next request is without the first answer")
	w.holds()
}

// denier denies every compaction.
type denier struct{}

const denial = "DENIED-31: not while the tide is out"

func (denier) PreCompact(context.Context, threads.HookEvent) (string, []string, error) {
	return "", nil, fault.New(fault.Denied, denial)
}

func (denier) PostCompact(context.Context, threads.HookEvent) []string { return nil }

func denied(w *world) {
	w.open(setup{cassette: summary + answers, hooks: denier{}})
	w.talk(3)
	before := w.contextNow()
	r := w.ids.compacted(w.ids.compact(w.best()).CompactionID)
	w.isRefusal(r, before)
	w.demand(r.Outcome != nil && *r.Outcome == compaction.Denied, "the compaction is denied", "%s", outcomeOf(r))
	w.demand(r.Reason != nil && strings.Contains(*r.Reason, "DENIED-31"), "the hook's reason is told", "%s", outcomeOf(r))
	w.demand(w.contextNow() == before, "the context is as it was", "it is another one")
	if w.model != nil {
		w.demand(w.writers() == 0, "nothing is asked of the model", "%d summaries were", w.writers())
		w.ids.turn("PROMPT-AFTER: and now?")
		w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "ANSWER-1."), "the history is as it was", "the next request is without the first answer")
	}
}

// order returns the index of the first message that satisfies ok; -1 if none does.
func (s *server) order(ok func(threads.Payload) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.seen {
		if p := payload(m); p != nil && !m.Repeat && ok(p) {
			return i
		}
	}
	return -1
}

func compactionInTurn(w *world) {
	w.open(setup{cassette: summary + slow + answers})
	w.talk(3)
	ack := w.ids.start("PROMPT-SLOW: take your time.")
	w.ids.says("Beginning")
	r := w.ids.compact(w.best())
	w.demand(r.Phase == compaction.PhaseRequested && !r.Terminal(), "it is acknowledged and waits", "%s", outcomeOf(r))
	w.demand(w.writers() == 0, "nothing is summarised during the turn", "a summary was asked for")
	w.model.Release("slow")
	turn := w.ids.end(ack)
	w.demand(turn.Status == transcript.TurnCompleted, "the turn completes", "it is %s%s", turn.Status, because(turn.Error))
	w.demand(strings.Contains(w.ids.answers(ack.Turn.ID), "and the end."), "the turn's answer is whole", "%q", w.ids.answers(ack.Turn.ID))
	end := w.ids.compacted(r.CompactionID)
	w.isRefusal(end, w.contextNow())
	w.happened(end)
	ended := w.ids.order(func(p threads.Payload) bool {
		c, ok := p.(threads.TurnCompleted)
		return ok && c.Turn.ID == ack.Turn.ID
	})
	ran := w.ids.order(func(p threads.Payload) bool {
		u, ok := p.(threads.CompactionUpdated)
		return ok && u.Record.Phase == compaction.PhaseRunning
	})
	w.demand(ran > ended, "it runs after the turn", "it ran before the turn's end")
	w.replaced()
	w.holds()
}

func turnInCompaction(w *world) {
	w.open(setup{cassette: heldSummary + answers})
	w.talk(3)
	r := w.begun()
	again := w.ids.compact(w.best())
	w.demand(again.CompactionID == r.CompactionID, "a second request returns the running compaction", "it began %s", again.CompactionID)
	ack := w.ids.start("PROMPT-AFTER: and now?")
	w.demand(ack.Queued, "the input waits in the queue", "it does not")
	_, err := w.ids.svc.SteerTurn(w.ctx, threads.StartTurnParams{Thread: w.thread, Input: transcript.TextParts("STEER")}, ack.Turn.ID)
	w.demand(fault.CodeOf(err) == fault.Busy, "nothing can be steered into a compaction", "%v", err)
	w.model.Release("summary")
	end := w.ids.compacted(r.CompactionID)
	w.happened(end)
	turn := w.ids.end(ack)
	w.demand(turn.Status == transcript.TurnCompleted, "the turn that waited completes", "it is %s%s", turn.Status, because(turn.Error))
	w.ids.settle()
	ended := w.ids.order(func(p threads.Payload) bool {
		u, ok := p.(threads.CompactionUpdated)
		return ok && u.Record.CompactionID == r.CompactionID && u.Record.Terminal()
	})
	began := w.ids.order(func(p threads.Payload) bool {
		s, ok := p.(threads.TurnStarted)
		return ok && s.Turn.ID == ack.Turn.ID
	})
	w.demand(began > ended, "the turn begins after the compaction has ended", "it began before")
	body := w.holding("PROMPT-AFTER")
	w.demand(strings.Contains(body, "SUMMARY-7F3"), "the turn sees the summary", "its request is without it")
	w.holds()
}

// quiet is how long something that must not happen is waited for.
const quiet = 400 * time.Millisecond

func foreign(w *world) {
	w.open(setup{cassette: heldSummary + answers, tap: w.sub.Scripted.Inject == nil})
	w.talk(2)
	r := w.begun()
	say := w.sub.Scripted.Inject
	if say == nil {
		say = inject
	}
	w.must(say(w.site, w.sub.Scripted.Foreign), "the program tells of a compaction that is not ours")
	late := time.After(quiet)
	for over := false; !over; {
		w.ids.mu.Lock()
		more := w.ids.more
		w.ids.mu.Unlock()
		rec, err := w.ids.svc.ReadCompaction(w.ctx, w.thread, r.CompactionID)
		w.must(err, "the record can be read")
		w.demand(!rec.Terminal(), "the completion of another one ends nothing", "%s while the model still writes the summary", outcomeOf(rec))
		select {
		case <-more:
		case <-late:
			over = true
		}
	}
	w.model.Release("summary")
	w.happened(w.ids.compacted(r.CompactionID))
	w.replaced()
	w.holds()
}
