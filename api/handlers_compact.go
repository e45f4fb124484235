package api

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// compactPreview says what a compaction would do. Nothing is journaled, no hook runs
// and no model is asked.
func (s *Server) compactPreview(ctx context.Context, p *CompactPreviewParams) (*CompactPreviewResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	v, err := s.service(id).PreviewCompaction(ctx, threads.CompactParams{
		Thread: id, Route: compaction.Route(p.Route), Writer: compaction.Writer(p.Writer), Budget: p.Budget, Instructions: p.Instructions,
	})
	if err != nil {
		return nil, err
	}
	text := func(i transcript.ItemID) string { return string(i) }
	return &CompactPreviewResult{
		Compaction: v.Record, SummarizedItemIDs: mapped(v.Summarized, text), ClippedItemIDs: mapped(v.Clipped, text),
		StubItemIDs: mapped(v.Stubbed, text), Writers: append([]string{}, v.Writers...), Cost: v.Cost, AsOf: v.AsOf.String(),
	}, nil
}

// compactCancel ends a compaction that has not ended yet, or not even begun. The
// context stays as it is. One that has ended is a conflict.
func (s *Server) compactCancel(ctx context.Context, p *CompactionParams) (*CompactCancelResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	ack, err := s.service(id).CancelCompaction(ctx, id, transcript.CompactionID(p.CompactionID))
	if err != nil {
		return nil, err
	}
	return &CompactCancelResult{Compaction: ack.Record, AsOf: ack.AsOf.String()}, nil
}

// compactUndo takes the newest completed compaction of an idle thread back, if it was
// local or the provider can be told the history anew: the context holds again what it
// held before, and everything that came since.
func (s *Server) compactUndo(ctx context.Context, p *CompactUndoParams) (*CompactUndoResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	ack, err := s.service(id).UndoCompaction(ctx, threads.UndoParams{
		Thread: id, Compaction: transcript.CompactionID(p.CompactionID), IdempotencyKey: p.ClientRequestID,
	})
	if err != nil {
		return nil, err
	}
	return &CompactUndoResult{
		CompactionID: string(ack.CompactionID), Epoch: ack.Epoch, Tokens: ack.Context, Source: ack.Source,
		Window: positive(ack.Window), NativeID: nullable(ack.NativeSession), Retold: ack.Retold, AsOf: ack.AsOf.String(),
	}, nil
}

// contextSearch finds what was said in a thread, whether its context still holds it
// or not.
func (s *Server) contextSearch(ctx context.Context, p *ContextSearchParams) (*ContextSearchResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	r, err := s.service(id).Search(ctx, threads.SearchParams{Thread: id, Query: p.Query, Limit: p.Limit})
	if err != nil {
		return nil, err
	}
	return &ContextSearchResult{
		Data: mapped(r.Hits, wireHit), Complete: r.IndexedTo >= r.AsOf.N, IndexedSeq: r.IndexedTo, AsOf: r.AsOf.String(),
	}, nil
}

func wireHit(h threads.SearchHit) SearchHit {
	out := SearchHit{SearchPiece: wirePiece(h.SearchPiece), Archived: h.Archived(), Score: h.Score}
	if h.Form != "" {
		out.Form = &h.Form
	}
	if h.Before != nil {
		out.Before = new(wirePiece(*h.Before))
	}
	if h.After != nil {
		out.After = new(wirePiece(*h.After))
	}
	return out
}

func wirePiece(p threads.SearchPiece) SearchPiece {
	return SearchPiece{ItemID: string(p.Item), TurnID: string(p.Turn), Kind: p.Kind, Part: p.Part, Text: p.Text}
}

// pinAdd pins a text: every request of the thread carries it verbatim, whatever is
// compacted. The same text is pinned once.
func (s *Server) pinAdd(ctx context.Context, p *PinAddParams) (*PinAddResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	ack, err := s.service(id).AddPin(ctx, threads.PinParams{Thread: id, Text: p.Text, IdempotencyKey: p.ClientRequestID})
	if err != nil {
		return nil, err
	}
	return &PinAddResult{Pin: wirePin(ack.Pin), Added: !ack.Known, AsOf: ack.AsOf.String()}, nil
}

// pinList lists the pins of a thread, oldest first.
func (s *Server) pinList(ctx context.Context, p *ThreadParams) (*PinListResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	l, err := s.service(id).Pins(ctx, id)
	return wirePins(l), err
}

// pinRemove takes a pin away, from the next request on.
func (s *Server) pinRemove(ctx context.Context, p *PinRemoveParams) (*PinListResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	l, err := s.service(id).RemovePin(ctx, id, p.PinID)
	return wirePins(l), err
}

func wirePins(l threads.PinList) *PinListResult {
	return &PinListResult{Data: mapped(l.Pins, wirePin), Tokens: l.Tokens, Limit: l.Limit, AsOf: l.AsOf.String()}
}
