package threads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file keeps account of a runtime's session: the program has a history of its own
// under an id of its own, and the journal says whether that is the history of this
// thread. A session is resumed if it is; otherwise a fresh one begins with what the
// thread's context holds. So a fork, a revert, an import, another provider, an undo and a
// local compaction come down to the same: there is no native session for this context.

// A NativeSession is the session of a thread with a provider that keeps its own
// history.
type NativeSession struct {
	Provider string `json:"provider"` // as in Settings
	ID       string `json:"id"`
	// Used: something was said in it, so that losing it is a loss.
	Used bool `json:"used,omitempty"`
	// Stale: its history is not that of the thread any more.
	Stale bool `json:"stale,omitempty"`
	// Compactions are those that the provider made of it, newest last.
	Compactions []transcript.CompactionID `json:"compactions,omitempty"`
}

// A SessionReason says why a thread has another native session.
type SessionReason string

// The reasons.
const (
	SessionOpened   SessionReason = "opened"   // it had none
	SessionReplaced SessionReason = "replaced" // the one before has another history, or is gone; the journal told it anew
	SessionRebased  SessionReason = "rebased"  // a local compaction made it
	SessionRestored SessionReason = "restored" // an undo did
)

// SessionUpdated tells of a thread's new native session. Of one that a compaction or an
// undo made it follows in the same commit.
type SessionUpdated struct {
	Provider string        `json:"provider"`
	NativeID string        `json:"nativeId"`
	Previous string        `json:"previous,omitempty"` // of the same provider
	Reason   SessionReason `json:"reason"`
}

// EventType implements Payload.
func (SessionUpdated) EventType() string { return "thread/session/updated" }

func (p SessionUpdated) check() error {
	if p.NativeID == "" {
		return errors.New("the session has no id")
	}
	return nil
}

// enterSession folds a new native session.
func (s *state) enterSession(provider, id string) {
	s.Native, s.Left = NativeSession{Provider: provider, ID: id}, nil
}

// staleSession folds that the context is not what the native session holds.
func (s *state) staleSession() {
	if s.Native.ID != "" {
		s.Native.Stale = true
	}
}

// foldSession folds what an event means for the native session.
func (s *state) foldSession(p Payload) {
	switch p := p.(type) {
	case SessionUpdated:
		if p.Reason != SessionRebased && p.Reason != SessionRestored { // their compaction or undo brought it
			s.enterSession(p.Provider, p.NativeID)
		}
	case ThreadReverted:
		s.staleSession()
	case CompactionUndone:
		s.restoreSession(p.Session)
	case CompactionUpdated:
		s.compactSession(p)
	case TurnCompleted:
		if p.Turn.Kind == transcript.TurnUser && s.Native.ID != "" {
			s.Native.Used, s.Left = true, nil
		}
	default: // of no matter for it
	}
}

// restoreSession folds an undo, which brings its session if the provider is a runtime:
// the one before, or a fresh one.
func (s *state) restoreSession(with *NativeSession) {
	if with == nil {
		s.staleSession()
		return
	}
	if n := len(s.Left); n > 0 && s.Left[n-1].ID == with.ID {
		s.Left = s.Left[: n-1 : n-1]
	} else {
		s.Left = nil
	}
	s.Native = *with
}

// sessionUpdated tells of the session that takes the place of the thread's.
func (s *state) sessionUpdated(to NativeSession, why SessionReason) SessionUpdated {
	told := SessionUpdated{Provider: to.Provider, NativeID: to.ID, Reason: why}
	if s.Native.Provider == to.Provider {
		told.Previous = s.Native.ID
	}
	return told
}

// leaveSession folds a rebase: the session before is kept in mind as long as nothing is
// said in the one that follows it, because until then an undo can go back to it.
func (s *state) leaveSession(r compaction.Record, to NativeSession) {
	from := s.Native
	if from.Used {
		s.Left = nil
	}
	from.Stale = from.Stale || lossy(r)
	s.Left, s.Native = append(slices.Clip(s.Left), from), to
}

// compactSession folds a compaction: a local one makes the session's history another
// one than the context, a native one is a part of it.
func (s *state) compactSession(p CompactionUpdated) {
	r := p.Record
	switch {
	case p.Session != nil:
		s.leaveSession(r, *p.Session)
	case p.Boundary != nil || p.Prune != nil || lossy(r): // what it knew is only in the journal
		s.staleSession()
	}
	if r.Outcome == nil || r.Route == nil || *r.Route != compaction.RouteNative || s.Native.ID == "" {
		return
	}
	known := s.compaction(r.CompactionID)
	if known != nil && known.Terminal() {
		return // told again, with warnings
	}
	if *r.Outcome == compaction.Completed {
		s.Native.Compactions = append(slices.Clip(s.Native.Compactions), r.CompactionID)
	}
}

// lossy reports whether the provider lost its history in a compaction, whatever came
// after that.
func lossy(r compaction.Record) bool {
	return r.Code != nil && *r.Code == codeNativeInvalid ||
		slices.ContainsFunc(r.Skipped, func(k compaction.Skip) bool { return k.Code == codeNativeInvalid })
}

// nativeFor returns the id of the session to resume with a provider; empty if there is
// none whose history is the thread's.
func (s *state) nativeFor(provider string) string {
	if s.Native.Provider != provider || s.Native.Stale {
		return ""
	}
	return s.Native.ID
}

// seed is what a fresh native session begins with: the context without the turn in
// progress, whose input it is given.
func (s *state) seed() []transcript.Entry { return s.beforeTurn(s.context) }

// beforeTurn leaves out what was said in the turn in progress.
func (s *state) beforeTurn(entries []transcript.Entry) []transcript.Entry {
	var out []transcript.Entry
	for _, e := range entries {
		if s.Active != "" && e.Item.Turn == s.Active && e.Item.Body.Kind() != transcript.KindCheckpoint {
			continue
		}
		out = append(out, e)
	}
	return out
}

// A nativeLook is what opening a runtime's session needs to know.
type nativeLook struct {
	sess    *session
	tools   []adapters.ToolSpec
	parting <-chan struct{} // closed when the session before is closed; nil if there is none
	native  NativeSession
	seed    []transcript.Entry
}

func (a *actor) nativeLook() nativeLook {
	return nativeLook{
		sess: a.session, tools: a.toolbox().specs, parting: a.parting, native: a.state.Native, seed: a.state.seed(),
	}
}

// params is what a session of the thread is opened with.
func (a *actor) params(settings Settings, tools []adapters.ToolSpec) adapters.OpenParams {
	return adapters.OpenParams{
		Thread: a.id, Model: settings.Model, Cwd: settings.Cwd, Tools: tools, Approval: settings.ApprovalPolicy, Sandbox: settings.Sandbox,
		Blob: func(hash string) ([]byte, error) { return a.svc.cfg.Journal.Blob(a.ctx, hash) },
	}
}

// openSession returns the thread's session, opening it on first use. Turns and
// compactions do not overlap, so two goroutines never open one at once.
func (a *actor) openSession(ctx context.Context, settings Settings) (*session, error) {
	v, err := a.send(ctx, message{query: func(a *actor) any { return a.nativeLook() }})
	if err != nil {
		return nil, err
	}
	l := v.(nativeLook)
	if l.sess != nil {
		return l.sess, nil
	}
	p, ok := a.svc.provider(settings.Provider)
	if !ok {
		return nil, fault.New(fault.Unavailable, "provider %q is not configured any more", settings.Provider)
	}
	if err := a.parted(ctx, l.parting); err != nil {
		return nil, err
	}
	opened, told, err := a.open(ctx, p, settings, l)
	if err != nil {
		return nil, err
	}
	sess := newSession(opened, settings)
	if err := a.adopt(ctx, sess, told); err != nil {
		return nil, err
	}
	return sess, nil
}

// adopt makes an opened session the thread's, or closes it.
func (a *actor) adopt(ctx context.Context, sess *session, told *SessionUpdated) error {
	_, err := a.send(ctx, message{cmd: adoptSession{sess, told}})
	if err == nil {
		return nil
	}
	// The actor may have taken it all the same.
	a.tell(timed(func(a *actor) {
		if a.session == sess {
			a.session = nil
		}
	}))
	return errors.Join(err, sess.Session.Close())
}

func newSession(opened adapters.Session, settings Settings) *session {
	return &session{Session: opened, settings: settings, base: baseTokens(opened.Base()), bare: baseEstimate(opened.Base())}
}

// parted waits for the session before: a program's history has one process.
func (a *actor) parted(ctx context.Context, parting <-chan struct{}) error {
	if parting == nil {
		return nil
	}
	timer := time.NewTimer(a.svc.cfg.StopAfter)
	defer timer.Stop()
	select {
	case <-parting:
	case <-timer.C: // the provider says if that one is in the way
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// open opens a session with a provider. Told is what the journal must say of it; nil
// if nothing is news.
func (a *actor) open(ctx context.Context, p Provider, settings Settings, l nativeLook) (adapters.Session, *SessionUpdated, error) {
	params := a.params(settings, l.tools)
	if !isRuntime(p) {
		opened, err := p.Adapter.Open(ctx, params)
		return opened, nil, openProblem(settings.Provider, err)
	}
	known := l.native.Provider == settings.Provider && l.native.ID != ""
	told := &SessionUpdated{Provider: settings.Provider, Reason: SessionOpened}
	if known {
		told.Previous, told.Reason = l.native.ID, SessionReplaced
	}
	if known && !l.native.Stale {
		params.NativeID = l.native.ID
		opened, err := p.Adapter.Open(ctx, params)
		switch {
		case err == nil:
			return opened, nil, nil
		case !errors.Is(err, adapters.ErrNoSession):
			return nil, nil, openProblem(settings.Provider, err)
		case l.native.Used && !p.AutoRebase:
			return nil, nil, lostSession(settings.Provider, l.native.ID, err)
		}
		params.NativeID = "" // nothing is lost that the journal does not have
	}
	params.Seed = l.seed
	opened, err := p.Adapter.Open(ctx, params)
	if err != nil {
		return nil, nil, openProblem(settings.Provider, err)
	}
	told.NativeID = opened.NativeID()
	return opened, told, nil
}

func openProblem(provider string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("open session with %s: %w", provider, err)
}

// lostSession says that the provider forgot what it knew. Going on as if it had not
// would be a silent loss, so somebody decides.
func lostSession(provider, id string, err error) error {
	return fault.Wrap(fault.Unavailable, err,
		"%s does not know its session %s any more, and what it knew that is not in this thread is gone; to go on with what the thread holds, compact it with route local, fork it, or set auto_rebase for the provider",
		provider, id)
}

// adoptSession makes an opened session the thread's.
type adoptSession struct {
	sess *session
	told *SessionUpdated // nil: the journal knows it
}

func (c adoptSession) decide(s *state, env env) (decision, error) {
	d := decision{effects: []effect{useSession{c.sess}}}
	if c.told == nil {
		return d, nil
	}
	d.payloads = []Payload{*c.told}
	if c.told.Reason == SessionReplaced && s.Native.Used && !s.Native.Stale {
		d.payloads = append(d.payloads, WarningRaised{Message: fmt.Sprintf(
			"%s does not know its session %s any more; a fresh one was told what the thread holds", c.told.Provider, c.told.Previous)})
	}
	return d, nil
}

// useSession is the effect of a session that the journal knows: it is used from here
// on, in place of the one before.
type useSession struct{ sess *session }

func (useSession) effect() {}

// use makes a session the thread's, and lets go of the one before.
func (a *actor) use(sess *session) {
	if a.session != nil && a.session != sess {
		a.part(a.session)
	}
	a.session = sess
	sess.adopted.Store(true)
}

// part closes a session in the background. Who opens the next one waits for it.
func (a *actor) part(sess *session) {
	gone := make(chan struct{})
	a.parting = gone
	log, id := a.svc.log, a.id
	a.work.Go(func() {
		defer close(gone)
		if err := guard(sess.Close); err != nil {
			log.Warn("close session", "thread", id, "err", err)
		}
	})
}
