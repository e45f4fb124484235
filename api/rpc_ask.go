package api

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// asked is a request that was sent to a peer and that may still be answered.
type asked struct {
	thread  transcript.ThreadID
	judging bool       // a goroutine deals with answers
	answers []response // that came, in order
}

// A response is what a client answered.
type response struct {
	result  json.RawMessage
	problem *jsonrpc.Error
}

// maxResponses bounds the answers to one request that wait to be judged.
const maxResponses = 8

// created asks the client what the server asks its clients. In a backlog that
// waits: most of it was answered long ago.
func (sub *subscription) created(e events.Event) error {
	payload, err := threads.Decode(e)
	if err != nil {
		return err
	}
	created, ok := payload.(threads.RequestCreated)
	switch {
	case !ok:
	case sub.live: // if it was answered meanwhile, that comes next
		sub.add(sub.peer.requestFrames(sub, []threads.Request{created.Request}, false)...)
	case !slices.ContainsFunc(sub.earlier, isRequest(created.Request.ID)):
		sub.earlier = append(sub.earlier, created.Request)
	}
	return nil
}

// resolved forgets a request: answers to it come too late.
func (sub *subscription) resolved(e events.Event) error {
	payload, err := threads.Decode(e)
	if err != nil {
		return err
	}
	if r, ok := payload.(threads.RequestResolved); ok {
		sub.earlier = slices.DeleteFunc(sub.earlier, isRequest(r.RequestID))
		sub.peer.settle(r.RequestID)
		sub.peer.server.crowd.resolve(sub.thread, r.RequestID)
	}
	return nil
}

func isRequest(id threads.RequestID) func(threads.Request) bool {
	return func(r threads.Request) bool { return r.ID == id }
}

// requestFrames notes that requests are sent and returns their frames; without
// again, of those that were not sent before.
func (p *peer) requestFrames(sub *subscription, requests []threads.Request, again bool) [][]byte {
	if !scopeOf(p.ctx).Allows(ScopeApprove) {
		return nil // it sees what is asked in the events, and answers nothing
	}
	var frames [][]byte
	for _, r := range requests {
		w, err := wireRequest(string(sub.thread), r)
		var frame []byte
		if err == nil {
			frame, err = encode(requestFrame{w.Method, w.ID, w.Params})
		}
		if err != nil {
			p.log.Error("request cannot be told", slog.String("thread", string(sub.thread)), slog.Any("error", err))
			continue
		}
		if p.noteAsked(r.ID, sub.thread) || again {
			p.server.crowd.asks(sub.thread, r.ID, p)
			frames = append(frames, frame)
		}
	}
	return frames
}

// requestFrame is a request of the server as it is sent.
type requestFrame struct {
	Method string          `json:"method"`
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params"`
}

// noteAsked reports whether the request was not noted before.
func (p *peer) noteAsked(id threads.RequestID, thread transcript.ThreadID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[id] != nil {
		return false
	}
	p.asked[id] = &asked{thread: thread}
	return true
}

// stillAsked are those of requests that were sent and are not known to be answered.
func (p *peer) stillAsked(requests []threads.Request) []threads.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(requests), func(r threads.Request) bool { return p.asked[r.ID] == nil })
}

// unask forgets the requests of a thread that the client does not follow any more.
// Answers that came are still judged. The caller holds mu.
func (p *peer) unask(thread transcript.ThreadID) {
	maps.DeleteFunc(p.asked, func(_ threads.RequestID, a *asked) bool { return a.thread == thread })
}

// failed notes that the client could not deal with a request, if it is still asked.
func (p *peer) failed(id threads.RequestID, a *asked, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[id] == a {
		p.server.crowd.fail(a.thread, id, failed{p, text})
	}
}

func (p *peer) settle(id threads.RequestID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
}

// Response implements jsonrpc.Handler: it routes an answer to its request. One to
// no request, or too late, is ignored.
func (p *peer) Response(id, result json.RawMessage, problem *jsonrpc.Error) {
	var text string
	if json.Unmarshal(id, &text) != nil {
		return
	}
	request := threads.RequestID(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asked[request]
	if a == nil || len(a.answers) >= maxResponses {
		return
	}
	a.answers = append(a.answers, response{result, problem})
	if !a.judging {
		a.judging = true
		p.wg.Go(func() { p.judge(request, a) })
	}
}

// judge deals with the answers to a request, one after the other.
func (p *peer) judge(id threads.RequestID, a *asked) {
	for {
		p.mu.Lock()
		if len(a.answers) == 0 {
			a.judging = false
			p.mu.Unlock()
			return
		}
		next := a.answers[0]
		a.answers = a.answers[1:]
		p.mu.Unlock()
		func() {
			defer p.survive("answer", func() {})
			p.take(id, a, next)
		}()
	}
}

// take answers a request. An error means that the client could not deal with it:
// that counts once nobody who follows the thread could. What is no answer is told
// so, and the request waits.
func (p *peer) take(id threads.RequestID, a *asked, r response) {
	thread, ctx := a.thread, withClient(p.ctx, p.client.Load().name)
	if r.problem != nil {
		p.failed(id, a, failure(r.problem))
		p.server.giveUp(ctx, thread)
		return
	}
	err := p.server.answerRaw(ctx, thread, string(id), r.result)
	switch code := fault.CodeOf(err); {
	case err == nil, code == fault.Conflict, code == fault.NotFound:
		p.settle(id) // also if somebody was faster
	case code == fault.Invalid, code == fault.TooLarge:
		text := string(thread)
		p.send(ctx, p.frame(threads.WarningRaised{}.EventType(), protocol.WarningParams{
			ThreadID: &text, Message: "the answer to request " + string(id) + " does not count, it still waits: " + fault.MessageOf(err),
		})...)
	case ctx.Err() == nil:
		p.log.Error("answer failed", slog.String("thread", string(thread)), slog.Any("error", err))
	}
}

// failure is the text of an error that a client answered with.
func failure(e *jsonrpc.Error) string {
	if e.Message == "" {
		return "the client answered with an error"
	}
	return "the client answered with an error: " + clip(e.Message)
}
