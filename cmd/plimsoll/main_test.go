package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes the test binary the command line itself for the scripts, and
// looks for goroutines that nobody waited for.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"plimsoll": main})
}

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PLIMSOLL_HOME", env.WorkDir+"/home")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or the race detector holds up every command for a second
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"session": writeSession,
			"ready":   awaitReady,
			"mode":    checkMode,
			"patch":   patchFile,
			"capture": captureStdout,
			"post":    postJSON,
			"delete":  deleteThread,
			"empty":   checkEmpty,
			"jsonend": checkLastJSON,
			"await":   awaitText,
			"dense":   checkDense,
		},
	})
}

// writeSession writes a Claude Code session: session FILE plain|longline|glued|pretty [EXCHANGES].
func writeSession(ts *testscript.TestScript, _ bool, args []string) {
	n := 3
	if len(args) > 2 {
		var err error
		n, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	var out bytes.Buffer
	for i := range n {
		question, answer := fmt.Sprintf("question %d about tides", i), fmt.Sprintf("answer %d: high water at %02d:30. ", i, i%24)
		if args[1] == "longline" && i == 1 {
			answer += strings.Repeat("salt water ", 961_000/11)
		} else if n > 10 {
			answer += strings.Repeat(fmt.Sprintf("The gauge of station %d was read again. ", i), 40)
		}
		user, agent := sessionLine(i, "user", question), sessionLine(i, "assistant", answer)
		switch args[1] {
		case "glued":
			out.WriteString(user + agent)
		case "pretty":
			for _, line := range []string{user, agent} {
				ts.Check(json.Indent(&out, []byte(line), "", "  "))
				out.WriteByte('\n')
			}
		default:
			out.WriteString(user + "\n" + agent + "\n")
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o644))
}

func sessionLine(i int, role, text string) string {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	line := struct {
		Type      string `json:"type"`
		UUID      string `json:"uuid"`
		SessionID string `json:"sessionId"`
		Cwd       string `json:"cwd"`
		Timestamp string `json:"timestamp"`
		Message   struct {
			Role    string  `json:"role"`
			Content []block `json:"content"`
		} `json:"message"`
	}{
		Type: role, UUID: fmt.Sprintf("%s-%d", role, i), SessionID: "5e551011-0000-4000-8000-000000000000", Cwd: "/srv/tides",
		Timestamp: time.Date(2026, 3, 2, 8, i, len(role), 0, time.UTC).Format(time.RFC3339),
	}
	line.Message.Role, line.Message.Content = role, []block{{"text", text}}
	b, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// awaitReady waits until the home's server answers: ready HOME.
func awaitReady(ts *testscript.TestScript, _ bool, args []string) {
	h := home{ts.MkAbs(args[0])}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if c, ok := dialSocket(h); ok {
			err := c.call(context.Background(), http.MethodGet, "/readyz", nil, nil)
			if err = errors.Join(err, c.close()); err == nil {
				return
			}
		}
	}
	ts.Fatalf("no server on %s", h.dir)
}

// checkMode compares a file's mode: mode 0600 FILE….
func checkMode(ts *testscript.TestScript, _ bool, args []string) {
	for _, path := range args[1:] {
		info, err := os.Lstat(ts.MkAbs(path))
		ts.Check(err)
		if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", path, got, args[0])
		}
	}
}

// patchFile overwrites bytes: patch FILE OFFSET HEX.
func patchFile(ts *testscript.TestScript, _ bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	raw, err := hex.DecodeString(args[2])
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt(raw, offset)
	ts.Check(err)
	ts.Check(f.Close())
}

// captureStdout puts the last stdout into a variable: capture NAME.
func captureStdout(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// postJSON asks a home's server for something: post HOME PATH BODY.
func postJSON(ts *testscript.TestScript, neg bool, args []string) {
	c, ok := dialSocket(home{ts.MkAbs(args[0])})
	if !ok {
		ts.Fatalf("no server on %s", args[0])
	}
	defer func() { ts.Check(c.close()) }()
	resp, err := c.send(context.Background(), http.MethodPost, args[1], "application/json", "application/json", strings.NewReader(args[2]))
	if (err != nil) != neg {
		ts.Fatalf("post %s: %v", args[1], err)
	}
	if err == nil {
		_, err = io.Copy(ts.Stdout(), resp.Body)
		ts.Check(err)
		ts.Check(resp.Body.Close())
	}
}

// deleteThread deletes a thread through a home's server: delete HOME THREAD.
func deleteThread(ts *testscript.TestScript, _ bool, args []string) {
	c, ok := dialSocket(home{ts.MkAbs(args[0])})
	if !ok {
		ts.Fatalf("no server on %s", args[0])
	}
	defer func() { ts.Check(c.close()) }()
	ts.Check(c.call(context.Background(), http.MethodDelete, threadPath(args[1]), nil, nil))
}

// checkEmpty looks whether a folder has nothing in it: empty FOLDER.
func checkEmpty(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if (len(entries) == 0) == neg {
		ts.Fatalf("%s holds %v", args[0], entries)
	}
}

// checkLastJSON looks at the last line of stdout: jsonend MEMBER VALUE. Every line
// must be JSON.
func checkLastJSON(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	var last map[string]json.RawMessage
	for i, line := range lines {
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			ts.Fatalf("line %d of stdout is no JSON object: %v", i+1, err)
		}
	}
	if got := string(last[args[0]]); got != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// awaitText waits until a file that another process writes holds a text: await FILE TEXT.
func awaitText(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if b, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(b), args[1]) {
			return
		}
	}
	ts.Fatalf("%s never held %q", args[0], args[1])
}

// checkDense checks that a file of events has every event of its thread once, in
// order; only the start of an item that is still open may be told again.
func checkDense(ts *testscript.TestScript, _ bool, args []string) {
	next := int64(1)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var n struct {
			Method string `json:"method"`
			Seq    *int64 `json:"seq"`
		}
		ts.Check(json.Unmarshal([]byte(line), &n))
		switch {
		case n.Seq == nil:
		case *n.Seq == next:
			next++
		case n.Method == "item/started" && *n.Seq < next:
		default:
			ts.Fatalf("event %d follows event %d", *n.Seq, next-1)
		}
	}
	if next == 1 {
		ts.Fatalf("%s has no events", args[0])
	}
}

// A supervisor that signals the process and then its group means it once.
func TestSignalIsTheSecondOnlyIfItIsLaterOrAnother(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after  time.Duration
		sig    os.Signal
		second bool
	}{
		"at once, the same":    {0, syscall.SIGTERM, false},
		"at once, another":     {0, os.Interrupt, true},
		"within the echo":      {echo, syscall.SIGTERM, false},
		"after it, the same":   {echo + time.Millisecond, syscall.SIGTERM, true},
		"a second of thinking": {time.Second, os.Interrupt, true},
		"a hangup at once":     {0, syscall.SIGHUP, false},
		"a hangup later":       {time.Second, syscall.SIGHUP, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sigs, stopping, second := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
				go func() {
					awaitSignals(sigs, func() { close(stopping) })
					close(second)
				}()
				sigs <- syscall.SIGTERM
				<-stopping
				<-time.After(tt.after)
				sigs <- tt.sig
				synctest.Wait()
				select {
				case <-second:
					if !tt.second {
						t.Error("the echo ends the process")
					}
				default:
					if tt.second {
						t.Error("the second signal does not end the process")
					}
					close(sigs)
				}
			})
		})
	}
}

func TestSignalThatIsToldTwiceStopsInOrder(t *testing.T) {
	t.Parallel()
	for range 5 {
		p := start(t, scripted(t, "-- turn * --\nsay one\n"), "app-server", "--listen", "ws://127.0.0.1:0")
		p.address()
		mustDo(t, p.cmd.Process.Signal(syscall.SIGTERM))
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		p.ends(0)
		if strings.Contains(p.said(), "second signal") {
			t.Errorf("it did not end in order:\n%s", p.said())
		}
	}
}
