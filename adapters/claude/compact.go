package claude

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file is Claude Code's native compaction (2.1.332, observed): a message whose
// whole text is the command. There is no control request for it. Its result says
// success in every case; what happened is told by a status and by the boundary.

// Compaction implements adapters.Session.
func (s *session) Compaction() adapters.Ability {
	s.mu.Lock()
	p := s.peer
	s.mu.Unlock()
	return ability(p.hello)
}

func ability(h hello) adapters.Ability {
	if !h.has("compact") {
		return adapters.Ability{Refusal: unable(h.Version)}
	}
	return adapters.Ability{Native: &adapters.Native{Form: Form}}
}

func unable(version string) *adapters.Refusal {
	return &adapters.Refusal{
		Code:   "commandMissing",
		Reason: "this Claude Code (" + version + ") has no command /compact: DISABLE_COMPACT is set, its commands are switched off, or it is too old",
		Remedy: "unset DISABLE_COMPACT or update it (npm install -g @anthropic-ai/claude-code), or " + adapters.UseLocal,
	}
}

// compacting is what is known of a compaction while it runs, asked for or not.
type compacting struct {
	spent    adapters.Usage // before it
	before   int            // tokens of the context, as reported last
	result   string         // success or failed; empty until told
	failure  string
	boundary json.RawMessage // its metadata; nil until told
	summary  string
	said     []string // texts that Claude Code made itself
	anchored bool     // the model is told how things stand
}

// note takes what is told about a compaction.
func (c *compacting) note(f *frame) {
	switch {
	case f.Type == "system" && f.Subtype == "status" && f.CompactResult != "":
		c.result, c.failure = f.CompactResult, f.CompactError
	case f.Type == "system" && f.Subtype == "compact_boundary":
		if c.boundary = f.Metadata; c.boundary == nil {
			c.boundary = json.RawMessage("null")
		}
	case f.Type == "user" && f.Message != nil && f.Synthetic && c.summary == "":
		c.summary = textOf(f.Message.Content)
	case (f.Type == "user" || f.Type == "assistant") && f.Message != nil:
		c.said = append(c.said, textOf(f.Message.Content))
	}
}

// completed reports whether the history was replaced. Versions that tell no result
// tell the boundary.
func (c *compacting) completed() bool { return c.boundary != nil && c.result != "failed" }

// disclosed is what Claude Code told of it.
func (c *compacting) disclosed() transcript.RawJSON {
	v := map[string]any{"boundary": c.boundary}
	if c.summary != "" {
		v["summary"] = clip(c.summary)
	}
	b, err := json.Marshal(v)
	if err != nil { // JSON that was read, and a text
		return nil
	}
	return b
}

// pre is the size of the context before, as the boundary tells it.
func (c *compacting) pre() int {
	var m struct {
		Pre int `json:"pre_tokens"`
	}
	_ = json.Unmarshal(c.boundary, &m) // what is not there is not told
	if m.Pre > 0 {
		return m.Pre
	}
	return c.before
}

// native is the result for the server. What the boundary tells of the size after counts
// only a part of the context, so it is not that figure.
func (c *compacting) native(s *session) adapters.NativeResult {
	s.mu.Lock()
	now, window := s.spent, s.window
	s.mu.Unlock()
	res := adapters.NativeResult{Form: Form, Disclosed: c.disclosed(), Before: c.pre(), Window: window, Reanchored: c.anchored}
	spent := adapters.Usage{
		InputTokens: now.InputTokens - c.spent.InputTokens, CachedInputTokens: now.CachedInputTokens - c.spent.CachedInputTokens,
		CacheWriteInputTokens: now.CacheWriteInputTokens - c.spent.CacheWriteInputTokens, OutputTokens: now.OutputTokens - c.spent.OutputTokens,
	}
	if spent != (adapters.Usage{}) {
		res.Usage = &spent
	}
	return res
}

func (s *session) compacting() *compacting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &compacting{spent: s.spent, before: s.context}
}

// Compact implements adapters.Session.
func (s *session) Compact(ctx context.Context, in adapters.CompactInput, host adapters.Host) (adapters.NativeResult, error) {
	if err := ctx.Err(); err != nil {
		return adapters.NativeResult{}, err
	}
	p, err := s.ensure(ctx)
	if err != nil {
		return adapters.NativeResult{}, err
	}
	if a := s.Compaction(); a.Refusal != nil { // a newer process may be another version
		return adapters.NativeResult{}, &adapters.RefusedError{Refusal: *a.Refusal}
	}
	ear := p.desk.Listen()
	defer s.over()
	defer p.desk.Leave(ear)
	o := &order{s: s, p: p, ctx: ctx, host: host, c: s.compacting(), id: uuid.NewString(), begun: time.Now()}
	s.begin(o.id, false)
	text := "/compact"
	if wish := strings.Join(strings.Fields(in.Instructions), " "); wish != "" {
		text += " " + wish
	}
	command := userFrame(o.id, text, false)
	delete(command, "client_composed") // it is to run as a command
	if err := p.send(ctx, command); err != nil {
		return adapters.NativeResult{}, err
	}
	return o.concluded(o.follow(ear))
}

// An order is a compaction that was asked for.
type order struct {
	s     *session
	p     *peer
	ctx   context.Context
	host  adapters.Host
	c     *compacting
	id    string // of our message
	begun time.Time

	ended     *frame // its result
	tracked   bool   // the lifecycle of messages is told
	cancelled bool
}

// errLate: the compaction took too long, and did not end when it was interrupted.
var errLate = errors.New("claude: the compaction did not end in time")

// follow handles what is said until our message is done. It returns why it was ended
// before, or why its end was not seen.
func (o *order) follow(ear *child.Ear[frame]) error {
	limit := time.NewTimer(o.s.o.CompactTimeout)
	defer limit.Stop()
	stop := o.ctx.Done()
	var gaveUp <-chan time.Time
	var why error
	leave := func(err error) {
		if why == nil {
			why, gaveUp = err, o.s.patience()
			o.s.interrupt(o.p)
		}
		stop = nil
	}
	for {
		select {
		case f := <-ear.C:
			if o.take(&f) {
				return why
			}
		case <-stop:
			leave(context.Cause(o.ctx))
		case <-limit.C:
			leave(errLate)
		case <-gaveUp:
			o.p.desk.Kill(ear)
			return why
		case <-o.p.desk.Done():
			for {
				select {
				case f := <-ear.C:
					if o.take(&f) {
						return why
					}
				default:
					return errors.Join(why, o.p.ended())
				}
			}
		}
	}
}

// take handles one frame, and reports whether the compaction is over. Only our own
// message ends it.
func (o *order) take(f *frame) (over bool) {
	switch f.Type {
	case "control_request":
		o.request(f)
	case "result":
		if len(f.Messages) > 0 && !slices.Contains(f.Messages, o.id) {
			return false
		}
		o.ended = f
		o.s.learned()
		o.s.mu.Lock()
		if len(f.ModelUsage) > 0 {
			o.s.spent = total(f.ModelUsage)
		}
		o.s.mu.Unlock()
		return !o.tracked
	case "command_lifecycle":
		o.tracked = true
		if f.Command == o.id && (f.State == "completed" || f.State == "cancelled") {
			o.cancelled = f.State == "cancelled"
			return true
		}
	default:
		if o.ended == nil { // what comes after our result is not about us
			o.c.note(f)
		}
	}
	return false
}

// request answers the hooks of our compaction: the user's were asked before it began,
// so it may run; and the model is told how things stand after it.
func (o *order) request(f *frame) {
	q := f.Request
	if q == nil || q.Subtype != "hook_callback" { // tools may be listed anew
		o.p.idle(*f)
		return
	}
	var res any = struct{}{}
	if e := q.event(); e.Name == "SessionStart" && e.Source == "compact" {
		if text, err := o.host.Reanchor(o.ctx); err == nil && text != "" {
			res, o.c.anchored = reanchored(text), true
		}
	} else if e.Name == "PreCompact" && o.ctx.Err() != nil {
		res = map[string]any{"decision": "block", "reason": "the compaction was cancelled"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), refuseTimeout)
	defer cancel()
	if err := o.p.respond(ctx, f.RequestID, res); err != nil {
		o.s.o.Logger.Warn("answer Claude Code", "provider", o.s.o.Name, "err", err)
	}
}

// concluded says what the compaction came to. Nothing is claimed that was not seen:
// where its end was not, Claude Code's transcript is looked at.
func (o *order) concluded(err error) (adapters.NativeResult, error) {
	none := adapters.NativeResult{}
	switch c := o.c; {
	case c.completed():
		return o.sized(c.native(o.s)), nil
	case o.ended == nil && !o.cancelled:
		return o.unseen(err)
	case errors.Is(err, errLate):
		return none, fault.New(fault.Unavailable, "%s: Claude Code did not finish its compaction within %v and was interrupted; its history is as it was", o.s.o.Name, o.s.o.CompactTimeout)
	case err != nil:
		return none, err
	case o.cancelled:
		return none, interrupted(o.ctx)
	case c.result == "failed":
		return none, compactFailure(c.failure)
	}
	said := strings.Join(o.c.said, " ")
	switch {
	case isNothing(said):
		return none, adapters.ErrNothingToCompact
	case strings.Contains(said, "isn't available in this environment"):
		return none, &adapters.RefusedError{Refusal: *unable(o.p.hello.Version)}
	}
	return none, unavailable(o.s.o.Name, "Claude Code took the command /compact and did not say that it compacted: %s", clip(said))
}

// sized adds what Claude Code estimates the whole context to be now, which costs no
// request.
func (o *order) sized(res adapters.NativeResult) adapters.NativeResult {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), sizeTimeout)
	defer cancel()
	var u struct {
		Total  int `json:"totalTokens"`
		Window int `json:"rawMaxTokens"`
	}
	if err := o.p.control(ctx, "get_context_usage", map[string]any{"detail": "summary"}, &u); err != nil {
		return res // older ones have none: the size stays unknown until the next turn
	}
	res.After = u.Total
	if u.Window > 0 {
		res.Window = u.Window
	}
	return res
}

// sizeTimeout bounds what is asked after a compaction that completed.
const sizeTimeout = 5 * time.Second

// unseen looks for the end that was not seen.
func (o *order) unseen(err error) (adapters.NativeResult, error) {
	res, found := o.s.find(o.begun)
	switch {
	case found == nil:
		res.Before = o.c.before
		res.Warnings = append(res.Warnings, "Claude Code never told the end of its compaction; it was found in its transcript")
		return res, nil
	case errors.Is(found, adapters.ErrNotCompacted) && errors.Is(err, errLate):
		return adapters.NativeResult{}, fault.Wrap(fault.Unavailable, err, "%s: Claude Code did not finish its compaction within %v; its history is as it was", o.s.o.Name, o.s.o.CompactTimeout)
	case errors.Is(found, adapters.ErrNotCompacted) && err == nil: // it says that our message is done, and no more
		return adapters.NativeResult{}, fault.Wrap(fault.Unavailable, found, "%s: Claude Code ended the command /compact without a result; its history is as it was", o.s.o.Name)
	case errors.Is(found, adapters.ErrNotCompacted):
		return adapters.NativeResult{}, err
	}
	return adapters.NativeResult{}, errors.Join(adapters.ErrUncertain, err, found)
}

// ownCompaction takes what is told in a turn about a compaction that Claude Code makes
// by itself, which it should not.
func (r *run) ownCompaction(f *frame) error {
	if f.Subtype == "status" && f.Status != nil && *f.Status == "compacting" && r.own == nil {
		r.own = r.s.compacting()
		return r.line.Emit(adapters.CompactionBegan{})
	}
	if r.own == nil {
		return nil
	}
	r.own.note(f)
	switch {
	case r.own.completed() && (r.own.result == "success" || f.Subtype == "compact_boundary"):
		if f.Subtype != "compact_boundary" {
			return nil // which follows
		}
	case r.own.result == "failed" || f.Subtype == "status" && f.Status == nil && f.CompactResult == "":
		err := compactFailure(r.own.failure)
		r.own = nil
		return r.line.Emit(adapters.CompactionEnded{Err: err})
	default:
		return nil
	}
	c := r.own
	r.own = nil
	r.mu.Lock()
	c.anchored, r.anchored = r.anchored, false
	r.mu.Unlock()
	res := c.native(r.s)
	res.Usage = nil // results tell it only when the turn is over
	return r.line.Emit(adapters.CompactionEnded{Result: res})
}

// ownCut ends the compaction that the turn did not see the end of.
func (r *run) ownCut() error {
	if r.own != nil && r.ctx.Err() == nil { // else the server ends it
		r.own = nil
		return r.line.Emit(adapters.CompactionEnded{Err: unavailable(r.s.o.Name, "Claude Code ended the turn without completing its compaction")})
	}
	return nil
}
