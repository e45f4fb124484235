package conform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A world is all that one row uses. Its methods end the row when something fails:
// they panic with the verdict, which run recovers.
type world struct {
	ctx  context.Context
	sub  Subject
	site Site

	model   *upstream.Server // nil for a real one
	models  sync.Mutex       // guards came
	came    chan struct{}    // closed and replaced when a request comes
	ids     *server          // the server under test; others may run beside it
	thread  transcript.ThreadID
	prompts map[transcript.TurnID]string
	before  []events.Event // of the journal, the last time the invariants were checked

	setup  setup
	others []*server
	undone []func() error // what the world has to give back
}

// setup is what a row wants its world to be like.
type setup struct {
	cassette string // {{run}} stands for the directive that makes the file of world.made
	disk     bool   // the journal is a file, so that servers can be started again
	refuse   bool
	loud     bool
	tap      bool
	hooks    threads.Hooks
	manual   bool // nothing but what is asked for compacts
}

// verdict ends a row.
type verdict struct{ Result }

// demand ends the row as failed unless ok.
func (w *world) demand(ok bool, expected, seen string, args ...any) {
	if !ok {
		panic(verdict{Result{Outcome: Fail, Expected: expected, Seen: fmt.Sprintf(seen, args...)}})
	}
}

// must ends the row as failed with an error.
func (w *world) must(err error, expected string) {
	if err != nil {
		w.demand(false, expected, "%s", told(err))
	}
}

// told is an error as clients are told it.
func told(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return string(f.Code) + ": " + f.Message
	}
	return err.Error()
}

func skip(format string, args ...any) {
	panic(verdict{Result{Outcome: Skipped, Reason: fmt.Sprintf(format, args...)}})
}

// open makes the world that a row wants.
func (w *world) open(s setup) {
	w.setup, w.came, w.prompts = s, make(chan struct{}), map[transcript.TurnID]string{}
	dir, err := os.MkdirTemp("", "conform")
	w.must(err, "a temporary folder")
	w.site = Site{Dir: dir, Work: filepath.Join(dir, "work"), Refuse: s.refuse, Loud: s.loud}
	w.undone = append(w.undone, func() error { return os.RemoveAll(dir) })
	w.must(os.Mkdir(w.site.Work, 0o700), "a folder to work in")
	if w.sub.Scripted != nil {
		w.play(s.cassette)
	}
	if s.tap || s.loud && w.sub.Scripted.Quiet || s.refuse && w.sub.Scripted != nil && w.sub.Scripted.Pretends {
		tap, err := writeTap(dir)
		w.must(err, "a tap between adapter and program")
		w.site.Tap = tap
	}
	w.ids = w.serve(w.journal())
	read, err := w.ids.svc.CreateThread(w.ctx, threads.CreateParams{Settings: threads.Settings{Cwd: w.site.Work, ApprovalPolicy: "on-request", Sandbox: "workspace-write"}})
	w.must(err, "a thread")
	w.thread = read.Thread.ID
	w.ids.follow(w.thread)
}

// cassetteOf is a cassette with the habits of a subject's model server.
func cassetteOf(s Subject, text string) string {
	if s.Scripted.Habits == "" {
		return text
	}
	return "server " + s.Scripted.Habits + "\n" + text
}

// play starts the model server.
func (w *world) play(cassette string) {
	cassette = strings.ReplaceAll(cassette, "{{run}}", w.sub.Scripted.Run(w.made()))
	c, err := upstream.Parse("conform", []byte(cassetteOf(w.sub, cassette)))
	w.must(err, "a cassette that can be played")
	w.model, err = upstream.Serve(c, upstream.Options{Recorded: func(upstream.Recorded) { w.wake() }})
	w.must(err, "a model server")
	w.site.URL = w.model.URL
	w.undone = append(w.undone, func() error { w.model.Close(); return nil })
}

func (w *world) wake() {
	w.models.Lock()
	defer w.models.Unlock()
	close(w.came)
	w.came = make(chan struct{})
}

// made is the file that the model makes when it may.
func (w *world) made() string { return filepath.Join(w.site.Work, "made") }

func (w *world) isMade() bool {
	_, err := os.Stat(w.made())
	return err == nil
}

func (w *world) db() string { return filepath.Join(w.site.Dir, "plimsoll.db") }

func (w *world) journal() events.Journal {
	if !w.setup.disk {
		return mem.New()
	}
	j, err := sqlite.Open(w.db(), sqlite.Options{})
	w.must(err, "a journal in a file")
	return j
}

// A server is one that has the provider under test, and what it told about a thread.
type server struct {
	w       *world
	svc     *threads.Service
	thread  transcript.ThreadID
	stop    context.CancelFunc
	stopped sync.WaitGroup
	from    int // what was told before the newest input

	mu     sync.Mutex // guards what follows
	seen   []events.Message
	more   chan struct{} // closed and replaced when something is seen
	ended  error
	closed bool
}

// serve starts a server on a journal.
func (w *world) serve(j events.Journal) *server {
	adapter, err := w.sub.Open(w.site)
	w.must(err, "an adapter")
	svc, err := threads.Open(w.ctx, threads.Config{
		Journal: j, Cwd: w.site.Work, Hooks: w.setup.hooks, Policy: compaction.Policy{Off: w.setup.manual}, StopAfter: 8 * time.Second,
		Tools:     map[string]threads.Tool{toolName: w.tool},
		Providers: []threads.Provider{{Name: w.sub.Name, Kind: w.sub.Kind, Adapter: adapter, Tools: w.sub.Tools}},
	})
	w.must(err, "a server")
	s := &server{w: w, svc: svc, more: make(chan struct{})}
	w.others = append(w.others, s)
	return s
}

// toolName is a tool of the server that makes a file if it may.
const toolName = "make_file"

func (w *world) tool(ctx context.Context, call transcript.ToolCall, ask threads.Asker) (transcript.ToolResult, error) {
	answer, err := ask(ctx, adapters.CommandApproval{Command: "touch " + w.made(), Cwd: w.site.Work, Reason: "it is needed"})
	if err != nil {
		return transcript.ToolResult{}, err
	}
	res := transcript.ToolResult{CallID: call.CallID, Output: transcript.TextParts("made")}
	if !answer.Decision.Allows() {
		res.Output, res.IsError = transcript.TextParts("the user declined"), true
		return res, nil
	}
	return res, os.WriteFile(w.made(), nil, 0o600)
}

// follow notes everything that the server tells of a thread, from the beginning.
func (s *server) follow(id transcript.ThreadID) {
	ctx, stop := context.WithCancel(s.w.ctx)
	s.thread, s.stop = id, stop
	s.stopped.Go(func() {
		for m, err := range s.svc.Follow(ctx, id, nil, 0) {
			s.note(m, err)
		}
		s.note(events.Message{}, context.Canceled)
	})
}

func (s *server) note(m events.Message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.ended = err
	} else {
		s.seen = append(s.seen, m)
	}
	close(s.more)
	s.more = make(chan struct{})
}

// close ends the server and what follows it.
func (s *server) close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.w.ctx), 20*time.Second)
	defer cancel()
	err := s.svc.Close(ctx)
	if s.stop != nil {
		s.stop()
		s.stopped.Wait()
	}
	return err
}

// close gives back all that the world has, and says what is left of it.
func (w *world) close() error {
	var errs []error
	for _, s := range w.others {
		errs = append(errs, s.close())
	}
	if w.sub.Scripted != nil && w.sub.Scripted.Process {
		errs = append(errs, gone(w.site.Dir))
	}
	for i := range w.undone {
		errs = append(errs, w.undone[len(w.undone)-1-i]())
	}
	return errors.Join(errs...)
}
