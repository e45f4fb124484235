package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
)

// conformed runs conform on a home that is not there.
func conformed(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems strings.Builder
	m := &Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &problems, Getenv: func(name string) string { return env[name] }}
	code = m.Run(t.Context(), append([]string{"conform", "--home", filepath.Join(t.TempDir(), "home")}, args...))
	return code, out.String(), problems.String()
}

// Whoever names nothing gets what can be tried here; whoever names a program has it tried
// or is told why not.
func TestConformNeedsOnlyTheProgramsThatWereNamed(t *testing.T) {
	ls := clis.Tool(t, "ls")
	t.Setenv("PATH", t.TempDir())
	code, out, problems := conformed(t, nil, "--row", "native")
	if code != exitOK || strings.Count(out, "there is no program") != 2 {
		t.Errorf("without a name: %d\n%s%s", code, out, problems)
	}
	for _, tt := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"codex"}, nil, "conform: codex: there is no program codex; install it, or set PLIMSOLL_CODEX to its path"},
		{[]string{"offline", "claude"}, nil, "conform: claude: there is no program claude; install it, or set PLIMSOLL_CLAUDE to its path"},
		{nil, map[string]string{"PLIMSOLL_CLAUDE": ls}, "conform: claude: " + ls + " is not claude: asked for its version, it says"},
	} {
		code, out, problems := conformed(t, tt.env, tt.args...)
		if code != exitFailure || out != "" || !strings.Contains(problems, tt.want) {
			t.Errorf("%v: %d, want %q\n%s%s", tt.args, code, tt.want, out, problems)
		}
	}
}
