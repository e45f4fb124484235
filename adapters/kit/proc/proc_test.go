package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// roleEnv makes the test binary one of the children below.
const roleEnv = "PLIMSOLL_TEST_PROC_ROLE"

// roles are what a child does. Their stdout is read by the tests.
var roles = map[string]func(args []string){
	"echo": func(args []string) {
		fmt.Printf("%q\n", args)
		in, _ := io.ReadAll(os.Stdin)
		fmt.Printf("%s", in)
		fmt.Fprint(os.Stderr, "to stderr")
		os.Exit(3)
	},
	"environ": func([]string) { fmt.Print(strings.Join(os.Environ(), "\n")) },
	"hang":    func([]string) { hang() },
	"deaf": func([]string) {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		hang()
	},
	"flood": func(args []string) {
		n, _ := strconv.Atoi(args[0])
		line := bytes.Repeat([]byte("f"), 1<<16)
		for range n {
			_, _ = os.Stdout.Write(line)
			_, _ = os.Stderr.Write(line)
		}
	},
	"suicide": func([]string) { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM); hang() },
	"chatter": func([]string) { fmt.Print("\n1.2.3 (Chatter)\nand more\n"); hang() },
	"endless": func([]string) {
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<12)); err != nil {
				return
			}
		}
	},
	"blind": func([]string) { fmt.Print("done") }, // never reads its input
	// parent leaves a grandchild, which holds stdout open, and says its number.
	"parent": func(args []string) {
		fmt.Println(spawn(&syscall.SysProcAttr{}))
		if len(args) > 0 {
			hang()
		}
	},
	// escape leaves a grandchild that is in a group of its own.
	"escape": func(args []string) {
		fmt.Println(spawn(&syscall.SysProcAttr{Setsid: true}))
		if len(args) > 0 {
			hang()
		}
	},
	// server runs a child by this package, says its number and waits to be killed.
	"server": func([]string) {
		p, err := Start(Spec{Argv: []string{os.Args[0]}, Env: childEnv("hang")})
		if err != nil {
			panic(err)
		}
		fmt.Println(p.pid)
		hang()
	},
	"session": func([]string) {
		_, err := os.Open("/dev/tty")
		group, _ := syscall.Getpgid(0)
		fmt.Print(group == os.Getpid(), err != nil)
	},
	"files": func([]string) {
		open, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range open {
			target, _ := os.Readlink(fd)
			fmt.Println(target)
		}
	},
}

// hang waits until it is killed. TestMain asked for a signal, so that the runtime does
// not take it for a deadlock.
func hang() { select {} }

// spawn starts a child that hangs, with stdout and stderr of this process.
func spawn(attr *syscall.SysProcAttr) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), childEnv("hang")...), os.Stdout, os.Stderr, attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// A program may not know the question, and print what it likes for as long as it likes.
func TestVersionIsTheFirstLine(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for role, tt := range map[string]struct {
		ctx        context.Context
		line, fail string
	}{
		"echo":    {t.Context(), `["--version"]`, ""}, // it ends with status 3, and says what it was asked
		"chatter": {t.Context(), "1.2.3 (Chatter)", ""},
		"blind":   {t.Context(), "done", ""},
		"suicide": {t.Context(), "", "--version ended with status"},
		"hang":    {ended, "", "context canceled"},
		"endless": {t.Context(), "", "prints what is no line"},
	} {
		line, err := Version(tt.ctx, os.Args[0], childEnv(role))
		if line != tt.line || (err == nil) != (tt.fail == "") || err != nil && !strings.Contains(err.Error(), tt.fail) {
			t.Errorf("%s: %q, %v", role, line, err)
		}
	}
	if _, err := Version(t.Context(), filepath.Join(t.TempDir(), "nothing"), nil); !Missing(err) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
		roles[role](os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

// childEnv is the environment of the test binary in a role. The race detector waits a
// second at the end of a process unless told not to.
func childEnv(role string) []string {
	return []string{roleEnv + "=" + role, "GORACE=atexit_sleep_ms=0"}
}

// job runs the test binary in a role.
func job(role string, args ...string) Job {
	return Job{
		Argv: append([]string{os.Args[0]}, args...), Env: childEnv(role),
		Timeout: time.Minute, MaxOutput: 1 << 10,
	}
}

func run(t *testing.T, j Job) Result {
	t.Helper()
	r, err := Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// awaitGone fails if a process is still there. One that was killed is gone, or a
// zombie, when the system has got to it.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for alive(pid) {
		select {
		case <-ctx.Done():
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d lives on", pid)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func number(t *testing.T, text string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || pid <= 1 {
		t.Fatalf("no process number: %q", text)
	}
	return pid
}

func TestArgumentsAndInputArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	j := job("echo", "a b", "$HOME", "; exit 1", "*", "")
	j.Stdin = []byte("in\x00put")
	want := Result{
		Exit:   Exit{Code: 3},
		Stdout: Output{Bytes: []byte("[\"a b\" \"$HOME\" \"; exit 1\" \"*\" \"\"]\nin\x00put")},
		Stderr: Output{Bytes: []byte("to stderr")},
	}
	if diff := cmp.Diff(want, run(t, j)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEnvironmentIsWhatWasGiven(t *testing.T) {
	t.Setenv("PLIMSOLL_TEST_SECRET", "sk-1")
	j := job("environ")
	j.Env = append(j.Env, "A=1")
	if got, want := string(run(t, j).Stdout.Bytes), strings.Join(j.Env, "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	none, err := Run(t.Context(), Job{Argv: []string{"env"}, MaxOutput: 1 << 10})
	if err != nil || len(none.Stdout.Bytes) > 0 {
		t.Errorf("without an environment the child has %q, %v", none.Stdout.Bytes, err)
	}
}

func TestEnvironTakesWhatIsPlainOrNamed(t *testing.T) {
	t.Parallel()
	got := Environ([]string{"PATH=/bin", "OPENAI_API_KEY=sk", "LC_ALL=C", "HOME=/h", "TOKEN=a=b", "LD_PRELOAD=x"}, "TOKEN", "ABSENT")
	if diff := cmp.Diff([]string{"PATH=/bin", "LC_ALL=C", "HOME=/h", "TOKEN=a=b"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFloodIsBoundedAndDoesNotBlock(t *testing.T) {
	t.Parallel()
	const blocks = 256 // 16 MiB on each
	r := run(t, job("flood", strconv.Itoa(blocks)))
	for name, out := range map[string]Output{"stdout": r.Stdout, "stderr": r.Stderr} {
		if len(out.Bytes) != 1<<10 || out.Dropped != blocks<<16-1<<10 {
			t.Errorf("%s: kept %d, dropped %d", name, len(out.Bytes), out.Dropped)
		}
	}
	if r.Code != 0 || r.TimedOut {
		t.Errorf("it ended with %+v", r.Exit)
	}
}

func TestInputThatNobodyReadsIsNoFailure(t *testing.T) {
	t.Parallel()
	j := job("blind")
	j.Stdin = bytes.Repeat([]byte("x"), 1<<20) // more than a pipe takes
	if r := run(t, j); r.Code != 0 || string(r.Stdout.Bytes) != "done" {
		t.Errorf("got %+v", r)
	}
}

func TestSignalIsTold(t *testing.T) {
	t.Parallel()
	if r := run(t, job("suicide")); r.Code != -1 || r.Signal != "terminated" {
		t.Errorf("got %+v", r.Exit)
	}
}

func TestTimeLimitKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	j := job("parent", "and hang")
	j.Timeout = 300 * time.Millisecond
	for grandchild := 0; grandchild == 0; j.Timeout *= 2 { // a loaded machine may not have started it
		r := run(t, j)
		if !r.TimedOut || r.Signal != "killed" {
			t.Fatalf("got %+v", r)
		}
		if len(r.Stdout.Bytes) > 0 {
			grandchild = number(t, string(r.Stdout.Bytes))
			awaitGone(t, grandchild)
		}
	}
}

func TestDeafChildIsKilledInTime(t *testing.T) {
	t.Parallel()
	j := job("deaf")
	j.Timeout = 50 * time.Millisecond
	if r := run(t, j); !r.TimedOut {
		t.Errorf("got %+v", r)
	}
}

func TestNothingOutlivesAChildThatEnds(t *testing.T) {
	t.Parallel()
	r := run(t, job("parent"))
	if r.Code != 0 || r.TimedOut {
		t.Fatalf("got %+v", r)
	}
	awaitGone(t, number(t, string(r.Stdout.Bytes)))
}

// Who leaves the group can hold the output open as long as it wants to.
func TestEscapedGrandchildIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	r := run(t, job("escape"))
	pid := number(t, string(r.Stdout.Bytes))
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if took := time.Since(begin); r.Code != 0 || took > 20*time.Second {
		t.Errorf("got %+v after %v", r, took)
	}
	if !alive(pid) {
		t.Error("the grandchild did not escape, so this test says nothing")
	}
}

func TestEndOfTheContextKills(t *testing.T) {
	t.Parallel()
	why := errors.New("the turn was interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		_, _ = bufio.NewReader(r).ReadString('\n') // the child runs
		cancel(why)
	}()
	p, err := Start(Spec{Argv: []string{os.Args[0], "hang"}, Env: childEnv("parent"), Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	<-ctx.Done()
	p.Kill()
	if exit, err := p.Wait(); err != nil || exit.Signal != "killed" {
		t.Errorf("got %+v, %v", exit, err)
	}
	if _, err := Run(ctx, job("hang")); !errors.Is(err, why) {
		t.Errorf("a context that is done starts a child: %v", err)
	}
}

func TestRunReturnsTheCauseOfTheContext(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if r, err := Run(ctx, job("hang")); !errors.Is(err, why) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/nowhere/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("#!/nowhere/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		job  Job
		want error
		text string
	}{
		"nothing":     {Job{}, nil, "no program is named"},
		"missing":     {Job{Argv: []string{"plimsoll-no-such-program"}}, exec.ErrNotFound, "plimsoll-no-such-program"},
		"not there":   {Job{Argv: []string{filepath.Join(dir, "absent")}}, os.ErrNotExist, "absent"},
		"no program":  {Job{Argv: []string{plain}}, os.ErrPermission, "plain"},
		"interpreter": {Job{Argv: []string{broken}}, os.ErrNotExist, "broken"},
		"folder":      {Job{Argv: []string{os.Args[0]}, Dir: filepath.Join(dir, "absent")}, os.ErrNotExist, "absent"},
		"zero byte":   {Job{Argv: []string{os.Args[0], "a\x00b"}}, syscall.EINVAL, "invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Run(t.Context(), tt.job)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

// The children of this test live until the end, so all of them are there at once.
func TestManyChildrenAtOnce(t *testing.T) {
	t.Parallel()
	var all []*Process
	for range 30 {
		p, err := Start(Spec{Argv: []string{os.Args[0]}, Env: childEnv("hang")})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, p := range all {
		p.Kill()
		p.Kill()
	}
	for _, p := range all {
		exit, err := p.Wait()
		if err != nil || exit != (Exit{Code: -1, Signal: "killed"}) {
			t.Errorf("got %+v, %v", exit, err)
		}
		p.Kill() // of one that was reaped: reaches nobody
		if again, _ := p.Wait(); again != exit {
			t.Errorf("the second wait says %+v", again)
		}
	}
}

func TestFailedWriterIsAnError(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	p, err := Start(Spec{Argv: []string{os.Args[0]}, Env: childEnv("blind"), Stdout: failing{full}})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); !errors.Is(err, full) || exit.Code != 0 {
		t.Errorf("got %+v, %v", exit, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// children lists the processes whose parent is this one, zombies among them.
func children(t *testing.T) []string {
	t.Helper()
	var out []string
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			out = append(out, string(stat))
		}
	}
	return slices.Sorted(slices.Values(out))
}
