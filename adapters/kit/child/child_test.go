package child_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// roleEnv makes the test binary one of the programs below.
const roleEnv = "PLIMSOLL_TEST_CHILD_ROLE"

var roles = map[string]func(){
	"echo": func() { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"complain": func() {
		fmt.Fprintln(os.Stderr, strings.Repeat("old ", 10_000)+"\nthe model is gone")
		os.Exit(3)
	},
	"leak": func() {
		fmt.Fprintf(os.Stderr, "\x1b[2m12:00\x1b[0m \x1b]0;title\x07\x1b[31mERROR\x1b[0m key %s, token %s\a proxy %s\n",
			os.Getenv("OTHER_API_KEY"), os.Getenv("my_token"), os.Getenv("HTTPS_PROXY"))
		os.Exit(1)
	},
	"half":    func() { fmt.Print("{\"half\":") },
	"windows": func() { fmt.Print("{}\r\n") },
	"flood": func() {
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("f"), 1<<16)); err != nil {
				return
			}
		}
	},
	"lines": func() {
		for {
			if _, err := os.Stdout.WriteString("{\"n\":1}\n"); err != nil {
				return
			}
		}
	},
	"deaf":   hang,
	"silent": func() { _ = os.Stdout.Close(); hang() },
	"noisy": func() {
		for range 1 << 12 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1024))
		}
		fmt.Println("done")
		_, _ = io.Copy(io.Discard, os.Stdin)
	},
}

// hang does nothing until the process is killed.
func hang() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1) // so that the runtime does not take it for a deadlock
	<-never
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, role string, s child.Spec) *child.Child {
	t.Helper()
	s.Argv, s.Env = []string{os.Args[0]}, append(s.Env, roleEnv+"="+role)
	c, err := child.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func next(t *testing.T, c child.Conn) string {
	t.Helper()
	line, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestLinesGoToAndFro(t *testing.T) {
	c := start(t, "echo", child.Spec{})
	long := strings.Repeat("é", 300_000)
	for _, line := range []string{`{"a":1}`, "", long, `{"b":2}`} {
		done := make(chan error, 1)
		go func() { done <- c.Send(t.Context(), []byte(line)) }()
		if got := next(t, c); got != line {
			t.Errorf("%d bytes came back as %d", len(line), len(got))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Next(); !errors.Is(err, child.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := c.Send(t.Context(), nil); !errors.Is(err, child.ErrClosed) {
		t.Errorf("send after Close: %v", err)
	}
}

func TestSendersDoNotMixTheirLines(t *testing.T) {
	c := start(t, "echo", child.Spec{})
	const senders, each = 8, 50
	for i := range senders {
		go func() {
			for range each {
				_ = c.Send(t.Context(), []byte(strings.Repeat(string(rune('a'+i)), 5000)))
			}
		}()
	}
	for range senders * each {
		if line := next(t, c); len(line) != 5000 || strings.Trim(line, line[:1]) != "" {
			t.Fatalf("a line of %d bytes mixes senders", len(line))
		}
	}
}

func TestTheEndSaysHowAndWhy(t *testing.T) {
	c := start(t, "complain", child.Spec{})
	_, err := c.Next()
	exit, ok := errors.AsType[*child.ExitError](err)
	if !ok || exit.Exit.Code != 3 || !strings.HasSuffix(err.Error(), "the model is gone") {
		t.Errorf("%v", err)
	}
	if len(exit.Stderr) > 8<<10 {
		t.Errorf("%d bytes of complaints are kept", len(exit.Stderr))
	}
	if _, again := c.Next(); again == nil || again.Error() != err.Error() {
		t.Errorf("asked again: %v", again)
	}
}

// What a program complains about goes to clients, into the journal and into the log.
func TestComplaintsAreFitToBeShown(t *testing.T) {
	c := start(t, "leak", child.Spec{Env: []string{"OTHER_API_KEY=sk-proj-1", "my_token=sk-proj-1234", "HTTPS_PROXY=http://me:hush@proxy:1", "LONG_AUTH="}})
	_, err := c.Next()
	const want = "exited with status 1: 12:00 ERROR key [redacted], token [redacted] proxy http://[redacted]@proxy:1"
	if err == nil || err.Error() != want || strings.Contains(c.Stderr(), "sk-") {
		t.Errorf("%v", err)
	}
}

func TestALastLineWithoutAnEndIsALine(t *testing.T) {
	c := start(t, "half", child.Spec{})
	if got := next(t, c); got != `{"half":` {
		t.Errorf("%q", got)
	}
	if got := next(t, start(t, "windows", child.Spec{})); got != "{}" {
		t.Errorf("%q", got)
	}
}

func TestALineWithoutAnEndDoesNotFillTheMemory(t *testing.T) {
	c := start(t, "flood", child.Spec{MaxLine: 1 << 20})
	if _, err := c.Next(); !errors.Is(err, child.ErrLine) {
		t.Errorf("%v", err)
	}
	<-c.Done() // it was ended
}

func TestAFloodStopsAtThePipe(t *testing.T) {
	c := start(t, "lines", child.Spec{Patience: time.Millisecond})
	for range 10 {
		next(t, c)
	}
}

func TestAProgramThatDoesNotReadDelaysNobodyForEver(t *testing.T) {
	c := start(t, "deaf", child.Spec{Patience: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	big := bytes.Repeat([]byte("x"), 1<<20) // more than a pipe holds
	if err := c.Send(ctx, big); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if !c.Ending() {
		t.Error("after half a line another one may be sent")
	}
	<-c.Done() // it got half a line
	if err := c.Send(t.Context(), []byte("{}")); err == nil {
		t.Error("a line was sent after half a line")
	}
}

func TestAProgramThatClosedItsOutputIsEnded(t *testing.T) {
	c := start(t, "silent", child.Spec{Patience: time.Millisecond})
	if _, err := c.Next(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
}

func TestComplaintsNeverBlockTheProgram(t *testing.T) {
	c := start(t, "noisy", child.Spec{})
	if got := next(t, c); got != "done" {
		t.Errorf("%q", got)
	}
}

func TestADoneContextSendsNothing(t *testing.T) {
	c := start(t, "echo", child.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Send(ctx, []byte("no")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := c.Send(t.Context(), []byte("yes")); err != nil {
		t.Error(err)
	}
	if got := next(t, c); got != "yes" {
		t.Errorf("%q", got)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	if _, err := child.Start(child.Spec{Argv: []string{"/nowhere/at-all"}}); err == nil {
		t.Error("it was started")
	}
}

func TestAPipeHasTwoEnds(t *testing.T) {
	a, b := child.Pipe()
	if err := a.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, b); got != "hello" {
		t.Errorf("%q", got)
	}
	if _, err := b.Next(); !errors.Is(err, child.ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := b.Send(t.Context(), nil); !errors.Is(err, child.ErrClosed) {
		t.Errorf("%v", err)
	}
}
