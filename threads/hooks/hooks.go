package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A Hook is one command and when it runs.
type Hook struct {
	// Command is the program and its arguments. The program is an absolute path or a
	// name that PATH finds.
	Command []string
	// Env names the variables of the server's environment that it gets beside the
	// plain ones.
	Env     []string
	Timeout time.Duration // 0: DefaultTimeout
	// Closed makes a failure of the hook a denial. Hooks after the compaction cannot
	// deny, so there it means nothing.
	Closed bool
	Match  Match
}

// A Match says for which compactions a hook runs.
type Match string

// The matches, in the words of Claude Code's and codex's matchers.
const (
	MatchAll    Match = ""
	MatchManual Match = "manual" // somebody asked for it
	MatchAuto   Match = "auto"
)

// The time limits of a configuration that names none.
const (
	DefaultTimeout = 30 * time.Second
	DefaultTotal   = 2 * time.Minute
	DefaultGrace   = 5 * time.Second
)

// A Config is what a Runner runs.
type Config struct {
	Pre, Post []Hook
	Total     time.Duration // of all hooks of one event; 0: DefaultTotal
	Grace     time.Duration // of post hooks after the thread began to close; 0: DefaultGrace
	Environ   []string      // NAME=value: the environment that hooks get a part of
	Extra     []string      // NAME=value: what every hook gets beside
	Dir       string        // to run in if the folder of a thread is not there
	Secrets   []string      // values that must not come back in what a hook says
}

// An Event is a compaction that hooks are told about.
type Event struct {
	Thread       string
	Turn         string
	Compaction   string
	Cwd          string
	Model        string
	Trigger      string // exactly, as the record has it
	Automatic    bool
	Instructions string // of the user, for the writer
	Record       any    // as the doors show it
}

// A Runner runs hooks. It is safe for concurrent use.
type Runner struct{ cfg Config }

// New returns a Runner.
func New(cfg Config) *Runner {
	cfg.Total, cfg.Grace = cmp.Or(cfg.Total, DefaultTotal), cmp.Or(cfg.Grace, DefaultGrace)
	return &Runner{cfg: cfg}
}

// The names of the events.
const (
	preCompact  = "PreCompact"
	postCompact = "PostCompact"
)

// PreCompact asks the pre hooks. The error is a fault.Denied if one of them denied or
// failed closed, and that of ctx if it was done; instructions are what the hooks say
// to the writer, warnings what they say to the user and which of them failed.
func (r *Runner) PreCompact(ctx context.Context, e Event) (instructions string, warnings []string, err error) {
	run := r.begin(preCompact, e)
	for i, h := range r.cfg.Pre {
		if !h.matches(e) {
			continue
		}
		a, err := run.ask(ctx, i, h)
		if a.warning != "" {
			run.warn("%s says: %s", run.name(i, h), a.warning)
		}
		switch {
		case ctx.Err() != nil:
			return "", run.warnings, context.Cause(ctx)
		case err != nil && h.Closed:
			return "", run.warnings, fault.New(fault.Denied, "%s %s; it is configured to deny when it fails", run.name(i, h), err)
		case err != nil:
			run.warn("%s %s; it was passed over", run.name(i, h), err)
		case a.denied:
			return "", run.warnings, fault.New(fault.Denied, "%s denied the compaction: %s", run.name(i, h), a.reason)
		default:
			run.instruct(i, h, a.instructions)
		}
	}
	return strings.Join(run.instructions, "\n\n"), run.warnings, nil
}

// PostCompact tells the post hooks. Everything that they say is a warning. What they
// are told has happened, so they are given the grace to take it in also when ctx is
// done: a program that compacts and ends would else never tell them.
func (r *Runner) PostCompact(ctx context.Context, e Event) (warnings []string) {
	ctx, end := outlive(ctx, r.cfg.Grace)
	defer end()
	run := r.begin(postCompact, e)
	for i, h := range r.cfg.Post {
		if !h.matches(e) {
			continue
		}
		a, err := run.ask(ctx, i, h)
		if a.warning != "" {
			run.warn("%s says: %s", run.name(i, h), a.warning)
		}
		switch {
		case ctx.Err() != nil:
			run.warn("%s was killed: the thread is closing", run.name(i, h))
			return run.warnings
		case err != nil:
			run.warn("%s %s", run.name(i, h), err)
		case a.denied:
			run.warn("%s denied a compaction that is done: %s", run.name(i, h), a.reason)
		}
	}
	return run.warnings
}

// outlive returns a context that ends a while after ctx does. It must be ended.
func outlive(ctx context.Context, grace time.Duration) (_ context.Context, end context.CancelFunc) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-inner.Done():
		}
	})
	return inner, func() {
		stop()
		cancel()
	}
}

func (h Hook) matches(e Event) bool {
	switch h.Match {
	case MatchManual:
		return !e.Automatic
	case MatchAuto:
		return e.Automatic
	default:
		return true
	}
}

// A round is the hooks of one event.
type round struct {
	cfg          Config
	event        string
	dir          string
	stdin        []byte
	err          error // why there is no stdin
	deadline     time.Time
	instructions []string
	room         int // left for instructions, in characters
	warnings     []string
}

// maxInstructions bounds what all hooks of one event say to the writer, in characters.
const maxInstructions = 8_000

func (r *Runner) begin(event string, e Event) *round {
	run := &round{cfg: r.cfg, event: event, dir: e.Cwd, deadline: time.Now().Add(r.cfg.Total), room: maxInstructions}
	if info, err := os.Stat(e.Cwd); err != nil || !info.IsDir() {
		run.dir = r.cfg.Dir // of an imported thread, for instance
	}
	run.stdin, run.err = json.Marshal(inputOf(event, e))
	return run
}

// name is how the user knows a hook.
func (r *round) name(i int, h Hook) string {
	return fmt.Sprintf("%s hook %d (%s)", r.event, i+1, filepath.Base(h.Command[0]))
}

func (r *round) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// instruct adds what a hook says to the writer, as far as there is room.
func (r *round) instruct(i int, h Hook, text string) {
	if text == "" {
		return
	}
	kept, cut := clip(text, r.room)
	if cut {
		r.warn("%s says more to the writer than the %d characters that all hooks have; the rest was left out", r.name(i, h), maxInstructions)
	}
	if kept != "" {
		r.instructions = append(r.instructions, kept)
		r.room -= len([]rune(kept))
	}
}

// ask runs one hook and reads its answer. The error says what it did wrong, with the
// hook as the subject.
func (r *round) ask(ctx context.Context, i int, h Hook) (answer, error) {
	if r.err != nil {
		return answer{}, fmt.Errorf("was not run: %w", r.err)
	}
	limit := cmp.Or(h.Timeout, DefaultTimeout)
	left := time.Until(r.deadline)
	if left <= 0 {
		return answer{}, fmt.Errorf("was not run: the hooks before it used up the %v that all have together", r.cfg.Total)
	}
	result, err := proc.Run(ctx, proc.Job{
		Argv: h.Command, Dir: r.dir, Env: r.environ(h), Stdin: r.stdin,
		Timeout: min(limit, left), MaxOutput: maxOutput,
	})
	if err != nil {
		return answer{}, fmt.Errorf("could not be run: %s", r.safe(h, err.Error(), maxReason))
	}
	if result.TimedOut && left < limit {
		return answer{}, fmt.Errorf("gave no answer before the %v that all hooks have together were over, and was killed", r.cfg.Total)
	}
	if result.TimedOut {
		return answer{}, fmt.Errorf("gave no answer within %v, and was killed", limit)
	}
	say := func(text string, limit int) string { return r.safe(h, text, limit) }
	return read(result, say)
}

// environ is the environment of a hook. CLAUDE_PROJECT_DIR is where Claude Code's
// hooks look for the folder of the thread.
func (r *round) environ(h Hook) []string {
	env := proc.Environ(r.cfg.Environ, h.Env...)
	return append(append(env, r.cfg.Extra...), "CLAUDE_PROJECT_DIR="+r.dir)
}
