package proc

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Not parallel: it counts the children of the process.
func TestNoZombieIsLeft(t *testing.T) {
	for _, role := range []string{"echo", "suicide", "parent"} {
		run(t, job(role))
	}
	late := job("hang")
	late.Timeout = time.Millisecond
	run(t, late)
	if left := children(t); len(left) > 0 {
		t.Errorf("children are left:\n%s", strings.Join(left, ""))
	}
}

func TestChildHasNoTerminalAndNoOtherFile(t *testing.T) {
	t.Parallel()
	if got := string(run(t, job("session")).Stdout.Bytes); got != "true true" {
		t.Errorf("leads its group, has no terminal: %s", got)
	}
	path := filepath.Join(t.TempDir(), "private")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := string(run(t, job("files")).Stdout.Bytes); !strings.Contains(got, "pipe:") || strings.Contains(got, path) {
		t.Errorf("open files:\n%s", got)
	}
}

// The server is the test binary again, so that it can be killed.
func TestChildDiesWithTheServer(t *testing.T) {
	t.Parallel()
	server := exec.Command(os.Args[0])
	server.Env = childEnv("server")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child := number(t, line)
	if !alive(child) {
		t.Fatal("the child does not run")
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // says that it was killed
	awaitGone(t, child)
}
