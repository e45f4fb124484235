package main

import (
	"context"
	"os"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/hooks"
	"github.com/plimsoll-dev/plimsoll/threads/instructions"
)

// engineOf fills in what the configuration says about compactions: when, by whom, and
// who is asked. Threads that are kept and ephemeral ones are treated alike.
func engineOf(domain threads.Config, cfg config, h home, getenv func(string) string) threads.Config {
	c := cfg.Compaction
	domain.CompactionRoute = compaction.Route(c.Route)
	domain.Policy = compaction.Policy{
		Off: c.Auto != nil && !*c.Auto, Preset: compaction.Preset(c.Preset),
		Limit: c.Limit, Reserve: c.Reserve, Cap: deref(c.Cap),
		NoPostTurn: c.PostTurn != nil && !*c.PostTurn, Idle: time.Duration(c.Idle),
	}
	domain.Writer = threads.WriterConfig{
		Writer: compaction.Writer(c.Writer), Provider: c.WriterProvider, Model: c.WriterModel, Timeout: time.Duration(c.WriterTimeout),
	}
	if len(cfg.Hooks.PreCompact)+len(cfg.Hooks.PostCompact) > 0 {
		domain.Hooks = hookAdapter{hooks.New(hooksOf(cfg, h, getenv))}
	}
	domain.Instructions = instructions.Load
	return domain
}

// hooksOf is the configuration of the hooks. They find the home that they belong to,
// whichever it is.
func hooksOf(cfg config, h home, getenv func(string) string) hooks.Config {
	out := hooks.Config{
		Total: time.Duration(cfg.Hooks.TotalTimeout), Environ: os.Environ(), Extra: []string{homeVariable + "=" + h.dir}, Dir: h.dir,
	}
	for _, p := range cfg.Providers {
		if key := getenv(p.APIKeyEnv); key != "" {
			out.Secrets = append(out.Secrets, key)
		}
	}
	of := func(list []hookConfig) (out []hooks.Hook) {
		for _, c := range list {
			out = append(out, hooks.Hook{
				Command: c.Command, Env: c.Env, Timeout: time.Duration(c.Timeout),
				Closed: c.OnFailure == "closed", Match: hooks.Match(c.Trigger),
			})
		}
		return out
	}
	out.Pre, out.Post = of(cfg.Hooks.PreCompact), of(cfg.Hooks.PostCompact)
	return out
}

// A hookAdapter lets hooks, which know no threads, be those of threads.
type hookAdapter struct{ runner *hooks.Runner }

// PreCompact implements threads.Hooks.
func (a hookAdapter) PreCompact(ctx context.Context, e threads.HookEvent) (string, []string, error) {
	return a.runner.PreCompact(ctx, hookEvent(e))
}

// PostCompact implements threads.Hooks.
func (a hookAdapter) PostCompact(ctx context.Context, e threads.HookEvent) []string {
	return a.runner.PostCompact(ctx, hookEvent(e))
}

func hookEvent(e threads.HookEvent) hooks.Event {
	return hooks.Event{
		Thread: string(e.Thread), Turn: string(e.Turn), Compaction: string(e.Record.CompactionID),
		Cwd: e.Cwd, Model: e.Model, Trigger: string(e.Record.Trigger), Automatic: e.Record.Trigger.Automatic(),
		Instructions: e.Instructions, Record: e.Record,
	}
}
