package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// harbour brings the session of the demonstration into the home, and opens it.
func (d *desk) harbour() (*terminal, string) {
	d.t.Helper()
	d.write("session.jsonl", string(demoSession))
	d.run("import", d.path("session.jsonl"))
	id, _ := d.thread()
	tm := d.open("resume", id)
	tm.shows("Load test staging (port 7480)", composing)
	return tm, id
}

// compactions returns the records of a thread, the newest first.
func (d *desk) compactions(id string) []compaction.Record {
	d.t.Helper()
	var list struct{ Data []compaction.Record }
	d.get(threadPath(id)+"/compactions", &list)
	return list.Data
}

func TestTerminalCompactsAndStillKnows(t *testing.T) {
	t.Parallel()
	var questions []demoQuestion
	mustDo(t, json.Unmarshal(demoQuestions, &questions))
	d := newDesk(t, "", "")
	tm, id := d.harbour()
	tm.says("/compact")
	tm.shows("• Context compacted")
	tm.finishes(1)
	tm.captured("compacted")
	if all := d.compactions(id); len(all) != 1 || !completed(&all[0]) {
		t.Fatalf("the compactions: %+v", all)
	}
	if d.told(id, "thread/compaction/updated") == 0 {
		t.Error("no event of ours tells of the compaction")
	}
	tm.says(questions[1].Question)
	s := tm.shows("• From my context:")
	if facts := tm.finishes(2); !says(facts, questions[1].Facts[0]) {
		t.Errorf("the answer does not have %q:\n%s\n%s", questions[1].Facts[0], s, facts)
	}
}

func TestTerminalShowsACompactionOfAnotherClient(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", "")
	tm, id := d.harbour()
	d.run("compact", id, "--budget", "6000")
	tm.shows("• Context compacted")
	tm.captured("compacted-elsewhere")
	if all := d.compactions(id); len(all) != 1 || !completed(&all[0]) || all[0].Items.Summarized == 0 {
		t.Fatalf("the compactions: %+v", all)
	}
	tm.says("Which port does staging use?")
	tm.shows("• From my context:", "7480")
}

func TestTerminalShowsWhyNothingWasCompacted(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("when is high water?")
	tm.finishes(1)
	tm.says("/compact")
	tm.finishes(2)
	tm.shows(warned)
	if s := tm.warnings(); !strings.Contains(s, "compaction unchanged (nothingToCompact): the context has") {
		t.Errorf("the warnings do not say why:\n%s", s)
	}
	tm.says("and tomorrow?")
	tm.finishes(3)
}

// warningOf is the heading of one of several warnings.
var warningOf = regexp.MustCompile(`Warnings · (\d+) of (\d+)`)

// warned is on the screen if there are warnings.
const warned = "f2 to view"

// warnings opens the list of warnings, if there are any, and returns what all of them
// say.
func (tm *terminal) warnings() string {
	tm.t.Helper()
	if !strings.Contains(tm.screen(), warned) {
		return ""
	}
	all := ""
	tm.keys("F2")
	for first := tm.shows("Warnings · "); ; {
		all += first
		if m := warningOf.FindStringSubmatch(first); m == nil || m[1] == m[2] {
			break
		}
		tm.keys("Right")
		first = tm.lacks(warningOf.FindString(first))
	}
	tm.keys("Escape")
	tm.lacks("Warnings · ")
	return all
}

func TestTerminalOutlivesARefusedCompaction(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "[compaction]\nroute = \"native\"\n", "")
	tm, id := d.harbour()
	refusal := "■ compaction refused (nativeUnsupported): the offline model has no compaction of its own; use route local"
	d.expects(refusal)
	tm.says("/compact")
	tm.shows(refusal)
	tm.captured("refused")
	if all := d.compactions(id); len(all) != 1 || *all[0].Outcome != compaction.Refused {
		t.Errorf("the compactions: %+v", all)
	}
	tm.says("Which port does staging use?")
	tm.shows("• From my context:", "7480")
	tm.finishes(1)
	turns := d.turns(id)
	want := []turnShape{{"failed", nil}, {"completed", []string{"userMessage", "agentMessage"}}}
	if diff := cmp.Diff(want, turns[max(0, len(turns)-2):]); diff != "" {
		t.Errorf("the last turns (-want +got):\n%s", diff)
	}
}
