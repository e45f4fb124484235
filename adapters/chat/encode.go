package chat

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// object is a JSON object with its members in the order in which they were set, so
// that the same request is the same bytes.
type object struct {
	keys   []string
	values []any
}

func (o *object) set(key string, value any) {
	o.keys, o.values = append(o.keys, key), append(o.values, value)
}

// MarshalJSON implements json.Marshaler.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, k := range o.keys {
		v, err := transcript.Encode(o.values[i])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%c%q:%s", "{,"[min(i, 1)], k, v)
	}
	if len(o.keys) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// The messages of the wire.
type (
	wireMessage struct {
		Role       string     `json:"role"`
		Content    any        `json:"content"` // a text, a list of wireContent, or null
		ToolCalls  []wireCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`

		// Thoughts go back under the name that they came under.
		ReasoningContent *string `json:"reasoning_content,omitempty"`
		Reasoning        *string `json:"reasoning,omitempty"`
		ReasoningText    *string `json:"reasoning_text,omitempty"`
	}
	wireContent struct {
		Type  string     `json:"type"`
		Text  string     `json:"text,omitempty"`
		Image *wireImage `json:"image_url,omitempty"`
	}
	wireImage struct {
		URL string `json:"url"`
	}
	wireCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	wireTool struct {
		Type     string   `json:"type"`
		Function wireSpec `json:"function"`
	}
	wireSpec struct {
		Name        string             `json:"name"`
		Description string             `json:"description,omitempty"`
		Parameters  transcript.RawJSON `json:"parameters"`
	}
)

// A plan is a request that is ready to be sent but for its wire form: the messages
// mended, and everything decided that a server could refuse.
type plan struct {
	p        profile
	model    string
	messages []prompt.Message
	findings []prompt.Finding
	tools    []adapters.ToolSpec
	names    names
	writer   bool
	max      int // tokens of the answer; 0: nobody says
	unshown  int // images that are told as text
	window   int // tokens; 0: unknown
	load     int // the window that Ollama is to load the model with; 0: its own choice
	estimate int // tokens of the input
	effort   string
	without  set // what this model has refused before
	seed     string
}

// rules are what the wire asks of the messages.
func (p profile) rules(writer, images bool, window int) prompt.Rules {
	r := prompt.Rules{
		IDs: p.ids, Names: prompt.Ident{Max: p.nameMax, Chars: prompt.Word},
		Reasoning: p.echo != "", MergeRoles: p.merge, UserFirst: p.merge, Bridge: p.bridge, Writer: writer,
	}
	if images {
		r.Images = prompt.ImagesUser
	}
	if p.silent && !p.native { // nobody else would say that it does not fit
		r.MaxTokens = window + window/10
	}
	return r
}

// prepare makes the plan of a request: neutral messages, mended as the last step.
func (p profile) prepare(req adapters.Request, window, most int, without set) plan {
	images := p.images && !without.has(refusedImages) && req.Blob != nil
	rules := p.rules(req.Writer, images, window)
	pl := plan{
		p: p, model: req.Model, writer: req.Writer, window: window, effort: req.Effort, without: without,
		tools: sorted(req.Base.Tools), names: namesOf(req.Base.Tools, rules.Names), seed: seed(req),
	}
	if req.Writer || without.has(refusedTools) {
		pl.tools = nil
	}
	if !images && req.Blob != nil {
		for _, e := range req.Entries {
			pl.unshown += transcript.Images(e.Item.Body)
		}
	}
	pl.messages, pl.findings = prompt.Prepare(req.Base.System, req.Entries, prompt.Options{
		Rules: rules, Echo: p.echo != "", Blob: req.Blob,
	})
	pl.estimate = estimate(pl.messages, pl.tools)
	pl.max = fitOutput(bounded(req.MaxOutput, most), window, pl.estimate)
	return pl
}

// seed is different for every request of a thread, and the same for the same one.
func seed(req adapters.Request) string {
	if n := len(req.Entries); n > 0 {
		return string(req.Entries[n-1].Item.ID)
	}
	return req.Model
}

// bounded is the smaller of two bounds, of which 0 is none.
func bounded(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// leastOutput is what an answer is given room for however full the window is: if
// that is too much the server says so, and there is a compaction.
const leastOutput = 256

// fitOutput lowers the bound of the answer to what the window has room for: servers
// refuse a request whose input and bound together exceed it (vLLM, DeepSeek).
func fitOutput(most, window, estimate int) int {
	if most == 0 || window == 0 {
		return most
	}
	room := window - estimate - estimate/10 - 64
	return min(most, max(room, min(leastOutput, most)))
}

// estimate counts the tokens of a request by our own ruler.
func estimate(ms []prompt.Message, tools []adapters.ToolSpec) int {
	n := prompt.Tokens(ms)
	for _, t := range tools {
		n += transcript.EstimateText(t.Name + t.Description + string(t.Schema))
	}
	return n
}

// body returns the request for /chat/completions.
func (pl plan) body() ([]byte, error) {
	var o object
	o.set("model", pl.model)
	o.set("messages", pl.wireMessages())
	pl.setTools(&o)
	o.set("stream", true)
	if pl.p.usage && !pl.without.has(refusedUsage) {
		o.set("stream_options", map[string]bool{"include_usage": true})
	}
	if field := pl.maxField(); pl.max > 0 && field != "" {
		o.set(field, pl.max)
	}
	if set := effortForms[pl.p.effort]; set != nil && pl.effort != "" && !pl.without.has(refusedEffort) {
		set(&o, pl.effort)
	}
	b, err := transcript.Encode(&o)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "a tool's schema is no JSON")
	}
	return b, nil
}

// maxField is the name that the bound of the answer has; empty if both are refused.
func (pl plan) maxField() string {
	other := map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
	switch field := pl.p.maxTokens; {
	case !pl.without.has(refusedMax(field)):
		return field
	case !pl.without.has(refusedMax(other[field])):
		return other[field]
	}
	return ""
}

// setTools declares the tools. Servers in front of Anthropic's models want those
// declared that the history calls, also where none is offered.
func (pl plan) setTools(o *object) {
	var tools []wireTool
	for _, t := range pl.tools {
		tools = append(tools, pl.tool(t))
	}
	if len(tools) == 0 {
		if pl.p.stubTools {
			for _, name := range called(pl.messages) {
				tools = append(tools, pl.tool(adapters.ToolSpec{Name: name, Description: "No longer available."}))
			}
		}
		if len(tools) > 0 {
			o.set("tools", tools)
			o.set("tool_choice", "none")
		}
		return
	}
	o.set("tools", tools)
	if pl.p.parallel && !pl.without.has(refusedParallel) {
		o.set("parallel_tool_calls", true)
	}
	if pl.p.stream != "" && !pl.without.has(refusedStream) {
		o.set(pl.p.stream, true)
	}
}

// tool is the declaration of a tool.
func (pl plan) tool(t adapters.ToolSpec) wireTool {
	schema := t.Schema
	if len(bytes.TrimSpace(schema)) == 0 || string(schema) == "null" {
		schema = transcript.RawJSON(`{"type":"object","properties":{}}`)
	}
	form := prompt.Ident{Max: pl.p.nameMax, Chars: prompt.Word}
	return wireTool{Type: "function", Function: wireSpec{Name: form.Fit(t.Name), Description: t.Description, Parameters: schema}}
}

// called returns the names of the tools in a history, each once, in order.
func called(ms []prompt.Message) []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range ms {
		for _, p := range m.Parts {
			if p.Kind == prompt.Call && !seen[p.Name] {
				seen[p.Name] = true
				out = append(out, p.Name)
			}
		}
	}
	return out
}

// wireMessages encodes the messages: one for each, but for results, which are a
// message each.
func (pl plan) wireMessages() []wireMessage {
	out := make([]wireMessage, 0, len(pl.messages))
	for _, m := range pl.messages {
		switch m.Role {
		case prompt.System:
			role := "system"
			if pl.p.developer && !pl.without.has(refusedDeveloper) {
				role = "developer"
			}
			out = append(out, wireMessage{Role: role, Content: joined(m.Parts)})
		case prompt.User:
			out = append(out, wireMessage{Role: "user", Content: userContent(m.Parts)})
		case prompt.Assistant:
			if w := pl.assistant(m); w.Content != nil || len(w.ToolCalls) > 0 { // thoughts alone are no message
				out = append(out, w)
			}
		case prompt.Tool:
			for _, p := range m.Parts {
				out = append(out, wireMessage{Role: "tool", ToolCallID: p.CallID, Content: output(p)})
			}
		}
	}
	return out
}

// assistant is a message of the model: a plain text, or null beside calls.
func (pl plan) assistant(m prompt.Message) wireMessage {
	w := wireMessage{Role: "assistant"}
	if text := joined(m.Parts); text != "" {
		w.Content = text
	}
	for _, p := range m.Parts {
		if p.Kind == prompt.Call {
			w.ToolCalls = append(w.ToolCalls, wireCall{
				ID: p.CallID, Type: "function",
				Function: wireFunction{Name: p.Name, Arguments: string(p.Arguments)},
			})
		}
	}
	thoughts := kindText(m.Parts, prompt.Reasoning, "")
	if thoughts == "" && !(pl.p.echoEmpty && len(w.ToolCalls) > 0) {
		return w
	}
	switch pl.p.echo {
	case "reasoning_content":
		w.ReasoningContent = &thoughts
	case "reasoning":
		w.Reasoning = &thoughts
	case "reasoning_text":
		w.ReasoningText = &thoughts
	}
	return w
}

// joined is the text of a message.
func joined(parts []prompt.Part) string { return kindText(parts, prompt.Text, "\n\n") }

func kindText(parts []prompt.Part, kind prompt.Kind, sep string) string {
	var texts []string
	for _, p := range parts {
		if p.Kind == kind {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, sep)
}

// userContent is a text, or a list if there are images in it.
func userContent(parts []prompt.Part) any {
	var list []wireContent
	images := false
	for _, p := range parts {
		switch p.Kind {
		case prompt.Image:
			images = true
			list = append(list, wireContent{Type: "image_url", Image: &wireImage{URL: dataURL(p)}})
		default:
			list = append(list, wireContent{Type: "text", Text: p.Text})
		}
	}
	if !images {
		return joined(parts)
	}
	return list
}

func dataURL(p prompt.Part) string {
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// output is the text of a result. The wire has no other place for its failure.
func output(p prompt.Part) string {
	text := joined(p.Output)
	if p.IsError && !strings.HasPrefix(strings.ToLower(text), "error") {
		return "Error: " + text
	}
	return text
}

// The forms in which servers take the reasoning effort.
const (
	effortNone     = "off"
	effortField    = "reasoning_effort"
	effortObject   = "reasoning"       // OpenRouter: an object
	effortThinking = "thinking"        // z.ai, DeepSeek, Moonshot: on or off
	effortTemplate = "template_kwargs" // llama.cpp: an argument of the chat template
	effortThink    = "think"           // Ollama's own
)

// effortForms set the effort in a request.
var effortForms = map[string]func(o *object, effort string){
	effortNone:  nil,
	effortField: func(o *object, effort string) { o.set("reasoning_effort", effort) },
	effortObject: func(o *object, effort string) {
		o.set("reasoning", map[string]string{"effort": effort})
	},
	effortThinking: func(o *object, effort string) {
		how := "enabled"
		if noEffort(effort) {
			how = "disabled"
		}
		o.set("thinking", map[string]string{"type": how})
	},
	effortTemplate: func(o *object, effort string) {
		o.set("chat_template_kwargs", map[string]any{"enable_thinking": !noEffort(effort), "reasoning_effort": effort})
	},
	effortThink: func(o *object, effort string) {
		switch {
		case noEffort(effort):
			o.set("think", false)
		case effort == "low" || effort == "medium" || effort == "high":
			o.set("think", effort)
		default:
			o.set("think", true)
		}
	},
}

func noEffort(effort string) bool { return effort == "none" || effort == "off" || effort == "disabled" }
