package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
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
	gone    chan struct{} // closed when the loop ended
	ctx     context.Context
	cancel  context.CancelCauseFunc
	work    sync.WaitGroup // goroutines of this actor

	state   *state
	window  int
	session *session
	turn    *running // the session's run
	compact *running // the compaction's run
	waiting *boundary
	readTo  int                                         // items of the transcript that the model has read
	ended   map[transcript.CompactionID][]chan struct{} // closed when the compaction ended
	saved   int64                                       // seq of the newest snapshot
	failed  error                                       // the journal failed: nothing more is decided, the thread is loaded anew
	retired bool                                        // the thread was deleted
	closing bool
	// abandoned: a goroutine of work is stuck in a session that does not obey
	// and is not waited for.
	abandoned bool
	idle      *time.Timer
}

// running is one run of a turn or a compaction.
type running struct {
	turn   transcript.TurnID
	cancel context.CancelCauseFunc
}

// boundary is a session that waits for its next context.
type boundary struct {
	turn   transcript.TurnID
	answer chan<- reply
}

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

// errGone reports that the actor ended before it took the message.
var errGone = errors.New("threads: actor is gone")

// causes of cancelled work.
var (
	errInterrupted = errors.New("interrupted")
	errClosing     = errors.New("the server is closing")
)

// send gives the actor a message and waits for the reply.
func (a *actor) send(ctx context.Context, m message) (any, error) {
	ch := make(chan reply, 1)
	m.reply = ch
	select {
	case a.mailbox <- m:
	case <-a.gone:
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
	case <-a.gone:
	}
}

// loop is the actor's goroutine. It calls ready once what was left open is ended.
// It ends when the thread was idle for long enough, was deleted, failed, or the
// service closes.
func (a *actor) loop(ready func()) {
	defer close(a.gone)
	defer a.svc.forget(a) // not before leave: the thread is not loaded twice
	defer a.leave()
	a.resume()
	ready()
	closing := a.svc.closing
	for !a.done() {
		select {
		case m := <-a.mailbox:
			a.receive(m)
		case <-a.idle.C:
			if a.atRest() {
				return
			}
			a.idle.Reset(a.svc.cfg.IdleAfter)
		case <-closing:
			closing = nil
			a.closing = true
			a.stopWork(errClosing)
		}
	}
}

// done reports whether the loop may end: it should, and nothing runs any more.
func (a *actor) done() bool {
	return (a.closing || a.retired || a.failed != nil) && a.turn == nil && a.compact == nil
}

// atRest reports whether nothing runs and nothing waits.
func (a *actor) atRest() bool {
	return a.turn == nil && a.compact == nil && len(a.state.Queue) == 0
}

// leave releases what the actor holds. Nothing runs any more.
func (a *actor) leave() {
	a.idle.Stop()
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
	for _, waiters := range a.ended {
		for _, w := range waiters {
			close(w)
		}
	}
}

// resume ends what a killed process left open and goes on with what waits.
func (a *actor) resume() {
	partial := map[transcript.ItemID]string{}
	open, err := a.svc.cfg.Journal.Open(a.ctx, string(a.id))
	if err != nil {
		a.fail(err)
		return
	}
	for _, o := range open {
		partial[transcript.ItemID(o.Item)] = o.Text
	}
	if a.state.Seq == 0 {
		return // its first command creates it
	}
	if _, err := a.run(recoverThread{partial}); err != nil {
		a.svc.log.Error("recover thread", "thread", a.id, "err", err)
		return
	}
	a.serve()
}

func (a *actor) receive(m message) {
	a.idle.Reset(a.svc.cfg.IdleAfter)
	var r reply
	switch {
	case a.state.Deleted && !internal(m.cmd):
		r.err = fault.New(fault.NotFound, "thread %s was deleted", a.id)
	case a.failed != nil:
		r.err = fault.Wrap(fault.Unavailable, a.failed, "thread %s is being loaded again after a storage failure; retry", a.id)
		if end, ok := m.cmd.(ender); ok {
			end.ended(a)
		}
	case m.cmd == nil:
		r.value = m.query(a)
	default:
		r = a.execute(m)
	}
	if m.reply != nil && r != deferred {
		m.reply <- r
	}
}

// deferred is the reply that comes later.
var deferred = reply{err: errors.New("threads: deferred")}

func (a *actor) execute(m message) reply {
	if a.closing && !internal(m.cmd) {
		return reply{err: fault.New(fault.Unavailable, "the server is closing")}
	}
	if b, ok := m.cmd.(stepBoundary); ok {
		a.waiting = &boundary{b.turn, m.reply}
		if _, err := a.run(b); err != nil {
			a.waiting = nil
			return reply{err: err}
		}
		return deferred
	}
	_, creates := m.cmd.(createThread)
	if a.state.Seq == 0 && !creates {
		return reply{err: fault.New(fault.NotFound, "thread %s does not exist", a.id)}
	}
	if end, ok := m.cmd.(ender); ok {
		end.ended(a)
	}
	v, err := a.run(m.cmd)
	if creates && a.state.Seq == 0 {
		a.retired = true // it was never born
		return reply{err: err}
	}
	if a.failed == nil {
		a.serve()
	}
	return reply{v, err}
}

// An ender reports that a goroutine of the actor finished.
type ender interface{ ended(a *actor) }

func (c endTurn) ended(a *actor) {
	if a.turn != nil && a.turn.turn == c.turn {
		a.turn.cancel(nil)
		a.turn = nil
	}
}

func (c endCompaction) ended(a *actor) {
	if a.compact != nil {
		a.compact.cancel(nil)
		a.compact = nil
	}
}

// internal reports whether a command comes from the actor's own goroutines;
// those are heard until the very end.
func internal(c command) bool {
	switch c.(type) {
	case report, answerCall, endTurn, enterPhase, endCompaction, stepBoundary:
		return true
	}
	return false
}

// serve starts what waits, if the thread is idle and stays loaded.
func (a *actor) serve() {
	if a.closing || a.retired || a.turn != nil || a.compact != nil {
		return
	}
	if _, err := a.run(serveNext{}); err != nil {
		a.svc.log.Error("serve queue", "thread", a.id, "err", err)
	}
}

// run decides a command, journals what follows, folds it, and performs the
// effects: the only way in which a thread changes.
func (a *actor) run(c command) (any, error) {
	d, err := c.decide(a.state, env{now: a.svc.now(), newID: a.svc.newID, window: a.window, base: a.base(), read: a.readTo})
	if err != nil {
		return nil, err
	}
	if len(d.payloads) > 0 {
		if err := a.commit(d); err != nil {
			return nil, err
		}
	}
	for _, e := range d.effects {
		a.perform(e)
	}
	if d.answer == nil {
		return nil, nil
	}
	return d.answer(a.state), nil
}

// commit journals payloads in one transaction and folds them. When it fails
// nothing has changed, or the actor has failed and the thread is loaded anew.
func (a *actor) commit(d decision) error {
	payloads := d.payloads
	ap, err := a.encode(payloads)
	if err != nil {
		return err
	}
	ap.Blobs = d.blobs
	failpoint.Hit("commit/before/" + payloads[0].EventType())
	head, err := a.svc.hub.Append(context.WithoutCancel(a.ctx), ap)
	if err != nil {
		return a.commitFailed(ap, err)
	}
	failpoint.Hit("commit/after/" + payloads[0].EventType())
	seq := head - int64(len(payloads))
	for _, e := range ap.Events {
		seq++
		// What is folded is what was stored, not what was meant: a thread that is
		// loaded again is the same to the byte.
		p, err := Decode(e)
		if err != nil {
			a.fail(err)
			return err
		}
		evolve(a.state, seq, e.At, p)
		a.notify(p)
	}
	a.window = a.svc.window(a.state.Settings)
	return nil
}

// commitFailed tells a full disk, after which nothing has changed and the thread
// goes on, from every other failure, after which only the journal knows.
func (a *actor) commitFailed(ap events.Append, err error) error {
	if errors.Is(err, events.ErrFull) {
		info, ierr := a.svc.cfg.Journal.Info(context.WithoutCancel(a.ctx), ap.Thread)
		if ierr == nil && info.Head == ap.Expect || errors.Is(ierr, events.ErrNotFound) && ap.Expect == 0 {
			return fault.Wrap(fault.Full, err, "the disk or the database quota is full; nothing was changed; free space and retry")
		}
	}
	a.fail(err)
	return fault.Wrap(fault.Unavailable, err, "the journal could not be written; thread %s is loaded again from what it holds", a.id)
}

// fail stops the actor: what it knows may not be what the journal holds.
func (a *actor) fail(err error) {
	a.svc.log.Error("journal failed", "thread", a.id, "err", err)
	a.failed = err
	a.stopWork(err)
}

// encode makes the transaction of a commit.
func (a *actor) encode(payloads []Payload) (events.Append, error) {
	now := a.svc.now()
	ap := events.Append{Thread: string(a.id), Expect: a.state.Seq, Events: make([]events.Event, len(payloads))}
	listed := false
	for i, p := range payloads {
		data, err := transcript.Encode(p)
		if err != nil {
			return ap, fmt.Errorf("encode %s: %w", p.EventType(), err)
		}
		ap.Events[i] = events.Event{Type: p.EventType(), At: now, Data: data}
		switch p := p.(type) {
		case ItemCompleted:
			if a.state.open[p.Item.ID] && streams(p.Item.Body) {
				ap.Closed = append(ap.Closed, string(p.Item.ID))
			}
		case ThreadDeleted:
			ap.Delete = true
		case ThreadStarted, StatusChanged, QueueChanged, TurnCompleted:
			listed = true
		default:
		}
	}
	if listed && !ap.Delete {
		info, err := json.Marshal(a.listing(payloads, now))
		if err != nil {
			return ap, fmt.Errorf("encode thread info: %w", err)
		}
		ap.Info = info
	}
	return ap, nil
}

// listing is the thread as listings show it once the payloads are committed.
func (a *actor) listing(payloads []Payload, now time.Time) Thread {
	t := a.state.view(a.window)
	t.UpdatedAt = now
	added := map[transcript.ItemID]bool{}
	count := func(it transcript.Item) {
		if _, known := a.state.itemAt[it.ID]; !known && !added[it.ID] {
			added[it.ID] = true
			t.Items++
		}
		if u, ok := it.Body.(transcript.UserMessage); ok && t.Preview == "" {
			t.Preview = preview(transcript.Text(u))
		}
	}
	for _, p := range payloads {
		switch p := p.(type) {
		case ThreadStarted:
			t.Settings, t.Name, t.Imported, t.CreatedAt = p.Settings, p.Name, p.Imported, transcript.FromMillis(p.CreatedAt)
		case StatusChanged:
			t.Status = p.Status
		case QueueChanged:
			t.Queued = len(p.Queue)
		case TurnStarted:
			t.Turns++
		case ItemStarted:
			count(p.Item)
		case ItemCompleted:
			count(p.Item)
		case UsageUpdated:
			t.Load.Context, t.Load.Source = p.Context, p.Source
		case CompactionUpdated:
			if p.Boundary != nil {
				t.Epoch = p.Boundary.Epoch
			}
		default:
		}
	}
	return t
}

// streams reports whether items of this kind have streamed text.
func streams(b transcript.Body) bool {
	k := b.Kind()
	return k == transcript.KindAgentMessage || k == transcript.KindReasoning
}

// notify wakes those who wait for a compaction to end.
func (a *actor) notify(p Payload) {
	u, ok := p.(CompactionUpdated)
	if !ok || !u.Record.Terminal() {
		return
	}
	for _, w := range a.ended[u.Record.CompactionID] {
		close(w)
	}
	delete(a.ended, u.Record.CompactionID)
}

// answerBoundary answers the session that waits for its next context.
func (a *actor) answerBoundary() {
	if a.waiting == nil {
		return
	}
	w := a.waiting
	a.waiting = nil
	a.readTo = len(a.state.Transcript.Items)
	w.answer <- reply{value: adapters.Context{
		Epoch:   a.state.Transcript.Epoch(),
		Entries: append([]transcript.Entry{}, a.state.context...),
		Tokens:  a.state.tokens,
	}}
}
