package claude

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// logins are variables by which Claude Code is logged in.
var logins = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"}

// Probe implements adapters.Runtime. It starts Claude Code, which asks no model for this.
// With the address of Anthropic it looks there all the same, and takes 18 s to begin where
// there is no network (2.1.332, observed).
func (a *adapter) Probe(ctx context.Context) adapters.Probe {
	out := adapters.Probe{Program: a.o.Program, Tested: Tested, Login: "unknown"}
	if path, err := proc.Find(a.o.Program); err == nil {
		out.Program = path
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	if problem, ok := a.unfit(ctx); !ok {
		out.Problems = append(out.Problems, problem)
		return out
	}
	p, err := a.start(ctx, startOptions{})
	if err != nil {
		out.Problems = append(out.Problems, adapters.Problem{Text: fault.MessageOf(err), Fix: "run claude -p hello by hand and see what it says"})
		return out
	}
	p.close()
	out.Version, out.Compaction = p.hello.Version, ability(p.hello)
	out.Login, out.LoginDetail = a.login(p.hello)
	return out
}

// VersionOf reads the version in the line that Claude Code prints when it is asked for
// --version ("2.1.332 (Claude Code)", observed). Not ok: it is another program's line.
func VersionOf(line string) (version string, ok bool) {
	version, ok = strings.CutSuffix(line, " (Claude Code)")
	return version, ok && version != "" && !strings.Contains(version, " ")
}

// unfit says why there is nothing to start: ok if nothing is known against it.
func (a *adapter) unfit(ctx context.Context) (p adapters.Problem, ok bool) {
	if a.o.dial != nil {
		return p, true
	}
	if dir, missing := a.o.homeMissing(); missing {
		return adapters.Problem{Text: "its home " + dir + " is not there", Fix: a.o.homeFix(dir)}, false
	}
	missing, says := proc.Another(ctx, a.o.Program, a.o.Env, func(line string) bool { _, is := VersionOf(line); return is })
	section := "program in [providers." + a.o.Name + "]"
	switch {
	case missing:
		return adapters.Problem{
			Text: "there is no program " + a.o.Program, Fix: "install Claude Code (npm install -g @anthropic-ai/claude-code), or set " + section + " to its path",
		}, false
	case says != "":
		return adapters.Problem{Text: a.o.Program + " is not Claude Code: asked for its version, " + says, Fix: "set " + section + " to the path of claude"}, false
	}
	return p, true
}

// login says what can be seen of it. Claude Code itself says where it has a token or a
// key from, without asking anybody whether they are good (2.1.332, observed).
func (a *adapter) login(h hello) (state, detail string) {
	for _, name := range logins {
		if valueOf(a.o.Env, name) != "" {
			return "ok", name + " is set"
		}
	}
	if _, err := os.Stat(filepath.Join(a.home, ".credentials.json")); err == nil {
		return "ok", "credentials are stored"
	}
	const nothing = "none"
	for _, from := range []string{h.Account.Key, h.Account.Token} {
		if from != "" && from != nothing {
			return "ok", "Claude Code has it from " + from
		}
	}
	if h.Account.Token == nothing && h.Account.Provider == "firstParty" {
		return "missing", "run claude /login, or set ANTHROPIC_API_KEY"
	}
	return "unknown", "no key is set and no credentials are stored here; if a turn says so, run: claude /login"
}
