package claude

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
)

// run is one turn. Its goroutine is the one of Run; only questions and hooks have
// goroutines of their own, which end before it does.
type run struct {
	s    *session
	p    *peer
	in   adapters.TurnInput
	host adapters.Host
	ctx  context.Context // ends with the turn
	line *timeline.Timeline

	current string // id of the newest message of the main loop
	model   string // that it is of
	blocks  int    // of it, that are complete
	begun   usage  // what it was begun with
	usage   *adapters.UsageReported
	result  *frame // the newest one
	cause   string // the word of its message that tells of a failure
	closed  int    // permissions that it could not ask for, one after the other
	tracked bool   // it tells the lifecycle of messages

	own *compacting // a compaction of Claude Code's own, in this turn

	asking  sync.WaitGroup
	failing chan error // why the host ends the turn; has room for one
	mu      sync.Mutex // guards what follows
	asked   map[string]context.CancelFunc
	denied  map[string]bool // calls that were not allowed

	anchored bool // the model was told how things stand, after a compaction of its own
}

// Run implements adapters.Session.
func (s *session) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	if err := ctx.Err(); err != nil {
		return adapters.End{}, err
	}
	p, err := s.ensure(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	inner, cancel := context.WithCancel(ctx)
	r := &run{
		s: s, p: p, in: in, host: host, ctx: inner, line: timeline.New(inner, host, in.Turn),
		failing: make(chan error, 1), asked: map[string]context.CancelFunc{}, denied: map[string]bool{},
	}
	r.line.Hide(child.Secrets(s.o.Env))
	ear := p.desk.Listen()
	defer s.over()
	defer p.desk.Leave(ear)
	defer r.asking.Wait()
	defer cancel()
	if err := r.begin(ctx, ear); err != nil {
		return adapters.End{}, err
	}
	err = r.follow(ctx, ear)
	if cut := r.ownCut(); err == nil {
		err = cut
	}
	if err == nil {
		err = r.failed(ctx)
	}
	if err != nil {
		if kept := r.line.Keep(s.o.StopTimeout); kept != nil {
			s.o.Logger.Info("claude: what a turn ended with is lost", "provider", s.o.Name, "err", kept)
		}
		return adapters.End{}, err
	}
	return adapters.End{Updates: r.line.End(), Stop: stopOf(r.result.Stop)}, nil
}

// begin sends what the turn begins with: its permission mode if that changed, the
// server's own text, and the input.
func (r *run) begin(ctx context.Context, ear *child.Ear[frame]) error {
	content, err := r.s.content(r.in.Input)
	if err != nil {
		return err
	}
	if err := r.permit(ctx); err != nil {
		return err
	}
	if r.in.Notes != "" {
		if err := r.s.note(ctx, r.p, ear, r.in.Notes); err != nil {
			return err
		}
	}
	id := uuid.NewString()
	r.s.begin(id, true)
	return r.p.send(ctx, userFrame(id, content, false))
}

// permit sets the permission mode that stands for the thread's settings.
func (r *run) permit(ctx context.Context) error {
	mode := "default"
	if r.in.Sandbox == "workspace-write" && r.in.Approval != "untrusted" {
		mode = "acceptEdits"
	}
	r.s.mu.Lock()
	was := r.s.mode
	r.s.mu.Unlock()
	if mode == was {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.o.OpenTimeout)
	defer cancel()
	if err := r.p.control(ctx, "set_permission_mode", map[string]any{"mode": mode}, nil); err != nil {
		return r.s.a.late(ctx, "change its permission mode", err)
	}
	r.s.mu.Lock()
	r.s.mode = mode
	r.s.mu.Unlock()
	return nil
}

// follow handles what Claude Code says until everything that was sent is done.
func (r *run) follow(ctx context.Context, ear *child.Ear[frame]) error {
	stop, failing := ctx.Done(), r.failing
	var gaveUp <-chan time.Time
	var why error
	leave := func(err error) {
		why, stop, failing = err, nil, nil
		gaveUp = r.s.patience()
		r.s.interrupt(r.p)
	}
	for {
		select {
		case f := <-ear.C:
			over, err := r.take(&f)
			switch {
			case err != nil && why == nil:
				leave(err)
			case over:
				return why
			}
		case err := <-failing:
			leave(err)
		case <-stop:
			leave(context.Cause(ctx))
		case <-gaveUp:
			r.p.desk.Kill(ear)
			return errors.Join(why, r.p.ended())
		case <-r.p.desk.Done():
			if r.rest(ear) || why != nil {
				return why
			}
			return r.p.ended()
		}
	}
}

// rest takes what was said before the process ended, and reports whether the turn was
// over by then.
func (r *run) rest(ear *child.Ear[frame]) bool {
	for {
		select {
		case f := <-ear.C:
			if over, err := r.take(&f); over || err != nil {
				return over
			}
		default:
			return false
		}
	}
}

// take handles one frame, and reports whether the turn is over.
func (r *run) take(f *frame) (over bool, err error) {
	switch f.Type {
	case "stream_event":
		return false, r.stream(f)
	case "assistant":
		return false, r.assistant(f)
	case "user":
		return false, r.user(f)
	case "system":
		return false, r.system(f)
	case "control_request":
		r.request(f)
	case "control_cancel_request":
		r.unask(f.RequestID)
	case "result":
		r.ended(f)
		return !r.tracked, nil // an older version tells nothing more
	case "command_lifecycle":
		r.tracked = true
		if f.State == "completed" || f.State == "cancelled" {
			return r.s.done(f.Command), nil
		}
	}
	return false, nil
}

// ended takes a result. A turn that was steered has one for each message that Claude
// Code did not fold into another.
func (r *run) ended(f *frame) {
	r.result = f
	r.s.learned()
	if r.model == "" {
		r.model = anyModel(f.ModelUsage)
	}
	window := f.ModelUsage[r.model].Window
	r.s.mu.Lock()
	if window > 0 {
		r.s.window = window
	}
	window = r.s.window
	r.s.spent = total(f.ModelUsage)
	r.s.mu.Unlock()
	if r.usage != nil {
		r.usage.Window = window
	}
	r.report()
}

// report holds the usage of the newest request, once there is another one or the turn
// ends.
func (r *run) report() {
	if r.usage != nil {
		r.line.Hold(*r.usage)
		r.usage = nil
	}
}

func anyModel(m map[string]modelUsage) string {
	best := ""
	for name, u := range m {
		if best == "" || u.Output > m[best].Output {
			best = name
		}
	}
	return best
}

// total is what all requests of the process used so far, compactions among them.
func total(m map[string]modelUsage) (u adapters.Usage) {
	for _, v := range m {
		u.InputTokens += v.Input + v.CacheRead + v.CacheWrite
		u.CachedInputTokens += v.CacheRead
		u.CacheWriteInputTokens += v.CacheWrite
		u.OutputTokens += v.Output
	}
	return u
}

// failed is why the turn failed; nil if it went well.
func (r *run) failed(ctx context.Context) error {
	switch f := r.result; {
	case f == nil:
		return unavailable(r.s.o.Name, "Claude Code ended the turn without a result")
	case f.Terminal == "aborted_streaming" || f.Terminal == "aborted_tools":
		return interrupted(ctx)
	case f.IsError:
		return f.failure(r.cause)
	}
	return nil
}

// stopOf is why the model stopped, in our words.
func stopOf(reason string) adapters.StopReason {
	switch reason {
	case "max_tokens":
		return adapters.StopLength
	case "model_context_window_exceeded":
		return adapters.StopWindow
	case "refusal":
		return adapters.StopFilter
	}
	return adapters.StopEnd
}

// system handles what is told about the process itself.
func (r *run) system(f *frame) error {
	switch f.Subtype {
	case "api_retry":
		return r.line.Emit(adapters.Retrying{Message: fmt.Sprintf("Claude Code asks again (%d of %d): %s", f.Attempt, f.MaxRetries, stringIn(f.Error))})
	case "status", "compact_boundary":
		return r.ownCompaction(f)
	}
	return nil
}
