package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

type compactCmd struct {
	homeFlag
	Target string `arg:"" name:"thread-or-file" help:"A thread's id, or its beginning, or a session file (- for stdin)."`
	Budget int    `type:"tokens" placeholder:"TOKENS" help:"Bound of the whole resulting context. Needed for a file; a thread has a default."`
	Writer string `enum:",model,extractive,fixed" default:"" placeholder:"model|extractive|fixed" help:"Who writes the checkpoint (default: of a thread the best that works, of a file extractive)."`
	JSON   bool   `name:"json" help:"Print JSON."`

	Route string `enum:",native,local" default:"" placeholder:"native|local" help:"Of a thread: who compacts (default: native if the provider can, else local)."`
	Wait  *bool  `negatable:"" help:"Of a thread: print the terminal record rather than the acknowledgement (default: wait)."`

	asked

	Whole bool   `help:"Of a file: compact all items rather than the current epoch."`
	Print string `enum:",context,record" default:"" placeholder:"context|record" help:"Of a file: what to print (default: context)."`
}

// Run compacts a thread or a file.
func (c *compactCmd) Run(ctx context.Context, m *Main) error {
	t, err := parseTarget(c.Target, fileExists)
	if err != nil {
		return err
	}
	if t.file != "" {
		return c.file(ctx, m, t.file)
	}
	if c.Whole || c.Print != "" {
		return usagef("--whole and --print are for files; %s is a thread", t.thread)
	}
	return c.thread(ctx, m, t.thread)
}

func (c *compactCmd) file(ctx context.Context, m *Main, path string) error {
	if c.Route != "" || c.Wait != nil || c.Home != "" || c.any() {
		return usagef("--route, --wait, --home, --preview, --undo and --cancel are for threads; %q is a file", path)
	}
	if c.Writer == string(compaction.WriterModel) {
		return usagef("--writer model is for threads; a file is compacted without a model")
	}
	in, err := m.openInput(path)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	defer shut(in)
	if c.Budget == 0 {
		return usagef("compact FILE needs --budget TOKENS, the bound of the resulting context")
	}
	done, err := compactFile(ctx, in, fileOptions{budget: c.Budget, whole: c.Whole, writer: compaction.Writer(c.Writer)})
	if err != nil {
		return fmt.Errorf("compact %s: %w", nameOfInput(path), err)
	}
	logWarnings(m.Stderr, done.session.Warnings)
	switch {
	case c.Print == "record" && c.JSON:
		err = printJSON(m.Stdout, done.record)
	case c.Print == "record":
		printRecord(m.Stdout, m.style, &done.record, false)
	case c.JSON:
		err = printJSON(m.Stdout, fileContext(done))
	default:
		printContext(m.Stdout, m.style, done.entries, done.reanchor)
	}
	if err != nil {
		return err
	}
	if r := &done.record; *r.Outcome == compaction.Unchanged && c.Print != "record" { // the context does not tell
		say(m.Stderr, "unchanged (%s): %s; %s\n", *r.Code, *r.Reason, *r.Remedy)
	}
	return recordError(&done.record)
}

// logWarnings tells on stderr what of a file could not be read as meant.
func logWarnings(w io.Writer, warnings []importer.Warning) {
	log := slog.New(slog.NewTextHandler(w, nil))
	for _, warning := range warnings {
		log.Warn("session file", "line", warning.Line, "problem", warning.Reason)
	}
}

// contextJSON is what `compact FILE --print context --json` prints.
type contextJSON struct {
	Source       string                  `json:"source"`
	Hash         string                  `json:"hash"`
	CompactionID transcript.CompactionID `json:"compactionId"`
	Outcome      compaction.Outcome      `json:"outcome"`
	Epoch        int                     `json:"epoch"` // whose context this is
	Ruler        string                  `json:"ruler"`
	Tokens       int                     `json:"tokens"` // of the entries and the re-anchor
	Entries      []api.ContextEntry      `json:"entries"`
	Reanchor     *string                 `json:"reanchor"` // null if nothing was compacted
}

func fileContext(done *fileCompaction) contextJSON {
	out := contextJSON{
		Source: done.session.Source, Hash: done.session.Hash,
		CompactionID: done.record.CompactionID, Outcome: *done.record.Outcome,
		Epoch: done.record.Epoch, Ruler: transcript.Ruler, Tokens: done.tokens,
		Entries: make([]api.ContextEntry, 0, len(done.entries)), Reanchor: optional(done.reanchor),
	}
	if out.Outcome == compaction.Completed {
		out.Epoch++
	}
	for _, e := range done.entries {
		out.Entries = append(out.Entries, api.ContextEntryOf(e))
	}
	return out
}

// printContext writes a context for people: what a model would get, in order.
func printContext(w io.Writer, s style, entries []transcript.Entry, reanchor string) {
	part := func(kind, form string, tokens int, id, text string) {
		say(w, "%s\n", s.dim(fmt.Sprintf("── %s · %s · %s · %s", kind, form, plural(tokens, "token"), id)))
		say(w, "%s\n\n", printable(text))
	}
	for _, e := range entries {
		body := e.Item.Body
		part(string(body.Kind()), string(e.Form), transcript.Tokens(body), string(e.Item.ID), transcript.Text(body))
	}
	if reanchor != "" {
		notice := transcript.Notice{Source: "reanchor", Text: reanchor}
		part("re-anchor", "with the first request", transcript.Tokens(notice), "–", reanchor)
	}
}

// thread compacts a thread; a refusal comes with its record, as everything else.
func (c *compactCmd) thread(ctx context.Context, m *Main, arg string) error {
	if err := c.askedWell(); err != nil {
		return err
	}
	return c.withClient(ctx, m, func(cl *client) error {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return err
		}
		if c.any() {
			return c.other(ctx, m, cl, id)
		}
		wait, asked := c.Wait == nil || *c.Wait, time.Now()
		record, err := cl.compact(ctx, id, compactBody{Route: c.Route, Writer: c.Writer, Budget: c.Budget, Wait: wait})
		if err != nil {
			return fmt.Errorf("compact: %w", cl.remedied(ctx, id, err))
		}
		if joined(record, asked) {
			say(m.Stderr, "a compaction of this thread was under way: this is that one, with its own route, writer and budget\n")
		}
		if c.JSON {
			err = printJSON(m.Stdout, record)
		} else {
			printRecord(m.Stdout, m.style, record, true)
		}
		return errors.Join(err, cl.remedied(ctx, id, recordError(record)))
	})
}

// joined reports whether the record is of a compaction that somebody else had asked
// for already. The server is on this machine, so both times are of one clock.
func joined(r *compaction.Record, asked time.Time) bool {
	return r.RequestedAt < asked.UnixMilli()
}

// compact starts a compaction and returns its record, the terminal one if body
// asks to wait.
func (c *client) compact(ctx context.Context, thread string, body compactBody) (*compaction.Record, error) {
	var res api.CompactStartResult
	err := c.call(ctx, http.MethodPost, threadPath(thread, "/compact"), body, &res)
	if problem, ok := errors.AsType[*apiError](err); ok {
		var refused api.CompactStartResult
		if json.Unmarshal(problem.Data, &refused) == nil && refused.Compaction.Terminal() {
			return &refused.Compaction, nil
		}
	}
	return &res.Compaction, err
}

// compactBody is the JSON body of the request: the parameters but the one that
// stands in the path.
type compactBody struct {
	Route  string `json:"route,omitempty"`
	Writer string `json:"writer,omitempty"`
	Budget int    `json:"budget,omitempty"`
	Wait   bool   `json:"wait,omitempty"`
}
