package api

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// requestList lists what the server asks the clients of a thread and nobody has
// answered, oldest first.
func (s *Server) requestList(ctx context.Context, p *ThreadParams) (*RequestListResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	requests, err := s.service(id).Requests(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &RequestListResult{Data: []protocol.ServerRequest{}}
	for _, q := range requests {
		w, err := wireRequest(p.ThreadID, q)
		if err != nil {
			return nil, err
		}
		r.Data = append(r.Data, w)
	}
	return r, nil
}

// requestAnswer answers a request of the server. The first valid answer counts; a
// later one is a conflict that tells who was first.
func (s *Server) requestAnswer(ctx context.Context, p *RequestAnswerParams) (*Empty, error) {
	if (p.Result == nil) == (p.Error == "") {
		return nil, invalid("want either `result` or `error`")
	}
	id, request := transcript.ThreadID(p.ThreadID), threads.RequestID(p.RequestID)
	answer := threads.RequestAnswer{Failed: p.Error}
	if p.Result != nil {
		requests, err := s.service(id).Requests(ctx, id)
		if err != nil {
			return nil, err
		}
		// One that does not wait any more gets the service's own answer.
		if i := slices.IndexFunc(requests, func(r threads.Request) bool { return r.ID == request }); i >= 0 {
			if answer, err = p.Result.answer(requests[i].Method); err != nil {
				return nil, err
			}
			if items := p.Result.ContentItems; items != nil {
				answer.Output, answer.Images = toolOutput(ctx, s.service(id), *items)
			}
		}
	}
	return &Empty{}, s.service(id).Answer(ctx, id, request, answer, clientOf(ctx))
}

// answerRaw answers a request with what a JSON-RPC client sent as its result.
func (s *Server) answerRaw(ctx context.Context, id transcript.ThreadID, request string, result json.RawMessage) error {
	p := &RequestAnswerParams{ThreadID: string(id), RequestID: request, Result: &RequestResult{}}
	if err := lenientInto(result, p.Result); err != nil {
		return err
	}
	_, err := s.requestAnswer(ctx, p)
	return err
}

// answer reads the result of a request of a method.
func (r *RequestResult) answer(method string) (threads.RequestAnswer, error) {
	switch {
	case method == threads.AskTool && r.Decision != nil:
		return threads.RequestAnswer{}, invalid("a tool call is answered with `contentItems` and `success`, not with a decision")
	case method == threads.AskTool && r.ContentItems == nil:
		return threads.RequestAnswer{}, invalid("field `contentItems` is missing: want the output of the tool, a list")
	case method == threads.AskTool:
		return threads.RequestAnswer{IsError: r.Success != nil && !*r.Success}, nil // the caller fills in the output
	case r.ContentItems != nil || r.Success != nil:
		return threads.RequestAnswer{}, invalid("an approval is answered with a `decision`, not with an output")
	case r.Decision == nil:
		return threads.RequestAnswer{}, invalid("field `decision` is missing: want one of %s", decisionNames)
	}
	return decisionOf(r.Decision)
}

const decisionNames = "`accept`, `acceptForSession`, `acceptWithExecpolicyAmendment`, `applyNetworkPolicyAmendment`, `decline`, `cancel`"

// decisionOf reads a decision as codex writes it: a word, or an object with one
// member that brings an amendment along.
func decisionOf(raw json.RawMessage) (threads.RequestAnswer, error) {
	var word string
	if json.Unmarshal(raw, &word) == nil && !isNull(raw) {
		switch d := adapters.Decision(word); d {
		case adapters.Accept, adapters.AcceptForSession, adapters.Decline, adapters.Cancel:
			return threads.RequestAnswer{Decision: d}, nil
		}
	}
	var amended struct {
		Exec *struct {
			Amendment []string `json:"execpolicy_amendment"`
		} `json:"acceptWithExecpolicyAmendment"`
		Network *struct {
			Amendment struct {
				Host   string `json:"host"`
				Action string `json:"action"`
			} `json:"network_policy_amendment"`
		} `json:"applyNetworkPolicyAmendment"`
	}
	err := json.Unmarshal(raw, &amended)
	a := threads.RequestAnswer{Decision: adapters.Accept, Amendment: raw}
	switch {
	case err != nil:
	case amended.Exec != nil && amended.Network == nil && len(amended.Exec.Amendment) > 0:
		return a, nil
	case amended.Network != nil && amended.Exec == nil && amended.Network.Amendment.Host != "":
		switch amended.Network.Amendment.Action {
		case "allow":
			return a, nil
		case "deny":
			a.Decision = adapters.Decline
			return a, nil
		}
	}
	return threads.RequestAnswer{}, invalid("field `decision`: want one of %s, got %s", decisionNames, clip(string(raw)))
}
