package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A fileCompaction is what compacting a file gave. The same bytes and flags give
// the same one: ids come from the file's hash, times from its last item.
type fileCompaction struct {
	session *importer.Session
	record  compaction.Record
	entries []transcript.Entry // the resulting context
	tokens  int
	// reanchor is what the first request after the boundary would carry besides.
	reanchor string
}

// fileOptions are the flags of `plimsoll compact FILE`.
type fileOptions struct {
	budget int
	whole  bool // work on all items rather than on the current epoch
	writer compaction.Writer
}

// openInput opens a file, or stdin for -.
func (m *Main) openInput(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(m.Stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		shut(f)
		return nil, fmt.Errorf("open %s: it is a folder, not a session file", path)
	}
	return f, nil
}

// compactFile compacts the session in r by the same chain as the server does,
// and folds the result by the same function.
func compactFile(ctx context.Context, r io.Reader, opts fileOptions) (*fileCompaction, error) {
	session, err := readSession(r)
	if err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	tr, _ := transcript.AnswerOpenCalls(session.Transcript)
	if opts.whole {
		tr.Boundaries = nil
	}
	entries, err := tr.Context(tr.Epoch())
	if err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	verdict := compaction.Run(ctx, compaction.Job{
		Route:  compaction.RouteLocal,
		Writer: opts.writer,
		Ability: compaction.Ability{Refusal: &compaction.Refusal{
			Code: "noProvider", Reason: "a file has no provider session", Remedy: "import it and compact the thread",
		}},
		Input: compaction.Input{
			Entries: entries, Budget: opts.budget, Writer: opts.writer, Facts: fileFacts(session, entries),
		},
		Enter: func(context.Context, compaction.Phase) error { return nil },
	})
	out := &fileCompaction{session: session, entries: entries}
	out.record = fileRecord(session, &tr, opts, &verdict)
	if c := verdict.Composed; c != nil && verdict.Outcome == compaction.Completed {
		tr.Boundaries = append(tr.Boundaries, fileBoundary(&tr, out.record, c))
		if out.entries, err = tr.Context(tr.Epoch()); err != nil {
			return nil, fmt.Errorf("compact: %w", err)
		}
		out.reanchor = c.Reanchor
	}
	for _, e := range out.entries {
		out.tokens += transcript.Tokens(e.Item.Body)
	}
	return out, nil
}

// fileFacts is what a file tells about workspace and settings.
func fileFacts(s *importer.Session, entries []transcript.Entry) compaction.Facts {
	facts := compaction.Facts{Cwd: s.Cwd, Model: s.Model}
	for _, e := range entries {
		if plan, ok := e.Item.Body.(transcript.Plan); ok {
			facts.Plan = &plan
		}
	}
	return facts
}

// fileBoundary is the boundary that the server would commit.
func fileBoundary(tr *transcript.Transcript, r compaction.Record, c *compaction.Composed) transcript.Boundary {
	at := transcript.FromMillis(r.RequestedAt)
	return transcript.Boundary{
		Epoch:        tr.Epoch() + 1,
		CompactionID: r.CompactionID,
		Covered:      len(tr.Items),
		Checkpoint: &transcript.Item{
			ID: r.Checkpoint.ItemID, Turn: r.TurnID, StartedAt: at, CompletedAt: at, Body: c.Checkpoint,
		},
		Kept: c.Kept,
	}
}

// fileID derives an id from the file's hash.
func fileID(s *importer.Session, what string) string {
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(s.Hash+"\x00"+what), 8).String()
}

// fileRecord is the record of a file's compaction, in the one shape there is.
func fileRecord(s *importer.Session, tr *transcript.Transcript, opts fileOptions, v *compaction.Verdict) compaction.Record {
	run := fmt.Sprintf("epoch %d budget %d whole %t writer %s", tr.Epoch(), opts.budget, opts.whole, opts.writer)
	at := lastMillis(tr)
	r := compaction.Record{
		CompactionID: transcript.CompactionID(fileID(s, "compaction "+run)),
		ThreadID:     transcript.ThreadID(fileID(s, "thread")),
		TurnID:       transcript.TurnID(fileID(s, "turn "+run)),
		Trigger:      compaction.TriggerManual,
		Route:        &v.Route,
		Phase:        compaction.PhaseTerminal,
		Outcome:      &v.Outcome,
		Code:         optional(v.Code),
		Reason:       optional(v.Reason),
		Remedy:       optional(v.Remedy),
		Epoch:        tr.Epoch(),
		Ruler:        transcript.Ruler,
		Skipped:      append([]compaction.Skip{}, v.Skipped...),
		Warnings:     append([]string{}, v.Warnings...),
		RequestedAt:  at,
		StartedAt:    &at,
		CompletedAt:  &at,

		SummarizedTurnIDs: []transcript.TurnID{},
		RetainedTurnIDs:   []transcript.TurnID{},
		PrunedItemIDs:     []transcript.ItemID{},
	}
	if c := v.Composed; c != nil {
		fillComposed(&r, v, c)
		if r.Checkpoint != nil {
			r.Checkpoint.ItemID = transcript.ItemID(fileID(s, "checkpoint "+run))
		}
	}
	return r
}

// fillComposed adds what a local compaction measured.
func fillComposed(r *compaction.Record, v *compaction.Verdict, c *compaction.Composed) {
	r.Target = &c.Target
	r.Before = &compaction.Measure{Tokens: c.Before, Source: transcript.Ruler}
	r.After = &compaction.Measure{Tokens: c.After, Source: transcript.Ruler}
	if v.Outcome != compaction.Completed {
		return
	}
	r.Writer = &v.Writer
	r.SummarizedTurnIDs = append(r.SummarizedTurnIDs, c.SummarizedTurns...)
	r.RetainedTurnIDs = append(r.RetainedTurnIDs, c.RetainedTurns...)
	r.PrunedItemIDs = append(r.PrunedItemIDs, c.Pruned...)
	r.Split, r.Items = c.Split, &c.Items
	r.Checkpoint = &compaction.CheckpointInfo{
		Version:  c.Checkpoint.Version,
		Tokens:   transcript.Tokens(c.Checkpoint),
		Fidelity: c.Fidelity,
	}
}

// lastMillis is the time of the last item that has one, 0 if none has.
func lastMillis(tr *transcript.Transcript) int64 {
	for _, it := range slices.Backward(tr.Items) {
		if at := max(transcript.Millis(it.CompletedAt), transcript.Millis(it.StartedAt)); at != 0 {
			return at
		}
	}
	return 0
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
