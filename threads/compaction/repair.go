package compaction

import (
	"context"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// planModel plans a checkpoint with the notes of a model, empty while there are none
// yet. The result is nil if it would be unchanged; the code then says why.
func planModel(in Input) (p *planner, missing []fact, code string, err error) {
	in.Writer, in.PruneTo = WriterModel, 0
	if in.Recover {
		p, err = newRecovery(in, WriterModel, recoverShare)
	} else if p, err = newPlanner(in); err == nil {
		p.group()
		p.measureAges()
	}
	if err != nil {
		return nil, nil, "", err
	}
	if !p.reserve() {
		return nil, nil, CodeOverheadExceedsBudget, nil
	}
	p.prune(p.target)
	p.collect()
	room := p.room - runeTokens(p.reanchor(p.reanchorLimit()))
	if p.notesLimit() < notesMin {
		return nil, nil, codeNoRoom, nil
	}
	l, text := p.draftModel(room)
	if l == nil {
		return nil, nil, CodeOverheadExceedsBudget, nil
	}
	p.settle()
	if in.notes == "" { // as it will be when the notes have taken their room
		text = p.writeModel(l, p.limit*9/10-p.notesLimit())
	}
	return p, p.missing(p.facts(l), text), "", nil
}

// repair asks once for the facts that the notes miss, if a request is left for it.
// The answer replaces the notes only if more is in it.
func (s *scribe) repair(ctx context.Context, t *try) {
	_, missing, _, err := planModel(s.in.withNotes(s.notes))
	if err != nil || len(missing) == 0 || s.spare == 0 || s.spent >= maxAsking || ctx.Err() != nil {
		return
	}
	s.spare--
	p := Prompt{System: systemPrompt, Text: s.src.repairPrompt(s.notes, missing), MaxOutput: t.cap}
	if transcript.EstimateText(p.System)+transcript.EstimateText(p.Text) > s.window(t.m)*windowShare/100 {
		return
	}
	a, d := s.ask(ctx, t.m, p)
	var better string
	if d == nil {
		exam := exam{history: s.notes + "\n" + factLines(missing), lang: s.src.lang, limit: s.src.limit, wish: s.wish}
		better, d = exam.judge(a)
	}
	if d != nil {
		s.warn("%s: the notes miss %d facts, and the repair failed: %s", t.m.Name, len(missing), d.reason)
		return
	}
	_, still, _, err := planModel(s.in.withNotes(better))
	switch {
	case err != nil || len(still) >= len(missing) || forgot(s.notes, better):
		s.warn("%s: the notes miss %d facts, and asking for them made them no better", t.m.Name, len(missing))
	default:
		s.notes = better
	}
}

// forgot reports whether a repaired text has lost much of the first one.
func forgot(first, repaired string) bool {
	return utf8.RuneCountInString(repaired)*10 < utf8.RuneCountInString(first)*7 || namesLost(first, repaired) > 3
}

// namesLost counts names and paths of one text that another one does not have.
func namesLost(from, to string) int {
	have, lost := map[string]bool{}, 0
	for m := range names(to) {
		have[m.name] = true
	}
	for m := range names(from) {
		if !have[m.name] {
			have[m.name] = true
			lost++
		}
	}
	return lost
}

func (in Input) withNotes(notes string) Input {
	in.notes = notes
	return in
}
