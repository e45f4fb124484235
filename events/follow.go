package events

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
	"unicode/utf8"
)

// A follower reads at most readLimit events at once, and about pageBytes: it
// holds them as long as its client takes to read them.
const (
	readLimit = 256
	firstRead = 32
	pageBytes = 1 << 20
)

// Follow returns the events after a cursor and then what happens, until ctx
// ends or the caller stops. The sequence ends after a reset, after the deletion
// event of a deleted thread, and with an error: ErrNotFound for an unknown
// thread, ErrClosed when the hub closes, or what the journal returned.
//
// An item that is open when following begins and was opened before the cursor
// is told first, by a repeat of its opening event and one delta from offset 0.
// If the append that opens it has not returned then, although the cursor is
// already after it, the repeat comes as soon as it has, which may be after
// KindLive, and what there is of the text in its turn.
func (h *Hub) Follow(ctx context.Context, q FollowQuery) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		f := &follower{hub: h, thread: q.Thread, beat: q.Heartbeat, yield: yield, page: firstRead}
		err := f.join(ctx)
		if err == nil {
			defer f.quit()
			err = f.run(ctx, q.After)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errStop) {
			f.fail(err)
		}
	}
}

// fail ends the sequence with an error.
//
// It is not inlined, as others here: what remains on the stack of a follower
// that waits counts as often as there are followers.
//
//go:noinline
func (f *follower) fail(err error) { f.yield(Message{}, err) }

// Head returns the cursor of the newest event of a thread, or of all threads
// for "".
func (h *Hub) Head(ctx context.Context, thread string) (Cursor, error) {
	if thread != "" {
		info, err := h.journal.Info(ctx, thread)
		return Cursor{info.JournalID, info.Head}, err
	}
	_, head, err := h.bounds(ctx)
	return Cursor{h.journal.ID(), head}, err
}

// bounds returns the oldest and the newest position of all threads.
func (h *Hub) bounds(ctx context.Context) (oldest, head int64, err error) {
	_, head, err = h.journal.ReadAll(ctx, 0, 0)
	for reset := (*Reset)(nil); errors.As(err, &reset) && reset.Oldest > oldest; {
		oldest = reset.Oldest
		_, head, err = h.journal.ReadAll(ctx, oldest, 0)
	}
	return oldest, head, err
}

// errStop ends a follower whose sequence is over.
var errStop = errors.New("events: the sequence is over")

// A follower is one running Follow.
type follower struct {
	hub    *Hub
	thread string
	beat   time.Duration
	yield  func(Message, error) bool

	stream *stream
	cursor Cursor
	start  int64 // where it began
	target int64 // where the backlog ends
	live   bool
	page   int // how many events to read next
	items  []sentText
	late   int  // how many of the stream's late texts it looked at
	quiet  bool // nothing was delivered since the heartbeat timer was set
}

// A sentText is an item whose opening was delivered and whose closing was not.
type sentText struct {
	opened *Event
	text   *openText // nil until it is known
	item   string
	offset int
}

func sentOf(o *openText) sentText { return sentText{opened: &o.opened, text: o, item: o.item} }

func (f *follower) run(ctx context.Context, after *Cursor) error {
	if err := f.begin(ctx, after); err != nil {
		return err
	}
	var timer *time.Timer
	if f.beat > 0 {
		timer = time.NewTimer(f.beat)
		defer timer.Stop()
	}
	for {
		changed, err := f.step(ctx)
		if err == nil && changed != nil {
			err = f.wait(ctx, changed, timer)
		}
		if err != nil {
			return err
		}
	}
}

// step delivers what there is, or returns what to wait for.
//
//go:noinline
func (f *follower) step(ctx context.Context) (<-chan struct{}, error) {
	if err := f.over(ctx); err != nil {
		return nil, err
	}
	v := f.look()
	if len(v.late) > 0 {
		return nil, f.repeat(v.late)
	}
	if f.cursor.N >= f.target && f.cursor.N < v.head {
		// The backlog is over, although there is more already.
		if err := f.goLive(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(v.entries) > 0:
		return nil, f.deliver(v.entries)
	case v.behind:
		return nil, f.catchUp(ctx, v.head)
	}
	for _, d := range v.deltas {
		if err := f.send(Message{Kind: KindDelta, Delta: d.delta()}); err != nil {
			return nil, err
		}
	}
	if err := f.goLive(); err != nil {
		return nil, err
	}
	if v.ended {
		return nil, errStop
	}
	return v.changed, nil
}

// catchUp delivers the next page of the journal; head was published.
func (f *follower) catchUp(ctx context.Context, head int64) error {
	entries, err := f.read(ctx)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		f.cursor.N = head // what was there is deleted
	}
	// The page may have the end of an item whose opening was published while it
	// was read, which must be told before.
	f.hub.mu.Lock()
	late := f.latecomers()
	f.hub.mu.Unlock()
	if err := f.repeat(late); err != nil {
		return err
	}
	return f.deliver(entries)
}

func (f *follower) over(ctx context.Context) error {
	select {
	case <-f.hub.done:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// A view is what a follower sees in one moment.
type view struct {
	changed <-chan struct{}
	entries []entry // next, if they are at hand
	behind  bool    // there are events that are not
	head    int64
	late    []sentText // to be repeated, if any, and nothing else
	deltas  []piece    // if there is nothing else
	ended   bool
}

// A piece is a delta that has not been copied yet.
type piece struct {
	sentText
	text []byte
}

func (p *piece) delta() Delta {
	return Delta{Opened: p.opened, Item: p.item, Offset: int64(p.offset), Text: string(p.text)}
}

func (f *follower) look() view {
	h, s := f.hub, f.stream
	h.mu.Lock()
	defer h.mu.Unlock()
	v := view{changed: s.changed(), head: s.head, late: f.latecomers()}
	if len(v.late) > 0 {
		return v
	}
	if f.cursor.N < s.head {
		var ok bool
		v.entries, ok = s.tail.after(f.cursor.N, readLimit)
		v.behind = !ok
		return v
	}
	// Whatever ended an item is delivered; if that was no event, nothing comes.
	f.items = slices.DeleteFunc(f.items, func(it sentText) bool { return it.text != nil && it.text.ended })
	v.deltas = f.pieces()
	v.ended = s.ended
	return v
}

// pieces returns what the follower lacks of the texts it follows, and counts
// it as sent. The caller holds Hub.mu.
func (f *follower) pieces() (out []piece) {
	for i := range f.items {
		it := &f.items[i]
		if o := f.hub.find(it.opened.Thread, it.item); it.text == nil && o != nil && o.opened.Seq == it.opened.Seq {
			it.text = o
		}
		o := it.text
		if o == nil || o.ready <= it.offset {
			continue
		}
		out = append(out, piece{*it, o.buf[it.offset:o.ready:o.ready]})
		it.offset = o.ready
	}
	return out
}

// read asks the journal for the next events. A cursor that it does not serve
// ends the sequence.
func (f *follower) read(ctx context.Context) ([]entry, error) {
	var evs []Event
	var err error
	if f.thread == "" {
		evs, _, err = f.hub.journal.ReadAll(ctx, f.cursor.N, f.page)
	} else {
		evs, err = f.hub.journal.Read(ctx, f.thread, f.cursor.N, f.page)
	}
	if reset := (*Reset)(nil); errors.As(err, &reset) {
		return nil, f.reset(ctx, reset)
	}
	evs, bytes := pageOf(evs)
	entries := make([]entry, len(evs))
	for i, e := range evs {
		entries[i] = entry{e, f.hub.textOf(e)}
	}
	f.page = min(max(len(evs)*pageBytes/bytes, 1), readLimit)
	return entries, err
}

// pageOf returns as many events as a follower may hold, and their size: how many to
// read was guessed from those before. What is left out is read again.
func pageOf(evs []Event) ([]Event, int) {
	bytes := 1
	for i, e := range evs {
		if i > 0 && bytes+len(e.Data) > pageBytes {
			return evs[:i], bytes
		}
		bytes += len(e.Data)
	}
	return evs, bytes
}

// reset tells that the cursor is not served, with the oldest one that is.
func (f *follower) reset(ctx context.Context, r *Reset) error {
	oldest := int64(0)
	if f.thread == "" {
		var err error
		if oldest, _, err = f.hub.bounds(ctx); err != nil {
			return err
		}
	} else {
		info, err := f.hub.journal.Info(ctx, f.thread)
		if err != nil {
			return err
		}
		oldest = info.Oldest - 1
	}
	f.cursor.N = oldest
	if err := f.send(Message{Kind: KindReset, Reset: &Reset{Reason: r.Reason, Oldest: oldest}}); err != nil {
		return err
	}
	return errStop
}

// repeat tells items that were opened before the cursor and are open.
func (f *follower) repeat(open []sentText) error {
	for _, o := range open {
		if err := f.send(Message{Kind: KindEvent, Event: *o.opened, Repeat: true}); err != nil {
			return err
		}
		f.items = append(f.items, o)
		if f.live {
			continue // what is not delivered yet comes before the text
		}
		f.hub.mu.Lock()
		pieces := f.pieces()
		f.hub.mu.Unlock()
		for _, p := range pieces {
			if err := f.send(Message{Kind: KindDelta, Delta: p.delta()}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *follower) position(e *Event) int64 {
	if f.thread == "" {
		return e.Pos
	}
	return e.Seq
}

func (f *follower) deliver(entries []entry) error {
	for i := range entries {
		e := &entries[i]
		if e.change.Op == TextCloses {
			if err := f.rest(e); err != nil {
				return err
			}
		}
		f.cursor.N = f.position(&e.Event)
		if err := f.send(Message{Kind: KindEvent, Event: e.Event, More: i < len(entries)-1}); err != nil {
			return err
		}
		if e.change.Op == TextOpens {
			opened := e.Event
			f.items = append(f.items, sentText{opened: &opened, item: e.change.Item})
		}
	}
	return nil
}

// rest delivers what a follower lacks of a text before its closing event.
func (f *follower) rest(e *entry) error {
	for i, it := range f.items {
		if it.item != e.change.Item || it.opened.Thread != e.Thread {
			continue
		}
		f.items = append(f.items[:i], f.items[i+1:]...)
		text := e.change.Text
		if it.offset >= len(text) || !utf8.RuneStart(text[it.offset]) {
			return nil
		}
		return f.send(Message{Kind: KindDelta, More: true, Delta: Delta{
			Opened: it.opened, Item: it.item, Offset: int64(it.offset), Text: text[it.offset:],
		}})
	}
	return nil
}

func (f *follower) goLive() error {
	if f.live {
		return nil
	}
	f.live = true
	return f.send(Message{Kind: KindLive})
}

func (f *follower) send(m Message) error {
	m.Cursor = f.cursor
	f.quiet = false
	if !f.yield(m, nil) {
		return errStop
	}
	return nil
}

// wait waits for a change, and tells the client that it is still there when
// there is none.
func (f *follower) wait(ctx context.Context, changed <-chan struct{}, timer *time.Timer) error {
	var beat <-chan time.Time
	if timer != nil {
		beat = timer.C
		if !f.quiet {
			f.quiet = true
			timer.Reset(f.beat)
		}
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.hub.done:
		return ErrClosed
	case <-beat:
		return f.heartbeat()
	}
}

//go:noinline
func (f *follower) heartbeat() error { return f.send(Message{Kind: KindHeartbeat}) }
