package upstream

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden answers")

// An asked is what a server answered.
type asked struct {
	status int
	header http.Header
	body   string
}

func post(t *testing.T, s *Server, path, body string, header ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{res.StatusCode, res.Header, string(b)}
}

// The requests of the two programs, as small as they can be.
const (
	hiResponses   = `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`
	hiMessages    = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	triggerOfItem = `{"model":"m","input":[{"type":"message","role":"user","content":"hi"},{"type":"compaction_trigger"}]}`
)

// The frames that clients are tested with are those that real servers send: each answer
// is held against a file that was read over.
func TestTheFramesOfAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, path, body, cassette string }{
		{"responses", "/v1/responses", hiResponses, "think Hm.\nsay Let me look.\ncall shell {\"cmd\":\"ls\"} call_1\ncall crew/spawn {} call_2\ncustom apply_patch *** Begin Patch\ndeltas 12\nusage 100 20 cached=40 written=10 reasoning=5\n"},
		{"responses-compaction", "/v1/responses", triggerOfItem, "writer\ncompaction opaque\nusage 70 4\n"},
		{"responses-refused", "/v1/responses", hiResponses, "say Well.\nrefuse I will not.\nusage none\n"},
		{"responses-failed", "/v1/responses", hiResponses, "say Half\nfail server_is_overloaded Try later.\n"},
		{"responses-whole", "/v1/responses", strings.Replace(hiResponses, "{", `{"stream":false,`, 1), "think Hm.\nsay Yes.\nfinish length\nusage 5 6\n"},
		{"messages", "/v1/messages?beta=true", hiMessages, "think Hm.\nsay Let me look.\ncall Bash {\"command\":\"ls\"} toolu_1\ndeltas 12\nusage 100 20 cached=40 written=10\n"},
		{"messages-refused", "/v1/messages", hiMessages, "refuse I will not.\nusage 5 6\n"},
		{"messages-failed", "/v1/messages", hiMessages, "say Half\nfail overloaded_error Overloaded\n"},
		{"messages-whole", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "think Hm.\nsay Yes.\ncall Bash {\"command\":\"ls\"} toolu_1\nusage 5 6 cached=1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, NewInMemory(t, "-- a --\n"+tt.cassette), tt.path, tt.body)
			if got.status != 200 {
				t.Errorf("the status is %d", got.status)
			}
			golden(t, tt.name, got.body)
		})
	}
}

// golden holds what was said against a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// A request by which a program compacts is known by what the program says of it, and
// not by what stands in the conversation.
func TestTheWritersOfPrograms(t *testing.T) {
	t.Parallel()
	order := summaryOrder + `. Do NOT call any tools.`
	user := func(content string) string { return `{"role":"user","content":` + content + `}` }
	ask := func(messages ...string) string {
		return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
	}
	for _, tt := range []struct {
		name, path, body string
		header           []string
		writer           bool
	}{
		{"codex says so in a header", "/v1/responses", hiResponses, []string{codexAbout, `{"request_kind":"compaction"}`}, true},
		{"codex says so in its metadata", "/v1/responses", `{"input":[],"client_metadata":{"x-codex-turn-metadata":"{\"request_kind\":\"compaction\"}"}}`, nil, true},
		{"codex asks for an item", "/v1/responses", triggerOfItem, nil, true},
		{"a turn of codex", "/v1/responses", hiResponses, []string{codexAbout, `{"request_kind":"turn"}`}, false},
		{"a turn of codex after its compaction", "/v1/responses", `{"input":[{"type":"compaction","encrypted_content":"x"},{"type":"message","content":"hi"}]}`, nil, false},
		{"a header that is no JSON", "/v1/responses", hiResponses, []string{codexAbout, `compaction`}, false},
		{"an input that is a text", "/v1/responses", `{"input":"compaction_trigger"}`, nil, false},
		{"Claude Code orders it in a text", "/v1/messages", ask(user(`"hi"`), user(`"`+order+`"`)), nil, true},
		{"in one of several blocks", "/v1/messages", ask(user(`[{"type":"text","text":"hi"},{"type":"text","text":"` + order + `"}]`)), nil, true},
		{"behind another text of the user", "/v1/messages", ask(user(`"hi\n` + order + `"`)), nil, true},
		{"before a note of the system", "/v1/messages", ask(user(`"`+order+`"`), `{"role":"system","content":"note"}`), nil, true},
		{"before an answer that was cut", "/v1/messages", ask(user(`"`+order+`"`), `{"role":"assistant","content":"<summ"}`, user(`"Go on."`)), nil, true},
		{"a plain turn", "/v1/messages", ask(user(`"hi"`)), nil, false},
		{"a turn about such an order", "/v1/messages", ask(user(`"what does \"` + order + `\" mean?"`)), nil, false},
		{"a file that holds the order", "/v1/messages", ask(`{"role":"assistant","content":[{"type":"tool_use","id":"t"}]}`, user(`[{"type":"tool_result","tool_use_id":"t","content":"`+order+`"}]`)), nil, false},
		{"an answer that holds the order", "/v1/messages", ask(`{"role":"assistant","content":"`+order+`"}`, user(`"hi"`)), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := NewInMemory(t, "-- writer --\nwriter\nsay W\n-- plain --\nsay P\n")
			post(t, s, tt.path, tt.body, tt.header...)
			if r := s.Requests()[0]; r.Writer != tt.writer || (r.Exchange == "writer") != tt.writer {
				t.Errorf("it was answered by %q, a writer: %v", r.Exchange, r.Writer)
			}
		})
	}
}

func TestEachWireFailsInItsProvidersWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cassette, path string
		status         int
		want           []string
	}{
		{"limit 5\n-- a --\nsay x\n", "/v1/messages", 400, []string{`"type":"error"`, `"type":"invalid_request_error"`, `"message":"prompt is too long: `, `tokens > 5 maximum"`}},
		{"limit 5\n-- a --\nsay x\n", "/v1/responses", 400, []string{`"code":"context_length_exceeded"`, "exceeds the context window"}},
		{"server vllm\nlimit 5\n-- a --\nsay x\n", "/v1/responses", 400, []string{"maximum context length is 5 tokens"}},
		{"-- a --\nstatus 400\n", "/v1/messages", 400, []string{`"type":"invalid_request_error"`, `"request_id"`}},
		{"key k\n-- a --\nrepeat 3\nsay x\n", "/v1/messages", 401, []string{`"type":"authentication_error"`, `invalid x-api-key`}},
		{"key k\n-- a --\nrepeat 3\nsay x\n", "/v1/responses", 401, []string{`"code":"invalid_api_key"`}},
		{"-- a --\nstatus 429\nheader retry-after: 1\n", "/v1/messages", 429, []string{`"type":"rate_limit_error"`}},
		{"-- a --\nstatus 429\n", "/v1/responses", 429, []string{`"code":"rate_limit_exceeded"`}},
		{"-- a --\nstatus 500\n", "/v1/messages", 500, []string{`"type":"api_error"`}},
		{"-- a --\nstatus 500\n", "/v1/responses", 500, []string{`"type":"server_error"`}},
		{"-- a --\nstatus 529\n", "/v1/messages", 529, []string{`"type":"overloaded_error"`, `"message":"Overloaded"`}},
		{"-- a --\nstatus 400\njson {\"error\":{\"code\":\"mine\"}}\n", "/v1/responses", 400, []string{`{"error":{"code":"mine"}}`}},
		{"-- a --\nfail api_error Broken.\n", "/v1/messages", 500, []string{`{"error":{"message":"Broken.","type":"api_error"},"request_id":"req_scripted","type":"error"}`}},
	} {
		s := NewInMemory(t, tt.cassette)
		got := post(t, s, tt.path, `{"model":"m","messages":[{"role":"user","content":"hello over there"}]}`)
		if got.status != tt.status || slices.ContainsFunc(tt.want, func(w string) bool { return !strings.Contains(got.body, w) }) {
			t.Errorf("%q on %s: %d %s, want %q", tt.cassette, tt.path, got.status, got.body, tt.want)
		}
	}
}

func TestBrokenOffAnswersOfTheOldWires(t *testing.T) {
	t.Parallel()
	const cassette = "-- a --\nsay Half\nfail overloaded Try later.\n-- b --\nrefuse No.\n"
	s := NewInMemory(t, cassette)
	got := post(t, s, chatWire.path, hiMessages).body
	if !strings.HasSuffix(got, "data: {\"error\":{\"code\":\"overloaded\",\"message\":\"Try later.\",\"type\":\"overloaded\"}}\n\n") || !strings.Contains(got, "Half") {
		t.Errorf("chat completions break off with %s", got)
	}
	if got = post(t, s, chatWire.path, hiMessages).body; !strings.Contains(got, `"refusal":"No."`) {
		t.Errorf("chat completions refuse with %s", got)
	}
	s = NewInMemory(t, cassette)
	if got = post(t, s, ollamaWire.path, hiMessages).body; !strings.HasSuffix(got, "{\"error\":\"Try later.\"}\n") {
		t.Errorf("ollama breaks off with %s", got)
	}
	if got = post(t, s, ollamaWire.path, hiMessages).body; !strings.Contains(got, `"content":"No."`) {
		t.Errorf("ollama refuses with %s", got)
	}
}

func TestWhatAWireDoesNotKnowIsAMistake(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ directive, path string }{{"compaction x", "/v1/messages"}, {"custom apply_patch x", "/v1/messages"}, {"custom a b", chatWire.path}} {
		c, err := Parse("c", []byte("-- a --\n"+tt.directive+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Serve(c, Options{Listener: NewListener()})
		if err != nil {
			t.Fatal(err)
		}
		post(t, s, tt.path, hiMessages)
		if m := s.Mistakes(); len(m) != 1 || !strings.Contains(m[0], "knows nothing of") {
			t.Errorf("%s on %s: %q", tt.directive, tt.path, m)
		}
		s.Close()
	}
}

// What a provider refuses is not answered here either: a history in which a call and its
// result are apart never passes for a good one.
func TestCallsAndResultsMustNotBeApart(t *testing.T) {
	t.Parallel()
	const (
		call, output      = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c1","output":"x"}`
		custom, customOut = `{"type":"custom_tool_call","call_id":"c1","name":"f","input":""}`, `{"type":"custom_tool_call_output","call_id":"c1","output":"x"}`
		use               = `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}`
		result            = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}`
		hi, said          = `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"yes"}`
	)
	items := func(all ...string) string { return `{"input":[` + strings.Join(all, ",") + `]}` }
	messages := func(all ...string) string { return `{"messages":[` + strings.Join(all, ",") + `]}` }
	for _, tt := range []struct{ name, path, body, wrong string }{
		{"a pair of items", "/v1/responses", items(call, output), ""},
		{"a pair with something in between", "/v1/responses", items(call, hi, output, custom, customOut), ""},
		{"an output alone", "/v1/responses", items(hi, output), "No tool call found for function call output with call_id c1."},
		{"an output before its call", "/v1/responses", items(output, call), "No tool call found"},
		{"two outputs of one call", "/v1/responses", items(call, output, output), "No tool call found"},
		{"a call alone", "/v1/responses", items(hi, call), "No tool output found for function call c1."},
		{"a custom call alone", "/v1/responses", items(custom), "No tool output found"},
		{"a stored response goes on", "/v1/responses", `{"previous_response_id":"r","input":[` + output + `]}`, ""},
		{"a pair of messages", "/v1/messages", messages(hi, use, result, said, hi), ""},
		{"a pair with a note of the system in between", "/v1/messages", messages(hi, use, `{"role":"system","content":"note"}`, result), ""},
		{"a result in the second of two messages of the user", "/v1/messages", messages(hi, use, hi, result), ""},
		{"a use in the first of two messages of the assistant", "/v1/messages", messages(hi, use, said, result), ""},
		{"a use alone", "/v1/messages", messages(hi, use), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1."},
		{"a use whose result comes late", "/v1/messages", messages(hi, use, hi, said, result), "`tool_use` ids were found without"},
		{"a result alone", "/v1/messages", messages(result), "messages.0: unexpected `tool_use_id` found in `tool_result` blocks: t1."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse("c", []byte("-- a --\nsay fine\n"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := Serve(c, Options{Listener: NewListener()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got := post(t, s, tt.path, tt.body)
			if refused := got.status == 400; refused != (tt.wrong != "") || len(s.Mistakes()) > 0 != refused || !strings.Contains(got.body, tt.wrong) {
				t.Errorf("%d %s; mistakes %q", got.status, got.body, s.Mistakes())
			}
		})
	}
}

// Who interrupts or kills in the middle of an answer is told when that is.
func TestTheMomentOfAnAnswerIsTold(t *testing.T) {
	t.Parallel()
	s := NewInMemory(t, "-- a --\nsay Half\nhold middle\nsay done\n-- b --\nsay Half\nhang end\n")
	answer := make(chan asked, 1)
	go func() { answer <- post(t, s, "/v1/messages", hiMessages) }()
	<-s.Reached("middle")
	select {
	case <-s.Reached("end"):
		t.Error("an answer that never came has reached its end")
	case got := <-answer:
		t.Errorf("the answer did not wait: %s", got.body)
	default:
	}
	s.Release("middle")
	if got := <-answer; !strings.Contains(got.body, "message_stop") {
		t.Errorf("the answer is %s", got.body)
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/messages", strings.NewReader(hiMessages))
		if err == nil {
			tr := &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}
			var res *http.Response
			if res, err = (&http.Client{Transport: tr}).Do(req); err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
		}
		gone <- err
	}()
	<-s.Reached("end")
	leave()
	if err := <-gone; err == nil {
		t.Error("an answer that hangs has ended")
	}
}

func TestARequestIsAwaited(t *testing.T) {
	t.Parallel()
	s := NewInMemory(t, "-- a --\nrepeat\nsay x\n")
	second := func(r Recorded) bool { return bytes.Contains(r.Body, []byte("second")) }
	got := make(chan Recorded, 1)
	go func() {
		r, err := s.Await(t.Context(), second)
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	post(t, s, "/v1/messages", hiMessages)
	post(t, s, "/v1/messages", strings.Replace(hiMessages, "hi", "second", 1))
	if r := <-got; !second(r) || r.Path != "/v1/messages" {
		t.Errorf("awaited %+v", r)
	}
	s.Close()
	if _, err := s.Await(t.Context(), func(Recorded) bool { return false }); err == nil || !strings.Contains(err.Error(), "closed after 2 requests") {
		t.Errorf("of a closed server: %v", err)
	}
}

func TestTheEndpointsOfMessages(t *testing.T) {
	t.Parallel()
	s := NewInMemory(t, "server anthropic\nmodel claude-x window=200000 output=64000\n-- a --\nsay x\n")
	if got := post(t, s, "/v1/messages/count_tokens", `{"messages":[]}`); got.body != `{"input_tokens":4}` {
		t.Errorf("counted %s", got.body)
	}
	for path, want := range map[string]string{
		"/v1/models":          `{"data":[{"created_at":"2026-01-01T00:00:00Z","display_name":"claude-x","id":"claude-x","max_input_tokens":200000,"max_tokens":64000,"type":"model"}],"first_id":"claude-x","has_more":false,"last_id":"claude-x"}`,
		"/v1/models/claude-x": `{"created_at":"2026-01-01T00:00:00Z","display_name":"claude-x","id":"claude-x","max_input_tokens":200000,"max_tokens":64000,"type":"model"}`,
		"/v1/models/other":    `{"error":{"message":"there is no GET /v1/models/other","type":"not_found_error"}}`,
	} {
		res, err := (&http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}, Timeout: time.Minute}).Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if diff := cmp.Diff(want, string(b)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", path, err, diff)
		}
		_ = res.Body.Close()
	}
}

// FuzzRequests holds that what clients send is read or refused on every wire, and that
// each answer to it is one that ends.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{hiResponses, hiMessages, triggerOfItem, `{"input":"text","max_output_tokens":-1}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"` + summaryOrder + `"}]}]}`, `{"messages":[null],"input":[1]}`, `[]`, `{`} {
		f.Add([]byte(body), `{"request_kind":"compaction"}`)
	}
	f.Fuzz(func(t *testing.T, body []byte, about string) {
		for _, w := range wires {
			r, err := w.read(body, http.Header{codexAbout: {about}})
			if err != nil {
				continue
			}
			if r.maxOutput < 0 {
				t.Errorf("%s reads %d tokens of output from %q", w.path, r.maxOutput, body)
			}
			e := w.encode(answer{id: "a", model: r.model, reasoning: "reasoning"})
			all := slices.Concat(e.text(true, about), e.text(false, string(body)), e.usage(usage{1, 1, 0, 0, 0}), e.finish("stop"), e.done())
			if !bytes.HasSuffix(all, []byte("\n")) || bytes.Count(all, []byte(r.model)) == 0 {
				t.Errorf("%s answers %q with %q", w.path, body, all)
			}
		}
	})
}
