package threads

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// limits of what is kept of requests.
const (
	maxRequests = 256 // that wait on one thread
	maxResolved = 256 // whose outcome a late answer is told
)

// answered is a request of the turn in progress and the answer it got.
type answered struct {
	Request Request
	Answer  RequestAnswer // of a tool call without the output, which is an item
}

// ask folds a new request.
func (s *state) ask(r Request) {
	if s.request(r.ID) == nil {
		s.Requests = append(s.Requests, r)
	}
}

// resolve folds the end of a request.
func (s *state) resolve(p RequestResolved) {
	r := s.request(p.RequestID)
	if r == nil {
		return
	}
	if p.Answer != nil {
		if p.Answer.Decision == adapters.AcceptForSession {
			s.grant(*r)
		}
		if r.TurnID == s.Active {
			s.Answers = append(s.Answers, answered{*r, *p.Answer})
		}
	}
	s.Requests = slices.DeleteFunc(s.Requests, func(r Request) bool { return r.ID == p.RequestID })
	s.Resolved = append(s.Resolved, AlreadyResolved{Kind: "alreadyResolved", RequestID: p.RequestID, Outcome: p.Outcome, By: p.By})
	if n := len(s.Resolved) - maxResolved; n > 0 {
		s.Resolved = slices.Delete(s.Resolved, 0, n)
	}
}

// request returns the request with an id if it waits, or nil.
func (s *state) request(id RequestID) *Request {
	for i := range s.Requests {
		if s.Requests[i].ID == id {
			return &s.Requests[i]
		}
	}
	return nil
}

// same reports whether two requests ask the same about the same item. Only then
// does one wait for the answer of the other.
func (r Request) same(q Request) bool {
	if r.Method != q.Method || r.ItemID != q.ItemID || r.TurnID != q.TurnID {
		return false
	}
	switch r.Method {
	case AskCommand:
		return r.Command.Command == q.Command.Command && r.Command.Cwd == q.Command.Cwd
	case AskFile:
		return r.File.GrantRoot == q.File.GrantRoot
	}
	return true
}

// approval reports whether the request waits for a decision.
func (r Request) approval() bool { return r.Method != AskTool }

// waiting returns the flags of an active thread while rs wait.
func waiting(rs []Request) []StatusFlag {
	if slices.ContainsFunc(rs, Request.approval) {
		return []StatusFlag{WaitingOnApproval}
	}
	return nil
}

// askQuestion is a session asking the clients. Its answer is a given, or the id
// of the request that now waits.
type askQuestion struct {
	request Request // without id and time
	about   transcript.Item
}

// given is what the session is told.
type given struct {
	answer RequestAnswer
	result *transcript.Item // of a tool call
	auto   bool
	reason string // why nobody was asked, or why an answer is none
}

func (c askQuestion) decide(s *state, env env) (decision, error) {
	if s.Active == "" || s.Active != c.request.TurnID || s.Stopping {
		return decision{}, errOver(c.request.TurnID)
	}
	if g, ok := s.givenTo(c.request.same); ok {
		return decision{answer: func(*state) any { return g }}, nil
	}
	if i := slices.IndexFunc(s.Requests, c.request.same); i >= 0 {
		id := s.Requests[i].ID
		return decision{answer: func(*state) any { return id }}, nil
	}
	if err := c.check(s); err != nil {
		return decision{}, err
	}
	if g, ok := c.unasked(s); ok {
		return decision{payloads: c.starting(s, env), answer: func(*state) any { return g }}, nil
	}
	r := c.request
	r.ID, r.CreatedAt = RequestID(env.newID()), transcript.Millis(env.now)
	return decision{
		payloads: c.opening(s, env, r),
		answer:   func(*state) any { return r.ID },
	}, nil
}

// errOver tells a session that its turn was ended. It is context.Canceled, as the
// end of a turn that was stopped must be.
func errOver(turn transcript.TurnID) error {
	return fault.Wrap(fault.Cancelled, context.Canceled, "turn %s is over", turn)
}

// givenTo returns the answer that a question of this turn got.
func (s *state) givenTo(is func(Request) bool) (given, bool) {
	i := slices.IndexFunc(s.Answers, func(a answered) bool { return is(a.Request) })
	if i < 0 {
		return given{}, false
	}
	a := s.Answers[i]
	g := given{answer: a.Answer, reason: a.Answer.Failed}
	if at, ok := s.resultOf[a.Request.ItemID]; ok {
		g.result = &s.Transcript.Items[at]
	}
	return g, true
}

// unasked decides what nobody has to be asked about.
func (c askQuestion) unasked(s *state) (given, bool) {
	switch {
	case !c.request.approval():
		return given{}, false
	case s.Settings.ApprovalPolicy == "never":
		return given{
			auto: true, answer: RequestAnswer{Decision: adapters.Decline},
			reason: "the approval policy is never: nobody is asked, and it is not allowed",
		}, true
	case s.granted(c.request, c.about):
		return given{auto: true, answer: RequestAnswer{Decision: adapters.Accept}}, true
	}
	return given{}, false
}

// check refuses a question that clients could not make sense of.
func (c askQuestion) check(s *state) error {
	if len(s.Requests) >= maxRequests {
		return fault.New(fault.Overloaded, "%d requests wait on this thread already", maxRequests)
	}
	id := c.about.ID
	if i, known := s.itemAt[id]; known {
		call, ok := s.Transcript.Items[i].Body.(transcript.ToolCall)
		if s.open[id] || ok && s.calls[call.CallID] == id {
			return nil
		}
		return fault.New(fault.Conflict, "item %s is complete: there is nothing to ask about it", id)
	}
	if err := checkItem(c.about); err != nil {
		return err
	}
	switch kind := c.about.Body.Kind(); kind {
	case transcript.KindCommand, transcript.KindFileChange, transcript.KindToolCall:
		return nil
	default:
		return fault.New(fault.Invalid, "item %s is a %s; questions are about commands, file changes and tool calls", id, kind)
	}
}

// starting starts the item that the question is about, unless it is known. Also
// where nobody has to be asked: no item ends that clients never saw begin.
func (c askQuestion) starting(s *state, env env) []Payload {
	if _, known := s.itemAt[c.about.ID]; known {
		return nil
	}
	it := c.about
	it.Turn, it.StartedAt, it.CompletedAt = c.request.TurnID, env.now, time.Time{}
	if _, call := it.Body.(transcript.ToolCall); call {
		it.CompletedAt = env.now
	}
	return []Payload{ItemStarted{Item: it}}
}

// opening makes a request visible in codex's order: a command's flag comes
// before its item, a file change's after it, a tool call has none (codex 0.171,
// observed).
func (c askQuestion) opening(s *state, env env, r Request) []Payload {
	ps := c.starting(s, env)
	if flags := waiting([]Request{r}); flags != nil && len(s.Flags) == 0 {
		at := 0
		if r.Method == AskFile {
			at = len(ps)
		}
		ps = slices.Insert(ps, at, Payload(StatusChanged{Status: StatusActive, Flags: flags}))
	}
	return append(ps, RequestCreated{Request: r})
}

// answerRequest is Answer.
type answerRequest struct {
	id     RequestID
	answer RequestAnswer
	by     string
	blobs  []events.Blob // the images of the output
}

func (c answerRequest) decide(s *state, env env) (decision, error) {
	r := s.request(c.id)
	if r == nil {
		return decision{}, s.tooLate(c.id)
	}
	if s.Stopping {
		return decision{}, lateAnswer(AlreadyResolved{Kind: "alreadyResolved", RequestID: c.id, Outcome: RequestCancelled})
	}
	if err := c.answer.check(*r); err != nil {
		return decision{}, err
	}
	told := c.answer
	told.Output, told.Images = nil, nil
	ps := []Payload{RequestResolved{RequestID: c.id, TurnID: r.TurnID, Outcome: RequestAnswered, Answer: &told, By: c.by}}
	if c.answer.Decision == adapters.Cancel {
		ps = append(ps, StatusChanged{Status: StatusActive, Stopping: true})
		return decision{payloads: ps, effects: []effect{stopTurn{}}}, nil
	}
	ps = append(ps, s.unflag(c.is)...)
	if r.Method == AskTool {
		ps = append(ps, c.result(s, env, *r)...)
	}
	return decision{payloads: ps, blobs: c.blobs}, nil
}

func (c answerRequest) is(r Request) bool { return r.ID == c.id }

// unflag tells that nothing waits for a decision any more, if that is so once the
// requests that are over are resolved.
func (s *state) unflag(over func(Request) bool) []Payload {
	rest := slices.DeleteFunc(slices.Clone(s.Requests), over)
	if waiting(s.Requests) == nil || waiting(rest) != nil {
		return nil
	}
	return []Payload{StatusChanged{Status: StatusActive}}
}

// withdrawRequest is a session that does not wait for its answer any more.
type withdrawRequest struct{ id RequestID }

func (c withdrawRequest) is(r Request) bool { return r.ID == c.id }

func (c withdrawRequest) decide(s *state, _ env) (decision, error) {
	r := s.request(c.id)
	if r == nil || s.Stopping {
		return decision{}, nil
	}
	resolved := RequestResolved{RequestID: r.ID, TurnID: r.TurnID, Outcome: RequestCancelled}
	return decision{payloads: append([]Payload{resolved}, s.unflag(c.is)...)}, nil
}

// result is the item that an answered tool call gets.
func (c answerRequest) result(s *state, env env, r Request) []Payload {
	call := s.Transcript.Items[s.itemAt[r.ItemID]]
	out := transcript.ToolResult{CallID: r.Tool.CallID, Output: c.answer.Output, IsError: c.answer.IsError}
	if c.answer.Failed != "" {
		out.IsError, out.Output = true, transcript.TextParts(c.answer.Failed)
	}
	it := wholeItem(env, r.TurnID, out)
	it.StartedAt = call.StartedAt
	return []Payload{ItemCompleted{Item: it, Call: &call}}
}

// tooLate is the fault of an answer to a request that does not wait.
func (s *state) tooLate(id RequestID) error {
	for _, r := range slices.Backward(s.Resolved) {
		if r.RequestID == id {
			return lateAnswer(r)
		}
	}
	return fault.New(fault.NotFound, "no request %s waits on thread %s", id, s.ID)
}

func lateAnswer(r AlreadyResolved) error {
	what := "was answered already"
	switch {
	case r.Outcome == RequestCancelled:
		what = "is not asked any more: its turn ended, or went on without it"
	case r.By != "":
		what = "was answered already by " + strings.ToValidUTF8(r.By, "?")
	}
	f := fault.New(fault.Conflict, "request %s %s", r.RequestID, what)
	f.Data = r
	return f
}

// cancelRequests ends the requests that nobody answered. It follows the end of
// their turn (codex 0.171, observed).
func cancelRequests(s *state, of func(Request) bool) []Payload {
	var ps []Payload
	for _, r := range s.Requests {
		if of(r) {
			ps = append(ps, RequestResolved{RequestID: r.ID, TurnID: r.TurnID, Outcome: RequestCancelled})
		}
	}
	return ps
}

// onlyWaits reports whether all that is open in the turn in progress waits for
// clients, so that another process can go on with it and nothing is done twice:
// each open call or item has a request, and none of them was allowed to begin.
func (s *state) onlyWaits() bool {
	turn := s.activeTurn()
	if turn == nil || turn.Kind != transcript.TurnUser || s.Stopping {
		return false
	}
	asked := map[transcript.ItemID]bool{}
	for _, r := range s.Requests {
		asked[r.ItemID] = r.TurnID == turn.ID && !s.mayHaveRun(r.ItemID)
	}
	for id := range s.open {
		if !asked[id] && s.Transcript.Items[s.itemAt[id]].Body.Kind() != transcript.KindContextCompaction {
			return false
		}
	}
	for _, id := range s.calls {
		if !asked[id] && s.Transcript.Items[s.itemAt[id]].Turn == turn.ID {
			return false
		}
	}
	return len(asked) > 0
}

// mayHaveRun reports whether a call was allowed by somebody, so that nobody knows
// how much of it was done when it was stopped.
func (s *state) mayHaveRun(id transcript.ItemID) bool {
	return slices.ContainsFunc(s.Answers, func(a answered) bool {
		return a.Request.ItemID == id && a.Answer.Decision.Allows()
	})
}

// declined reports whether somebody said no to an item.
func (s *state) declined(id transcript.ItemID) bool {
	return slices.ContainsFunc(s.Answers, func(a answered) bool {
		return a.Request.ItemID == id && (a.Answer.Decision == adapters.Decline || a.Answer.Decision == adapters.Cancel)
	})
}

// continueTurn starts the session on a turn that another process began.
type continueTurn struct{ turn transcript.TurnID }

func (continueTurn) effect() {}
