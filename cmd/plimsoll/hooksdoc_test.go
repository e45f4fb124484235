package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/hooks"
)

func TestTheHooksOfTheDocumentationAreUnderstood(t *testing.T) {
	doc, err := os.ReadFile("../../docs/hooks.md")
	mustDo(t, err)
	_, rest, _ := strings.Cut(string(doc), "```toml\n")
	block, _, found := strings.Cut(rest, "```")
	cfg, err := parseConfig([]byte(block))
	if !found || err != nil || len(cfg.Hooks.PreCompact) != 1 || len(cfg.Hooks.PostCompact) != 1 {
		t.Errorf("hooks %+v, %v", cfg.Hooks, err)
	}
}

// The example is run as a hook, before compactions of both kinds, with and without the
// file that it looks for.
func TestTheHookOfTheDocumentationDoesWhatItSays(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/hooks.md")
	mustDo(t, err)
	_, rest, _ := strings.Cut(string(doc), "<!-- tested: ")
	scripts := blocks(rest, "sh")
	if len(scripts) != 1 {
		t.Fatalf("%d tested blocks", len(scripts))
	}
	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "may-compact")
	mustDo(t, os.WriteFile(program, []byte(scripts[0]), 0o600))
	runner := hooks.New(hooks.Config{Pre: []hooks.Hook{{Command: []string{"sh", program}, Closed: true}}, Environ: os.Environ(), Dir: dir})
	ask := func(automatic bool) string {
		said, warnings, err := runner.PreCompact(t.Context(), hooks.Event{Thread: "t", Cwd: dir, Automatic: automatic})
		if warnings != nil {
			t.Errorf("warnings %q", warnings)
		}
		if err != nil {
			return err.Error()
		}
		return said
	}
	const goes = "Keep every version number."
	free := []string{ask(false), ask(true)}
	mustDo(t, os.WriteFile(filepath.Join(dir, "release.lock"), nil, 0o600))
	locked := []string{ask(false), ask(true)}
	if diff := cmp.Diff([]string{goes, goes}, free); diff != "" {
		t.Errorf("without the file: %s", diff)
	}
	if locked[0] != goes || !strings.Contains(locked[1], "denied the compaction: a release is on") {
		t.Errorf("with the file: %q", locked)
	}
}
