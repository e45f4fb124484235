package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// refusal is how a server answers an upgrade: 0 if it agrees.
func refusal(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	headers := http.Header{}
	if token != "" {
		headers.Set("Authorization", "Bearer "+token)
	}
	tr, err := jsonrpc.Dial(t.Context(), url, headers)
	if e, ok := errors.AsType[*jsonrpc.HandshakeError](err); ok {
		return e.Status, strings.TrimSpace(e.Body)
	}
	mustDo(t, err)
	mustDo(t, tr.Write([]byte(`{"id":1,"method":"initialize","params":`+hello+`}`)))
	f, err := tr.Read()
	if err != nil || !strings.Contains(string(f), `"codexHome"`) {
		t.Errorf("initialize was answered with %s, %v", f, err)
	}
	mustDo(t, tr.Close(jsonrpc.StatusNormal, ""))
	return 0, ""
}

func TestWebSocketClientsProveThemselves(t *testing.T) {
	t.Parallel()
	const secret = "one-token"
	digest := fmt.Sprintf("%X", sha256.Sum256([]byte(secret)))
	for name, args := range map[string][]string{
		"home":   nil,
		"file":   {"--ws-auth", "capability-token", "--ws-token-file", "FILE"},
		"digest": {"--ws-auth", "capability-token", "--ws-token-sha256", digest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := home{filepath.Join(t.TempDir(), "home")}
			mustDo(t, h.create())
			right, file := secret, filepath.Join(t.TempDir(), "token")
			if args == nil {
				var err error
				right, err = h.token()
				mustDo(t, err)
				file = h.path(tokenFile)
			} else {
				mustDo(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
			}
			args := slices.Clone(args)
			if i := slices.Index(args, "FILE"); i >= 0 {
				args[i] = file
			}
			url := start(t, h.dir, append([]string{"app-server", "--listen", "ws://127.0.0.1:0"}, args...)...).address()
			for _, tt := range []struct {
				token  string
				status int
				body   string
			}{
				{"", 401, "missing websocket bearer token"},
				{right + "x", 401, "invalid websocket bearer token"},
				{digest, 401, "invalid websocket bearer token"},
				{right, 0, ""},
			} {
				if status, body := refusal(t, url, tt.token); status != tt.status || body != tt.body {
					t.Errorf("token %q: %d %q, want %d %q", tt.token, status, body, tt.status, tt.body)
				}
			}
			if name == "digest" {
				return
			}
			rotated := strings.Repeat("rotated", 8)
			mustDo(t, os.WriteFile(file, []byte(rotated), 0o600))
			for token, want := range map[string]int{right: 401, rotated: 0} {
				if status, _ := refusal(t, url, token); status != want {
					t.Errorf("after the rotation %q: %d, want %d", token, status, want)
				}
			}
			mustDo(t, os.Remove(file))
			if status, _ := refusal(t, url, rotated); status != 401 {
				t.Errorf("without a token: %d, want 401", status)
			}
		})
	}
}

func TestOpenAddressServesWhoProvesItself(t *testing.T) {
	t.Parallel()
	names, err := addressesOf(endpoint{"tcp", "0.0.0.0:0"})
	mustDo(t, err)
	i := slices.IndexFunc(names, func(n string) bool { return !isLoopback(strings.Trim(n, "[]")) && !strings.HasPrefix(n, "[") })
	if i < 0 {
		t.Skip("SKIPPED: this machine has no address but loopback")
	}
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("secret")))
	p := start(t, filepath.Join(t.TempDir(), "home"), "app-server", "--listen", "ws://0.0.0.0:0", "--ws-auth", "capability-token", "--ws-token-sha256", digest)
	_, port, _ := strings.Cut(strings.TrimPrefix(p.address(), "ws://"), "]:")
	if port == "" {
		_, port, _ = strings.Cut(strings.TrimPrefix(p.address(), "ws://"), ":")
	}
	url := "ws://" + names[i] + ":" + port
	for token, want := range map[string]int{"": 401, "secret": 0} {
		if status, body := refusal(t, url, token); status != want {
			t.Errorf("token %q: %d %s", token, status, body)
		}
	}
}

func TestUnixSocketIsPrivateAndNothingElseIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, path := range map[string]string{
		"short": filepath.Join(dir, "s"),
		"long":  filepath.Join(dir, strings.Repeat("d/", 60), "s"),
	} {
		mustDo(t, os.MkdirAll(filepath.Dir(path), 0o755))
		p := start(t, filepath.Join(dir, "home-"+name), "app-server", "--listen", "unix://"+path)
		p.address()
		info, err := os.Stat(path)
		if err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		usable, done := socketPath(path)
		if status, body := refusal(t, "unix://"+usable, ""); status != 0 {
			t.Errorf("%s: %d %s", name, status, body)
		}
		done()
		taken := start(t, filepath.Join(dir, "other-"+name), "app-server", "--listen", "unix://"+path)
		taken.ends(1)
		if !strings.Contains(taken.said(), "it is in use by another program") {
			t.Errorf("%s: the second one said %s", name, taken.said())
		}
		mustDo(t, p.cmd.Process.Signal(os.Interrupt))
		p.ends(0)
		if fileExists(path) {
			t.Errorf("%s: the socket stayed", name)
		}
	}
	mustDo(t, os.WriteFile(filepath.Join(dir, "thesis"), []byte("text"), 0o644))
	p := start(t, filepath.Join(dir, "home"), "app-server", "--listen", "unix://"+filepath.Join(dir, "thesis"))
	p.ends(1)
	if b, err := os.ReadFile(filepath.Join(dir, "thesis")); err != nil || string(b) != "text" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	// The home's own socket, left by a process that was killed.
	h := filepath.Join(dir, "killed")
	a := start(t, h, "app-server", "--listen", "unix://")
	a.address()
	mustDo(t, a.cmd.Process.Kill())
	for range a.out {
	}
	if got := start(t, h, "app-server", "--listen", "unix://").address(); got != "unix://"+filepath.Join(h, socketFile) {
		t.Errorf("it listens on %s", got)
	}
}
