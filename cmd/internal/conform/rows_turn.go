package conform

import (
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The rows about turns.

func start(w *world) {
	w.open(setup{cassette: "-- a --\nsay ANSWER-ONE of the model.\nusage 1200 30\n"})
	ack := w.ids.turn("PROMPT-ONE: say one word.")
	got := w.ids.answers(ack.Turn.ID)
	if w.model == nil {
		w.demand(got != "", "an answer", "the turn completed without one")
		return
	}
	w.demand(strings.TrimSpace(got) == "ANSWER-ONE of the model.", `the answer "ANSWER-ONE of the model."`, "%q", got)
	w.holding("PROMPT-ONE")
	w.oneSession()
	read, err := w.ids.svc.ReadThread(w.ctx, w.thread)
	w.must(err, "the thread can be read")
	w.demand(read.Thread.Status == threads.StatusIdle, "the thread is idle", "it is %s", read.Thread.Status)
}

func stream(w *world) {
	w.open(setup{cassette: "-- slow --\nsay \"Beginning of it \"\nhold slow\nsay and the end.\ndeltas 4\nusage 1000 10\n"})
	ack := w.ids.start("PROMPT-SLOW: count to ten.")
	if w.model != nil {
		w.ids.says("Beginning")
		w.model.Release("slow")
	}
	turn := w.ids.end(ack)
	w.demand(turn.Status == transcript.TurnCompleted, "the turn completes", "it is %s%s", turn.Status, because(turn.Error))
	w.ids.settle()
	w.adds(ack.Turn.ID)
}

// adds demands that what was streamed is what the items of a turn say.
func (w *world) adds(turn transcript.TurnID) {
	streamed, last := map[string]string{}, map[string]int64{}
	w.ids.mu.Lock()
	seen := w.ids.seen
	w.ids.mu.Unlock()
	for _, m := range seen {
		if m.Kind == events.KindDelta {
			w.demand(m.Delta.Offset == last[m.Delta.Item], "each delta begins where the one before ended", "offset %d after %d bytes", m.Delta.Offset, last[m.Delta.Item])
			streamed[m.Delta.Item] += m.Delta.Text
			last[m.Delta.Item] += int64(len(m.Delta.Text))
		}
	}
	found := 0
	for _, it := range w.ids.items() {
		if m, ok := it.Body.(transcript.AgentMessage); ok && it.Turn == turn {
			if s, open := streamed[string(it.ID)]; open {
				found++
				w.demand(s == m.Text, "the deltas add up to the answer", "%q and %q", clip(s, 200), clip(m.Text, 200))
			}
		}
	}
	w.demand(found > 0, "the answer is streamed", "it came in one piece, without a delta")
}

const asks = "-- run --\n{{run}}\nusage 1000 10\n-- after --\nrepeat\nsay AFTERWARDS.\nusage 1100 10\n"

// approval plays a turn to the question and answers it.
func (w *world) approval(d adapters.Decision) transcript.Turn {
	w.open(setup{cassette: asks})
	ack := w.ids.start("PROMPT-MAKE: make the file.")
	r := w.ids.request()
	w.demand(r.Command != nil && strings.Contains(r.Command.Command, "made"), "the approval shows the command", "%s %+v", r.Method, r.Command)
	w.demand(!w.isMade(), "nothing runs before it is approved", "the file is there while the question waits")
	w.ids.answer(r, d)
	turn := w.ids.end(ack)
	w.ids.settle()
	return turn
}

func approve(w *world) {
	turn := w.approval(adapters.Accept)
	w.demand(turn.Status == transcript.TurnCompleted, "the turn completes", "it is %s%s", turn.Status, because(turn.Error))
	w.demand(w.isMade(), "the command runs once it is approved", "its file is not there")
	w.demand(len(w.model.Asked()) >= 2, "the model is told what came of its call", "it was asked %d times", len(w.model.Asked()))
	w.pairs()
}

func deny(w *world) {
	turn := w.approval(adapters.Decline)
	w.demand(turn.Status == transcript.TurnCompleted, "the turn goes on without the command", "it is %s%s", turn.Status, because(turn.Error))
	w.demand(!w.isMade(), "a command that is declined does not run", "its file is there")
	for _, it := range w.ids.items() {
		if c, ok := it.Body.(transcript.Command); ok {
			w.demand(c.Status != "completed", "the command is not called completed", "its status is %s", c.Status)
		}
	}
	w.pairs()
}

// pairs demands that every request so far has results for its calls.
func (w *world) pairs() {
	broken := pairsBroken(w.model.Asked())
	w.demand(len(broken) == 0, "calls and results stay together in every request", "%s", strings.Join(broken, "; "))
}

func interrupt(w *world) {
	w.open(setup{cassette: slow + answers})
	ack := w.ids.start("PROMPT-SLOW: take your time.")
	w.ids.says("Beginning")
	w.must(w.ids.svc.InterruptTurn(w.ctx, w.thread, ack.Turn.ID), "the interrupt is accepted")
	turn := w.ids.end(ack)
	w.demand(turn.Status == transcript.TurnInterrupted, "the turn is interrupted", "it is %s%s", turn.Status, because(turn.Error))
	w.ids.settle()
	w.demand(strings.Contains(w.ids.answers(ack.Turn.ID), "Beginning"), "what was said before the interrupt is kept", "the turn has %q", w.ids.answers(ack.Turn.ID))
	w.model.Release("slow")
	next := w.ids.turn("PROMPT-NEXT: and now?")
	got := w.ids.answers(next.Turn.ID)
	w.demand(strings.Contains(got, "ANSWER-1.") && !strings.Contains(got, "and the end"), "the next turn has its own answer", "%q", clip(got, 200))
}

func steer(w *world) {
	w.open(setup{cassette: slow + answers})
	ack := w.ids.start("PROMPT-SLOW: take your time.")
	w.ids.says("Beginning")
	_, err := w.ids.svc.SteerTurn(w.ctx, threads.StartTurnParams{Thread: w.thread, Input: transcript.TextParts("STEER-55: mind the gap.")}, ack.Turn.ID)
	w.must(err, "the running turn takes what is said")
	<-time.After(quiet) // it is on its way to the program; should it come too late, the turn runs once more with it
	w.model.Release("slow")
	turn := w.ids.end(ack)
	w.demand(turn.Status == transcript.TurnCompleted, "the steered turn completes", "it is %s%s", turn.Status, because(turn.Error))
	w.ids.settle()
	body := w.holding("STEER-55")
	w.demand(strings.Count(body, "STEER-55") == 1, "it is said once", "%d times", strings.Count(body, "STEER-55"))
	users := 0
	for _, it := range w.ids.items() {
		if m, ok := it.Body.(transcript.UserMessage); ok && strings.Contains(transcript.Text(m), "STEER-55") {
			users++
		}
	}
	w.demand(users == 1, "it is in the thread once", "%d times", users)
}

func usage(w *world) {
	w.open(setup{cassette: "-- a --\nsay One.\nusage 1200 30\n-- b --\nsay Two.\nusage 1500 40\n"})
	one := w.ids.turn("PROMPT-1: count.")
	got := w.used(one.Turn.ID)
	if w.model == nil {
		w.demand(got.Last.InputTokens > 0, "the tokens of the request are told", "%+v", got.Last)
		return
	}
	w.demand(got.Last.InputTokens == 1200 && got.Last.OutputTokens == 30, "1200 tokens in and 30 out", "%+v", got.Last)
	got = w.used(w.ids.turn("PROMPT-2: count.").Turn.ID)
	w.demand(got.Last.InputTokens == 1500 && got.Last.OutputTokens == 40, "1500 tokens in and 40 out, not the sum", "%+v", got.Last)
	w.demand(got.Total.InputTokens == 2700 && got.Total.OutputTokens == 70, "2700 tokens in and 70 out in all", "%+v", got.Total)
	w.demand(got.Window == w.sub.Scripted.Window, "the window that the program has", "%d, wanted %d", got.Window, w.sub.Scripted.Window)
}

// used returns the last count of a turn.
func (w *world) used(turn transcript.TurnID) (last threads.UsageUpdated) {
	found := false
	for _, p := range w.ids.payloads() {
		if u, ok := p.(threads.UsageUpdated); ok && u.TurnID == turn {
			last, found = u, true
		}
	}
	w.demand(found, "the tokens of the turn are told", "nothing is")
	return last
}

// failing is a turn whose request fails in some way.
func failing(how string) func(*world) {
	return func(w *world) {
		w.open(setup{cassette: summary + "-- fails --\nwhen PROMPT-FAIL\nunless PROMPT-AFTER\nrepeat\n" + how + "\nsay x\n-- answers --\nrepeat\nsay ANSWER-${n}.\nusage 1000 10\n"})
		w.ids.turn("PROMPT-1: hello.")
		ack := w.ids.start("PROMPT-FAIL: this one fails.")
		turn := w.ids.end(ack)
		w.fails(turn)
		if strings.HasPrefix(how, "limit") {
			w.demand(turn.Error.Code == string(adapters.ClassOverflow), "the failure is told as "+string(adapters.ClassOverflow), "it is %s: %s", turn.Error.Code, turn.Error.Message)
		}
		w.ids.settle()
		w.usable()
	}
}

// usable demands that the thread can be read and follows what is asked of it.
func (w *world) usable() {
	read, err := w.ids.svc.ReadThread(w.ctx, w.thread)
	w.must(err, "the thread can be read")
	w.demand(read.Thread.Status != threads.StatusActive, "the thread rests", "it is %s", read.Thread.Status)
	w.ids.turn("PROMPT-AFTER: and now?")
	w.holding("PROMPT-AFTER")
}
