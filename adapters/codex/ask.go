package codex

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file answers what codex asks: approvals, and calls of clients' tools. Each is
// answered from a goroutine of its own, since people may take days.

// An approval is what codex tells about what it wants to do.
type approval struct {
	ItemID    string   `json:"itemId"`
	TurnID    string   `json:"turnId"`
	Command   string   `json:"command"`
	Cwd       string   `json:"cwd"`
	Reason    string   `json:"reason"`
	Amendment []string `json:"proposedExecpolicyAmendment"`
	GrantRoot string   `json:"grantRoot"`

	CallID    string          `json:"callId"`
	Namespace string          `json:"namespace"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// request handles a request of codex.
func (r *run) request(f frame) error {
	var q approval
	if understood := json.Unmarshal(f.Params, &q) == nil; !understood {
		r.p.refuse(f.ID, "the parameters are not understood")
		return nil
	}
	switch f.Method {
	case "item/commandExecution/requestApproval":
		it := r.line.About(q.ItemID, transcript.Command{Command: q.Command, Cwd: q.Cwd, Status: "inProgress"})
		command := q.Command
		if c, ok := it.Body.(transcript.Command); ok && command == "" {
			command = c.Command
		}
		r.ask(f.ID, adapters.CommandApproval{Item: it, Command: command, Cwd: q.Cwd, Reason: q.Reason, Amendment: q.Amendment})
	case "item/fileChange/requestApproval":
		it := r.line.About(q.ItemID, transcript.FileChange{Changes: []transcript.Change{}, Status: "inProgress"})
		r.ask(f.ID, adapters.FileApproval{Item: it, Reason: q.Reason, GrantRoot: q.GrantRoot})
	case "item/tool/call":
		return r.call(f.ID, q)
	case "item/permissions/requestApproval": // nobody can be asked about it: nothing is granted
		r.answer(f.ID, map[string]any{"permissions": struct{}{}, "scope": "turn"})
	case "mcpServer/elicitation/request":
		r.answer(f.ID, map[string]any{"action": "decline", "content": nil, "_meta": nil})
	default:
		r.p.refuse(f.ID, "this client does not answer "+f.Method)
	}
	return nil
}

// ask asks the people behind the clients, and gives codex their answer.
func (r *run) ask(id json.RawMessage, q adapters.Question) {
	if err := r.line.Emit(); err != nil { // what was said before stands before the question
		r.fail(err)
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.mu.Lock()
	r.asked[string(id)] = cancel
	r.mu.Unlock()
	r.asking.Go(func() {
		defer cancel()
		a, err := r.host.Ask(ctx, q)
		switch {
		case err == nil:
			r.answer(id, map[string]any{"decision": decision(a)})
		case ctx.Err() == nil || r.ctx.Err() == nil && !errors.Is(err, context.Canceled):
			r.fail(err)
		}
	})
}

// decision is an answer in codex's words, which ours are.
func decision(a adapters.Answer) any {
	if a.Amendment != nil && a.Decision.Allows() {
		return a.Amendment
	}
	return string(a.Decision)
}

// answer gives codex an answer.
func (r *run) answer(id json.RawMessage, v any) {
	ctx, cancel := context.WithTimeout(r.ctx, refuseTimeout)
	defer cancel()
	if err := r.p.respond(ctx, id, v); err != nil && r.ctx.Err() == nil {
		r.fail(r.p.broken(ctx, err))
	}
}

// fail ends the turn because the host does, or because codex takes no answer.
func (r *run) fail(err error) {
	select {
	case r.failing <- err:
	default: // there is a reason already
	}
}

// resolved ends the waiting for an answer that codex needs no more.
func (r *run) resolved(id string) {
	r.mu.Lock()
	cancel := r.asked[id]
	delete(r.asked, id)
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// call runs a tool of the clients.
func (r *run) call(id json.RawMessage, q approval) error {
	if !r.line.Has(q.CallID) {
		v := &itemView{ID: q.CallID, Server: q.Namespace, Tool: q.Tool, Arguments: q.Arguments}
		if _, err := r.line.Show(q.CallID, r.s.call(v)); err != nil {
			return err
		}
	} else if err := r.line.Emit(); err != nil { // what was said before stands before the result
		return err
	}
	it, _ := r.line.Run(q.CallID)
	r.asking.Go(func() {
		res, err := r.host.Tool(r.ctx, it)
		if err != nil {
			r.fail(err)
			return
		}
		r.answer(id, map[string]any{
			"contentItems": []any{map[string]any{"type": "inputText", "text": transcript.PartsText(res.Output)}}, "success": !res.IsError,
		})
	})
	return nil
}
