package codex

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/lease"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/retell"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// session is one thread of codex and the process that runs it.
type session struct {
	a      *adapter
	o      Options
	params adapters.OpenParams

	opening chan struct{} // held by who starts a process
	calls   timeline.CallIDs

	mu      sync.Mutex // guards what follows
	peer    *peer      // nil before the first one
	id      string     // codex's, of the thread
	path    string     // of the thread's file
	version string
	held    *lease.Lease
	turn    string // in progress at codex; empty if none is
	steers  bool   // the turn takes input
	stop    bool   // it is to be interrupted as soon as its id is known
	total   adapters.Usage
	context int // tokens, as codex reported last
	window  int
	closed  bool
	warned  map[string]bool // texts that were told
}

var (
	_ adapters.Session   = (*session)(nil)
	_ adapters.Recoverer = (*session)(nil)
)

// NativeID implements adapters.Session.
func (s *session) NativeID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Base implements adapters.Session: what codex adds to its requests is not known.
func (s *session) Base() adapters.Base { return adapters.Base{} }

// quiet are notifications that say nothing to this adapter (codex 0.171, observed).
var quiet = []string{
	"thread/started", "account/rateLimits/updated", "thread/readState/changed", "remoteControl/status/changed", "configWarning",
	"turn/diff/updated", "item/commandExecution/outputDelta", "item/fileChange/outputDelta", "thread/settings/updated",
	"mcpServer/startupStatus/updated", "skills/changed", "app/list/updated",
}

// start starts a process and introduces this server.
func (a *adapter) start(ctx context.Context, dir string, idle func(frame)) (*peer, error) {
	if err := a.homeProblem(); err != nil {
		return nil, err
	}
	conn, err := a.dial(ctx, dir)
	if err != nil {
		return nil, a.o.startProblem(err)
	}
	if idle == nil {
		idle = func(frame) {}
	}
	p := newPeer(conn, a.o.Name, a.o.Logger, idle)
	hello := map[string]any{
		"clientInfo":   map[string]any{"name": "plimsoll", "title": "Plimsoll", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true, "optOutNotificationMethods": quiet},
	}
	var res struct {
		UserAgent string `json:"userAgent"`
	}
	err = p.call(ctx, "initialize", hello, &res)
	if err == nil {
		err = p.notify(ctx, "initialized")
	}
	if err != nil {
		p.close()
		return nil, a.late(ctx, "start", refused(a.o.Name, "initialize", err))
	}
	p.version = versionIn(res.UserAgent)
	return p, nil
}

func (a *adapter) dial(ctx context.Context, dir string) (child.Conn, error) {
	if a.o.dial != nil {
		return a.o.dial(ctx)
	}
	argv := append([]string{a.o.Program, "app-server"}, a.o.overrides()...)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = ""
	}
	return child.Start(child.Spec{Argv: argv, Dir: dir, Env: a.o.Env})
}

// late says of a wait that ran out what was waited for.
func (a *adapter) late(ctx context.Context, what string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Unavailable, err, "%s: codex did not %s within %v", a.o.Name, what, a.o.OpenTimeout)
	}
	return err
}

// versionIn reads the version in "name/0.171.0 (…)"; empty if there is none.
func versionIn(agent string) string {
	_, rest, _ := strings.Cut(agent, "/")
	v, _, _ := strings.Cut(rest, " ")
	return v
}

// lease takes the thread's lease.
func (s *session) lease() error {
	l, err := lease.Take(s.o.LeaseDir, "codex "+s.id, fmt.Sprintf("a server with process id %d", os.Getpid()))
	if held, ok := errors.AsType[*lease.HeldError](err); ok {
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrInUse, err),
			"%s: %s this codex thread open already; close it there, or fork this thread", s.o.Name, strings.TrimSuffix(held.Error(), " it"))
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s: the lease of the codex thread cannot be taken: %v", s.o.Name, err)
	}
	s.held = l
	return nil
}

// ensure returns the process, after it has started one and resumed the thread if there
// was none or if it has ended.
func (s *session) ensure(ctx context.Context) (*peer, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	p, closed := s.peer, s.closed
	s.mu.Unlock()
	if closed {
		return nil, fault.New(fault.Unavailable, "%s: the session is closed", s.o.Name)
	}
	if p != nil {
		if p.ended() == nil && !p.conn.Ending() {
			return p, nil
		}
		p.close() // its file is written by one process at a time
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.OpenTimeout)
	defer cancel()
	p, err := s.a.start(ctx, s.params.Cwd, s.idle)
	if err != nil {
		return nil, err
	}
	if err := s.attach(ctx, p); err != nil {
		p.close()
		return nil, s.a.late(ctx, "open its thread", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go p.close()
		return nil, fault.New(fault.Unavailable, "%s: the session is closed", s.o.Name)
	}
	s.peer, s.version, s.turn, s.stop = p, p.version, "", false
	return p, nil
}

// attach starts or resumes the thread.
func (s *session) attach(ctx context.Context, p *peer) error {
	method, params := "thread/start", map[string]any{}
	id := s.NativeID()
	if id != "" {
		method, params["threadId"], params["excludeTurns"] = "thread/resume", id, true
	} else if tools := s.dynamicTools(); len(tools) > 0 {
		params["dynamicTools"] = tools
	}
	if s.params.Cwd != "" {
		params["cwd"] = s.params.Cwd
	}
	if s.params.Model != "" {
		params["model"] = s.params.Model
	}
	if s.params.Approval != "" {
		params["approvalPolicy"] = s.params.Approval
	}
	if s.params.Sandbox != "" {
		params["sandbox"] = s.params.Sandbox
	}
	var res struct {
		Thread struct {
			ID   string `json:"id"`
			Path string `json:"path"`
		} `json:"thread"`
	}
	if err := p.call(ctx, method, params, &res); err != nil {
		return refused(s.o.Name, method, err)
	}
	if res.Thread.ID == "" || id != "" && res.Thread.ID != id {
		return unavailable(s.o.Name, "codex answers %s with thread %q", method, res.Thread.ID)
	}
	s.mu.Lock()
	s.id, s.path = res.Thread.ID, res.Thread.Path
	s.mu.Unlock()
	if id == "" {
		return s.lease()
	}
	return nil
}

// dynamicTools are the tools of clients as codex declares them.
func (s *session) dynamicTools() []any {
	var out []any
	for _, t := range s.params.Tools {
		out = append(out, map[string]any{"type": "function", "name": t.Name, "description": t.Description, "inputSchema": t.Schema})
	}
	return out
}

// seed puts a history into the thread that it did not make.
func (s *session) seed(ctx context.Context, entries []transcript.Entry) error {
	text := retell.Text(entries)
	if text == "" {
		return nil
	}
	s.mu.Lock()
	p, id := s.peer, s.id
	s.mu.Unlock()
	items := []any{map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}}}
	err := p.call(ctx, "thread/inject_items", map[string]any{"threadId": id, "items": items}, nil)
	return s.a.late(ctx, "take the history", refused(s.o.Name, "thread/inject_items", err))
}

// idle takes what codex says while nothing runs: how much it has used, which it also
// tells after a resume.
func (s *session) idle(f frame) {
	if f.Method != "thread/tokenUsage/updated" {
		return
	}
	var n notice
	if json.Unmarshal(f.Params, &n) == nil && n.Usage != nil && !s.foreign(&n) {
		s.measured(n.Usage)
	}
}

// foreign reports whether a notice is about another thread: a process has those of its
// thread's helpers as well.
func (s *session) foreign(n *notice) bool { return n.ThreadID != "" && n.ThreadID != s.NativeID() }

// measured notes codex's figures, and returns what was used since the last ones. An
// estimate of a context after a compaction has no input (codex 0.171, observed).
func (s *session) measured(u *tokenUsage) (spent adapters.Usage, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := u.Total.usage()
	spent, news = minus(now, s.total), now != s.total
	s.total = now
	if u.Last.Total > 0 {
		s.context = u.Last.Total
	}
	if u.Window > 0 {
		s.window = u.Window
	}
	return spent, news
}

func minus(a, b adapters.Usage) adapters.Usage {
	return adapters.Usage{
		InputTokens: a.InputTokens - b.InputTokens, CachedInputTokens: a.CachedInputTokens - b.CachedInputTokens,
		CacheWriteInputTokens: a.CacheWriteInputTokens - b.CacheWriteInputTokens,
		OutputTokens:          a.OutputTokens - b.OutputTokens, ReasoningOutputTokens: a.ReasoningOutputTokens - b.ReasoningOutputTokens,
	}
}

// Steer implements adapters.Session.
func (s *session) Steer(ctx context.Context, input []transcript.Part) error {
	s.mu.Lock()
	p, id, turn, steers := s.peer, s.id, s.turn, s.steers
	s.mu.Unlock()
	if turn == "" || !steers {
		return adapters.ErrNotSteerable
	}
	parts, err := s.userInput(input)
	if err != nil {
		return err
	}
	err = p.call(ctx, "turn/steer", map[string]any{"threadId": id, "input": parts, "expectedTurnId": turn}, nil)
	if _, no := errors.AsType[*rpcError](err); no {
		return fmt.Errorf("%w: %w", adapters.ErrNotSteerable, err)
	}
	return err
}

// userInput is an input as codex takes it. Images go as data.
func (s *session) userInput(parts []transcript.Part) ([]any, error) {
	out := []any{}
	for _, part := range parts {
		switch {
		case part.Type == transcript.PartText:
			out = append(out, map[string]any{"type": "text", "text": part.Text, "text_elements": []any{}})
		case s.params.Blob == nil:
			out = append(out, map[string]any{"type": "text", "text": "[an image that cannot be shown]", "text_elements": []any{}})
		default:
			b, err := s.params.Blob(part.Blob)
			if err != nil {
				return nil, fmt.Errorf("codex: read an image of the input: %w", err)
			}
			out = append(out, map[string]any{"type": "image", "url": "data:" + part.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b)})
		}
	}
	return out, nil
}

// Interrupt implements adapters.Session.
func (s *session) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	p, id, turn := s.peer, s.id, s.turn
	if turn == "" {
		s.stop = true // if one is about to begin
	}
	s.mu.Unlock()
	if p == nil || turn == "" {
		return nil
	}
	err := p.call(ctx, "turn/interrupt", map[string]any{"threadId": id, "turnId": turn}, nil)
	if _, over := errors.AsType[*rpcError](err); !over && p.ended() == nil { // else there is no such turn any more
		return err
	}
	return nil
}

// began notes the turn that codex opened; an interrupt that came before is made up for.
func (s *session) began(p *peer, turn string, steers bool) {
	s.mu.Lock()
	s.turn, s.steers = turn, steers
	id, stop := s.id, s.stop
	s.stop = false
	s.mu.Unlock()
	if stop {
		s.interrupt(p, id, turn)
	}
}

// interrupt asks codex to end a turn. What follows shows whether it did.
func (s *session) interrupt(p *peer, id, turn string) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.StopTimeout)
	defer cancel()
	if _, err := p.begin(ctx, "turn/interrupt", map[string]any{"threadId": id, "turnId": turn}); err != nil {
		s.o.Logger.Info("interrupt codex", "provider", s.o.Name, "err", err)
	}
}

func (s *session) over() {
	s.mu.Lock()
	s.turn, s.steers, s.stop = "", false, false
	s.mu.Unlock()
}

// Close implements adapters.Session.
func (s *session) Close() error {
	s.mu.Lock()
	p, held, was := s.peer, s.held, s.closed
	s.closed, s.held = true, nil
	s.mu.Unlock()
	if p != nil {
		p.close()
	}
	if was || held == nil {
		return nil
	}
	return held.Release()
}

// patience is how long what was interrupted has to end.
func (s *session) patience() <-chan time.Time { return time.After(s.o.StopTimeout) }
