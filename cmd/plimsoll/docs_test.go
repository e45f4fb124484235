package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

var phases = []compaction.Phase{
	compaction.PhaseRequested, compaction.PhaseHooking, compaction.PhaseRunning, compaction.PhaseCommitting, compaction.PhaseTerminal,
}

var outcomes = []compaction.Outcome{
	compaction.Completed, compaction.Unchanged, compaction.Refused, compaction.Denied,
	compaction.Failed, compaction.Cancelled, compaction.Interrupted, compaction.Uncertain,
}

// section returns a chapter of docs/state-machines.md.
func section(t *testing.T, title string) string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "state-machines.md"))
	mustDo(t, err)
	_, rest, ok := strings.Cut(string(doc), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("docs/state-machines.md has no chapter %q", title)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

func TestDrawnPhasesAreTheOnesInTheCode(t *testing.T) {
	t.Parallel()
	_, diagram, _ := strings.Cut(section(t, "Compaction"), "```mermaid\n")
	diagram, _, ok := strings.Cut(diagram, "```")
	if !ok {
		t.Fatal("the chapter has no diagram")
	}
	drawn := map[string]bool{}
	for _, edge := range regexp.MustCompile(`(?m)^\s*(\S+) --> (\S+?)(:.*)?$`).FindAllStringSubmatch(diagram, -1) {
		drawn[edge[1]+" --> "+edge[2]] = true
	}
	allowed := map[string]bool{"[*] --> requested": true, "terminal --> [*]": true}
	for _, p := range phases {
		for _, q := range phases {
			if _, err := p.To(q); err == nil {
				allowed[string(p)+" --> "+string(q)] = true
			}
		}
	}
	if diff := cmp.Diff(allowed, drawn); diff != "" {
		t.Errorf("-code +docs:\n%s", diff)
	}
}

func TestDescribedOutcomesAreTheOnesInTheCode(t *testing.T) {
	t.Parallel()
	described := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| ([\w, ]+) \|`).FindAllStringSubmatch(section(t, "Compaction"), -1) {
		if row[1] != "outcome" {
			described[row[1]] = row[2]
		}
	}
	allowed := map[string]string{}
	for _, o := range outcomes {
		var from []string
		for _, p := range phases {
			if p.CanEnd(o) == nil {
				from = append(from, string(p))
			}
		}
		allowed[string(o)] = strings.Join(from, ", ")
	}
	if diff := cmp.Diff(allowed, described); diff != "" {
		t.Errorf("-code +docs:\n%s", diff)
	}
}

func TestDrawnGateIsTheOneInTheCode(t *testing.T) {
	t.Parallel()
	_, diagram, _ := strings.Cut(section(t, "Gate"), "```mermaid\n")
	diagram, _, ok := strings.Cut(diagram, "```")
	if !ok {
		t.Fatal("the chapter has no diagram")
	}
	drawn := map[string]bool{}
	for _, edge := range regexp.MustCompile(`(?m)^\s*(\w+) --> (\w+):`).FindAllStringSubmatch(diagram, -1) {
		drawn[edge[1]+" --> "+edge[2]] = true
	}
	// The smallest loads that take the gate along each edge.
	p, full := compaction.Policy{}, compaction.Load{Used: 90_000, Base: 2_000, Window: 100_000}
	small, crowded := compaction.Load{Used: 30_000, Base: 2_000, Window: 100_000}, compaction.Load{Used: 95_000, Base: 90_000, Window: 100_000}
	state := func(g compaction.Gate) string {
		if g.Shut == "" {
			return "armed"
		}
		return string(g.Shut)
	}
	seen := map[string]bool{}
	for _, o := range outcomes {
		for _, code := range []string{compaction.CodeNoGain, compaction.CodeOverheadExceedsBudget} {
			load := full
			if code == compaction.CodeOverheadExceedsBudget {
				load = crowded
			}
			shut := compaction.Gate{Key: "k"}.Ended(o, code, "k", load)
			if state(shut) == "armed" {
				continue
			}
			seen["armed --> "+state(shut)] = true
			seen[state(shut)+" --> "+state(shut.Measured(p, small, "k"))] = true
		}
	}
	if diff := cmp.Diff(seen, drawn); diff != "" {
		t.Errorf("-code +docs:\n%s", diff)
	}
}

func TestDocumentedAdaptersAreTheOnesInTheCode(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "adapters.md"))
	mustDo(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| (?:model|runtime) \| (.*) \|$`).FindAllStringSubmatch(string(doc), -1) {
		documented[row[1]] = row[2]
	}
	there := map[string]string{}
	for name, kind := range adapterKinds {
		if name == "fake" {
			continue // of tests
		}
		adapter, err := kind.open(name, providerConfig{BaseURL: "http://127.0.0.1:1/v1"}, environment{})
		mustDo(t, err)
		if form, is := runtimeForms[name]; is { // its sessions need the program
			there[name] = form
			continue
		}
		s, err := adapter.Open(t.Context(), adapters.OpenParams{Model: "any"})
		mustDo(t, err)
		switch able := s.Compaction(); {
		case able.Native != nil:
			there[name] = able.Native.Form
		default:
			there[name] = "refused: " + able.Refusal.Code
		}
		mustDo(t, s.Close())
	}
	if diff := cmp.Diff(there, documented); diff != "" {
		t.Errorf("-code +docs:\n%s", diff)
	}
}
