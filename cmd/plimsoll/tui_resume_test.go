package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTerminalResumesWhatItLeft(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("when is high water?")
	tm.finishes(1)
	tm.quit()
	id, _ := d.thread()

	again := d.open("resume", "--last")
	again.shows("› when is high water?", "• High water is at 07:30.")
	again.says("explain it slowly")
	again.shows("before it is high.")
	again.says("thanks")
	again.shows("• You said: thanks")
	again.vanish()

	other := d.open()
	other.ready()
	other.says("edit the notes of another thread")
	other.shows("Would you like to make the following edits?")
	other.answers("y")
	other.finishes(1)
	other.quit()

	chosen := d.open("resume")
	chosen.shows("Resume a previous session", "When is high water", "Edit the notes of another thread")
	chosen.captured("picker")
	chosen.insists("had the older thread chosen", func() { chosen.keys("Down") }, func(s string) bool {
		return regexp.MustCompile(`(?m)^ +› .*When is high water$`).MatchString(s)
	})
	chosen.insists("left the list", func() { chosen.keys("Enter") }, func(s string) bool { return !strings.Contains(s, "Resume a previous session") })
	chosen.shows("› when is high water?", "• High water is at 07:30.", "• You said: thanks")
	chosen.captured("resumed")
	chosen.says("and tomorrow?")
	want := []turnShape{
		{"completed", []string{"userMessage", "agentMessage"}},
		{"completed", []string{"userMessage", "agentMessage", "userMessage", "agentMessage"}},
		{"completed", []string{"userMessage", "agentMessage"}},
	}
	chosen.finishes(3)
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}

func TestTwoTerminalsShareAThread(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	a := d.open()
	a.ready()
	a.says("when is high water?")
	a.finishes(1)
	b := d.open("resume", "--last")
	b.shows("• High water is at 07:30.")

	a.says("please deploy it")
	a.shows("Would you like to run the following command?", "$ make deploy")
	b.shows("› please deploy it", "Would you like to run the following command?", "$ make deploy")
	b.answers("y")
	for _, tm := range []*terminal{a, b} {
		tm.shows("• Ran make deploy", "• It is deployed.")
		tm.lacks("Would you like to run the following command?")
	}
	b.says("explain it slowly")
	a.shows("› explain it slowly", "before it is high.")
	a.says("what a tide")
	b.shows("› what a tide", "• You said: what a tide")
	a.shows("• You said: what a tide")
	a.captured("shared")
}

func TestTerminalComesBackToAnApproval(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("please deploy it")
	tm.shows("Would you like to run the following command?")
	tm.vanish()

	again := d.open("resume", "--last")
	again.shows("Would you like to run the following command?", "$ make deploy")
	again.captured("approval-again")
	again.answers("y")
	again.shows("• It is deployed.")
	again.says("when is high water?")
	again.shows("• High water is at 07:30.")
}

// A turn of a model that is in the middle of its answer ends with the process; what it
// had said is kept, and the conversation goes on.
func TestTerminalOutlivesACrashOfTheServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("explain it slowly")
	tm.shows("in the middle")
	d.kill()
	tm.shows("Reconnecting to server…", "The water rises slowly")
	tm.captured("reconnecting")
	d.expects("■ Conversation interrupted")
	d.serve()
	tm.lacks("Reconnecting to server…")
	// What was said in the last quarter of a second, and while the disk was slow, may be lost.
	tm.shows("› explain it slowly", "• The water rises slowly", "■ Conversation interrupted")
	tm.says("when is high water?")
	tm.shows("• High water is at 07:30.")
	tm.finishes(1)
	tm.captured("reconnected")
	id, _ := d.thread()
	want := []turnShape{
		{"interrupted", []string{"userMessage", "agentMessage"}},
		{"completed", []string{"userMessage", "agentMessage"}},
	}
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}

func TestTerminalAndAnApprovalOutliveACrashOfTheServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("please deploy it")
	tm.shows("Would you like to run the following command?")
	d.kill()
	tm.shows("econnecting")
	d.serve()
	tm.lacks("econnecting")
	tm.shows("Would you like to run the following command?", "$ make deploy")
	tm.answers("y")
	tm.shows("• Ran make deploy", "• It is deployed.")
	tm.finishes(1)
	tm.captured("approval-survived")
	id, _ := d.thread()
	want := []turnShape{{"completed", []string{"userMessage", "agentMessage", "commandExecution", "agentMessage"}}}
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}
