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

// Probe implements adapters.Runtime. It starts codex, which asks no network for this.
func (a *adapter) Probe(ctx context.Context) adapters.Probe {
	out := adapters.Probe{Program: a.o.Program, Tested: Tested, Login: "unknown"}
	if path, err := proc.Find(a.o.Program); err == nil {
		out.Program = path
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	p, err := a.start(ctx, "", nil)
	if err != nil {
		out.Problems = append(out.Problems, adapters.Problem{
			Text: fault.MessageOf(err), Fix: "install codex (npm install -g @openai/codex), or set program in [providers." + a.o.Name + "] to its path",
		})
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
