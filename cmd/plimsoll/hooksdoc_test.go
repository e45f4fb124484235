package main

import (
	"os"
	"strings"
	"testing"
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
