package claude

import (
	"context"
	"errors"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file answers what Claude Code asks in a turn: permissions and hooks. Each is
// answered from a goroutine of its own, since people may take days.

// request handles a control request.
func (r *run) request(f *frame) {
	q := f.Request
	if q == nil {
		return
	}
	switch q.Subtype {
	case "can_use_tool":
		r.permission(f.RequestID, q)
	case "mcp_message":
		r.call(f.RequestID, q)
	case "hook_callback":
		r.hook(f.RequestID, q.event())
	default:
		r.answer(func(ctx context.Context) error {
			return r.p.refuse(ctx, f.RequestID, "this client does not answer "+q.Subtype)
		})
	}
}

// interactive are tools that are a dialog with the person at the terminal.
var interactive = map[string]bool{"AskUserQuestion": true, "ExitPlanMode": true, "EnterPlanMode": true}

// nobodyThere is what the model is told about a dialog that nobody can have.
const nobodyThere = "Nobody is at the terminal to answer this. Decide for yourself, say what you assumed, and go on; or ask in your answer."

// permission decides whether a tool may be used, or asks.
func (r *run) permission(id string, q *controlRequest) {
	if interactive[q.Tool] {
		r.allow(id, q, adapters.Answer{Decision: adapters.Decline, Reason: nobodyThere})
		return
	}
	if strings.HasPrefix(q.Tool, toolPrefix) || r.in.Sandbox == "danger-full-access" && r.in.Approval != "untrusted" {
		r.allow(id, q, adapters.Answer{Decision: adapters.Accept})
		return
	}
	if err := r.line.Emit(); err != nil { // what was said before stands before the question
		r.fail(err)
		return
	}
	question := r.question(q)
	ctx, cancel := context.WithCancel(r.ctx)
	r.mu.Lock()
	r.asked[id] = cancel
	r.mu.Unlock()
	r.asking.Go(func() {
		defer cancel()
		a, err := r.host.Ask(ctx, question)
		switch {
		case err == nil:
			r.allow(id, q, a)
		case ctx.Err() == nil || r.ctx.Err() == nil && !errors.Is(err, context.Canceled):
			r.fail(err)
		}
	})
}

// question is what the people behind the clients are asked.
func (r *run) question(q *controlRequest) adapters.Question {
	it := r.line.About(q.ToolUseID, r.itemOf(q.ToolUseID, q.Tool, q.Input))
	switch b := it.Body.(type) {
	case transcript.Command:
		return adapters.CommandApproval{Item: it, Command: b.Command, Cwd: r.s.params.Cwd, Reason: q.Description}
	case transcript.FileChange:
		return adapters.FileApproval{Item: it, Reason: q.Description}
	}
	return adapters.CommandApproval{Item: it, Command: q.Tool + " " + string(arguments(q.Input)), Cwd: r.s.params.Cwd, Reason: q.Description}
}

// allow gives Claude Code an answer.
func (r *run) allow(id string, q *controlRequest, a adapters.Answer) {
	res := map[string]any{"behavior": "allow", "updatedInput": arguments(q.Input)}
	if !a.Decision.Allows() {
		r.mu.Lock()
		r.denied[q.ToolUseID] = true
		r.mu.Unlock()
		text := a.Reason
		if text == "" {
			text = "The user does not allow this."
		}
		res = map[string]any{"behavior": "deny", "message": text}
		if a.Decision == adapters.Cancel {
			res["interrupt"] = true
		}
	}
	r.answer(func(ctx context.Context) error { return r.p.respond(ctx, id, res) })
}

func (r *run) wasDenied(call string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.denied[call]
}

// unask ends the waiting for an answer that Claude Code needs no more.
func (r *run) unask(id string) {
	r.mu.Lock()
	cancel := r.asked[id]
	delete(r.asked, id)
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// answer sends an answer.
func (r *run) answer(send func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(r.ctx, refuseTimeout)
	defer cancel()
	if err := send(ctx); err != nil && r.ctx.Err() == nil {
		r.fail(err)
	}
}

// fail ends the turn because the host does, or because Claude Code takes no answer.
func (r *run) fail(err error) {
	select {
	case r.failing <- err:
	default: // there is a reason already
	}
}

// hook answers a hook in a turn: a compaction that Claude Code wants to make by itself,
// and what its model is told after it.
func (r *run) hook(id string, e hookEvent) {
	r.asking.Go(func() {
		var res any = struct{}{}
		switch {
		case e.Agent != "":
		case e.Name == "PreCompact":
			res = r.mayCompact()
		case e.Name == "SessionStart" && e.Source == "compact":
			text, err := r.host.Reanchor(r.ctx)
			if err == nil && text != "" {
				res = reanchored(text)
				r.mu.Lock()
				r.anchored = true
				r.mu.Unlock()
			}
		}
		r.answer(func(ctx context.Context) error { return r.p.respond(ctx, id, res) })
	})
}

// mayCompact asks the user's hooks. It fails closed.
func (r *run) mayCompact() any {
	text, err := r.host.MayCompact(r.ctx)
	switch {
	case err != nil:
		return map[string]any{"decision": "block", "reason": fault.MessageOf(err)}
	case text != "":
		return map[string]any{"systemMessage": text} // for the summary (2.1.332, observed)
	}
	return struct{}{}
}

// reanchored puts a text before the next request of the model (2.1.332, observed).
func reanchored(text string) any {
	return map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "SessionStart", "additionalContext": text}}
}
