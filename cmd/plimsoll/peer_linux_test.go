package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A socket that another user can open, by whatever mishap, still serves only its own.
func TestAnotherUserIsNotServedOnASocketThatIsOpenToAll(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can be another user")
	}
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := listenUnix(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chmod(path, 0o666)} { //nolint:gosec // open to all is what is tested
		if err != nil {
			t.Fatal(err)
		}
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { say(w, "served") })}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		shut(srv)
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	ask := func(uid uint32) string {
		cmd := exec.CommandContext(t.Context(), "curl", "-s", "--max-time", "20", "--unix-socket", path, "http://x/")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.Output() // what it says is all that counts
		return strings.TrimSpace(string(out))
	}
	if got := ask(0); got != "served" {
		t.Errorf("this user is answered with %q", got)
	}
	if got := ask(65534); got != "" {
		t.Errorf("another user is answered with %q", got)
	}
}
