package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/api/codexschema"
)

// What the list says of a method is what the table of methods does.
func TestCoverageIsWhatTheTableServes(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range coverages {
		if listed[c.Method] {
			t.Errorf("%s is listed twice", c.Method)
		}
		listed[c.Method] = true
		m, served := methodNamed(c.Method)
		switch {
		case served && c.Status == Refused:
			t.Errorf("%s is served, and listed as refused", c.Method)
		case !served && c.Status != Refused:
			t.Errorf("%s is listed as %s, and not served", c.Method, c.Status)
		case served && m.own:
			t.Errorf("%s is codex's, and the table calls it ours", c.Method)
		case served && m.experimental != c.Experimental:
			t.Errorf("%s: experimental is %v in the table, %v in the list", c.Method, m.experimental, c.Experimental)
		}
		if c.Status != Served && c.Reason == "" {
			t.Errorf("%s is %s without a reason", c.Method, c.Status)
		}
	}
	for _, m := range methods {
		if m.call != nil && m.own == listed[m.name] {
			t.Errorf("%s: ours %v, listed as codex's %v", m.name, m.own, listed[m.name])
		}
	}
}

// A method of codex that nobody has decided about, or one that is gone, shows as
// soon as another codex is installed.
func TestCoverageHasEveryMethodOfTheInstalledCodex(t *testing.T) {
	s := codexschema.Load(t)
	var names []string
	for _, c := range coverages {
		names = append(names, c.Method)
		if whole, _ := s.Experimental(c.Method); whole != c.Experimental {
			t.Errorf("%s: experimental is %v in %s, %v in the list", c.Method, whole, s.Version, c.Experimental)
		}
	}
	if diff := cmp.Diff(s.Methods(), names); diff != "" {
		t.Errorf("methods (-%s +list):\n%s", s.Version, diff)
	}
	if !strings.HasSuffix(s.Version, " "+CodexVersion) {
		t.Errorf("the list is of codex %s; installed is %s", CodexVersion, s.Version)
	}
}

func TestExperimentalMembersAreThoseOfTheInstalledCodex(t *testing.T) {
	s := codexschema.Load(t)
	for _, c := range coverages {
		if c.Status == Refused {
			continue
		}
		_, want := s.Experimental(c.Method)
		if diff := cmp.Diff(want, experimentalFields[c.Method]); diff != "" {
			t.Errorf("%s (-%s +ours):\n%s", c.Method, s.Version, diff)
		}
	}
}

func TestNoNameOfOursIsOneOfCodex(t *testing.T) {
	s := codexschema.Load(t)
	theirs := s.Names()
	for _, m := range methods {
		if m.own && slices.Contains(theirs, m.name) {
			t.Errorf("method %s is codex's", m.name)
		}
	}
	for _, n := range ownNotifications {
		if slices.Contains(theirs, n) {
			t.Errorf("notification %s is codex's", n)
		}
	}
	for _, n := range Notifications() {
		if own := slices.Contains(ownNotifications, n.Method); own == slices.Contains(theirs, n.Method) {
			t.Errorf("notification %s: ours %v, and codex has it %v", n.Method, own, !own)
		}
	}
}
