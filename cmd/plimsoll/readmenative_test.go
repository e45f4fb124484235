package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
)

// The blocks run as they are, with the real programs, but for a port and a folder. What
// is not in them is that the programs' models are scripted.
func TestNativeWalkOfTheReadmeWorks(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so the README was not tried", tool)
		}
	}
	_, part, _ := strings.Cut(readme(t), "<!-- driven: ")
	part, _, ok := strings.Cut(part, "<!-- end of driven -->")
	server, dir := freeAddress(t), t.TempDir()
	part = strings.NewReplacer("127.0.0.1:4519", server, "/tmp/plimsoll-native", dir).Replace(part)
	scripts := blocks(part, "sh")
	if !ok || len(scripts) != 3 {
		t.Fatalf("the README has %d blocks to drive, want a server and two steps", len(scripts))
	}
	env := nativeEnv(t, dir)
	inTerminalWith(t, scripts[0], env)
	awaitHTTP(t, server)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.Join(scripts[1:], "\n"))
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	for _, want := range []string{
		`"form": "codex-turn"`, `"form": "claude-command"`, `"route": "native"`, "harbour listens on port 8443; config/prod.yaml is never touched",
		`"route": "local"`, `"writer": "extractive"`, `"to": "`, `"from": "`, `"epoch": 2`,
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%s was not printed", want)
		}
	}
	shrunk := 0
	for d := json.NewDecoder(strings.NewReader(stdout.String())); ; {
		var r struct {
			Outcome       string
			Before, After struct{ Tokens int }
		}
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if mustDo(t, err); r.Outcome == "completed" && r.After.Tokens < r.Before.Tokens {
			shrunk++
		}
	}
	if shrunk != 3 {
		t.Errorf("%d compactions completed and made their context smaller, want 3", shrunk)
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", stdout.String(), stderr.String())
	}
}

// nativeEnv is the environment of somebody who has both programs, logged in to a
// scripted model server.
func nativeEnv(t *testing.T, dir string) []string {
	t.Helper()
	codex, claude := clis.Codex(t), clis.Claude(t)
	cassette, err := upstream.Load(filepath.Join("..", "..", "adapters", "adaptertest", "scripted", "cassettes", "native.txtar"))
	mustDo(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustDo(t, err)
	model, err := upstream.Serve(cassette, upstream.Options{Listener: l})
	mustDo(t, err)
	t.Cleanup(model.Close)
	awaitHTTP(t, strings.TrimPrefix(model.URL, "http://"))
	bin := filepath.Join(dir, "bin")
	mustDo(t, os.MkdirAll(bin, 0o700))
	mustDo(t, os.Symlink(codex, filepath.Join(bin, "codex")))
	mustDo(t, os.Symlink(claude, filepath.Join(bin, "claude")))
	c, err := homes.Codex(dir, model.URL, "")
	mustDo(t, err)
	a, err := homes.Claude(dir, model.URL)
	mustDo(t, err)
	config := filepath.Join(c.Dir, "config.toml")
	text, err := os.ReadFile(config)
	mustDo(t, err)
	mustDo(t, os.WriteFile(config, regexp.MustCompile(`(?m)^env_key.*\n`).ReplaceAll(text, nil), 0o600))
	env := append(append(os.Environ(), c.Env...), a.Env...)
	return append(env, "PATH="+bin+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
}
