package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// A session that is small enough needs no compaction, so the demonstration has
// not shown what it is for: it fails, and still ends with the record.
func TestDemoFailsUnlessTheCompactionCompleted(t *testing.T) {
	t.Parallel()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	d, err := newDemo(serveHome(t), tr, []demoQuestion{{Question: "When is high water?", Facts: []string{"07:30"}}})
	mustDo(t, err)
	var out bytes.Buffer
	d.out = demoOutput{w: &out, json: true}
	d.session = []byte(sessionLine(0, "user", "high water is at 07:30") + "\n")
	if err := d.play(t.Context()); !errors.Is(err, errOutcome) {
		t.Fatalf("got %v, want %v", err, errOutcome)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var record compaction.Record
	mustDo(t, json.Unmarshal([]byte(lines[len(lines)-1]), &record))
	if record.Outcome == nil || *record.Outcome != compaction.Unchanged {
		t.Errorf("the last line is no record of an unchanged compaction: %s", lines[len(lines)-1])
	}
}

// The bundled questions must be worth asking: the session has what they ask for,
// early enough that only a compaction that kept it can answer.
func TestBundledQuestionsHaveTheirFactsInTheSession(t *testing.T) {
	t.Parallel()
	var questions []demoQuestion
	mustDo(t, json.Unmarshal(demoQuestions, &questions))
	if len(questions) == 0 {
		t.Fatal("there are no questions")
	}
	done, err := compactFile(t.Context(), bytes.NewReader(demoSession), fileOptions{budget: 1 << 30})
	mustDo(t, err)
	var text strings.Builder
	for _, e := range done.entries {
		text.WriteString(api.ContextEntryOf(e).Text + "\n")
	}
	for _, q := range questions {
		if q.Question == "" || len(q.Facts) == 0 {
			t.Errorf("question %q has %d facts", q.Question, len(q.Facts))
		}
		for _, fact := range q.Facts {
			if !says(text.String(), fact) {
				t.Errorf("%q: the session does not say %q", q.Question, fact)
			}
		}
	}
}

// The demonstration must show a summary that kept what is asked for, and one that did
// not keep everything: neither is worth showing without the other.
func TestDemoSummarisesKeepsItsFactsAndShowsALoss(t *testing.T) {
	t.Parallel()
	var questions []demoQuestion
	mustDo(t, json.Unmarshal(demoQuestions, &questions))
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	d, err := newDemo(serveHome(t), tr, questions)
	mustDo(t, err)
	var out bytes.Buffer
	d.out = demoOutput{w: &out, json: true}
	mustDo(t, d.play(t.Context()))
	var record, tight compaction.Record
	for line := range strings.Lines(out.String()) {
		var step demoStep
		mustDo(t, json.Unmarshal([]byte(line), &step))
		switch step.Step {
		case "tight":
			tight = *step.Record
		case "facts":
			for _, f := range step.Facts {
				if !f.Context || f.After != nil && !*f.After {
					t.Errorf("lost: %+v", f)
				}
			}
		case "":
			mustDo(t, json.Unmarshal([]byte(line), &record))
		}
	}
	if r := record; !completed(&r) || r.Items.Summarized == 0 || len(r.SummarizedTurnIDs) == 0 {
		t.Errorf("nothing was summarised: %+v", r.Items)
	}
	if r := tight; !completed(&r) || len(r.Checkpoint.Fidelity.Missing) == 0 || r.After.Tokens > tightBudget {
		t.Errorf("the tight compaction lost nothing: %+v", r)
	}
}

func TestFactsAreFoundWhateverCaseAndSpacing(t *testing.T) {
	t.Parallel()
	for fact, want := range map[string]bool{"high water": true, "HIGH  water": true, "low water": false, "07:3": true} {
		if says("It is High\n Water at 07:30", fact) != want {
			t.Errorf("%q found: %t", fact, !want)
		}
	}
}
