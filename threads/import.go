package threads

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/importer/plimsoll"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// ImportParams says how to import a session file.
type ImportParams struct {
	Provider       string // that the thread continues with; empty: the default
	Model          string
	Cwd            string // empty: that of the file
	IdempotencyKey string
}

// Import reads a session file into a new thread. The thread exists with its
// whole history or not at all.
func (s *Service) Import(ctx context.Context, r io.Reader, p ImportParams) (ImportResult, error) {
	file, err := importer.Read(r, importer.Limits{MaxBytes: maxImport})
	if err != nil {
		return ImportResult{}, err
	}
	if p.Cwd == "" && filepath.IsAbs(file.Cwd) {
		p.Cwd = file.Cwd
	}
	settings, err := s.settle(Settings{Provider: p.Provider, Model: p.Model, Cwd: p.Cwd})
	if err != nil {
		return ImportResult{}, err
	}
	var c createThread
	if file.Events != nil {
		c, err = s.exported(file, settings, p)
	} else {
		c, err = s.imported(file, settings)
	}
	if err != nil {
		return ImportResult{}, err
	}
	hash := requestHash([]string{file.Hash, p.Provider, p.Model, p.Cwd})
	key := p.IdempotencyKey
	read, err := s.create(ctx, c, "thread/import", key, hash)
	if err != nil {
		return ImportResult{}, err
	}
	res := ImportResult{
		Thread: read.Thread, Source: file.Source, Epochs: read.Thread.Epoch, AsOf: read.AsOf,
		Items: map[transcript.Kind]int{}, Warnings: []string{}, Skipped: file.Skipped,
	}
	for _, it := range folded("", c.payloads()).Transcript.Items {
		res.Items[it.Body.Kind()]++
	}
	for _, w := range file.Warnings {
		res.Warnings = append(res.Warnings, warningText(w))
	}
	return res, nil
}

// maxImport bounds the uncompressed size of an imported file, which is held in
// memory several times over.
const maxImport = 128 << 20

func warningText(w importer.Warning) string {
	if w.Line == 0 {
		return w.Reason
	}
	return fmt.Sprintf("line %d: %s", w.Line, w.Reason)
}

// imported turns a session of another program into a thread's history. Calls
// that never got a result get their synthetic one here.
func (s *Service) imported(file *importer.Session, settings Settings) (createThread, error) {
	t, _ := transcript.AnswerOpenCalls(file.Transcript)
	c := createThread{started: ThreadStarted{
		Settings: settings, Name: file.Title, CreatedAt: transcript.Millis(s.now()),
		Imported: &Imported{Source: file.Source, SourceID: file.SourceID, Hash: file.Hash, Warnings: len(file.Warnings)},
	}}
	c.blobs = blobsOf(file)
	h := history{t: t, turns: map[transcript.TurnID]transcript.Turn{}, calls: map[transcript.CallID]transcript.Item{}, settings: settings}
	for _, turn := range t.Turns {
		h.turns[turn.ID] = turn
	}
	c.history = h.payloads()
	return c, nil
}

// TranscriptOf returns what a session file says as a transcript in which every
// call has its result, without making a thread of it.
func TranscriptOf(file *importer.Session) (transcript.Transcript, error) {
	t := file.Transcript
	if file.Events != nil {
		payloads, err := decodeExport(file)
		if err != nil {
			return t, err
		}
		t = folded("", payloads).Transcript
	}
	t, _ = transcript.AnswerOpenCalls(t)
	return t, nil
}

// history writes the events that a finished transcript would have caused.
type history struct {
	t        transcript.Transcript
	turns    map[transcript.TurnID]transcript.Turn
	calls    map[transcript.CallID]transcript.Item
	settings Settings
	out      []Payload
	current  transcript.TurnID
	begun    map[transcript.TurnID]bool
}

func (h *history) payloads() []Payload {
	h.begun = map[transcript.TurnID]bool{}
	next := 0
	for i, it := range h.t.Items {
		h.enter(it.Turn)
		h.item(it)
		for next < len(h.t.Boundaries) && h.t.Boundaries[next].Covered == i+1 {
			h.boundary(h.t.Boundaries[next], it.Turn)
			next++
		}
	}
	h.leave()
	return h.out
}

// enter ends the turn before and starts this one. Items of a turn that was ended
// already (files interleave them) are added without opening it again.
func (h *history) enter(id transcript.TurnID) {
	if id == h.current || h.begun[id] {
		return
	}
	h.leave()
	turn := h.turns[id]
	turn.ID = id
	if turn.Kind == "" {
		turn.Kind = transcript.TurnUser
	}
	turn.Status, turn.CompletedAt, turn.Error = transcript.TurnInProgress, transcript.FromMillis(0), nil
	h.current, h.begun[id] = id, true
	h.out = append(h.out, TurnStarted{Turn: turn})
}

func (h *history) leave() {
	if h.current == "" {
		return
	}
	turn := h.turns[h.current]
	turn.ID = h.current
	if turn.Kind == "" {
		turn.Kind = transcript.TurnUser
	}
	if turn.Status == "" || turn.Status == transcript.TurnInProgress {
		turn.Status = transcript.TurnCompleted
	}
	h.current = ""
	h.out = append(h.out, TurnCompleted{Turn: turn})
}

func (h *history) item(it transcript.Item) {
	switch b := it.Body.(type) {
	case transcript.ToolCall:
		h.calls[b.CallID] = it
		h.out = append(h.out, ItemStarted{Item: it})
	case transcript.ToolResult:
		done := ItemCompleted{Item: it}
		if call, ok := h.calls[b.CallID]; ok {
			done.Call = &call
			delete(h.calls, b.CallID)
		}
		h.out = append(h.out, done)
	default:
		h.out = append(h.out, ItemCompleted{Item: it})
	}
}

// boundary records a compaction that the file brought along. It was native to
// its program; what that disclosed is the checkpoint.
func (h *history) boundary(b transcript.Boundary, turn transcript.TurnID) {
	at := int64(0)
	if n := b.Covered; n > 0 {
		at = transcript.Millis(h.t.Items[n-1].CompletedAt)
	}
	rec := compaction.NewRecord()
	rec.CompactionID, rec.TurnID, rec.Trigger = b.CompactionID, turn, compaction.TriggerImport
	rec.Epoch, rec.BaseSeq, rec.RequestedAt = b.Epoch-1, int64(len(h.out))+1, at
	rec, _, _ = rec.Conclude(compaction.Verdict{
		Outcome: compaction.Completed, Route: compaction.RouteNative,
		Native: &compaction.NativeDone{Info: compaction.NativeInfo{Form: "imported"}},
	}, compaction.End{At: at})
	rec.StartedAt = &at
	if b.Checkpoint != nil {
		if text, err := json.Marshal(transcript.Text(b.Checkpoint.Body)); err == nil {
			rec.Native.Disclosed = (*transcript.RawJSON)(&text)
		}
	}
	h.out = append(h.out, CompactionUpdated{Record: rec, Boundary: &b})
}

// exported turns this program's own export back into events. The thread keeps
// its history but not its id, and continues with the provider that was asked
// for, if one was.
//
// Nothing in it runs: what was open is ended, what waited is dropped.
func (s *Service) exported(file *importer.Session, settings Settings, p ImportParams) (createThread, error) {
	var c createThread
	payloads, err := decodeExport(file)
	if err != nil {
		return c, err
	}
	for i, e := range file.Events {
		payload := untaught(withoutKey(payloads[i]))
		if _, is := payload.(SessionUpdated); is {
			continue // it is driven by the thread that was exported
		}
		c.times = append(c.times, transcript.FromMillis(e.AtMs))
		if _, ends := payload.(ThreadDeleted); ends {
			return c, fault.New(fault.Invalid, "the export cannot be read: event %d deletes the thread", i+1)
		}
		started, first := payload.(ThreadStarted)
		if first != (i == 0) {
			return c, fault.New(fault.Invalid, "the export cannot be read: event %d is %s; thread/started must be the first one and only that", i+1, e.Type)
		}
		if !first {
			c.history = append(c.history, payload)
			continue
		}
		if c.started, err = s.restart(started, settings, p); err != nil {
			return c, err
		}
	}
	if len(file.Events) == 0 {
		return c, fault.New(fault.Invalid, "the export holds no events")
	}
	c.blobs = blobsOf(file)
	return c, s.putToRest(&c)
}

// restart returns the start of an exported thread as it goes on here: with its own
// settings, as far as they are allowed and configured, or those asked for.
func (s *Service) restart(started ThreadStarted, asked Settings, p ImportParams) (ThreadStarted, error) {
	own := &started.Settings
	if _, known := s.provider(own.Provider); !known || p.Provider != "" || p.Model != "" {
		own.Provider, own.Model = asked.Provider, asked.Model
	}
	if p.Cwd != "" || !filepath.IsAbs(own.Cwd) {
		own.Cwd = asked.Cwd
	}
	started.Name = firstRunes(started.Name, maxName)
	var err error
	*own, err = s.settle(*own)
	return started, err
}

// decodeExport reads the events of this program's own export.
func decodeExport(file *importer.Session) ([]Payload, error) {
	payloads := make([]Payload, len(file.Events))
	for i, e := range file.Events {
		p, err := Decode(events.Event{Seq: int64(i + 1), Type: e.Type, Data: e.Data})
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the export cannot be read: event %d is damaged", i+1)
		}
		payloads[i] = p
	}
	return payloads, nil
}

// blobsOf returns the blobs of a file in a fixed order.
func blobsOf(file *importer.Session) []events.Blob {
	var blobs []events.Blob
	for _, hash := range slices.Sorted(maps.Keys(file.Blobs)) {
		blobs = append(blobs, events.Blob{Hash: hash, Data: file.Blobs[hash]})
	}
	return blobs
}

// putToRest ends what an imported history leaves open, and refuses one that
// contradicts itself.
func (s *Service) putToRest(c *createThread) error {
	st := folded("", c.payloads())
	for epoch := range st.Transcript.Epoch() + 1 {
		if epoch > 0 && st.Transcript.Boundaries[epoch-1].Epoch != epoch {
			return fault.New(fault.Invalid, "the export cannot be read: its boundary number %d says it opens epoch %d", epoch, st.Transcript.Boundaries[epoch-1].Epoch)
		}
		if _, err := st.Transcript.Context(epoch); err != nil {
			return fault.Wrap(fault.Invalid, err, "the export cannot be read: %v", err)
		}
	}
	d, err := recoverThread{}.decide(st, env{now: s.now(), newID: s.newID})
	c.history = append(c.history, d.payloads...)
	if len(st.Queue) > 0 {
		c.history = append(c.history, QueueChanged{Queue: []QueuedTurn{}})
	}
	if folded("", c.payloads()).Status == StatusActive {
		c.history = append(c.history, StatusChanged{Status: StatusIdle})
	}
	return err
}

// withoutKey drops what belongs to the thread that was exported: the idempotency key
// that rides in a payload, and its native session.
func withoutKey(p Payload) Payload {
	switch p := p.(type) {
	case ThreadStarted:
		p.Accepted = nil
		return p
	case StatusChanged:
		p.Accepted = nil
		return p
	case QueueChanged:
		p.Accepted = nil
		return p
	case ItemCompleted:
		p.Accepted = nil
		return p
	case CompactionUpdated:
		p.Accepted, p.Session = nil, nil // one thread drives a session
		return p
	case CompactionUndone:
		p.Accepted, p.Session = nil, nil
		return p
	case PinsChanged:
		p.Accepted = nil
		return p
	default:
		return p
	}
}

// untaught drops a window that was learned: it is of a provider of another home,
// whatever that has in common with one of ours, and counts for every thread.
func untaught(p Payload) Payload {
	switch p := p.(type) {
	case CompactionUpdated:
		p.Learned = nil
		return p
	case UsageUpdated:
		p.Learned = nil
		return p
	case ErrorRaised:
		p.Learned = nil
		return p
	default:
		return p
	}
}

// payloads is everything that the new thread begins with.
func (c createThread) payloads() []Payload { return append([]Payload{c.started}, c.history...) }

// Export writes the thread in this program's own format: every event as it is in
// the journal, and every blob that one refers to. Importing the file gives the
// same thread.
func (s *Service) Export(ctx context.Context, id transcript.ThreadID, w io.Writer) error {
	read, err := s.ReadThread(ctx, id)
	if err != nil {
		return err
	}
	t := read.Thread
	header := plimsoll.Header{
		ThreadID: string(t.ID), Title: cmp.Or(t.Name, t.Preview), Cwd: t.Settings.Cwd, Provider: t.Settings.Provider,
		Model: t.Settings.Model, CreatedAtMs: transcript.Millis(t.CreatedAt), UpdatedAtMs: transcript.Millis(t.UpdatedAt),
	}
	blobs := map[string]bool{}
	return plimsoll.Write(w, header, s.exportEvents(ctx, id, read.AsOf.N, blobs), s.exportBlobs(ctx, blobs))
}

// exportEvents yields the events up to head, and notes the blobs they refer to.
func (s *Service) exportEvents(ctx context.Context, id transcript.ThreadID, head int64, blobs map[string]bool) iter.Seq2[plimsoll.Event, error] {
	return func(yield func(plimsoll.Event, error) bool) {
		for at := int64(0); at < head; {
			evs, err := s.cfg.Journal.Read(ctx, string(id), at, readBatch)
			if err == nil && len(evs) == 0 {
				err = fault.New(fault.Corrupt, "thread %s: event %d of %d is missing", id, at+1, head)
			}
			if err != nil {
				yield(plimsoll.Event{}, err)
				return
			}
			for _, e := range evs {
				if at = e.Seq; at > head {
					return
				}
				noteBlobs(e, blobs)
				if !yield(plimsoll.Event{Type: e.Type, AtMs: e.At.UnixMilli(), Data: e.Data}, nil) {
					return
				}
			}
		}
	}
}

func (s *Service) exportBlobs(ctx context.Context, blobs map[string]bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, hash := range slices.Sorted(maps.Keys(blobs)) {
			data, err := s.cfg.Journal.Blob(ctx, hash)
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// noteBlobs adds the blobs that an event refers to.
func noteBlobs(e events.Event, blobs map[string]bool) {
	if e.Type != (ItemCompleted{}).EventType() && e.Type != (QueueChanged{}).EventType() {
		return
	}
	p, err := decoders[e.Type](e.Data)
	if err != nil {
		return
	}
	for _, hash := range blobsIn(p) {
		blobs[hash] = true
	}
}

// blobsIn returns the blobs that an event refers to.
func blobsIn(p Payload) (hashes []string) {
	switch p := p.(type) {
	case ItemCompleted:
		return transcript.Blobs(p.Item.Body)
	case QueueChanged:
		for _, q := range p.Queue {
			hashes = append(hashes, transcript.Blobs(transcript.UserMessage{Content: q.Input})...)
		}
	default: // images come with items
	}
	return hashes
}
