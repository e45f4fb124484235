package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// The hooks of these tests are this test binary, in a role that its first argument
// names.
const hookEnv = "PLIMSOLL_TEST_HOOK"

var roles = map[string]func(args []string){
	"print":  func(args []string) { fmt.Print(args[0]) },
	"bytes":  func([]string) { _, _ = os.Stdout.Write([]byte{0xff, 0xfe, 'a'}) },
	"status": func(args []string) { fail(args) },
	"record": func(args []string) { // the input, and where it ran, to a file
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(args[0], in, 0o600); err != nil {
			panic(err)
		}
	},
	"environ": func([]string) { fmt.Print(strings.Join(os.Environ(), "\n")) },
	"where": func([]string) {
		dir, err := os.Getwd()
		fmt.Print(dir, err)
	},
	"flood": func([]string) {
		for range 64 {
			_, _ = os.Stdout.Write(bytes.Repeat([]byte("f"), 1<<16))
		}
	},
	"crash": func([]string) { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM); select {} },
	"hang":  func([]string) { select {} },
}

func fail(args []string) {
	fmt.Print(args[1])
	fmt.Fprint(os.Stderr, args[2])
	code, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestMain(m *testing.M) {
	if os.Getenv(hookEnv) != "" {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
		roles[os.Args[1]](os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

// hook is this binary in a role.
func hook(role string, args ...string) Hook {
	return Hook{Command: append([]string{os.Args[0], role}, args...), Timeout: time.Minute}
}

func closed(h Hook) Hook {
	h.Closed = true
	return h
}

func runner(cfg Config) *Runner {
	cfg.Extra = append(cfg.Extra, hookEnv+"=1", "GORACE=atexit_sleep_ms=0")
	if cfg.Total == 0 {
		cfg.Total = time.Minute
	}
	return New(cfg)
}

// outcome is all that a pre hook can cause.
type outcome struct {
	Instructions string
	Warnings     []string
	Denied       string
}

// pre runs pre hooks. What the test binary is called does not count.
func pre(t *testing.T, r *Runner, e Event) outcome {
	t.Helper()
	instructions, warnings, err := r.PreCompact(t.Context(), e)
	o := outcome{Instructions: instructions}
	for _, w := range warnings {
		o.Warnings = append(o.Warnings, unnamed(w))
	}
	if err != nil {
		if fault.CodeOf(err) != fault.Denied {
			t.Fatalf("the error is no denial: %v", err)
		}
		o.Denied = unnamed(fault.MessageOf(err))
	}
	return o
}

func unnamed(text string) string {
	return strings.ReplaceAll(text, "("+filepath.Base(os.Args[0])+")", "(me)")
}

func TestEveryAnswerIsUnderstood(t *testing.T) {
	t.Parallel()
	denied := func(reason string) outcome {
		return outcome{Denied: "PreCompact hook 1 (me) denied the compaction: " + reason}
	}
	failed := func(why string) outcome {
		return outcome{Warnings: []string{"PreCompact hook 1 (me) " + why + "; it was passed over"}}
	}
	for name, tt := range map[string]struct {
		hook Hook
		want outcome
	}{
		"silence":                    {hook("print", ""), outcome{}},
		"blanks":                     {hook("print", " \n"), outcome{}},
		"text":                       {hook("print", "Keep the tide tables.\n"), outcome{Instructions: "Keep the tide tables."}},
		"text in brackets":           {hook("print", "[note] keep it"), outcome{Instructions: "[note] keep it"}},
		"empty object":               {hook("print", "{}"), outcome{}},
		"context":                    {hook("print", `{"hookSpecificOutput":{"hookEventName":"PreCompact","additionalContext":"Keep A."}}`), outcome{Instructions: "Keep A."}},
		"warning":                    {hook("print", `{"systemMessage":"low on disk"}`), outcome{Warnings: []string{"PreCompact hook 1 (me) says: low on disk"}}},
		"go on":                      {hook("print", `{"continue":true,"suppressOutput":true}`), outcome{}},
		"approve":                    {hook("print", `{"decision":"approve","reason":"fine"}`), outcome{}},
		"unknown members":            {hook("print", `{"new":[1,{"a":2}]}`), outcome{}},
		"codex stops":                {hook("print", `{"continue":false,"stopReason":"a release is on"}`), denied("a release is on")},
		"stop without a reason":      {hook("print", `{"continue":false}`), denied("it gave no reason")},
		"stop with the other reason": {hook("print", `{"continue":false,"reason":"not now"}`), denied("not now")},
		"Claude Code blocks":         {hook("print", `{"decision":"block","reason":"not now"}`), denied("not now")},
		"block and stop":             {hook("print", `{"decision":"block","reason":"R","continue":false,"stopReason":"S"}`), denied("R")},
		"status 2":                   {hook("status", "2", "", "tests still run\n"), denied("tests still run")},
		"status 2 on stdout":         {hook("status", "2", "said here", ""), denied("said here")},
		"status 2 in silence":        {hook("status", "2", "", ""), denied("it exited with status 2 and said nothing")},
		"status 1":                   {hook("status", "1", `{"decision":"block"}`, "no jq\n"), failed("exited with status 1: no jq")},
		"status 1 in silence":        {hook("status", "1", "", ""), failed("exited with status 1")},
		"crash":                      {hook("crash"), failed("was ended by a signal (terminated)")},
		"flood":                      {hook("flood"), failed("printed more than 65536 bytes")},
		"no text":                    {hook("bytes"), failed("printed what is no text (UTF-8)")},
		"half an object":             {hook("print", `{"continue":`), failed("printed an object that is no JSON: unexpected end of JSON input")},
		"two objects":                {hook("print", `{} {}`), failed("printed an object that is no JSON: invalid character '{' after top-level value")},
		"wrong type":                 {hook("print", `{"continue":"no"}`), failed("answered with a continue that is a string")},
		"wrong type below":           {hook("print", `{"hookSpecificOutput":{"additionalContext":7}}`), failed("answered with a hookSpecificOutput.additionalContext that is a number")},
		"unknown decision":           {hook("print", `{"decision":"deny"}`), failed(`answered the decision "deny"; allowed: block, approve, or none`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, pre(t, runner(Config{Pre: []Hook{tt.hook}}), Event{})); diff != "" {
				t.Errorf("open, -want +got:\n%s", diff)
			}
			want := tt.want
			if len(want.Warnings) > 0 && strings.HasSuffix(want.Warnings[0], "passed over") {
				why := strings.TrimSuffix(want.Warnings[0], "; it was passed over")
				want = outcome{Denied: why + "; it is configured to deny when it fails"}
			}
			if diff := cmp.Diff(want, pre(t, runner(Config{Pre: []Hook{closed(tt.hook)}}), Event{})); diff != "" {
				t.Errorf("closed, -want +got:\n%s", diff)
			}
		})
	}
}

func TestMissingProgramFailsAsConfigured(t *testing.T) {
	t.Parallel()
	gone := Hook{Command: []string{filepath.Join(t.TempDir(), "gone")}}
	open := pre(t, runner(Config{Pre: []Hook{gone}}), Event{})
	if len(open.Warnings) != 1 || !strings.Contains(open.Warnings[0], "(gone) could not be run: ") || open.Denied != "" {
		t.Errorf("open: %+v", open)
	}
	if shut := pre(t, runner(Config{Pre: []Hook{closed(gone)}}), Event{}); !strings.Contains(shut.Denied, "no such file") {
		t.Errorf("closed: %+v", shut)
	}
}

func TestHangingHookIsKilledAndFailsAsConfigured(t *testing.T) {
	t.Parallel()
	hang := hook("hang")
	hang.Timeout = 50 * time.Millisecond
	const why = "PreCompact hook 1 (me) gave no answer within 50ms, and was killed; it "
	if diff := cmp.Diff(outcome{Warnings: []string{why + "was passed over"}}, pre(t, runner(Config{Pre: []Hook{hang}}), Event{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(outcome{Denied: why + "is configured to deny when it fails"}, pre(t, runner(Config{Pre: []Hook{closed(hang)}}), Event{})); diff != "" {
		t.Error(diff)
	}
}

func TestAllHooksTogetherHaveALimit(t *testing.T) {
	t.Parallel()
	cfg := Config{Pre: []Hook{hook("hang"), hook("print", "late")}, Total: 500 * time.Millisecond}
	want := outcome{Warnings: []string{
		"PreCompact hook 1 (me) gave no answer before the 500ms that all hooks have together were over, and was killed; it was passed over",
		"PreCompact hook 2 (me) was not run: the hooks before it used up the 500ms that all have together; it was passed over",
	}}
	if diff := cmp.Diff(want, pre(t, runner(cfg), Event{})); diff != "" {
		t.Error(diff)
	}
}

func TestFirstDenialEndsTheRound(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	cfg := Config{Pre: []Hook{
		hook("print", `{"systemMessage":"one"}`),
		hook("status", "2", "", "two"),
		hook("record", file),
	}}
	want := outcome{Warnings: []string{"PreCompact hook 1 (me) says: one"}, Denied: "PreCompact hook 2 (me) denied the compaction: two"}
	if diff := cmp.Diff(want, pre(t, runner(cfg), Event{})); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the hook after the denial was run")
	}
}

func TestDenialKeepsItsWarning(t *testing.T) {
	t.Parallel()
	cfg := Config{Pre: []Hook{hook("print", `{"systemMessage":"look at it","decision":"block","reason":"no"}`)}}
	want := outcome{Warnings: []string{"PreCompact hook 1 (me) says: look at it"}, Denied: "PreCompact hook 1 (me) denied the compaction: no"}
	if diff := cmp.Diff(want, pre(t, runner(cfg), Event{})); diff != "" {
		t.Error(diff)
	}
}

func TestMatchChoosesByWhoAsked(t *testing.T) {
	t.Parallel()
	manual, auto := hook("print", "manual"), hook("print", "auto")
	manual.Match, auto.Match = MatchManual, MatchAuto
	r := runner(Config{Pre: []Hook{manual, hook("print", "all"), auto}})
	if got := pre(t, r, Event{Trigger: "manual"}).Instructions; got != "manual\n\nall" {
		t.Errorf("manual: %q", got)
	}
	if got := pre(t, r, Event{Trigger: "preTurn", Automatic: true}).Instructions; got != "all\n\nauto" {
		t.Errorf("automatic: %q", got)
	}
}

func TestInstructionsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("ä", maxInstructions/2)
	got := pre(t, runner(Config{Pre: []Hook{hook("print", half), hook("print", half+"xyz"), hook("print", "more")}}), Event{})
	if want := half + "\n\n" + half; got.Instructions != want {
		t.Errorf("%d characters arrived", len([]rune(got.Instructions)))
	}
	cut := func(i int) string {
		return fmt.Sprintf("PreCompact hook %d (me) says more to the writer than the 8000 characters that all hooks have; the rest was left out", i)
	}
	if diff := cmp.Diff([]string{cut(2), cut(3)}, got.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestHookReadsTheFieldNamesOfBothDialects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "input")
	e := Event{
		Thread: "thread", Turn: "turn", Compaction: "compaction", Cwd: dir, Model: "m", Trigger: "preTurn", Automatic: true,
		Instructions: "keep \"it\"\n", Record: map[string]any{"phase": "hooking", "route": nil},
	}
	pre(t, runner(Config{Pre: []Hook{hook("record", file)}}), e)
	got := readInput(t, file)
	want := map[string]any{
		"session_id": "thread", "turn_id": "turn", "prompt_id": "turn", "transcript_path": "", "cwd": dir,
		"hook_event_name": "PreCompact", "model": "m", "trigger": "auto", "custom_instructions": "keep \"it\"\n",
		"thread_id": "thread", "compaction_id": "compaction", "compaction_trigger": "preTurn",
		"compaction": map[string]any{"phase": "hooking", "route": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	e.Automatic, e.Trigger = false, "manual"
	runner(Config{Post: []Hook{hook("record", file)}}).PostCompact(t.Context(), e)
	if got := readInput(t, file); got["hook_event_name"] != "PostCompact" || got["trigger"] != "manual" {
		t.Errorf("after the compaction: %v", got)
	}
}

func readInput(t *testing.T, file string) (in map[string]any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatalf("the input is no JSON: %v", err)
	}
	return in
}

func TestHookThatDoesNotReadItsInputIsAsked(t *testing.T) {
	t.Parallel()
	e := Event{Instructions: strings.Repeat("x", 1<<20)}
	if got := pre(t, runner(Config{Pre: []Hook{hook("print", "fine")}}), e); got.Instructions != "fine" || got.Warnings != nil {
		t.Errorf("got %+v", got)
	}
}

func TestHookRunsInTheFolderOfTheThread(t *testing.T) {
	t.Parallel()
	thread, spare := t.TempDir(), t.TempDir()
	r := runner(Config{Pre: []Hook{hook("where")}, Dir: spare})
	for cwd, want := range map[string]string{thread: thread, filepath.Join(thread, "gone"): spare} {
		if got := pre(t, r, Event{Cwd: cwd}).Instructions; got != want+"<nil>" {
			t.Errorf("in %s it ran in %s", cwd, got)
		}
	}
}

func TestHookGetsThePlainEnvironmentAndWhatIsNamed(t *testing.T) {
	t.Parallel()
	h := hook("environ")
	h.Env = []string{"HOOK_URL", "ABSENT"}
	cfg := Config{Pre: []Hook{h}, Environ: []string{"PATH=/bin", "HOOK_URL=short", "OPENAI_API_KEY=sk-secret"}, Extra: []string{"PLIMSOLL_HOME=/home"}, Dir: "/"}
	want := "PATH=/bin\nHOOK_URL=short\nPLIMSOLL_HOME=/home\n" + hookEnv + "=1\nGORACE=atexit_sleep_ms=0\nCLAUDE_PROJECT_DIR=/"
	if diff := cmp.Diff(want, pre(t, runner(cfg), Event{}).Instructions); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatAHookSaysHoldsNoSecretsAndNoControls(t *testing.T) {
	t.Parallel()
	cfg := func(h Hook) Config {
		h.Env = []string{"HOOK_KEY"}
		return Config{Pre: []Hook{h}, Environ: []string{"HOOK_KEY=hunter2hunter2"}, Secrets: []string{"sk-live", "sk-live-long", "a"}}
	}
	const leak = "sk-live-long sk-live hunter2hunter2 sk-\x01live a\x1b[2Jb Authorization: Bearer abc.def \"authorization\": \"Basic eHl6\", bearer 0123456789"
	const want = "[redacted] [redacted] [redacted] [redacted] a[2Jb Authorization: Bearer [redacted] \"authorization\": \"Basic [redacted]\", bearer [redacted]"
	quoted, err := json.Marshal(map[string]any{"systemMessage": leak, "decision": "block", "reason": leak})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		hook Hook
		want outcome
	}{
		"text":   {hook("print", leak), outcome{Instructions: want}},
		"status": {hook("status", "2", "", leak), outcome{Denied: "PreCompact hook 1 (me) denied the compaction: " + want}},
		"crash":  {hook("status", "9", "", leak), outcome{Warnings: []string{"PreCompact hook 1 (me) exited with status 9: " + want + "; it was passed over"}}},
		"JSON": {hook("print", string(quoted)), outcome{
			Warnings: []string{"PreCompact hook 1 (me) says: " + want}, Denied: "PreCompact hook 1 (me) denied the compaction: " + want,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, pre(t, runner(cfg(tt.hook)), Event{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLongReasonIsCut(t *testing.T) {
	t.Parallel()
	got := pre(t, runner(Config{Pre: []Hook{hook("status", "2", "", strings.Repeat("é ", maxReason))}}), Event{}).Denied
	if n := len([]rune(got)); n > maxReason+100 || !strings.HasSuffix(got, "é …") {
		t.Errorf("%d characters: …%s", n, got[len(got)-20:])
	}
}

func TestInterruptedRoundIsNoDenial(t *testing.T) {
	t.Parallel()
	why := errors.New("the turn was interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	_, _, err := runner(Config{Pre: []Hook{closed(hook("hang"))}}).PreCompact(ctx, Event{})
	if !errors.Is(err, why) || fault.CodeOf(err) == fault.Denied {
		t.Errorf("got %v", err)
	}
}

func TestHooksAfterACompactionOnlyWarn(t *testing.T) {
	t.Parallel()
	hang := hook("hang")
	hang.Timeout = 50 * time.Millisecond
	cfg := Config{Post: []Hook{
		hook("print", "plain text is for nobody"),
		hook("print", `{"continue":false,"stopReason":"too late"}`),
		hook("status", "2", "", "so is this"),
		closed(hook("status", "1", "", "oops")),
		hang,
		hook("print", `{"systemMessage":"indexed"}`),
	}}
	want := []string{
		"PostCompact hook 2 (me) denied a compaction that is done: too late",
		"PostCompact hook 3 (me) denied a compaction that is done: so is this",
		"PostCompact hook 4 (me) exited with status 1: oops",
		"PostCompact hook 5 (me) gave no answer within 50ms, and was killed",
		"PostCompact hook 6 (me) says: indexed",
	}
	var got []string
	for _, w := range runner(cfg).PostCompact(t.Context(), Event{}) {
		got = append(got, unnamed(w))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHooksAfterACompactionOutliveTheThreadByTheGrace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "told")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := runner(Config{Post: []Hook{hook("record", file), hook("print", `{"systemMessage":"told"}`)}}).PostCompact(ctx, Event{Thread: "t"})
	if len(got) != 1 || !strings.HasSuffix(got[0], "says: told") || readInput(t, file)["thread_id"] != "t" {
		t.Errorf("got %q", got)
	}
	cfg := Config{Post: []Hook{hook("hang"), hook("print", `{"systemMessage":"never"}`)}, Grace: 50 * time.Millisecond}
	got = runner(cfg).PostCompact(ctx, Event{})
	if len(got) != 1 || !strings.HasSuffix(got[0], "was killed: the thread is closing") {
		t.Errorf("got %q", got)
	}
}

func TestNoHooksSayNothing(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(outcome{}, pre(t, New(Config{}), Event{})); diff != "" {
		t.Error(diff)
	}
	if w := New(Config{}).PostCompact(t.Context(), Event{}); w != nil {
		t.Errorf("got %q", w)
	}
}
