package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Config is what a Service runs with.
type Config struct {
	Journal   events.Journal // owned by the Service from Open on: Close closes it
	Providers []Provider     // the first one is the default; at least one
	Tools     map[string]Tool
	Logger    *slog.Logger  // nil: nothing is logged
	Checks    []string      // prefixes of commands that verify the work
	Cwd       string        // absolute; of threads that name none. Empty: the process's
	IdleAfter time.Duration // an idle thread is unloaded after this; 0 means 5 minutes
	StopAfter time.Duration // a session that does not stop when interrupted is abandoned after this; 0 means 10 s
	// RecoverWithin bounds how long a provider is asked what became of a compaction
	// whose end nobody saw; 0 means a minute.
	RecoverWithin time.Duration

	// CompactionRoute is that of compactions which name none. Empty: native if the
	// session can, else local.
	CompactionRoute compaction.Route
	// Policy says when threads compact by themselves.
	Policy compaction.Policy
	// Writer chooses who writes local checkpoints.
	Writer WriterConfig
	// Hooks runs the user's commands around compactions; nil: there are none.
	Hooks Hooks
	// Instructions returns the text of the instruction files that count in a folder,
	// empty if there are none. It is asked before every request, so it must be quick.
	// Nil: there are none.
	Instructions func(cwd string) (string, error)
}

// WriterConfig chooses who writes local checkpoints.
type WriterConfig struct {
	Writer   compaction.Writer // the first link; empty: model
	Provider string            // of the model that writes; empty: the thread's own
	Model    string            // empty: the provider's default, or the thread's own
	Timeout  time.Duration     // of one request; 0 means 120 s
	Total    time.Duration     // of all requests of one compaction; 0 means 300 s
}

// A HookEvent is what hooks are told about a compaction.
type HookEvent struct {
	Thread       transcript.ThreadID
	Turn         transcript.TurnID
	Cwd          string
	Model        string
	Instructions string            // of the user
	Record       compaction.Record // as it is now
}

// Hooks are commands of the user around a compaction.
type Hooks interface {
	// PreCompact asks whether the compaction may run. A denial is a fault.Denied; the
	// text is for the writer, warnings go into the record.
	PreCompact(ctx context.Context, e HookEvent) (instructions string, warnings []string, err error)
	// PostCompact tells of a compaction that completed. What fails is a warning.
	PostCompact(ctx context.Context, e HookEvent) (warnings []string)
}

// A Tool runs one call and returns its result. It must return when ctx is done.
// It may ask about its call, and then must ask before it does anything: a call
// whose question outlives a restart of the server is run again from the start.
type Tool func(ctx context.Context, call transcript.ToolCall, ask Asker) (transcript.ToolResult, error)

// An Asker asks the people behind the clients about a tool's own call: see
// adapters.Host. The question's Item is set by the server.
type Asker func(ctx context.Context, q adapters.Question) (adapters.Answer, error)

// Service hosts the threads of one journal. It is safe for concurrent use. All
// methods that change a thread return when the change is durable.
type Service struct {
	cfg     Config
	hub     *events.Hub
	log     *slog.Logger
	now     func() time.Time
	newID   func() string
	closing chan struct{} // closed by Close
	alive   context.Context
	retire  context.CancelFunc // ends alive with closing
	actors  sync.WaitGroup

	directory *directory // of the journal's threads

	mu      sync.Mutex         // guards what follows; never held while waiting
	catalog map[string]*models // by provider
	learned map[string]LearnedWindow
	models  map[string]bool // providers whose sessions ask for the context: stateless ones
	loaded  map[transcript.ThreadID]*slot
	closed  bool // no more work is taken
	shut    bool // Close was called
}

// A slot is a thread that is loaded or being loaded.
type slot struct {
	ready chan struct{} // closed when a and err are set
	a     *actor
	err   error
}

// Open starts the service on a journal, and goes on with what a killed process
// left: open turns and compactions are ended, queues are served.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	if len(cfg.Providers) == 0 {
		return nil, errors.Join(errors.New("threads: no provider is configured"), cfg.Journal.Close())
	}
	if cfg.Cwd == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("threads: find the working folder: %w", err), cfg.Journal.Close())
		}
		cfg.Cwd = wd
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = 5 * time.Minute
	}
	if cfg.StopAfter == 0 {
		cfg.StopAfter = 10 * time.Second
	}
	if cfg.RecoverWithin == 0 {
		cfg.RecoverWithin = recoverWithin
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, hub: events.NewHub(cfg.Journal, textOf), log: cfg.Logger,
		catalog: map[string]*models{}, learned: map[string]LearnedWindow{}, models: map[string]bool{},
		now: func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }, newID: newID,
		closing: make(chan struct{}), directory: newDirectory(), loaded: map[transcript.ThreadID]*slot{},
	}
	s.alive, s.retire = context.WithCancel(context.WithoutCancel(ctx))
	s.listModels(ctx)
	if err := s.recoverAll(ctx); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// newID returns a new id in time order: UUIDv7.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// listTimeout bounds the start: a provider that does not answer is known by
// name only, until it does. It has askTimeout for that: a program may look for its
// provider first, and take its time where there is no network.
const (
	listTimeout = 5 * time.Second
	askTimeout  = time.Minute
)

// listModels asks every provider for its models and waits for those that answer
// in time.
func (s *Service) listModels(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	answers := make(chan struct{}, len(s.cfg.Providers))
	s.mu.Lock()
	for _, p := range s.cfg.Providers {
		s.catalog[p.Name] = &models{asking: true}
	}
	s.mu.Unlock()
	for _, p := range s.cfg.Providers {
		s.actors.Go(func() {
			s.askModels(p)
			answers <- struct{}{}
		})
	}
	for range s.cfg.Providers {
		select {
		case <-answers:
		case <-ctx.Done():
			return
		}
	}
}

// models is what is known of a provider's models.
type models struct {
	list   []adapters.ModelInfo
	err    error // why list is empty
	asking bool
	asked  time.Time
}

// askAgain is how long a provider that failed to list its models is left alone.
const askAgain = 30 * time.Second

// askModels asks one provider.
func (s *Service) askModels(p Provider) {
	ctx, cancel := context.WithTimeout(s.alive, askTimeout)
	defer cancel()
	var list []adapters.ModelInfo
	err := guard(func() (err error) {
		list, err = p.Adapter.Models(ctx)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog[p.Name] = &models{list: list, err: err, asked: s.now()}
}

// modelsOf returns what is known of a provider's models. One that failed to list
// them is asked again in the background.
func (s *Service) modelsOf(provider string) []adapters.ModelInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.catalog[provider]
	if m == nil {
		return nil
	}
	p, ok := s.provider(provider)
	if ok && m.err != nil && !m.asking && !s.closed && s.now().Sub(m.asked) > askAgain {
		m.asking = true
		s.actors.Go(func() { s.askModels(p) })
	}
	return m.list
}

// recoverAll loads every thread that was at work or has a queue. A thread that
// cannot be loaded stays listed and stops nothing.
func (s *Service) recoverAll(ctx context.Context) error {
	for q := (events.ListQuery{Limit: 500}); ; {
		infos, err := s.cfg.Journal.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, info := range infos {
			t, err := listed(info)
			if err == nil && t.Status != StatusActive && t.Queued == 0 {
				continue
			}
			if _, err := s.actor(ctx, transcript.ThreadID(info.Thread)); err != nil {
				s.log.Error("recover thread", "thread", info.Thread, "err", err)
			}
		}
		if len(infos) < q.Limit {
			return nil
		}
		q.BeforePos = infos[len(infos)-1].HeadPos
	}
}

// Close interrupts what runs, journals it, and closes the journal. It returns
// early with ctx's error if that takes too long; the journal is closed all the
// same, and what was not journaled is recovered at the next start.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		return nil
	}
	s.shut = true
	s.mu.Unlock()
	return errors.Join(s.Stop(ctx), s.hub.Close(), s.cfg.Journal.Close())
}

// actor returns the loaded actor of an existing thread.
func (s *Service) actor(ctx context.Context, id transcript.ThreadID) (*actor, error) {
	return s.slot(ctx, id, false)
}

// slot returns the actor of a thread, loading it if need be. With create, a
// thread that does not exist gets an empty actor, which its first command must
// bring to life.
func (s *Service) slot(ctx context.Context, id transcript.ThreadID, create bool) (*actor, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "the server is closing")
	}
	sl, ok := s.loaded[id]
	if !ok {
		sl = &slot{ready: make(chan struct{})}
		s.loaded[id] = sl
		s.actors.Go(func() { s.load(id, sl, create) })
	}
	s.mu.Unlock()
	select {
	case <-sl.ready:
		return sl.a, sl.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// load is the goroutine of a slot: it folds the thread and becomes its actor.
func (s *Service) load(id transcript.ThreadID, sl *slot, create bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	st, err := s.loadState(ctx, id, create)
	if err != nil {
		cancel(err)
		s.mu.Lock()
		delete(s.loaded, id)
		s.mu.Unlock()
		sl.err = err
		close(sl.ready)
		return
	}
	for i := range st.Learned {
		s.learn(&st.Learned[i])
	}
	a := &actor{
		id: id, svc: s, mailbox: make(chan message), stopped: make(chan struct{}), gone: make(chan struct{}),
		ctx: ctx, cancel: cancel, state: st, saved: st.unpacked, ended: map[transcript.CompactionID][]chan struct{}{}, asking: map[RequestID][]chan<- reply{},
		idle: time.NewTimer(s.cfg.IdleAfter),
	}
	a.measure()
	a.native = a.keepsHistory() && (st.compactedNatively() || st.Overfull) // what nobody knows is tried where it is needed
	a.loop(func(err error) {
		if err != nil {
			sl.err = fault.Wrap(fault.Unavailable, err, "thread %s cannot be loaded: the storage failed; retry later", id)
		} else {
			sl.a = a
		}
		close(sl.ready)
	})
}

// loadState folds a thread. With create, one that never was begins empty.
func (s *Service) loadState(ctx context.Context, id transcript.ThreadID, create bool) (st *state, err error) {
	broken := guard(func() error { st, err = s.fold(ctx, id); return nil })
	switch {
	case broken != nil:
		s.log.Error("load thread", "thread", id, "err", broken)
		return nil, fault.Wrap(fault.Corrupt, broken, "thread %s cannot be read: its events contradict each other", id)
	case errors.Is(err, errUnknown) && create:
		return newState(id), nil
	case errors.Is(err, errUnknown):
		return nil, fault.New(fault.NotFound, "thread %s does not exist", id)
	case err != nil && create && fault.CodeOf(err) == fault.NotFound:
		return nil, fault.New(fault.Conflict, "thread %s was made with this idempotency key and deleted; use a new key", id)
	}
	return st, err
}

// forget takes an actor out of the table.
func (s *Service) forget(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, a.id) // only its actor removes a slot, and only once
}

// do gives a command to a thread and returns its answer.
func (s *Service) do(ctx context.Context, id transcript.ThreadID, m message) (any, error) {
	for {
		a, err := s.actor(ctx, id)
		if err != nil {
			return nil, err
		}
		v, err := a.send(ctx, m)
		if !errors.Is(err, errGone) {
			return v, err
		}
		if err := a.left(ctx); err != nil {
			return nil, err
		}
	}
}

// left waits until an actor that ended has left the table, after which the thread
// can be loaded again.
func (a *actor) left(ctx context.Context) error {
	select {
	case <-a.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// query runs f on the thread's actor and returns what it returns.
func query[T any](ctx context.Context, s *Service, id transcript.ThreadID, f func(a *actor) T) (T, error) {
	v, err := s.do(ctx, id, message{query: func(a *actor) any { return f(a) }})
	if err != nil {
		var zero T
		return zero, err
	}
	return v.(T), nil
}

// ask gives a command to the thread and returns its answer.
func ask[T any](ctx context.Context, s *Service, id transcript.ThreadID, c command) (T, error) {
	v, err := s.do(ctx, id, message{cmd: c})
	if err != nil {
		var zero T
		return zero, err
	}
	return v.(T), nil
}

// provider returns a configured provider by name.
func (s *Service) provider(name string) (Provider, bool) {
	i := slices.IndexFunc(s.cfg.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return s.cfg.Providers[i], true
}

// oneOf returns v, or the first of allowed if v is empty.
func oneOf(field, v string, allowed ...string) (string, error) {
	if v == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, v) {
		return v, fault.New(fault.Invalid, "%s is %q; allowed: %s", field, v, strings.Join(allowed, ", "))
	}
	return v, nil
}

// Follow delivers the events of one thread, or of all threads if thread is
// empty, after a cursor (nil: from the beginning), and then live, until ctx is
// done or the consumer stops. See events.Hub.
func (s *Service) Follow(ctx context.Context, thread transcript.ThreadID, after *events.Cursor, heartbeat time.Duration) iter.Seq2[events.Message, error] {
	return func(yield func(events.Message, error) bool) {
		for m, err := range s.hub.Follow(ctx, events.FollowQuery{Thread: string(thread), After: after, Heartbeat: heartbeat}) {
			if errors.Is(err, events.ErrNotFound) {
				err = fault.Wrap(fault.NotFound, err, "thread %s does not exist", thread)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// textOf tells the hub which events open and close an item whose text is
// streamed.
func textOf(e events.Event) events.TextChange {
	switch e.Type {
	case ItemStarted{}.EventType():
		var p ItemStarted
		if json.Unmarshal(e.Data, &p) == nil && streams(p.Item.Body) {
			return events.TextChange{Op: events.TextOpens, Item: string(p.Item.ID)}
		}
	case ItemCompleted{}.EventType():
		var p ItemCompleted
		if json.Unmarshal(e.Data, &p) == nil && streams(p.Item.Body) {
			return events.TextChange{Op: events.TextCloses, Item: string(p.Item.ID), Text: transcript.Text(p.Item.Body)}
		}
	}
	return events.TextChange{}
}
