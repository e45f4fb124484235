package threads_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A session of 300 turns with at least 12 automatic compactions keeps I1 to I10: what
// each of them says holds at the end for everything that happened.
func TestASessionOf300TurnsKeepsTheInvariants(t *testing.T) {
	v := &voyage{f: t, prompt: map[transcript.TurnID]string{}, closed: map[int]string{}}
	v.p = newPlayer(32_000)
	v.p.unfit = nil
	v.p.play = func(p *player, req adapters.Request) played {
		switch {
		case req.Writer:
			return notes()
		case v.do.calls > 0:
			v.do.calls--
			return played{calls: []transcript.ToolCall{call(fmt.Sprintf("c%d", len(p.reqs)), "look")}}
		}
		return played{text: big(fmt.Sprintf("answer %d", len(p.reqs)), v.do.size)}
	}
	v.bench = playing(t, v.p, withTool(big("seen", 1500)))
	v.id = v.create()
	if _, err := v.svc.AddPin(t.Context(), threads.PinParams{Thread: v.id, Text: voyagePin}); err != nil {
		t.Fatal(err)
	}
	commits := v.journal.count()
	for i := range 300 {
		v.ask(fmt.Sprintf("Work on part %d. Never use port %d.", i, 5000+i), ordered{size: 600 + i%500, calls: i % 3})
		if i == 150 {
			v.restart()
		}
	}
	t.Logf("%d commits", v.journal.count()-commits)
	automatic := 0
	for _, r := range v.records(v.id) {
		if r.Trigger.Automatic() && *r.Outcome == compaction.Completed {
			automatic++
		}
	}
	if automatic < 12 {
		t.Errorf("%d automatic compactions, want at least 12", automatic)
	}
	for _, part := range contract {
		t.Run(part.name, func(t *testing.T) {
			v.f = t
			part.holds(v)
		})
	}
	turns, _ := v.p.requests()
	last := turns[len(turns)-1]
	if in := (&request{Request: last}).usage("").InputTokens; in > 32_000*85/100 {
		t.Errorf("the last request has %d tokens", in)
	}
	if text := strings.Join((&request{Request: last}).texts(), "\n"); !strings.Contains(text, "Never use port 5299") || !strings.Contains(text, "Never use port 5290") {
		t.Error("the newest requests of the user are not in the last request")
	}
}
