package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Finish completes the session: the ends of turns, the kept items of
// boundaries, the title. A file that yielded no item is an error.
func (b *Builder) Finish() (*Session, error) {
	if b.Len() == 0 {
		return nil, b.nothing()
	}
	partner := b.pair()
	b.endTurns(partner)
	for i := range b.s.Transcript.Boundaries {
		b.keep(i, partner)
	}
	if b.s.Title == "" {
		b.s.Title = b.title
	}
	b.s.Title = oneLine(b.s.Title, 80)
	slices.SortStableFunc(b.s.Warnings, func(a, c Warning) int { return cmp.Compare(a.Line, c.Line) })
	if b.dropped > 0 {
		b.s.Warnings = append(b.s.Warnings, Warning{0, fmt.Sprintf("%d more warnings: the file is badly damaged", b.dropped)})
	}
	return b.s, nil
}

func (b *Builder) nothing() error {
	err := fault.New(fault.Invalid, "the %s file holds no message that could be read (%d warnings)", b.s.Source, len(b.s.Warnings)+b.dropped)
	if len(b.s.Warnings) > 0 {
		w := b.s.Warnings[0]
		err.Message += fmt.Sprintf("; the first, in line %d: %s", w.Line, w.Reason)
	}
	err.Data = map[string]any{"warnings": b.s.Warnings, "skipped": b.s.Skipped}
	return err
}

// pair maps the index of each call to that of its result and back. A result
// answers the newest call of its id that has none; -1 stands for no partner.
func (b *Builder) pair() []int {
	items := b.s.Transcript.Items
	partner := make([]int, len(items))
	open := map[transcript.CallID][]int{}
	for i, it := range items {
		partner[i] = -1
		switch body := it.Body.(type) {
		case transcript.ToolCall:
			open[body.CallID] = append(open[body.CallID], i)
		case transcript.ToolResult:
			calls := open[body.CallID]
			if len(calls) == 0 {
				continue
			}
			call := calls[len(calls)-1]
			open[body.CallID] = calls[:len(calls)-1]
			partner[i], partner[call] = call, i
		}
	}
	return partner
}

// endTurns sets the status of every turn: what the file says, else interrupted
// if a call was never answered and the agent did not go on after it.
func (b *Builder) endTurns(partner []int) {
	cut := map[transcript.TurnID]bool{}
	for i, it := range b.s.Transcript.Items {
		switch it.Body.(type) {
		case transcript.ToolCall:
			if partner[i] < 0 {
				cut[it.Turn] = true
			}
		case transcript.AgentMessage, transcript.Reasoning:
			delete(cut, it.Turn)
		}
	}
	for i := range b.s.Transcript.Turns {
		t := &b.s.Transcript.Turns[i]
		t.Status = transcript.TurnCompleted
		if cut[t.ID] {
			t.Status = transcript.TurnInterrupted
		}
		if end, ok := b.ends[t.ID]; ok {
			t.Status, t.Error = end.status, end.err
		}
	}
}

// keep fills in the kept items of a boundary so that no pair is separated by it.
func (b *Builder) keep(boundary int, partner []int) {
	t := &b.s.Transcript
	bd := &t.Boundaries[boundary]
	set := map[int]bool{}
	for _, i := range b.kept[boundary] {
		if i < bd.Covered && transcript.InContext(t.Items[i]) {
			set[i] = true
		}
	}
	for i, it := range t.Items[:bd.Covered] {
		p := partner[i]
		switch it.Body.(type) {
		case transcript.ToolResult:
			if set[i] && (p < 0 || !set[p]) {
				delete(set, i)
				b.Warn(b.lines[i], "a compaction keeps the result of call %s without the call; it was left out of the context", callID(it))
			}
		case transcript.ToolCall:
			switch {
			case set[i] && p >= 0 && p < bd.Covered && !set[p]:
				delete(set, i)
				b.Warn(b.lines[i], "a compaction keeps call %s without its result; it was left out of the context", callID(it))
			case !set[i] && p >= bd.Covered:
				set[i] = true
				b.Warn(b.lines[i], "call %s was answered after a compaction that did not keep it; it was kept", callID(it))
			}
		}
	}
	indexes := make([]int, 0, len(set))
	for i := range set {
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		bd.Kept = append(bd.Kept, transcript.Kept{ItemID: t.Items[i].ID, Form: transcript.FormWhole})
	}
}

func callID(it transcript.Item) transcript.CallID {
	switch body := it.Body.(type) {
	case transcript.ToolCall:
		return body.CallID
	case transcript.ToolResult:
		return body.CallID
	}
	return ""
}
