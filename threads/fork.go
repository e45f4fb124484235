package threads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// ForkParams says what a fork takes over. At most one of LastTurn and BeforeTurn
// is set; without them it takes all turns that have ended.
type ForkParams struct {
	Thread         transcript.ThreadID
	LastTurn       transcript.TurnID // the last one to take, which must have ended, and what was added since
	BeforeTurn     transcript.TurnID // the first one to leave
	Settings       SettingsPatch
	Origin         Origin // ForkedFrom is set by the service
	IdempotencyKey string
}

// forkMethod is what the ids of forks with an idempotency key are derived from.
const forkMethod = "thread/fork"

// Fork makes a thread of the beginning of another one. Turns and items keep their
// ids. The fork has the epoch that the source had at that point: its first request
// is what the source's next one would have been. It has the name, tools and
// settings that the source has now, and stands alone: what becomes of the source
// does not touch it.
func (s *Service) Fork(ctx context.Context, p ForkParams) (ThreadRead, error) {
	if p.LastTurn != "" && p.BeforeTurn != "" {
		return ThreadRead{}, fault.New(fault.Invalid, "lastTurnId and beforeTurnId cannot be combined; leave one out")
	}
	if err := (CreateParams{Origin: p.Origin}).check(); err != nil {
		return ThreadRead{}, err
	}
	key := p.IdempotencyKey
	p.IdempotencyKey, p.Origin.ForkedFrom = "", p.Thread
	hash := requestHash(p)
	if key != "" { // the source may have moved on, or be gone
		_, err := s.cfg.Journal.Info(ctx, string(derivedID(s.cfg.Journal.ID(), forkMethod, key)))
		if err == nil {
			return s.create(ctx, createThread{}, forkMethod, key, hash)
		} else if !errors.Is(err, events.ErrNotFound) {
			return ThreadRead{}, fmt.Errorf("look for the fork: %w", err)
		}
	}
	c, err := s.forked(ctx, p)
	if err != nil {
		return ThreadRead{}, err
	}
	return s.create(ctx, c, forkMethod, key, hash)
}

// A forkPoint is a source at one moment, and where its history is cut.
type forkPoint struct {
	started ThreadStarted     // of the fork
	before  transcript.TurnID // cut before this turn, if set
	head    int64
	window  int
}

// forkPoint finds the cut. A turn in progress is left out. What was added after a
// turn belongs to it, so that the end of one is where the next begins.
func (a *actor) forkPoint(p ForkParams) (forkPoint, error) {
	s := a.state
	f := forkPoint{before: p.BeforeTurn, head: s.Seq, window: a.window}
	for _, id := range []transcript.TurnID{p.LastTurn, p.BeforeTurn} {
		if _, ok := s.turnAt[id]; id != "" && !ok {
			return f, errNoTurn(id)
		}
	}
	turns := s.Transcript.Turns
	switch at := s.turnAt[p.LastTurn]; {
	case p.LastTurn != "" && turns[at].Status == transcript.TurnInProgress:
		return f, fault.New(fault.Invalid, "turn %s is in progress; a thread can be forked after a turn that has ended", p.LastTurn)
	case p.LastTurn != "" && at+1 < len(turns):
		f.before = turns[at+1].ID
	case p.LastTurn == "" && p.BeforeTurn == "":
		f.before = s.Active
	}
	f.started = ThreadStarted{Settings: s.Settings, Name: s.Name, Tools: s.Tools, Git: s.Git, Imported: s.Imported}
	return f, nil
}

// forked returns the fork of a thread: one commit.
func (s *Service) forked(ctx context.Context, p ForkParams) (createThread, error) {
	type found struct {
		forkPoint
		err error
	}
	f, err := query(ctx, s, p.Thread, func(a *actor) found {
		point, err := a.forkPoint(p)
		return found{point, err}
	})
	if err = errors.Join(err, f.err); err != nil {
		return createThread{}, err
	}
	now := s.now()
	c := createThread{started: f.started, times: []time.Time{now}}
	c.started.Origin, c.started.CreatedAt = p.Origin, transcript.Millis(now)
	c.started.Settings, err = s.resettle(f.started.Settings, p.Settings.apply(f.started.Settings))
	if err == nil {
		err = s.copyHistory(ctx, p.Thread, f.forkPoint, &c)
	}
	if err == nil {
		c.blobs, err = s.keptBlobs(ctx, c.history)
	}
	if err != nil || len(c.history) == 0 {
		return c, err
	}
	c.history = append(c.history, inherited(folded("", c.payloads()), s.window(c.started.Settings)))
	return c, nil
}

// inherited reports the tokens of a fork as it begins, which is also its newest
// event.
func inherited(st *state, window int) Payload {
	u := st.Usage
	if u.Source == "" {
		u.Context, u.Source = st.tokens, transcript.Ruler
	}
	if n := len(st.Transcript.Turns); n > 0 {
		u.TurnID = st.Transcript.Turns[n-1].ID
	}
	u.Window = window
	u.Last, u.Estimate, u.Model, u.Gate, u.Learned = adapters.Usage{}, 0, "", nil, nil // the history said so already, at its place
	return u
}

// copyHistory reads the source's events up to the cut.
func (s *Service) copyHistory(ctx context.Context, id transcript.ThreadID, f forkPoint, c *createThread) error {
	for at := int64(0); at < f.head; {
		evs, err := s.cfg.Journal.Read(ctx, string(id), at, readBatch)
		if err == nil && len(evs) == 0 {
			err = fault.New(fault.Corrupt, "thread %s: event %d of %d is missing", id, at+1, f.head)
		}
		if err != nil {
			return fmt.Errorf("read the source of the fork: %w", err)
		}
		for _, e := range evs {
			if at = e.Seq; at > f.head && e.Type != (ThreadDeleted{}).EventType() {
				break
			}
			done, err := c.copy(e, f)
			if err != nil {
				return err
			}
			if done {
				at = f.head
				break
			}
		}
	}
	c.dropUnfinished()
	return nil
}

// copy takes over one event of the source; done after the last one. What the
// fork has of its own, what only the source can answer and what describes the
// source's present stays behind.
func (c *createThread) copy(e events.Event, f forkPoint) (done bool, err error) {
	p, err := Decode(e)
	if err != nil {
		return false, fault.Wrap(fault.Corrupt, err, "thread %s cannot be forked: event %d is damaged", e.Thread, e.Seq)
	}
	switch p := p.(type) {
	case ThreadDeleted:
		return false, fault.New(fault.NotFound, "thread %s was deleted", e.Thread)
	case ThreadStarted, StatusChanged, QueueChanged, RequestCreated, RequestResolved,
		NameUpdated, ThreadArchived, ThreadUnarchived, SettingsUpdated, MetadataUpdated, SessionUpdated:
		return false, nil
	case TurnStarted:
		if p.Turn.ID == f.before {
			return true, nil
		}
	default: // part of the history
	}
	c.history, c.times = append(c.history, withoutKey(p)), append(c.times, e.At)
	return false, nil
}

// dropUnfinished drops what the history tells of compactions that ended after it:
// nothing goes on in a fork.
func (c *createThread) dropUnfinished() {
	ended := map[transcript.CompactionID]bool{}
	for _, p := range c.history {
		if u, ok := p.(CompactionUpdated); ok && u.Record.Terminal() {
			ended[u.Record.CompactionID] = true
		}
	}
	history, times := c.history[:0], c.times[:1]
	for i, p := range c.history {
		if u, ok := p.(CompactionUpdated); ok && !ended[u.Record.CompactionID] {
			continue
		}
		history, times = append(history, p), append(times, c.times[i+1])
	}
	c.history, c.times = history, times
}

// keptBlobs names the blobs that the history refers to, so that they stay as long
// as the fork does. One that was never stored is nobody's to keep.
func (s *Service) keptBlobs(ctx context.Context, history []Payload) ([]events.Blob, error) {
	var kept []events.Blob
	known := map[string]bool{}
	for _, p := range history {
		for _, hash := range blobsIn(p) {
			if known[hash] {
				continue
			}
			known[hash] = true
			_, err := s.cfg.Journal.Blob(ctx, hash)
			switch {
			case errors.Is(err, events.ErrNotFound):
			case err != nil:
				return nil, fmt.Errorf("read a blob of the source: %w", err)
			default:
				kept = append(kept, events.Blob{Hash: hash})
			}
		}
	}
	return kept, nil
}
