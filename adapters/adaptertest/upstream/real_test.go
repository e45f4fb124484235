package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// A real is one of the real programs, which talks with a scripted server. No adapter is
// in between: what is seen here is what the wires alone make the program do.
type real struct {
	*testing.T
	server *upstream.Server
	conn   child.Conn
	cwd    string
	thread string // of codex
	seen   []string
}

func started(t *testing.T, server *upstream.Server, dir, cwd string, env []string, argv ...string) *real {
	t.Helper()
	if err := os.Mkdir(cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := child.Start(child.Spec{Argv: argv, Dir: cwd, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &real{T: t, server: server, conn: c, cwd: cwd}
}

// startCodex starts codex's app-server with a thread that has these parameters, in JSON.
func startCodex(t *testing.T, cassette, params string, env ...string) *real {
	t.Helper()
	program, server, dir := clis.Codex(t), upstream.New(t, cassette), t.TempDir()
	home, err := homes.Codex(dir, server.URL, homes.CodexRemote(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	r := started(t, server, dir, filepath.Join(dir, "work"), append(home.Env, env...), program, "app-server")
	r.send(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"wires","title":"wires","version":"1"}}}`)
	r.until(`"id":1,`)
	r.send(`{"method":"initialized"}`)
	r.send(fmt.Sprintf(`{"id":2,"method":"thread/start","params":{"cwd":%q,"approvalPolicy":"never","sandbox":"danger-full-access",%s}}`, r.cwd, params))
	var res struct {
		Result struct{ Thread struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(r.until(`"id":2,`)), &res); err != nil || res.Result.Thread.ID == "" {
		t.Fatalf("no thread: %v", err)
	}
	r.thread = res.Result.Thread.ID
	return r
}

// asks codex and returns how the turn ended.
func (r *real) asks(text string) string {
	r.Helper()
	r.send(fmt.Sprintf(`{"id":3,"method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":%q}]}}`, r.thread, text))
	return r.until(`"method":"turn/completed"`)
}

// startClaude starts Claude Code.
func startClaude(t *testing.T, cassette string, env ...string) *real {
	t.Helper()
	program, server, dir := clis.Claude(t), upstream.New(t, cassette), t.TempDir()
	home, err := homes.Claude(dir, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	env = append(slices.Concat(home.Env, env), "CLAUDE_CODE_MAX_RETRIES=0", "DISABLE_AUTO_COMPACT=1")
	return started(t, server, dir, filepath.Join(dir, "work"), env,
		program, "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json", "--allowedTools", "Bash")
}

// tells Claude Code something and returns the result of that.
func (r *real) tells(text string) string {
	r.Helper()
	r.send(fmt.Sprintf(`{"type":"user","message":{"role":"user","content":%q},"parent_tool_use_id":null}`, text))
	return r.until(`"type":"result"`)
}

func (r *real) send(line string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	if err := r.conn.Send(ctx, []byte(line)); err != nil {
		r.Fatal(err)
	}
}

// until reads up to the first line that holds a text, and returns it.
func (r *real) until(text string) string {
	r.Helper()
	late := time.AfterFunc(60*time.Second, r.conn.Kill)
	defer late.Stop()
	for {
		line, err := r.conn.Next()
		if err != nil {
			r.Fatalf("before %s: %v; said so far:\n%s", text, err, strings.Join(r.seen, "\n"))
		}
		r.seen = append(r.seen, string(line))
		if strings.Contains(string(line), text) {
			return string(line)
		}
	}
}

// said demands that a line so far holds all of these.
func (r *real) said(all ...string) {
	r.Helper()
	r.demand(slices.ContainsFunc(r.seen, func(l string) bool { return holds(l, all...) }), "nothing holds %q in\n%s", all, strings.Join(r.seen, "\n"))
}

func holds(s string, all ...string) bool {
	return !slices.ContainsFunc(all, func(p string) bool { return !strings.Contains(s, p) })
}

func (r *real) demand(ok bool, format string, args ...any) {
	r.Helper()
	if !ok {
		r.Errorf(format, args...)
	}
}

// last is the newest request to a model.
func (r *real) last() upstream.Recorded {
	r.Helper()
	all := r.server.Asked()
	if len(all) == 0 {
		r.Fatal("nothing was asked")
	}
	return all[len(all)-1]
}

// A proxied is a proxy that refuses and remembers.
type proxied struct {
	addr string
	mu   sync.Mutex
	all  []string
}

func listen(t *testing.T) *proxied {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxied{addr: l.Addr().String()}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			b := make([]byte, 200)
			n, _ := io.ReadAtLeast(c, b, 1) // who asks nothing is remembered too
			p.mu.Lock()
			p.all = append(p.all, string(b[:n]))
			p.mu.Unlock()
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		done.Wait()
	})
	return p
}

func (p *proxied) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}
