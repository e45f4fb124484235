package compaction_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// demo reads the session that the program demonstrates itself with.
func demo(t *testing.T) []transcript.Entry {
	t.Helper()
	f, err := os.Open("../../cmd/plimsoll/demo/session.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := importer.Read(f, importer.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	tr, _ := transcript.AnswerOpenCalls(s.Transcript)
	entries, err := tr.Context(tr.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// demoRules are what the user of the session laid down.
var demoRules = []string{
	"Never touch the migrations folder. The schema belongs to the data team.",
	"Keep the public error codes exactly as they are.",
	"Run make test before you say that something is done. Not just go test of one package.",
	"No new dependencies, the standard library is enough.",
	"One lock per berth.",
	"The health check is never limited.",
	"since Monday staging listens on port 7480",
	"per API key, not per IP.",
	"capacity 60 instead of 40",
	"The refill stays 8 per second.",
	"No client library please",
	"no background goroutine.",
	"a constant of 5 seconds",
	"must stay \"ok\" when healthy",
	"do not change a default.",
	"For 4 use NO_BERTH_FITS, no new code.",
}

// compactDemo returns the result at a budget and everything that it shows, on one
// line.
func compactDemo(t *testing.T, entries []transcript.Entry, budget int) (*compaction.Composed, string) {
	t.Helper()
	in := compaction.Input{Entries: entries, Budget: budget}
	c, err := compaction.Compose(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := compaction.Check(in, c); err != nil {
		t.Fatal(err)
	}
	byID := map[transcript.ItemID]transcript.Item{}
	for _, e := range entries {
		byID[e.Item.ID] = e.Item
	}
	shown := []string{c.Checkpoint.Text}
	for _, k := range c.Kept {
		shown = append(shown, transcript.Text(transcript.Render(byID[k.ItemID], k).Body))
	}
	return c, strings.Join(strings.Fields(strings.Join(shown, "\n")), " ")
}

func TestTheRulesOfTheUserSurviveOrAreMissedFirst(t *testing.T) {
	entries := demo(t)
	for _, budget := range []int{16_000, 8_000, 4_000, 2_000} {
		c, shown := compactDemo(t, entries, budget)
		for _, r := range demoRules {
			if !strings.Contains(shown, r) {
				t.Errorf("at %d tokens the rule %q is gone; missing are %q", budget, r, c.Fidelity.Missing)
			}
		}
	}
	c, shown := compactDemo(t, entries, 1_000)
	missing := strings.Join(c.Fidelity.Missing, "\n")
	for _, r := range demoRules {
		if !strings.Contains(shown, r) && !strings.Contains(missing, r) {
			t.Errorf("at 1,000 tokens the rule %q is neither kept nor missing", r)
		}
	}
	for _, r := range demoRules[:4] {
		if !strings.Contains(shown, r) {
			t.Errorf("at 1,000 tokens the listed rule %q is gone", r)
		}
	}
	ruled := true
	for _, m := range c.Fidelity.Missing {
		isRule := strings.Contains(m, " ")
		if isRule && !ruled {
			t.Errorf("the rule %q is missing after other facts: %q", m, c.Fidelity.Missing)
		}
		ruled = ruled && isRule
	}
}

func TestStubsDoNotEatASmallBudget(t *testing.T) {
	entries := demo(t)
	for _, budget := range []int{1_000, 2_000, 4_000} {
		c, _ := compactDemo(t, entries, budget)
		stubs := 0
		for _, k := range c.Kept {
			if k.Form == transcript.FormStub {
				i := slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.Item.ID == k.ItemID })
				stubs += transcript.Tokens(transcript.Render(entries[i].Item, k).Body)
			}
		}
		if stubs > budget*15/100 {
			t.Errorf("%d of %d tokens are stubs", stubs, budget)
		}
	}
}

func TestOnlyNamesOfTheProjectAreFacts(t *testing.T) {
	entries := demo(t)
	generic := regexp.MustCompile(`\b(StatusOK|TodoWrite|NewRequest|in_progress|WriteHeader|NewTextHandler|ServeHTTP)\b`)
	for _, budget := range []int{1_000, 2_000, 4_000} {
		c, _ := compactDemo(t, entries, budget)
		_, also, _ := strings.Cut(c.Checkpoint.Text, "\n## Also\n")
		for line := range strings.Lines(also) {
			name, _, _ := strings.Cut(line, ":")
			if generic.MatchString(name) {
				t.Errorf("at %d tokens a generic name is introduced: %q", budget, line)
			}
		}
		for _, m := range c.Fidelity.Missing {
			if generic.MatchString(m) && !strings.Contains(m, " ") {
				t.Errorf("at %d tokens the generic name %s is a fact", budget, m)
			}
		}
	}
	c, _ := compactDemo(t, entries, 4_000)
	for _, want := range []string{"\n- ErrNoBerth: ErrNoBerth = errors.New(", "\n- AssignTo: func (a *Assigner) AssignTo("} {
		if !strings.Contains(c.Checkpoint.Text, want) {
			t.Errorf("%q is not introduced:\n%s", want, c.Checkpoint.Text)
		}
	}
}

func TestWhatPassesLaterIsNotListedAsFailing(t *testing.T) {
	entries := demo(t)
	for _, budget := range []int{4_000, 8_000} {
		c, _ := compactDemo(t, entries, budget)
		_, failing, ok := strings.Cut(c.Checkpoint.Text, "\n## Failing, not seen to pass since\n")
		if !ok {
			t.Fatalf("nothing fails:\n%s", c.Checkpoint.Text)
		}
		failing, _, _ = strings.Cut(failing, "\n\n")
		for _, gone := range []string{"$ go build", "$ go vet", "./internal/config", "lint", "never answered"} {
			if strings.Contains(failing, gone) {
				t.Errorf("%q is listed as failing:\n%s", gone, failing)
			}
		}
		if !strings.Contains(failing, "$ curl -sS -m 10 https://harbour-staging.example:7443/healthz") {
			t.Errorf("what never passed is not listed:\n%s", failing)
		}
	}
}

func TestTheCheckpointHoldsNoNoise(t *testing.T) {
	entries := demo(t)
	noise := regexp.MustCompile(`(?m)^- - |interrupted by user|^- \w+: *\d+(→|\t)`)
	for _, budget := range []int{1_000, 2_000, 4_000, 8_000} {
		c, _ := compactDemo(t, entries, budget)
		if m := noise.FindString(c.Checkpoint.Text); m != "" {
			t.Errorf("at %d tokens there is %q:\n%s", budget, m, c.Checkpoint.Text)
		}
	}
}
