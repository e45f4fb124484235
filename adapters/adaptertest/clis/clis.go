// Package clis finds the real command-line programs that tests drive. `make clis`
// installs them, pinned by package.json, into .clis of the repository.
//
// Guarantees:
//
//   - A test that needs a program says which version it ran.
//   - Where the program is missing the test is skipped and says how to get it; if the
//     environment variable CI is set it fails instead.
//   - Nothing here runs a program with the home of the developer: Codex is only
//     asked for its version, in a home of its own.
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

// Codex returns the path of the codex binary.
func Codex(t testing.TB) string {
	t.Helper()
	return codex.find(t)
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
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home}
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
