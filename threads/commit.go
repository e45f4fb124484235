package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// run decides a command, journals what follows, folds it, and performs the
// effects: the only way in which a thread changes.
func (a *actor) run(c command) (any, error) {
	d, err := c.decide(a.state, a.env())
	if err != nil {
		return nil, err
	}
	was := a.state.Active
	if len(d.payloads) > 0 {
		if err := a.commit(d); err != nil {
			return nil, err
		}
	}
	if now := a.state.Active; now == "" || now != was { // not in the middle of a turn
		a.renew()
	}
	for _, e := range d.effects {
		a.perform(e)
	}
	if d.answer == nil {
		return nil, nil
	}
	return d.answer(a.state), nil
}

// env is what decisions may know now besides the state.
func (a *actor) env() env {
	return env{
		now: a.svc.now(), newID: a.svc.newID, window: a.window, base: a.base(), read: a.readTo, policy: a.svc.cfg.Policy, resettle: a.svc.resettle,
		auto: a.automatic(a.state.Settings), automatic: a.automatic, asked: a.asked, learned: a.learned,
		restate: a.restate, runtime: a.keepsHistory(),
	}
}

// settingsInUse returns the settings of what runs: a turn ends as it began.
func (a *actor) settingsInUse() Settings {
	if a.turn != nil && a.session != nil {
		return a.session.settings
	}
	return a.state.Settings
}

// automatic is what decisions know of compactions that nobody asks for, of a thread
// that has these settings.
func (a *actor) automatic(settings Settings) automatic {
	au := automatic{
		policy: a.svc.cfg.Policy, limits: a.limits, model: settings.model(), route: a.svc.cfg.CompactionRoute,
		bare: a.bare(), native: a.native,
	}
	if a.turn != nil && a.session != nil {
		settings = a.settingsInUse()
		au.model = settings.model()
	} else if au.model != a.state.Settings.model() {
		au.limits = a.svc.limits(settings.Provider, settings.Model)
	}
	if p, ok := a.svc.provider(settings.Provider); ok {
		au.rebases = p.AutoRebase && isRuntime(p)
	}
	au.key, au.settings = gateKey(au.policy, settings), settings
	a.svc.mu.Lock()
	au.stateless = a.svc.models[settings.Provider]
	a.svc.mu.Unlock()
	if m := &a.state.Meter; m.Ratio > 0 && strings.HasPrefix(m.Model, settings.Provider+"/") {
		au.stateless = true // only of those requests are estimated that this server made
	}
	return au
}

// commit journals a decision in one transaction and folds it. When it fails
// nothing has changed, or the actor has failed and the thread is loaded anew.
func (a *actor) commit(d decision) error {
	ap, err := a.encode(d)
	if err != nil {
		return err
	}
	for _, p := range d.payloads {
		a.svc.learn(learnedIn(p)) // before anybody can read that it was: it is so, whether it can be journaled or not
	}
	first := ap.Events[0].Type
	failpoint.Hit("commit/before/" + first)
	head, err := a.svc.hub.Append(context.WithoutCancel(a.ctx), ap)
	if err != nil {
		return a.commitFailed(ap, err)
	}
	failpoint.Hit("commit/after/" + first)
	if err := a.fold(ap.Events, head); err != nil {
		a.fail(err)
		return err
	}
	a.tellAskers(d.payloads)
	return nil
}

// fold takes in events that were committed. What is folded is what was stored,
// not what was meant: a thread that is loaded again is the same to the byte.
func (a *actor) fold(evs []events.Event, head int64) error {
	if a.state.journal == "" {
		info, err := a.svc.cfg.Journal.Info(context.WithoutCancel(a.ctx), string(a.id))
		if err != nil {
			return fmt.Errorf("read the new thread's journal id: %w", err)
		}
		a.state.journal = info.JournalID
	}
	seq := head - int64(len(evs))
	for _, e := range evs {
		seq++
		p, err := Decode(e)
		if err != nil {
			return err
		}
		a.outdate(p)
		evolve(a.state, seq, e.At, p)
		if a.session != nil && a.state.Native.Stale && a.session.NativeID() == a.state.Native.ID {
			a.outdated = true // what it has read is not the thread's any more
		}
		if learnedIn(p) != nil {
			a.learned = nil
		}
		if u, ok := p.(UsageUpdated); ok && u.Model != "" {
			a.asked = 0
		}
		a.notify(p)
	}
	a.measure()
	return nil
}

// outdate notes that the session is not the one that the thread's next turn
// needs: it is of another model, or has read turns that are gone.
func (a *actor) outdate(p Payload) {
	switch p := p.(type) {
	case SettingsUpdated:
		was := a.state.Settings
		a.outdated = a.outdated || p.Settings.Provider != was.Provider || p.Settings.Model != was.Model || p.Settings.Cwd != was.Cwd
	case ThreadReverted:
		a.outdated = true
	default: // the session is told by its host, or need not know
	}
}

// renew lets go of an outdated session between two turns, so that the next one
// opens its own. Nobody waits for it to close.
func (a *actor) renew() {
	if !a.outdated || a.turn != nil || a.compact != nil {
		return
	}
	a.outdated, a.native = false, false
	a.measure()
	sess := a.session
	if a.session = nil; sess != nil {
		a.part(sess)
	}
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

// commitFailed tells a full disk, after which nothing has changed and the thread
// goes on, from every other failure, after which only the journal knows.
func (a *actor) commitFailed(ap events.Append, err error) error {
	if errors.Is(err, events.ErrFull) {
		info, ierr := a.svc.cfg.Journal.Info(context.WithoutCancel(a.ctx), ap.Thread)
		if ierr == nil && info.Head == ap.Expect || errors.Is(ierr, events.ErrNotFound) && ap.Expect == 0 {
			return errFull(err)
		}
	}
	a.fail(err)
	return fault.Wrap(fault.Unavailable, err, "the journal could not be written; thread %s is loaded again from what it holds", a.id)
}

// errFull is what clients are told. A journal that is bounded by something else
// than a disk says so with a fault of its own.
func errFull(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == fault.Full {
		return err
	}
	return fault.Wrap(fault.Full, err, "the disk or the database quota is full; nothing was changed; free space and retry")
}

// encode makes the transaction of a decision.
func (a *actor) encode(d decision) (events.Append, error) {
	now := a.svc.now()
	ap := events.Append{Thread: string(a.id), Expect: a.state.Seq, Blobs: d.blobs, Events: make([]events.Event, len(d.payloads))}
	listed := a.state.Active == "" // at rest everything is worth listing, and rare
	for i, p := range d.payloads {
		data, err := transcript.Encode(p)
		if err != nil {
			return ap, fmt.Errorf("encode %s: %w", p.EventType(), err)
		}
		ap.Events[i] = events.Event{Type: p.EventType(), At: now, Data: data}
		if i < len(d.times) {
			ap.Events[i].At = d.times[i]
		}
		switch p.(type) {
		case TurnCompleted:
			listed = true
			for id := range a.state.open { // nobody extends them any more
				ap.Closed = append(ap.Closed, string(id))
			}
		case ThreadDeleted:
			ap.Delete = true
		case ThreadStarted, StatusChanged, QueueChanged, NameUpdated, ThreadArchived, ThreadUnarchived,
			SettingsUpdated, MetadataUpdated, ThreadReverted:
			listed = true
		default: // the hub closes the text of an item that is completed
		}
	}
	if listed && !ap.Delete {
		info, err := json.Marshal(a.listing(d.payloads, now))
		if err != nil {
			return ap, fmt.Errorf("encode thread info: %w", err)
		}
		ap.Info = info
	}
	return ap, nil
}

// listing is the thread as listings show it once the payloads are committed.
func (a *actor) listing(payloads []Payload, now time.Time) Thread {
	if a.state.Seq == 0 {
		st := folded(a.id, payloads)
		st.UpdatedAt = now
		return st.view(a.svc.window(st.Settings))
	}
	t := a.state.view(a.window)
	t.UpdatedAt = now
	estimated := t.Occupancy.Source == transcript.Ruler && a.state.Usage.Source == ""
	sizes := map[transcript.ItemID]int{} // in the context, of items of this commit
	count := func(it transcript.Item) {
		was, known := sizes[it.ID]
		if at, old := a.state.itemAt[it.ID]; !known && old {
			was = sizeInContext(a.state.Transcript.Items[at])
		} else if !known {
			t.Items++
		}
		sizes[it.ID] = sizeInContext(it)
		if estimated {
			t.Occupancy.Context += sizes[it.ID] - was
		}
		if u, ok := it.Body.(transcript.UserMessage); ok && t.Preview == "" {
			t.Preview = preview(transcript.Text(u))
		}
	}
	for _, p := range payloads {
		t.describe(p)
		switch p := p.(type) {
		case ItemStarted:
			count(p.Item)
		case ItemCompleted:
			count(p.Item)
		case ThreadReverted:
			a.state.without(p.BeforeTurn).describe(&t)
		case UsageUpdated:
			estimated = estimated && p.Source == ""
		default: // adds no item and takes none
		}
	}
	t.Occupancy.Window = a.svc.window(t.Settings)
	return t
}

// sizeInContext is what an item weighs in a context.
func sizeInContext(it transcript.Item) int {
	if !transcript.InContext(it) {
		return 0
	}
	return transcript.Tokens(it.Body)
}

// describe changes what a listing shows of the thread, but for its items.
func (t *Thread) describe(p Payload) {
	switch p := p.(type) {
	case StatusChanged:
		t.Status, t.Flags = p.Status, p.Flags
	case QueueChanged:
		t.Queued = len(p.Queue)
	case NameUpdated:
		t.Name = p.Name
	case ThreadArchived:
		t.Archived = true
	case ThreadUnarchived:
		t.Archived = false
	case SettingsUpdated:
		t.Settings = p.Settings
	case MetadataUpdated:
		t.Git = p.Git
	case TurnStarted:
		t.Turns++
	case UsageUpdated:
		if p.Source == "" {
			return // of no size
		}
		t.Occupancy.Context, t.Occupancy.Base, t.Occupancy.Source = p.Context, p.Base, p.Source
	case CompactionUpdated:
		if p.Boundary != nil {
			t.Epoch = p.Boundary.Epoch
		}
	case CompactionUndone:
		if p.Boundary != nil {
			t.Epoch = p.Boundary.Epoch
		}
	default: // shown by no listing
	}
}

// folded is the state that payloads make of nothing.
func folded(id transcript.ThreadID, payloads []Payload) *state {
	st := newState(id)
	for i, p := range payloads {
		evolve(st, int64(i+1), time.Time{}, p)
	}
	return st
}

// streams reports whether items of this kind have streamed text.
func streams(b transcript.Body) bool {
	k := b.Kind()
	return k == transcript.KindAgentMessage || k == transcript.KindReasoning
}
