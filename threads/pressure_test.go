package threads_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// budgeted has a turn happen that may use so many tokens.
func (b *bench) budgeted(id transcript.ThreadID, text string, tokens int) transcript.Turn {
	b.t.Helper()
	ack, err := b.svc.StartTurn(b.t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts(text), MaxTotalTokens: tokens})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn
}

// spender calls a tool again and again; each request costs what usage says.
func spender(usage adapters.Usage) *player {
	p := newPlayer(1_000_000)
	p.play = func(p *player, _ adapters.Request) played {
		return played{text: "step", calls: []transcript.ToolCall{call("c"+strings.Repeat("x", len(p.reqs)), "look")}, usage: &usage}
	}
	return p
}

func TestATurnFailsWhenItsBudgetIsSpent(t *testing.T) {
	for name, usage := range map[string]adapters.Usage{"counted": {InputTokens: 900, OutputTokens: 100}, "not counted": {}} {
		t.Run(name, func(t *testing.T) {
			p := spender(usage)
			b := playing(t, p, withTool(big("result", 300)))
			id := b.create()
			turn := b.budgeted(id, "go", 10_000)
			if turn.Status != transcript.TurnFailed || turn.Error.Code != "budgetExhausted" || !strings.Contains(turn.Error.Message, "10000") {
				t.Errorf("the turn is %s", mustJSON(t, turn))
			}
			turns, _ := p.requests()
			if name == "counted" && len(turns) != 10 {
				t.Errorf("%d requests, want 10", len(turns))
			}
			notes := 0
			for _, e := range turns[len(turns)-1].Entries {
				if n, ok := e.Item.Body.(transcript.Notice); ok && n.Source == "pressure" {
					notes++
				}
			}
			if notes != 1 {
				t.Errorf("the last request has %d reminders, want 1", notes)
			}
			if got := outcomes(b.records(id)); got != "taskBudget completed" {
				t.Errorf("compactions: %s", got)
			}
			if r := b.records(id)[0]; *r.Writer != compaction.WriterFixed || r.Checkpoint.Version != compaction.VersionFixed {
				t.Errorf("record %s", mustJSON(t, r))
			}
		})
	}
}

func TestABudgetIsOfOneTurn(t *testing.T) {
	p := newPlayer(100_000)
	p.play = func(*player, adapters.Request) played {
		return played{text: "ok", usage: &adapters.Usage{InputTokens: 900, OutputTokens: 50}}
	}
	b := playing(t, p)
	id := b.create()
	for range 3 { // each of them spends most of it, and none has a second step
		if turn := b.budgeted(id, "go", 1000); turn.Status != transcript.TurnCompleted {
			t.Errorf("the turn is %s", mustJSON(t, turn))
		}
	}
	b.wantOutcomes(id, "")
	if _, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x"), MaxTotalTokens: -1}); err == nil {
		t.Error("a negative budget is accepted")
	}
}
