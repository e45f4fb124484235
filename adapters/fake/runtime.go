package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Runtime is an adapter whose sessions keep their own history, as a program does: it
// remembers them by their ids over Open calls, and in a folder over processes. One
// session is driven once at a time; another Open of it is adapters.ErrInUse. It is safe
// for concurrent use.
type Runtime struct {
	opts RuntimeOptions

	mu     sync.Mutex // guards what follows
	script *Script
	mind   map[string][]string // histories by id; with a folder, its files are these
	busy   map[string]bool
	opened []adapters.OpenParams
	inputs []adapters.TurnInput
	noted  map[string][]string // the server's notes, by id
	limit  int
	shrunk map[string]int // how often each history was replaced by notes, by this process
	reject error
}

// RuntimeOptions are what sessions of a Runtime have in common.
type RuntimeOptions struct {
	// Dir is an existing folder for the histories. Empty: in memory.
	Dir string
	// Window is the context window in tokens; a request that does not fit is an overflow,
	// unless Limit says otherwise. 0: 100,000.
	Window int
	// Base is what a request weighs beside the history, in tokens. Every turn reports its
	// size, unless the script has a usage. 0: no turn reports anything by itself.
	Base int
}

const defaultWindow = 100_000

// NativeNotes is what a native compaction makes of a history.
const NativeNotes = "checkpoint: the runtime's own notes"

var _ adapters.Runtime = (*Runtime)(nil)

// NewRuntime returns a runtime that plays s.
func NewRuntime(s *Script, o RuntimeOptions) *Runtime {
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	return &Runtime{
		opts: o, limit: o.Window, script: s, mind: map[string][]string{}, busy: map[string]bool{},
		noted: map[string][]string{}, shrunk: map[string]int{},
	}
}

// Play has sessions play another script from here on.
func (r *Runtime) Play(s *Script) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = s
}

// Reject makes every session that would be made fail with err; nil ends that.
func (r *Runtime) Reject(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reject = err
}

// Lose forgets a session. Its id is not used again.
func (r *Runtime) Lose(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store(id, nil)
}

// History returns what a session holds, as Told tells it; nil if there is none.
func (r *Runtime) History(id string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load(id)
}

// Opened returns what every session was opened with, oldest first.
func (r *Runtime) Opened() []adapters.OpenParams {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.opened)
}

// Compacted returns how often the history of a session was replaced by notes.
func (r *Runtime) Compacted(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shrunk[id]
}

// Inputs returns what every turn was begun with, oldest first.
func (r *Runtime) Inputs() []adapters.TurnInput {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.inputs)
}

// Noted returns the server's notes that a session was told, by this process.
func (r *Runtime) Noted(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.noted[id])
}

// Limit sets how many tokens of a request fit: what the runtime says about its window
// stays as it is.
func (r *Runtime) Limit(tokens int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = tokens
}

// Told is what a program is told of entries: what was said, done and noted. The server's
// notices and what a model thought are no part of it.
func Told(entries []transcript.Entry) []string {
	var out []string
	for _, e := range entries {
		switch kind := e.Item.Body.Kind(); kind {
		case transcript.KindNotice, transcript.KindReasoning, transcript.KindContextCompaction, transcript.KindPlan:
		default:
			out = append(out, told(e.Item.Body))
		}
	}
	return out
}

func told(b transcript.Body) string {
	return string(b.Kind()) + ": " + strings.TrimSpace(transcript.Text(b))
}

// Models implements adapters.Adapter.
func (r *Runtime) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{
		{ID: "fake", DisplayName: "Fake", ContextWindow: r.opts.Window},
		{ID: "fake-other", DisplayName: "Fake, another", ContextWindow: r.opts.Window},
	}, nil
}

// Probe implements adapters.Runtime.
func (r *Runtime) Probe(context.Context) adapters.Probe {
	r.mu.Lock()
	defer r.mu.Unlock()
	return adapters.Probe{Program: "fake", Login: "ok", Compaction: r.script.ability()}
}

// Open implements adapters.Adapter.
func (r *Runtime) Open(_ context.Context, p adapters.OpenParams) (adapters.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = append(r.opened, p)
	id := p.NativeID
	switch history, err := r.load(id); {
	case err != nil:
		return nil, err
	case id == "":
		if id, err = r.begin(p); err != nil {
			return nil, err
		}
	case len(p.Seed) > 0:
		return nil, errors.New("fake: a session that is resumed is given a history")
	case history == nil:
		return nil, fault.Wrap(fault.Unavailable, adapters.ErrNoSession, "there is no session %s", id)
	case r.busy[id]:
		return nil, fault.Wrap(fault.Unavailable, adapters.ErrInUse, "session %s is open already", id)
	}
	r.busy[id] = true
	s := &session{script: r.script, cwd: p.Cwd, tools: p.Tools, steered: make(chan struct{}, 1)}
	return &runtimeSession{session: s, r: r, id: id}, nil
}

// begin makes a session with the history that it is given, which must be one.
func (r *Runtime) begin(p adapters.OpenParams) (id string, err error) {
	if r.reject != nil {
		return "", r.reject
	}
	open := map[transcript.CallID]bool{}
	for i, e := range p.Seed {
		switch b := e.Item.Body.(type) {
		case transcript.Checkpoint:
			if i > 0 {
				return "", errors.New("fake: a checkpoint in the middle of a history")
			}
		case transcript.ToolCall:
			open[b.CallID] = true
		case transcript.ToolResult:
			if !open[b.CallID] {
				return "", fmt.Errorf("fake: result %s without its call", b.CallID)
			}
			delete(open, b.CallID)
		default:
		}
	}
	if len(open) > 0 {
		return "", fmt.Errorf("fake: %d calls without a result", len(open))
	}
	for n := 1; ; n++ { // also over processes
		if id = fmt.Sprintf("fake-%d", n); !r.known(id) {
			return id, r.store(id, append([]string{}, Told(p.Seed)...))
		}
	}
}

// known reports whether there is such a session, or was one.
func (r *Runtime) known(id string) bool {
	if r.opts.Dir == "" {
		_, ok := r.mind[id]
		return ok
	}
	_, err := os.Stat(r.file(id))
	return err == nil
}

func (r *Runtime) file(id string) string { return filepath.Join(r.opts.Dir, id+".json") }

// load returns a history; nil if there is none.
func (r *Runtime) load(id string) ([]string, error) {
	if r.opts.Dir == "" || id == "" {
		return slices.Clone(r.mind[id]), nil
	}
	data, err := os.ReadFile(r.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	history := []string{}
	if err == nil {
		err = json.Unmarshal(data, &history)
	}
	return history, err
}

// store replaces a history at once.
func (r *Runtime) store(id string, history []string) error {
	if r.opts.Dir == "" {
		r.mind[id] = history
		return nil
	}
	data, err := json.Marshal(history)
	if err != nil {
		return err
	}
	next := r.file(id) + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.file(id))
}

// runtimeSession is a session of a Runtime.
type runtimeSession struct {
	*session
	r     *Runtime
	id    string
	freed bool // it is not busy with this one any more; guarded by r.mu
}

// NativeID implements adapters.Session.
func (s *runtimeSession) NativeID() string { return s.id }

// Close implements adapters.Session.
func (s *runtimeSession) Close() error {
	err := s.session.Close()
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if !s.freed { // by now it may be another's
		s.freed = true
		delete(s.r.busy, s.id)
	}
	return err
}

// plays is the script of the runtime now.
func (s *runtimeSession) plays() *Script {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.r.script
}

// Compaction implements adapters.Session.
func (s *runtimeSession) Compaction() adapters.Ability { return s.plays().ability() }

// Compact implements adapters.Session.
func (s *runtimeSession) Compact(ctx context.Context, in adapters.CompactInput, h adapters.Host) (adapters.NativeResult, error) {
	ctx, over, err := s.begin(ctx)
	if err != nil {
		return adapters.NativeResult{}, err
	}
	defer over()
	script := s.plays()
	replaces := slices.Contains([]string{"ok", "lossy"}, script.compact.how)
	if replaces {
		s.r.mu.Lock()
		s.r.shrunk[s.id]++
		err := s.r.store(s.id, []string{NativeNotes})
		s.r.mu.Unlock()
		if err != nil {
			return adapters.NativeResult{}, err
		}
	}
	return script.compacts(ctx)
}

// remember adds to the history.
func (s *runtimeSession) remember(texts ...string) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	history, err := s.r.load(s.id)
	if err != nil {
		return err
	}
	return s.r.store(s.id, append(history, texts...))
}

// size is what the next request weighs, in tokens.
func (s *runtimeSession) size() (int, error) {
	history, err := s.r.History(s.id)
	return s.r.opts.Base + transcript.EstimateText(strings.Join(history, "\n")), err
}

// Run implements adapters.Session. The input is a part of the history whatever comes of
// the turn (codex 0.171, observed).
func (s *runtimeSession) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	ctx, over, err := s.begin(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	defer over()
	if err := s.remember(told(transcript.UserMessage{Content: in.Input})); err != nil {
		return adapters.End{}, err
	}
	s.r.mu.Lock()
	s.r.inputs = append(s.r.inputs, in)
	if in.Notes != "" {
		s.r.noted[s.id] = append(s.r.noted[s.id], in.Notes)
	}
	limit := s.r.limit
	s.r.mu.Unlock()
	n, err := s.size()
	switch {
	case err != nil:
		return adapters.End{}, err
	case n > limit:
		return adapters.End{}, overflow(n, limit)
	}
	steps, ok := s.plays().stepsFor(transcript.PartsText(in.Input))
	if !ok {
		return adapters.End{}, fault.New(fault.Invalid, "the script has no turn for this input")
	}
	p := &play{session: s.session, ctx: ctx, host: host, turn: in.Turn, remember: s.remember}
	for n, st := range steps {
		if err := p.step(n, st); err != nil {
			return adapters.End{}, errors.Join(err, context.Cause(ctx))
		}
	}
	if s.r.opts.Base > 0 {
		n, err := s.size()
		if err != nil {
			return adapters.End{}, err
		}
		p.last = append(p.last, adapters.UsageReported{Usage: adapters.Usage{InputTokens: n}, Window: s.r.opts.Window})
	}
	return adapters.End{Updates: p.last, Stop: adapters.StopEnd}, nil
}

func overflow(tokens, window int) error {
	return &adapters.Error{
		Class: adapters.ClassOverflow, Message: "prompt is too long", Requested: tokens, Limit: window,
	}
}
