package claude

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
)

// Options say which Claude Code is driven, and how.
type Options struct {
	Name    string // of the provider, for messages
	Program string // a path, or a name that PATH finds; empty: claude
	Home    string // CLAUDE_CONFIG_DIR; empty: the one of Env, or the default
	Model   string // empty: Claude Code's own default
	Env     []string
	// ContextWindow is that of a model which Claude Code does not know; it would take
	// 1,000,000 tokens for it. 0: it knows.
	ContextWindow int
	Args          []string // further ones of its command line

	OpenTimeout    time.Duration // to start, resume and seed; 0 means 30 s
	CompactTimeout time.Duration // of a compaction, for which it has no limit itself; 0 means 5 min
	StopTimeout    time.Duration // to end what was interrupted, then it is killed; 0 means 4 s
	LeaseDir       string        // the same for all servers that use the home; empty: a folder in it
	Logger         *slog.Logger  // nil: nothing is logged

	dial func(ctx context.Context, args []string) (child.Conn, error) // in place of a process, for tests
}

// Form is the form of Claude Code's native compaction.
const Form = "claude-command"

// Tested is the version that this package was made for.
const Tested = "2.1.332"

const (
	defaultOpen    = 30 * time.Second
	defaultCompact = 5 * time.Minute
	defaultStop    = 4 * time.Second
	modelsFor      = 10 * time.Minute // a list of models is used again
)

type adapter struct {
	o    Options
	home string

	mu     sync.Mutex // guards what follows
	models []adapters.ModelInfo
	asked  time.Time
}

// New returns an adapter that drives Claude Code.
func New(o Options) adapters.Runtime {
	if o.Program == "" {
		o.Program = "claude"
	}
	if o.Name == "" {
		o.Name = "claude"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, t := range []struct {
		to  *time.Duration
		def time.Duration
	}{{&o.OpenTimeout, defaultOpen}, {&o.CompactTimeout, defaultCompact}, {&o.StopTimeout, defaultStop}} {
		if *t.to == 0 {
			*t.to = t.def
		}
	}
	o.Env = environment(o)
	a := &adapter{o: o, home: homeOf(o.Env)}
	if a.o.LeaseDir == "" {
		a.o.LeaseDir = filepath.Join(a.home, "plimsoll-leases")
	}
	return a
}

// environment is that of the child. Variables by which Claude Code tells its own
// children that they are such are taken away. It retries a failing request ten times
// otherwise, silently while it compacts (2.1.332, observed).
func environment(o Options) []string {
	env := slices.DeleteFunc(slices.Clone(o.Env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_EXECPATH"}, name) ||
			name == "CLAUDE_CONFIG_DIR" && o.Home != "" || name == "DISABLE_AUTO_COMPACT"
	})
	env = append(env, "DISABLE_AUTO_COMPACT=1", "DISABLE_AUTOUPDATER=1")
	if o.Home != "" {
		env = append(env, "CLAUDE_CONFIG_DIR="+o.Home)
	}
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "CLAUDE_CODE_MAX_RETRIES=") }) {
		env = append(env, "CLAUDE_CODE_MAX_RETRIES=3")
	}
	if o.ContextWindow > 0 {
		env = append(env, fmt.Sprintf("CLAUDE_CODE_MAX_CONTEXT_TOKENS=%d", o.ContextWindow))
	}
	return env
}

// valueOf is the value of a variable; empty if there is none.
func valueOf(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// homeOf is where Claude Code keeps its files (CLAUDE_CONFIG_DIR, or ~/.claude).
func homeOf(env []string) string {
	if dir := valueOf(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(valueOf(env, "HOME"), ".claude")
}

// homeMissing returns the home that was named, if it is no folder. Claude Code would make
// it, without a login, wherever a slip of the pen puts it.
func (o Options) homeMissing() (dir string, missing bool) {
	if dir = valueOf(o.Env, "CLAUDE_CONFIG_DIR"); dir == "" {
		return "", false
	}
	info, err := os.Stat(dir)
	return dir, err != nil || !info.IsDir()
}

// homeFix says what to do about a home that is not there.
func (o Options) homeFix(dir string) string {
	where := "CLAUDE_CONFIG_DIR"
	if o.Home != "" {
		where = "home in [providers." + o.Name + "]"
	}
	return "correct " + where + ", or make the folder and log in there: CLAUDE_CONFIG_DIR=" + dir + " claude /login"
}

// Models implements adapters.Adapter. Claude Code does not tell their windows before
// they have answered; they are learned from its reports.
func (a *adapter) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.models != nil && time.Since(a.asked) < modelsFor {
		return slices.Clone(a.models), nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	p, err := a.start(ctx, startOptions{})
	if err != nil {
		return nil, err
	}
	p.close()
	a.models, a.asked = a.listed(p.hello), time.Now()
	return slices.Clone(a.models), nil
}

func (a *adapter) listed(h hello) []adapters.ModelInfo {
	var list []adapters.ModelInfo
	add := func(id, name string) {
		if id == "" || slices.ContainsFunc(list, func(m adapters.ModelInfo) bool { return m.ID == id }) {
			return
		}
		m := adapters.ModelInfo{ID: id, DisplayName: name, ContextWindow: a.o.ContextWindow, Images: true}
		if m.ContextWindow > 0 {
			m.WindowSource = "config"
		}
		list = append(list, m)
	}
	add(a.o.Model, a.o.Model)
	for _, m := range h.Models {
		add(m.Value, m.DisplayName)
	}
	if len(list) == 0 {
		add("default", "Default")
	}
	return list
}

// Open implements adapters.Adapter.
func (a *adapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	if err := a.homeProblem(); err != nil { // before a lease makes one
		return nil, err
	}
	s := &session{a: a, o: a.o, params: p, id: p.NativeID, known: p.NativeID != "", opening: make(chan struct{}, 1)}
	if s.id == "" {
		s.id = uuid.NewString()
	}
	if err := s.lease(); err != nil {
		return nil, err
	}
	if _, err := s.ensure(ctx); err != nil {
		return nil, joinClose(err, s)
	}
	if len(p.Seed) > 0 && p.NativeID == "" {
		if err := s.seed(ctx, p.Seed); err != nil {
			return nil, joinClose(err, s)
		}
	}
	return s, nil
}

// maxOutput bounds the output of a tool that is kept, in bytes.
const maxOutput = 1 << 20

func clip(s string) string { return timeline.Clip(s, maxOutput) }
