package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// threadPath is the path of a thread's resource.
func threadPath(id string, rest ...string) string {
	return "/v1/threads/" + id + strings.Join(rest, "")
}

// withClient runs f with a client of the home.
func (f homeFlag) withClient(ctx context.Context, m *Main, do func(*client) error) (err error) {
	h, err := f.resolve(m)
	if err != nil {
		return err
	}
	c, err := m.connect(ctx, h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return do(c)
}

// thread returns the id of the thread that arg, as parseThread returned it, names.
// A whole id is not looked up: the request that it is for says if there is none.
func (c *client) thread(ctx context.Context, arg string) (string, error) {
	if len(arg) == maxThread {
		return arg, nil
	}
	var found []string
	err := c.eachThread(ctx, func(page api.ThreadListResult) error {
		for _, t := range page.Data {
			if strings.HasPrefix(t.ID, arg) {
				found = append(found, t.ID)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("find thread: %w", err)
	case len(found) == 0:
		return "", fmt.Errorf("no thread has an id that begins with %s; see `plimsoll threads list`", arg)
	case len(found) > 1:
		return "", fmt.Errorf("%s begins the ids of %d threads, write more of the one you mean: %s", arg, len(found), someOf(found))
	}
	return found[0], nil
}

// someOf lists the first few of many.
func someOf(names []string) string {
	const n = 5
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

type threadsCmd struct {
	List threadsListCmd `cmd:"" help:"List the threads, newest change first."`
	Show threadsShowCmd `cmd:"" help:"Show a thread with its compactions."`
}

type threadsListCmd struct {
	homeFlag
	Archived bool `help:"List those that are archived instead."`
	JSON     bool `name:"json" help:"Print one JSON object a line."`
}

// Run lists every thread by the time it shows. The server's order is that of its own
// journal, in which an import is new while what it tells is as old as in its file.
func (c *threadsListCmd) Run(ctx context.Context, m *Main) error {
	return c.withClient(ctx, m, func(cl *client) error {
		var all []protocol.Thread
		err := cl.eachOf(ctx, c.Archived, func(page api.ThreadListResult) error {
			all = append(all, page.Data...)
			return nil
		})
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		slices.SortStableFunc(all, func(a, b protocol.Thread) int { return cmp.Compare(b.UpdatedAt, a.UpdatedAt) })
		return c.print(m, all)
	})
}

func (c *threadsListCmd) print(m *Main, all []protocol.Thread) error {
	t := &table{head: []string{"THREAD", "UPDATED", "STATUS", "TURNS", "ITEMS", "LOAD", "EPOCH", "PREVIEW"}}
	for _, th := range all {
		if !c.JSON {
			t.add(threadRow(th)...)
		} else if err := printJSON(m.Stdout, th); err != nil {
			return err
		}
	}
	switch {
	case len(all) == 0 && c.Archived:
		say(m.Stderr, "no thread is archived\n")
	case len(all) == 0:
		say(m.Stderr, "there are no threads yet; `plimsoll import FILE` makes one\n")
	case !c.JSON:
		t.print(m.Stdout, m.style)
	}
	return nil
}

// eachThread reads the list of threads page by page, archived ones last.
func (c *client) eachThread(ctx context.Context, do func(api.ThreadListResult) error) error {
	if err := c.eachOf(ctx, false, do); err != nil {
		return err
	}
	return c.eachOf(ctx, true, do)
}

// eachOf reads the list of the threads that are archived, or that are not.
func (c *client) eachOf(ctx context.Context, archived bool, do func(api.ThreadListResult) error) error {
	for cursor := ""; ; {
		var page api.ThreadListResult
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("/v1/threads?limit=1000&archived=%t%s", archived, cursor), nil, &page); err != nil {
			return err
		}
		if err := do(page); err != nil || page.NextCursor == nil {
			return err
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

func threadRow(t protocol.Thread) []string {
	preview := oneLine(t.Preview, 60)
	if t.Name != nil && *t.Name != "" {
		preview = oneLine(*t.Name, 60)
	}
	status := t.Status.Type
	if t.Plimsoll.Archived {
		status = "archived"
	}
	if t.Plimsoll.Damaged != nil {
		status = "damaged"
	}
	load := thousands(t.Plimsoll.Occupancy.Context)
	if w := t.Plimsoll.Occupancy.Window; w != nil {
		load += " " + percent(t.Plimsoll.Occupancy.Context, *w)
	}
	return []string{
		t.ID, time.Unix(t.UpdatedAt, 0).Format("2006-01-02 15:04 MST"), status,
		thousands(t.Plimsoll.Turns), thousands(t.Plimsoll.Items), load, thousands(t.Plimsoll.Epoch), preview,
	}
}

type threadsShowCmd struct {
	homeFlag
	Thread string `arg:"" help:"The thread's id, or its beginning."`
	JSON   bool   `name:"json" help:"Print one JSON object: the thread and its compactions."`
}

// Run shows one thread and how it was compacted.
func (c *threadsShowCmd) Run(ctx context.Context, m *Main) error {
	arg, err := parseThread(c.Thread)
	if err != nil {
		return err
	}
	return c.withClient(ctx, m, func(cl *client) error {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return err
		}
		var show struct {
			api.ThreadReadResult
			Compactions api.CompactionListResult `json:"compactions"` // newest first
		}
		if err := cl.call(ctx, http.MethodGet, threadPath(id), nil, &show.ThreadReadResult); err != nil {
			return fmt.Errorf("show thread: %w", err)
		}
		if err := cl.call(ctx, http.MethodGet, threadPath(id, "/compactions?limit=1000"), nil, &show.Compactions); err != nil {
			return fmt.Errorf("show thread: %w", err)
		}
		if c.JSON {
			return printJSON(m.Stdout, show)
		}
		printThread(m.Stdout, m.style, show.Thread)
		for _, r := range show.Compactions.Data {
			say(m.Stdout, "\n")
			printRecord(m.Stdout, m.style, &r, true)
		}
		return nil
	})
}

func printThread(w io.Writer, s style, th protocol.Thread) {
	t := &table{head: []string{"", ""}}
	t.add("thread", th.ID)
	if th.Name != nil {
		t.add("name", oneLine(*th.Name, 100))
	}
	t.add("preview", oneLine(th.Preview, 100))
	t.add("status", statusText(protocol.ThreadStatusChangedParams{Status: th.Status}))
	if th.Plimsoll.Archived {
		t.add("archived", "yes: it takes no input and is listed with --archived")
	}
	if th.Plimsoll.Damaged != nil {
		t.add("damaged", oneLine(*th.Plimsoll.Damaged, 160))
	}
	model := ""
	if th.Model != nil {
		model = ", model " + *th.Model
	}
	t.add("provider", printable(th.ModelProvider+model))
	t.add("cwd", printable(th.Cwd))
	t.add("created", time.Unix(th.CreatedAt, 0).Format(time.RFC3339))
	t.add("updated", time.Unix(th.UpdatedAt, 0).Format(time.RFC3339))
	t.add("turns", fmt.Sprintf("%s, %s, %d waiting", plural(th.Plimsoll.Turns, "turn"), plural(th.Plimsoll.Items, "item"), th.Plimsoll.Queued))
	load := plural(th.Plimsoll.Occupancy.Context, "token") + " (" + th.Plimsoll.Occupancy.Source + ")"
	if win := th.Plimsoll.Occupancy.Window; win != nil {
		load += ", " + percent(th.Plimsoll.Occupancy.Context, *win) + " of the window of " + thousands(*win)
	}
	t.add("load", load)
	t.add("epoch", fmt.Sprint(th.Plimsoll.Epoch))
	if im := th.Plimsoll.Imported; im != nil {
		t.add("imported", fmt.Sprintf("from %s, session %s, %s", im.Source, im.SourceID, plural(im.Warnings, "warning")))
	}
	t.print(w, s)
}

type importCmd struct {
	homeFlag
	File     string `arg:"" help:"A session file, gzip or plain (- for stdin)."`
	Provider string `placeholder:"NAME" help:"The provider that the thread continues with (default: the first configured one)."`
	Model    string `placeholder:"MODEL" help:"What the provider runs (default: its first one)."`
	Cwd      string `placeholder:"DIR" help:"Working directory (default: that of the file)."`
	JSON     bool   `name:"json" help:"Print the result as JSON."`
}

// Run imports one file; the id of the new thread goes to stdout.
func (c *importCmd) Run(ctx context.Context, m *Main) error {
	in, err := m.openInput(c.File)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer shut(in)
	return c.withClient(ctx, m, func(cl *client) error {
		res, err := cl.importFile(ctx, in, c.Provider, c.Model, c.Cwd)
		if err != nil {
			return fmt.Errorf("import %s: %w", c.File, err)
		}
		if err := c.print(m, res); err != nil {
			return err
		}
		return cl.noteTwins(ctx, m.Stderr, res.Thread)
	})
}

func (c *importCmd) print(m *Main, res api.ImportResult) error {
	if c.JSON {
		return printJSON(m.Stdout, res)
	}
	say(m.Stdout, "%s\n", res.Thread.ID)
	say(m.Stderr, "imported from %s: %s\n", res.Source, importSummary(res))
	if len(res.Skipped) > 0 {
		say(m.Stderr, "left out, as no part of the context: %s\n", skippedText(res.Skipped))
	}
	for _, warning := range res.Warnings {
		say(m.Stderr, "%s\n", "  "+oneLine(warning, 160))
	}
	return nil
}

// skippedText counts the records that were left out by type, the most frequent first.
func skippedText(skipped map[string]int) string {
	types := slices.SortedFunc(maps.Keys(skipped), func(a, b string) int {
		return cmp.Or(cmp.Compare(skipped[b], skipped[a]), cmp.Compare(a, b))
	})
	for i, t := range types {
		types[i] = oneLine(t, 40) + " " + thousands(skipped[t])
	}
	return someOf(types)
}

// noteTwins says which other threads were imported from the same bytes.
func (c *client) noteTwins(ctx context.Context, w io.Writer, th protocol.Thread) error {
	if th.Plimsoll.Imported == nil {
		return nil
	}
	var twins []string
	err := c.eachThread(ctx, func(page api.ThreadListResult) error {
		for _, t := range page.Data {
			if im := t.Plimsoll.Imported; im != nil && t.ID != th.ID && im.Hash == th.Plimsoll.Imported.Hash {
				twins = append(twins, t.ID)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for the same import: %w", err)
	}
	if len(twins) > 0 {
		say(w, "the same file was imported before, as %s\n", someOf(twins))
	}
	return nil
}

// importFile sends a session file, which may be large, as it is.
func (c *client) importFile(ctx context.Context, in io.Reader, provider, model, cwd string) (api.ImportResult, error) {
	q := url.Values{}
	for name, v := range map[string]string{"provider": provider, "model": model, "cwd": cwd} {
		if v != "" {
			q.Set(name, v)
		}
	}
	path := "/v1/imports"
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	var res api.ImportResult
	resp, err := c.send(ctx, http.MethodPost, path, "application/octet-stream", "application/json", in)
	if err != nil {
		return res, err
	}
	defer shut(resp.Body)
	return res, decodeReply(path, resp.Body, &res)
}

func importSummary(res api.ImportResult) string {
	total := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(res.Items)) {
		total += res.Items[kind]
		kinds = append(kinds, fmt.Sprintf("%s %s", thousands(res.Items[kind]), kind))
	}
	text := fmt.Sprintf("%s (%s), epoch %d", plural(total, "item"), strings.Join(kinds, ", "), res.Epochs)
	skipped := 0
	for _, n := range res.Skipped {
		skipped += n
	}
	if skipped > 0 {
		text += fmt.Sprintf(", %s left out", plural(skipped, "record"))
	}
	if len(res.Warnings) > 0 {
		text += ", " + plural(len(res.Warnings), "warning")
	}
	return text
}

type exportCmd struct {
	homeFlag
	Thread string `arg:"" help:"The thread's id, or its beginning."`
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout; it appears when it is whole."`
	Force  bool   `help:"Replace the file if there is one."`
}

// Run writes the export of a thread. A file is written beside its place and put there
// when it is whole, so that a broken export never stands there.
func (c *exportCmd) Run(ctx context.Context, m *Main) error {
	arg, err := parseThread(c.Thread)
	if err != nil {
		return err
	}
	if err := c.mayWrite(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return c.withClient(ctx, m, func(cl *client) error {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return err
		}
		resp, err := cl.send(ctx, http.MethodGet, threadPath(id, "/export"), "", "application/x-ndjson", nil)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		defer shut(resp.Body)
		if c.Output == "" || c.Output == "-" {
			_, err = io.Copy(m.Stdout, resp.Body)
		} else {
			err = c.write(m, id, resp.Body)
		}
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		return nil
	})
}

// mayWrite refuses to write over what nobody said may go.
func (c *exportCmd) mayWrite() error {
	if c.Output == "" || c.Output == "-" || c.Force {
		return nil
	}
	if _, err := os.Lstat(c.Output); err == nil {
		return existsError(c.Output)
	}
	return nil // what else is wrong shows when it is written
}

func existsError(path string) error {
	return fmt.Errorf("%s exists; choose another name, or replace it with --force", path)
}

// write writes the file and says so.
func (c *exportCmd) write(m *Main, thread string, r io.Reader) error {
	n, err := writeWhole(c.Output, r, c.Force)
	if err == nil {
		say(m.Stderr, "wrote thread %s to %s, %s\n", thread, c.Output, plural(int(n), "byte"))
	}
	return err
}

// writeWhole makes path hold all of r, or leaves it as it was. Unless replace is set
// it writes over nothing, also if that came meanwhile.
func writeWhole(path string, r io.Reader, replace bool) (n int64, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	n, err = io.Copy(tmp, r)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return 0, err
	}
	if !replace {
		// Whoever makes the name has it; a link would do, but not on every file system.
		place, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			return 0, existsError(path)
		} else if err != nil {
			return 0, err
		}
		shut(place)
	}
	return n, os.Rename(tmp.Name(), path)
}
