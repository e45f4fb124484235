package codex

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// features begins the keys that switch codex's features on and off.
const features = "features."

// settings are the keys of codex's configuration that Options.Config may have (codex
// 0.171, observed): those that shape what a thread's model does. What the server decides
// for each thread (its model, approvals, sandbox, folder) is not among them.
var settings = []string{
	"compact_prompt", "developer_instructions", "model_auto_compact_token_limit", "model_context_window", "model_provider",
	"model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "personality", "project_doc_max_bytes", "service_tier",
	"tool_output_token_limit", "web_search",
}

// Settings lists the keys that Options.Config may have, for people.
func Settings() []string { return append(slices.Clone(settings), features+"NAME") }

// Setting reports whether Options.Config may have a key.
func Setting(key string) bool {
	name, feature := strings.CutPrefix(key, features)
	return slices.Contains(settings, key) || feature && name != "" && !strings.ContainsAny(name, "=. ")
}

// settingsTimeout bounds the check of settings, which codex does within 0.1 s.
const settingsTimeout = 10 * time.Second

// settingsProblem asks codex whether it knows what it is to be set. Only what it says of
// that counts: its own configuration may have what it likes, and an older one may not know
// the question.
func (a *adapter) settingsProblem(ctx context.Context) (p adapters.Problem, wrong bool) {
	if len(a.o.Config) == 0 {
		return p, false
	}
	res, err := proc.Run(ctx, proc.Job{
		Argv: append([]string{a.o.Program, "app-server", "--strict-config", "--print-startup-config"}, a.o.overrides()...),
		Env:  a.o.Env, Timeout: settingsTimeout, MaxOutput: 1 << 14,
	})
	if err != nil || res.Code == 0 {
		return p, false
	}
	const about = " in -c/--config override"
	for line := range strings.Lines(string(res.Stderr.Bytes) + "\n" + string(res.Stdout.Bytes)) {
		if before, _, ours := strings.Cut(line, about); ours {
			_, what, _ := strings.Cut(before, "unknown configuration field ")
			return adapters.Problem{
				Text: "codex does not know the setting " + what, Fix: "correct settings in [providers." + a.o.Name + "]",
			}, true
		}
	}
	return p, false
}

// overrides are Config as arguments.
func (o Options) overrides() (argv []string) {
	for k, v := range o.Config {
		argv = append(argv, "-c", k+"="+v)
	}
	return argv
}
