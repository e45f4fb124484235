package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// A double speaks codex's wire in this process and plays a script. What it does in
// which order was observed with codex 0.171.
type double struct {
	t      *testing.T
	conn   child.Conn
	script adaptertest.Script
	store  *store
	thread string // it drives this one

	// override answers a request in place of the double; it reports whether it did.
	override func(d *double, id, method string, params json.RawMessage) bool

	mu        sync.Mutex
	turns     int
	items     int
	asked     int
	total     [2]int // input and output so far
	turn      string
	interrupt chan struct{} // closed to end the turn
	steered   bool
	answers   map[string]chan json.RawMessage
	seen      []string // methods, in order
	params    map[string]json.RawMessage
	work      sync.WaitGroup
}

const threadID = "01a00000-0000-7000-8000-000000000001"

// play returns an adapter whose codex is a double.
func play(t *testing.T, s adaptertest.Script) adapters.Adapter { return playWith(t, s, nil, Options{}) }

func playWith(t *testing.T, s adaptertest.Script, setup func(*double), o Options) adapters.Runtime {
	t.Helper()
	for _, reply := range s {
		for _, step := range reply {
			switch c := step.Chunk.(type) {
			case adapters.Done:
				if c.Stop == adapters.StopLength {
					t.Skip("codex does not tell that an answer was cut")
				}
			case adapters.CallChunk:
				if args := string(c.Call.Arguments); args != "" && (!json.Valid([]byte(args)) || args[0] != '{') {
					t.Skip("codex reads the arguments of calls itself")
				}
			}
		}
	}
	o.LeaseDir = t.TempDir()
	return newStore(t, s).dialled(setup, o)
}

func (d *double) say(format string, args ...any) {
	_ = d.conn.Send(context.Background(), fmt.Appendf(nil, format, args...)) // who is gone hears nothing
}

func (d *double) note(method, format string, args ...any) {
	d.say(`{"method":%q,"params":{"threadId":"%s",%s},"emittedAtMs":1}`, method, d.threadID(), fmt.Sprintf(format, args...))
}

func (d *double) serve() {
	for {
		line, err := d.conn.Next()
		if err != nil {
			d.stop()
			return
		}
		var f frame
		if err := json.Unmarshal(line, &f); err != nil {
			d.t.Errorf("codex was sent %q", line)
			continue
		}
		if f.Method == "" {
			d.mu.Lock()
			if ch := d.answers[string(f.ID)]; ch != nil {
				ch <- f.Result
			}
			d.mu.Unlock()
			continue
		}
		d.mu.Lock()
		d.seen = append(d.seen, f.Method)
		d.params[f.Method] = f.Params
		d.mu.Unlock()
		if d.override == nil || !d.override(d, string(f.ID), f.Method, f.Params) {
			d.request(string(f.ID), f.Method, f.Params)
		}
	}
}

func (d *double) request(id, method string, params json.RawMessage) {
	ok := func(result string) { d.say(`{"id":%s,"result":%s}`, id, result) }
	no := func(code int, text string) { d.say(`{"id":%s,"error":{"code":%d,"message":%q}}`, id, code, text) }
	switch method {
	case "initialize":
		ok(`{"userAgent":"plimsoll/0.171.0 (double)","codexHome":"/tmp"}`)
	case "initialized":
	case "thread/start", "thread/resume":
		id, found := d.open(method, params)
		if !found {
			no(-32600, "no rollout found for thread id "+id)
			return
		}
		ok(`{"thread":{"id":"` + id + `","path":` + d.store.file() + `},"model":"m","modelProvider":"p","cwd":"/"}`)
	case "model/list":
		ok(`{"data":[{"id":"small","displayName":"Small","isDefault":false},{"id":"m","displayName":"M","isDefault":true,"inputModalities":["text","image"]}]}`)
	case "config/read":
		ok(`{"config":{"model":null},"origins":{}}`)
	case "account/read":
		ok(`{"account":null,"requiresOpenaiAuth":true}`)
	case "thread/inject_items":
		d.hear(params)
		ok(`{}`)
	case "thread/turns/list":
		if d.store.unreadable() {
			no(-32603, "the history cannot be read")
			return
		}
		ok(`{"data":[]}`)
	case "turn/start", "thread/compact/start":
		d.hear(params)
		turn, stop := d.begin()
		d.work.Go(func() {
			if method == "turn/start" {
				ok(`{"turn":` + view(turn, "inProgress", "") + `}`)
				d.note("turn/started", `"turn":%s`, view(turn, "inProgress", ""))
				d.answer(turn, stop)
			} else {
				ok(`{}`)
				d.note("turn/started", `"turn":%s`, view(turn, "inProgress", ""))
				d.compact(turn, stop)
			}
		})
	case "turn/steer":
		d.mu.Lock()
		d.steered = true
		turn := d.turn
		d.mu.Unlock()
		ok(`{"turnId":"` + turn + `"}`)
	case "turn/interrupt":
		if d.stop() {
			ok(`{}`)
		} else {
			no(-32600, "no active turn to interrupt")
		}
	default:
		no(-32600, "Invalid request: unknown variant `"+method+"`")
	}
}

func (d *double) begin() (turn string, stop chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns++
	d.turn, d.steered, d.interrupt = fmt.Sprintf("turn-%d", d.turns), false, make(chan struct{})
	return d.turn, d.interrupt
}

func (d *double) stop() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.interrupt == nil {
		return false
	}
	close(d.interrupt)
	d.interrupt = nil
	return true
}

// finish ends a turn.
func (d *double) finish(turn, status, failure string) {
	d.mu.Lock()
	if d.interrupt != nil && status != "interrupted" {
		d.interrupt = nil
	}
	d.mu.Unlock()
	d.note("thread/status/changed", `"status":{"type":"idle"}`)
	d.note("turn/completed", `"turn":%s`, view(turn, status, failure))
}

func view(turn, status, failure string) string {
	if failure == "" {
		failure = "null"
	}
	return fmt.Sprintf(`{"id":%q,"items":[],"status":%q,"error":%s}`, turn, status, failure)
}

func (d *double) next() (adaptertest.Reply, bool) {
	st := d.store
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.at >= len(d.script) {
		d.t.Errorf("codex's model is asked %d times, the script has %d replies", st.at+1, len(d.script))
		return nil, false
	}
	st.at++
	return d.script[st.at-1], true
}

// quote is a JSON string of bytes as they are, UTF-8 or not.
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

// stream is an item with text that grows.
type stream struct {
	d        *double
	turn, id string
	kind     string
	all, cut string // cut is the beginning of a character
}

func (s *stream) text(kind, text string) {
	if s.id != "" && s.kind != kind {
		s.close()
	}
	if text == "" {
		return
	}
	if s.id == "" {
		s.kind, s.id, s.all = kind, s.d.itemID(), ""
		body := `"text":""`
		if kind == "reasoning" {
			body = `"summary":[],"content":[]`
		}
		s.d.note("item/started", `"turnId":%q,"item":{"type":%q,"id":%q,%s}`, s.turn, kind, s.id, body)
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

func (s *stream) send(text string) {
	if text == "" {
		return
	}
	method := "item/agentMessage/delta"
	if s.kind == "reasoning" {
		method = "item/reasoning/summaryTextDelta"
	}
	s.all += text
	s.d.note(method, `"turnId":%q,"itemId":%q,"delta":%s,"summaryIndex":0`, s.turn, s.id, quote(text))
}

func (s *stream) close() {
	if s.id == "" {
		return
	}
	s.send(s.cut)
	body := `"text":` + quote(s.all)
	if s.kind == "reasoning" {
		body = `"summary":[` + quote(s.all) + `],"content":[]`
	}
	s.d.note("item/completed", `"turnId":%q,"item":{"type":%q,"id":%q,%s}`, s.turn, s.kind, s.id, body)
	s.id, s.cut = "", ""
}

func (d *double) itemID() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.items++
	return fmt.Sprintf("msg_%d", d.items)
}

func (d *double) usage(turn string, in, out int) {
	d.mu.Lock()
	d.total[0] += in
	d.total[1] += out
	total := d.total
	d.mu.Unlock()
	d.note("thread/tokenUsage/updated", `"turnId":%q,"tokenUsage":{"total":%s,"last":%s,"modelContextWindow":95000}`,
		turn, tokens(total[0], total[1]), tokens(in, out))
}

func tokens(in, out int) string {
	return fmt.Sprintf(`{"totalTokens":%d,"inputTokens":%d,"outputTokens":%d}`, in+out, in, out)
}

// answer plays replies until the turn ends.
func (d *double) answer(turn string, stop chan struct{}) {
	for {
		reply, ok := d.next()
		if !ok {
			d.finish(turn, "failed", `{"message":"the script is over","codexErrorInfo":"other"}`)
			return
		}
		if d.reply(turn, stop, reply) {
			return
		}
	}
}

// reply plays one reply, and reports whether the turn is over.
func (d *double) reply(turn string, stop chan struct{}, reply adaptertest.Reply) (over bool) {
	out := &stream{d: d, turn: turn}
	var calls []adapters.CallChunk
	var asks []adaptertest.Asking
	spoke := false
	for _, step := range reply {
		if stopped(stop) {
			d.finish(turn, "interrupted", "")
			return true
		}
		switch {
		case step.Err != nil:
			d.finish(turn, "failed", failureOf(step.Err))
			return true
		case step.Hang:
			if step.Then != nil {
				step.Then()
			}
			<-stop
			d.finish(turn, "interrupted", "")
			return true
		case step.Ask != nil:
			asks = append(asks, *step.Ask)
		}
		switch c := step.Chunk.(type) {
		case adapters.MessageText:
			out.text("agentMessage", c.Text)
			spoke = true
		case adapters.ReasoningText:
			out.text("reasoning", c.Text)
		case adapters.CallChunk:
			calls = append(calls, c)
		case adapters.UsageChunk:
			if spoke { // a model takes its time: what its words make the client do comes before its end
				d.ask("attestation/generate", `"of":"the test"`, stop)
				spoke = false
			}
			out.close()
			d.usage(turn, c.Usage.InputTokens, c.Usage.OutputTokens)
		case adapters.Done:
			if stopped(stop) {
				d.finish(turn, "interrupted", "")
				return true
			}
			out.close()
			return d.done(turn, stop, calls, asks)
		}
	}
	d.finish(turn, "failed", `{"message":"stream disconnected before completion","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}}`)
	return true
}

func stopped(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// done ends a reply: what it called and asked is settled, what steered is read.
func (d *double) done(turn string, stop chan struct{}, calls []adapters.CallChunk, asks []adaptertest.Asking) (over bool) {
	if len(calls) > 0 && !d.runCalls(turn, stop, calls) {
		d.finish(turn, "interrupted", "")
		return true
	}
	for _, a := range asks {
		if !d.approve(turn, stop, a) {
			d.finish(turn, "interrupted", "")
			return true
		}
	}
	d.mu.Lock()
	again := len(calls)+len(asks) > 0 || d.steered
	d.steered = false
	d.mu.Unlock()
	if again {
		return false
	}
	d.finish(turn, "completed", "")
	return true
}

func failureOf(err error) string {
	info := `{"responseStreamDisconnected":{"httpStatusCode":null}}`
	if errors.Is(err, adapters.ErrOverflow) {
		info = `"contextWindowExceeded"`
	}
	return fmt.Sprintf(`{"message":%s,"codexErrorInfo":%s}`, quote(err.Error()), info)
}

// ask makes a request of codex and waits for the answer; nil if the turn was stopped.
func (d *double) ask(method, params string, stop chan struct{}) json.RawMessage {
	ch := make(chan json.RawMessage, 1)
	d.mu.Lock()
	id := fmt.Sprint(d.asked)
	d.asked++
	d.answers[id] = ch
	d.mu.Unlock()
	d.say(`{"id":%s,"method":%q,"params":{"threadId":"%s",%s}}`, id, method, d.threadID(), params)
	select {
	case r := <-ch:
		d.note("serverRequest/resolved", `"requestId":%s`, id)
		return r
	case <-stop:
		return nil
	}
}

func (d *double) runCalls(turn string, stop chan struct{}, calls []adapters.CallChunk) bool {
	var all sync.WaitGroup
	var mu sync.Mutex
	fine := true
	for _, c := range calls {
		args := string(c.Call.Arguments)
		if args == "" {
			args = "{}"
		}
		item := fmt.Sprintf(`{"type":"dynamicToolCall","id":%q,"namespace":null,"tool":%q,"arguments":%s,"status":%%q}`, c.Call.CallID, c.Call.Name, args)
		d.note("item/started", `"turnId":%q,"item":%s`, turn, fmt.Sprintf(item, "inProgress"))
		all.Go(func() {
			res := d.ask("item/tool/call", fmt.Sprintf(`"turnId":%q,"callId":%q,"namespace":null,"tool":%q,"arguments":%s`, turn, c.Call.CallID, c.Call.Name, args), stop)
			if res == nil {
				mu.Lock()
				fine = false
				mu.Unlock()
				return
			}
			d.note("item/completed", `"turnId":%q,"item":%s`, turn, fmt.Sprintf(item, "completed"))
		})
		if c.Call.CallID == "" || strings.Count(callsOf(calls), "|"+string(c.Call.CallID)+"|") > 1 {
			all.Wait() // one after the other where their ids do not tell them apart
		}
	}
	all.Wait()
	return fine
}

func callsOf(calls []adapters.CallChunk) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString("|" + string(c.Call.CallID) + "|")
	}
	return b.String()
}

// approve asks for a command and runs it, which does nothing. It reports whether the
// turn goes on.
func (d *double) approve(turn string, stop chan struct{}, a adaptertest.Asking) bool {
	id := d.itemID()
	command := "/bin/bash -lc '" + a.Command + "'"
	item := fmt.Sprintf(`{"type":"commandExecution","id":%q,"command":%q,"cwd":%q,"status":%%q,"aggregatedOutput":null,"exitCode":%%s}`, id, command, a.Cwd)
	d.note("item/started", `"turnId":%q,"item":%s`, turn, fmt.Sprintf(item, "inProgress", "null"))
	res := d.ask("item/commandExecution/requestApproval", fmt.Sprintf(`"turnId":%q,"itemId":%q,"command":%q,"cwd":%q,"reason":"why not"`, turn, id, command, a.Cwd), stop)
	var answer struct{ Decision any }
	if res == nil || json.Unmarshal(res, &answer) != nil {
		return false
	}
	switch answer.Decision {
	case "accept", "acceptForSession":
		d.note("item/completed", `"turnId":%q,"item":%s`, turn, fmt.Sprintf(item, "completed", "0"))
		return true
	}
	d.note("item/completed", `"turnId":%q,"item":%s`, turn, fmt.Sprintf(item, "declined", "null"))
	return answer.Decision == "decline"
}

// compact plays a reply as a compaction of its own turn.
func (d *double) compact(turn string, stop chan struct{}) {
	item := d.itemID()
	d.note("item/started", `"turnId":%q,"item":{"type":"contextCompaction","id":%q}`, turn, item)
	reply, ok := d.next()
	if !ok {
		d.finish(turn, "failed", `{"message":"the script is over","codexErrorInfo":"other"}`)
		return
	}
	for _, step := range reply {
		switch {
		case step.Err != nil:
			d.fails(turn, item, step.Err)
			return
		case step.Hang:
			if step.Then != nil {
				step.Then()
			}
			<-stop
			d.finish(turn, "interrupted", "")
			return
		case step.Completed != nil && step.Completed.Other:
			d.note("item/completed", `"turnId":"turn-of-another","item":{"type":"contextCompaction","id":"other"}`)
			d.finish("turn-of-another", "completed", "")
		case step.Completed != nil:
			d.estimate(turn, 7089)
			d.note("item/completed", `"turnId":%q,"item":{"type":"contextCompaction","id":%q}`, turn, item)
		}
		if u, is := step.Chunk.(adapters.UsageChunk); is {
			d.usage(turn, u.Usage.InputTokens, u.Usage.OutputTokens)
		}
	}
	d.finish(turn, "completed", "")
}

// estimate is what codex tells of its new context: a sum without parts.
func (d *double) estimate(turn string, n int) {
	d.mu.Lock()
	total := d.total
	d.mu.Unlock()
	d.note("thread/tokenUsage/updated", `"turnId":%q,"tokenUsage":{"total":%s,"last":{"totalTokens":%d},"modelContextWindow":95000}`, turn, tokens(total[0], total[1]), n)
}

func TestSuite(t *testing.T) { adaptertest.RunScripted(t, play) }

// within bounds a wait of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
