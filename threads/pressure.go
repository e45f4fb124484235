package threads

import (
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// sourcePressure is the source of the notice that little of a task's budget is left.
const sourcePressure = "pressure"

// codeBudgetExhausted is the code of a turn whose task has no budget left.
const codeBudgetExhausted = "budgetExhausted"

// errBudget ends a turn that has spent its budget.
type errBudget struct{ compaction.Budget }

// Error implements error.
func (e errBudget) Error() string {
	return fmt.Sprintf("the turn has used %d tokens; its budget (maxTotalTokens) is %d", e.Used, e.Limit)
}

// budget is the task's budget at a step boundary, which a request that the provider
// did not count has used, too.
func (s *state) budget(ps []Payload) compaction.Budget {
	b := s.Budget
	for _, p := range ps {
		if u, ok := p.(UsageUpdated); ok {
			b.Used += spent(u)
		}
	}
	return b
}

// press tells the model, once in a turn, that little is left of the budget.
func (s *state) press(env env, b compaction.Budget) []Payload {
	if s.Pressed || !b.Pressing() {
		return nil
	}
	return []Payload{ItemCompleted{Item: wholeItem(env, s.Active, transcript.Notice{Source: sourcePressure, Text: pressureText(b)})}}
}

// pressureText is the reminder.
func pressureText(b compaction.Budget) string {
	return fmt.Sprintf("[Automatic note, not from the user: %d of the %d tokens that this task may use are spent. "+
		"Finish the most important part now, leave the work in a consistent state, and say what remains.]", b.Used, b.Limit)
}

// relieves reports whether enough old history exists that a model which was just told
// to hurry is to be spared of. It happens once in a turn, as note does.
func (s *state) relieves(env env, note []Payload) bool {
	if len(note) == 0 || env.auto.policy.Off || !env.auto.stateless {
		return false
	}
	entries := slices.Clone(s.context)
	open := s.unread(env.read)
	for _, p := range note {
		if p, ok := p.(ItemCompleted); ok {
			entries = append(entries, transcript.Entry{Item: p.Item, Form: transcript.FormWhole})
			open[p.Item.ID] = true
		}
	}
	_, enough := compaction.Pressure(compaction.Input{Entries: entries, Open: open, Base: env.base, Window: env.window})
	return enough
}
