package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
)

func TestConformance(t *testing.T) {
	for _, wire := range []string{"generic", "openai", "mistral", "ollama"} {
		t.Run(wire, func(t *testing.T) {
			adaptertest.RunModel(t, func(t *testing.T, s adaptertest.Script) adaptertest.Provider {
				return provider(t, wire, s)
			})
		})
	}
}

// provider plays a script on a wire.
func provider(t *testing.T, wire string, s adaptertest.Script) adaptertest.Provider {
	p := &played{t: t, wire: wire, script: s}
	t.Cleanup(p.stop)
	return adaptertest.Provider{Adapter: p, Bodies: func() []string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.bodies)
	}}
}

// played is an adapter with the server behind it. The server ends with the last
// session, so that the suite sees whether one leaves something behind, and is there
// again with what is left of the script when another session is opened.
type played struct {
	t      *testing.T
	wire   string
	script adaptertest.Script

	mu     sync.Mutex
	bodies []string
	server *upstream.Server
	model  *Model
}

// start returns the adapter, with a server.
func (p *played) start() adapters.Adapter {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return agent.New(p.model)
	}
	c := cassetteOf(p.wire, p.script[min(len(p.bodies), len(p.script)):])
	cassette, err := upstream.Parse(p.t.Name(), []byte(c.text.String()))
	if err != nil {
		p.t.Fatalf("%v in\n%s", err, c.text.String())
	}
	asked := 0
	p.server, err = upstream.Serve(cassette, upstream.Options{
		Mistake: func(m string) { p.t.Errorf("%s", m) },
		Recorded: func(r upstream.Recorded) {
			if !strings.HasSuffix(r.Path, "/chat/completions") && r.Path != "/api/chat" {
				return
			}
			p.mu.Lock()
			p.bodies = append(p.bodies, string(r.Body))
			asked++
			then := c.hangs[asked]
			p.mu.Unlock()
			if then != nil {
				then()
			}
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.model, err = New(Options{
		Name: "scripted", BaseURL: p.server.URL + map[bool]string{false: "/v1"}[p.wire == "ollama"], Profile: p.wire, Model: "scripted",
		System: "You play a script.", Timeouts: Timeouts{Attempts: 1}, ContextWindow: 100_000,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return agent.New(p.model)
}

func (p *played) stop() {
	p.mu.Lock()
	server, model := p.server, p.model
	p.server, p.model = nil, nil
	p.mu.Unlock()
	if server != nil {
		model.Close()
		server.Close()
	}
}

func (p *played) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	return p.start().Models(ctx)
}

func (p *played) Continues() bool { return true }

func (p *played) Open(ctx context.Context, o adapters.OpenParams) (adapters.Session, error) {
	s, err := p.start().Open(ctx, o)
	if err != nil {
		return nil, err
	}
	writer, _ := s.(adapters.Summarizer)
	counter, _ := s.(adapters.Counter)
	return playedSession{s, writer, counter, p.stop}, nil
}

type playedSession struct {
	adapters.Session
	adapters.Summarizer
	adapters.Counter
	stop func()
}

func (s playedSession) Close() error {
	defer s.stop()
	return s.Session.Close()
}

// A script in the words of cassettes.
type cassette struct {
	text  strings.Builder
	hangs map[int]func() // by the number of the request
	wire  string
}

func cassetteOf(wire string, s adaptertest.Script) *cassette {
	c := &cassette{hangs: map[int]func(){}, wire: wire}
	fmt.Fprintf(&c.text, "server %s\nmodel scripted window=100000\nusage none\n", wire)
	for i, r := range s {
		fmt.Fprintf(&c.text, "-- reply %d --\n", i+1)
		said, cut := false, ""
		for j, step := range r {
			if m, is := step.Chunk.(adapters.MessageText); is {
				m.Text, cut = cut+m.Text, ""
				if last := j+1 == len(r) || !isText(r[j+1].Chunk); !last && !utf8.ValidString(m.Text) && unfinished(m.Text) {
					cut = m.Text // this wire carries whole characters: they are joined
					continue
				}
				step.Chunk = m
			}
			c.step(i+1, step, said)
			said = said || step.Chunk != nil
		}
		if n := len(r); n == 0 || r[n-1].Err == nil && !r[n-1].Hang && !isDone(r[n-1].Chunk) {
			c.add("eof")
		}
	}
	return c
}

func isText(c adapters.Chunk) bool { _, is := c.(adapters.MessageText); return is }
func isDone(c adapters.Chunk) bool { _, is := c.(adapters.Done); return is }

// unfinished reports whether a text ends inside a character.
func unfinished(s string) bool {
	for i := 1; i <= min(3, len(s)); i++ {
		if tail := s[len(s)-i:]; utf8.RuneStart(tail[0]) {
			return !utf8.FullRuneInString(tail)
		}
	}
	return false
}

func (c *cassette) add(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

// step writes one step. said tells whether something came before it.
func (c *cassette) step(request int, s adaptertest.Step, said bool) {
	switch {
	case s.Ask != nil:
		args, _ := json.Marshal(s.Ask)
		c.add("call %s %s ask-%s", adaptertest.AskTool, args, s.Ask.Command)
	case s.Hang:
		if s.Then != nil {
			c.hangs[request] = s.Then
		}
		c.add("hang")
	case s.Completed != nil: // this wire has no compaction of its own
	case errors.Is(s.Err, adapters.ErrOverflow):
		c.overflow(s.Err, said)
	case s.Err != nil:
		c.add("cut")
	default:
		c.chunk(s.Chunk)
	}
}

func (c *cassette) overflow(err error, said bool) {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"message": err.Error(), "type": "invalid_request_error", "code": "context_length_exceeded",
	}})
	switch {
	case !said:
		c.add("status 400\njson %s", body)
	case c.wire == "ollama":
		c.add("raw %q", string(body)+"\n")
	default:
		c.add("data %s", body)
	}
}

// reasons are the words of the wire for stop reasons.
var reasons = map[adapters.StopReason]string{
	adapters.StopEnd: "stop", adapters.StopTools: "tool_calls", adapters.StopLength: "length",
	adapters.StopWindow: "model_context_window_exceeded", adapters.StopFilter: "content_filter",
}

func (c *cassette) chunk(ch adapters.Chunk) {
	switch ch := ch.(type) {
	case adapters.MessageText:
		c.say(ch.Text)
	case adapters.ReasoningText:
		c.add("think %q", ch.Text)
	case adapters.CallChunk:
		args := string(ch.Call.Arguments)
		if !json.Valid([]byte(args)) || strings.HasPrefix(args, `"`) {
			quoted, _ := json.Marshal(args)
			args = string(quoted)
		}
		id := string(ch.Call.CallID)
		if id == "" {
			id = "-"
		}
		name := ch.Call.Name
		if name == "" || c.wire == "ollama" && args == "null" { // on which null is no arguments at all
			c.raw(id, name, args)
			return
		}
		c.add("call %s %s %s", name, args, id)
	case adapters.UsageChunk:
		if c.wire == "ollama" { // which tells it at the end alone, where a script can break before
			c.add("raw %q", fmt.Sprintf(`{"message":{},"done":false,"prompt_eval_count":%d,"eval_count":%d}`+"\n", ch.Usage.InputTokens, ch.Usage.OutputTokens))
			return
		}
		c.add("usage %d %d", ch.Usage.InputTokens, ch.Usage.OutputTokens)
	case adapters.Done:
		c.add("finish %s\ndone", reasons[ch.Stop])
	}
}

// raw writes a call with its arguments as a text.
func (c *cassette) raw(id, name, args string) {
	if c.wire == "ollama" {
		c.add("raw %q", fmt.Sprintf(`{"message":{"tool_calls":[{"id":%q,"function":{"name":%q,"arguments":%q}}]},"done":false}`+"\n", id, name, args))
		return
	}
	c.add("data %s", fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":%q,"function":{"name":%q,"arguments":%q}}]}}]}`, id, name, args))
}

// say writes text, in bytes where it is no text.
func (c *cassette) say(text string) {
	if utf8.ValidString(text) && text != "" {
		c.add("say %q", text)
		return
	}
	quoted := `"` + text + `"`
	if c.wire == "ollama" {
		c.add("raw %q", `{"message":{"content":`+quoted+`},"done":false}`+"\n")
		return
	}
	c.add("raw %q", `data: {"choices":[{"index":0,"delta":{"content":`+quoted+`}}]}`+"\n\n")
}
