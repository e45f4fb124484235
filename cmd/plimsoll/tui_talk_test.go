package main

import (
	"strings"
	"testing"
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
fail the gauge is out of order
-- turn * --
say High water is at 07:30.
`

func TestTerminalStreamsAnswersAndSteers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	t.Log(tm.ready())
	tm.says("when is high water?")
	t.Log(tm.shows("• High water is at 07:30."))
	tm.ready()
	tm.says("explain it slowly")
	first := tm.shows("The water rises")
	if strings.Contains(first, "before it is high") {
		t.Errorf("the answer came at once:\n%s", first)
	}
	t.Log(tm.shows("slowly again", "before it is high."))
	tm.says("and the wind?")
	t.Log(tm.screen())
	t.Log(tm.shows("You said: and the wind?"))
	t.Log(tm.finishes(2))
	t.Log(d.thread())
	t.Log(tm.quit())
}

func TestTerminalInterrupts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("please wait")
	t.Log(tm.shows("I wait for you."))
	d.expects("Conversation interrupted")
	tm.keys("Escape")
	t.Log(tm.shows("nterrupted"))
	tm.says("when is high water?")
	t.Log(tm.finishes(1))
	d.expects("out of order")
	tm.says("please fail")
	t.Log(tm.shows("out of order"))
}

func TestTerminalAsks(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("please deploy it")
	t.Log(tm.shows("make deploy", "Would you like"))
	tm.keys("y")
	t.Log(tm.finishes(1))
	tm.says("edit")
	t.Log(tm.shows("Would you like"))
	tm.keys("y")
	t.Log(tm.finishes(2))
}
