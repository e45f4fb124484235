package claude

import (
	"context"
	"os"
	"path/filepath"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// logins are variables by which Claude Code is logged in.
var logins = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"}

// Probe implements adapters.Runtime. It starts Claude Code, which asks no network for
// this.
func (a *adapter) Probe(ctx context.Context) adapters.Probe {
	out := adapters.Probe{Program: a.o.Program, Tested: Tested, Login: "unknown"}
	if path, err := proc.Find(a.o.Program); err == nil {
		out.Program = path
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	p, err := a.start(ctx, startOptions{})
	if err != nil {
		out.Problems = append(out.Problems, adapters.Problem{
			Text: fault.MessageOf(err), Fix: "install Claude Code (npm install -g @anthropic-ai/claude-code), or set program in [providers." + a.o.Name + "] to its path",
		})
		return out
	}
	p.close()
	out.Version, out.Compaction = p.hello.Version, ability(p.hello)
	out.Login, out.LoginDetail = a.login(p.hello)
	return out
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
