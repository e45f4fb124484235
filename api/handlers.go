package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// compactStart starts a compaction, or returns the one that runs. The answer is
// an acknowledgement; the outcome is in the events, or, with wait, in the answer.
// An explicit refusal is a problem then that carries the record.
func (s *Server) compactStart(ctx context.Context, p *CompactStartParams) (*CompactStartResult, error) {
	ack, err := s.service(transcript.ThreadID(p.ThreadID)).StartCompaction(ctx, threads.CompactParams{
		Thread: transcript.ThreadID(p.ThreadID), Route: compaction.Route(p.Route), Writer: compaction.Writer(p.Writer),
		Budget: p.Budget, Instructions: p.Instructions, Wait: p.Wait, IdempotencyKey: p.ClientRequestID,
	})
	if err != nil {
		return nil, err
	}
	rec := ack.Record
	r := &CompactStartResult{CompactionID: string(rec.CompactionID), Compaction: rec, AsOf: ack.AsOf.String(), waited: p.Wait}
	if p.Wait && rec.Outcome != nil && *rec.Outcome == compaction.Refused {
		return nil, refusal(r)
	}
	return r, nil
}

func (r *CompactStartResult) status() int {
	if r.waited {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// refusal is the problem of a compaction that ended refused while the client
// waited for it.
func refusal(r *CompactStartResult) error {
	text := []string{"the compaction was refused"}
	for _, more := range []*string{r.Compaction.Reason, r.Compaction.Remedy} {
		if more != nil && *more != "" {
			text = append(text, *more)
		}
	}
	f := fault.New(fault.Refused, "%s", strings.Join(text, "; "))
	f.Data = r
	return f
}

// compactList lists the compactions of a thread, newest first.
func (s *Server) compactList(ctx context.Context, p *CompactionListParams) (*CompactionListResult, error) {
	data, next, _, err := pageOf(s, p.query(true), func(q threads.PageQuery) ([]compaction.Record, string, string, error) {
		page, err := s.service(transcript.ThreadID(p.ThreadID)).ListCompactions(ctx, transcript.ThreadID(p.ThreadID), q)
		return mapped(page.Records, func(r compaction.Record) compaction.Record { return r }), page.Next, "", err
	})
	return &CompactionListResult{data, next}, err
}

// compactRead reads the record of a compaction: what was summarised and kept,
// what it cost, how it ended.
func (s *Server) compactRead(ctx context.Context, p *CompactionParams) (*CompactionReadResult, error) {
	rec, err := s.service(transcript.ThreadID(p.ThreadID)).ReadCompaction(ctx, transcript.ThreadID(p.ThreadID), transcript.CompactionID(p.CompactionID))
	if err != nil {
		return nil, err
	}
	return &CompactionReadResult{Compaction: rec}, nil
}

// providerList lists the configured providers and their models.
func (s *Server) providerList(ctx context.Context, _ *Empty) (*ProviderListResult, error) {
	return &ProviderListResult{Data: mapped(s.svc.Providers(ctx), wireProvider)}, nil
}

// mapped is never nil, so that it encodes as a list.
func mapped[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func positive(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
