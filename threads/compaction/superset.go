package compaction

import (
	"slices"
	"strings"
)

// A step is one command of a compound line, as far as it can be compared.
type step struct {
	env   []string // assignments before it
	words []string
}

// clears reports whether a later pass of one command line shows that another one,
// which failed, would pass now. It is conservative: every command of the failed
// line must be covered by one of the line that passed, and a line whose status
// does not depend on all of its commands shows nothing.
func clears(pass, fail string) bool {
	passed, whole := steps(pass)
	failed, _ := steps(fail)
	if !whole || len(failed) == 0 || !sameFolder(pass, fail) {
		return false
	}
	for _, f := range failed {
		if !slices.ContainsFunc(passed, func(p step) bool { return p.covers(f) }) {
			return false
		}
	}
	return true
}

// sameFolder reports whether both lines run in one folder as far as they say.
func sameFolder(a, b string) bool {
	folder := func(s string) string {
		rest, ok := strings.CutPrefix(strings.TrimSpace(s), "cd ")
		dir, _, found := strings.Cut(rest, "&&")
		if !ok || !found {
			return ""
		}
		return strings.TrimRight(strings.TrimSpace(dir), "/")
	}
	x, y := folder(a), folder(b)
	return x == y || x == "" || y == ""
}

// steps splits a command line. Its second result reports whether the line passes
// only if each of the steps does.
func steps(cmd string) ([]step, bool) {
	cmd = maskQuoted(cmd)
	whole := !strings.ContainsAny(cmd, "|;\n`") && !strings.Contains(cmd, "$(") && !hasBackground(cmd)
	var out []step
	for part := range strings.SplitSeq(strings.NewReplacer("&&", "\n", ";", "\n", "||", "\n").Replace(cmd), "\n") {
		part, _, _ = strings.Cut(part, "|") // what a filter does with the output is of no interest
		if s := newStep(part); len(s.words) > 0 {
			out = append(out, s)
		}
	}
	return out, whole
}

// maskQuoted takes the operators out of quoted words, where they are text.
func maskQuoted(cmd string) string {
	var quote rune
	return strings.Map(func(r rune) rune {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case quote != 0 && strings.ContainsRune("|;&\n >", r):
			return '_'
		}
		return r
	}, cmd)
}

// hasBackground reports a & that does not belong to && or a redirection.
func hasBackground(cmd string) bool {
	cmd = strings.NewReplacer("&&", "", ">&", "", "&>", "").Replace(cmd)
	return strings.Contains(cmd, "&")
}

// newStep reads one command. A change of folder and an echo are none.
func newStep(s string) step {
	var out step
	for w := range strings.FieldsSeq(s) {
		switch {
		case strings.HasPrefix(w, "2>") || strings.HasPrefix(w, ">") || strings.HasPrefix(w, "&>"):
		case len(out.words) == 0 && isAssignment(w):
			out.env = append(out.env, w)
		default:
			out.words = append(out.words, w)
		}
	}
	if len(out.words) > 0 && (out.words[0] == "cd" || out.words[0] == "echo") {
		return step{}
	}
	return out
}

func isAssignment(w string) bool {
	key, _, ok := strings.Cut(w, "=")
	return ok && key != "" && !strings.HasPrefix(key, "-") && strings.IndexFunc(key, notInWord) < 0
}

// covers reports whether p passing means that f would: they are the same, or p is
// a target that runs all checks, or p is the same tool on everything.
func (p step) covers(f step) bool {
	if slices.Equal(p.env, f.env) && slices.Equal(p.words, f.words) {
		return true
	}
	does, everything := p.check()
	wants, _ := f.check()
	if !everything || wants == "" || len(p.env) > 0 || len(f.env) > 0 {
		return false
	}
	if p.tool() == "make" { // which flags it passes on is the project's own choice
		return f.tool() != "make" && isPlain(f) && implies(does, wants)
	}
	return p.tool() == f.tool() && implies(does, wants) && p.hasFlagsOf(f)
}

// A check is what a step verifies: test, build, vet, lint, or all of them.
// The second result reports whether it does so for the whole project.
func (s step) check() (string, bool) {
	var kind string
	var rest []string
	w := s.words
	switch s.tool() {
	case "make":
		if len(w) != 2 {
			return "", false
		}
		return map[string]string{"test": "test", "check": "all", "all": "all", "ci": "all", "verify": "all", "build": "build", "lint": "lint"}[w[1]], true
	case "go", "cargo":
		if len(w) < 2 {
			return "", false
		}
		kind, rest = map[string]string{"test": "test", "build": "build", "vet": "vet", "check": "build", "clippy": "lint"}[w[1]], w[2:]
		if kind == "" {
			return "", false
		}
		if w[0] == "go" {
			return kind, selectsNothing(rest, "./...", true)
		}
	case "npm", "pnpm", "yarn", "bun":
		rest = w[1:]
		if len(rest) > 0 && rest[0] == "run" {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return "", false
		}
		kind, rest = map[string]string{"test": "test", "build": "build", "lint": "lint", "typecheck": "vet"}[rest[0]], rest[1:]
	case "pytest", "golangci-lint", "ruff", "mypy", "eslint", "tsc":
		kind = map[string]string{"pytest": "test", "mypy": "vet", "tsc": "vet"}[w[0]]
		if rest = w[1:]; kind == "" {
			kind = "lint"
		}
		if len(rest) > 0 && (rest[0] == "run" || rest[0] == "check") {
			rest = rest[1:]
		}
	}
	return kind, kind != "" && selectsNothing(rest, ".", s.tool() == "eslint" || s.tool() == "ruff")
}

func (s step) tool() string {
	if len(s.words) == 0 {
		return ""
	}
	return s.words[0]
}

// selectsNothing reports whether arguments name the whole project and select
// nothing of it. Some tools mean all of it when nothing is named.
func selectsNothing(args []string, all string, needsName bool) bool {
	named := false
	for _, a := range args {
		if a == all || a == "./..." {
			named = true
		} else if !isHarmless(a) && a != "-race" {
			return false
		}
	}
	return named || !needsName
}

// isHarmless reports a flag that neither selects tests nor makes them stricter.
func isHarmless(a string) bool {
	return a == "-v" || a == "-count=1" || a == "-q" || a == "--quiet" || strings.HasPrefix(a, "-timeout=") || a == "--all-targets" || a == "--workspace"
}

// isPlain reports a command that a project's own target may be taken to run: none
// that repeats, measures or builds in a way of its own.
func isPlain(s step) bool {
	for i, w := range s.words {
		if strings.HasPrefix(w, "-") && !isHarmless(w) && w != "-race" && !isSelection(w) && (i == 0 || !isSelection(s.words[i-1])) {
			return false
		}
	}
	return true
}

// isSelection reports a flag that only narrows what is run.
func isSelection(w string) bool {
	flag, _, _ := strings.Cut(w, "=")
	return flag == "-run" || flag == "-k" || flag == "-t" || flag == "-p" || flag == "--package"
}

// hasFlagsOf reports whether p is as strict as f.
func (p step) hasFlagsOf(f step) bool {
	for _, w := range f.words {
		if strings.HasPrefix(w, "-") && !isHarmless(w) && !isSelection(w) && !slices.Contains(p.words, w) {
			return false
		}
	}
	return true
}

// implies reports whether a check includes another: tests of a project are built
// and vetted on the way, and what checks all does all.
func implies(does, wants string) bool {
	switch does {
	case wants, "all":
		return true
	case "test":
		return wants == "build" || wants == "vet"
	case "vet":
		return wants == "build"
	case "lint":
		return wants == "vet" || wants == "build"
	}
	return false
}

// refusals are the beginnings of what programs write in place of a result when
// the user did not allow the call.
var refusals = []string{
	"the user doesn't want to proceed", "the user doesn't want to take this action", "the user does not want to proceed", "user rejected", "the user rejected", "user denied", "the user denied",
	"user declined", "the user declined", "rejected by the user", "rejected by user", "tool use was rejected", "permission denied by user", "command rejected by user", "exec command rejected by user",
}

// isRefusal reports whether a failed result says that the user refused the call.
func isRefusal(text string) bool {
	t := strings.ToLower(headOf(strings.TrimSpace(text), 200))
	t = strings.TrimLeft(strings.ReplaceAll(t, "’", "'"), "[<\"' ")
	for _, intro := range []string{"tool_use_error>", "error: "} {
		t = strings.TrimPrefix(t, intro)
	}
	return slices.ContainsFunc(refusals, func(s string) bool { return strings.HasPrefix(t, s) })
}
