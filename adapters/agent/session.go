package agent

import (
	"context"
	"slices"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// session is one thread's use of a model. The goroutine of Run does all the
// work; what other goroutines may touch is in life.
type session struct {
	model adapters.Model
	name  string
	tools []adapters.ToolSpec // that clients run, beside the model's own
	blob  func(hash string) ([]byte, error)
	// callIDs holds the ids of every call seen, also those that a compaction took
	// out of the context: an undo can bring them back. Owned by Run.
	callIDs map[transcript.CallID]bool
	sizes   map[string]int // bytes of images in a request, by hash. Owned by Run.
	refused int            // bytes of the smallest request that was refused as too many. Owned by Run.

	over context.Context // done when the session is closed
	end  context.CancelFunc
	// aside are the completions beside the turn. None begins once closed is set.
	aside sync.WaitGroup

	mu sync.Mutex // guards life; never held during a call to Host or Model
	life
}

var (
	_ adapters.Summarizer = (*session)(nil)
	_ adapters.Counter    = (*session)(nil)
)

// life is what Steer, Interrupt and Close share with Run.
type life struct {
	closed  bool
	running bool // Run takes steers; false from the moment it decided to end
	steered bool // a steer was accepted since the last Host.Context began
	cancel  context.CancelFunc
	done    chan struct{} // closed when Run has returned; nil before the first Run
}

func newSession(m adapters.Model, name string, p adapters.OpenParams) *session {
	s := &session{model: m, name: name, tools: p.Tools, blob: p.Blob, callIDs: map[transcript.CallID]bool{}, sizes: map[string]int{}}
	s.over, s.end = context.WithCancel(context.Background())
	return s
}

// NativeID implements adapters.Session: endpoints have no sessions.
func (s *session) NativeID() string { return "" }

// Base implements adapters.Session.
func (s *session) Base() adapters.Base {
	b := s.model.Base()
	b.Tools = append(slices.Clip(b.Tools), s.tools...)
	return b
}

// ask is the next request. What the server adds to the base is there anew each time,
// so that no compaction touches it.
func (s *session) ask(c adapters.Context, effort string) adapters.Request {
	base := s.Base()
	if c.Preamble != "" && base.System != "" {
		base.System += "\n\n"
	}
	base.System += c.Preamble
	return adapters.Request{
		Model: s.name, Base: base, Entries: slices.DeleteFunc(slices.Clone(c.Entries), stubbed), Effort: effort, Blob: s.blob,
	}
}

// stubbed reports whether an entry says only that the model once thought. It is sent
// to nobody: no wire takes reasoning that is not whole.
func stubbed(e transcript.Entry) bool {
	return e.Form == transcript.FormStub && e.Item.Body.Kind() == transcript.KindReasoning
}

// Run implements adapters.Session.
func (s *session) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	ctx, finish, err := s.begin(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	defer finish()
	return (&turn{session: s, id: in.Turn, effort: in.Effort, host: host, warned: map[string]bool{}}).run(ctx, in.Continue)
}

// begin opens the session for steers. finish undoes it and releases the context.
func (s *session) begin(ctx context.Context) (_ context.Context, finish func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fault.New(fault.Unavailable, "the session is closed")
	}
	if s.cancel != nil {
		return nil, nil, fault.New(fault.Internal, "the session already runs a turn")
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s.life = life{running: true, cancel: cancel, done: done}
	return ctx, func() {
		cancel()
		s.mu.Lock()
		s.running, s.cancel = false, nil
		s.mu.Unlock()
		close(done)
	}, nil
}

// forgetSteers is called before Host.Context: what was steered until now will be
// in it.
func (s *session) forgetSteers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steered = false
}

// tryEnd ends the turn for steers, unless one was accepted: then the turn must go
// on. Deciding both under one lock is what keeps a steer from being lost between
// the last answer and the end.
func (s *session) tryEnd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steered {
		s.steered = false
		return false
	}
	s.running = false
	return true
}

// Steer implements adapters.Session. The input itself comes with Host.Context.
func (s *session) Steer(context.Context, []transcript.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || s.closed {
		return adapters.ErrNotSteerable
	}
	s.steered = true
	return nil
}

// Interrupt implements adapters.Session. Without a running turn it does nothing.
func (s *session) Interrupt(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	return nil
}

// Compaction implements adapters.Session.
func (s *session) Compaction() adapters.Ability { return s.model.Compaction() }

// Compact implements adapters.Session. No Model compacts by itself yet, so it
// refuses in the model's own words.
func (s *session) Compact(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
	if r := s.model.Compaction().Refusal; r != nil {
		return adapters.NativeResult{}, fault.New(fault.Refused, "%s; %s", r.Reason, r.Remedy)
	}
	return adapters.NativeResult{}, fault.New(fault.Refused, "the model has no native compaction; %s", adapters.UseLocal)
}

// Close implements adapters.Session. It may be called more than once.
func (s *session) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.cancel != nil {
		s.cancel()
	}
	done := s.done
	s.mu.Unlock()
	s.end()
	s.aside.Wait()
	if done != nil {
		<-done
	}
	return nil
}
