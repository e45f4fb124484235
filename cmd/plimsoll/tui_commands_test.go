package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTerminalRenamesForksAndArchives(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", tides)
	tm := d.open()
	tm.ready()
	tm.says("when is high water?")
	tm.finishes(1)
	tm.says("and the wind?")
	tm.finishes(2)
	source, _ := d.thread()

	// What is suggested comes from a hidden thread, and from no provider.
	tm.says("/rename")
	tm.shows("Suggested from this conversation", "› And the wind\n")
	tm.keys("Enter")
	tm.shows("· And the wind", composing)
	if _, name := d.thread(); name != "And the wind" {
		t.Errorf("after the suggestion the thread is named %q", name)
	}
	tm.says("/rename Tides and winds")
	tm.shows("· Tides and winds")
	if _, name := d.thread(); name != "Tides and winds" {
		t.Errorf("the thread is named %q", name)
	}

	tm.says("/fork")
	tm.shows("• Thread forked from Tides and winds ("+source+")", "› and the wind?", "• Fork created.", composing)
	tm.says("and tomorrow?")
	tm.shows("› and tomorrow?")
	tm.finishes(3)
	tm.captured("forked")
	fork, name := d.thread()
	if fork == source || name != "Tides and winds" {
		t.Fatalf("the newest thread is %s, %q, after the fork of %s", fork, name, source)
	}
	plain := turnShape{"completed", []string{"userMessage", "agentMessage"}}
	for id, want := range map[string][]turnShape{source: {plain, plain}, fork: {plain, plain, plain}} {
		if diff := cmp.Diff(want, d.turns(id)); diff != "" {
			t.Errorf("the turns of %s (-want +got):\n%s", id, diff)
		}
	}

	tm.says("/archive")
	tm.shows("Archive this session?", "2. Yes, archive")
	tm.keys("2")
	left := tm.shows("Agent command center", "Ready 1", "Tides and winds", "and the wind?")
	if strings.Contains(left, "and tomorrow?") {
		t.Errorf("the archived fork is listed:\n%s", left)
	}
	if id, _ := d.thread(); id != source {
		t.Errorf("the listing begins with %s, want %s: the fork %s is archived", id, source, fork)
	}
	tm.keys("Enter")
	tm.shows("› when is high water?", "› and the wind?", composing)
	tm.says("thanks")
	tm.shows("› thanks")
	tm.finishes(3)
}
