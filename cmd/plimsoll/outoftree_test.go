package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api"
)

// The example of docs/adapters.md is a module of its own: its test passes, and its
// server answers with its own provider.
func TestAnAdapterLivesInAnotherRepository(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/adapters.md")
	mustDo(t, err)
	_, rest, _ := strings.Cut(string(doc), "<!-- tested: cmd/plimsoll/outoftree_test.go")
	files := blocks(rest, "go")
	if len(files) != 2 {
		t.Fatalf("%d tested blocks", len(files))
	}
	dir := t.TempDir()
	for _, text := range files {
		name := strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], "// ")
		mustDo(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	moduleBeside(t, dir)
	goTool := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	goTool("vet", ".")
	goTool("test", ".")
	goTool("build", "-o", "parrot", ".")
	base := serveParrot(t, dir)

	var thread api.ThreadStartResult
	call := func(method, path string, body, into any) {
		t.Helper()
		mustDo(t, (&client{base: base, token: "polly", http: http.DefaultClient}).call(t.Context(), method, path, body, into))
	}
	call(http.MethodPost, "/v1/threads", map[string]any{}, &thread)
	var turn api.TurnStartResult
	call(http.MethodPost, "/v1/threads/"+thread.Thread.ID+"/turns", map[string]any{"input": "hello there"}, &turn)
	var answered bool
	for !answered && t.Context().Err() == nil {
		var page json.RawMessage
		call(http.MethodGet, "/v1/threads/"+thread.Thread.ID+"/items", nil, &page)
		answered = strings.Contains(string(page), "HELLO THERE")
	}
}

// moduleBeside makes dir a module that uses this one as it is here.
func moduleBeside(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	mustDo(t, err)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	mustDo(t, err)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	mustDo(t, err)
	text := strings.Replace(string(mod), "module github.com/plimsoll-dev/plimsoll\n", "module parrot.example\n", 1)
	text += "\nrequire github.com/plimsoll-dev/plimsoll v0.0.0\n\nreplace github.com/plimsoll-dev/plimsoll => " + root + "\n"
	mustDo(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600))
	mustDo(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
}

// serveParrot starts the example's server and returns its address.
func serveParrot(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "parrot"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PARROT_LISTEN=127.0.0.1:0", "PARROT_TOKEN=polly")
	stderr, err := cmd.StderrPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	mustDo(t, err)
	addr := regexp.MustCompile(`listening on (\S+)`).FindStringSubmatch(line)
	if addr == nil {
		t.Fatalf("the server says %q", line)
	}
	return "http://" + addr[1]
}
