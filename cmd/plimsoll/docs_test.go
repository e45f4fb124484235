package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
