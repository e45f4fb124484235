package codex

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// Options say which codex is driven, and how.
type Options struct {
	Name    string // of the provider, for messages
	Program string // a path, or a name that PATH finds; empty: codex
	Home    string // CODEX_HOME; empty: the one of Env, or codex's default
	Model   string // empty: codex's own default
	Env     []string
	// Config is set on top of codex's configuration: its -c KEY=VALUE, with values in
	// TOML, or taken as a text if they are none. Setting says which keys may be there.
	Config map[string]string

	OpenTimeout    time.Duration // to start, resume and seed; 0 means 30 s
	CompactTimeout time.Duration // of a compaction; 0 means 10 min
	StopTimeout    time.Duration // to end what was interrupted, then codex is killed; 0 means 4 s
	LeaseDir       string        // the same for all servers that use the home; empty: a folder in it
	Logger         *slog.Logger  // nil: nothing is logged

	dial func(ctx context.Context) (child.Conn, error) // in place of a process, for tests
}

// Form is the form of codex's native compaction.
const Form = "codex-turn"

// Tested is the version that this package was made for.
const Tested = "0.171.0"

const (
	defaultOpen    = 30 * time.Second
	defaultCompact = 10 * time.Minute
	defaultStop    = 4 * time.Second
	modelsFor      = 10 * time.Minute // a list of models is used again
)

type adapter struct {
	o Options

	mu     sync.Mutex // guards what follows
	models []adapters.ModelInfo
	asked  time.Time
}

// New returns an adapter that drives codex.
func New(o Options) adapters.Runtime {
	if o.Program == "" {
		o.Program = "codex"
	}
	if o.Name == "" {
		o.Name = "codex"
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
	if o.Home != "" {
		o.Env = slices.DeleteFunc(slices.Clone(o.Env), func(kv string) bool { return strings.HasPrefix(kv, "CODEX_HOME=") })
		o.Env = append(o.Env, "CODEX_HOME="+o.Home)
	}
	if o.LeaseDir == "" {
		o.LeaseDir = filepath.Join(homeOf(o.Env), "plimsoll-leases")
	}
	return &adapter{o: o}
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

// homeOf is where codex keeps its threads (CODEX_HOME, or ~/.codex).
func homeOf(env []string) string {
	if dir := valueOf(env, "CODEX_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(valueOf(env, "HOME"), ".codex")
}

// homeMissing returns the home that was named, if it is no folder. Codex makes only the
// one that it has by default.
func (o Options) homeMissing() (dir string, missing bool) {
	if dir = valueOf(o.Env, "CODEX_HOME"); dir == "" {
		return "", false
	}
	info, err := os.Stat(dir)
	return dir, err != nil || !info.IsDir()
}

// homeFix says what to do about a home that is not there.
func (o Options) homeFix(dir string) string {
	where := "CODEX_HOME"
	if o.Home != "" {
		where = "home in [providers." + o.Name + "]"
	}
	return "correct " + where + ", or make the folder and log in there: CODEX_HOME=" + dir + " codex login"
}

// Models implements adapters.Adapter. The first one is that of the configuration:
// ours, or codex's own. Codex does not tell their windows; they are learned from its
// reports.
func (a *adapter) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.models != nil && time.Since(a.asked) < modelsFor {
		return slices.Clone(a.models), nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	p, err := a.start(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	defer p.close()
	list, err := a.listModels(ctx, p)
	if err != nil {
		return nil, err
	}
	a.models, a.asked = list, time.Now()
	return slices.Clone(list), nil
}

func (a *adapter) listModels(ctx context.Context, p *peer) ([]adapters.ModelInfo, error) {
	first := a.o.Model
	if first == "" {
		var cfg struct {
			Config struct {
				Model string `json:"model"`
			} `json:"config"`
		}
		if err := p.call(ctx, "config/read", struct{}{}, &cfg); err == nil { // older ones have none
			first = cfg.Config.Model
		}
	}
	var res struct {
		Data []struct {
			ID        string   `json:"id"`
			Name      string   `json:"displayName"`
			IsDefault bool     `json:"isDefault"`
			Inputs    []string `json:"inputModalities"`
		} `json:"data"`
	}
	if err := p.call(ctx, "model/list", struct{}{}, &res); err != nil {
		return nil, err
	}
	var list []adapters.ModelInfo
	for _, m := range res.Data {
		info := adapters.ModelInfo{ID: m.ID, DisplayName: m.Name, Images: slices.Contains(m.Inputs, "image")}
		if m.ID == first || first == "" && m.IsDefault {
			list = slices.Insert(list, 0, info)
		} else {
			list = append(list, info)
		}
	}
	if first != "" && (len(list) == 0 || list[0].ID != first) {
		list = slices.Insert(list, 0, adapters.ModelInfo{ID: first, DisplayName: first, Images: true})
	}
	if len(list) == 0 {
		return nil, unavailable(a.o.Name, "codex lists no model; set model in its config.toml or in [providers.%s]", a.o.Name)
	}
	return list, nil
}

// Open implements adapters.Adapter.
func (a *adapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, a.o.OpenTimeout)
	defer cancel()
	if err := a.homeProblem(); err != nil { // before a lease makes one
		return nil, err
	}
	s := &session{a: a, o: a.o, params: p, id: p.NativeID, warned: map[string]bool{}, opening: make(chan struct{}, 1)}
	if s.id != "" {
		if err := s.lease(); err != nil {
			return nil, err
		}
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
