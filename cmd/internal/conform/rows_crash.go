package conform

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The rows about what dies, restarts and is driven by two.

func killInTurn(w *world) {
	w.open(setup{cassette: slow + answers})
	w.talk(1)
	ack := w.ids.start("PROMPT-SLOW: take your time.")
	w.ids.says("Beginning")
	w.must(kill(w.site.Dir), "the child can be killed")
	turn := w.ids.end(ack)
	w.fails(turn)
	w.ids.settle()
	w.demand(strings.Contains(w.ids.answers(ack.Turn.ID), "Beginning"), "what was said before is kept", "the turn has %q", w.ids.answers(ack.Turn.ID))
	w.model.Release("slow")
	w.ids.turn("PROMPT-AFTER: and now?")
	w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "ANSWER-1."), "the conversation goes on with its history", "the next request is without the first answer")
	w.oneSession()
	w.holds()
}

func killInCompaction(w *world) {
	w.open(setup{cassette: heldSummary + answers})
	w.talk(2)
	before := w.contextNow()
	r := w.begun()
	w.must(kill(w.site.Dir), "the child can be killed")
	end := w.ids.compacted(r.CompactionID)
	switch *end.Outcome {
	case compaction.Failed, compaction.Uncertain, compaction.Interrupted:
	default:
		w.demand(false, "a compaction whose child was killed before the summary was written has failed, or is uncertain", "%s", outcomeOf(end))
	}
	w.demand(end.Reason != nil && *end.Reason != "", "the failure says why", "%s", outcomeOf(end))
	w.demand(w.contextNow() == before, "the context is as it was", "it is another one")
	w.model.Release("summary")
	w.ids.turn("PROMPT-AFTER: and now?")
	w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "ANSWER-1."), "the conversation goes on with its history", "the next request is without the first answer")
	w.oneSession()
	w.holds()
}

func resume(w *world) {
	w.open(setup{cassette: answers, disk: true})
	w.talk(2)
	before := w.contextNow()
	w.restart()
	w.demand(w.contextNow() == before, "the context is a fold of the journal", "a restarted server has another one")
	w.ids.turn("PROMPT-AFTER: and now?")
	if w.model == nil {
		return
	}
	body := w.holding("PROMPT-AFTER")
	for _, want := range []string{"PROMPT-1", "ANSWER-1.", "PROMPT-2", "ANSWER-2."} {
		w.demand(strings.Count(body, want) == 1, "the model knows what was said before, once", "%q is %d times in its request", want, strings.Count(body, want))
	}
	w.oneSession()
	w.holds()
}

func own(w *world) {
	w.open(setup{manual: true, loud: true, cassette: summary + "-- full --\nwhen PROMPT-FULL\nsay ANSWER-FULL.\n" + fmt.Sprintf("usage %d 10\n", w.sub.Scripted.Full) + answers})
	w.talk(1)
	w.ids.turn("PROMPT-FULL: go on.")
	w.ids.turn("PROMPT-AFTER: and now?")
	list, err := w.ids.svc.ListCompactions(w.ctx, w.thread, threads.PageQuery{})
	w.must(err, "the records can be listed")
	told := 0
	for _, r := range list.Records {
		w.demand(r.Trigger == compaction.TriggerProvider, "it is told as the provider's own", "its trigger is %s", r.Trigger)
		w.demand(r.Outcome != nil && *r.Outcome == compaction.Completed, "it completes", "%s", outcomeOf(r))
		told++
	}
	w.demand(w.writers() > 0, "the program compacts by itself when it is full", "it did not")
	w.demand(told == 1, "the one compaction is told of", "%d are", told)
	w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "SUMMARY-7F3"), "the model goes on with the summary", "its request is without it")
	w.holds()
}

func twoServers(w *world) {
	w.open(setup{cassette: answers, disk: true})
	w.talk(1)
	thread := w.ids.thread
	w.must(w.ids.close(), "the server ends cleanly")
	second := filepath.Join(w.site.Dir, "second.db")
	w.must(duplicate(w.db(), second), "a copy of the journal")
	w.ids = w.serve(w.journal())
	w.ids.follow(thread)
	w.ids.turn("PROMPT-FIRST: it is still mine?")
	j, err := sqlite.Open(second, sqlite.Options{})
	w.must(err, "a second journal")
	other := w.serve(j)
	other.follow(thread)
	turn := other.end(other.start("PROMPT-SECOND: it is mine now?"))
	w.demand(turn.Status == transcript.TurnFailed && turn.Error != nil && turn.Error.Message != "", "a session that another server drives is refused", "the turn is %s%s", turn.Status, because(turn.Error))
	for _, r := range w.model.Asked() {
		w.demand(!strings.Contains(string(r.Body), "PROMPT-SECOND"), "nothing of the second server reaches the model", "its input did")
	}
	w.ids.turn("PROMPT-AFTER: and now?")
	w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "PROMPT-FIRST"), "the first server goes on", "its history is gone")
}

// duplicate copies a journal that nobody has open.
func duplicate(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		_ = out.Close() // the copy has failed
		return err
	}
	return out.Close()
}

func rebase(w *world) {
	w.open(setup{cassette: summary + answers})
	w.talk(3)
	before := w.contextNow()
	r := w.ids.compacted(w.ids.compact(threads.CompactParams{Route: compaction.RouteLocal, Budget: 2500}).CompactionID)
	w.isRefusal(r, before)
	w.demand(r.Outcome != nil && *r.Outcome == compaction.Completed, "a local checkpoint completes", "%s", outcomeOf(r))
	w.demand(r.Checkpoint != nil && r.After != nil && r.Before != nil && r.After.Tokens < r.Before.Tokens, "it is smaller than what it stands for", "%s", outcomeOf(r))
	w.ids.turn("PROMPT-AFTER: and now?")
	if w.model != nil {
		w.retold(r)
	}
	if w.runtime() {
		ids := w.ids.sessions()
		w.demand(len(ids) == 2 && ids[0] != ids[1], "the checkpoint opens a fresh session of the program", "it had %q", ids)
	}
	_, err := w.ids.svc.UndoCompaction(w.ctx, threads.UndoParams{Thread: w.thread, Compaction: r.CompactionID})
	w.must(err, "the compaction can be taken back")
	w.ids.settle()
	w.ids.turn("PROMPT-UNDONE: and now?")
	if w.model != nil {
		body := strings.Join(texts([]byte(w.holding("PROMPT-UNDONE"))), "\n")
		for _, want := range []string{"ANSWER-1.", "ANSWER-2.", "PROMPT-AFTER"} {
			w.demand(strings.Contains(body, want), "undo brings back what was, with what was said since", "the next request is without %q", want)
		}
	}
	w.holds()
}

// retold demands that the model was sent the checkpoint in place of what it stands for.
func (w *world) retold(r compaction.Record) {
	c, err := w.ids.svc.ReadContext(w.ctx, w.thread, nil)
	w.must(err, "the context can be read")
	w.demand(c.Boundary != nil && c.Boundary.CompactionID == r.CompactionID && c.Boundary.Checkpoint != nil, "the checkpoint opens an epoch", "the context has no such boundary")
	body := strings.Join(texts([]byte(w.holding("PROMPT-AFTER"))), "\n")
	for line := range strings.SplitSeq(transcript.Text(c.Boundary.Checkpoint.Body), "\n") {
		if line = strings.TrimSpace(line); len(line) > 20 {
			w.demand(strings.Contains(body, line), "the model is sent the checkpoint", "a line of it is missing: %q", clip(line, 120))
		}
	}
	w.smaller()
}

func down(w *world) {
	w.open(setup{cassette: answers})
	w.ids.turn("PROMPT-1: hello.")
	addr := strings.TrimPrefix(w.model.URL, "http://")
	w.model.Close()
	ack := w.ids.start("PROMPT-AWAY: is anybody there?")
	failed := false
	w.ids.await("the turn fails, or tells that it waits", func(m events.Message) bool {
		switch p := payload(m).(type) {
		case threads.TurnCompleted:
			failed = p.Turn.ID == ack.Turn.ID
			return failed
		case threads.ErrorRaised:
			return p.WillRetry
		default:
			return false
		}
	})
	if failed {
		w.fails(w.ids.end(ack))
		w.ids.settle()
	}
	w.back(addr)
	if !failed {
		turn := w.ids.end(ack)
		w.demand(turn.Status == transcript.TurnCompleted, "the turn that waited completes", "it is %s%s", turn.Status, because(turn.Error))
		w.ids.settle()
	}
	w.ids.turn("PROMPT-AFTER: and now?")
	w.demand(strings.Contains(w.holding("PROMPT-AFTER"), "PROMPT-1"), "the conversation goes on", "its history is gone")
}

// fails demands that a turn has failed and says why.
func (w *world) fails(turn transcript.Turn) {
	w.demand(turn.Status == transcript.TurnFailed, "the turn fails", "it is %s%s", turn.Status, because(turn.Error))
	w.demand(turn.Error != nil && turn.Error.Message != "", "the failure says why", "it says nothing")
}

// back starts the model server again where it was.
func (w *world) back(addr string) {
	l, err := net.Listen("tcp", addr)
	w.must(err, "the model server comes back")
	c, err := upstream.Parse("conform", []byte(cassetteOf(w.sub, answers)))
	w.must(err, "a cassette that can be played")
	w.model, err = upstream.Serve(c, upstream.Options{Listener: l, Recorded: func(upstream.Recorded) { w.wake() }})
	w.must(err, "the model server comes back")
}
