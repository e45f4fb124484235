package chat

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

var update = flag.Bool("update", false, "rewrite the golden bodies")

// entries makes a context of bodies, all of them after a boundary if the first is a
// checkpoint.
func entries(bodies ...transcript.Body) []transcript.Entry {
	var out []transcript.Entry
	for i, b := range bodies {
		at := time.Unix(int64(1000+i), 0)
		out = append(out, transcript.Entry{
			Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint("i", i)), StartedAt: at, CompletedAt: at, Body: b}, Form: transcript.FormWhole,
		})
	}
	return out
}

func user(parts ...transcript.Part) transcript.Body { return transcript.UserMessage{Content: parts} }

func text(s string) transcript.Part { return transcript.Part{Type: transcript.PartText, Text: s} }

func call(id, name, args string) transcript.Body {
	return transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(args)}
}

func result(id, s string) transcript.Body {
	return transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(s)}
}

func say(s string) transcript.Body { return transcript.AgentMessage{Text: s} }

func think(s string) transcript.Body { return transcript.Reasoning{Text: s} }

// longName is over every server's limit for names, and longID over those for ids.
var (
	longName = "mcp__a_server_with_a_long_name__a_tool_whose_name_is_longer_than_anybody_allows"
	longID   = "call_" + strings.Repeat("0123456789", 7)
)

// pixel is an image of one pixel.
var pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa7\x35\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82")

// story is a request with everything that a context can hold.
func story() adapters.Request {
	image := transcript.Part{Type: transcript.PartImage, Blob: "b1", MediaType: "image/png"}
	return adapters.Request{
		Model: "some-model",
		Base: adapters.Base{System: "You load ships.\nKeep the line dry.", Tools: []adapters.ToolSpec{
			{Name: "write", Description: "writes <a file>", Schema: transcript.RawJSON(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
			{Name: longName, Description: "has a long name"},
			{Name: "read", Description: "reads a file", Schema: transcript.RawJSON(`{"type":"object"}`)},
		}},
		Entries: entries(
			transcript.Checkpoint{Version: "model-1", Text: "These notes may be stale. The keel was laid."},
			transcript.Notice{Source: "reanchor", Text: "Changed files: hull.go"},
			user(text("What is in this picture?"), image),
			think("I should look."),
			say("Let me look."),
			call("call_a", "read", `{"path":"hull.go"}`),
			call(longID, longName, `{"q":"é & <b>"}`),
			result("call_a", "package hull"),
			transcript.ToolResult{CallID: transcript.CallID(longID), Output: []transcript.Part{image}},
			call("call_b", "read", `{"path":"none.go"}`),
			transcript.ToolResult{CallID: "call_b", Output: transcript.TextParts("no such file"), IsError: true},
			call("call_c", "read", `{}`),
			result("call_c", ""),
			say("It is a hull."),
			user(text("Go on.")),
		),
		MaxOutput: 2000,
		Effort:    "low",
		Blob: func(hash string) ([]byte, error) {
			if hash != "b1" {
				return nil, fmt.Errorf("no blob %s", hash)
			}
			return pixel, nil
		},
	}
}

// bodyOf encodes a request for a profile.
func bodyOf(t testing.TB, p profile, req adapters.Request, window int) []byte {
	t.Helper()
	pl := p.prepare(req, window, 0, nil)
	pl.load = window
	for _, f := range pl.findings {
		t.Errorf("%s: the request had to be mended: %v", p.name, f)
	}
	encode := pl.body
	if p.native {
		encode = pl.ollamaBody
	}
	b, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBodiesAreWhatEachServerTakes(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := json.Indent(&got, bodyOf(t, p, story(), 32_000), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", "bodies", p.name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// wireBody is a body as the test reads it.
type wireBody struct {
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		Reasoning *string `json:"reasoning_content"`
	} `json:"messages"`
	Tools []struct {
		Function struct{ Name string }
	} `json:"tools"`
}

func decodeBody(t testing.TB, b []byte) wireBody {
	t.Helper()
	var w wireBody
	if err := json.Unmarshal(b, &w); err != nil {
		t.Fatalf("the body is no JSON: %v", err)
	}
	return w
}

func TestBodiesKeepTheRulesOfTheWire(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			w := decodeBody(t, bodyOf(t, p, story(), 32_000))
			open := map[string]bool{}
			calls := 0
			for i, m := range w.Messages {
				if system := m.Role == "system" || m.Role == "developer"; system != (i == 0) {
					t.Errorf("message %d has the role %s: there is one system message, the first", i, m.Role)
				}
				if m.Role == "assistant" && m.Content[0] != '"' && string(m.Content) != "null" {
					t.Errorf("message %d: the content of an assistant is %s", i, m.Content)
				}
				if strings.TrimSpace(string(m.Content)) == `""` && m.Role != "assistant" {
					t.Errorf("message %d (%s) is empty", i, m.Role)
				}
				for _, c := range m.ToolCalls {
					calls++
					open[c.ID] = true
					if !p.ids.Fits(c.ID) {
						t.Errorf("the id %q is not of the server's form", c.ID)
					}
					if len(c.Function.Name) > p.nameMax || !nameForm.MatchString(c.Function.Name) {
						t.Errorf("the name %q is not of the server's form", c.Function.Name)
					}
				}
				if m.Role == "tool" {
					if !open[m.ToolCallID] {
						t.Errorf("message %d answers %q, which no message before called", i, m.ToolCallID)
					}
					delete(open, m.ToolCallID)
				}
				if p.bridge && m.Role == "user" && w.Messages[i-1].Role == "tool" {
					t.Errorf("message %d is a user's and follows a result", i)
				}
			}
			if len(open) > 0 || calls != 4 {
				t.Errorf("%d calls, without an answer: %v", calls, open)
			}
			if last := w.Messages[len(w.Messages)-1].Role; last != "user" && last != "tool" {
				t.Errorf("the last message is of the %s", last)
			}
			var declared []string
			for _, tool := range w.Tools {
				declared = append(declared, tool.Function.Name)
			}
			if !slices.IsSorted(declared) || len(declared) != 3 {
				t.Errorf("tools %q, want all three, sorted", declared)
			}
		})
	}
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func TestACheckpointIsAUserMessageAndThereIsOneSystemMessage(t *testing.T) {
	req := adapters.Request{Model: "m", Base: adapters.Base{System: "SYSTEM"}, Entries: entries(
		transcript.Checkpoint{Text: "CHECKPOINT"}, transcript.Notice{Source: "reanchor", Text: "ANCHOR"}, user(text("next")),
	)}
	for _, p := range profiles {
		w := decodeBody(t, bodyOf(t, p, req, 0))
		for i, m := range w.Messages {
			system := m.Role == "system" || m.Role == "developer"
			if system != (i == 0) || system && string(m.Content) != `"SYSTEM"` {
				t.Errorf("%s: message %d is %s %s", p.name, i, m.Role, m.Content)
			}
			if notes := strings.Contains(string(m.Content), "CHECKPOINT"); notes && m.Role != "user" {
				t.Errorf("%s: the checkpoint is in a %s message", p.name, m.Role)
			}
		}
	}
}

func TestTheSameHistoryIsTheSameBytes(t *testing.T) {
	req := story()
	other := story()
	slices.Reverse(other.Base.Tools)
	for _, p := range profiles {
		a, b := bodyOf(t, p, req, 32_000), bodyOf(t, p, other, 32_000)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: the order in which tools are declared changes the body", p.name)
		}
	}
}

// messagesOf returns the encoded messages.
func messagesOf(t testing.TB, body []byte) [][]byte {
	t.Helper()
	var w struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(body, &w); err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, m := range w.Messages {
		out = append(out, m)
	}
	return out
}

func TestALongerHistoryBeginsWithTheSameMessages(t *testing.T) {
	full := story()
	for _, p := range profiles {
		var before [][]byte
		for _, n := range []int{3, 9, 11, 13, 15} { // what ends with a user message or with results
			req := full
			req.Entries = full.Entries[:n]
			now := messagesOf(t, bodyOf(t, p, req, 32_000))
			stable := len(before)
			if p.merge { // the last one may grow
				stable--
			}
			for i := range max(stable, 0) {
				if !bytes.Equal(before[i], now[i]) {
					t.Errorf("%s: with %d entries message %d was %s, and is now %s", p.name, n, i, before[i], now[i])
				}
			}
			before = now
		}
	}
}

func TestCallIDsMapBijectively(t *testing.T) {
	p, _ := byName("mistral")
	rapid.Check(t, func(r *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.OneOf(
			rapid.StringMatching(`[a-zA-Z0-9]{9}`), rapid.StringMatching(`call_[a-z0-9]{1,40}`), rapid.StringN(1, 30, 60),
		), 1, 20, rapid.ID[string]).Draw(r, "ids")
		bodies := []transcript.Body{user(text("go"))}
		for _, id := range ids {
			bodies = append(bodies, call(id, "read", `{}`))
		}
		for _, id := range ids {
			bodies = append(bodies, result(id, "output of "+id))
		}
		pl := p.prepare(adapters.Request{Model: "m", Entries: entries(bodies...)}, 0, 0, nil)
		b, err := pl.body()
		if err != nil {
			r.Fatal(err)
		}
		w := decodeBody(t, b)
		seen := map[string]int{}
		for _, m := range w.Messages {
			for i, c := range m.ToolCalls {
				if !p.ids.Fits(c.ID) {
					r.Fatalf("the id %q is not nine letters and digits", c.ID)
				}
				seen[c.ID] = i + 1
			}
		}
		if len(pl.findings) == 0 && len(seen) != len(ids) {
			r.Fatalf("%d different ids became %d", len(ids), len(seen))
		}
		for _, m := range w.Messages {
			if m.Role == "tool" && seen[m.ToolCallID] == 0 {
				r.Fatalf("a result answers %q, which nobody called", m.ToolCallID)
			}
		}
	})
}

func TestEmptyTextsAreNotSent(t *testing.T) {
	req := adapters.Request{Model: "m", Entries: entries(
		user(text("go")), say(" \n"), call("c1", "read", `{}`), result("c1", " "), say("\u200b"), think("only thought"), user(text("and?")),
	)}
	for _, p := range profiles {
		for i, m := range decodeBody(t, bodyOf(t, p, req, 0)).Messages {
			switch content := string(m.Content); {
			case m.Role == "tool" && content != `"(no output)"`:
				t.Errorf("%s: an empty output is sent as %s", p.name, content)
			case content == "null" && len(m.ToolCalls) == 0, content == `" \n"`, strings.Contains(content, "\u200b"):
				t.Errorf("%s: message %d (%s) says %s", p.name, i, m.Role, content)
			}
		}
	}
}

func TestBadArgumentsInTheHistoryAreSentAsNone(t *testing.T) {
	for _, args := range []string{``, `{"a":`, `[1]`, `null`, `{"a":1}}`} {
		failed := transcript.ToolResult{CallID: "c1", Output: transcript.TextParts("the arguments are not valid JSON: " + args), IsError: true}
		req := adapters.Request{Model: "m", Entries: entries(user(text("go")), call("c1", "read", args), failed)}
		for _, p := range profiles {
			w := decodeBody(t, bodyOf(t, p, req, 0))
			got := ""
			for _, m := range w.Messages {
				for _, c := range m.ToolCalls {
					got = string(c.Function.Arguments)
				}
			}
			if want := map[bool]string{true: `{}`, false: `"{}"`}[p.native]; got != want {
				t.Errorf("%s: the arguments %q are sent as %s, want %s", p.name, args, got, want)
			}
		}
	}
}

func TestLongToolNamesComeBackAsTheyWere(t *testing.T) {
	tools := []adapters.ToolSpec{{Name: longName}, {Name: longName + "_2"}, {Name: "päck.list"}, {Name: "read"}}
	pl := base.prepare(adapters.Request{Model: "m", Base: adapters.Base{Tools: tools}}, 0, 0, nil)
	b, err := pl.body()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, tool := range decodeBody(t, b).Tools {
		name := tool.Function.Name
		seen[pl.names.back(name)] = true
		stream := fmt.Sprintf(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":%q,"arguments":"{}"}}]}}]}`+"\n\ndata: [DONE]\n\n", name)
		_, chunks, err := listen(t, pl, strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		if c, is := chunks[0].(adapters.CallChunk); !is || c.Call.Name != pl.names.back(name) {
			t.Errorf("the tool %q came back as %+v", name, chunks[0])
		}
	}
	for _, tool := range tools {
		if !seen[tool.Name] {
			t.Errorf("the tool %q cannot be called", tool.Name)
		}
	}
}

func TestTheBoundOfTheAnswerFitsTheWindow(t *testing.T) {
	long := adapters.Request{Model: "m", Entries: entries(user(text(strings.Repeat("A ship has a line. ", 1500))))}
	input := base.prepare(long, 0, 0, nil).estimate
	for _, c := range []struct{ asked, configured, window, least, most int }{
		{asked: 0, configured: 0, window: input + 1000, least: 0, most: 0},
		{asked: 4000, configured: 0, window: 0, least: 4000, most: 4000},
		{asked: 4000, configured: 3000, window: 0, least: 3000, most: 3000},
		{asked: 0, configured: 3000, window: 10 * input, least: 3000, most: 3000},
		{asked: 4000, configured: 0, window: input * 12 / 10, least: leastOutput, most: input / 10},
		{asked: 4000, configured: 0, window: input, least: leastOutput, most: leastOutput},
		{asked: 4000, configured: 0, window: input / 2, least: leastOutput, most: leastOutput},
		{asked: 100, configured: 0, window: input, least: 100, most: 100},
	} {
		long.MaxOutput = c.asked
		if got := base.prepare(long, c.window, c.configured, nil).max; got < c.least || got > c.most {
			t.Errorf("an input of %d, asked for %d, configured %d, window %d: %d, want %d to %d",
				input, c.asked, c.configured, c.window, got, c.least, c.most)
		}
	}
}

func TestAWriterIsOfferedNoTools(t *testing.T) {
	req := adapters.Request{
		Model: "m", Writer: true, Base: adapters.Base{System: transcript.WriterMark + " Write notes.", Tools: []adapters.ToolSpec{{Name: "read"}}},
		Entries: entries(user(text("DATA"))), MaxOutput: 500,
	}
	for _, p := range profiles {
		b := string(bodyOf(t, p, req, 0))
		if strings.Contains(b, `"tools"`) || !strings.Contains(b, transcript.WriterMark) || !strings.Contains(b, "500") {
			t.Errorf("%s: the request of a writer is %s", p.name, b)
		}
	}
}

func TestReasoningGoesBackOnlyWhereItIsWanted(t *testing.T) {
	want := map[string]string{
		"deepseek": `"reasoning_content":"I should look."`, "kimi": `"reasoning_content":"I should look."`,
		"openrouter": `"reasoning":"I should look."`,
	}
	for _, p := range profiles {
		b := string(bodyOf(t, p, story(), 0))
		if has := strings.Contains(b, "I should look."); has != (want[p.name] != "") || !strings.Contains(b, want[p.name]) {
			t.Errorf("%s: thoughts are in the body: %v, want %q", p.name, has, want[p.name])
		}
		for _, m := range decodeBody(t, []byte(b)).Messages {
			if p.echoEmpty && len(m.ToolCalls) > 0 && m.Reasoning == nil {
				t.Errorf("%s: a message with calls is without reasoning_content", p.name)
			}
		}
	}
}

func TestImagesAreToldWhereTheyCannotBeShown(t *testing.T) {
	shown := "iVBORw0KGgo"
	noBlob := story()
	noBlob.Blob = nil
	for _, p := range profiles {
		if has := strings.Contains(string(bodyOf(t, p, story(), 0)), shown); has != p.images {
			t.Errorf("%s: an image is shown: %v, want %v", p.name, has, p.images)
		}
		pl := p.prepare(story(), 0, 0, set{refusedImages: true})
		for _, m := range pl.messages {
			for _, part := range m.Parts {
				if len(part.Data) > 0 {
					t.Errorf("%s: an image is shown although the model takes none", p.name)
				}
			}
		}
		if b := string(bodyOf(t, p, noBlob, 0)); strings.Contains(b, shown) || !strings.Contains(b, "image/png") {
			t.Errorf("%s: an image without bytes is not told", p.name)
		}
	}
}

func TestWhatAModelRefusedIsLeftOut(t *testing.T) {
	fields := map[string]string{
		refusedUsage: "stream_options", refusedParallel: "parallel_tool_calls", refusedEffort: "reasoning_effort",
		refusedDeveloper: `"developer"`, refusedTools: `"tools"`, refusedImages: "image_url",
		refusedMax("max_completion_tokens"): "max_completion_tokens",
	}
	p, _ := byName("openai")
	whole := string(bodyOf(t, p, story(), 0))
	for _, what := range slices.Sorted(maps.Keys(fields)) {
		b, err := p.prepare(story(), 0, 0, set{what: true}).body()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(whole, fields[what]) || strings.Contains(string(b), fields[what]) {
			t.Errorf("refused %s: %s is still there, or never was", what, fields[what])
		}
	}
	b, err := p.prepare(story(), 0, 0, set{refusedMax("max_completion_tokens"): true}).body()
	if err != nil || !strings.Contains(string(b), `"max_tokens":2000`) {
		t.Errorf("the bound of the answer has no other name: %v %s", err, b)
	}
}
