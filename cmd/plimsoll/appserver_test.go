package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/fake"
)

// fakeVar makes a child of these tests know the adapter fake; its model is the path
// of a script.
const fakeVar = "PLIMSOLL_TEST_FAKE"

func init() {
	if os.Getenv(fakeVar) == "" {
		return
	}
	adapterKinds["fake"] = adapterKind{keys: []string{"model"}, open: func(_ string, c providerConfig, _ environment) (adapters.Adapter, error) {
		b, err := os.ReadFile(c.Model)
		if err != nil {
			return nil, err
		}
		s, err := fake.Parse(string(b))
		return fake.New(s), err
	}}
}

// A program is an app-server on stdio that runs in a process of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    chan frame
	end    chan error
	mu     sync.Mutex
	stderr bytes.Buffer
	next   int
}

// A frame is one line of stdout.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Seq    *int64          `json:"seq"`
	raw    string
}

// start runs the command line until the test ends.
func start(t *testing.T, h string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command("plimsoll", args...), out: make(chan frame, 10_000), end: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "PLIMSOLL_HOME="+h, fakeVar+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = p
	var err error
	p.in, err = p.cmd.StdinPipe()
	mustDo(t, err)
	out, err := p.cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, p.cmd.Start())
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				if line != "" {
					t.Errorf("half a line on stdout: %q", line)
				}
				break
			}
			f := frame{raw: line}
			if err := json.Unmarshal([]byte(line), &f); err != nil || f.ID == nil && f.Method == "" && f.Error == nil {
				t.Errorf("stdout has what is no message: %q: %v", line, err)
			}
			p.out <- f
		}
		close(p.out)
		p.end <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, if the test went well
		for range p.out {
		}
		if err := <-p.end; err != nil && t.Failed() {
			t.Logf("it ended with %v", err)
		}
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", args, p.said())
		}
	})
	return p
}

// Write takes what the program says on stderr.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// read returns the next frame.
func (p *program) read() frame {
	p.t.Helper()
	select {
	case f, ok := <-p.out:
		if !ok {
			p.t.Fatalf("the program has ended:\n%s", p.said())
		}
		return f
	case <-time.After(30 * time.Second):
		p.t.Fatalf("nothing more was said:\n%s", p.said())
	}
	panic("unreachable")
}

// ask sends a request and returns its result.
func (p *program) ask(method, params string) json.RawMessage {
	p.t.Helper()
	p.next++
	p.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, p.next, method, params))
	for {
		if f := p.read(); f.Method == "" && string(f.ID) == fmt.Sprint(p.next) {
			if f.Error != nil {
				p.t.Fatalf("%s: %s", method, f.Error)
			}
			return f.Result
		}
	}
}

func (p *program) send(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatalf("send: %v\n%s", err, p.said())
	}
}

const hello = `{"clientInfo":{"name":"test","title":"T","version":"1"},"capabilities":{"experimentalApi":true}}`

// greet begins the conversation.
func (p *program) greet() *program {
	p.t.Helper()
	p.ask("initialize", hello)
	p.send(`{"method":"initialized"}`)
	return p
}

// thread makes a thread and returns its id.
func (p *program) thread() string {
	p.t.Helper()
	var r struct{ Thread struct{ ID string } }
	mustDo(p.t, json.Unmarshal(p.ask("thread/start", `{}`), &r))
	return r.Thread.ID
}

func (p *program) turn(thread, text string) {
	p.t.Helper()
	p.ask("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":%q}]}`, thread, text))
}

// until reads up to a notification and returns the numbered frames on the way.
func (p *program) until(method string) (frames []string, last frame) {
	p.t.Helper()
	for {
		f := p.read()
		if f.Seq != nil {
			frames = append(frames, f.raw)
		}
		if f.Method == method {
			return frames, f
		}
	}
}

// ends checks how the program ends by itself.
func (p *program) ends(code int) {
	p.t.Helper()
	for range p.out { // what it still says
	}
	err := <-p.end
	p.end <- err
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit status %d, want %d\n%s", got, code, p.said())
	}
}

// scripted makes a home whose provider plays a script.
func scripted(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	h := home{filepath.Join(dir, "home")}
	mustDo(t, h.create())
	path := filepath.Join(dir, "script")
	mustDo(t, os.WriteFile(path, []byte(script), 0o600))
	mustDo(t, os.WriteFile(h.path(configFile), fmt.Appendf(nil, "[providers.fake]\nadapter = \"fake\"\nmodel = %q\n", path), 0o600))
	return h.dir
}

func TestStdioSpeaksTheProtocolAndNothingElse(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "home"), "app-server", "--debug", "-c", `model="x"`, "--enable", "y").greet()
	id := p.thread()
	p.turn(id, "high water is at 07:30")
	if _, f := p.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"completed"`) {
		t.Errorf("the turn ended as %s", f.Params)
	}
	p.send(`this is no JSON`)
	if f := p.read(); !strings.Contains(f.raw, "-32700") {
		t.Errorf("answered with %s", f.raw)
	}
	mustDo(t, p.in.Close())
	p.ends(0)
	if !strings.Contains(p.said(), "--config --enable") {
		t.Errorf("the ignored flags were not named: %s", p.said())
	}
}

func TestEndOfInputLetsATurnFinish(t *testing.T) {
	t.Parallel()
	p := start(t, scripted(t, "-- turn * --\ndelay 700ms\nsay done after all\n"), "app-server").greet()
	id := p.thread()
	p.turn(id, "go")
	mustDo(t, p.in.Close())
	if _, f := p.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"completed"`) {
		t.Errorf("the turn ended as %s", f.Params)
	}
	p.ends(0)
}

func TestRequestsBeforeTheEndOfInputAreAnsweredWithWhatTheyCause(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "home"), "app-server")
	p.send(`{"id":1,"method":"initialize","params":` + hello + `}`)
	p.send(`{"id":2,"method":"thread/start","params":{}}`)
	mustDo(t, p.in.Close())
	p.until("thread/started")
	p.ends(0)
}

func TestTurnThatOutlivesItsClientIsInterrupted(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nsay waiting\nhold\n")
	p := start(t, h, "app-server").greet()
	id := p.thread()
	p.turn(id, "go")
	p.until("item/completed")
	began := time.Now()
	mustDo(t, p.in.Close())
	p.ends(0)
	if took := time.Since(began); took < lastWords || took > lastWords+10*time.Second {
		t.Errorf("it ended after %v, want soon after %v", took, lastWords)
	}
	q := start(t, h, "app-server").greet()
	if got := q.ask("thread/turns/list", fmt.Sprintf(`{"threadId":%q}`, id)); !strings.Contains(string(got), `"status":"interrupted"`) {
		t.Errorf("turns: %s", got)
	}
}

func TestTwoProgramsOnOneHomeShareAThread(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nsay one two three\n")
	a := start(t, h, "app-server").greet()
	b := start(t, h, "app-server").greet()
	id := a.thread()
	b.ask("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id))
	b.turn(id, "from the second one")
	mine, _ := b.until("turn/completed")
	theirs, _ := a.until("turn/completed")
	if got, want := strings.Join(theirs, ""), strings.Join(mine, ""); !strings.HasSuffix(got, want) || len(mine) < 6 {
		t.Errorf("the one saw\n%s\nthe other\n%s", got, want)
	}
	// The one that joined leaves, in order, and takes nothing with it.
	mustDo(t, b.in.Close())
	b.ends(0)
	a.turn(id, "still here?")
	a.until("turn/completed")
	mustDo(t, a.in.Close())
	a.ends(0)
}

func TestKilledOwnerEndsWhoJoinedAndLosesNothing(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nsay one\nhold\n")
	a := start(t, h, "app-server").greet()
	b := start(t, h, "app-server").greet()
	id := b.thread()
	b.turn(id, "go")
	b.until("item/completed")
	mustDo(t, a.cmd.Process.Kill())
	b.ends(1)
	if !strings.Contains(b.said(), "has ended, and the connection with it; start again") {
		t.Errorf("it said %s", b.said())
	}
	c := start(t, h, "app-server").greet()
	if got := c.ask("thread/turns/list", fmt.Sprintf(`{"threadId":%q}`, id)); !strings.Contains(string(got), `"status":"interrupted"`) {
		t.Errorf("turns: %s", got)
	}
}

func TestProgramsThatStartAtOnceAllWork(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		h := filepath.Join(t.TempDir(), fmt.Sprint(i))
		a, b := start(t, h, "app-server"), start(t, h, "app-server")
		a.greet()
		b.greet()
		id := a.thread()
		b.ask("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id))
		for _, p := range []*program{a, b} {
			// Who joined the other one may have ended with it.
			if err := p.cmd.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
				mustDo(t, err)
			}
		}
	}
}

// TestRestartedProgramWaitsForTheOneBefore is an editor that reloads its window: the
// new program starts while the old one lets its turn finish.
func TestRestartedProgramWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\ndelay 1s\nsay done\n")
	a := start(t, h, "app-server").greet()
	id := a.thread()
	a.turn(id, "go")
	mustDo(t, a.in.Close())
	eventually(t, "the old one lets go of the socket", func() bool { return !fileExists(filepath.Join(h, socketFile)) })
	b := start(t, h, "app-server").greet()
	if got := b.ask("thread/turns/list", fmt.Sprintf(`{"threadId":%q}`, id)); !strings.Contains(string(got), `"status":"completed"`) {
		t.Errorf("turns: %s", got)
	}
	a.ends(0)
}

func TestTitleIsFoundWithoutTheProviderAndLeavesNoThread(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nfail the provider was asked\n")
	p := start(t, h, "app-server").greet()
	var r struct {
		Thread struct{ ID, ModelProvider string }
	}
	mustDo(t, json.Unmarshal(p.ask("thread/start", `{"ephemeral":true,"threadSource":"thread_title"}`), &r))
	p.turn(r.Thread.ID, "tides at Dover")
	frames, f := p.until("turn/completed")
	if all := strings.Join(frames, ""); !strings.Contains(all, `\"title\"`) || !strings.Contains(string(f.Params), `"status":"completed"`) {
		t.Errorf("on provider %s it went\n%s", r.Thread.ModelProvider, all)
	}
	if list := p.ask("thread/list", `{}`); strings.Contains(string(list), r.Thread.ID) {
		t.Errorf("the thread is listed: %s", list)
	}
	mustDo(t, p.in.Close())
	p.ends(0)
	if strings.Contains(p.said(), "WARN") {
		t.Errorf("it said %s", p.said())
	}
	if list, _, _ := shell(t, h, "threads", "list"); strings.Contains(list, r.Thread.ID) {
		t.Errorf("the thread was kept: %s", list)
	}
}

func TestServerAndProgramsShareAHome(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nsay one\n")
	s := start(t, h, "app-server", "--listen", "ws://127.0.0.1:0")
	s.address()
	second := start(t, h, "serve", "--listen", "127.0.0.1:0")
	second.ends(1)
	if !strings.Contains(second.said(), fmt.Sprintf("is in use by process %d", s.cmd.Process.Pid)) {
		t.Errorf("a second server said %s", second.said())
	}
	a := start(t, h, "app-server").greet()
	b := start(t, h, "app-server").greet()
	id := a.thread()
	b.ask("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id))
	b.turn(id, "x")
	a.until("turn/completed")
	mustDo(t, s.cmd.Process.Signal(os.Interrupt))
	a.ends(1)
	b.ends(1)
	s.ends(0)
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

var announced = regexp.MustCompile(`(?m)^  listening on: (\S+)$`)

// address waits until the program listens, and returns where.
func (p *program) address() string {
	p.t.Helper()
	eventually(p.t, "the program listens", func() bool { return announced.MatchString(p.said()) })
	return announced.FindStringSubmatch(p.said())[1]
}
