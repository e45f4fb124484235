package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/api"
)

// said is what a process printed so far.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// inTerminal runs a block of the README in the root of the repository until the test
// ends. It is then closed as a terminal is: with SIGHUP, for all that run in it.
func inTerminal(t *testing.T, block string) {
	t.Helper()
	inTerminalWith(t, block, append(os.Environ(), "GORACE=atexit_sleep_ms=0"))
}

func inTerminalWith(t *testing.T, block string, env []string) {
	t.Helper()
	var out said
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", block)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	mustDo(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP)
		late := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer late.Stop()
		_ = cmd.Wait() // says that it was told to end
		if t.Failed() {
			t.Logf("a terminal said:\n%s", out.String())
		}
	})
}

// awaitHTTP waits until somebody answers at an address, whatever that is.
func awaitHTTP(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // go run builds first
	defer cancel()
	for answers(ctx, "http://"+address) != nil {
		select {
		case <-ctx.Done():
			t.Fatalf("nobody answers at %s", address)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freeAddress returns an address that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustDo(t, err)
	defer l.Close()
	return l.Addr().String()
}

// The blocks run as they are, but for two ports and a folder: those of the README may
// be taken.
func TestScriptedWalkOfTheReadmeWorks(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so the README was not tried", tool)
		}
	}
	_, part, _ := strings.Cut(readme(t), "<!-- played: ")
	part, _, ok := strings.Cut(part, "<!-- end of played -->")
	model, server, dir := freeAddress(t), freeAddress(t), t.TempDir()
	part = strings.NewReplacer("127.0.0.1:4599", model, "127.0.0.1:4518", server, "/tmp/plimsoll-walk", dir).Replace(part)
	scripts := blocks(part, "sh")
	if !ok || len(scripts) != 6 {
		t.Fatalf("the README has %d blocks to play, want two servers and four steps", len(scripts))
	}
	inTerminal(t, scripts[0])
	awaitHTTP(t, model)
	inTerminal(t, scripts[1])
	awaitHTTP(t, server)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.Join(scripts[2:], "\n")+"\necho THREAD=$THREAD\n")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	for _, want := range []string{
		`"trigger": "postTurn"`,
		`"writer": "model"`,
		"harbour listens on port 8443 (the user's first message)", // of what the model wrote
		`"reason": "PreCompact hook 1 (may-compact) denied the compaction: a release is on"`,
		`"epoch": 2`, // that of the undo, which shows the first message as it was
		"harbour listens on port 8443. Never touch config/prod.yaml. Plan release 2.4.",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q was not printed", want)
		}
	}
	_, thread, _ := strings.Cut(stdout.String(), "THREAD=")
	checkScriptedWalk(t, home{filepath.Join(dir, "home")}, strings.TrimSpace(thread))
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", stdout.String(), stderr.String())
	}
}

// checkScriptedWalk looks at the server for what the README says was done.
func checkScriptedWalk(t *testing.T, h home, thread string) {
	t.Helper()
	cl, ok := dialSocket(h)
	if !ok {
		t.Fatal("the socket does not answer")
	}
	defer func() { mustDo(t, cl.close()) }()
	var list api.CompactionListResult
	mustDo(t, cl.call(t.Context(), http.MethodGet, threadPath(thread, "/compactions"), nil, &list))
	var got []string
	for _, r := range list.Data {
		if r.Outcome == nil || r.Before == nil || r.Before.Window == nil {
			t.Fatalf("a record without its end or its size: %+v", r)
		}
		got = append(got, fmt.Sprint(r.Trigger, " ", *r.Outcome))
	}
	if diff := cmp.Diff([]string{"manual denied", "postTurn completed"}, got); diff != "" {
		t.Fatalf("compactions, newest first: %s", diff)
	}
	const window, line = 8192, 8192 * 85 / 100
	if first := list.Data[1]; *first.Before.Window != window || first.Before.Tokens < line || first.After.Tokens >= line {
		t.Errorf("it went from %+v to %+v", first.Before, first.After)
	}
	if u := list.Data[1].Usage; u == nil || u.Requests == 0 || u.InputTokens == 0 || u.OutputTokens == 0 {
		t.Errorf("the writer cost %+v", u)
	}
	var context api.ContextReadResult
	mustDo(t, cl.call(t.Context(), http.MethodGet, threadPath(thread, "/context"), nil, &context))
	for _, e := range context.Entries {
		if e.Form != "whole" {
			t.Errorf("after the undo an item is %s: %s", e.Form, e.Text)
		}
	}
}
