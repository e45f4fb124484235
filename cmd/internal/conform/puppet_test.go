package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/lease"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/retell"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A puppet is a small runtime of its own: it keeps its history in a file, has a child,
// asks the model server by chat completions and compacts by itself. It is honest, but
// for the one lie that it is told to tell.
type puppet struct {
	site  Site
	lie   lie
	other chan string // completions of others: see Scripted.Inject
}

// A lie is what a puppet does against the contract.
type lie string

const (
	honest          lie = ""
	otherAnswer     lie = "gives another answer than the model"
	buffers         lie = "tells the answer in one piece at its end"
	runsFirst       lie = "runs commands before it asks"
	ignoresNo       lie = "runs commands that were declined"
	neverAsks       lie = "asks nobody"
	dropsWords      lie = "forgets what was said before an interrupt"
	staleAnswer     lie = "answers the next turn with the one that was interrupted"
	swallowsSteer   lie = "takes what is said during a turn and drops it"
	sumsUsage       lie = "reports the sum in place of the last request"
	hidesFailure    lie = "ends turns whose request failed as if nothing were"
	wrongClass      lie = "calls an overflow a bad request"
	compactsNothing lie = "claims compactions that it did not make"
	keepsAll        lie = "asks for a summary and does not use it"
	neverRefuses    lie = "claims an ability that it has not"
	hidesBadSummary lie = "claims compactions whose summary failed"
	emptySuccess    lie = "claims compactions whose summary says nothing"
	forgetsOnCancel lie = "has no history any more after a cancelled compaction"
	ignoresCancel   lie = "goes on with a compaction that was cancelled"
	eager           lie = "asks for a summary whenever it is asked what it can"
	hidesDeath      lie = "ends turns and compactions whose child died as if nothing were"
	forgetsOnResume lie = "resumes with an empty history"
	anyCompletion   lie = "takes the completion of another for its own"
	tellsNothing    lie = "does not tell of compactions that it makes by itself"
	noLease         lie = "drives sessions that others drive"
	dropsSeed       lie = "ignores the history that it is given"
	leavesChild     lie = "leaves its child behind"
	leavesGoroutine lie = "leaves a goroutine behind"
	freshSession    lie = "goes on in another session than the one that it names"
	echoesTwice     lie = "says what the user said twice"
)

// forgotten ends the goroutines that puppets leave behind.
var forgotten = make(chan struct{})

// childArg makes the test binary the child of a puppet.
const childArg = "conform-child"

func childMain() int {
	_, _ = io.Copy(io.Discard, os.Stdin) // until nobody is there
	if os.Getenv("PUPPET_STAYS") != "" {
		select {}
	}
	return 0
}

// Puppet is the subject of a puppet.
func Puppet(l lie) Subject {
	other := make(chan string, 8)
	return Subject{
		Name: "puppet", Kind: "puppet", Version: "1.0.0",
		Scripted: &Scripted{
			Runtime: true, Process: true, Refusing: true, Window: window, Full: window * 94 / 100,
			Run:     func(string) string { return `call touch {} call_1` },
			Foreign: []string{"another-session"},
			Inject: func(_ Site, lines []string) error {
				for _, line := range lines {
					other <- line
				}
				return nil
			},
		},
		Open: func(s Site) (adapters.Adapter, error) { return &puppet{site: s, lie: l, other: other}, nil },
	}
}

func (p *puppet) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: "scripted", ContextWindow: window, WindowSource: "builtin"}}, nil
}

func (p *puppet) Probe(context.Context) adapters.Probe { return adapters.Probe{Version: "1.0.0"} }

func (p *puppet) Open(_ context.Context, o adapters.OpenParams) (adapters.Session, error) {
	s := &marionette{puppet: p, id: o.NativeID}
	if s.id == "" {
		s.id = uuid.NewString()
	}
	if p.lie != noLease {
		l, err := lease.Take(filepath.Join(p.site.Dir, "leases"), s.id, "puppet")
		if err != nil {
			return nil, errors.Join(adapters.ErrInUse, err)
		}
		s.lease = l
	}
	if o.NativeID != "" && p.lie != forgetsOnResume {
		if err := s.load(); err != nil {
			return nil, errors.Join(adapters.ErrNoSession, err, s.Close())
		}
	}
	if len(o.Seed) > 0 && p.lie != dropsSeed {
		s.add("user", retell.Text(o.Seed))
	}
	return s, nil
}

// marionette is a session of a puppet.
type marionette struct {
	*puppet
	id    string
	lease *lease.Lease

	mu      sync.Mutex
	history []map[string]any
	child   *child.Child
	steered []string
	closed  bool // the turn takes nothing more
	used    int
	total   adapters.Usage
	stale   string
}

func (s *marionette) path() string { return filepath.Join(s.site.Dir, s.id+".json") }
func (s *marionette) NativeID() string {
	if s.lie == freshSession {
		return uuid.NewString()
	}
	return s.id
}
func (*marionette) Base() adapters.Base { return adapters.Base{} }
func (s *marionette) load() error       { return s.read(s.path()) }
func (s *marionette) save() error       { return s.write(s.path()) }
func (s *marionette) read(p string) error {
	b, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &s.history)
}

func (s *marionette) write(p string) error {
	b, err := json.Marshal(s.history)
	if err != nil {
		return err
	}
	return os.WriteFile(p, b, 0o600)
}

func (s *marionette) add(role, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, map[string]any{"role": role, "content": text})
}

// ensure has a child run.
func (s *marionette) ensure() (*child.Child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		select {
		case <-s.child.Done():
			_ = s.child.Close()
		default:
			return s.child, nil
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env := []string{"HOME=" + s.site.Dir, "GORACE=atexit_sleep_ms=0"} // or the race detector holds it up for a second
	if s.lie == leavesChild {
		env = append(env, "PUPPET_STAYS=1")
	}
	s.child, err = child.Start(child.Spec{Argv: []string{self, childArg}, Env: env})
	return s.child, err
}

func (s *marionette) Steer(_ context.Context, in []transcript.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return adapters.ErrNotSteerable
	}
	if s.lie != swallowsSteer {
		s.steered = append(s.steered, transcript.PartsText(in))
	}
	return nil
}

func (s *marionette) Interrupt(context.Context) error { return nil } // the context ends it

func (s *marionette) Compaction() adapters.Ability {
	if s.lie == eager {
		_, _ = s.ask(context.Background(), s.prompt(), func(string) {})
	}
	if s.site.Refuse && s.lie != neverRefuses {
		return adapters.Ability{Refusal: &adapters.Refusal{Code: "puppetRefuses", Reason: "it was told to", Remedy: adapters.UseLocal}}
	}
	return adapters.Ability{Native: &adapters.Native{Form: "puppet"}}
}

func (s *marionette) Close() error {
	s.mu.Lock()
	c := s.child
	s.mu.Unlock()
	var errs []error
	if c != nil && s.lie != leavesChild {
		errs = append(errs, c.Close())
	}
	if s.lease != nil {
		errs = append(errs, s.lease.Release())
	}
	return errors.Join(errs...)
}

// prompt is the history with the order to summarise it.
func (s *marionette) prompt() []map[string]any {
	return append(slices.Clone(s.history), map[string]any{"role": "user", "content": transcript.WriterMark + " Summarise."})
}

// An answer is what the model said.
type answer struct {
	text  string
	calls []map[string]any
	usage adapters.Usage
}

// ask makes one request.
func (s *marionette) ask(ctx context.Context, messages []map[string]any, said func(string)) (a answer, err error) {
	body, err := json.Marshal(map[string]any{"model": "scripted", "stream": true, "stream_options": map[string]any{"include_usage": true}, "messages": messages})
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.site.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, &adapters.Error{Class: adapters.ClassUnreachable, Message: "nobody answers", Err: err}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		e := &adapters.Error{Class: adapters.ClassBadRequest, Status: res.StatusCode, Message: string(b)}
		if strings.Contains(e.Message, "context_length") && s.lie != wrongClass {
			e.Class = adapters.ClassOverflow
		}
		return a, e
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		if err := a.take(data, said); err != nil {
			return a, err
		}
	}
	return a, ctx.Err()
}

func (a *answer) take(data string, said func(string)) error {
	var c struct {
		Choices []struct {
			Delta struct {
				Content string           `json:"content"`
				Calls   []map[string]any `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
		Usage *struct {
			In  int `json:"prompt_tokens"`
			Out int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return err
	}
	for _, ch := range c.Choices {
		a.text += ch.Delta.Content
		for _, call := range ch.Delta.Calls {
			if call["id"] != nil {
				delete(call, "index")
				a.calls = append(a.calls, call)
			}
		}
		if ch.Delta.Content != "" {
			said(ch.Delta.Content)
		}
	}
	if c.Usage != nil {
		a.usage = adapters.Usage{InputTokens: c.Usage.In, OutputTokens: c.Usage.Out}
	}
	return nil
}

// errDied is the end of whatever the child died in.
var errDied = fault.New(fault.Unavailable, "the puppet's child died")

// living returns a context that ends with the child.
func living(ctx context.Context, c *child.Child) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-c.Done():
			cancel(errDied)
		case <-stop:
		}
	})
	return ctx, func() { close(stop); wait.Wait(); cancel(nil) }
}

func (s *marionette) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (end adapters.End, err error) {
	c, err := s.ensure()
	if err != nil {
		return end, err
	}
	ctx, done := living(ctx, c)
	defer done()
	s.opens()
	if s.lie == leavesGoroutine {
		go func() { <-forgotten }()
	}
	if in.Notes != "" {
		s.add("user", in.Notes)
	}
	if s.used >= window*90/100 {
		if err := s.own(ctx, h); err != nil {
			return end, err
		}
	}
	s.add("user", transcript.PartsText(in.Input))
	if s.lie == echoesTwice {
		s.add("user", transcript.PartsText(in.Input))
	}
	for {
		again, err := s.step(ctx, in, h)
		if err == nil && !again {
			return end, s.save()
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			died := errors.Is(err, errDied)
			if died && s.lie == hidesDeath || !died && ctx.Err() == nil && s.lie == hidesFailure {
				return end, nil
			}
			return end, errors.Join(err, s.save())
		}
	}
}

// step is one request and what follows from it; again: another one is due.
func (s *marionette) step(ctx context.Context, in adapters.TurnInput, h adapters.Host) (again bool, err error) {
	item := transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: transcript.AgentMessage{}}
	open, text := false, ""
	a, err := s.ask(ctx, s.history, func(piece string) {
		text += piece
		if s.lie == buffers {
			return
		}
		if !open {
			open = true
			_ = h.Emit(ctx, adapters.ItemStarted{Item: item})
		}
		_ = h.Emit(ctx, adapters.TextDelta{Item: item.ID, Text: piece})
	})
	if err != nil {
		if s.lie == dropsWords && open {
			item.Body = transcript.AgentMessage{Text: ""}
			_ = h.Emit(context.WithoutCancel(ctx), adapters.ItemCompleted{Item: item})
		}
		s.stale = text
		return false, err
	}
	if s.lie == staleAnswer && s.stale != "" {
		a.text, s.stale = s.stale+"and the end.", ""
	}
	if s.lie == otherAnswer {
		a.text = "Something else."
	}
	var updates []adapters.Update
	if a.text != "" {
		item.Body = transcript.AgentMessage{Text: a.text}
		updates = append(updates, adapters.ItemCompleted{Item: item})
	}
	s.used, s.total = a.usage.InputTokens, adapters.Usage{InputTokens: s.total.InputTokens + a.usage.InputTokens, OutputTokens: s.total.OutputTokens + a.usage.OutputTokens}
	told := a.usage
	if s.lie == sumsUsage {
		told = s.total
	}
	if err := h.Emit(ctx, append(updates, adapters.UsageReported{Usage: told, Window: window})...); err != nil {
		return false, err
	}
	m := map[string]any{"role": "assistant", "content": a.text}
	if a.calls != nil {
		m["tool_calls"] = a.calls
	}
	s.history = append(s.history, m)
	for _, call := range a.calls {
		if err := s.run(ctx, in, h, call); err != nil {
			return false, err
		}
	}
	return s.goesOn(len(a.calls) > 0), nil
}

// goesOn reads what steered, and closes the turn if there is nothing more to do.
func (s *marionette) goesOn(called bool) bool {
	s.mu.Lock()
	steered := s.steered
	s.steered = nil
	s.closed = !called && len(steered) == 0
	s.mu.Unlock()
	for _, text := range steered {
		s.add("user", text)
	}
	return called || len(steered) > 0
}

// opens lets a turn be steered.
func (s *marionette) opens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}

// run makes the file, if it may.
func (s *marionette) run(ctx context.Context, in adapters.TurnInput, h adapters.Host, call map[string]any) error {
	made := filepath.Join(s.site.Work, "made")
	touch := func() error { return os.WriteFile(made, nil, 0o600) }
	command := transcript.Command{Command: "touch " + made, Cwd: s.site.Work, Status: "inProgress"}
	item := transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: command}
	if err := h.Emit(ctx, adapters.ItemStarted{Item: item}); err != nil {
		return err
	}
	if s.lie == runsFirst {
		if err := touch(); err != nil {
			return err
		}
	}
	answer := adapters.Answer{Decision: adapters.Accept}
	if s.lie != neverAsks {
		var err error
		if answer, err = h.Ask(ctx, adapters.CommandApproval{Item: item, Command: command.Command, Cwd: command.Cwd}); err != nil {
			return err
		}
	}
	command.Status = "declined"
	if answer.Decision.Allows() || s.lie == ignoresNo {
		command.Status = "completed"
		if err := touch(); err != nil {
			return err
		}
	}
	item.Body = command
	s.history = append(s.history, map[string]any{"role": "tool", "tool_call_id": call["id"], "content": command.Status})
	return h.Emit(ctx, adapters.ItemCompleted{Item: item})
}

// own compacts because it is full.
func (s *marionette) own(ctx context.Context, h adapters.Host) error {
	if s.lie != tellsNothing {
		if err := h.Emit(ctx, adapters.CompactionBegan{}); err != nil {
			return err
		}
	}
	res, err := s.summarise(ctx)
	if s.lie == tellsNothing {
		return err
	}
	return h.Emit(ctx, adapters.CompactionEnded{Result: res, Err: err})
}

func (s *marionette) Compact(ctx context.Context, _ adapters.CompactInput, _ adapters.Host) (adapters.NativeResult, error) {
	fine := adapters.NativeResult{Form: "puppet"}
	if s.lie == compactsNothing {
		return fine, nil
	}
	c, err := s.ensure()
	if err != nil {
		return fine, err
	}
	ctx, done := living(ctx, c)
	defer done()
	if s.lie == anyCompletion {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		type ended struct {
			res adapters.NativeResult
			err error
		}
		end := make(chan ended, 1)
		go func() {
			res, err := s.summarise(ctx)
			end <- ended{res, err}
		}()
		select {
		case <-s.other:
			stop()
			<-end
			return fine, nil
		case e := <-end:
			return e.res, e.err
		}
	}
	run := ctx
	if s.lie == ignoresCancel {
		run = context.WithoutCancel(ctx)
	}
	res, err := s.summarise(run)
	switch {
	case err == nil:
		return res, s.save()
	case errors.Is(context.Cause(ctx), errDied):
		if s.lie == hidesDeath {
			return fine, nil
		}
		return res, errDied
	case ctx.Err() != nil:
		if s.lie == forgetsOnCancel {
			s.history = nil
		}
		return res, ctx.Err()
	case s.lie == hidesBadSummary, s.lie == emptySuccess && errors.Is(err, errEmpty):
		return fine, nil
	}
	return res, err
}

var errEmpty = fault.New(fault.Unavailable, "the summary is empty")

func (s *marionette) summarise(ctx context.Context) (adapters.NativeResult, error) {
	res := adapters.NativeResult{Form: "puppet", Before: s.used}
	a, err := s.ask(ctx, s.prompt(), func(string) {})
	if err != nil {
		return res, err
	}
	if strings.TrimSpace(a.text) == "" {
		return res, errEmpty
	}
	if s.lie != keepsAll {
		s.history = []map[string]any{{"role": "user", "content": a.text}}
	}
	s.used, res.Usage = 0, &a.usage
	return res, nil
}

// An honest puppet passes every row, so that what a lying one fails is the lie.
func TestAnHonestProviderConforms(t *testing.T) { held(t, Puppet(honest)) }

// lies demands that a row fails for a subject that lies.
func lies(t *testing.T, s Subject, l lie, name string) {
	t.Helper()
	i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
	if i < 0 {
		t.Fatalf("there is no row %q", name)
	}
	r := rows[i]
	r.limit = 10 * time.Second // what a lie keeps from happening does not happen later
	res := hold(t.Context(), s, r)
	if res.Outcome != Fail {
		t.Errorf("a provider that %s ends with %s %s", l, res.Outcome, res.Reason)
	}
	t.Logf("expected: %s; seen: %s", res.Expected, clip(res.Seen, 300))
}

// A suite that cannot fail proves nothing: each lie is found, by the rows that are about
// it.
func TestEachLieIsFound(t *testing.T) {
	found := map[string]bool{}
	for l, names := range map[lie][]string{
		otherAnswer: {"start", "nothing to do"}, buffers: {"stream"}, runsFirst: {"approve"}, neverAsks: {"approve", "deny"}, ignoresNo: {"deny"},
		dropsWords: {"interrupt", "kill in a turn"}, staleAnswer: {"interrupt"}, swallowsSteer: {"steer"}, echoesTwice: {"resume"}, sumsUsage: {"usage"},
		hidesFailure: {"turn 400", "turn 500", "turn overflow", "model down"}, wrongClass: {"turn overflow"},
		compactsNothing: {"native", "cancel", "turn in a compaction", "compaction in a turn", "long session"},
		keepsAll:        {"native", "compaction in a turn", "long session"}, neverRefuses: {"refusal"},
		hidesBadSummary: {"compaction 400", "compaction 500", "compaction overflow"}, emptySuccess: {"empty summary"},
		forgetsOnCancel: {"cancel"}, ignoresCancel: {"cancel"}, eager: {"denied by hook", "compaction in a turn"},
		hidesDeath: {"kill in a turn", "kill in a compaction"}, forgetsOnResume: {"resume"}, anyCompletion: {"foreign completion"},
		tellsNothing: {"own compaction"}, freshSession: {"resume"}, noLease: {"two servers"}, dropsSeed: {"rebase and undo"}, leavesChild: {"start"}, leavesGoroutine: {"start"},
	} {
		for _, name := range names {
			t.Run(string(l)+"/"+name, func(t *testing.T) {
				lies(t, Puppet(l), l, name)
			})
			found[name] = true
		}
	}
	names, _ := Rows()
	var missing []string
	for _, n := range names {
		if !found[n] {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		t.Errorf("nobody lies about %q; of %d rows", missing, len(names))
	}
}
