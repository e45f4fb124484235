package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

//go:embed demo/session.jsonl
var demoSession []byte

//go:embed demo/questions.json
var demoQuestions []byte

// The budgets of the demonstration. By default a third of the window is kept, and the
// bundled session needs no summary for that. The first one needs one and loses
// nothing that is looked for; the second one is so tight that something is lost.
const (
	demoBudget  = 6_000
	tightBudget = 2_000
)

type demoCmd struct {
	Home string `placeholder:"DIR" help:"The home (default: a new temporary folder, removed at the end)."`
	Once bool   `help:"Exit when the demonstration is over."`
	JSON bool   `name:"json" help:"Print one JSON value a line; the last one is the record of the compaction."`
}

// A demoQuestion is something to ask about the bundled session, and what a good
// answer has in it.
type demoQuestion struct {
	Question string   `json:"question"`
	Facts    []string `json:"facts"`
}

// Run shows a compaction from end to end. It does nothing that any client could
// not do: it talks to a real server over HTTP with the token.
func (c *demoCmd) Run(ctx context.Context, m *Main) (err error) {
	var questions []demoQuestion
	if err := json.Unmarshal(demoQuestions, &questions); err != nil {
		return fmt.Errorf("demo: read questions: %w", err)
	}
	if len(questions) == 0 {
		return errors.New("demo: there is no question to ask")
	}
	s, cleanUp, err := c.start(ctx, m)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, s.close(), cleanUp()) }()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	d, err := newDemo(s, tr, questions)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.out = demoOutput{w: m.Stdout, s: m.style, json: c.JSON}
	d.out.welcome(s)
	if err := d.play(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if c.Once {
		return nil
	}
	d.out.addresses(s, d.thread)
	<-ctx.Done()
	return nil
}

// start starts a server on the asked home, or on one that is removed afterwards.
func (c *demoCmd) start(ctx context.Context, m *Main) (s *server, cleanUp func() error, err error) {
	h, cleanUp := home{}, func() error { return nil }
	if c.Home != "" {
		if h, err = resolveHome(c.Home, m.Getenv); err != nil {
			return nil, nil, err
		}
	} else {
		if h.dir, err = os.MkdirTemp("", "plimsoll-demo-"); err != nil {
			return nil, nil, err
		}
		cleanUp = func() error { return os.RemoveAll(h.dir) }
	}
	log := slog.New(slog.NewTextHandler(m.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	listen := "127.0.0.1:0"
	if !c.Once && portFree(defaultListen) {
		listen = defaultListen
	}
	// The server outlives ctx: it is stopped by close, after the last request.
	if s, err = m.startServer(context.WithoutCancel(ctx), h, listen, log); err != nil {
		return nil, nil, errors.Join(err, cleanUp())
	}
	return s, cleanUp, nil
}

func portFree(addr string) bool {
	l, err := listenTCP(addr)
	return err == nil && l.Close() == nil
}

// A demo is the demonstration: a client with something to show.
type demo struct {
	client  *client
	out     demoOutput
	session []byte
	asked   []demoQuestion
	thread  string // that was compacted
}

// A demoThread is a thread and how much of it was read.
type demoThread struct{ id, cursor string }

// newDemo makes a client of the server like any other: over TCP, with the token.
func newDemo(s *server, tr *http.Transport, questions []demoQuestion) (*demo, error) {
	tok, err := s.home.readToken()
	if err != nil {
		return nil, err
	}
	return &demo{
		client:  &client{http: &http.Client{Transport: tr}, base: s.url(), token: tok},
		session: demoSession,
		asked:   questions,
	}, nil
}

// errOutcome says that the last compaction did not complete.
var errOutcome = errors.New("the compaction did not complete")

func (d *demo) play(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	thread, err := d.load(ctx, true)
	if err != nil {
		return err
	}
	// The thread that is compacted never saw the first answer: the second one
	// could quote it, and would prove nothing.
	copied, err := d.load(ctx, false)
	if err != nil {
		return err
	}
	d.thread = thread.id
	q := d.asked[0]
	before, err := d.ask(ctx, copied, "before", q)
	if err != nil {
		return err
	}
	refused, err := d.client.compact(ctx, thread.id, compactBody{Route: string(compaction.RouteNative), Wait: true})
	if err != nil {
		return fmt.Errorf("compact natively: %w", err)
	}
	d.out.native(refused)
	record, err := d.compact(ctx, thread, refused)
	if err != nil {
		return fmt.Errorf("compact locally: %w", err)
	}
	after, err := d.ask(ctx, thread, "after", q)
	if err != nil {
		return err
	}
	now, err := d.readContext(ctx, thread)
	if err != nil {
		return err
	}
	d.out.base = now.Base.Tokens
	d.out.facts(d.asked, before, after, compactedText(now, record))
	if !completed(record) {
		d.out.records(record, nil)
		return errOutcome
	}
	tight, err := d.client.compact(ctx, copied.id, localBody(tightBudget))
	if err != nil {
		return fmt.Errorf("compact the copy: %w", err)
	}
	d.out.records(record, tight)
	return nil
}

func completed(r *compaction.Record) bool {
	return r.Outcome != nil && *r.Outcome == compaction.Completed
}

// localBody asks for a local compaction and its record.
func localBody(budget int) compactBody {
	return compactBody{Route: string(compaction.RouteLocal), Budget: budget, Wait: true}
}

// load imports the bundled session.
func (d *demo) load(ctx context.Context, show bool) (*demoThread, error) {
	res, err := d.client.importFile(ctx, bytes.NewReader(d.session), "", "", "")
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if show {
		d.out.imported(res)
	}
	return &demoThread{res.Thread.ID, res.AsOf}, nil
}

// An answer is what a question got: a text, or why there is none.
type answer struct{ text, failed string }

// ask starts a turn and shows the answer as it comes. A turn that fails, such as
// one that does not fit the window, is an answer too.
func (d *demo) ask(ctx context.Context, th *demoThread, when string, q demoQuestion) (answer, error) {
	var ack api.TurnStartResult
	body := struct {
		Input string `json:"input"`
	}{q.Question}
	if err := d.client.call(ctx, http.MethodPost, threadPath(th.id, "/turns"), body, &ack); err != nil {
		return answer{}, fmt.Errorf("ask: %w", err)
	}
	d.out.question(when, q)
	var got answer
	err := d.follow(ctx, th, func(n protocol.Notification) (bool, error) {
		more, done, err := got.hear(n, ack.Turn.ID)
		d.out.delta(more)
		return done, err
	})
	if err != nil {
		return answer{}, fmt.Errorf("ask: %w", err)
	}
	d.out.answered(when, q, got)
	return got, nil
}

// hear takes in an event and returns the text that is new in it, and whether the
// turn is over.
func (a *answer) hear(n protocol.Notification, turn string) (more string, done bool, err error) {
	switch n.Method {
	case "item/agentMessage/delta":
		v, err := decodeParams[protocol.AgentMessageDeltaParams](n)
		if have := len(a.text) - int(v.Offset); v.TurnID == turn && have >= 0 && have < len(v.Delta) {
			more = v.Delta[have:]
		}
		a.text += more
		return more, false, err
	case "item/completed":
		v, err := decodeParams[protocol.ItemCompletedParams](n)
		if message, ok := v.Item.ItemVariant.(protocol.AgentMessageItem); ok && v.TurnID == turn {
			more = strings.TrimPrefix(message.Text, a.text)
		}
		a.text += more
		return more, false, err
	case "turn/completed":
		v, err := decodeParams[protocol.TurnCompletedParams](n)
		if v.Turn.ID == turn && v.Turn.Status != "completed" {
			a.failed = turnText(v.Turn)
		}
		return "", v.Turn.ID == turn, err
	}
	return "", false, nil
}

// compact compacts locally and shows the events meanwhile. What belongs to the
// compaction before it is not shown again.
func (d *demo) compact(ctx context.Context, th *demoThread, before *compaction.Record) (*compaction.Record, error) {
	type reply struct {
		record *compaction.Record
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.out.compacting()
	replies := make(chan reply, 1)
	go func() {
		record, err := d.client.compact(ctx, th.id, localBody(demoBudget))
		if err != nil {
			cancel() // nothing to follow
		}
		replies <- reply{record, err}
	}()
	show := false
	err := d.follow(ctx, th, func(n protocol.Notification) (bool, error) {
		if show && n.Seq != nil {
			d.out.event(n)
		}
		if n.Method != "turn/completed" {
			return false, nil
		}
		v, err := decodeParams[protocol.TurnCompletedParams](n)
		over := show
		show = show || v.Turn.ID == string(before.TurnID)
		return over, err
	})
	got := <-replies
	if got.err != nil {
		return nil, got.err
	}
	return got.record, err
}

// compactedText returns the text of the context that the compaction made, the
// checkpoint's included, without what was asked after it: that is not what it kept.
func compactedText(now api.ContextReadResult, r *compaction.Record) string {
	kept := len(now.Entries)
	if r.Items != nil {
		kept = min(kept, 1+r.Items.Whole+r.Items.Clipped+r.Items.Stub)
	}
	var text strings.Builder
	for _, e := range now.Entries[:kept] {
		text.WriteString(e.Text + "\n")
	}
	return text.String()
}

// readContext returns the current context with the entries of all its pages.
func (d *demo) readContext(ctx context.Context, th *demoThread) (all api.ContextReadResult, err error) {
	for query := ""; ; {
		var page api.ContextReadResult
		if err := d.client.call(ctx, http.MethodGet, threadPath(th.id, "/context")+query, nil, &page); err != nil {
			return all, fmt.Errorf("read context: %w", err)
		}
		page.Entries = append(all.Entries, page.Entries...)
		if all = page; all.NextCursor == nil {
			return all, nil
		}
		query = "?cursor=" + url.QueryEscape(*all.NextCursor)
	}
}

// follow reads the events behind the thread's cursor until each says done.
func (d *demo) follow(ctx context.Context, th *demoThread, each func(protocol.Notification) (done bool, err error)) error {
	path := threadPath(th.id, "/events?after=") + url.QueryEscape(th.cursor)
	resp, err := d.client.send(ctx, http.MethodGet, path, "", "text/event-stream", nil)
	if err != nil {
		return err
	}
	defer shut(resp.Body)
	for ev, err := range sseEvents(resp.Body) {
		if err != nil {
			return err
		}
		var n protocol.Notification
		if err := json.Unmarshal(ev.data, &n); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if ev.id != "" {
			th.cursor = ev.id
		}
		if done, err := each(n); done || err != nil {
			return err
		}
	}
	return io.ErrUnexpectedEOF
}

func decodeParams[P any](n protocol.Notification) (P, error) {
	var p P
	if err := json.Unmarshal(n.Params, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", n.Method, err)
	}
	return p, nil
}
