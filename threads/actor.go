package threads

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// An actor is one loaded thread. Its goroutine (loop) owns every field that is
// not marked otherwise: the state, the session, and what runs. Goroutines that
// work for it (a turn, a compaction) talk to it only through its mailbox, and it
// never waits for them.
type actor struct {
	id      transcript.ThreadID
	svc     *Service
	mailbox chan message  // unbuffered: what was sent was received
	stopped chan struct{} // closed when the loop ended: nothing is received any more
	gone    chan struct{} // closed when the actor has left the table as well
	ctx     context.Context
	cancel  context.CancelCauseFunc
	work    sync.WaitGroup // goroutines of this actor
	idle    *time.Timer

	state   *state
	window  int    // of limits
	limits  limits // of the thread's model, or of the one that the turn in progress began with
	session *session
	parting <-chan struct{} // closed when the session before it is closed; nil if there was none
	// outdated: the session is not the one that the next turn needs.
	outdated bool
	turn     *running       // the session's run
	compact  *running       // the compaction's run
	waiting  *boundary      // the session, at a step boundary
	readTo   int            // items of the transcript that the model has read
	steers   int            // calls of Session.Steer that have not returned
	lastEnd  *message       // the end of a turn that waits for them
	saved    int64          // seq of the newest snapshot
	asked    int            // estimate of the request that is out and was not counted yet; 0: none
	native   bool           // the session compacted natively, when the last turn ended
	learned  *LearnedWindow // by the turn in progress, and not journaled yet
	telling  int            // post hooks that run
	rested   bool           // a turn ended since serve looked
	resting  *time.Timer    // until the thread has rested for long enough to be compacted; nil: it need not be
	ended    map[transcript.CompactionID][]chan struct{}
	asking   map[RequestID][]chan<- reply // sessions that wait for an answer
	carried  preamble                     // as it was for the newest request

	failed      error // nothing more is decided: the thread is loaded anew
	retired     bool  // the thread was deleted, or never came to life
	closing     bool  // the service closes
	unrecovered error // why what was left open could not be ended yet: there is no space
	abandoned   bool  // a goroutine of work is stuck in a session that does not obey
}

// running is one run of a turn or of a compaction.
type running struct {
	turn       transcript.TurnID
	compaction transcript.CompactionID
	recovers   bool // the compaction is not made, but asked for
	cancel     context.CancelCauseFunc
	over       bool // it has ended, or is not waited for any more
	stopping   bool // somebody wants it to end, and not only the server's closing
}

// boundary is a session that waits for its next context.
type boundary struct {
	turn     transcript.TurnID
	answer   chan<- reply
	overflow *overflowed // nil at a step boundary
	since    contextVersion
}

// contextVersion changes whenever a compaction changes the context.
type contextVersion struct{ epoch, prunes int }

// A message is a command, or a query if cmd is nil.
type message struct {
	cmd   command
	query func(a *actor) any
	reply chan<- reply // buffered; nil if nobody waits
}

type reply struct {
	value any
	err   error
}

// deferred is the reply that comes later.
var deferred = reply{err: errors.New("threads: deferred")}

// errGone reports that the actor ended before it took the message.
var errGone = errors.New("threads: actor is gone")

// causes of cancelled work.
var (
	errInterrupted = errors.New("interrupted")
	errClosing     = errors.New("the server is closing")
)

// send gives the actor a message and waits for the reply.
func (a *actor) send(ctx context.Context, m message) (any, error) {
	return a.sendBy(ctx, m, make(chan reply, 1))
}

// sendBy is send with the channel of the reply, which tells who asks. It must
// have room for one.
func (a *actor) sendBy(ctx context.Context, m message, ch chan reply) (any, error) {
	m.reply = ch
	select {
	case a.mailbox <- m:
	case <-a.stopped:
		return nil, errGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case r := <-ch:
		return r.value, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tell gives the actor a message from one of its own goroutines.
func (a *actor) tell(cmd command) {
	select {
	case a.mailbox <- message{cmd: cmd}:
	case <-a.stopped:
	}
}

// timed is something that the actor told itself to do. It runs on the actor's
// goroutine, in every state of the thread.
type timed func(a *actor)

func (timed) decide(*state, env) (decision, error) { return decision{}, nil }

// loop is the actor's goroutine. It calls ready once what was left open is ended,
// or with the reason why the thread cannot be used.
// It ends when the thread was idle for long enough, was deleted, failed, or the
// service closes.
func (a *actor) loop(ready func(error)) {
	defer close(a.gone)
	defer a.svc.forget(a) // not before leave: the thread is not loaded twice
	defer a.leave()
	defer close(a.stopped) // not after leave, which waits for goroutines that tell
	a.guarded(a.resume)
	ready(a.failed)
	closing := a.svc.closing
	for !a.done() {
		select {
		case m := <-a.mailbox:
			a.guarded(func() { a.receive(m) })
		case <-a.idle.C:
			if a.atRest() {
				return
			}
			a.idle.Reset(a.svc.cfg.IdleAfter)
		case <-closing:
			closing, a.closing = nil, true
			a.stopWork(errClosing)
		}
	}
}

// guarded runs a step of the actor. A panic is a bug, but one of this thread
// only: it is loaded anew from what was journaled.
func (a *actor) guarded(step func()) {
	if err := guard(func() error { step(); return nil }); err != nil {
		a.fail(err)
	}
}

// done reports whether the loop may end: it should, and nothing runs any more.
func (a *actor) done() bool {
	return (a.closing || a.retired || a.failed != nil) && a.turn == nil && a.compact == nil
}

// atRest reports whether nothing runs and nothing waits.
func (a *actor) atRest() bool {
	return a.turn == nil && a.compact == nil && len(a.state.Queue) == 0 && len(a.state.Requests) == 0 && a.unrecovered == nil && a.resting == nil && a.telling == 0
}

// leave releases what the actor holds. Nothing runs any more.
func (a *actor) leave() {
	a.idle.Stop()
	if a.resting != nil {
		a.resting.Stop()
	}
	a.cancel(errClosing)
	if !a.abandoned {
		a.work.Wait()
	}
	if a.session != nil {
		if err := a.session.Close(); err != nil {
			a.svc.log.Warn("close session", "thread", a.id, "err", err)
		}
	}
	if a.failed == nil && !a.retired && a.state.Seq > 0 {
		a.saveSnapshot()
	}
	for id := range a.asking { // of sessions that were abandoned
		a.answerAskers(id, reply{err: errGone})
	}
	for _, waiters := range a.ended {
		for _, w := range waiters {
			close(w)
		}
	}
}

// recoverAgain is how long a thread waits for space before it tries again to end
// what was left open. Until then it can be read, and refuses to change.
const recoverAgain = time.Second

// resume ends what a killed process left open and goes on with what waits.
func (a *actor) resume() {
	if a.state.Seq == 0 {
		return // its first command creates it
	}
	open, err := a.svc.cfg.Journal.Open(a.ctx, string(a.id))
	if err != nil {
		a.fail(err)
		return
	}
	partial := map[transcript.ItemID]string{}
	for _, o := range open {
		partial[transcript.ItemID(o.Item)] = o.Text
	}
	if _, a.unrecovered = a.run(recoverThread{partial, a.continues(), a.keepsHistory()}); a.unrecovered != nil {
		a.svc.log.Error("recover thread", "thread", a.id, "err", a.unrecovered)
		a.after(recoverAgain, func(a *actor) {
			if a.unrecovered != nil && a.failed == nil {
				a.resume()
			}
		})
		return
	}
	a.serve()
}

// receive handles one message and replies to it, whatever happens.
func (a *actor) receive(m message) {
	a.idle.Reset(a.svc.cfg.IdleAfter)
	r := reply{err: fault.New(fault.Internal, "internal error")} // if it panics
	defer func() {
		if m.reply != nil && r != deferred {
			m.reply <- r
		}
	}()
	if f, ok := m.cmd.(timed); ok {
		r = reply{}
		f(a)
		return
	}
	if end, ok := m.cmd.(endTurn); ok && a.steers > 0 && a.turn != nil && a.turn.turn == end.turn {
		a.lastEnd, r = &m, deferred
		return
	}
	if end, ok := m.cmd.(endCompaction); ok && end.run != nil {
		end.run.over = true
	}
	if end, ok := m.cmd.(endCompaction); ok && a.compact != end.run {
		r = reply{} // of a run that was abandoned: the thread has gone on without it
		return
	}
	parked := a.parks(m.cmd)
	if end, ok := m.cmd.(ender); ok {
		end.ended(a)
	}
	switch {
	case parked:
		r = reply{} // the next process goes on with it
	case a.state.Deleted:
		r = reply{err: fault.New(fault.NotFound, "thread %s was deleted", a.id)}
	case a.failed != nil:
		r = reply{err: fault.Wrap(fault.Unavailable, a.failed, "thread %s is being loaded again after a failure; retry", a.id)}
	case m.cmd == nil:
		r = a.look(m.query)
	default:
		r = a.execute(m)
	}
}

// look answers a query.
func (a *actor) look(query func(a *actor) any) reply {
	if a.state.Seq == 0 {
		return reply{err: fault.New(fault.NotFound, "thread %s does not exist", a.id)}
	}
	return reply{value: query(a)}
}

// execute runs one command.
func (a *actor) execute(m message) reply {
	_, creates := m.cmd.(createThread)
	switch {
	case a.closing && !internal(m.cmd):
		return reply{err: fault.New(fault.Unavailable, "the server is closing")}
	case a.state.Seq == 0 && !creates:
		return reply{err: fault.New(fault.NotFound, "thread %s does not exist", a.id)}
	case a.unrecovered != nil && !internal(m.cmd):
		if a.resume(); a.unrecovered != nil {
			return reply{err: a.unrecovered}
		}
	}
	switch c := m.cmd.(type) {
	case stepBoundary:
		return a.boundary(c, boundary{turn: c.turn, answer: m.reply})
	case overflowed:
		return a.boundary(c, boundary{turn: c.turn, answer: m.reply, overflow: &c})
	case lighten:
		a.asked = 0 // it is not sent, or was refused
	case runAgain:
		return a.again(c)
	case askQuestion:
		return a.ask(c, m.reply)
	}
	v, err := a.run(m.cmd)
	if _, ends := m.cmd.(ender); ends && err != nil && a.failed == nil {
		a.fail(err) // what runs no more must not stay open: the next load ends it
	}
	if end, ok := m.cmd.(endTurn); ok && err == nil && a.state.Active == "" {
		a.rested, a.native, a.learned = !end.stopped && end.err == nil, end.native, nil
	}
	if creates && a.state.Seq == 0 {
		a.retired = true // it never came to life
		return reply{err: err}
	}
	if a.failed == nil {
		a.serve()
	}
	return reply{v, err}
}

// boundary lets a session wait for its next context.
func (a *actor) boundary(c command, w boundary) reply {
	if w.overflow == nil || !w.overflow.runtime {
		a.modelled()
	}
	w.since = a.contextVersion()
	if w.overflow != nil {
		a.asked = 0 // it was refused
		a.learned = learnedFrom(w.overflow.Overflow, a.settingsInUse(), a.window, a.svc.now())
	}
	a.waiting = &w
	if _, err := a.run(c); err != nil {
		a.waiting = nil
		return reply{err: err}
	}
	return deferred
}

// modelled notes that the thread's provider is a model: only those ask for contexts.
func (a *actor) modelled() {
	if a.session == nil {
		return
	}
	a.svc.mu.Lock()
	defer a.svc.mu.Unlock()
	a.svc.models[a.session.settings.Provider] = true
}

func (a *actor) contextVersion() contextVersion {
	return contextVersion{a.state.Transcript.Epoch(), len(a.state.Transcript.Prunes)}
}

// answerBoundary answers the session that waits for its next context. After an
// overflow the same context is none.
func (a *actor) answerBoundary() {
	if a.waiting == nil {
		return
	}
	w := a.waiting
	a.waiting = nil
	if w.overflow != nil && !a.madeRoom(w) {
		w.answer <- reply{err: w.overflow.failure(a.state.lastOutcome())}
		return
	}
	a.readTo = len(a.state.Transcript.Items)
	c := a.nextContext()
	a.asked = a.bare() + a.state.bare
	w.answer <- reply{value: c}
}

// madeRoom reports whether what follows an overflow is smaller. What a runtime keeps is
// not the context: its word must do.
func (a *actor) madeRoom(w *boundary) bool {
	if w.overflow.runtime {
		last := a.state.Compactions[len(a.state.Compactions)-1]
		return last.Replaced() || last.Rebase != nil
	}
	return w.since != a.contextVersion()
}

// nextContext is what the next request holds after its base.
func (a *actor) nextContext() adapters.Context {
	return adapters.Context{
		Epoch:   a.state.Transcript.Epoch(),
		Entries: append([]transcript.Entry{}, a.state.context...),
		Tokens:  a.state.tokens,

		Preamble: a.preamble(),
	}
}

// An ender reports that a goroutine of the actor finished.
type ender interface{ ended(a *actor) }

func (c endTurn) ended(a *actor) {
	if a.turn != nil && a.turn.turn == c.turn {
		a.turn.cancel(nil)
		a.turn, a.waiting = nil, nil
	}
}

func (c endCompaction) ended(a *actor) {
	if a.compact != nil && a.compact == c.run {
		a.compact.cancel(nil)
		a.compact = nil
	}
}

// internal reports whether a command comes from the actor's own goroutines;
// those are heard until the very end.
func internal(c command) bool {
	switch c.(type) {
	case adoptSession, report, answerCall, answerOwn, askForeign, hookedForeign, tellSession, askQuestion, endTurn, enterPhase, endCompaction, endRecovery, stepBoundary, overflowed, runAgain, lighten, warnCompaction:
		return true
	}
	return false
}

// serve starts what waits, if the thread is idle and stays loaded.
func (a *actor) serve() {
	if a.closing || a.retired || a.unrecovered != nil || a.turn != nil || a.compact != nil {
		return
	}
	ended := a.rested
	a.rested = false
	if _, err := a.run(serveNext{afterTurn: ended}); err != nil {
		a.svc.log.Error("serve queue", "thread", a.id, "err", err)
	}
	if ended {
		a.rest()
	}
}

// rest begins to wait for the time at which a thread that rests is compacted, if it
// is full enough. Whatever happens in between begins it anew.
func (a *actor) rest() {
	idle := a.svc.cfg.Policy.Idle
	if idle <= 0 || a.resting != nil || !a.mayRest() {
		return
	}
	wait := a.state.UpdatedAt.Add(idle).Sub(a.svc.now())
	a.resting = time.AfterFunc(max(wait, 0), func() {
		a.tell(timed(func(a *actor) {
			a.resting = nil
			if a.svc.now().Sub(a.state.UpdatedAt) < idle {
				a.rest()
				return
			}
			if a.mayRest() {
				if _, err := a.run(compactIdle{}); err != nil {
					a.svc.log.Error("compact idle thread", "thread", a.id, "err", err)
				}
			}
		}))
	})
}

// mayRest reports whether nothing runs and a compaction would be due after a rest.
func (a *actor) mayRest() bool {
	if a.closing || a.retired || a.failed != nil || a.turn != nil || a.compact != nil || len(a.state.Queue) > 0 {
		return false
	}
	au := a.automatic(a.state.Settings)
	return a.state.due(au, 0, au.policy.JudgeIdle)
}

// fail stops the actor: what it knows may not be what the journal holds.
func (a *actor) fail(err error) {
	a.svc.log.Error("thread failed; it is loaded again", "thread", a.id, "err", err)
	a.failed = err
	a.stopWork(err)
}
