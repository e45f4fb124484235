package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A peer is the conversation with one process of Claude Code.
type peer struct {
	conn  child.Conn
	desk  *child.Desk[frame]
	name  string
	log   *slog.Logger
	hello hello // written once, before anybody else has the peer
	tools []adapters.ToolSpec
	last  atomic.Int64

	mu    sync.Mutex
	fatal string // what its newest result said went wrong
}

// hello is its answer to initialize.
type hello struct {
	Commands []command `json:"commands"`
	Models   []struct {
		Value       string `json:"value"`
		DisplayName string `json:"displayName"`
	} `json:"models"`
	Version string `json:"claude_code_version"`
	Mode    string `json:"current_permission_mode"`
	Account struct {
		Token    string `json:"tokenSource"`
		Key      string `json:"apiKeySource"`
		Provider string `json:"apiProvider"`
	} `json:"account"`
}

type command struct {
	Name string `json:"name"`
}

func (h *hello) has(name string) bool { return slices.Contains(h.Commands, command{name}) }

// refuseTimeout bounds an answer that nobody waits for.
const refuseTimeout = 5 * time.Second

// sorted is a child.Sorter.
func sorted(line []byte) (f frame, answers string, ok bool) {
	if json.Unmarshal(line, &f) != nil || f.Type == "" {
		return f, "", false
	}
	if f.Type == "control_response" && f.Response != nil {
		return f, f.Response.RequestID, true
	}
	return f, "", true
}

func newPeer(conn child.Conn, name string, log *slog.Logger, tools []adapters.ToolSpec) *peer {
	p := &peer{conn: conn, name: name, log: log, tools: tools}
	p.desk = child.NewDesk(conn, sorted, p.idle)
	return p
}

// idle takes what is said while nothing runs. Nothing may be done then, so what is
// asked is denied.
func (p *peer) idle(f frame) {
	switch {
	case f.Type == "result":
		p.mu.Lock()
		p.fatal = strings.Join(f.Errors, "; ")
		p.mu.Unlock()
	case f.Type == "control_request" && f.Request != nil:
		ctx, cancel := context.WithTimeout(context.Background(), refuseTimeout)
		defer cancel()
		var err error
		switch f.Request.Subtype {
		case "can_use_tool":
			err = p.respond(ctx, f.RequestID, map[string]any{"behavior": "deny", "message": "nothing may be done between turns"})
		case "mcp_message":
			err = p.mcp(ctx, f.RequestID, f.Request)
		case "hook_callback":
			err = p.respond(ctx, f.RequestID, idleHook(f.Request.event()))
		default:
			err = p.refuse(ctx, f.RequestID, "nobody is there to answer")
		}
		if err != nil {
			p.log.Warn("answer Claude Code", "provider", p.name, "err", err)
		}
	}
}

// idleHook is the answer to a hook while nothing runs: no compaction is wanted then.
func idleHook(e hookEvent) any {
	if e.Name == "PreCompact" {
		return map[string]any{"decision": "block", "reason": "the server compacts by its own policy"}
	}
	return struct{}{}
}

// ended says why the conversation is over; nil if it is not.
func (p *peer) ended() error {
	if err := p.desk.Err(); err != nil {
		return died(p.name, err)
	}
	return nil
}

// send writes one frame.
func (p *peer) send(ctx context.Context, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("claude: encode a frame: %w", err)
	}
	if err := p.ended(); err != nil {
		return err
	}
	if err := p.conn.Send(ctx, line); err != nil {
		return p.unsent(ctx, err)
	}
	return nil
}

// endTimeout bounds the wait for the end of a process that takes no input.
const endTimeout = 3 * time.Second

// unsent says why a frame was not taken. A process that ends is noticed first by who
// writes to it; what it complained about says more than that.
func (p *peer) unsent(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		timer := time.NewTimer(endTimeout)
		defer timer.Stop()
		select {
		case <-p.desk.Done():
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if why := p.ended(); why != nil {
		return why
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return died(p.name, err)
}

// A controlError is Claude Code's answer to a control request that it does not take.
type controlError struct{ Subtype, Message string }

// Error implements error.
func (e *controlError) Error() string {
	return "Claude Code refuses " + e.Subtype + ": " + e.Message
}

// control makes a control request and waits for its answer. One that refuses wraps a
// *controlError.
func (p *peer) control(ctx context.Context, subtype string, fields map[string]any, into any) error {
	id := fmt.Sprintf("plimsoll-%d", p.last.Add(1))
	req := map[string]any{"subtype": subtype}
	maps.Copy(req, fields)
	answer := p.desk.Expect(id)
	defer p.desk.Forget(id)
	if err := p.send(ctx, map[string]any{"type": "control_request", "request_id": id, "request": req}); err != nil {
		return err
	}
	take := func(f frame) error {
		if r := f.Response; r.Subtype != "success" {
			return fault.Wrap(fault.Unavailable, &controlError{subtype, r.Error}, "%s: Claude Code refuses %s: %s", p.name, subtype, clip(r.Error))
		}
		if into == nil {
			return nil
		}
		if err := json.Unmarshal(f.Response.Response, into); err != nil {
			return fault.Wrap(fault.Unavailable, err, "%s: what the program answers to %s is not understood; is it Claude Code?", p.name, subtype)
		}
		return nil
	}
	select {
	case f := <-answer:
		return take(f)
	case <-p.desk.Done():
		select {
		case f := <-answer: // it came before the end
			return take(f)
		default:
			return p.ended()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// respond answers a control request of Claude Code.
func (p *peer) respond(ctx context.Context, id string, response any) error {
	return p.send(ctx, map[string]any{
		"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": id, "response": response},
	})
}

func (p *peer) refuse(ctx context.Context, id, why string) error {
	return p.send(ctx, map[string]any{
		"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": id, "error": why},
	})
}

// close ends the process and waits until nothing of it is left.
func (p *peer) close() {
	if err := p.conn.Close(); err != nil {
		p.log.Warn("end Claude Code", "provider", p.name, "err", err)
	}
	<-p.desk.Done()
}
