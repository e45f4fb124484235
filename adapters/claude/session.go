package claude

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/lease"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/retell"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// session is one conversation of Claude Code and the process that runs it.
type session struct {
	a      *adapter
	o      Options
	params adapters.OpenParams
	id     string // of the conversation; it never changes

	opening chan struct{} // held by who starts a process
	calls   timeline.CallIDs

	mu      sync.Mutex // guards what follows
	peer    *peer      // nil before the first one
	known   bool       // the conversation exists: it is resumed, not begun
	held    *lease.Lease
	mode    string          // its permission mode
	pending map[string]bool // our messages that are not done; nil if nothing runs
	steers  bool            // what runs takes input
	spent   adapters.Usage  // by all requests so far, as results tell
	context int             // tokens of the newest request and its answer
	window  int
	closed  bool
}

var (
	_ adapters.Session   = (*session)(nil)
	_ adapters.Recoverer = (*session)(nil)
)

// NativeID implements adapters.Session.
func (s *session) NativeID() string { return s.id }

// Base implements adapters.Session: what Claude Code adds to its requests is not known.
func (s *session) Base() adapters.Base { return adapters.Base{} }

// startOptions say which conversation a process is for; none: it only says hello.
type startOptions struct {
	id, dir, model string
	resume         bool
	tools          []adapters.ToolSpec // of clients
}

// Ids of our hooks.
const (
	hookCompact = "plimsoll-pre-compact"
	hookStart   = "plimsoll-session-start"
)

// hookTimeout is how long Claude Code waits for our hooks, in seconds: longer than all
// hooks of the user may take.
const hookTimeout = 150

// hooks are those that we ask to be told of. A compaction whose hook fails does not
// happen.
func hooks() map[string]any {
	return map[string]any{
		"PreCompact":   []any{map[string]any{"hookCallbackIds": []string{hookCompact}, "timeout": hookTimeout, "onFailure": "block"}},
		"SessionStart": []any{map[string]any{"hookCallbackIds": []string{hookStart}, "timeout": hookTimeout}},
	}
}

// start starts a process and waits for its hello.
func (a *adapter) start(ctx context.Context, o startOptions) (*peer, error) {
	args := []string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
		"--permission-prompt-tool", "stdio",
	}
	switch {
	case o.resume:
		args = append(args, "--resume", o.id)
	case o.id != "":
		args = append(args, "--session-id", o.id)
	default:
		args = append(args, "--no-session-persistence")
	}
	if o.model != "" && o.model != "default" {
		args = append(args, "--model", o.model)
	}
	if err := a.homeProblem(); err != nil {
		return nil, err
	}
	conn, err := a.dial(ctx, o.dir, append(args, a.o.Args...))
	if err != nil {
		return nil, a.o.startProblem(err)
	}
	p := newPeer(conn, a.o.Name, a.o.Logger, o.tools)
	first := map[string]any{"hooks": hooks()}
	if len(o.tools) > 0 {
		first["sdkMcpServers"] = []string{toolServer}
	}
	if err := p.control(ctx, "initialize", first, &p.hello); err != nil {
		p.close()
		return nil, a.late(ctx, "start", p.unresumed(err))
	}
	return p, nil
}

// unresumed makes an end of the process that was told by a result, as that of a
// conversation which is not there, an error that says so.
func (p *peer) unresumed(err error) error {
	p.mu.Lock()
	said := p.fatal
	p.mu.Unlock()
	switch {
	case strings.Contains(said, "No conversation found"):
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrNoSession, err), "%s: Claude Code does not know its conversation any more: %s", p.name, said)
	case said != "":
		return fault.Wrap(fault.Unavailable, err, "%s: Claude Code says: %s", p.name, said)
	}
	return err
}

func (a *adapter) dial(ctx context.Context, dir string, args []string) (child.Conn, error) {
	if a.o.dial != nil {
		return a.o.dial(ctx, args)
	}
	if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
		return nil, fault.New(fault.Unavailable, "%s: the working folder %s is not there; Claude Code would work in another one", a.o.Name, dir)
	}
	return child.Start(child.Spec{Argv: append([]string{a.o.Program}, args...), Dir: dir, Env: a.o.Env})
}

// late says of a wait that ran out what was waited for.
func (a *adapter) late(ctx context.Context, what string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Unavailable, err, "%s: Claude Code did not %s within %v", a.o.Name, what, a.o.OpenTimeout)
	}
	return err
}

// lease takes the conversation's lease.
func (s *session) lease() error {
	l, err := lease.Take(s.o.LeaseDir, "claude "+s.id, fmt.Sprintf("a server with process id %d", os.Getpid()))
	if held, ok := errors.AsType[*lease.HeldError](err); ok {
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrInUse, err),
			"%s: %s this conversation of Claude Code open already; close it there, or fork this thread", s.o.Name, strings.TrimSuffix(held.Error(), " it"))
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s: the lease of the conversation cannot be taken: %v", s.o.Name, err)
	}
	s.held = l
	return nil
}

// ensure returns the process, after it has started one if there was none or if it has
// ended.
func (s *session) ensure(ctx context.Context) (*peer, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	p, closed, known := s.peer, s.closed, s.known
	s.mu.Unlock()
	if closed {
		return nil, fault.New(fault.Unavailable, "%s: the session is closed", s.o.Name)
	}
	if p != nil {
		if p.ended() == nil && !p.conn.Ending() {
			return p, nil
		}
		p.close()
		known = known || s.transcript() != "" // it died before it told a result: the id is in use
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.OpenTimeout)
	defer cancel()
	p, err := s.a.start(ctx, startOptions{id: s.id, dir: s.params.Cwd, model: s.params.Model, resume: known, tools: s.params.Tools})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go p.close()
		return nil, fault.New(fault.Unavailable, "%s: the session is closed", s.o.Name)
	}
	s.peer, s.mode, s.pending, s.spent = p, p.hello.Mode, nil, adapters.Usage{}
	return p, nil
}

// userFrame is a message. Composed by a client it is text whatever it begins with;
// silent, it is only added to the conversation (2.1.332, observed).
func userFrame(id string, content any, silent bool) map[string]any {
	f := map[string]any{
		"type": "user", "uuid": id, "parent_tool_use_id": nil, "client_composed": true,
		"message": map[string]any{"role": "user", "content": content},
	}
	if silent {
		f["shouldQuery"] = false
	}
	return f
}

// seed adds a history to the conversation that it did not make.
func (s *session) seed(ctx context.Context, entries []transcript.Entry) error {
	text := retell.Text(entries)
	if text == "" {
		return nil
	}
	s.mu.Lock()
	p := s.peer
	s.mu.Unlock()
	ear := p.desk.Listen()
	defer p.desk.Leave(ear)
	return s.a.late(ctx, "take the history", s.tell(ctx, p, ear, text))
}

// tell adds a text to the conversation that is not the user's, and waits until it is
// taken.
func (s *session) tell(ctx context.Context, p *peer, ear *child.Ear[frame], text string) error {
	id := uuid.NewString()
	if err := p.send(ctx, userFrame(id, text, true)); err != nil {
		return err
	}
	tracked, taken := false, false
	for {
		select {
		case f := <-ear.C:
			switch {
			case f.Type == "result" && (len(f.Messages) == 0 || slices.Contains(f.Messages, id)):
				if f.IsError {
					return f.failure("")
				}
				s.learned()
				if taken = true; !tracked { // an older version tells nothing more
					return nil
				}
			case f.Type == "command_lifecycle" && f.Command == id && f.State == "completed" && taken:
				return nil
			case f.Type == "command_lifecycle" && f.Command == id && f.State == "cancelled":
				return unavailable(s.o.Name, "Claude Code did not take a text of the server")
			case f.Type == "command_lifecycle":
				tracked = true
			default:
				p.idle(f)
			}
		case <-p.desk.Done():
			return p.ended()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// note tells a text within a time. If it is not taken by then, nobody can say whether it
// will be: the process is ended.
func (s *session) note(ctx context.Context, p *peer, ear *child.Ear[frame], text string) error {
	within, cancel := context.WithTimeout(ctx, s.o.OpenTimeout)
	defer cancel()
	err := s.tell(within, p, ear, text)
	if within.Err() != nil && err != nil {
		p.conn.Kill()
	}
	if ctx.Err() == nil {
		err = s.a.late(within, "take a text of the server", err)
	}
	return err
}

// learned notes that the conversation exists: its file does, from the first message on.
func (s *session) learned() {
	s.mu.Lock()
	s.known = true
	s.mu.Unlock()
}

// content is an input as Claude Code takes it: a text, or blocks with images.
func (s *session) content(parts []transcript.Part) (any, error) {
	if !slices.ContainsFunc(parts, func(p transcript.Part) bool { return p.Type == transcript.PartImage }) {
		return transcript.PartsText(parts), nil
	}
	out := []any{}
	for _, part := range parts {
		switch {
		case part.Type == transcript.PartText:
			out = append(out, map[string]any{"type": "text", "text": part.Text})
		case s.params.Blob == nil:
			out = append(out, map[string]any{"type": "text", "text": "[an image that cannot be shown]"})
		default:
			b, err := s.params.Blob(part.Blob)
			if err != nil {
				return nil, fmt.Errorf("claude: read an image of the input: %w", err)
			}
			out = append(out, map[string]any{"type": "image", "source": map[string]any{
				"type": "base64", "media_type": part.MediaType, "data": base64.StdEncoding.EncodeToString(b),
			}})
		}
	}
	return out, nil
}

// Steer implements adapters.Session. Claude Code reads it at its next step; the turn
// ends when it has answered it.
func (s *session) Steer(ctx context.Context, input []transcript.Part) error {
	content, err := s.content(input)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	s.mu.Lock()
	p := s.peer
	if s.pending == nil || !s.steers {
		s.mu.Unlock()
		return adapters.ErrNotSteerable
	}
	s.pending[id] = true
	s.mu.Unlock()
	f := userFrame(id, content, false)
	f["priority"] = "next"
	if err := p.send(ctx, f); err != nil {
		s.done(id)
		return err
	}
	return nil
}

// done notes that one of our messages is done, and reports whether all are.
func (s *session) done(id string) (all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
	if len(s.pending) > 0 {
		return false
	}
	s.pending, s.steers = nil, false // from here on nothing steers what is over
	return true
}

// Interrupt implements adapters.Session. What waits in Claude Code's own queue goes
// with it.
func (s *session) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	p, runs := s.peer, s.pending != nil
	s.mu.Unlock()
	if p == nil || !runs {
		return nil
	}
	err := p.control(ctx, "interrupt", map[string]any{"cancel_queued": true}, nil)
	if p.ended() == nil { // else nothing runs any more
		return err
	}
	return nil
}

// interrupt asks Claude Code to end what runs. What follows shows whether it did.
func (s *session) interrupt(p *peer) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.StopTimeout)
	defer cancel()
	id := fmt.Sprintf("plimsoll-%d", p.last.Add(1)) // its answer is nobody's
	err := p.send(ctx, map[string]any{"type": "control_request", "request_id": id, "request": map[string]any{"subtype": "interrupt", "cancel_queued": true}})
	if err != nil {
		s.o.Logger.Info("interrupt Claude Code", "provider", s.o.Name, "err", err)
	}
}

// begin notes the message that a turn or a compaction is about.
func (s *session) begin(id string, steers bool) {
	s.mu.Lock()
	s.pending, s.steers = map[string]bool{id: true}, steers
	s.mu.Unlock()
}

func (s *session) over() {
	s.mu.Lock()
	s.pending, s.steers = nil, false
	s.mu.Unlock()
}

// Close implements adapters.Session. A turn that runs would go on until its end
// although the input is closed (2.1.332, observed).
func (s *session) Close() error {
	s.mu.Lock()
	p, held, runs := s.peer, s.held, s.pending != nil
	s.closed, s.held = true, nil
	s.mu.Unlock()
	if p != nil {
		if runs {
			p.conn.Kill()
		}
		p.close()
	}
	if held == nil {
		return nil
	}
	return held.Release()
}

// patience is how long what was interrupted has to end.
func (s *session) patience() <-chan time.Time { return time.After(s.o.StopTimeout) }
