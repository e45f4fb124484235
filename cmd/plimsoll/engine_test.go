package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/hooks"
)

func TestEngineIsConfigured(t *testing.T) {
	t.Parallel()
	cfg, err := parseConfig([]byte(`
[compaction]
route = "local"
auto = false
preset = "pi"
reserve = 20_000
cap = 64_000
post_turn = false
idle = "10m"
writer = "extractive"
`))
	mustDo(t, err)
	got := engineOf(threads.Config{IdleAfter: time.Second}, cfg, home{"/h"}, os.Getenv)
	want := threads.Config{
		IdleAfter: time.Second, CompactionRoute: compaction.RouteLocal,
		Policy: compaction.Policy{Off: true, Preset: compaction.PresetPi, Reserve: 20_000, Cap: 64_000, NoPostTurn: true, Idle: 10 * time.Minute},
		Writer: threads.WriterConfig{Writer: compaction.WriterExtractive},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(threads.Config{}, "Instructions")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	dir := t.TempDir()
	mustDo(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Use metric units."), 0o600))
	if text, err := got.Instructions(dir); err != nil || !cmp.Equal(true, len(text) > 0) {
		t.Errorf("instruction files are not read: %q, %v", text, err)
	}
}

func TestThreadsCompactByThemselvesUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	if got := engineOf(threads.Config{}, config{}, home{"/h"}, os.Getenv); got.Policy != (compaction.Policy{}) || got.Hooks != nil {
		t.Errorf("without a configuration: %+v, hooks %v", got.Policy, got.Hooks)
	}
}

func TestHooksAreConfigured(t *testing.T) {
	t.Parallel()
	cfg, err := parseConfig([]byte(`
[providers.a]
adapter = "offline"
[hooks]
total_timeout = "45s"
[[hooks.pre_compact]]
command = ["/opt/guard", "--strict"]
timeout = "5s"
on_failure = "closed"
trigger = "auto"
env = ["GUARD_URL"]
[[hooks.pre_compact]]
command = ["notify"]
[[hooks.post_compact]]
command = ["index"]
trigger = "manual"
`))
	mustDo(t, err)
	a := cfg.Providers["a"]
	a.APIKeyEnv = "KEY"
	cfg.Providers["a"] = a
	got := hooksOf(cfg, home{"/h"}, func(name string) string { return map[string]string{"KEY": "sk-1"}[name] })
	want := hooks.Config{
		Pre: []hooks.Hook{
			{Command: []string{"/opt/guard", "--strict"}, Timeout: 5 * time.Second, Closed: true, Match: hooks.MatchAuto, Env: []string{"GUARD_URL"}},
			{Command: []string{"notify"}},
		},
		Post:  []hooks.Hook{{Command: []string{"index"}, Match: hooks.MatchManual}},
		Total: 45 * time.Second, Extra: []string{"PLIMSOLL_HOME=/h"}, Dir: "/h", Secrets: []string{"sk-1"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(hooks.Config{}, "Environ")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
