package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// readBatch is how many events are read at once.
const readBatch = 128

// errUnknown reports a thread that never was, not even a deleted one.
var errUnknown = errors.New("threads: unknown thread")

// fold returns a thread's state as the journal has it. A thread that is unknown or deleted is NotFound; one whose events
// cannot be read is Corrupt, and the message says which event.
func (s *Service) fold(ctx context.Context, id transcript.ThreadID) (*state, error) {
	info, err := s.cfg.Journal.Info(ctx, string(id))
	if errors.Is(err, events.ErrNotFound) {
		return nil, errUnknown
	}
	if err == nil && info.Deleted {
		return nil, fault.New(fault.NotFound, "thread %s was deleted", id)
	}
	if err != nil {
		return nil, fmt.Errorf("load thread %s: %w", id, err)
	}
	st := s.unpack(ctx, id)
	st.journal, st.unpacked = info.JournalID, st.Seq
	for st.Seq < info.Head {
		evs, err := s.cfg.Journal.Read(ctx, string(id), st.Seq, readBatch)
		if reset, ok := errors.AsType[*events.Reset](err); ok {
			return nil, fault.Wrap(fault.Corrupt, reset, "thread %s: its events before %d were trimmed and no snapshot holds them", id, reset.Oldest)
		}
		if err != nil {
			return nil, fmt.Errorf("load thread %s: %w", id, err)
		}
		if len(evs) == 0 {
			return nil, fault.New(fault.Corrupt, "thread %s: event %d of %d is missing", id, st.Seq+1, info.Head)
		}
		for _, e := range evs {
			p, err := Decode(e)
			if err != nil {
				return nil, fault.Wrap(fault.Corrupt, err, "thread %s cannot be read: event %d is damaged", id, e.Seq)
			}
			evolve(st, e.Seq, e.At, p)
		}
	}
	return st, nil
}

// unpack returns the state of the newest snapshot, or an empty one. A snapshot is
// a cache: one that cannot be used is as good as none.
func (s *Service) unpack(ctx context.Context, id transcript.ThreadID) *state {
	snap, err := s.cfg.Journal.Snapshot(ctx, string(id))
	if err != nil || snap.Version != snapshotVersion {
		return newState(id)
	}
	st := newState(id)
	if err := json.Unmarshal(snap.Data, st); err != nil || st.Seq != snap.Seq {
		s.log.Warn("snapshot ignored", "thread", id, "err", err)
		return newState(id)
	}
	st.reindex()
	return st
}

// saveSnapshot stores the state, so that the next load reads little. Failing
// costs only time.
func (a *actor) saveSnapshot() {
	if a.state.Seq-a.saved < snapshotEvery {
		return
	}
	data, err := transcript.Encode(a.state)
	if err == nil {
		err = a.svc.cfg.Journal.PutSnapshot(context.WithoutCancel(a.ctx), string(a.id), events.Snapshot{Seq: a.state.Seq, Version: snapshotVersion, Data: data})
	}
	if err != nil {
		a.svc.log.Warn("save snapshot", "thread", a.id, "err", err)
		return
	}
	a.saved = a.state.Seq
}

// snapshotEvery is how many events a snapshot must save to be worth its write.
const snapshotEvery = 64
