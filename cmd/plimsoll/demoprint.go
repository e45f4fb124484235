package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// demoOutput shows the demonstration: as text, or as one JSON value a line.
type demoOutput struct {
	w    io.Writer
	s    style
	json bool
	col  int // of the answer's text on the current line
	base int // tokens of the base that every request carries
}

// demoStep is a line of the JSON output; the record is a line of its own.
type demoStep struct {
	Step     string `json:"step"` // imported | answer | native | event | facts | tight
	When     string `json:"when,omitempty"`
	Question string `json:"question,omitempty"`
	Answer   string `json:"answer,omitempty"`
	Failed   string `json:"failed,omitempty"` // why there is no answer

	Import *api.ImportResult      `json:"import,omitempty"`
	Record *compaction.Record     `json:"compaction,omitempty"` // of the steps native and tight
	Event  *protocol.Notification `json:"event,omitempty"`
	Facts  []factCheck            `json:"facts,omitempty"`
}

// factCheck says where a fact was found.
type factCheck struct {
	Question string `json:"question"`
	Fact     string `json:"fact"`
	Before   *bool  `json:"before"` // in the first answer; null if there is none
	After    *bool  `json:"after"`  // in the second answer; null if there is none
	Context  bool   `json:"context"`
}

func (o *demoOutput) step(s demoStep) { o.value(s) }

// value writes a line of JSON; the output of the run remembers an error.
func (o *demoOutput) value(v any) { _ = printJSON(o.w, v) }

func (o *demoOutput) head(n int, text string) {
	say(o.w, "\n%s\n", o.s.bold(strconv.Itoa(n)+"  "+text))
}

func (o *demoOutput) line(text string) { say(o.w, "%s\n", "   "+text) }

func (o *demoOutput) welcome(s *server) {
	if o.json {
		return
	}
	say(o.w, "%s: a session is imported, asked about, compacted, and asked about again.\n", o.s.bold("plimsoll demo"))
	o.line("server " + s.url() + "   home " + s.home.dir)
}

func (o *demoOutput) imported(res api.ImportResult) {
	if o.json {
		o.step(demoStep{Step: "imported", Import: &res})
		return
	}
	o.head(1, "Import a "+res.Source+" session")
	o.line(importSummary(res))
	load := res.Thread.Plimsoll.Occupancy
	text := plural(load.Context, "token")
	if load.Window != nil {
		text += ", " + percent(load.Context, *load.Window) + " of the window of " + thousands(*load.Window)
	}
	o.line(text)
	if load.Window != nil && load.Context > *load.Window {
		o.line(o.s.notice("It is over its load line: the next request does not fit."))
	}
}

func (o *demoOutput) question(when string, q demoQuestion) {
	if o.json {
		return
	}
	if when == "before" {
		o.head(2, "Ask a copy, with the whole session in its context")
	} else {
		o.head(5, "Ask the same, with the compacted context")
	}
	o.line(o.s.notice("? " + q.Question))
	o.col = 0
}

// delta writes more of an answer, folded at the right edge.
func (o *demoOutput) delta(text string) {
	if o.json || text == "" {
		return
	}
	const indent, width = "   ", 96
	for _, r := range printable(text) {
		if o.col == 0 && r != '\n' {
			say(o.w, "%s", indent)
		}
		o.col++
		if r == '\n' || r == ' ' && o.col > width {
			say(o.w, "\n")
			o.col = 0
			continue
		}
		say(o.w, "%s", string(r))
	}
}

func (o *demoOutput) answered(when string, q demoQuestion, a answer) {
	if o.json {
		o.step(demoStep{Step: "answer", When: when, Question: q.Question, Answer: a.text, Failed: a.failed})
		return
	}
	if o.col > 0 {
		say(o.w, "\n")
	}
	if a.failed != "" {
		o.line(o.s.bad("no answer: ") + printable(a.failed))
	}
}

func (o *demoOutput) native(r *compaction.Record) {
	if o.json {
		o.step(demoStep{Step: "native", Record: r})
		return
	}
	o.head(3, "Ask the provider to compact natively")
	o.line(outcomeText(o.s, r))
	for _, row := range [][2]string{{"code", deref(r.Code)}, {"reason", deref(r.Reason)}, {"remedy", deref(r.Remedy)}} {
		if row[1] != "" {
			o.line(fmt.Sprintf("%-7s %s", row[0], printable(row[1])))
		}
	}
}

func (o *demoOutput) compacting() {
	if !o.json {
		o.head(4, "Compact locally into "+thousands(demoBudget)+" tokens, and watch the events")
	}
}

func (o *demoOutput) event(n protocol.Notification) {
	if o.json {
		o.step(demoStep{Step: "event", Event: &n})
		return
	}
	name, text := describe(n)
	seq := "·"
	if n.Seq != nil {
		seq = strconv.FormatInt(*n.Seq, 10)
	}
	o.line(fmt.Sprintf("%5s  %-11s %s", seq, name, text))
}

// facts compares what was asked for with the answers and with the new context.
func (o *demoOutput) facts(questions []demoQuestion, before, after answer, context string) {
	var checks []factCheck
	for i, q := range questions {
		for _, fact := range q.Facts {
			check := factCheck{Question: q.Question, Fact: fact, Context: says(context, fact)}
			if i == 0 {
				check.Before, check.After = before.says(fact), after.says(fact)
			}
			checks = append(checks, check)
		}
	}
	if o.json {
		o.step(demoStep{Step: "facts", Facts: checks})
		return
	}
	o.head(6, "What survived")
	t := &table{head: []string{"   fact", "first answer", "second answer", "new context"}}
	for _, c := range checks {
		unknown := "not asked"
		if c.Question == questions[0].Question {
			unknown = "no answer"
		}
		t.add("   "+oneLine(c.Fact, 60), yesNo(c.Before, unknown), yesNo(c.After, unknown), yesNo(&c.Context, unknown))
	}
	t.print(o.w, o.s)
	if len(questions) > 1 {
		o.line(o.s.dim("not asked: one question was put to the model; the new context was searched for the facts of all."))
	}
}

// says reports whether the answer has the fact in it; nil if there is no answer.
func (a answer) says(fact string) *bool {
	if a.failed != "" {
		return nil
	}
	return new(says(a.text, fact))
}

func yesNo(b *bool, unknown string) string {
	switch {
	case b == nil:
		return unknown
	case *b:
		return "yes"
	}
	return "no"
}

// says reports whether text has the fact in it, whatever its case and spacing.
func says(text, fact string) bool {
	fold := func(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }
	return strings.Contains(fold(text), fold(fact))
}

// records are the last thing that is shown: of the compaction, and of the tighter one
// of the copy, if it was made.
func (o *demoOutput) records(r, tight *compaction.Record) {
	if o.json {
		if tight != nil {
			o.step(demoStep{Step: "tight", Record: tight})
		}
		o.value(r)
		return
	}
	head := "The record of the compaction"
	if tight != nil {
		head += ", and of one of the copy into " + thousands(tightBudget)
	}
	o.head(7, head)
	t := &table{head: []string{"   outcome", "writer", "before", "after", "% of window", "fidelity", "summarised", "whole", "clipped", "stub", "ms"}}
	t.add(recordRow(r)...)
	if tight != nil {
		t.add(recordRow(tight)...)
	}
	t.print(o.w, o.s)
	o.line(o.s.dim("before, after: the session and " + plural(o.base, "token") + " of system prompt."))
	o.line(o.s.dim("fidelity: facts that were found in what was summarised, and how many the new context still has."))
	o.missing("", r)
	if tight != nil {
		o.missing(" from the copy", tight)
	}
}

// missing lists what a compaction lost.
func (o *demoOutput) missing(where string, r *compaction.Record) {
	if r.Checkpoint == nil {
		return
	}
	lost := []string{"nothing"}
	if missing := r.Checkpoint.Fidelity.Missing; len(missing) > 0 {
		lost = nil
		for _, fact := range missing {
			lost = append(lost, oneLine(fact, 60))
		}
	}
	o.col = 0
	o.delta("missing" + where + ": " + strings.Join(lost, " · ") + "\n")
}

// recordRow is a record as a row of the table.
func recordRow(r *compaction.Record) []string {
	row := []string{"   " + outcomeText(style{}, r), "–", "–", "–", "–", "–", "–", "–", "–", "–", strings.TrimSuffix(millisText(r), " ms")}
	if r.Writer != nil {
		row[1] = string(*r.Writer)
	}
	if r.Before != nil && r.After != nil {
		row[2], row[3] = thousands(r.Before.Tokens), thousands(r.After.Tokens)
		if w := r.Before.Window; w != nil {
			row[4] = strings.TrimSuffix(percent(r.Before.Tokens, *w), " %") + " → " + strings.TrimSuffix(percent(r.After.Tokens, *w), " %")
		}
	}
	if r.Checkpoint != nil {
		row[5] = fmt.Sprintf("%d/%d", r.Checkpoint.Fidelity.Kept, r.Checkpoint.Fidelity.Total)
	}
	if c := r.Items; c != nil {
		row[6], row[7], row[8], row[9] = thousands(c.Summarized), thousands(c.Whole), thousands(c.Clipped), thousands(c.Stub)
	}
	return row
}

func (o *demoOutput) addresses(s *server, thread string) {
	if o.json {
		return
	}
	say(o.w, "\n%s\n", o.s.bold("The server keeps running until Ctrl-C"))
	o.line("api          " + s.url() + "/v1/threads/" + thread)
	o.line("events       " + s.url() + "/v1/threads/" + thread + "/events")
	token := "plimsoll token --home " + shellWord(s.home.dir)
	o.line("description  " + describedBy(s.url(), token))
	o.line("token        " + token)
	o.line("events here  plimsoll tail --home " + shellWord(s.home.dir) + " " + thread)
}
