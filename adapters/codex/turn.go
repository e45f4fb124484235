package codex

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// run is one turn. Its goroutine is the one of Run; only questions and calls of
// clients' tools have goroutines of their own, which end before it does.
type run struct {
	s    *session
	p    *peer
	host adapters.Host
	turn transcript.TurnID
	ctx  context.Context // ends with the turn

	id    string             // codex's, of the turn; empty until it has told it
	early []frame            // that came before
	line  *timeline.Timeline // by codex's ids of items
	fatal *turnError         // the newest one that ends the turn

	compacting *compacting // codex's own, in this turn

	asking  sync.WaitGroup
	failing chan error // why the host ends the turn; has room for one
	asked   map[string]context.CancelFunc
	mu      sync.Mutex // guards asked
}

// maxEarly bounds what may come of a turn before codex says that there is one.
const maxEarly = 4096

// Run implements adapters.Session.
func (s *session) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	if err := ctx.Err(); err != nil {
		return adapters.End{}, err
	}
	s.mu.Lock()
	s.stop = false
	s.mu.Unlock()
	p, err := s.ensure(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	inner, cancel := context.WithCancel(ctx)
	r := &run{
		s: s, p: p, host: host, turn: in.Turn, ctx: inner, line: timeline.New(inner, host, in.Turn),
		failing: make(chan error, 1), asked: map[string]context.CancelFunc{},
	}
	r.line.Hide(child.Secrets(s.o.Env))
	listening := p.desk.Listen()
	defer s.over()
	defer p.desk.Leave(listening)
	defer r.asking.Wait()
	defer cancel()
	params, err := s.turnParams(in)
	if err != nil {
		return adapters.End{}, err
	}
	asked, err := p.begin(ctx, "turn/start", params)
	if err != nil {
		return adapters.End{}, err
	}
	done, err := r.follow(ctx, asked, listening)
	if err != nil {
		r.keep()
		return adapters.End{}, err
	}
	return r.end(ctx, done)
}

// turnParams is what a turn begins with. The server's own text is context of the
// application, which codex gives its model as a message of its own, with that
// provenance (codex 0.171, observed).
func (s *session) turnParams(in adapters.TurnInput) (map[string]any, error) {
	input, err := s.userInput(in.Input)
	if err != nil {
		return nil, err
	}
	params := map[string]any{"threadId": s.NativeID(), "input": input}
	if in.Notes != "" {
		params["additionalContext"] = map[string]any{"server_notes": map[string]any{"kind": "application", "value": in.Notes}}
	}
	if s.params.Model != "" {
		params["model"] = s.params.Model
	}
	if in.Effort != "" {
		params["effort"] = in.Effort
	}
	if in.Approval != "" {
		params["approvalPolicy"] = in.Approval
	}
	switch in.Sandbox {
	case "read-only":
		params["sandboxPolicy"] = map[string]any{"type": "readOnly", "networkAccess": false}
	case "workspace-write":
		params["sandboxPolicy"] = map[string]any{
			"type": "workspaceWrite", "writableRoots": []string{}, "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
		}
	case "danger-full-access":
		params["sandboxPolicy"] = map[string]any{"type": "dangerFullAccess"}
	}
	return params, nil
}

// follow handles what codex says until the turn is over, and returns its end.
func (r *run) follow(ctx context.Context, asked *call, from *child.Ear[frame]) (*turnView, error) {
	answer, stop, failing := asked.answer, ctx.Done(), r.failing
	var gaveUp <-chan time.Time
	var why error
	leave := func(err error) {
		why, stop, failing = err, nil, nil
		if gaveUp = r.s.patience(); r.id != "" {
			r.s.interrupt(r.p, r.s.NativeID(), r.id)
		} else {
			r.s.mu.Lock()
			r.s.stop = true
			r.s.mu.Unlock()
		}
	}
	for {
		select {
		case a := <-answer:
			answer = nil
			done, err := r.accepted(asked, a)
			if err != nil || done != nil {
				return done, errors.Join(why, err)
			}
		case f := <-from.C:
			done, err := r.take(f)
			switch {
			case err != nil && why == nil:
				leave(err)
			case done != nil:
				return done, why
			}
		case err := <-failing:
			leave(err)
		case <-stop:
			leave(context.Cause(ctx))
		case <-gaveUp:
			r.p.desk.Kill(from)
			return nil, errors.Join(why, r.p.ended())
		case <-r.p.desk.Done():
			return r.last(from, why)
		}
	}
}

// last takes what codex said before it ended.
func (r *run) last(from *child.Ear[frame], why error) (*turnView, error) {
	for {
		select {
		case f := <-from.C:
			done, err := r.take(f)
			if done != nil && err == nil {
				return done, why
			}
		default:
			if why != nil {
				return nil, why
			}
			return nil, r.p.ended()
		}
	}
}

// accepted takes codex's answer to turn/start, and what came before it.
func (r *run) accepted(asked *call, a frame) (*turnView, error) {
	var res struct {
		Turn turnView `json:"turn"`
	}
	if err := asked.decode(a, &res); err != nil {
		if e, ok := errors.AsType[*rpcError](err); ok && e.notSteerable() {
			return nil, unavailable(r.s.o.Name, "codex compacts this thread by another request; try again when that is over")
		}
		return nil, refused(r.s.o.Name, "turn/start", err)
	}
	r.id = res.Turn.ID
	r.s.began(r.p, r.id, true)
	early := r.early
	r.early = nil
	for _, f := range early {
		if done, err := r.take(f); done != nil || err != nil {
			return done, err
		}
	}
	return nil, nil
}

// take handles one frame. It returns the turn if that is its end.
func (r *run) take(f frame) (*turnView, error) {
	if r.id == "" && f.Method != "error" {
		if r.early = append(r.early, f); len(r.early) > maxEarly {
			return nil, unavailable(r.s.o.Name, "codex speaks of turns and has begun none")
		}
		return nil, nil
	}
	if f.asks() {
		return nil, r.request(f)
	}
	var n notice
	if err := json.Unmarshal(f.Params, &n); err != nil {
		r.s.o.Logger.Warn("codex: notification is not understood", "method", f.Method, "err", err)
		return nil, nil
	}
	if t := n.turn(); t != "" && t != r.id || r.s.foreign(&n) {
		return nil, nil // of a turn that is over, or of another client's
	}
	return r.notice(f.Method, &n)
}

// notice handles one notification of this turn.
func (r *run) notice(method string, n *notice) (*turnView, error) {
	switch method {
	case "item/agentMessage/delta", "item/reasoning/summaryTextDelta":
		return nil, r.line.Delta(n.ItemID, emptyOf(method), n.Delta)
	case "item/reasoning/summaryPartAdded":
		if n.Index > 0 {
			return nil, r.line.Delta(n.ItemID, transcript.Reasoning{}, "\n\n")
		}
	case "item/started":
		if n.Item != nil {
			return nil, r.started(n.Item)
		}
	case "item/completed":
		if n.Item != nil {
			return nil, r.completed(n.Item)
		}
	case "thread/tokenUsage/updated":
		if n.Usage != nil {
			r.usage(n.Usage)
		}
	case "turn/plan/updated":
		return nil, r.line.Emit(adapters.PlanUpdated{Plan: planOf(n.Plan)})
	case "error":
		if n.Retry && n.Error != nil {
			return nil, r.line.Emit(adapters.Retrying{Message: n.Error.Message})
		}
		r.fatal = n.Error
	case "warning":
		return nil, r.warn(n.Message)
	case "serverRequest/resolved":
		r.resolved(string(n.Request))
	case "turn/completed":
		return n.Turn, nil
	}
	return nil, nil
}

func planOf(steps []planStep) transcript.Plan {
	plan := transcript.Plan{Steps: []transcript.PlanStep{}}
	for _, s := range steps {
		plan.Steps = append(plan.Steps, transcript.PlanStep{Step: s.Step, Status: s.Status})
	}
	return plan
}

// keep tells the host what was held back of a turn that fails.
func (r *run) keep() {
	if err := r.line.Keep(r.s.o.StopTimeout); err != nil {
		r.s.o.Logger.Info("codex: what a turn ended with is lost", "provider", r.s.o.Name, "err", err)
	}
}

// maxWarnings bounds the texts that are remembered, so that none is told again.
const maxWarnings = 64

// warn tells a warning of codex once.
func (r *run) warn(text string) error {
	r.s.mu.Lock()
	known := r.s.warned[text] || len(r.s.warned) >= maxWarnings
	if !known {
		r.s.warned[text] = true
	}
	r.s.mu.Unlock()
	if known || text == "" {
		return nil
	}
	return r.line.Emit(adapters.Warned{Message: "codex: " + timeline.Clip(text, 1000)})
}

// usage reports what one request used. Codex repeats its figures, so only what is news
// counts; of a compaction of its own they are that one's.
func (r *run) usage(u *tokenUsage) {
	_, news := r.s.measured(u)
	if r.compacting != nil || !news || u.Last.Input == 0 {
		return
	}
	r.line.Hold(adapters.UsageReported{Usage: u.Last.usage(), Window: u.Window})
}

// end is how the turn ended.
func (r *run) end(ctx context.Context, t *turnView) (adapters.End, error) {
	if err := r.compactionCut(t.Status); err != nil {
		return adapters.End{}, err
	}
	switch t.Status {
	case "completed":
		return adapters.End{Updates: r.line.End(), Stop: adapters.StopEnd}, nil // a steer leaves texts open
	case "interrupted":
		r.keep()
		return adapters.End{}, interrupted(ctx)
	}
	r.keep()
	e := t.Error
	if e == nil {
		e = r.fatal
	}
	return adapters.End{}, e.failure()
}
