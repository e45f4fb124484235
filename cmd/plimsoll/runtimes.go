package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/claude"
	"github.com/plimsoll-dev/plimsoll/adapters/codex"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// This file wires the providers that are programs: agents which keep their own
// history and are run as children.

// runtimeKeys are the keys of [providers.NAME] that every program knows.
var runtimeKeys = []string{"program", "home", "model", "env", "compact_timeout", "auto_rebase"}

// runtimeForms are the native compactions of programs, by their kinds.
var runtimeForms = map[string]string{"codex": codex.Form, "claude": claude.Form}

// networkEnv are variables by which any program finds its way out.
var networkEnv = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// Variables that the programs look at, for their login and the address of their
// provider.
var (
	codexEnv  = []string{"CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"}
	claudeEnv = []string{
		"CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL",
		"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "DISABLE_COMPACT",
		"DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "IS_SANDBOX",
	}
)

// childEnv is the environment of a program: what any program needs, what this one
// looks at, and what the configuration names.
func childEnv(own []string, c providerConfig) []string {
	return proc.Environ(os.Environ(), slices.Concat(networkEnv, own, c.Env)...)
}

func openCodex(name string, c providerConfig, env environment) (adapters.Adapter, error) {
	o := codex.Options{
		Name: name, Program: c.Program, Home: c.Home, Model: c.Model, Env: childEnv(codexEnv, c), Config: map[string]string{},
		CompactTimeout: time.Duration(c.CompactTimeout), Logger: env.log,
	}
	for k, v := range c.Settings {
		o.Config[k] = string(v)
	}
	return codex.New(o), nil
}

func openClaude(name string, c providerConfig, env environment) (adapters.Adapter, error) {
	return claude.New(claude.Options{
		Name: name, Program: c.Program, Home: c.Home, Model: c.Model, Env: childEnv(claudeEnv, c), ContextWindow: c.ContextWindow,
		CompactTimeout: time.Duration(c.CompactTimeout), Logger: env.log,
	}), nil
}

// checkRuntime says what is wrong with the configuration of a program.
func checkRuntime(c providerConfig) (key toml.Key, problem string) {
	switch {
	case strings.Contains(c.Program, "/") && !filepath.IsAbs(c.Program):
		return toml.Key{"program"}, fmt.Sprintf("%q: want an absolute path, or a name that PATH finds", c.Program)
	case c.Home != "" && !filepath.IsAbs(c.Home):
		return toml.Key{"home"}, fmt.Sprintf("%q: want an absolute path", c.Home)
	}
	for _, name := range c.Env {
		if !variable.MatchString(name) { // not shown: it may be NAME=secret
			return toml.Key{"env"}, "want names of variables of the environment, without their values"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		if c.Adapter == "codex" && !codex.Setting(name) {
			return toml.Key{"settings", name}, fmt.Sprintf("it is none of: %s; what else codex knows is set in the config.toml of its home",
				strings.Join(codex.Settings(), ", "))
		}
	}
	return nil, ""
}

// probeTimeout bounds what doctor waits for one program.
const probeTimeout = 30 * time.Second

// A runtimeFinding is what was found of one program.
type runtimeFinding struct {
	provider string
	finding
}

// checkRuntimes asks the programs that are configured what they are and can do.
func (m *Main) checkRuntimes(ctx context.Context, cfg config) (out []runtimeFinding) {
	for _, name := range cfg.order {
		p := cfg.Providers[name]
		adapter, err := adapterKinds[p.Adapter].open(name, p, environment{getenv: m.Getenv, log: slog.New(slog.DiscardHandler)})
		if err != nil {
			continue // the check of the configuration tells
		}
		if rt, ok := adapter.(adapters.Runtime); ok {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			for _, f := range findingsOf(name, rt.Probe(ctx)) {
				out = append(out, runtimeFinding{name, f})
			}
			cancel()
		}
	}
	return out
}

// brokenRuntimes names the programs whose check failed.
func brokenRuntimes(found []runtimeFinding) map[string]bool {
	broken := map[string]bool{}
	for _, f := range found {
		if f.Status == findingFailed {
			broken[f.provider] = true
		}
	}
	return broken
}

// findingsOf tells what a program is, and what is wrong with it.
func findingsOf(name string, p adapters.Probe) []finding {
	const check = "runtime"
	var out []finding
	for _, problem := range p.Problems {
		out = append(out, failed(check, name+": "+strings.TrimPrefix(problem.Text, name+": "), problem.Fix))
	}
	if len(out) > 0 {
		return out
	}
	detail := fmt.Sprintf("%s: %s %s", name, p.Program, p.Version)
	if p.Tested != "" && p.Tested != p.Version {
		detail += " (tested with " + p.Tested + ")"
	}
	switch p.Login {
	case "missing":
		return []finding{failed(check, detail+", not logged in", p.LoginDetail)}
	case "ok":
		detail += ", logged in"
	default:
		detail += ", login unknown"
	}
	if p.LoginDetail != "" {
		detail += " (" + p.LoginDetail + ")"
	}
	if r := p.Compaction.Refusal; r != nil {
		return []finding{warning(check, detail+"; it has no native compaction: "+r.Reason, r.Remedy)}
	}
	if n := p.Compaction.Native; n != nil {
		detail += "; it has a native compaction (" + n.Form + ")"
	}
	return []finding{okay(check, detail)}
}
