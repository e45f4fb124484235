package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs the command until the returned function is called, which gives back
// its stderr.
func serve(t *testing.T, args ...string) (url string, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, w, &stderr)
		w.CloseWithError(io.EOF)
		ended <- err
	}()
	url, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("no URL: %v, %v", err, <-ended)
	}
	return strings.TrimSpace(url), func() string {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return stderr.String()
	}
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-secret")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestItServesAndRecordsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cassette, record := filepath.Join(dir, "one.txtar"), filepath.Join(dir, "record")
	if err := os.WriteFile(cassette, []byte("-- 1 --\nsay hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop := serve(t, "--record", record, cassette)
	if status, body := post(t, url+"/v1/chat/completions", `{"messages":[]}`); status != 200 || !strings.Contains(body, `"content":"hello"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := post(t, url+"/v1/chat/completions", "no JSON"); status != 400 {
		t.Errorf("status %d", status)
	}
	if got, want := stop(), "scripted: one.txtar:1: request 2 is no JSON"; !strings.HasPrefix(got, want) {
		t.Errorf("stderr %q, want %q…", got, want)
	}
	text, err := os.ReadFile(record)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Fatalf("%s, %v", text, err)
	}
	var got []line
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		l.Header = nil
		got = append(got, l)
	}
	want := []line{
		{Method: "POST", Path: "/v1/chat/completions", Body: json.RawMessage(`{"messages":[]}`), Tokens: 4, Exchange: "1"},
		{Method: "POST", Path: "/v1/chat/completions", Text: "no JSON", Tokens: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	walk := filepath.Join("cassettes", "walk.txtar")
	for name, args := range map[string][]string{
		"no cassette":     {},
		"two":             {walk, walk},
		"a missing one":   {"missing.txtar"},
		"an unknown flag": {"--port", "1", walk},
		"a bad address":   {"--listen", "nowhere:-1", walk},
		"a bad record":    {"--record", filepath.Join("missing", "x"), walk},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: it started", name)
		}
	}
}

// Every cassette in the folder can be played.
func TestCassettes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("cassettes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cassettes", err)
	}
	for _, f := range files {
		if _, err := upstream.Load(f); err != nil {
			t.Error(err)
		}
	}
}

// The walk of the README: its answers fill the window of 8,192 tokens to 85 % within
// a few turns, and the writer of the checkpoint gets notes.
func TestWalkFillsItsWindow(t *testing.T) {
	t.Parallel()
	url, stop := serve(t, filepath.Join("cassettes", "walk.txtar"))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var history []message
	var sizes []int
	ask := func(text string) string {
		history = append(history, message{"user", text})
		body, err := json.Marshal(map[string]any{"model": "scripted-1", "messages": history})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := post(t, url+"/v1/chat/completions", string(body))
		var got struct {
			Choices []struct{ Message message }
			Usage   struct {
				Total int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		history = append(history, got.Choices[0].Message)
		sizes = append(sizes, got.Usage.Total)
		return got.Choices[0].Message.Content
	}
	for range 4 {
		ask("What is next?")
	}
	if sizes[2] > 8192*85/100-500 || sizes[3] < 8192*70/100 || sizes[3] > 8192 {
		t.Errorf("the window of 8,192 fills like this: %d", sizes)
	}
	// Notes that repeat the notes so far would be no notes: three of them differ in
	// every line.
	seen := map[string]bool{}
	for previous, i := "", 0; i < 5; i++ {
		history = nil
		prompt := transcript.WriterMark + " write the notes"
		if previous != "" {
			prompt += "\n--- notes so far (data) ---\n" + previous
		}
		notes := ask(prompt)
		for line := range strings.Lines(notes) {
			if strings.HasPrefix(line, "- ") && strings.Contains(previous, line) {
				t.Errorf("notes %d repeat %q", i, line)
			}
		}
		if !strings.HasPrefix(notes, "## Goal\n") || len(notes) < 400 {
			t.Errorf("the writer gets %q", notes)
		}
		seen[notes], previous = true, notes
	}
	if len(seen) != 3 {
		t.Errorf("%d notes, want 3", len(seen))
	}
	if got := stop(); got != "" {
		t.Errorf("stderr: %s", got)
	}
}

// The walk with runtimes has an answer for whatever codex and Claude Code ask in it.
func TestTheWalkOfRuntimesAnswersBothPrograms(t *testing.T) {
	t.Parallel()
	const order = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
	for wire, ask := range map[string]struct{ turn, summary, closed string }{
		"/v1/responses":          {`{"input":[{"type":"message","role":"user","content":"go on"}]}`, `{"input":[],"client_metadata":{"x-codex-turn-metadata":"{\"request_kind\":\"compaction\"}"}}`, "response.completed"},
		"/v1/messages?beta=true": {`{"stream":true,"messages":[{"role":"user","content":"go on"}]}`, `{"stream":true,"messages":[{"role":"user","content":"` + order + `"}]}`, "message_stop"},
	} {
		url, stop := serve(t, filepath.Join("cassettes", "native.txtar"))
		for i, body := range []string{ask.turn, ask.turn, ask.summary, ask.turn, ask.turn, ask.summary, ask.turn} {
			status, answer := post(t, url+wire, body)
			if notes := strings.Contains(answer, "nothing of it was"); status != 200 || notes != (body == ask.summary) || !strings.Contains(answer, ask.closed) {
				t.Errorf("%s: request %d is answered with %d %s", wire, i+1, status, answer)
			}
		}
		if complaints := stop(); complaints != "" {
			t.Errorf("%s: %s", wire, complaints)
		}
	}
}
