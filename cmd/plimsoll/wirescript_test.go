package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/codexschema"
	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/api/wiretest"
)

// wireSocket is the program behind a WebSocket.
type wireSocket struct {
	t *testing.T
	h string
	p *program
}

func (w *wireSocket) Dial() (jsonrpc.Transport, error) {
	if w.p == nil {
		w.p = start(w.t, w.h, "app-server", "--listen", "ws://127.0.0.1:0")
	}
	url := w.p.address()
	token, err := exec.Command("plimsoll", "token", "--home", w.h).Output()
	mustDo(w.t, err)
	return jsonrpc.Dial(w.t.Context(), url, http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}})
}

// Restart kills the program as a crash would.
func (w *wireSocket) Restart() error {
	err := w.p.cmd.Process.Kill()
	end := <-w.p.end
	w.p.end <- end // killed; the end of the test looks as well
	w.p = nil
	return err
}

// wireStdio is the program on stdio, for scripts of one connection.
type wireStdio struct {
	t *testing.T
	h string
}

func (w wireStdio) Dial() (jsonrpc.Transport, error) {
	cmd := exec.Command("plimsoll", "app-server")
	cmd.Env = append(os.Environ(), "PLIMSOLL_HOME="+w.h, fakeVar+"=1", "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	mustDo(w.t, err)
	out, end := io.Pipe()
	cmd.Stdout = end
	mustDo(w.t, cmd.Start())
	return jsonrpc.Lines(out, in, func() error {
		_ = cmd.Process.Kill() // or it stays for what still runs, which other tests look at
		_ = out.Close()
		_ = cmd.Wait() // killed; it closes in
		return nil
	}), nil
}

func (wireStdio) Restart() error { panic("not for such scripts") }

// wireHome is a home whose providers are a script and the offline one.
func wireHome(t *testing.T, script string) string {
	t.Helper()
	h := scripted(t, script)
	config, err := os.OpenFile(filepath.Join(h, configFile), os.O_APPEND|os.O_WRONLY, 0)
	mustDo(t, err)
	_, err = config.WriteString("\n[providers.offline]\nadapter = \"offline\"\n")
	mustDo(t, err)
	mustDo(t, config.Close())
	return h
}

func TestWireScriptsAgainstTheProgram(t *testing.T) {
	paths, err := filepath.Glob("../../api/testdata/wire/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var schema *codexschema.Schema // nil without codex; the scripts are played all the same
	t.Run("schema", func(t *testing.T) { schema = codexschema.Load(t).Own("thread/subscribe") })
	for _, path := range paths {
		s, err := wiretest.Load(path)
		mustDo(t, err)
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run("websocket/"+name, func(t *testing.T) {
			wiretest.Run{Server: &wireSocket{t: t, h: wireHome(t, s.Fake)}, Schema: schema}.Play(t, s)
		})
		if s.Alone() {
			t.Run("stdio/"+name, func(t *testing.T) {
				wiretest.Run{Server: wireStdio{t, wireHome(t, s.Fake)}, Schema: schema}.Play(t, s)
			})
		}
	}
}

// What is too much is refused, nothing is answered twice or not at all, and neither
// the connection nor another one suffers.
func TestPipelinedRequestsAreAllAnsweredOrRefused(t *testing.T) {
	const n = 1500
	w := &wireSocket{t: t, h: wireHome(t, "-- turn * --\nsay Hello.\n")}
	flood, other := greeted(t, w), greeted(t, w)
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := flood.Write(fmt.Appendf(nil, `{"id":%d,"method":"thread/list","params":{}}`, i)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	ask(t, other, `{"id":"other","method":"thread/list","params":{}}`, "other")
	seen, refused := map[string]bool{}, 0
	for range n {
		b, err := flood.Read()
		mustDo(t, err)
		var f frame
		mustDo(t, json.Unmarshal(b, &f))
		if seen[string(f.ID)] {
			t.Fatalf("answered twice: %s", b)
		}
		seen[string(f.ID)] = true
		if f.Error != nil {
			refused++
			if string(f.Error) != `{"code":-32001,"message":"Server overloaded; retry later."}` {
				t.Fatalf("refused with %s", f.Error)
			}
		}
	}
	mustDo(t, <-sent)
	t.Logf("%d answered, %d refused", n-refused, refused)
	ask(t, flood, `{"id":"more","method":"thread/list","params":{}}`, "more")
	for _, end := range []jsonrpc.Transport{flood, other} {
		mustDo(t, end.Close(jsonrpc.StatusNormal, ""))
	}
}

// greeted is a connection after the handshake.
func greeted(t *testing.T, w *wireSocket) jsonrpc.Transport {
	t.Helper()
	end, err := w.Dial()
	mustDo(t, err)
	ask(t, end, `{"id":"hello","method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}`, "hello")
	mustDo(t, end.Write([]byte(`{"method":"initialized"}`)))
	return end
}

// ask sends a request, whose answer must come next and be none of an error.
func ask(t *testing.T, end jsonrpc.Transport, request, id string) {
	t.Helper()
	mustDo(t, end.Write([]byte(request)))
	b, err := end.Read()
	mustDo(t, err)
	var f frame
	mustDo(t, json.Unmarshal(b, &f))
	if string(f.ID) != `"`+id+`"` || f.Result == nil {
		t.Fatalf("%s is answered with %s", request, b)
	}
}
