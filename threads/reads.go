package threads

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// ItemQuery selects items of a thread.
type ItemQuery struct {
	PageQuery
	Turn transcript.TurnID // empty: of all turns
}

// view describes the thread. A thread that waits between two turns of its queue
// is what its status says.
func (s *state) view(window int) Thread {
	t := Thread{
		ID: s.ID, Settings: s.Settings, Name: s.Name, Preview: s.Preview, Status: s.Status,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Imported: s.Imported,
		Origin: s.Origin, Archived: s.Archived, Git: s.Git, Flags: s.Flags, NativeSession: s.nativeFor(s.Settings.Provider),
		Turns: len(s.Transcript.Turns), Items: len(s.Transcript.Items), Queued: len(s.Queue), Epoch: s.Transcript.Epoch(),
		Occupancy: Occupancy{Context: s.Usage.Context, Base: s.Usage.Base, Window: window, Source: s.Usage.Source},
	}
	if t.Occupancy.Source == "" {
		t.Occupancy.Context, t.Occupancy.Source = s.tokens, transcript.Ruler
	}
	return t
}

// ReadThread describes a thread.
func (s *Service) ReadThread(ctx context.Context, id transcript.ThreadID) (ThreadRead, error) {
	r, err := query(ctx, s, id, func(a *actor) ThreadRead {
		return ThreadRead{Thread: a.state.view(a.window), AsOf: a.state.cursor()}
	})
	return r, err
}

// journalOf returns the id of a thread's journal, the first half of its cursors.
func (s *Service) journalOf(ctx context.Context, id transcript.ThreadID) (string, error) {
	info, err := s.cfg.Journal.Info(ctx, string(id))
	if err != nil {
		return "", fmt.Errorf("journal of thread %s: %w", id, err)
	}
	return info.JournalID, nil
}

// ListItems lists the timeline of a thread in order.
func (s *Service) ListItems(ctx context.Context, id transcript.ThreadID, q ItemQuery) (ItemPage, error) {
	p, err := query(ctx, s, id, func(a *actor) paged[ItemView] {
		return page(q.PageQuery, len(a.state.Transcript.Items), func(i int) (ItemView, bool) {
			if q.Turn != "" && a.state.Transcript.Items[i].Turn != q.Turn {
				return ItemView{}, false
			}
			return a.state.itemView(i)
		})
	})
	return ItemPage{p.items, p.next, p.back}, errors.Join(err, p.err)
}

// itemView returns an item of the timeline; false for what has no place of its
// own in it: results that stand beside their call, and what was opened and never
// said anything.
func (s *state) itemView(i int) (ItemView, bool) {
	it := s.Transcript.Items[i]
	v := ItemView{Item: it}
	switch it.Body.(type) {
	case transcript.ToolCall:
		if r, ok := s.resultOf[it.ID]; ok {
			v.Result = &s.Transcript.Items[r]
		}
		return v, true
	case transcript.ToolResult:
		return v, !s.paired[it.ID]
	case transcript.Checkpoint:
		return v, false
	case transcript.ContextCompaction:
		return v, s.open[it.ID] || !it.CompletedAt.IsZero()
	default:
		return v, s.open[it.ID] || transcript.InContext(it)
	}
}

// ReadCompaction returns the record of one compaction.
func (s *Service) ReadCompaction(ctx context.Context, id transcript.ThreadID, cid transcript.CompactionID) (compaction.Record, error) {
	rec, err := query(ctx, s, id, func(a *actor) *compaction.Record {
		if r := a.state.compaction(cid); r != nil {
			return new(*r)
		}
		return nil
	})
	if err == nil && rec == nil {
		err = fault.New(fault.NotFound, "thread %s has no compaction %s", id, cid)
	}
	return valueOf(rec), err
}

// ListCompactions lists the records of a thread, oldest
// first unless q says otherwise.
func (s *Service) ListCompactions(ctx context.Context, id transcript.ThreadID, q PageQuery) (CompactionPage, error) {
	p, err := query(ctx, s, id, func(a *actor) paged[compaction.Record] {
		recs := a.state.Compactions
		return page(q, len(recs), func(i int) (compaction.Record, bool) { return recs[i], true })
	})
	return CompactionPage{p.items, p.next}, errors.Join(err, p.err)
}

// ReadContext returns the context of an epoch, nil for the current one. For the
// current epoch it is what the next request would hold before the new message.
func (s *Service) ReadContext(ctx context.Context, id transcript.ThreadID, epoch *int) (ContextRead, error) {
	type result struct {
		read ContextRead
		err  error
	}
	r, err := query(ctx, s, id, func(a *actor) result {
		read, err := a.readContext(epoch)
		return result{read, err}
	})
	if err = errors.Join(err, r.err); err != nil {
		return ContextRead{}, err
	}
	return r.read, nil
}

// base is the size of the base of each request: that of the open session, or as
// it was reported last.
func (a *actor) base() int {
	if a.session != nil {
		return a.session.base + a.carried.tokens
	}
	return a.state.Usage.Base
}

// bare is base by transcript.EstimateText.
func (a *actor) bare() int {
	if a.session != nil {
		return a.session.bare + a.carried.bare
	}
	return a.state.Usage.Base
}

func (a *actor) readContext(epoch *int) (ContextRead, error) {
	t := &a.state.Transcript
	current := t.Epoch()
	if epoch == nil {
		epoch = &current
	}
	entries, err := slices.Clone(a.state.context), error(nil)
	if *epoch != current {
		entries, err = t.Context(*epoch)
	}
	if err != nil {
		return ContextRead{}, fault.Wrap(fault.NotFound, err, "epoch %d does not exist: thread %s has the epochs 0 to %d", *epoch, a.id, current)
	}
	preamble := a.preamble() // before the base is measured, which it is a part of
	read := ContextRead{
		Preamble: preamble,
		Epoch:    *epoch, Epochs: current, Entries: entries, AsOf: a.state.cursor(),
		BaseTok: a.base(), Window: a.window,
	}
	if a.session != nil {
		read.Base = a.session.Base()
	}

	read.Tokens = read.BaseTok + a.state.tokens
	if *epoch != current {
		read.Tokens = read.BaseTok
		for _, e := range entries {
			read.Tokens += transcript.Tokens(e.Item.Body)
		}
	}
	if *epoch > 0 {
		read.Boundary = &t.Boundaries[*epoch-1]
	}
	if *epoch == current {
		read.Reanchor = a.state.Reanchor
	}
	return read, nil
}

// Providers describes what is configured, in order.
func (s *Service) Providers(context.Context) []ProviderInfo {
	infos := make([]ProviderInfo, len(s.cfg.Providers))
	for i, p := range s.cfg.Providers {
		infos[i] = ProviderInfo{Name: p.Name, Kind: p.Kind, Default: i == 0, Models: append([]adapters.ModelInfo{}, s.modelsOf(p.Name)...)}
		s.mu.Lock()
		switch m := s.catalog[p.Name]; {
		case m.err != nil:
			infos[i].Error = messageOf(m.err)
		case m.asking:
			infos[i].Error = "it has not listed its models yet"
		}
		s.mu.Unlock()
	}
	return infos
}

// ReadEvents returns up to limit events (0: 100) of one thread, or of all if id
// is empty, after a cursor (nil: from the beginning), and the cursor after the
// last of them. A cursor that cannot be served is an *events.Reset.
func (s *Service) ReadEvents(ctx context.Context, id transcript.ThreadID, after *events.Cursor, limit int) ([]events.Event, events.Cursor, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return nil, events.Cursor{}, err
	}
	journal := s.cfg.Journal.ID()
	if id != "" {
		journal, err = s.journalOf(ctx, id)
		if errors.Is(err, events.ErrNotFound) {
			return nil, events.Cursor{}, fault.New(fault.NotFound, "thread %s does not exist", id)
		}
		if err != nil {
			return nil, events.Cursor{}, err
		}
	}
	at := events.Cursor{Journal: journal}
	if after != nil {
		if after.Journal != journal {
			return nil, at, &events.Reset{Reason: events.ResetJournalChanged}
		}
		at.N = after.N
	}
	if id == "" {
		evs, _, err := s.cfg.Journal.ReadAll(ctx, at.N, limit)
		if len(evs) > 0 {
			at.N = evs[len(evs)-1].Pos
		}
		return evs, at, err
	}
	evs, err := s.cfg.Journal.Read(ctx, string(id), at.N, limit)
	if len(evs) > 0 {
		at.N = evs[len(evs)-1].Seq
	}
	return evs, at, err
}
