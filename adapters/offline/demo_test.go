package offline

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// demoContexts returns the context of the bundled session before and after a
// compaction to the target that the model's window gives.
func demoContexts(t *testing.T) map[string][]transcript.Entry {
	t.Helper()
	f, err := os.Open("../../cmd/plimsoll/demo/session.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := importer.Read(f, importer.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	tr := s.Transcript
	before, err := tr.Context(tr.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	c, err := compaction.Compose(compaction.Input{Entries: before, Window: Window, Writer: compaction.WriterExtractive})
	if err != nil || c.Outcome != compaction.Completed {
		t.Fatalf("compose: %v, %+v", err, c)
	}
	checkpoint := &transcript.Item{ID: "checkpoint", Body: c.Checkpoint}
	tr.Boundaries = append(tr.Boundaries, transcript.Boundary{Epoch: tr.Epoch() + 1, Covered: len(tr.Items), Checkpoint: checkpoint, Kept: c.Kept})
	after, err := tr.Context(tr.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]transcript.Entry{"before": before, "after": after}
}

// askDemo asks in a context and returns the quotes of the answer: a label repeats
// the question, so what it says proves nothing.
func askDemo(context []transcript.Entry, question string) (quotes, whole string) {
	asked := transcript.Entry{Item: transcript.Item{ID: "asked", Body: user(question)}, Form: transcript.FormWhole}
	whole = answer(append(slices.Clip(context), asked))
	for line := range strings.Lines(whole) {
		if strings.HasPrefix(line, "- ") {
			quotes += line
		}
	}
	return quotes, whole
}

func TestDemoQuestionsAreAnswered(t *testing.T) {
	raw, err := os.ReadFile("../../cmd/plimsoll/demo/questions.json")
	if err != nil {
		t.Fatal(err)
	}
	var questions []struct {
		Question string
		Facts    []string
	}
	if err := json.Unmarshal(raw, &questions); err != nil || len(questions) == 0 {
		t.Fatalf("%d questions: %v", len(questions), err)
	}
	for when, context := range demoContexts(t) {
		for _, q := range questions {
			quotes, whole := askDemo(context, q.Question)
			for _, fact := range q.Facts {
				if strings.Contains(strings.ToLower(q.Question), strings.ToLower(fact)) {
					t.Errorf("%q gives its answer %q away", q.Question, fact)
				}
				if !strings.Contains(quotes, fact) {
					t.Errorf("%s: %q is not answered with %q:\n%s", when, q.Question, fact, whole)
				}
			}
			if n := textTokens(whole); n > 600 {
				t.Errorf("%s: the answer to %q has %d tokens", when, q.Question, n)
			}
		}
	}
}

// The same session is asked what the demo does not ask. The questions share words
// with the answers, as they must: who asks for the "southern" harbour of a session
// that says "in the south" is not understood.
func TestOtherQuestionsAboutTheDemoAreAnswered(t *testing.T) {
	contexts := demoContexts(t)
	for _, c := range []struct {
		ask   string
		facts []string
	}{
		{`What is the name of the counter for refused requests, and who scrapes it?`, []string{"harbour_ratelimit_rejected_total", "monitoring"}},
		{`How long do we drain before the shutdown, and what must the body of /healthz be?`, []string{"constant of 5 seconds", "stay \"ok\" when healthy"}},
		{`How many berths has the harbour in the south, and how many minutes is the hold there in the south?`, []string{"400 berths", "25 minutes"}},
		{`Who reviewed the branch, and what should BERTH_TAKEN be renamed to?`, []string{"Ines", "BERTH_OCCUPIED"}},
		{`Which key do I use on staging, and on which port does it listen?`, []string{"stg-agent", "7480"}},
		{`Which two ships got the same berth, and which berth was it?`, []string{"Grey Osprey", "B-07"}},
		{`Why is there no background goroutine, and how many agents will there be?`, []string{"no background goroutine", "several thousand"}},
		{`What remains to be done, and why must the load test wait?`, []string{"Describe RATE_LIMITED", "Load test staging", "VPN is down"}},
		{`May I add dependencies, and who owns the schema?`, []string{"No new dependencies", "data team"}},
		{`What's the burst now, one lock for all berths or one lock per berth?`, []string{"One lock per berth"}},
	} {
		for when, context := range contexts {
			quotes, whole := askDemo(context, c.ask)
			for _, fact := range c.facts {
				if !strings.Contains(quotes, fact) {
					t.Errorf("%s: %q is not answered with %q:\n%s", when, c.ask, fact, whole)
				}
			}
		}
	}
}
