package codex

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Probe implements adapters.Runtime. It starts codex, which asks no model for this.
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
	p, err := a.start(ctx, "", nil)
	if err != nil {
		out.Problems = append(out.Problems, adapters.Problem{Text: fault.MessageOf(err), Fix: "run codex app-server by hand and see what it says"})
		return out
	}
	defer p.close()
	out.Version, out.Compaction = p.version, ability(p.version)
	var account struct {
		Account *struct {
			Type string `json:"type"`
		} `json:"account"`
		Needed bool `json:"requiresOpenaiAuth"`
	}
	err = p.call(ctx, "account/read", struct{}{}, &account)
	switch _, unknown := errors.AsType[*rpcError](err); {
	case unknown:
	case err != nil:
		out.Problems = append(out.Problems, adapters.Problem{Text: fault.MessageOf(err), Fix: "run codex once by hand and see what it says"})
	case account.Account != nil:
		out.Login, out.LoginDetail = "ok", account.Account.Type
	case account.Needed:
		out.Login, out.LoginDetail = "missing", "run: codex login"
	default:
		out.Login, out.LoginDetail = "ok", "its provider needs none of OpenAI's"
	}
	return out
}

// VersionOf reads the version in the line that codex prints when it is asked for
// --version ("codex-cli 0.171.0", observed). Not ok: it is another program's line.
func VersionOf(line string) (version string, ok bool) {
	name, version, _ := strings.Cut(line, " ")
	return version, (name == "codex-cli" || name == "codex") && len(numbers(version)) == 3
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
			Text: "there is no program " + a.o.Program, Fix: "install codex (npm install -g @openai/codex), or set " + section + " to its path",
		}, false
	case says != "":
		return adapters.Problem{Text: a.o.Program + " is not codex: asked for its version, " + says, Fix: "set " + section + " to the path of codex"}, false
	}
	if p, wrong := a.settingsProblem(ctx); wrong {
		return p, false
	}
	return p, true
}

// older reports whether a version is older than another one, by their numbers. One that
// is not known is.
func older(version, than string) bool {
	a, b := numbers(version), numbers(than)
	for i := range b {
		switch {
		case i >= len(a):
			return true
		case a[i] != b[i]:
			return a[i] < b[i]
		}
	}
	return false
}

func numbers(version string) []int {
	version, _, _ = strings.Cut(version, "-")
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return out
		}
		out = append(out, n)
	}
	return out
}
