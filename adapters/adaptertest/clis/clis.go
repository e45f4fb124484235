// Package clis finds the real command-line programs that tests drive. `make clis`
// installs them, pinned by package.json, into .clis of the repository.
//
// Guarantees:
//
//   - A test that needs a program says which version it ran.
//   - Where the program is missing the test is skipped and says how to get it; if the
//     environment variable CI is set it fails instead.
//   - Nothing here runs a program with the home of the developer: they are only asked
//     for their versions, in a home of their own. Package homes makes those in which they
//     do more.
package clis

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A program is one of those that are installed.
type program struct {
	name     string
	variable string // of the environment, names another binary to use
	path     string // below .clis
	version  []string
	once     sync.Once
	found    string
	says     string
	err      error
}

var codex = program{
	name: "codex", variable: "PLIMSOLL_CODEX", version: []string{"--version"},
	path: "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
}

var claude = program{
	name: "claude", variable: "PLIMSOLL_CLAUDE", version: []string{"--version"},
	path: "node_modules/@anthropic-ai/claude-code-linux-x64/claude", // its package puts no link to it without scripts
}

// Codex returns the path of the codex binary.
func Codex(t testing.TB) string {
	t.Helper()
	return codex.find(t)
}

// Claude returns the path of the binary of Claude Code.
func Claude(t testing.TB) string {
	t.Helper()
	return claude.find(t)
}

// Installed returns the path of a program, codex or claude, and what it says about its
// version.
func Installed(name string) (path, version string, err error) {
	for _, p := range []*program{&codex, &claude} {
		if p.name == name {
			p.once.Do(p.look)
			return p.found, p.says, p.err
		}
	}
	return "", "", fmt.Errorf("clis: no program %q is known", name)
}

func (p *program) find(t testing.TB) string {
	t.Helper()
	p.once.Do(p.look)
	if p.err == nil {
		t.Logf("with %s", p.says)
		return p.found
	}
	missing(t, fmt.Sprintf("%v; run `make clis`, or set %s to the binary", p.err, p.variable))
	return ""
}

// missing ends a test that cannot run here.
func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why)
}

// look finds the program, once for each test binary.
func (p *program) look() {
	p.found = os.Getenv(p.variable)
	if p.found == "" {
		p.found = filepath.Join(root(), ".clis", filepath.FromSlash(p.path))
	}
	home, err := os.MkdirTemp("", p.name)
	if err != nil {
		p.err = err
		return
	}
	defer func() { p.err = first(p.err, os.RemoveAll(home)) }()
	cmd := exec.Command(p.found, p.version...)
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "CLAUDE_CONFIG_DIR=" + home}
	out, err := cmd.Output()
	if err != nil {
		p.err = fmt.Errorf("%s is not installed: %w", p.name, err)
		return
	}
	p.says = strings.TrimSpace(string(out))
	fmt.Fprintf(os.Stderr, "tests run with %s\n", p.says)
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// root is the folder of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Tool returns the path of a program that the system has, such as tmux.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name+" is not installed; it comes with the system's packages")
	}
	return path
}
