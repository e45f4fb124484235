package threads

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds the tools of the server itself. Models are offered them beside
// those that clients declared for the thread; runtimes have their own. A client that
// declares a tool under one of these names, without a namespace, wins: the server's
// is then not offered to that thread.

// An ownTool is a tool of the server.
type ownTool struct {
	spec adapters.ToolSpec
	// run does one call. The plan, if there is one, is committed with the result.
	run func(ctx context.Context, h *host, call transcript.ToolCall) (transcript.ToolResult, *transcript.Plan)
}

// ownTools returns the tools of the server, in the order in which they are offered.
func ownTools() []ownTool {
	return []ownTool{{spec: planSpec, run: updatePlan}, {spec: recallSpec, run: recall}}
}

const planName = "update_plan"

var planSpec = adapters.ToolSpec{
	Name: planName,
	Description: "Keep the plan of your work, which the user sees and which is not lost when the conversation is compacted. " +
		"Every call replaces the whole plan. Use it for work of several steps; have at most one step inProgress, and mark a step completed as soon as it is.",
	Schema: transcript.RawJSON(`{"type":"object","properties":{"steps":{"type":"array","description":"all steps, in order","items":{"type":"object",` +
		`"properties":{"step":{"type":"string","description":"what is to be done, in one line"},"status":{"type":"string","enum":["pending","inProgress","completed"]}},` +
		`"required":["step","status"],"additionalProperties":false}}},"required":["steps"],"additionalProperties":false}`),
}

var recallSpec = adapters.ToolSpec{
	Name: recallName,
	Description: "Search the earlier part of this conversation that is not in your context any more: what was said, read, run and found, word for word. " +
		"Use it before you ask the user again, or read or run something again.",
	Schema: transcript.RawJSON(`{"type":"object","properties":{"query":{"type":"string","description":"words as they were written: names, files, commands, errors"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":20,"description":"how many places at most; default 5"}},"required":["query"],"additionalProperties":false}`),
}

// A toolbox is the tools of one thread, by the names that models know.
type toolbox struct {
	specs  []adapters.ToolSpec
	own    map[string]ownTool
	client map[string]DynamicTool
}

// toolbox returns the tools that the thread's session is offered. It depends on
// nothing but the thread's declarations, its provider and the configuration.
func (a *actor) toolbox() toolbox {
	b := toolbox{own: map[string]ownTool{}}
	taken := maps.Clone(a.svc.cfg.Tools)
	if taken == nil {
		taken = map[string]Tool{}
	}
	for _, t := range ownTools() {
		if a.offers(t.spec.Name) {
			b.own[t.spec.Name], taken[t.spec.Name] = t, nil
			b.specs = append(b.specs, t.spec)
		}
	}
	specs, client := offered(a.state.Tools, taken)
	b.specs, b.client = append(b.specs, specs...), client
	return b
}

// offers reports whether the thread's model is offered a tool of the server.
func (a *actor) offers(name string) bool {
	p, ok := a.svc.provider(a.state.Settings.Provider)
	return ok && p.Tools && !slices.ContainsFunc(a.state.Tools, func(t DynamicTool) bool { return t.Namespace == "" && t.Name == name })
}

// recallTool is the name under which the thread's model can search what a compaction
// took out of its context; empty if it cannot.
func (a *actor) recallTool() string {
	if a.offers(recallName) {
		return recallName
	}
	return ""
}

// callOwn runs a tool of the server and commits its result.
func (h *host) callOwn(ctx context.Context, item transcript.Item, call transcript.ToolCall, tool ownTool) (result transcript.ToolResult, err error) {
	var plan *transcript.Plan
	if err := guard(func() error { result, plan = tool.run(ctx, h, call); return nil }); err != nil {
		h.a.svc.log.Error("tool of the server failed", "thread", h.a.id, "tool", call.Name, "err", err)
		result, plan = failedResult(fmt.Sprintf("tool %q failed", call.Name)), nil
	}
	if ctx.Err() != nil {
		return transcript.ToolResult{}, context.Cause(ctx)
	}
	result.CallID = call.CallID
	_, err = h.a.send(ctx, message{cmd: answerOwn{answerCall{h.turn, item.ID, result}, plan}})
	return result, err
}

// answerOwn journals the result of a tool of the server, with the plan that the call
// set.
type answerOwn struct {
	answerCall
	plan *transcript.Plan
}

func (c answerOwn) decide(s *state, env env) (decision, error) {
	d, err := c.answerCall.decide(s, env)
	if err == nil && c.plan != nil {
		d.payloads = append([]Payload{PlanUpdated{TurnID: c.turn, Plan: *c.plan}}, d.payloads...)
	}
	return d, err
}

// limits of a plan.
const (
	maxSteps = 100
	maxStep  = 500 // code points
)

// updatePlan is the tool update_plan.
func updatePlan(_ context.Context, _ *host, call transcript.ToolCall) (transcript.ToolResult, *transcript.Plan) {
	plan, wrong := planIn(call.Arguments)
	if wrong != "" {
		return failedResult("the plan was not changed: " + wrong), nil
	}
	done := 0
	for _, s := range plan.Steps {
		if s.Status == "completed" {
			done++
		}
	}
	return transcript.ToolResult{Output: transcript.TextParts(fmt.Sprintf("plan updated: %d of %d steps completed", done, len(plan.Steps)))}, &plan
}

// planIn reads the arguments of update_plan, or says what is wrong with them.
func planIn(raw transcript.RawJSON) (plan transcript.Plan, wrong string) {
	var args struct {
		Steps *[]transcript.PlanStep `json:"steps"`
	}
	if json.Unmarshal(raw, &args) != nil || args.Steps == nil {
		return plan, `the arguments must be {"steps":[{"step":"…","status":"pending|inProgress|completed"}]}`
	}
	if len(*args.Steps) > maxSteps {
		return plan, fmt.Sprintf("it has %d steps; at most %d are allowed", len(*args.Steps), maxSteps)
	}
	plan.Steps = []transcript.PlanStep{}
	running := 0
	for i, s := range *args.Steps {
		if s.Status == "in_progress" {
			s.Status = "inProgress"
		}
		switch {
		case strings.TrimSpace(s.Step) == "":
			return plan, fmt.Sprintf("steps[%d] has no text", i)
		case utf8.RuneCountInString(s.Step) > maxStep:
			return plan, fmt.Sprintf("steps[%d] has more than %d characters", i, maxStep)
		case s.Status != "pending" && s.Status != "inProgress" && s.Status != "completed":
			return plan, fmt.Sprintf("steps[%d].status is %q; allowed: pending, inProgress, completed", i, firstRunes(s.Status, 40))
		case s.Status == "inProgress":
			running++
		}
		plan.Steps = append(plan.Steps, s)
	}
	if running > 1 {
		return plan, fmt.Sprintf("%d steps are inProgress; at most one may be", running)
	}
	return plan, ""
}

// recall is the tool recall.
func recall(ctx context.Context, h *host, call transcript.ToolCall) (transcript.ToolResult, *transcript.Plan) {
	var args struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}
	if json.Unmarshal(call.Arguments, &args) != nil || strings.TrimSpace(args.Query) == "" {
		return failedResult(`nothing was searched: the arguments must be {"query":"some words"}`), nil
	}
	if args.Limit <= 0 {
		args.Limit = recallHits
	}
	r, err := h.a.svc.Search(ctx, SearchParams{
		Thread: h.a.id, Query: firstRunes(args.Query, maxQuery), Limit: min(args.Limit, recallLimit), Archived: true,
	})
	if err != nil {
		h.a.svc.log.Warn("recall", "thread", h.a.id, "err", err)
		return failedResult("the search failed; go on without it"), nil
	}
	window, err := h.a.send(ctx, message{query: func(a *actor) any { return a.window }})
	if err != nil {
		return failedResult("the search was given up"), nil
	}
	return transcript.ToolResult{Output: transcript.TextParts(recallText(r, recallRoom(window.(int))))}, nil
}
