package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// PageQuery selects a page. Cursor is what the page before returned as Next.
type PageQuery struct {
	Cursor string
	Limit  int // 1 to 1,000; 0 means 100
	Desc   bool
}

// ItemQuery selects items of a thread.
type ItemQuery struct {
	PageQuery
	Turn transcript.TurnID // empty: of all turns
}

// limits of a page.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageLimit(n int) (int, error) {
	if n == 0 {
		return defaultPage, nil
	}
	if n < 1 || n > maxPage {
		return 0, fault.New(fault.Invalid, "limit is %d; allowed: 1 to %d", n, maxPage)
	}
	return n, nil
}

// span walks positions 0 … n-1 of a list, forward or backward, from where the
// page before ended. A page's cursor is the position of its last element, so
// that growth at the end moves nothing; n itself is the end as it was.
func span(q PageQuery, n int) (next func() (int, bool), limit int, err error) {
	limit, err = pageLimit(q.Limit)
	if err != nil {
		return nil, 0, err
	}
	i, step := -1, 1
	if q.Desc {
		i, step = n, -1
	}
	if q.Cursor != "" {
		at, err := strconv.Atoi(q.Cursor)
		if err != nil || at < 0 || at > n {
			return nil, 0, fault.New(fault.Invalid, "invalid cursor %q: use the nextCursor of the page before", q.Cursor)
		}
		i = at
	}
	return func() (int, bool) {
		i += step
		return i, i >= 0 && i < n
	}, limit, nil
}

// page collects up to limit elements; at yields the element at a position, or
// false for one that is not shown.
func page[T any](q PageQuery, n int, at func(i int) (T, bool)) ([]T, string, error) {
	next, limit, err := span(q, n)
	if err != nil {
		return nil, "", err
	}
	out, last := []T{}, 0
	for i, ok := next(); ok; i, ok = next() {
		v, shown := at(i)
		if !shown {
			continue
		}
		if len(out) == limit {
			return out, strconv.Itoa(last), nil
		}
		out, last = append(out, v), i
	}
	return out, "", nil
}

// paged is the result of a query that makes a page.
type paged[T any] struct {
	items []T
	next  string
	err   error
}

// view describes the thread. A thread that waits between two turns of its queue
// is what its status says.
func (s *state) view(window int) Thread {
	t := Thread{
		ID: s.ID, Settings: s.Settings, Name: s.Name, Preview: s.Preview, Status: s.Status,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Imported: s.Imported,
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

// ListThreads lists threads, the one that changed last first. It loads none.
func (s *Service) ListThreads(ctx context.Context, q PageQuery) (ThreadPage, error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return ThreadPage{}, err
	}
	lq := events.ListQuery{Limit: limit + 1}
	if q.Cursor != "" {
		lq.BeforePos, err = strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil || lq.BeforePos <= 0 {
			return ThreadPage{}, fault.New(fault.Invalid, "invalid cursor %q: use the nextCursor of the page before", q.Cursor)
		}
	}
	infos, err := s.cfg.Journal.List(ctx, lq)
	if err != nil {
		return ThreadPage{}, fmt.Errorf("list threads: %w", err)
	}
	p := ThreadPage{Threads: []Thread{}}
	if len(infos) > limit {
		infos = infos[:limit]
		p.Next = strconv.FormatInt(infos[limit-1].HeadPos, 10)
	}
	for _, info := range infos {
		t, err := listed(info)
		if err != nil {
			t.Damaged = err.Error()
		}
		p.Threads = append(p.Threads, t)
	}
	return p, nil
}

// listed is a thread as its listing document describes it.
func listed(info events.ThreadInfo) (Thread, error) {
	t := Thread{}
	err := json.Unmarshal(info.Info, &t)
	if err != nil {
		t = Thread{Status: StatusSystemError}
		err = fmt.Errorf("its description cannot be read: %w", err)
	}
	t.ID, t.UpdatedAt = transcript.ThreadID(info.Thread), info.UpdatedAt
	return t, err
}

// ListTurns lists the turns of a thread in order, without items. Queued turns
// are not among them.
func (s *Service) ListTurns(ctx context.Context, id transcript.ThreadID, q PageQuery) (TurnPage, error) {
	p, err := query(ctx, s, id, func(a *actor) paged[TurnView] {
		turns := a.state.Transcript.Turns
		items, next, err := page(q, len(turns), func(i int) (TurnView, bool) {
			return TurnView{Turn: turns[i], Items: []transcript.Item{}}, true
		})
		return paged[TurnView]{items, next, err}
	})
	return TurnPage{p.items, p.next}, errors.Join(err, p.err)
}

// ReadTurn returns a turn, also one that waits in the queue.
func (s *Service) ReadTurn(ctx context.Context, id transcript.ThreadID, turn transcript.TurnID) (TurnView, error) {
	v, err := query(ctx, s, id, func(a *actor) *TurnView {
		if i, ok := a.state.turnAt[turn]; ok {
			return &TurnView{Turn: a.state.Transcript.Turns[i], Items: []transcript.Item{}}
		}
		for _, q := range a.state.Queue {
			if q.TurnID == turn {
				ack := ackOf(a.state, turn)
				return &ack.Turn
			}
		}
		return nil
	})
	if err != nil {
		return TurnView{}, err
	}
	if v == nil {
		return TurnView{}, fault.New(fault.NotFound, "thread %s has no turn %s", id, turn)
	}
	return *v, nil
}

// ListItems lists the timeline of a thread in order.
func (s *Service) ListItems(ctx context.Context, id transcript.ThreadID, q ItemQuery) (ItemPage, error) {
	p, err := query(ctx, s, id, func(a *actor) paged[ItemView] {
		items, next, err := page(q.PageQuery, len(a.state.Transcript.Items), func(i int) (ItemView, bool) {
			v, shown := a.state.itemView(i)
			return v, shown && (q.Turn == "" || v.Item.Turn == q.Turn)
		})
		return paged[ItemView]{items, next, err}
	})
	return ItemPage{p.items, p.next}, errors.Join(err, p.err)
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
		items, next, err := page(q, len(recs), func(i int) (compaction.Record, bool) { return recs[i], true })
		return paged[compaction.Record]{items, next, err}
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
		return a.session.base
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
	read := ContextRead{
		Epoch: *epoch, Epochs: current, Entries: entries, AsOf: a.state.cursor(),
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
		if m := s.catalog[p.Name]; m.err != nil {
			infos[i].Error = fault.MessageOf(m.err)
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
