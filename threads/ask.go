package threads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Ask implements adapters.Host.
func (h *host) Ask(ctx context.Context, q adapters.Question) (adapters.Answer, error) {
	c, err := question(h.turn, q)
	if err != nil {
		return adapters.Answer{}, err
	}
	g, err := h.put(ctx, c)
	if err != nil {
		return adapters.Answer{}, fmt.Errorf("ask about item %s: %w", c.about.ID, err)
	}
	a := adapters.Answer{Decision: g.answer.Decision, Amendment: g.answer.Amendment, Auto: g.auto, Reason: g.reason}
	if g.answer.Failed != "" {
		a.Decision = adapters.Decline
	}
	return a, nil
}

// put asks, and waits. A session that stops waiting while its turn goes on takes
// its question back.
func (h *host) put(ctx context.Context, c askQuestion) (given, error) {
	asker := make(chan reply, 1)
	v, err := h.a.sendBy(ctx, message{cmd: c}, asker)
	if err == nil {
		return v.(given), nil
	}
	if ctx.Err() != nil {
		h.a.tell(timed(func(a *actor) { a.withdraw(asker) }))
	}
	return given{}, err
}

// question is the command of a session's question.
func question(turn transcript.TurnID, q adapters.Question) (askQuestion, error) {
	switch q := q.(type) {
	case adapters.CommandApproval:
		return askQuestion{about: q.Item, request: Request{
			Method: AskCommand, TurnID: turn, ItemID: q.Item.ID,
			Command: &CommandQuestion{Command: q.Command, Cwd: q.Cwd, Reason: q.Reason, Amendment: q.Amendment},
		}}, nil
	case adapters.FileApproval:
		return askQuestion{about: q.Item, request: Request{
			Method: AskFile, TurnID: turn, ItemID: q.Item.ID,
			File: &FileQuestion{Reason: q.Reason, GrantRoot: q.GrantRoot},
		}}, nil
	}
	return askQuestion{}, fault.New(fault.Internal, "the session asks with a %T, which is no question", q)
}

// about returns the question as one about an item.
func about(q adapters.Question, it transcript.Item) adapters.Question {
	switch q := q.(type) {
	case adapters.CommandApproval:
		q.Item = it
		return q
	case adapters.FileApproval:
		q.Item = it
		return q
	}
	return q
}

// callClient has a client run one of the tools that the thread's clients
// declared. The result is committed with the answer.
func (h *host) callClient(ctx context.Context, call transcript.Item, tool DynamicTool) (transcript.ToolResult, error) {
	body := call.Body.(transcript.ToolCall)
	g, err := h.put(ctx, askQuestion{about: call, request: Request{
		Method: AskTool, TurnID: h.turn, ItemID: call.ID,
		Tool: &ToolQuestion{CallID: body.CallID, Namespace: tool.Namespace, Tool: tool.Name, Arguments: body.Arguments},
	}})
	if err != nil {
		return transcript.ToolResult{}, fmt.Errorf("call client tool %s: %w", body.Name, err)
	}
	if it := g.result; it != nil {
		if result, ok := it.Body.(transcript.ToolResult); ok {
			return result, nil
		}
	}
	return transcript.ToolResult{}, fault.New(fault.Internal, "the answer to call %s has no result", call.ID)
}

// maxToolName is the longest name that the providers accept.
const maxToolName = 64

// offered returns the tools that clients declared under the names that models
// know them by: the namespace and the name, in the characters and the length that
// every provider accepts, and unlike any other tool's. It depends on nothing but
// the declarations and the names that are taken.
func offered(tools []DynamicTool, taken map[string]Tool) (specs []adapters.ToolSpec, byName map[string]DynamicTool) {
	byName = make(map[string]DynamicTool, len(tools))
	for _, t := range tools {
		name := offeredName(t, func(name string) bool {
			_, server := taken[name]
			_, client := byName[name]
			return !server && !client
		})
		byName[name] = t
		specs = append(specs, adapters.ToolSpec{Name: name, Description: t.Description, Schema: t.Schema})
	}
	return specs, byName
}

// offeredName makes one name. What cannot be used as it is ends with a hash of
// the whole declaration.
func offeredName(t DynamicTool, free func(string) bool) string {
	whole := t.Name
	if t.Namespace != "" {
		whole = t.Namespace + "__" + t.Name
	}
	name := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, whole)
	if name == whole && name != "" && len(name) <= maxToolName && free(name) {
		return name
	}
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s %q", n, t.Namespace, t.Name))
		suffix := "_" + hex.EncodeToString(sum[:4])
		if short := name[:min(len(name), maxToolName-len(suffix))] + suffix; free(short) {
			return short
		}
	}
}

// ask lets a session wait for the answer to its question, unless there is one.
func (a *actor) ask(c askQuestion, answer chan<- reply) reply {
	v, err := a.run(c)
	if err != nil {
		return reply{err: err}
	}
	id, waits := v.(RequestID)
	if !waits {
		return reply{value: v}
	}
	a.asking[id] = append(a.asking[id], answer)
	return deferred
}

// withdraw is the end of a session's wait for an answer. The request ends with
// the last one that waited for it. While the turn ends, or the server does, its
// end decides about it.
func (a *actor) withdraw(asker chan reply) {
	id, at := a.askedBy(asker)
	if at < 0 {
		return // it was answered, or never heard
	}
	if a.asking[id] = slices.Delete(a.asking[id], at, at+1); len(a.asking[id]) > 0 {
		return
	}
	delete(a.asking, id)
	if a.turn == nil || a.turn.stopping || a.closing || a.failed != nil {
		return
	}
	if _, err := a.run(withdrawRequest{id}); err != nil {
		a.svc.log.Warn("withdraw request", "thread", a.id, "err", err)
	}
}

// askedBy returns the request that somebody waits for, and at which place; -1 if
// none.
func (a *actor) askedBy(asker chan<- reply) (RequestID, int) {
	for id, askers := range a.asking {
		if at := slices.Index(askers, asker); at >= 0 {
			return id, at
		}
	}
	return "", -1
}

// tellAskers tells the sessions that wait for a request what came of it, once
// that is folded.
func (a *actor) tellAskers(ps []Payload) {
	for _, p := range ps {
		r, ok := p.(RequestResolved)
		if !ok || len(a.asking[r.RequestID]) == 0 {
			continue
		}
		out := reply{err: errOver(r.TurnID)}
		if g, ok := a.state.givenTo(func(q Request) bool { return q.ID == r.RequestID }); ok {
			out = reply{value: g}
		}
		a.answerAskers(r.RequestID, out)
	}
}

// answerAskers answers those that wait for a request.
func (a *actor) answerAskers(id RequestID, r reply) {
	for _, asker := range a.asking[id] {
		asker <- r // buffered, and answered once
	}
	delete(a.asking, id)
}

// parks reports whether the end of a session's run ends no turn: the server
// closes, and the turn only waits for answers, as it will in the next process.
func (a *actor) parks(c command) bool {
	end, ok := c.(endTurn)
	if !ok || !a.closing || !end.stopped || a.turn == nil || a.turn.turn != end.turn || a.turn.stopping {
		return false
	}
	return a.state.Active == end.turn && a.continues() && a.state.onlyWaits()
}

// continues reports whether the thread's provider can go on with a turn that
// another process began.
func (a *actor) continues() bool {
	p, ok := a.svc.provider(a.state.Settings.Provider)
	if !ok {
		return false
	}
	c, ok := p.Adapter.(adapters.Continuer)
	return ok && c.Continues()
}
