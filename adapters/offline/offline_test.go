package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestConformance(t *testing.T) {
	adaptertest.Run(t, func(*testing.T) adapters.Adapter { return agent.New(New()) })
}

// entries makes a context of bodies; the last one is what is asked.
func entries(bodies ...transcript.Body) []transcript.Entry {
	var out []transcript.Entry
	for i, b := range bodies {
		out = append(out, transcript.Entry{
			Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint(i)), Body: b}, Form: transcript.FormWhole,
		})
	}
	return out
}

func user(text string) transcript.Body {
	return transcript.UserMessage{Content: transcript.TextParts(text)}
}

func call(id, name, args string) transcript.Body {
	return transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(args)}
}

func result(id, text string) transcript.Body {
	return transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(text)}
}

func TestAnswers(t *testing.T) {
	work := []transcript.Body{
		user("We are building a scheduler. The deploy key is stored in vault path ops/key-7731. Never push to main."),
		transcript.AgentMessage{Text: "Understood. I will look at the scheduler first."},
		call("1", "read_file", `{"path":"sched/retry.go"}`),
		result("1", "package sched\n\n// How often a job is tried.\nconst maxSessionRetries = 5\n\nfunc run() {}"),
		call("2", "bash", `{"command":"go test ./..."}`),
		result("2", "--- FAIL: TestRetryBackoff (0.02s)\n    retry_test.go:41: got 3 tries, want 5\nFAIL"),
		transcript.Notice{Source: "reanchor", Text: "Changed files:\nsched/retry.go"},
	}
	for _, c := range []struct {
		name, ask string
		bodies    []transcript.Body
		want      []string // in this order
		never     []string
	}{
		{
			name: "a fact the user told", ask: "Where is the deploy key stored?", bodies: work,
			want: []string{"your message: ", "ops/key-7731"}, never: []string{"Nothing in my context", "FAIL"},
		},
		{
			name: "an identifier by its parts", ask: "how many session retries are allowed?", bodies: work,
			want: []string{"result of read_file: ", "maxSessionRetries = 5"},
		},
		{
			name: "what a client put into the context", ask: "Where is the crane manual?",
			bodies: []transcript.Body{
				transcript.Opaque{Origin: "responses", Raw: transcript.RawJSON(`{"role":"user","content":"The crane manual is in bay 12."}`), Text: "The crane manual is in bay 12."},
				transcript.Opaque{Origin: "responses", Raw: transcript.RawJSON(`{"type":"reasoning","encrypted_content":"crane manual"}`)},
			},
			want: []string{"notice: responses", "bay 12"}, never: []string{"encrypted_content"},
		},
		{
			name: "a result names its tool", ask: "Which test is failing with backoff?", bodies: work,
			want: []string{"result of bash: ", "TestRetryBackoff"},
		},
		{
			name: "a heading counts for the line below it", ask: "What are the changed files?", bodies: work,
			want: []string{`notice: reanchor › Changed files: "sched/retry.go"`},
		},
		{
			name: "nothing matches", ask: "What is the colour of the giraffe?", bodies: work,
			want:  []string{"Nothing in my context mentions", `"colour"`, `"giraffe"`, "7 entries"},
			never: []string{"From my context"},
		},
		{
			name: "part of the question is unknown", ask: "Is the deploy key for the giraffe server?", bodies: work,
			want: []string{"ops/key-7731", `Nothing in my context mentions "giraffe"`}, never: []string{`"deploy"`},
		},
		{
			name: "checkpoint notes", ask: "what was decided about the cache?",
			bodies: []transcript.Body{transcript.Checkpoint{Text: "## Decisions\n- The cache is dropped in favour of a ring buffer."}},
			want:   []string{"checkpoint notes: ", "ring buffer"},
		},
		{
			name: "the newer statement comes first", ask: "which port do we use?",
			bodies: []transcript.Body{user("The port is 4000 now."), user("The port is 4517 now.")},
			want:   []string{"4517", "4000"},
		},
		{
			name: "earlier questions and answers are no sources", ask: "What is the port?",
			bodies: []transcript.Body{
				user("The port is 4517."), user("What is the port?"),
				transcript.AgentMessage{Text: "From my context:\n\n- your message: \"The port is 4517.\""},
			},
			want: []string{`- your message: "The port is 4517."`}, never: []string{"an earlier answer", "What is the port"},
		},
		{
			name: "what the user said comes before what the model said", ask: "Which port is open?",
			bodies: []transcript.Body{user("The open port is 4517."), transcript.AgentMessage{Text: "I opened port 9000."}, user("Is port 80 open?")},
			want:   []string{"4517"}, never: []string{"port 80"},
		},
		{
			name: "half a match is no answer beside a whole one", ask: "harbour lights?",
			bodies: []transcript.Body{user("The harbour is old."), user("The lights of the harbour are green."), user("My lights are out.")},
			want:   []string{"green"}, never: []string{"old", "out"},
		},
		{
			name: "each clause gets its best passage", ask: "Where is the deploy key, and what does the giraffe eat?",
			bodies: []transcript.Body{
				user("The deploy key is in the vault."), user("The deploy key has four digits."), user("The deploy key is old."),
				user("Our giraffe likes acacia leaves."), user("Where do the eagles eat?"),
			},
			want: []string{"Where is the deploy key:", "- your message: \"The deploy key", "what does the giraffe eat:", "acacia"},
		},
		{
			name: "the rest of the question decides between equals", ask: "is the scheduler slow, and which limit is used?",
			bodies: []transcript.Body{user("the scheduler is slow"), result("1", "limit of the scheduler: 5 used"), result("2", "limit of the parser: 9 used")},
			want:   []string{"which limit is used:", "scheduler: 5"}, never: []string{"parser"},
		},
		{
			name: "the user decides between equals", ask: "which port is open?",
			bodies: []transcript.Body{user("port 4517 is open"), result("1", "port 9000 is open")},
			want:   []string{"4517", "9000"},
		},
		{
			name: "a chapter counts for all its lines", ask: "what is open in the plan?",
			bodies: []transcript.Body{transcript.Checkpoint{Text: "## Plan\n- [pending] Paint the hull\n\n- [completed] Fix the pump\n## Commands\nmake pump"}},
			want: []string{`:

- checkpoint notes › Plan: "- [pending] Paint the hull"`}, never: []string{"make pump"},
		},
		{
			name: "a comment in a program is no chapter", ask: "deploy key?",
			bodies: []transcript.Body{result("1", "# deploy key\nKEY=7731\n\nPORT=80")},
			want:   []string{"a tool result › deploy key: \"KEY=7731\""}, never: []string{"PORT"},
		},
		{
			name: "a heading with nothing below it is quoted", ask: "deploy key?",
			bodies: []transcript.Body{user("About the deploy key:\n\n")}, want: []string{`your message: "About the deploy key:"`},
		},
		{
			name: "output that differs in its time only is quoted once", ask: "does TestHarbour pass?",
			bodies: []transcript.Body{result("1", "--- PASS: TestHarbour (0.024s)"), result("2", "--- PASS: TestHarbour (0.017s)"), user("TestHarbour must pass.")},
			want:   []string{"TestHarbour must pass", "(0.017s)"}, never: []string{"0.024"},
		},
		{
			name: "an earlier answer is better than nothing", ask: "What is the port?",
			bodies: []transcript.Body{transcript.AgentMessage{Text: "The port is 4517."}},
			want:   []string{`an earlier answer: "The port is 4517."`},
		},
		{
			name: "Chinese", ask: "部署密钥是什么？",
			bodies: []transcript.Body{user("今天天气很好。"), user("部署密钥是 7731，不要提交到仓库。"), user("数据库用 SQLite。")},
			want:   []string{"在我的上下文中找到", "7731"}, never: []string{"天气", "SQLite"},
		},
		{
			name: "Chinese, nothing matches", ask: "长颈鹿是什么颜色？",
			bodies: []transcript.Body{user("部署密钥是 7731。")},
			want:   []string{"我的上下文没有提到", "长颈鹿"},
		},
		{
			name: "Japanese", ask: "鍵の保管場所はどこですか？",
			bodies: []transcript.Body{user("鍵の保管場所は金庫です。"), user("天気は晴れです。")},
			want:   []string{"From my context", "金庫"}, never: []string{"天気"},
		},
		{
			name: "German", ask: "Wo liegt der Schlüssel?",
			bodies: []transcript.Body{user("Der Schlüssel liegt im Tresor."), user("Der Hund ist braun.")},
			want:   []string{"Tresor"}, never: []string{"Hund"},
		},
		{name: "a question of stop words", ask: "who are you?", bodies: []transcript.Body{user("who are you and why")}, want: []string{"who are you and why"}},
		{name: "no words", ask: "?!", bodies: work, want: []string{"no words"}},
		{name: "an empty thread", ask: "Where is the key?", want: []string{"Nothing in my context mentions", "0 entries (0 tokens)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := answer(entries(append(slices.Clip(c.bodies), user(c.ask))...))
			rest := got
			for _, w := range c.want {
				_, after, found := strings.Cut(rest, w)
				if !found {
					t.Errorf("the answer lacks %q in its place:\n%s", w, got)
				}
				rest = after
			}
			for _, n := range c.never {
				if strings.Contains(got, n) {
					t.Errorf("the answer has %q:\n%s", n, got)
				}
			}
		})
	}
}

func TestStubsAreNotQuoted(t *testing.T) {
	es := entries(result("1", "[the deploy key was here]"), user("deploy key?"))
	es[0].Form = transcript.FormStub
	if got := answer(es); !strings.HasPrefix(got, "Nothing in my context") {
		t.Errorf("a stub is quoted: %s", got)
	}
}

// big is a context close to the window in which one line has the answer.
func big(t testing.TB) []transcript.Entry {
	t.Helper()
	var bodies []transcript.Body
	for i := range 60 {
		var b strings.Builder
		for line := range 50 {
			fmt.Fprintf(&b, "%d: handler %d returned status ok after %d ms, the deploy went on\n", line, i, i*line)
		}
		if i == 30 {
			b.WriteString("the deploy key is 7731\n")
		}
		bodies = append(bodies, call(fmt.Sprint(i), "bash", `{}`), result(fmt.Sprint(i), b.String()))
	}
	es := entries(append(bodies, user("what is the deploy key?"))...)
	if n := inputTokens(adapters.Request{Entries: es}); n < 40_000 || n > Window {
		t.Fatalf("the context has %d tokens", n)
	}
	return es
}

func TestALargeContextGetsABoundedAnswer(t *testing.T) {
	got := answer(big(t))
	first := strings.SplitN(got, "\n", 4)[2]
	if !strings.Contains(first, "7731") {
		t.Errorf("the best quote is %q, want the one with the key", first)
	}
	if n := textTokens(got); n > 600 {
		t.Errorf("the answer has %d tokens, want at most 600", n)
	}
}

func BenchmarkAnswer(b *testing.B) {
	es := big(b)
	for b.Loop() {
		answer(es)
	}
}

func TestLongLinesAreCutAtSentences(t *testing.T) {
	line := strings.Repeat("The weather was fine that day. ", 40) + "The deploy key is 7731. " + strings.Repeat("Nobody came to the harbour. ", 40)
	got := answer(entries(user(line), user("deploy key?")))
	if !strings.Contains(got, "The deploy key is 7731.") || len(got) > 2*maxPassage {
		t.Errorf("answer: %s", got)
	}
}

// collect reads a stream to its end.
func collect(t *testing.T, req adapters.Request) (text string, usage adapters.Usage, chunks int) {
	t.Helper()
	done := false
	for c, err := range New().Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		switch c := c.(type) {
		case adapters.MessageText:
			text += c.Text
			chunks++
		case adapters.UsageChunk:
			usage = c.Usage
		case adapters.Done:
			done = c.Stop == adapters.StopEnd
		}
	}
	if !done {
		t.Error("the stream did not end with a Done")
	}
	return text, usage, chunks
}

func TestStreamIsDeterministicAndCounted(t *testing.T) {
	req := adapters.Request{Base: New().Base(), Entries: big(t)}
	text, usage, chunks := collect(t, req)
	again, _, _ := collect(t, req)
	if diff := cmp.Diff(text, again); diff != "" {
		t.Errorf("two answers to one request (-first +second):\n%s", diff)
	}
	counted, known, err := New().Count(t.Context(), req)
	if err != nil || !known || usage.InputTokens != counted {
		t.Errorf("usage has %d input tokens, Count says %d (known %v, %v)", usage.InputTokens, counted, known, err)
	}
	sum := textTokens(req.Base.System)
	for _, e := range req.Entries {
		sum += transcript.Tokens(e.Item.Body)
	}
	if counted != sum || usage.OutputTokens != textTokens(text) {
		t.Errorf("usage %+v, want input %d and output %d", usage, sum, textTokens(text))
	}
	if words := len(strings.Fields(text)); chunks != words {
		t.Errorf("%d words came in %d chunks", words, chunks)
	}
}

func TestOverflow(t *testing.T) {
	empty := inputTokens(adapters.Request{Base: New().Base(), Entries: entries(user("abcd"))}) - 1
	for tokens, want := range map[int]error{Window: nil, Window + 1: adapters.ErrOverflow} {
		text := strings.Repeat("abc ", tokens-empty)
		var got error
		for _, err := range New().Stream(t.Context(), adapters.Request{Base: New().Base(), Entries: entries(user(text))}) {
			got = errors.Join(got, err)
		}
		if !errors.Is(got, want) {
			t.Errorf("a request of %d tokens ended with %v, want %v", tokens, got, want)
		}
	}
}

func TestQuotesAreCutBetweenCharacters(t *testing.T) {
	got := answer(entries(user("x"+strings.Repeat("长", 400)), user("长长")))
	if !utf8.ValidString(got) || strings.ContainsRune(got, utf8.RuneError) {
		t.Errorf("answer: %q", got)
	}
}

func TestACancelledStreamStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range New().Stream(ctx, adapters.Request{Entries: big(t)}) {
		cancel()
		if n++; n == 2 && !errors.Is(err, context.Canceled) || n > 2 {
			t.Fatalf("pair %d after the cancel: %v", n, err)
		}
	}
}

func TestPiecesAddUpToTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z 你好，世界\n]*`)).Draw(t, "text")
		var b strings.Builder
		for p := range pieces(text) {
			if p == "" {
				t.Fatalf("an empty piece of %q", text)
			}
			b.WriteString(p)
		}
		if b.String() != text {
			t.Fatalf("pieces add up to %q, want %q", b.String(), text)
		}
	})
	n := 0
	for range pieces(strings.Repeat("世", 80)) {
		n++
	}
	if n != 10 {
		t.Errorf("80 characters without spaces came in %d pieces, want 10", n)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"The deployed keys":    {"the", "deploy", "key"},
		"maxRetryCount=5":      {"max", "retry", "count", "maxretrycount", "5"},
		"HTTPServer_v2":        {"http", "server", "v", "2", "httpserver_v2"},
		"部署密钥":                 {"部署", "署密", "密钥"},
		"用 Go 写":               {"用", "go", "写"},
		"src/main.go:12":       {"src", "main", "go", "12"},
		"__init__ _x_":         {"init", "x"},
		"classes pass ring":    {"class", "pass", "ring"},
		"Straße naïve Été АБВ": {"straß", "naïv", "été", "абв"},
	} {
		var got []string
		words(text, func(w []byte) { got = append(got, string(w)) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("words of %q (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("The deploy key is 7731.\nHeading:\n", "deploy key?")
	f.Add("部署密钥是 7731。"+strings.Repeat("长", 400), "部署密钥是什么")
	f.Add("\xff\xfe"+strings.Repeat("é", 400), "é?")
	f.Fuzz(func(t *testing.T, context, question string) {
		got := answer(entries(user(context), user(question)))
		if got == "" {
			t.Fatal("an empty answer")
		}
		if utf8.ValidString(question) && !utf8.ValidString(got) {
			t.Fatalf("the answer is not valid UTF-8: %q", got)
		}
		if n := textTokens(got); n > 700 {
			t.Fatalf("the answer has %d tokens", n)
		}
	})
}
