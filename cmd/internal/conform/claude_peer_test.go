package conform

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/claude"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The same for the wire of Claude Code (2.1.332, observed): see peer_test.go.
const claudePeerArg = "conform-claude-peer"

// ClaudePeer is the subject of the claude adapter with a peer.
func ClaudePeer(l lie) Subject {
	s := Claude("peer", "2.1.332")
	s.Name, s.Scripted.Habits = "claude (peer)", ""
	s.Scripted.Run = func(string) string { return `call touch {} call_1` }
	s.Open = func(site Site) (adapters.Adapter, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path, home := filepath.Join(site.Dir, "claude-peer"), filepath.Join(site.Dir, "claude-home")
		if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' %s \"$@\"\n", self, claudePeerArg), 0o700)); err != nil {
			return nil, err
		}
		env := append(homes.Environ(site.Dir), "PEER_URL="+site.URL, "PEER_LIE="+string(l), "PEER_WORK="+site.Work, "GORACE=atexit_sleep_ms=0")
		if site.Refuse {
			env = append(env, "DISABLE_COMPACT=1")
		}
		o := claude.Options{Program: path, Home: home, Model: "scripted", ContextWindow: window, Env: env}
		if site.Tap != "" {
			o.Program, o.Env = site.Tap, append(env, TapEnv(site, path)...)
		}
		if site.Loud {
			o.Env = append(o.Env, TapUnsets("DISABLE_AUTO_COMPACT"))
		}
		return claude.New(o), nil
	}
	return s
}

// claudePeer is the process.
type claudePeer struct {
	m *marionette

	mu      sync.Mutex // guards what follows
	stop    context.CancelFunc
	idle    chan struct{} // closed when what runs is over
	n       int
	answers map[string]chan object
	folded  []string // messages that steer
	total   adapters.Usage
}

func claudePeerMain(args []string) int {
	site := Site{URL: os.Getenv("PEER_URL"), Dir: os.Getenv("CLAUDE_CONFIG_DIR"), Work: os.Getenv("PEER_WORK")}
	p := &claudePeer{m: &marionette{puppet: &puppet{site: site, lie: lie(os.Getenv("PEER_LIE"))}}, answers: map[string]chan object{}}
	for i, a := range args {
		switch a {
		case "--session-id":
			p.m.id = args[i+1]
		case "--resume":
			p.m.id = args[i+1]
			if err := p.m.load(); err != nil {
				fmt.Fprintln(os.Stderr, "No conversation found with session ID: "+p.m.id)
				return 1
			}
			if p.m.lie == forgetsOnResume {
				p.m.history = nil
			}
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var f object
		if json.Unmarshal(lines.Bytes(), &f) != nil {
			return 1
		}
		switch f["type"] {
		case "control_response":
			res, _ := f["response"].(object)
			id, _ := res["request_id"].(string)
			answer, _ := res["response"].(object)
			p.mu.Lock()
			if ch := p.answers[id]; ch != nil {
				ch <- answer
			}
			p.mu.Unlock()
		case "control_request":
			p.control(f)
		case "user":
			p.user(f)
		}
	}
	return 0
}

func (p *claudePeer) say(f object) {
	f["session_id"], f["uuid"] = p.m.id, uuid.NewString()
	say(f)
}

func (p *claudePeer) control(f object) {
	req, _ := f["request"].(object)
	res := object{}
	switch req["subtype"] {
	case "initialize":
		commands := []any{object{"name": "clear"}}
		if os.Getenv("DISABLE_COMPACT") == "" {
			commands = append(commands, object{"name": "compact"})
		}
		res = object{"commands": commands, "claude_code_version": "2.1.332", "models": []any{object{"value": "default", "displayName": "Default"}}, "current_permission_mode": "default"}
	case "get_context_usage":
		res = object{"totalTokens": 4321, "rawMaxTokens": window}
	case "interrupt":
		p.mu.Lock()
		if p.stop != nil {
			p.stop()
		}
		p.mu.Unlock()
		res = object{"still_queued": []any{}, "cancelled": []any{}}
	}
	p.say(object{"type": "control_response", "response": object{"subtype": "success", "request_id": f["request_id"], "response": res}})
}

func (p *claudePeer) state(id, state string) {
	p.say(object{"type": "command_lifecycle", "command_uuid": id, "state": state})
}

// spoken is the text of a message.
func spoken(f object) string {
	m, _ := f["message"].(object)
	if s, ok := m["content"].(string); ok {
		return s
	}
	var all []string
	parts, _ := m["content"].([]any)
	for _, part := range parts {
		o, _ := part.(object)
		s, _ := o["text"].(string)
		all = append(all, s)
	}
	return strings.Join(all, "\n")
}

func (p *claudePeer) user(f object) {
	id, _ := f["uuid"].(string)
	text := spoken(f)
	ctx, stop := context.WithCancel(context.Background())
	p.state(id, "queued")
	p.mu.Lock()
	busy := p.stop != nil
	if busy && p.m.Steer(ctx, transcript.TextParts(text)) != nil { // it came when the turn was over: it is the next one
		idle := p.idle
		p.mu.Unlock()
		go func() {
			defer stop()
			<-idle
			p.user(f)
		}()
		return
	}
	switch {
	case busy:
		p.folded = append(p.folded, id)
	case f["shouldQuery"] != false:
		p.stop, p.idle = stop, make(chan struct{})
		p.m.opens()
	}
	p.mu.Unlock()
	if busy {
		stop()
		return
	}
	p.state(id, "started")
	switch {
	case f["shouldQuery"] == false:
		stop()
		if p.m.lie != dropsSeed {
			p.m.add("user", text)
		}
		_ = p.m.save() // the test finds what is missing
		p.result([]string{id}, object{})
		p.state(id, "completed")
	case strings.HasPrefix(text, "/compact") && f["client_composed"] != true:
		go p.compact(ctx, stop, id)
	default:
		go p.play(ctx, stop, id, text)
	}
}

func (p *claudePeer) result(ids []string, more object) {
	f := object{
		"type": "result", "subtype": "success", "is_error": false, "result": "", "terminal_reason": "completed", "stop_reason": "end_turn", "user_message_uuids": ids,
		"modelUsage": object{"scripted": object{"inputTokens": p.total.InputTokens, "outputTokens": p.total.OutputTokens, "contextWindow": window}},
	}
	maps.Copy(f, more)
	p.say(f)
}

func (p *claudePeer) finish(id, state string, more object) {
	_ = p.m.save() // the test finds what is missing
	p.mu.Lock()
	ids := append([]string{id}, p.folded...)
	p.folded, p.stop = nil, nil
	close(p.idle)
	p.mu.Unlock()
	p.result(ids, more)
	for _, id := range ids {
		p.state(id, state)
	}
}

// ask makes a control request; nil if what runs was stopped.
func (p *claudePeer) ask(ctx context.Context, request object) object {
	ch := make(chan object, 1)
	p.mu.Lock()
	p.n++
	id := fmt.Sprintf("ask-%d", p.n)
	p.answers[id] = ch
	p.mu.Unlock()
	p.say(object{"type": "control_request", "request_id": id, "request": request})
	select {
	case a := <-ch:
		if a == nil {
			a = object{}
		}
		return a
	case <-ctx.Done():
		p.say(object{"type": "control_cancel_request", "request_id": id})
		return nil
	}
}

func (p *claudePeer) play(ctx context.Context, stop func(), id, text string) {
	defer stop()
	var err error
	if p.m.used >= window*70/100 && os.Getenv("DISABLE_AUTO_COMPACT") == "" {
		err = p.replace(ctx, "auto")
	}
	p.m.add("user", text)
	for again := err == nil; again; {
		again, err = p.step(ctx)
	}
	switch {
	case ctx.Err() != nil:
		p.finish(id, "cancelled", object{"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming"})
	case err != nil && p.m.lie != hidesFailure:
		more := object{"is_error": true, "terminal_reason": "api_error", "result": "API Error: " + err.Error()}
		if e, ok := errors.AsType[*adapters.Error](err); ok {
			more["api_error_status"] = e.Status
		}
		if errors.Is(err, adapters.ErrOverflow) {
			more["terminal_reason"], more["result"] = "prompt_too_long", "Prompt is too long"
		}
		p.finish(id, "cancelled", more)
	default:
		p.finish(id, "completed", object{})
	}
}

func (p *claudePeer) event(e object) {
	p.say(object{"type": "stream_event", "parent_tool_use_id": nil, "event": e})
}

// step is one request.
func (p *claudePeer) step(ctx context.Context) (again bool, err error) {
	msg, open := "msg_"+uuid.NewString(), false
	p.event(object{"type": "message_start", "message": object{"id": msg, "model": "scripted", "content": []any{}, "usage": object{"input_tokens": 0, "output_tokens": 0}}})
	whole := func(content object) {
		p.say(object{"type": "assistant", "parent_tool_use_id": nil, "message": object{"id": msg, "model": "scripted", "role": "assistant", "content": []any{content}}})
	}
	text := ""
	a, err := p.m.ask(ctx, p.m.history, func(piece string) {
		if !open {
			open = true
			p.event(object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text"}})
		}
		text += piece
		p.event(object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": piece}})
	})
	if open {
		whole(object{"type": "text", "text": text})
		p.event(object{"type": "content_block_stop", "index": 0})
	}
	if err != nil {
		return false, err
	}
	p.total.InputTokens += a.usage.InputTokens
	p.total.OutputTokens += a.usage.OutputTokens
	p.m.used = a.usage.InputTokens
	p.event(object{"type": "message_delta", "delta": object{}, "usage": object{"input_tokens": a.usage.InputTokens, "output_tokens": a.usage.OutputTokens}})
	p.event(object{"type": "message_stop"})
	m := object{"role": "assistant", "content": a.text}
	if a.calls != nil {
		m["tool_calls"] = a.calls
	}
	p.m.history = append(p.m.history, m)
	for _, call := range a.calls {
		if err := p.run(ctx, call, whole); err != nil {
			return false, err
		}
	}
	again = p.m.goesOn(len(a.calls) > 0)
	p.mu.Lock()
	folded := p.folded
	p.folded = nil
	p.mu.Unlock()
	for _, id := range folded {
		p.state(id, "started")
		p.state(id, "completed")
	}
	return again, nil
}

// run asks for the command and makes the file.
func (p *claudePeer) run(ctx context.Context, call map[string]any, whole func(object)) error {
	made := filepath.Join(p.m.site.Work, "made")
	input := object{"command": "touch " + made, "description": "make the file"}
	whole(object{"type": "tool_use", "id": call["id"], "name": "Bash", "input": input})
	res := p.ask(ctx, object{"subtype": "can_use_tool", "tool_name": "Bash", "input": input, "description": "make the file", "tool_use_id": call["id"]})
	if res == nil {
		return ctx.Err()
	}
	allowed := res["behavior"] == "allow"
	said := "not allowed"
	if allowed || p.m.lie == ignoresNo {
		said = "made"
		if err := os.WriteFile(made, nil, 0o600); err != nil {
			return err
		}
	}
	p.m.history = append(p.m.history, object{"role": "tool", "tool_call_id": call["id"], "content": said})
	p.say(object{"type": "user", "parent_tool_use_id": nil, "message": object{
		"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": call["id"], "content": said, "is_error": !allowed}},
	}})
	return nil
}

func (p *claudePeer) compact(ctx context.Context, stop func(), id string) {
	defer stop()
	err := p.replace(ctx, "manual")
	state := "completed"
	if ctx.Err() != nil {
		state, err = "cancelled", errors.New("API Error: Request was aborted.")
	}
	if err != nil {
		p.say(object{"type": "system", "subtype": "status", "status": nil, "compact_result": "failed", "compact_error": err.Error()})
	}
	_ = p.m.save() // the test finds what is missing
	p.mu.Lock()
	p.stop = nil
	close(p.idle)
	p.mu.Unlock()
	p.result([]string{id}, object{"local_command": "compact"})
	p.state(id, state)
}

// replace makes the summary, if the hook lets it, and goes on with it.
func (p *claudePeer) replace(ctx context.Context, trigger string) error {
	p.say(object{"type": "system", "subtype": "status", "status": "compacting"})
	hook := func(id string, in object) object {
		return p.ask(ctx, object{"subtype": "hook_callback", "callback_id": id, "input": in})
	}
	res := hook("plimsoll-pre-compact", object{"hook_event_name": "PreCompact", "trigger": trigger})
	switch {
	case res == nil:
		return ctx.Err()
	case res["decision"] == "block":
		return fmt.Errorf("skipped: Compaction blocked by PreCompact hook: %v", res["reason"])
	}
	if p.m.lie != compactsNothing {
		if _, err := p.m.summarise(ctx); err != nil && p.m.lie != hidesBadSummary {
			return fmt.Errorf("Error during compaction: API Error: %w", err)
		}
	}
	hook("plimsoll-session-start", object{"hook_event_name": "SessionStart", "source": "compact"})
	p.say(object{"type": "system", "subtype": "status", "status": nil, "compact_result": "success"})
	p.say(object{"type": "system", "subtype": "compact_boundary", "compact_metadata": object{"trigger": trigger, "pre_tokens": 2050, "post_tokens": 606}})
	p.say(object{"type": "user", "isSynthetic": true, "message": object{"role": "user", "content": "Summary: of the peer."}})
	return nil
}

// The adapter of Claude Code with a peer passes what it passes with the real program.
func TestClaudeWithAPeerConforms(t *testing.T) { held(t, ClaudePeer(honest)) }

func TestEachLieOfAClaudeIsFound(t *testing.T) {
	for _, tt := range []struct {
		lie lie
		row string
	}{
		{compactsNothing, "native"},
		{compactsNothing, "turn in a compaction"},
		{keepsAll, "native"},
		{hidesBadSummary, "compaction 500"},
		{hidesFailure, "turn 500"},
		{ignoresNo, "deny"},
		{forgetsOnResume, "resume"},
		{dropsSeed, "rebase and undo"},
	} {
		t.Run(string(tt.lie)+"/"+tt.row, func(t *testing.T) { lies(t, ClaudePeer(tt.lie), tt.lie, tt.row) })
	}
}
