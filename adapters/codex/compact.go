package codex

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// This file is codex's native compaction (codex 0.171, observed). thread/compact/start
// is answered at once; then a turn of its own begins, in which an item of the type
// contextCompaction is started and, if the history was replaced, completed. How the
// turn ends says only why it was not: it is interrupted also when a hook of the user
// stopped it before, or after.

// oldest is the oldest version whose compaction this package claims to understand.
const oldest = "0.171"

// Compaction implements adapters.Session.
func (s *session) Compaction() adapters.Ability {
	s.mu.Lock()
	v := s.version
	s.mu.Unlock()
	return ability(v)
}

func ability(version string) adapters.Ability {
	if older(version, oldest) {
		reason := "codex " + version + " is older than " + oldest + ", with which its compaction was verified"
		if len(numbers(version)) == 0 {
			reason = "this codex tells no version, and its compaction was verified with " + oldest
		}
		return adapters.Ability{Refusal: &adapters.Refusal{
			Code: "versionTooOld", Reason: reason,
			Remedy: "update codex (npm install -g @openai/codex), or " + adapters.UseLocal,
		}}
	}
	return adapters.Ability{Native: &adapters.Native{Form: Form}}
}

// compacting is what is known of a compaction while it runs, asked for or not.
type compacting struct {
	id            string // of codex's turn; empty until it began
	item          string // of the compaction's item
	before        adapters.Usage
	after, window int
	begun         int
	since         time.Time
	done          bool   // the item was completed: the history is replaced
	stopped       string // what a hook of the user's codex said that stopped it
}

// note takes one notification that is about the compaction's turn.
func (c *compacting) note(s *session, method string, n *notice) {
	switch method {
	case "item/completed":
		c.done = c.done || n.Item != nil && n.Item.Type == "contextCompaction"
	case "thread/tokenUsage/updated":
		if u := n.Usage; u != nil {
			s.measured(u)
			c.window = u.Window
			if u.Last.Input == 0 && u.Last.Total > 0 {
				c.after = u.Last.Total
			}
		}
	case "hook/completed":
		if n.Run != nil && n.Run.Event == "preCompact" && n.Run.Status == "stopped" {
			c.stopped = "a PreCompact hook of codex stopped it"
			for _, e := range n.Run.Entries {
				if e.Text != "" {
					c.stopped += ": " + timeline.Clip(e.Text, 500)
				}
			}
		}
	}
}

// result is what codex disclosed of a compaction that completed.
func (c *compacting) result(s *session) (adapters.NativeResult, error) {
	s.mu.Lock()
	spent, path := minus(s.total, c.before), s.path
	s.mu.Unlock()
	res := adapters.NativeResult{Form: Form, Before: c.begun, After: c.after, Window: c.window}
	if spent != (adapters.Usage{}) {
		res.Usage = &spent
	}
	summary := newestSummary(path, c.since)
	if summary == nil {
		return res, nil // the file is codex's own business
	}
	if summary.hollow() {
		return res, adapters.ErrLossy
	}
	res.Disclosed = summary.disclosed()
	return res, nil
}

func (s *session) compacting() *compacting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &compacting{before: s.total, begun: s.context, since: time.Now()}
}

// Compact implements adapters.Session.
func (s *session) Compact(ctx context.Context, in adapters.CompactInput, _ adapters.Host) (adapters.NativeResult, error) {
	if err := ctx.Err(); err != nil {
		return adapters.NativeResult{}, err
	}
	s.mu.Lock()
	s.stop = false
	s.mu.Unlock()
	p, err := s.ensure(ctx)
	if err != nil {
		return adapters.NativeResult{}, err
	}
	if a := s.Compaction(); a.Refusal != nil { // a newer process may be another version
		return adapters.NativeResult{}, &adapters.RefusedError{Refusal: *a.Refusal}
	}
	listening := p.desk.Listen()
	defer s.over()
	defer p.desk.Leave(listening)
	begun := time.Now()
	c := s.compacting()
	asked, err := p.begin(ctx, "thread/compact/start", map[string]any{"threadId": s.NativeID()})
	if err != nil {
		return adapters.NativeResult{}, err
	}
	end, err := s.await(ctx, c, asked, listening)
	res, err := s.concluded(ctx, c, end, err, begun)
	if err == nil && in.Instructions != "" {
		res.Warnings = append(res.Warnings, "codex takes no instructions for its summary; the ones that were given were not used")
	}
	return res, err
}

// errLate: the compaction took too long, and did not end when it was interrupted.
var errLate = errors.New("codex: the compaction did not end in time")

// await follows the compaction to the end of its turn; nil with an error if there was
// none.
func (s *session) await(ctx context.Context, c *compacting, asked *call, from *child.Ear[frame]) (*turnView, error) {
	limit := time.NewTimer(s.o.CompactTimeout)
	defer limit.Stop()
	p, answer, stop := asked.p, asked.answer, ctx.Done()
	var gaveUp <-chan time.Time
	var why error
	accept := func(f frame) error {
		answer = nil
		return refused(s.o.Name, "thread/compact/start", asked.decode(f, nil))
	}
	leave := func(err error) {
		why, stop = err, nil
		gaveUp = s.patience()
		s.mu.Lock()
		id, turn := s.id, s.turn
		s.stop = turn == ""
		s.mu.Unlock()
		if turn != "" {
			s.interrupt(p, id, turn)
		}
	}
	for {
		select {
		case a := <-answer:
			if err := accept(a); err != nil {
				return nil, err
			}
		case f := <-from.C:
			select {
			case a := <-answer: // it came before the frame
				if err := accept(a); err != nil {
					return nil, err
				}
			default:
			}
			if end := s.observe(p, c, f); end != nil {
				return end, why
			}
		case <-stop:
			leave(context.Cause(ctx))
		case <-limit.C:
			leave(errLate)
		case <-gaveUp:
			p.desk.Kill(from)
			return nil, why
		case <-p.desk.Done():
			if end := s.rest(p, c, from); end != nil {
				return end, why
			}
			return nil, errors.Join(why, p.ended())
		}
	}
}

// rest observes what was said before the end of the conversation.
func (s *session) rest(p *peer, c *compacting, from *child.Ear[frame]) *turnView {
	for {
		select {
		case f := <-from.C:
			if end := s.observe(p, c, f); end != nil {
				return end
			}
		default:
			return nil
		}
	}
}

// observe takes one frame, and returns the turn of the compaction if that is its end.
// The compaction's turn is the first of the thread that begins once it was asked for: no
// other can, and whether codex says that before it answers the request is left to it. What
// belongs to another turn or thread is not ours.
func (s *session) observe(p *peer, c *compacting, f frame) *turnView {
	if f.asks() {
		p.refuse(f.ID, "nothing can be asked during a compaction")
		return nil
	}
	var n notice
	if json.Unmarshal(f.Params, &n) != nil || s.foreign(&n) {
		return nil
	}
	if f.Method == "turn/started" && c.id == "" && n.Turn != nil {
		c.id = n.Turn.ID
		s.began(p, c.id, false)
		return nil
	}
	if c.id == "" || n.turn() != c.id {
		return nil
	}
	if f.Method == "turn/completed" {
		return n.Turn
	}
	c.note(s, f.Method, &n)
	return nil
}

// concluded says what a compaction came to. Nothing is claimed that was not seen: where
// its end was not, codex's history is looked at.
func (s *session) concluded(ctx context.Context, c *compacting, end *turnView, err error, begun time.Time) (adapters.NativeResult, error) {
	switch {
	case c.done: // whatever the turn says of itself
		return c.result(s)
	case end != nil && c.stopped != "":
		return adapters.NativeResult{}, fault.New(fault.Denied, "%s", c.stopped)
	case end != nil && end.Status == "failed":
		return adapters.NativeResult{}, end.Error.failure()
	case end != nil && errors.Is(err, errLate):
		return adapters.NativeResult{}, fault.New(fault.Unavailable, "%s: codex did not finish its compaction within %v and was interrupted; its history is as it was",
			s.o.Name, s.o.CompactTimeout)
	case end != nil && end.Status == "interrupted":
		return adapters.NativeResult{}, interrupted(ctx)
	case end != nil:
		return adapters.NativeResult{}, fault.New(fault.Unavailable, "%s: codex ended its compaction without completing it", s.o.Name)
	}
	if _, answered := errors.AsType[*fault.Error](err); answered && !s.ended() {
		return adapters.NativeResult{}, err // it was never begun
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.OpenTimeout)
	defer cancel()
	if s.isClosed() {
		return adapters.NativeResult{}, err
	}
	res, found := s.Recover(look, adapters.Unfinished{StartedAt: begun})
	switch {
	case found == nil:
		res.Before = c.begun
		res.Warnings = append(res.Warnings, "codex never told the end of its compaction; it was found in its history")
		return res, nil
	case errors.Is(found, adapters.ErrNotCompacted) && ctx.Err() != nil:
		return adapters.NativeResult{}, ctx.Err()
	case errors.Is(found, adapters.ErrNotCompacted) && errors.Is(err, errLate):
		return adapters.NativeResult{}, fault.Wrap(fault.Unavailable, err, "%s: codex did not finish its compaction within %v; its history is as it was", s.o.Name, s.o.CompactTimeout)
	case errors.Is(found, adapters.ErrNotCompacted):
		return adapters.NativeResult{}, err
	}
	return adapters.NativeResult{}, errors.Join(adapters.ErrUncertain, err, found)
}

// ended reports whether the process is gone.
func (s *session) ended() bool {
	s.mu.Lock()
	p := s.peer
	s.mu.Unlock()
	return p.ended() != nil
}

func (s *session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// compactionBegan notes that codex compacts by itself in this turn, as it does at 90 %
// of its window whatever is configured (codex 0.171, observed).
func (r *run) compactionBegan(id string) error {
	if r.compacting != nil {
		return nil
	}
	r.compacting = r.s.compacting()
	r.compacting.item = id
	return r.line.Emit(adapters.CompactionBegan{})
}

func (r *run) compactionEnded(id string) error {
	c := r.compacting
	if c == nil || c.item != id {
		return nil
	}
	r.compacting = nil
	r.s.mu.Lock()
	c.after, c.window = r.s.context, r.s.window
	r.s.mu.Unlock()
	res, err := c.result(r.s)
	return r.line.Emit(adapters.CompactionEnded{Result: res, Err: err})
}

// compactionCut ends the compaction that the turn did not see the end of.
func (r *run) compactionCut(status string) error {
	if r.compacting == nil {
		return nil
	}
	r.compacting = nil
	if r.ctx.Err() == nil { // else the server ends it
		return r.line.Emit(adapters.CompactionEnded{Err: fault.New(fault.Unavailable, "codex ended the turn (%s) without completing its compaction", status)})
	}
	return nil
}
