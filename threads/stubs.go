package threads

import (
	"context"
	"errors"
	"io"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

var errSoon = errors.New("threads: not written yet")

type (
	tid = transcript.ThreadID
	ctx = context.Context
)

func Open(c ctx, cfg Config) (*Service, error)                                  { return nil, errSoon }
func (s *Service) Close(c ctx) error                                            { return errSoon }
func (s *Service) CreateThread(c ctx, p CreateParams) (r ThreadRead, err error) { return r, errSoon }
func (s *Service) ListThreads(c ctx, q PageQuery) (r ThreadPage, err error)     { return r, errSoon }
func (s *Service) ReadThread(c ctx, id tid) (r ThreadRead, err error)           { return r, errSoon }
func (s *Service) DeleteThread(c ctx, id tid) error                             { return errSoon }
func (s *Service) StartTurn(c ctx, p StartTurnParams) (r TurnAck, err error)    { return r, errSoon }
func (s *Service) InterruptTurn(c ctx, id tid, turn transcript.TurnID) error    { return errSoon }
func (s *Service) ListTurns(c ctx, id tid, q PageQuery) (r TurnPage, err error) { return r, errSoon }
func (s *Service) ReadTurn(c ctx, id tid, turn transcript.TurnID) (r TurnView, err error) {
	return r, errSoon
}
func (s *Service) ListItems(c ctx, id tid, q ItemQuery) (r ItemPage, err error) { return r, errSoon }
func (s *Service) StartCompaction(c ctx, p CompactParams) (r CompactAck, err error) {
	return r, errSoon
}
func (s *Service) ReadCompaction(c ctx, id tid, cid transcript.CompactionID) (r compaction.Record, err error) {
	return r, errSoon
}
func (s *Service) ListCompactions(c ctx, id tid, q PageQuery) (r CompactionPage, err error) {
	return r, errSoon
}

// epoch nil = the current one
func (s *Service) ReadContext(c ctx, id tid, epoch *int) (r ContextRead, err error) {
	return r, errSoon
}
func (s *Service) Providers(c ctx) []ProviderInfo { return nil }
func (s *Service) Import(c ctx, r io.Reader, p ImportParams) (o ImportResult, err error) {
	return o, errSoon
}
func (s *Service) Export(c ctx, id tid, w io.Writer) error { return errSoon }

// ReadEvents pages a thread's events (all threads if id is empty); next is the cursor after the last one returned.
func (s *Service) ReadEvents(c ctx, id tid, after *events.Cursor, limit int) (evs []events.Event, next events.Cursor, err error) {
	return nil, next, errSoon
}
