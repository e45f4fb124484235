package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/codex"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A peer is a program that speaks the wire of codex's app-server, as far as the adapter
// uses it (codex 0.171, observed), as a process of its own. Its model is the scripted
// server, asked by a puppet's means. It is honest but for its lie, which the adapter
// cannot see: only from outside can one see it.
const peerArg = "conform-peer"

// CodexPeer is the subject of the codex adapter with a peer.
func CodexPeer(l lie) Subject {
	s := Codex("peer", "0.171.0")
	s.Name, s.Scripted.Habits = "codex (peer)", ""
	s.Scripted.Run = func(string) string { return `call touch {} call_1` }
	s.Open = func(site Site) (adapters.Adapter, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path, home := filepath.Join(site.Dir, "codex-peer"), filepath.Join(site.Dir, "codex-home")
		if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' %s\n", self, peerArg), 0o700)); err != nil {
			return nil, err
		}
		env := append(homes.Environ(site.Dir), "PEER_URL="+site.URL, "PEER_LIE="+string(l), "PEER_WORK="+site.Work, "GORACE=atexit_sleep_ms=0")
		o := codex.Options{Program: path, Home: home, Env: env}
		if site.Tap != "" {
			o.Program, o.Env = site.Tap, append(env, TapEnv(site, path)...)
		}
		if site.Refuse {
			o.Env = append(o.Env, TapReplaces("/0.171.", "/0.150."))
		}
		return codex.New(o), nil
	}
	return s
}

// peer is the process.
type peer struct {
	m *marionette

	mu      sync.Mutex // guards what follows
	turn    string
	stop    context.CancelFunc
	asked   int
	answers map[string]chan json.RawMessage
	total   adapters.Usage
}

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

func peerMain() int {
	site := Site{URL: os.Getenv("PEER_URL"), Dir: os.Getenv("CODEX_HOME"), Work: os.Getenv("PEER_WORK")}
	p := &peer{m: &marionette{puppet: &puppet{site: site, lie: lie(os.Getenv("PEER_LIE"))}}, answers: map[string]chan json.RawMessage{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var f rpc
		if json.Unmarshal(lines.Bytes(), &f) != nil {
			continue
		}
		if f.Method == "" {
			p.mu.Lock()
			if ch := p.answers[string(f.ID)]; ch != nil {
				ch <- f.Result
			}
			p.mu.Unlock()
			continue
		}
		p.request(f)
	}
	return 0
}

var stdout sync.Mutex

func say(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // maps of strings
	stdout.Lock()
	defer stdout.Unlock()
	_, _ = os.Stdout.Write(b.Bytes()) // who is gone hears nothing
}

type object = map[string]any

func (p *peer) note(method string, params object) {
	params["threadId"] = p.m.id
	say(object{"method": method, "params": params})
}

func (p *peer) request(f rpc) {
	ok := func(result any) { say(object{"id": f.ID, "result": result}) }
	no := func(text string) { say(object{"id": f.ID, "error": object{"code": -32600, "message": text}}) }
	var in struct {
		ThreadID string `json:"threadId"`
		Input    []struct{ Text string }
		Context  map[string]struct{ Value string } `json:"additionalContext"`
		Items    []struct {
			Content []struct{ Text string }
		}
	}
	_ = json.Unmarshal(f.Params, &in) // what is not there is empty
	var text []string
	for _, part := range in.Input {
		text = append(text, part.Text)
	}
	said := strings.Join(text, "\n")
	switch f.Method {
	case "initialize":
		ok(object{"userAgent": "plimsoll/0.171.0 (peer)"})
	case "initialized":
	case "config/read":
		ok(object{"config": object{"model": "scripted"}})
	case "model/list":
		ok(object{"data": []any{}})
	case "thread/start":
		p.m.id = uuid.NewString()
		ok(object{"thread": object{"id": p.m.id}})
	case "thread/resume":
		p.m.id = in.ThreadID
		if err := p.m.load(); err != nil && p.m.lie != forgetsOnResume {
			no("no rollout found for thread id " + in.ThreadID)
			return
		}
		if p.m.lie == forgetsOnResume {
			p.m.history = nil
		}
		ok(object{"thread": object{"id": p.m.id}})
	case "thread/inject_items":
		for _, it := range in.Items {
			for _, c := range it.Content {
				if p.m.lie != dropsSeed {
					p.m.add("user", c.Text)
				}
			}
		}
		ok(object{})
	case "thread/turns/list":
		ok(object{"data": []any{}})
	case "turn/steer":
		if p.m.Steer(context.Background(), transcript.TextParts(said)) != nil {
			no("no active turn to steer")
			return
		}
		ok(object{"turnId": p.turn})
	case "turn/interrupt":
		p.mu.Lock()
		p.stop()
		p.mu.Unlock()
		ok(object{})
	case "turn/start":
		for _, c := range in.Context {
			p.m.add("user", c.Value)
		}
		ctx, turn := p.begin()
		ok(object{"turn": view(turn, "inProgress", nil)})
		go p.play(ctx, turn, said)
	case "thread/compact/start":
		ctx, turn := p.begin()
		ok(object{})
		go p.compact(ctx, turn)
	default:
		no("unknown method " + f.Method)
	}
}

func (p *peer) begin() (context.Context, string) {
	ctx, stop := context.WithCancel(context.Background())
	p.m.opens()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn, p.stop = uuid.NewString(), stop
	return ctx, p.turn
}

func view(turn, status string, failure any) object {
	return object{"id": turn, "items": []any{}, "status": status, "error": failure}
}

// end ends a turn as it came out.
func (p *peer) end(ctx context.Context, turn string, err error) {
	_ = p.m.save() // the test finds what is missing
	status, failure := "completed", any(nil)
	switch {
	case ctx.Err() != nil:
		status = "interrupted"
	case err != nil && p.m.lie != hidesFailure:
		status = "failed"
		info := "badRequest"
		if e, ok := errors.AsType[*adapters.Error](err); ok {
			info = string(e.Class)
		}
		failure = object{"message": err.Error(), "codexErrorInfo": info}
	}
	p.note("turn/completed", object{"turn": view(turn, status, failure)})
}

func (p *peer) play(ctx context.Context, turn, said string) {
	p.note("turn/started", object{"turn": view(turn, "inProgress", nil)})
	var err error
	if p.m.used >= window*90/100 {
		err = p.summarise(ctx, turn)
	}
	p.m.add("user", said)
	for again := err == nil; again; {
		again, err = p.step(ctx, turn)
	}
	p.end(ctx, turn, err)
}

// step is one request.
func (p *peer) step(ctx context.Context, turn string) (again bool, err error) {
	id, open := uuid.NewString(), false
	a, err := p.m.ask(ctx, p.m.history, func(piece string) {
		if !open {
			open = true
			p.note("item/started", object{"turnId": turn, "item": object{"type": "agentMessage", "id": id, "text": ""}})
		}
		p.note("item/agentMessage/delta", object{"turnId": turn, "itemId": id, "delta": piece})
	})
	if err != nil {
		return false, err
	}
	if a.text != "" {
		p.note("item/completed", object{"turnId": turn, "item": object{"type": "agentMessage", "id": id, "text": a.text}})
	}
	p.spent(turn, a.usage)
	p.m.used = a.usage.InputTokens
	m := object{"role": "assistant", "content": a.text}
	if a.calls != nil {
		m["tool_calls"] = a.calls
	}
	p.m.history = append(p.m.history, m)
	for _, call := range a.calls {
		if err := p.run(ctx, turn, call); err != nil {
			return false, err
		}
	}
	return p.m.goesOn(len(a.calls) > 0), nil
}

func (p *peer) spent(turn string, u adapters.Usage) {
	p.total.InputTokens += u.InputTokens
	p.total.OutputTokens += u.OutputTokens
	counts := func(u adapters.Usage) object {
		return object{"totalTokens": u.InputTokens + u.OutputTokens, "inputTokens": u.InputTokens, "outputTokens": u.OutputTokens}
	}
	p.note("thread/tokenUsage/updated", object{"turnId": turn, "tokenUsage": object{"total": counts(p.total), "last": counts(u), "modelContextWindow": window * 95 / 100}})
}

// run asks for the command and makes the file.
func (p *peer) run(ctx context.Context, turn string, call map[string]any) error {
	made := filepath.Join(p.m.site.Work, "made")
	item := object{"type": "commandExecution", "id": uuid.NewString(), "command": "touch " + made, "cwd": p.m.site.Work, "status": "inProgress"}
	p.note("item/started", object{"turnId": turn, "item": item})
	allowed := p.m.lie == ignoresNo
	ch := make(chan json.RawMessage, 1)
	p.mu.Lock()
	id := fmt.Sprint(p.asked)
	p.asked++
	p.answers[id] = ch
	p.mu.Unlock()
	say(object{"id": json.Number(id), "method": "item/commandExecution/requestApproval", "params": object{
		"threadId": p.m.id, "turnId": turn, "itemId": item["id"], "command": item["command"], "cwd": item["cwd"], "reason": "it is needed",
	}})
	select {
	case r := <-ch:
		var answer struct{ Decision any }
		_ = json.Unmarshal(r, &answer) // no answer is a no
		allowed = allowed || answer.Decision == "accept"
	case <-ctx.Done():
		return ctx.Err()
	}
	done := object{"type": item["type"], "id": item["id"], "command": item["command"], "cwd": item["cwd"], "status": "declined"}
	if allowed {
		done["status"], done["exitCode"] = "completed", 0
		if err := os.WriteFile(made, nil, 0o600); err != nil {
			return err
		}
	}
	p.m.history = append(p.m.history, object{"role": "tool", "tool_call_id": call["id"], "content": done["status"]})
	p.note("item/completed", object{"turnId": turn, "item": done})
	return nil
}

func (p *peer) compact(ctx context.Context, turn string) {
	p.note("turn/started", object{"turn": view(turn, "inProgress", nil)})
	p.end(ctx, turn, p.summarise(ctx, turn))
}

func (p *peer) summarise(ctx context.Context, turn string) error {
	item := object{"type": "contextCompaction", "id": uuid.NewString()}
	p.note("item/started", object{"turnId": turn, "item": item})
	var err error
	if p.m.lie != compactsNothing {
		var res adapters.NativeResult
		if res, err = p.m.summarise(ctx); err == nil && res.Usage != nil {
			p.spent(turn, *res.Usage)
		}
	}
	if err == nil || p.m.lie == hidesBadSummary {
		p.note("item/completed", object{"turnId": turn, "item": item})
	}
	return err
}

// The adapter of codex with a peer passes what it passes with codex itself.
func TestCodexWithAPeerConforms(t *testing.T) { held(t, CodexPeer(honest)) }

// A program that lies to an honest adapter is found out all the same.
func TestEachLieOfAProgramIsFound(t *testing.T) {
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
		{swallowsSteer, "steer"},
		{forgetsOnResume, "resume"},
		{dropsSeed, "rebase and undo"},
	} {
		t.Run(string(tt.lie)+"/"+tt.row, func(t *testing.T) { lies(t, CodexPeer(tt.lie), tt.lie, tt.row) })
	}
}
