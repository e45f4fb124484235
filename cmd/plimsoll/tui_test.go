package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
)

// The tests of tui*_test.go drive the real terminal interface of codex in a real
// terminal, with a server in a process of its own. Nobody sleeps: a test waits until
// the screen shows what it is about, and fails with the screen if it never does.

// How large the terminals are, and how long a screen may take. A machine that runs
// all other tests beside these is slow.
const (
	tuiCols, tuiRows = 110, 36
	tuiPatience      = 45 * time.Second
)

// A desk is where somebody works: a home with its server, a home of codex, and a
// terminal server with any number of terminals.
type desk struct {
	t           *testing.T
	codex, tmux string
	dir         string
	addr        string // of the server, the same after a restart
	server      *exec.Cmd
	stderr      bytes.Buffer // of all servers; read once they have ended
	terminals   int
	fine        []string // what terminals may complain about
}

// newDesk starts a server with the configuration. What is in script, if anything, is
// what its provider does; else that is the offline one.
func newDesk(t *testing.T, config, script string) *desk {
	t.Helper()
	d := &desk{t: t, codex: clis.Codex(t), tmux: clis.Tool(t, "tmux"), addr: "127.0.0.1:0"}
	// Short enough for sockets, and of one length: the screen breaks lines by it.
	d.dir = filepath.Join(os.TempDir(), fmt.Sprintf("tui%08x", rand.Uint32()))
	mustDo(t, os.Mkdir(d.dir, 0o700))
	t.Cleanup(d.remove)
	for _, dir := range []string{"home", "user", "codex", "work"} {
		mustDo(t, os.Mkdir(d.path(dir), 0o700))
	}
	if script != "" {
		d.write("script", script)
		config += fmt.Sprintf("\n[providers.fake]\nadapter = \"fake\"\nmodel = %q\n", d.path("script"))
	}
	d.write("home/config.toml", config)
	// Nothing is fetched, nobody is asked for plugins, keys that come fast are keys and not a paste, no tip is drawn by
	// lot, and nothing moves.
	d.write("codex/config.toml", "check_for_update_on_startup = false\nfeatures.plugins = false\nfeatures.apps = false\ndisable_paste_burst = true\n[tui]\nshow_tooltips = false\nanimations = false\n")
	d.serve()
	t.Cleanup(d.clear)
	return d
}

func (d *desk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d *desk) write(name, text string) {
	d.t.Helper()
	mustDo(d.t, os.WriteFile(d.path(name), []byte(text), 0o600))
}

// serve starts the server, where the one before it was.
func (d *desk) serve() {
	d.t.Helper()
	cmd := exec.Command("plimsoll", "serve", "--home", d.path("home"), "--listen", d.addr)
	cmd.Dir = d.path("work")
	cmd.Env = append(os.Environ(), fakeVar+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = &d.stderr
	out, err := cmd.StdoutPipe()
	mustDo(d.t, err)
	mustDo(d.t, cmd.Start())
	d.server = cmd
	api := regexp.MustCompile(`^ +api +http://(\S+)/v1$`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := api.FindStringSubmatch(lines.Text()); m != nil {
			d.addr = m[1]
			return // the rest of what it announces fits into the pipe
		}
	}
	err = cmd.Wait()
	d.t.Fatalf("the server did not start: %v\n%s", err, d.stderr.String())
}

// kill ends the server as a crash would.
func (d *desk) kill() {
	d.t.Helper()
	mustDo(d.t, d.server.Process.Kill())
	_ = d.server.Wait() // killed
	d.server = nil
}

// remove removes the folder. A codex whose terminal is gone may still write to it for a
// moment.
func (d *desk) remove() {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	err := os.RemoveAll(d.dir)
	for deadline := time.Now().Add(tuiPatience); err != nil && time.Now().Before(deadline); err = os.RemoveAll(d.dir) {
		<-tick.C
	}
	if err != nil {
		d.t.Errorf("remove the desk: %v", err)
	}
}

// clear ends all that the desk has started.
func (d *desk) clear() {
	if d.terminals > 0 {
		_, _ = d.tmuxOutput("kill-server")
	}
	if d.server == nil {
		return
	}
	if err := d.server.Process.Signal(os.Interrupt); err != nil {
		d.t.Errorf("stop the server: %v", err)
	}
	if err := d.server.Wait(); err != nil {
		d.t.Errorf("the server ended with: %v", err)
	}
	if d.t.Failed() || strings.Contains(d.stderr.String(), "DATA RACE") {
		d.t.Errorf("the server said:\n%s", d.stderr.String())
	}
}

// token is that of the home.
func (d *desk) token() string {
	d.t.Helper()
	b, err := exec.Command("plimsoll", "token", "--home", d.path("home")).Output()
	mustDo(d.t, err)
	return strings.TrimSpace(string(b))
}

// get asks the server for something over REST.
func (d *desk) get(path string, into any) {
	d.t.Helper()
	c, ok := dialSocket(home{d.path("home")})
	if !ok {
		d.t.Fatal("the server does not answer")
	}
	defer func() { mustDo(d.t, c.close()) }()
	mustDo(d.t, c.call(context.Background(), http.MethodGet, path, nil, into))
}

// run runs a command of plimsoll on the home.
func (d *desk) run(args ...string) string {
	d.t.Helper()
	cmd := exec.Command("plimsoll", append(args, "--home", d.path("home"))...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("plimsoll %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (d *desk) tmuxOutput(args ...string) (string, error) {
	cmd := exec.Command(d.tmux, append([]string{"-S", d.path("tmux"), "-f", os.DevNull}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.path("user"), "LANG=C.UTF-8", "TERM=xterm-256color"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A terminal runs one codex.
type terminal struct {
	*desk
	name  string
	ended bool
}

// open starts codex in a new terminal.
func (d *desk) open(args ...string) *terminal {
	d.t.Helper()
	return d.openWith(d.token(), args...)
}

func (d *desk) openWith(token string, args ...string) *terminal {
	d.t.Helper()
	d.terminals++
	tm := &terminal{desk: d, name: fmt.Sprintf("t%d", d.terminals)}
	env := []string{
		"env", "-i", "PATH=" + os.Getenv("PATH"), "HOME=" + d.path("user"), "CODEX_HOME=" + d.path("codex"),
		"TERM=tmux-256color", "LANG=C.UTF-8", "TZ=UTC", "PLIMSOLL_TOKEN=" + token,
	}
	command := append(env, d.codex, "--remote", "ws://"+d.addr, "--remote-auth-token-env", "PLIMSOLL_TOKEN")
	words := make([]string, 0, len(command)+len(args))
	for _, w := range append(command, args...) {
		words = append(words, shellWord(w))
	}
	script := strings.Join(words, " ") + `; echo "codex exit status $?"; exec cat`
	tm.must("new-session", "-d", "-s", tm.name, "-x", fmt.Sprint(tuiCols), "-y", fmt.Sprint(tuiRows), "-c", d.path("work"), script)
	d.t.Cleanup(func() {
		if d.t.Failed() && !tm.ended {
			d.t.Logf("terminal %s:\n%s", tm.name, tm.screen())
		}
	})
	return tm
}

func (tm *terminal) must(args ...string) string {
	tm.t.Helper()
	out, err := tm.tmuxOutput(args...)
	if err != nil {
		tm.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return out
}

// screen is what the terminal shows, without the blanks at the ends of lines.
func (tm *terminal) screen() string {
	tm.t.Helper()
	return trimLines(tm.must("capture-pane", "-p", "-J", "-t", tm.name))
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// await waits until the screen is as it should be.
func (tm *terminal) await(what string, ok func(screen string) bool) string {
	tm.t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(tuiPatience)
	for {
		s := tm.screen()
		tm.complain(s)
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			tm.t.Fatalf("%s: the screen never %s; it is:\n%s", tm.name, what, s)
		}
		<-tick.C
	}
}

// shows waits until the screen has all the texts.
func (tm *terminal) shows(texts ...string) string {
	tm.t.Helper()
	return tm.await(fmt.Sprintf("had %q", texts), func(s string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(s, text) })
	})
}

// lacks waits until the screen has none of the texts.
func (tm *terminal) lacks(texts ...string) string {
	tm.t.Helper()
	return tm.await(fmt.Sprintf("lost %q", texts), func(s string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s, text) })
	})
}

// trouble is how codex begins a line about an error, or about something odd.
var trouble = regexp.MustCompile(`(?m)^[■⚠✗] .*$|panicked at.*`)

// complain fails the test for errors on the screen that it does not expect.
func (tm *terminal) complain(screen string) {
	tm.t.Helper()
	for _, line := range trouble.FindAllString(screen, -1) {
		// What is drawn in part begins as that does which is fine.
		if !slices.ContainsFunc(tm.fine, func(f string) bool { return strings.Contains(line, f) || strings.HasPrefix(f, line) }) {
			tm.t.Fatalf("%s: the screen has an error that nobody expected: %s\n%s", tm.name, line, screen)
		}
	}
}

// expects makes lines with the text no complaint.
func (d *desk) expects(text string) { d.fine = append(d.fine, text) }

// working is on the screen while a turn runs and no answer streams, composing while
// the composer is empty.
const working, composing = "esc to interrupt", "Ask Codex to do anything"

// finished is the line below a turn that has ended.
var finished = regexp.MustCompile(`(?m)^  Worked for .* • \d\d:\d\d$`)

// ready waits until the terminal has its thread and takes a message.
func (tm *terminal) ready() string {
	tm.t.Helper()
	return tm.await("was ready", func(s string) bool {
		return strings.Contains(s, composing) && !strings.Contains(s, working) && strings.Contains(s, " · "+tm.path("work"))
	})
}

// finishes waits until n turns on the screen have ended.
func (tm *terminal) finishes(n int) string {
	tm.t.Helper()
	return tm.await(fmt.Sprintf("had %d turns that ended", n), func(s string) bool { return len(finished.FindAllString(s, -1)) == n })
}

// keys sends keys by their tmux names.
func (tm *terminal) keys(names ...string) {
	tm.t.Helper()
	tm.must(append([]string{"send-keys", "-t", tm.name}, names...)...)
}

// insists does something until the screen is as it should be. For a moment after a
// resume codex drops what is typed.
func (tm *terminal) insists(what string, do func(), ok func(screen string) bool) {
	tm.t.Helper()
	var last time.Time
	tm.await(what, func(s string) bool {
		if ok(s) {
			return true
		}
		if time.Since(last) > 2*time.Second {
			do()
			last = time.Now()
		}
		return false
	})
}

// answers presses the key on the question that is on the screen.
func (tm *terminal) answers(key string) {
	tm.t.Helper()
	tm.insists("lost its question", func() { tm.keys(key) }, func(s string) bool { return !strings.Contains(s, "Would you like to ") })
}

// says types a message, and sends it once the composer shows it.
func (tm *terminal) says(text string) {
	tm.t.Helper()
	tm.insists("had "+text+" typed", func() {
		tm.keys("C-u")
		tm.must("send-keys", "-t", tm.name, "-l", text)
	}, func(s string) bool { return composer(s) == text })
	tm.insists("took "+text, func() { tm.keys("Enter") }, func(s string) bool { return composer(s) != text })
}

// composer is what stands in the line that takes messages.
func composer(screen string) string {
	found := ""
	for line := range strings.Lines(screen) {
		if text, ok := strings.CutPrefix(line, "› "); ok {
			found = strings.TrimSpace(text)
		}
	}
	return found
}

// vanish ends the terminal and what runs in it, as a closed window does.
func (tm *terminal) vanish() {
	tm.t.Helper()
	tm.must("kill-session", "-t", tm.name)
	tm.ended = true
}

// quit leaves codex by the keyboard and returns what it says then.
func (tm *terminal) quit() string {
	tm.t.Helper()
	tm.ready()
	tm.keys("C-c")
	return tm.exits(0)
}

// exits waits until codex has ended, and returns the screen then.
func (tm *terminal) exits(code int) string {
	tm.t.Helper()
	s := tm.shows("codex exit status ")
	if want := fmt.Sprintf("codex exit status %d\n", code); !strings.Contains(s, want) {
		tm.t.Fatalf("want %s:\n%s", want, s)
	}
	return s
}

// thread is the newest thread of the home.
func (d *desk) thread() (id, name string) {
	d.t.Helper()
	var list struct {
		Data []struct{ ID, Name string }
	}
	d.get("/v1/threads", &list)
	if len(list.Data) == 0 {
		d.t.Fatal("there is no thread")
	}
	return list.Data[0].ID, list.Data[0].Name
}

// A turnShape is how a turn ended and the types of its items.
type turnShape struct {
	Status string
	Items  []string
}

// turns returns the shapes of a thread's turns, oldest first.
func (d *desk) turns(id string) []turnShape {
	d.t.Helper()
	var list struct {
		Data []struct {
			Status string
			Items  []struct{ Type string }
		}
	}
	d.get(threadPath(id)+"/turns?sortDirection=asc&itemsView=full&limit=100", &list)
	var out []turnShape
	for _, turn := range list.Data {
		shape := turnShape{Status: turn.Status}
		for _, item := range turn.Items {
			shape.Items = append(shape.Items, item.Type)
		}
		out = append(out, shape)
	}
	return out
}

// told counts the events of a thread that have the method.
func (d *desk) told(id, method string) int {
	d.t.Helper()
	var page struct{ Data []struct{ Method string } }
	d.get(threadPath(id)+"/events?limit=1000", &page)
	n := 0
	for _, e := range page.Data {
		if e.Method == method {
			n++
		}
	}
	return n
}
