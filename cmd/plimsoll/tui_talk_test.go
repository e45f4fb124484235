package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tides is what the provider of most of these tests does.
const tides = `
-- turn slowly --
pace 60ms
say The water rises slowly at first, faster in the middle of the tide, and slowly again before it is high.
hold
quote
-- turn wait --
say I wait for you.
hold
quote
-- turn deploy --
say I need to run something.
ask run make deploy => deployed to the harbour
say It is deployed.
-- turn edit --
ask edit notes.txt => high water at 07:30
say It is written down.
-- turn fail --
say I look at the gauge.
fail the gauge is out of order
-- turn * --
say High water is at 07:30.
`

func TestTerminalShowsAnswersAsTheyComeAndSteersThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.captured("start")
	if s := tm.warnings(); strings.Contains(s, "Codex service") {
		t.Errorf("the server is taken for an old codex:\n%s", s)
	}
	tm.says("when is high water?")
	tm.shows("• High water is at 07:30.")
	tm.finishes(1)

	tm.says("explain it slowly")
	if s := tm.shows("The water rises"); strings.Contains(s, "before it is high") {
		t.Errorf("the answer came at once:\n%s", s)
	}
	if s := tm.shows("in the middle"); strings.Contains(s, "before it is high") {
		t.Errorf("the answer did not grow:\n%s", s)
	}
	tm.shows("before it is high.")
	tm.says("and the wind?")
	tm.shows("› and the wind?", "• You said: and the wind?")
	tm.finishes(2)
	tm.captured("steer")

	id, _ := d.thread()
	want := []turnShape{
		{"completed", []string{"userMessage", "agentMessage"}},
		{"completed", []string{"userMessage", "agentMessage", "userMessage", "agentMessage"}},
	}
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
	if s := tm.quit(); !strings.Contains(s, "resume "+id) {
		t.Errorf("it does not say how to go on with %s:\n%s", id, s)
	}
}

func TestTerminalGoesOnAfterAnInterruptAndAFailure(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("please wait")
	tm.shows("• I wait for you.")
	d.expects("■ Conversation interrupted")
	tm.keys("Escape")
	tm.shows("■ Conversation interrupted")
	d.expects("■ the gauge is out of order")
	tm.says("please fail")
	tm.shows("■ the gauge is out of order")
	tm.says("when is high water?")
	tm.shows("• High water is at 07:30.")
	tm.finishes(1)
	tm.captured("interrupt")

	id, _ := d.thread()
	want := []turnShape{
		{"interrupted", []string{"userMessage", "agentMessage"}},
		{"failed", []string{"userMessage", "agentMessage"}},
		{"completed", []string{"userMessage", "agentMessage"}},
	}
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}

func TestTerminalAsksAndTellsTheAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("please deploy it")
	tm.shows("Would you like to run the following command?", "$ make deploy")
	tm.captured("approval")
	tm.answers("y")
	tm.shows("• Ran make deploy", "deployed to the harbour", "• It is deployed.")
	tm.finishes(1)

	tm.says("edit the notes")
	tm.shows("Would you like to make the following edits?", "1 +high water at 07:30")
	tm.captured("edit")
	tm.answers("y")
	tm.shows("• It is written down.")
	tm.finishes(2)

	tm.says("deploy again")
	tm.shows("Would you like to run the following command?")
	d.expects("✗ You canceled the request to run make deploy")
	d.expects("■ Conversation interrupted")
	tm.answers("Escape")
	tm.shows("■ Conversation interrupted")
	tm.captured("denied")

	id, _ := d.thread()
	want := []turnShape{
		{"completed", []string{"userMessage", "agentMessage", "commandExecution", "agentMessage"}},
		{"completed", []string{"userMessage", "fileChange", "agentMessage"}},
		{"interrupted", []string{"userMessage", "agentMessage", "commandExecution"}},
	}
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
	if n := d.told(id, "serverRequest/created"); n != 3 {
		t.Errorf("%d requests have an event of ours, want 3", n)
	}
}

// The hidden thread with which codex finds a title is answered by the server: the
// provider of this one would hold it as it holds the turn.
func TestTerminalGetsATitleWithoutAProvider(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("## please wait for the northern pier, until I say more")
	tm.shows("• I wait for you.", "· Please wait for the northern pier")
	tm.captured("title")
	if id, name := d.thread(); name != "Please wait for the northern pier" || len(d.turns(id)) != 1 {
		t.Errorf("the thread is named %q after %d turns", name, len(d.turns(id)))
	}
	tm.says("go on")
	tm.shows("• You said: go on")
	tm.finishes(1)
}

func TestTerminalWithAWrongTokenIsTurnedAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.openWith("wrong")
	if s := tm.exits(1); !strings.Contains(s, "401") {
		t.Errorf("it does not say why:\n%s", s)
	}
	tm.captured("wrong-token")
}

func TestTerminalTakesAMessageBackAndSaysAnotherOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("when is high water?")
	tm.finishes(1)
	tm.says("and the wind?")
	tm.finishes(2)
	tm.keys("Escape")
	tm.shows("esc again to edit previous message")
	tm.keys("Escape")
	tm.shows("↵ rewind")
	tm.keys("Enter")
	tm.shows("• Conversation reverted to this point.", "\n› and the wind?")
	tm.finishes(1)
	tm.says("and the moon?")
	tm.finishes(2)
	tm.captured("reverted")

	id, _ := d.thread()
	plain := turnShape{"completed", []string{"userMessage", "agentMessage"}}
	if diff := cmp.Diff([]turnShape{plain, plain}, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}

// codex ends if some of its requests are refused by an error, so they are refused by a
// turn that fails.
func TestTerminalOutlivesWhatTheServerDoesNotDo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	d.expects("■ the command was not run: this server runs no commands of its clients")
	tm.must("send-keys", "-t", tm.name, "-l", "!ls")
	tm.shows("! ls")
	tm.keys("Enter")
	tm.shows("■ the command was not run: this server runs no commands of its clients")
	tm.says("/diff")
	tm.shows("command/exec is not supported by this server")
	tm.keys("q")
	tm.says("when is high water?")
	tm.shows("• High water is at 07:30.")
	tm.finishes(1)
	tm.captured("refusals")
}
