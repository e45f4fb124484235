package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/threads"
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
	tokens  int                // of the entries and the re-anchor
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

// nameOfInput is how an error names what openInput opened.
func nameOfInput(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}

// compactFile compacts the session in r.
func compactFile(ctx context.Context, r io.Reader, opts fileOptions) (*fileCompaction, error) {
	session, err := importer.Read(r, importer.Limits{})
	if err != nil {
		return nil, err
	}
	return compactSession(ctx, session, opts)
}

// compactSession compacts a session by the same chain as the server does, and
// folds the result by the same function. The session stays as it is.
func compactSession(ctx context.Context, session *importer.Session, opts fileOptions) (*fileCompaction, error) {
	tr, err := threads.TranscriptOf(session)
	if err != nil {
		return nil, err
	}
	if opts.whole {
		tr.Boundaries = nil
	}
	entries, err := tr.Context(tr.Epoch())
	if err != nil {
		return nil, err
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
		Enter: func(context.Context, compaction.Phase, compaction.Route) error { return nil },
	})
	out := &fileCompaction{session: session, entries: entries}
	var boundary *transcript.Boundary
	out.record, boundary = fileRecord(session, &tr, opts, verdict)
	if boundary != nil {
		tr.Boundaries = append(slices.Clip(tr.Boundaries), *boundary)
		if out.entries, err = tr.Context(tr.Epoch()); err != nil {
			return nil, err
		}
		out.reanchor = verdict.Composed.Reanchor
	}
	out.tokens = transcript.Tokens(transcript.Notice{Text: out.reanchor})
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

// fileID derives an id from the file's hash.
func fileID(s *importer.Session, what string) string {
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(s.Hash+"\x00"+what), 8).String()
}

// fileRecord is the record of a file's compaction and the boundary that the
// server would commit.
func fileRecord(s *importer.Session, tr *transcript.Transcript, opts fileOptions, v compaction.Verdict) (compaction.Record, *transcript.Boundary) {
	run := fmt.Sprintf("epoch %d budget %d whole %t writer %s", tr.Epoch(), opts.budget, opts.whole, opts.writer)
	at := lastMillis(tr)
	r := compaction.NewRecord()
	r.CompactionID = transcript.CompactionID(fileID(s, "compaction "+run))
	r.ThreadID = transcript.ThreadID(fileID(s, "thread"))
	r.TurnID = transcript.TurnID(fileID(s, "turn "+run))
	r.Trigger, r.Epoch = compaction.TriggerManual, tr.Epoch()
	r.RequestedAt, r.StartedAt = at, &at
	rec, boundary, _ := r.Conclude(v, compaction.End{
		At: at, Checkpoint: transcript.ItemID(fileID(s, "checkpoint "+run)), Covered: len(tr.Items),
	})
	return rec, boundary // a file is compacted by hand, and then composed
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
