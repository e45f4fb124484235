package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// A double speaks Claude Code's wire in this process and plays a script. What it does
// in which order was observed with Claude Code 2.1.332.
type double struct {
	t      *testing.T
	conn   child.Conn
	script adaptertest.Script

	// override answers a frame in place of the double; it reports whether it did.
	override func(d *double, f map[string]any) bool

	mu      sync.Mutex
	at      int // of the script
	n       int // of whatever needs a number
	total   [2]int
	stop    chan struct{} // closed to end what runs; nil if nothing does
	steered []string      // uuids of messages that were not read
	ids     map[string]bool
	answers map[string]chan map[string]any
	seen    []map[string]any
	work    sync.WaitGroup
}

// play returns an adapter whose Claude Code is a double.
func play(t *testing.T, s adaptertest.Script) adapters.Adapter {
	return playWith(t, s, nil, Options{})
}

func playWith(t *testing.T, s adaptertest.Script, setup func(*double), o Options) adapters.Runtime {
	t.Helper()
	for _, reply := range s {
		for _, step := range reply {
			if c, is := step.Chunk.(adapters.CallChunk); is {
				if args := string(c.Call.Arguments); args != "" && (!json.Valid([]byte(args)) || args[0] != '{') {
					t.Skip("Claude Code reads the arguments of calls itself")
				}
			}
		}
	}
	shared := &double{}
	o.Env, o.LeaseDir = append(o.Env, "HOME="+t.TempDir()), t.TempDir()
	o.dial = func(context.Context, []string) (child.Conn, error) {
		ours, theirs := child.Pipe()
		shared.mu.Lock()
		d := &double{t: t, conn: theirs, script: s, at: shared.at, answers: map[string]chan map[string]any{}, ids: map[string]bool{}}
		shared.mu.Unlock()
		if setup != nil {
			setup(d)
		}
		go func() {
			d.serve()
			d.work.Wait()
			shared.mu.Lock()
			shared.at = max(shared.at, d.at)
			shared.mu.Unlock()
		}()
		return ours, nil
	}
	return New(o)
}

// raw is JSON that is sent as it is, valid UTF-8 or not.
func (d *double) raw(format string, args ...any) {
	_ = d.conn.Send(context.Background(), fmt.Appendf(nil, format, args...)) // who is gone hears nothing
}

func (d *double) say(f map[string]any) {
	b, err := json.Marshal(f)
	if err != nil {
		d.t.Error(err)
		return
	}
	_ = d.conn.Send(context.Background(), b) // who is gone hears nothing
}

func (d *double) number() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	return d.n
}

func (d *double) serve() {
	for {
		line, err := d.conn.Next()
		if err != nil {
			d.interrupt()
			return
		}
		var f map[string]any
		if err := json.Unmarshal(line, &f); err != nil {
			d.t.Errorf("Claude Code was sent %q, which ends it", line)
			continue
		}
		if f["type"] == "control_response" {
			res, _ := f["response"].(map[string]any)
			id, _ := res["request_id"].(string)
			d.mu.Lock()
			if ch := d.answers[id]; ch != nil {
				answer, _ := res["response"].(map[string]any)
				ch <- answer
			}
			d.mu.Unlock()
			continue
		}
		d.mu.Lock()
		d.seen = append(d.seen, f)
		d.mu.Unlock()
		if d.override != nil && d.override(d, f) {
			continue
		}
		switch f["type"] {
		case "control_request":
			d.control(f)
		case "user":
			d.user(f)
		}
	}
}

func (d *double) control(f map[string]any) {
	req, _ := f["request"].(map[string]any)
	ok := func(res map[string]any) {
		d.say(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": f["request_id"], "response": res}})
	}
	switch req["subtype"] {
	case "initialize":
		ok(map[string]any{
			"commands": []any{map[string]any{"name": "compact"}, map[string]any{"name": "clear"}}, "claude_code_version": "2.1.332",
			"models": []any{map[string]any{"value": "default", "displayName": "Default"}, map[string]any{"value": "opus", "displayName": "Opus"}}, "current_permission_mode": "default",
		})
	case "get_context_usage":
		ok(map[string]any{"totalTokens": 4321, "rawMaxTokens": 200000})
	case "interrupt":
		d.interrupt()
		ok(map[string]any{"still_queued": []any{}, "cancelled": []any{}})
	default:
		ok(map[string]any{})
	}
}

func (d *double) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil {
		close(d.stop)
		d.stop = nil
	}
}

func (d *double) lifecycle(id, state string) {
	d.say(map[string]any{"type": "command_lifecycle", "command_uuid": id, "state": state})
}

// user takes a message.
func (d *double) user(f map[string]any) {
	id, _ := f["uuid"].(string)
	m, _ := f["message"].(map[string]any)
	text, _ := m["content"].(string)
	d.lifecycle(id, "queued")
	d.mu.Lock()
	busy := d.stop != nil
	stop := make(chan struct{})
	switch {
	case busy:
		d.steered = append(d.steered, id)
	case f["shouldQuery"] != false:
		d.stop = stop
	}
	d.mu.Unlock()
	switch {
	case busy:
		if f["priority"] != "next" {
			d.t.Error("a message was sent while another one is not done")
		}
	case f["shouldQuery"] == false:
		d.lifecycle(id, "started")
		d.result([]string{id}, nil)
		d.lifecycle(id, "completed")
	default:
		d.lifecycle(id, "started")
		d.work.Go(func() {
			if strings.HasPrefix(text, "/compact") && f["client_composed"] != true {
				d.compact(id, stop)
			} else {
				d.answer(id, stop)
			}
		})
	}
}

// result is the end of a message. More is what it has beside.
func (d *double) result(ids []string, more map[string]any) {
	d.mu.Lock()
	total := d.total
	d.mu.Unlock()
	f := map[string]any{
		"type": "result", "subtype": "success", "is_error": false, "result": "", "terminal_reason": "completed", "user_message_uuids": ids,
		"modelUsage": map[string]any{"claude-x": map[string]any{"inputTokens": total[0], "outputTokens": total[1], "contextWindow": 200000}},
	}
	maps.Copy(f, more)
	d.say(f)
}

// finish ends a turn, and what steered it.
func (d *double) finish(id, state string, more map[string]any) {
	d.mu.Lock()
	ids := append([]string{id}, d.steered...)
	d.steered, d.stop = nil, nil
	d.mu.Unlock()
	d.result(ids, more)
	for _, id := range ids {
		d.lifecycle(id, state)
	}
}

func (d *double) aborted(id, where string) {
	d.finish(id, "cancelled", map[string]any{"subtype": "error_during_execution", "is_error": true, "terminal_reason": where})
}

func (d *double) failed(id string, err error) {
	more := map[string]any{"is_error": true, "terminal_reason": "api_error", "api_error_status": 500, "result": "API Error: " + err.Error()}
	if errors.Is(err, adapters.ErrOverflow) {
		more = map[string]any{"is_error": true, "terminal_reason": "prompt_too_long", "api_error_status": 400, "result": "Prompt is too long"}
	}
	d.finish(id, "cancelled", more)
}

func (d *double) next() (adaptertest.Reply, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at >= len(d.script) {
		d.t.Errorf("the model is asked %d times, the script has %d replies", d.at+1, len(d.script))
		return nil, false
	}
	d.at++
	return d.script[d.at-1], true
}

// ask makes a control request and waits for the answer; nil if what runs was stopped.
func (d *double) ask(request map[string]any, stop chan struct{}) map[string]any {
	ch := make(chan map[string]any, 1)
	id := fmt.Sprintf("ask-%d", d.number())
	d.mu.Lock()
	d.answers[id] = ch
	d.mu.Unlock()
	d.say(map[string]any{"type": "control_request", "request_id": id, "request": request})
	select {
	case a := <-ch:
		if a == nil {
			a = map[string]any{}
		}
		return a
	case <-stop:
		d.say(map[string]any{"type": "control_cancel_request", "request_id": id})
		return nil
	}
}

// answer plays replies until the turn ends.
func (d *double) answer(id string, stop chan struct{}) {
	for {
		reply, ok := d.next()
		if !ok {
			d.failed(id, errors.New("the script is over"))
			return
		}
		if d.reply(id, stop, reply) {
			return
		}
	}
}

// A spoken is a message that streams.
type spoken struct {
	d        *double
	id, kind string
	index    int
	all, cut string
}

func (s *spoken) event(format string, args ...any) {
	s.d.raw(`{"type":"stream_event","parent_tool_use_id":null,"event":%s}`, fmt.Sprintf(format, args...))
}

func (s *spoken) text(kind, text string) {
	if s.kind != kind {
		s.close()
		s.kind, s.all = kind, ""
		s.event(`{"type":"content_block_start","index":%d,"content_block":{"type":%q}}`, s.index, kind)
	}
	text = s.cut + text
	n := len(text)
	for i := max(0, n-3); i < n; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRuneInString(text[i:]) {
			n = i
			break
		}
	}
	s.send(text[:n])
	s.cut = text[n:]
}

func (s *spoken) send(text string) {
	s.all += text
	s.event(`{"type":"content_block_delta","index":%d,"delta":{"type":"%s_delta",%q:%s}}`, s.index, s.kind, s.kind, quote(text))
}

func (s *spoken) close() {
	if s.kind == "" {
		return
	}
	if s.cut != "" {
		s.send(s.cut)
	}
	s.d.raw(`{"type":"assistant","parent_tool_use_id":null,"message":{"id":%q,"model":"claude-x","role":"assistant","content":[{"type":%q,%q:%s}]}}`, s.id, s.kind, s.kind, quote(s.all))
	s.event(`{"type":"content_block_stop","index":%d}`, s.index)
	s.index, s.kind, s.cut = s.index+1, "", ""
}

// quote is a JSON string of bytes as they are.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func stopped(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// reply plays one reply, and reports whether the turn is over.
func (d *double) reply(id string, stop chan struct{}, reply adaptertest.Reply) (over bool) {
	m := &spoken{d: d, id: fmt.Sprintf("msg_%d", d.number())}
	m.event(`{"type":"message_start","message":{"id":%q,"model":"claude-x","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`, m.id)
	var calls []adapters.CallChunk
	var asks []adaptertest.Asking
	spoke := false
	for _, step := range reply {
		if stopped(stop) {
			m.close()
			d.aborted(id, "aborted_streaming")
			return true
		}
		switch {
		case step.Err != nil:
			d.failed(id, step.Err)
			return true
		case step.Hang:
			if step.Then != nil {
				step.Then()
			}
			<-stop
			m.close()
			d.aborted(id, "aborted_streaming")
			return true
		case step.Ask != nil:
			asks = append(asks, *step.Ask)
		}
		switch c := step.Chunk.(type) {
		case adapters.MessageText:
			m.text("text", c.Text)
			spoke = true
		case adapters.ReasoningText:
			m.text("thinking", c.Text)
			spoke = true
		case adapters.CallChunk:
			calls = append(calls, c)
		case adapters.UsageChunk:
			if spoke { // a model takes its time: what its words make the client do comes before its end
				d.ask(map[string]any{"subtype": "of_the_test"}, stop)
				spoke = false
			}
			m.close()
			d.spend(m, c.Usage)
		case adapters.Done:
			if stopped(stop) {
				m.close()
				d.aborted(id, "aborted_streaming")
				return true
			}
			m.close()
			m.event(`{"type":"message_stop"}`)
			return d.done(id, stop, m, c.Stop, calls, asks)
		}
	}
	d.failed(id, errors.New("stream ended before its end"))
	return true
}

func (d *double) spend(m *spoken, u adapters.Usage) {
	d.mu.Lock()
	d.total[0] += u.InputTokens
	d.total[1] += u.OutputTokens
	d.mu.Unlock()
	m.event(`{"type":"message_delta","delta":{},"usage":{"input_tokens":%d,"output_tokens":%d}}`, u.InputTokens, u.OutputTokens)
}

// done ends a reply: what it called and asked is settled, what steered is read.
func (d *double) done(id string, stop chan struct{}, m *spoken, why adapters.StopReason, calls []adapters.CallChunk, asks []adaptertest.Asking) (over bool) {
	if len(calls) > 0 && !d.runCalls(stop, m, calls) {
		d.aborted(id, "aborted_tools")
		return true
	}
	for _, a := range asks {
		if !d.approve(stop, m, a) {
			d.aborted(id, "aborted_tools")
			return true
		}
	}
	d.mu.Lock()
	read := d.steered
	d.steered = nil
	d.mu.Unlock()
	for _, s := range read { // folded into the turn
		d.lifecycle(s, "started")
		d.lifecycle(s, "completed")
	}
	if len(calls)+len(asks)+len(read) > 0 {
		return false
	}
	reason := map[adapters.StopReason]string{adapters.StopLength: "max_tokens"}[why]
	if reason == "" {
		reason = "end_turn"
	}
	d.finish(id, "completed", map[string]any{"stop_reason": reason})
	return true
}

// use tells a call of a tool.
func (d *double) use(m *spoken, id, name string, input json.RawMessage) {
	d.say(map[string]any{"type": "assistant", "parent_tool_use_id": nil, "message": map[string]any{
		"id": m.id, "model": "claude-x", "content": []any{map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}},
	}})
}

func (d *double) returns(id, text string, failed bool) {
	d.say(map[string]any{"type": "user", "parent_tool_use_id": nil, "message": map[string]any{
		"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}},
	}})
}

// unique is the id of a call: the provider's are.
func (d *double) unique(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := 1; id == "" || d.ids[id]; n++ {
		id = fmt.Sprintf("toolu_%d_%d", len(d.ids), n)
	}
	d.ids[id] = true
	return id
}

func (d *double) runCalls(stop chan struct{}, m *spoken, calls []adapters.CallChunk) bool {
	var all sync.WaitGroup
	results := make([]bool, len(calls))
	for i, c := range calls {
		args := c.Call.Arguments
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		id, name := d.unique(string(c.Call.CallID)), toolPrefix+c.Call.Name
		d.use(m, id, name, args)
		all.Go(func() {
			if p := d.ask(map[string]any{"subtype": "can_use_tool", "tool_name": name, "input": args, "tool_use_id": id}, stop); p == nil || p["behavior"] != "allow" {
				return
			}
			res := d.ask(map[string]any{"subtype": "mcp_message", "server_name": toolServer, "message": map[string]any{
				"jsonrpc": "2.0", "id": i, "method": "tools/call",
				"params": map[string]any{"name": c.Call.Name, "arguments": args, "_meta": map[string]any{"claudecode/toolUseId": id}},
			}}, stop)
			if res == nil {
				return
			}
			d.returns(id, "what the tool said", false)
			results[i] = true
		})
	}
	all.Wait()
	for _, fine := range results {
		if !fine {
			return false
		}
	}
	return true
}

// approve asks for a command and runs it, which does nothing. It reports whether the
// turn goes on.
func (d *double) approve(stop chan struct{}, m *spoken, a adaptertest.Asking) bool {
	id := d.unique("")
	input, err := json.Marshal(map[string]any{"command": a.Command, "description": "why not"})
	if err != nil {
		d.t.Error(err)
	}
	d.use(m, id, "Bash", input)
	res := d.ask(map[string]any{"subtype": "can_use_tool", "tool_name": "Bash", "input": json.RawMessage(input), "description": "why not", "tool_use_id": id}, stop)
	switch {
	case res == nil:
		return false
	case res["behavior"] == "allow":
		d.returns(id, "done", false)
		return true
	}
	d.returns(id, "not allowed", true)
	return res["interrupt"] != true
}

// compact plays a reply as a compaction.
func (d *double) compact(id string, stop chan struct{}) {
	d.say(map[string]any{"type": "system", "subtype": "status", "status": "compacting"})
	end := func(state string) {
		d.mu.Lock()
		d.stop = nil
		d.mu.Unlock()
		d.result([]string{id}, map[string]any{"local_command": "compact"})
		d.lifecycle(id, state)
	}
	fail := func(text, state string) {
		d.say(map[string]any{"type": "system", "subtype": "status", "status": nil, "compact_result": "failed", "compact_error": text})
		end(state)
	}
	hook := map[string]any{"subtype": "hook_callback", "callback_id": hookCompact, "input": map[string]any{"hook_event_name": "PreCompact", "trigger": "manual"}}
	switch res := d.ask(hook, stop); {
	case res == nil:
		fail("API Error: Request was aborted.", "cancelled")
		return
	case res["decision"] == "block":
		fail("skipped: Compaction blocked by PreCompact hook: "+fmt.Sprint(res["reason"]), "completed")
		return
	}
	reply, ok := d.next()
	if !ok {
		fail("the script is over", "completed")
		return
	}
	for _, step := range reply {
		switch {
		case step.Err != nil:
			fail("Error during compaction: API Error: "+step.Err.Error(), "completed")
			return
		case step.Hang:
			if step.Then != nil {
				step.Then()
			}
			<-stop
			fail("API Error: Request was aborted.", "cancelled")
			return
		case step.Completed != nil && !step.Completed.Other: // the wire cannot tell another one
			d.ask(map[string]any{"subtype": "hook_callback", "callback_id": hookStart, "input": map[string]any{"hook_event_name": "SessionStart", "source": "compact"}}, stop)
			d.say(map[string]any{"type": "system", "subtype": "status", "status": nil, "compact_result": "success"})
			d.say(map[string]any{"type": "system", "subtype": "compact_boundary", "compact_metadata": map[string]any{"trigger": "manual", "pre_tokens": 2050, "post_tokens": 2606}})
			d.say(map[string]any{"type": "user", "isSynthetic": true, "message": map[string]any{"role": "user", "content": "Summary: " + step.Completed.Disclosed}})
		}
		if u, is := step.Chunk.(adapters.UsageChunk); is {
			d.mu.Lock()
			d.total[0] += u.Usage.InputTokens
			d.total[1] += u.Usage.OutputTokens
			d.mu.Unlock()
		}
	}
	end("completed")
}

func TestSuite(t *testing.T) { adaptertest.RunScripted(t, play) }
