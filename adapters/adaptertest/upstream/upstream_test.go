package upstream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/overflow"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/sse"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client asks a server.
type client struct {
	t *testing.T
	s *upstream.Server
	c *http.Client
}

func play(t *testing.T, cassette string) client {
	t.Helper()
	return with(t, upstream.NewInMemory(t, cassette))
}

func with(t *testing.T, s *upstream.Server) client {
	tr := &http.Transport{DialContext: s.Dial}
	t.Cleanup(tr.CloseIdleConnections)
	return client{t, s, &http.Client{Transport: tr}}
}

func (c client) do(method, path, body string) (int, http.Header, string, error) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.s.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-test")
	res, err := c.c.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(b), err
}

const chat = "/v1/chat/completions"

// ask makes a body whose last message is a text.
func ask(text string, more ...string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":%s}]%s}`, quoted, strings.Join(more, ""))
}

// says asks and returns the text of a streamed answer.
func (c client) says(text string) string {
	c.t.Helper()
	status, _, body, err := c.do("POST", chat, ask(text))
	if status != 200 || err != nil {
		return fmt.Sprintf("status %d, %v: %s", status, err, body)
	}
	var out strings.Builder
	for e, err := range sse.Read(strings.NewReader(body), 1<<20) {
		if err != nil {
			c.t.Error(err)
		}
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if string(e.Data) == "[DONE]" {
			continue
		}
		if err := json.Unmarshal(e.Data, &chunk); err != nil {
			c.t.Errorf("%s: %v", e.Data, err)
		}
		for _, ch := range chunk.Choices {
			out.WriteString(ch.Delta.Content)
		}
	}
	return out.String()
}

func TestAStreamOfChatCompletions(t *testing.T) {
	t.Parallel()
	c := play(t, `
server deepseek
-- 1 --
think Hm.
say Hello <b>
call read_file {"path": "a"} c1
call shell "{\"cmd\":" -
usage 100 20 cached=60 reasoning=5
`)
	_, header, body, err := c.do("POST", chat, ask("hi"))
	if err != nil || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v, %v", header, err)
	}
	head := `"created":1767225600,"id":"scripted-1-1","model":"m","object":"chat.completion.chunk"`
	want := `data: {"choices":[{"delta":{"reasoning_content":"Hm.","role":"assistant"},"finish_reason":null,"index":0}],` + head + `}

data: {"choices":[{"delta":{"content":"Hello <b>"},"finish_reason":null,"index":0}],` + head + `}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"path\": \"a\"}","name":"read_file"},"id":"c1","index":0,"type":"function"}]},"finish_reason":null,"index":0}],` + head + `}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"cmd\":","name":"shell"},"index":1,"type":"function"}]},"finish_reason":null,"index":0}],` + head + `}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls","index":0}],` + head + `}

data: {"choices":[],` + head + `,"usage":{"completion_tokens":20,"completion_tokens_details":{"reasoning_tokens":5},"prompt_cache_hit_tokens":60,"prompt_cache_miss_tokens":40,"prompt_tokens":100,"total_tokens":120}}

data: [DONE]

`
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}

func TestAWholeAnswerOfChatCompletions(t *testing.T) {
	t.Parallel()
	c := play(t, "reasoning reasoning\n-- 1 --\nthink Hm.\nsay a\nsay b\ncall f {} \n")
	_, header, body, err := c.do("POST", chat, `{"model":"m","messages":[]}`)
	want := `{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"ab","reasoning":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"call_1_1_1","type":"function"}]}}],` +
		`"created":1767225600,"id":"scripted-1-1","model":"m","object":"chat.completion","usage":{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":10}}`
	if diff := cmp.Diff(want, body); diff != "" || err != nil || header.Get("Content-Type") != "application/json" {
		t.Errorf("%v, %v (-want +got):\n%s", header, err, diff)
	}
}

func TestOllamasNativeChat(t *testing.T) {
	t.Parallel()
	c := play(t, `
server ollama
-- 1 --
think Hm.
say Hello
call f {"a": 1}
usage 10 5
-- 2 --
say whole
finish length
-- 3 --
limit 1
`)
	_, header, body, _ := c.do("POST", "/api/chat", `{"model":"m","messages":[]}`)
	head := `{"created_at":"2026-01-01T00:00:00Z","done":false,"message":`
	want := head + `{"content":"","role":"assistant","thinking":"Hm."},"model":"m"}
` + head + `{"content":"Hello","role":"assistant"},"model":"m"}
` + head + `{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":{"a":1},"index":0,"name":"f"},"id":"call_1_1_1"}]},"model":"m"}
{"created_at":"2026-01-01T00:00:00Z","done":true,"done_reason":"stop","eval_count":5,"message":{"content":"","role":"assistant"},"model":"m","prompt_eval_count":10}
`
	if diff := cmp.Diff(want, body); diff != "" || header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("stream %v (-want +got):\n%s", header, diff)
	}
	_, _, body, _ = c.do("POST", "/api/chat", `{"model":"m","stream":false,"messages":[]}`)
	want = `{"created_at":"2026-01-01T00:00:00Z","done":true,"done_reason":"length","eval_count":2,"message":{"content":"whole","role":"assistant"},"model":"m","prompt_eval_count":11}`
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	status, _, body, _ := c.do("POST", "/api/chat", `{"messages":[]}`)
	if want := `{"error":"request (4 tokens) exceeds the available context size (1 tokens), try increasing it"}`; status != 400 || body != want {
		t.Errorf("%d %s, want %s", status, body, want)
	}
}

func TestExchangesArePlayedInOrderAndByTheirConditions(t *testing.T) {
	t.Parallel()
	c := play(t, `
# a comment
-- first --
say one
-- second --
repeat 2
say two ${n}
-- notes --
writer
repeat
say a summary
-- weather --
when "what \"weather\"?"
unless never
say rain
-- greeting --
last hello
repeat
say hello ${n}
-- rest --
repeat
say more
`)
	for i, x := range []struct{ ask, want string }{
		{"a", "one"},
		{transcript.WriterMark + " go", "a summary"},
		{`what "weather"?`, "rain"},
		{`what "weather"?`, "two 1"},
		{"hello", "hello 1"},
		{"b", "two 2"},
		{"hello", "hello 2"},
		{"never " + transcript.WriterMark, "a summary"},
		{"c", "more"},
		{"d", "more"},
	} {
		if got := c.says(x.ask); got != x.want {
			t.Errorf("request %d, %q: %q, want %q", i, x.ask, got, x.want)
		}
	}
	if got := c.s.Unplayed(); got != nil {
		t.Errorf("unplayed: %q", got)
	}
	r := c.s.Requests()[1]
	if !r.Writer || r.Exchange != "notes" || r.Header.Get("Authorization") != "" || r.Method != http.MethodPost || r.Path != chat || !bytes.Contains(r.Body, []byte("go")) {
		t.Errorf("the second request was recorded as %+v", r)
	}
}

// mistakes plays a cassette whose mistakes are looked at.
func mistakes(t *testing.T, cassette string) client {
	t.Helper()
	c, err := upstream.Parse("x.txtar", []byte(cassette))
	if err != nil {
		t.Fatal(err)
	}
	s, err := upstream.Serve(c, upstream.Options{Listener: upstream.NewListener()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return with(t, s)
}

func TestMistakesOfPlayingAreTold(t *testing.T) {
	t.Parallel()
	c := mistakes(t, "-- 1 --\nexpect ab\nexpect-not c\nsay x\n-- 2 --\ndata {}\n")
	for _, body := range []string{ask("a c"), `{"model":"raw"}`, ask(transcript.WriterMark), ask("z"), "{"} {
		if _, _, _, err := c.do("POST", chat, body); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		`x.txtar:2: request 1, answered by "1", does not contain "ab"`,
		`x.txtar:3: request 1, answered by "1", contains "c"`,
		`x.txtar:5: "2" has raw frames, and request 3 wants no stream`,
		`x.txtar:1: no exchange answers request 3, to /v1/chat/completions, whose last message is "[plimsoll checkpoint writer]\nuser\n"`,
		`x.txtar:1: no exchange answers request 4, to /v1/chat/completions, whose last message is "z\nuser\n"`,
		`x.txtar:1: request 5 is no JSON of /v1/chat/completions: unexpected end of JSON input`,
	}
	if diff := cmp.Diff(want, c.s.Mistakes()); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

// A reporter is a test that may fail.
type reporter struct {
	*testing.T
	errors []string
}

func (r *reporter) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestMistakesFailTheTest(t *testing.T) {
	t.Parallel()
	r := &reporter{T: t}
	c := with(t, upstream.New(r, ""))
	if status, _, body, _ := c.do("POST", chat, ask("hi")); status != 400 || overflow.Classify(status, []byte(body)).Class != "badRequest" || len(r.errors) != 1 {
		t.Errorf("%d %s; errors: %q", status, body, r.errors)
	}
}

func TestMistakesInACassetteNameFileAndLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# c\n\nwindow 8":                        `c.txtar:3: there is no directive "window" here; there are chunks, deltas, key, `,
		"server x":                               `c.txtar:1: there is no server "x"; there are anthropic, `,
		"model":                                  `c.txtar:1: model wants an id`,
		"model a size=3":                         `c.txtar:1: "size=3" is not known here; there are output, trained, window`,
		"model a window=x":                       `c.txtar:1: "x" is no number as is needed here`,
		"usage 3":                                `c.txtar:1: usage is auto or none here`,
		"key":                                    `c.txtar:1: a text is missing`,
		"limit":                                  `c.txtar:1: limit wants a number of tokens, and may have a server`,
		"limit 8 x":                              `c.txtar:1: there is no server "x"`,
		"chunks 0":                               `c.txtar:1: "0" is no number`,
		"deltas 3 soon":                          `c.txtar:1: "soon" is no time such as 50ms`,
		"# c\n-- 1 --\nsay a\nsya b":             `c.txtar:4: there is no directive "sya" here; there are body, call, `,
		"-- 1 --\nsay a\n-- 2 --\n\nsay":         `c.txtar:5: a text is missing`,
		"-- 1 --\nsay <<E\na\nb\nE\nsya":         `c.txtar:6: there is no directive "sya"`,
		"-- 1 --\nsay <<E\na\n":                  `c.txtar:2: no line "E" ends the text that begins here`,
		"-- 1 --\nsay \"a":                       `c.txtar:2: "a is no string in Go's quotes`,
		"-- 1 --\ncall f {":                      `c.txtar:2: call wants a name, arguments and perhaps an id`,
		"-- 1 --\ncall f":                        `c.txtar:2: call wants a name`,
		"-- 1 --\nusage 1":                       `c.txtar:2: usage wants auto, none, or the tokens of input and output`,
		"-- 1 --\nusage 1 2 x=3":                 `c.txtar:2: "x=3" is not known here; there are cached, reasoning`,
		"-- 1 --\nusage -1 2":                    `c.txtar:2: "-1" is no number`,
		"-- 1 --\nstatus 99":                     `c.txtar:2: 99 is no status of an answer`,
		"-- 1 --\nheader x":                      `c.txtar:2: header wants NAME: VALUE`,
		"-- 1 --\njson {":                        `c.txtar:2: this is no JSON; body takes any text`,
		"-- 1 --\ndelay x":                       `c.txtar:2: "x" is no time such as 50ms`,
		"-- 1 --\npad x":                         `c.txtar:2: "x" is no number`,
		"-- 1 --\ncut now":                       `c.txtar:2: nothing may stand behind this, as "now" does`,
		"-- 1 --\nwriter x":                      `c.txtar:2: nothing may stand behind this`,
		"-- 1 --\nrepeat x":                      `c.txtar:2: "x" is no number`,
		"-- GET /props --\nsay x":                `c.txtar:1: GET /props is answered by json or body, or by a failure`,
		"-- GET /props --\n{":                    `c.txtar:2: what answers GET /props is no JSON`,
		"server vllm\r\n-- 1 --\r\nsay a\r\nsay": `c.txtar:4: a text is missing`,
		"-- --":                                  `c.txtar:1: there is no directive "--" here`,
		"-- GET /props --\n{}\n-- GET /props --": `c.txtar:3: GET /props is answered twice`,
	} {
		if _, err := upstream.Parse("c.txtar", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	c := play(t, `
-- 1 --
status 429
header Retry-After: 7
-- 2 --
status 400
body ""
-- 3 --
status 502
json {"a":1}
-- 4 --
status 503
body <<END
<html>
no
END
`)
	for i, want := range []struct {
		status     int
		body, kind string
	}{
		{429, `{"error":{"code":null,"message":"scripted failure with status 429","type":"scripted_error"}}`, "application/json"},
		{400, "", ""},
		{502, `{"a":1}`, "application/json"},
		{503, "<html>\nno", "text/html; charset=utf-8"},
	} {
		status, header, body, err := c.do("POST", chat, ask("x"))
		if status != want.status || body != want.body || header.Get("Content-Type") != want.kind || err != nil {
			t.Errorf("%d: %d %v %q, %v", i, status, header, body, err)
		}
		if i == 0 && header.Get("Retry-After") != "7" {
			t.Errorf("header %v", header)
		}
	}
}

func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	c := play(t, `
-- cut --
cut
-- cut later --
say a
cut
-- eof --
say a
eof
-- nothing --
eof
-- raw --
data {"a":
data <<E
1
2
E
event error {"error":"x"}
raw ": comment\n\n"
-- no finish --
say a
done
`)
	if _, _, _, err := c.do("POST", chat, ask("x")); !errors.Is(err, io.EOF) {
		t.Errorf("cut: %v", err)
	}
	if _, _, body, err := c.do("POST", chat, ask("x")); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(body, `"content":"a"`) {
		t.Errorf("cut later: %q, %v", body, err)
	}
	if _, _, body, err := c.do("POST", chat, ask("x")); err != nil || strings.Count(body, "data:") != 1 {
		t.Errorf("eof: %q, %v", body, err)
	}
	if status, header, body, err := c.do("POST", chat, ask("x")); err != nil || status != 200 || body != "" || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("nothing: %d %v %q, %v", status, header, body, err)
	}
	if _, _, body, err := c.do("POST", chat, ask("x")); err != nil || body != "data: {\"a\":\n\ndata: 1\ndata: 2\n\nevent: error\ndata: {\"error\":\"x\"}\n\n: comment\n\n" {
		t.Errorf("raw: %q, %v", body, err)
	}
	if _, _, body, err := c.do("POST", chat, ask("x")); err != nil || strings.Count(body, "data:") != 2 || !strings.HasSuffix(body, "[DONE]\n\n") {
		t.Errorf("no finish: %q, %v", body, err)
	}
}

func TestTimeIsThatOfTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := play(t, "-- 1 --\ndelay 1h\ndeltas 2 1m\nsay abcde\ndelay 1s\n-- 2 --\nsay x\nhold gate\nsay y\n")
		start := time.Now()
		if got := c.says("x"); got != "abcde" || time.Since(start) != time.Hour+2*time.Minute+time.Second {
			t.Errorf("%q after %v", got, time.Since(start))
		}
		time.AfterFunc(time.Minute, func() { c.s.Release("gate"); c.s.Release("gate") })
		start = time.Now()
		if got := c.says("x"); got != "xy" || time.Since(start) != time.Minute {
			t.Errorf("%q after %v", got, time.Since(start))
		}
		c.c.CloseIdleConnections()
		c.s.Close()
	})
}

func TestHangingEndsWithClose(t *testing.T) {
	t.Parallel()
	for _, cassette := range []string{"-- 1 --\nhang\n", "-- 1 --\nsay a\nhang\n", "-- 1 --\nhold x\n", "-- 1 --\ndelay 100h\n"} {
		synctest.Test(t, func(t *testing.T) {
			c := play(t, cassette)
			time.AfterFunc(time.Second, c.s.Close)
			if _, _, body, err := c.do("POST", chat, ask("x")); err == nil {
				t.Errorf("%q: a whole answer: %q", cassette, body)
			}
		})
	}
}

func TestAnswersComeInPieces(t *testing.T) {
	t.Parallel()
	whole := play(t, "-- 1 --\nsay Grüße, 漢字!\ncall f {\"a\": \"ü\"}\n")
	_, _, want, _ := whole.do("POST", chat, ask("x"))
	for n := 1; n < 40; n += 3 {
		c := play(t, fmt.Sprintf("chunks %d\n-- 1 --\nsay Grüße, 漢字!\ncall f {\"a\": \"ü\"}\n", n))
		if _, _, got, err := c.do("POST", chat, ask("x")); got != want || err != nil {
			t.Errorf("in pieces of %d: %q, %v", n, got, err)
		}
	}
	c := play(t, "-- 1 --\ndeltas 3\nsay Grüße, 漢字!\ncall f {\"a\":\"ü\"}\n")
	_, _, body, _ := c.do("POST", chat, ask("x"))
	if n := strings.Count(body, `"content"`); n != 4 {
		t.Errorf("%d deltas of text:\n%s", n, body)
	}
	for _, arg := range []string{`"arguments":"{\"a"`, `"arguments":"\":\""`, `"arguments":"ü\"}"`} {
		if !strings.Contains(body, arg) {
			t.Errorf("no delta with %s:\n%s", arg, body)
		}
	}
}

// Pieces do reach the client one by one.
func TestPiecesAreFlushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := play(t, "-- 1 --\ndeltas 1 1s\nsay abc\n")
		res, err := c.c.Post(c.s.URL+chat, "application/json", strings.NewReader(ask("x")))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var at []time.Duration
		for e, err := range sse.Read(iotest.OneByteReader(res.Body), 1<<20) {
			if err != nil {
				t.Error(err)
			}
			if bytes.Contains(e.Data, []byte("content")) {
				at = append(at, time.Since(start))
			}
		}
		res.Body.Close()
		if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second}, at); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s", diff)
		}
		c.c.CloseIdleConnections()
		c.s.Close()
	})
}

func TestUsageGrowsWithTheRequest(t *testing.T) {
	t.Parallel()
	c := play(t, "-- 1 --\nrepeat\npad 400\n")
	for _, text := range []string{"a", strings.Repeat("ü", 4000)} {
		body := ask(text)
		_, _, got, _ := c.do("POST", chat, body)
		n := (len([]rune(body)) + 3) / 4
		if want := fmt.Sprintf(`"prompt_tokens":%d,`, n); !strings.Contains(got, want) || !strings.Contains(got, `"completion_tokens":100,`) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	quiet := strings.Replace(ask("a"), `"include_usage":true`, `"include_usage":false`, 1)
	if _, _, got, _ := c.do("POST", chat, quiet); strings.Contains(got, "usage") {
		t.Errorf("usage that nobody asked for: %s", got)
	}
	for _, cassette := range []string{"usage none\n-- 1 --\nsay a\n", "-- 1 --\nsay a\nusage none\n"} {
		if _, _, got, _ := play(t, cassette).do("POST", chat, ask("a")); strings.Contains(got, "usage") {
			t.Errorf("%q: %s", cassette, got)
		}
	}
	if _, _, got, _ := play(t, "-- 1 --\nusage 0 0\n").do("POST", chat, quiet); !strings.Contains(got, `"prompt_tokens":0,`) {
		t.Errorf("no zero usage: %s", got)
	}
}

func TestProseIsTheSameEveryTimeAndOfItsLength(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 7, 400, 12_345} {
		cassette := fmt.Sprintf("-- x --\nrepeat\npad %d\n", n)
		one, two := play(t, cassette), play(t, cassette)
		a, b, second := one.says("q"), two.says("q"), one.says("q")
		if len(a) != n || a != b {
			t.Errorf("%d characters: %.60q and %.60q", len(a), a, b)
		}
		if n > 100 && a == second {
			t.Error("two answers are the same")
		}
	}
}

// What servers answer to too much is what the classifier knows.
func TestLimitsAnswerInTheServersWords(t *testing.T) {
	t.Parallel()
	big := ask(strings.Repeat("x", 4000))
	n := (len(big) + 3) / 4
	for name, want := range map[string]overflow.Verdict{
		"generic": {Requested: 0, Limit: 500}, "openai": {Requested: 0, Limit: 500},
		"llama.cpp": {Requested: n, Limit: 500}, "ollama": {Requested: n, Limit: 500}, "vllm": {Requested: 501, Limit: 500},
		"lmstudio": {Requested: n, Limit: 500}, "openrouter": {Requested: n, Limit: 500}, "litellm": {Requested: 0, Limit: 500},
		"groq": {}, "xai": {Requested: n, Limit: 500}, "deepseek": {Requested: n, Limit: 500},
		"mistral": {Requested: n, Limit: 500}, "kimi": {Requested: n, Limit: 500}, "glm": {},
	} {
		for _, cassette := range []string{
			"server " + name + "\nlimit 500\n-- 1 --\nrepeat\nsay fits\n",
			"limit 500 " + name + "\n-- 1 --\nrepeat\nsay fits\n",
			"-- 1 --\nrepeat\nlimit 500 " + name + "\nsay fits\n",
		} {
			c := play(t, cassette)
			status, _, body, _ := c.do("POST", chat, big)
			got := overflow.Classify(status, []byte(body))
			got.Message = ""
			want.Class = "contextWindowExceeded"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %d %s (-want +got):\n%s", name, status, body, diff)
			}
			if got := c.says("small"); got != "fits" {
				t.Errorf("%s: a small request: %s", name, got)
			}
			if r := c.s.Requests(); !r[0].Refused || r[1].Refused || r[0].Tokens != n {
				t.Errorf("%s: recorded %v, %v, %d tokens", name, r[0].Refused, r[1].Refused, r[0].Tokens)
			}
		}
	}
	c := play(t, "server vllm\nlimit 500\n-- 1 --\nsay fits\n")
	if status, _, body, _ := c.do("POST", chat, ask("small", `,"max_tokens":490`)); status != 400 || !strings.Contains(body, "you requested 490 output tokens") {
		t.Errorf("vLLM and an output that does not fit: %d %s", status, body)
	}
}

func TestEndpointsTellTheWindow(t *testing.T) {
	t.Parallel()
	const model = "\nmodel m window=4096 trained=8192 output=1000\nmodel n\n"
	for _, x := range []struct{ server, method, path, body, want string }{
		{"generic", "GET", "/models", "", `"context_length":4096,"created":1767225600,"id":"m","max_output_tokens":1000,`},
		{"openai", "GET", "/v1/models", "", `{"data":[{"created":1767225600,"id":"m","object":"model","owned_by":"scripted"},{"created":1767225600,"id":"n","object":"model","owned_by":"scripted"}],"object":"list"}`},
		{"vllm", "GET", "/v1/models", "", `"max_model_len":4096`},
		{"groq", "GET", "/openai/v1/models", "", `"context_window":4096`},
		{"kimi", "GET", "/v1/models", "", `"context_length":4096`},
		{"openrouter", "GET", "/api/v1/models", "", `"top_provider":{"context_length":4096,"is_moderated":false,"max_completion_tokens":1000}`},
		{"llama.cpp", "GET", "/v1/models", "", `"meta":{"n_ctx_train":8192}`},
		{"llama.cpp", "GET", "/props", "", `"default_generation_settings":{"n_ctx":4096}`},
		{"llama.cpp", "POST", "/tokenize", `{"content":"12345"}`, `{"tokens":[0,1]}`},
		{"llama.cpp", "POST", "/apply-template", `{"messages":[{"role":"user","content":"hi"}]}`, `{"prompt":"<|user|>\nhi\n<|assistant|>\n"}`},
		{"vllm", "POST", "/tokenize", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, `{"count":3,"max_model_len":4096,"tokens":[0,1,2]}`},
		{"ollama", "POST", "/api/show", `{"model":"m"}`, `"scripted.context_length":8192},"modelfile":"","parameters":"num_ctx                        4096"`},
		{"ollama", "GET", "/api/ps", "", `"context_length":4096`},
		{"ollama", "GET", "/api/tags", "", `"context_length":8192`},
		{"lmstudio", "GET", "/api/v0/models", "", `"loaded_context_length":4096,"max_context_length":8192,"object":"model","state":"loaded"`},
	} {
		status, _, body, err := play(t, "server "+x.server+model).do(x.method, x.path, x.body)
		if status != 200 || !strings.Contains(body, x.want) || err != nil {
			t.Errorf("%s %s of %s: %d %s, %v; want %s", x.method, x.path, x.server, status, body, err, x.want)
		}
	}
	c := play(t, `
server ollama
-- GET /api/ps --
{"models": [{"name": "x", "context_length": 7}]}
-- POST /api/show --
status 500
`)
	if _, _, body, _ := c.do("GET", "/api/ps", ""); body != "{\"models\": [{\"name\": \"x\", \"context_length\": 7}]}\n" {
		t.Errorf("a file for an endpoint: %s", body)
	}
	for range 2 {
		if status, _, _, _ := c.do("POST", "/api/show", ""); status != 500 {
			t.Errorf("an endpoint that fails: %d", status)
		}
	}
	for _, place := range []string{"GET /props", "GET /nothing", "GET " + chat} {
		method, path, _ := strings.Cut(place, " ")
		if status, _, _, _ := c.do(method, path, ""); status != 404 {
			t.Errorf("%s: %d", place, status)
		}
	}
	if len(c.s.Asked()) != 1 || len(c.s.Requests()) != 6 {
		t.Errorf("%d of %d requests were to a model", len(c.s.Asked()), len(c.s.Requests()))
	}
}

func TestAKeyIsDemanded(t *testing.T) {
	t.Parallel()
	if got := play(t, "key sk-test\n-- 1 --\nsay in\n").says("x"); got != "in" {
		t.Errorf("with the key: %s", got)
	}
	c := play(t, "key sk-other\n-- 1 --\nsay in\n")
	if status, _, body, _ := c.do("POST", chat, ask("x")); overflow.Classify(status, []byte(body)).Class != "unauthorized" {
		t.Errorf("with another: %d %s", status, body)
	}
}

// A huge answer in one delta is one line.
func TestHugeLines(t *testing.T) {
	t.Parallel()
	c := play(t, "-- 1 --\npad 5_000_000\n")
	if _, _, body, err := c.do("POST", chat, ask("x")); len(body) < 5_000_000 || strings.Count(body, "data:") != 4 || err != nil {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// FuzzParse holds that a cassette is read or refused, and that a refusal names a
// line of it.
func FuzzParse(f *testing.F) {
	f.Add([]byte("server vllm\nmodel m window=3\nlimit 3\n-- 1 --\nwhen a\nsay <<E\nb\nE\ncall f {} x\nusage 1 2 cached=3\ncut\n-- GET /props --\n{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := upstream.Parse("c", text)
		if err == nil {
			return
		}
		var line int
		if _, scan := fmt.Sscanf(err.Error(), "c:%d: ", &line); scan != nil || line < 1 || line > bytes.Count(text, []byte("\n"))+1 {
			t.Errorf("%q: %v", text, err)
		}
	})
}
