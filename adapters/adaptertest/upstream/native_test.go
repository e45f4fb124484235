package upstream

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// frames asks a server and returns the types of the events of its answer, and all of it.
func frames(t *testing.T, url, body string, header map[string]string) (types []string, all string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	for lines.Scan() {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			types = append(types, kind)
		}
	}
	return types, string(b)
}

func TestResponsesAreEventsOfItems(t *testing.T) {
	s := New(t, "-- a --\nthink Hm.\nsay Let me look.\ncall shell {\"cmd\":\"ls\"} call_1\nusage 100 20 cached=40\n-- b --\nwriter\ncompaction opaque\n-- c --\nfinish length\n")
	got, all := frames(t, s.URL+"/v1/responses", `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, nil)
	want := []string{
		"response.created", "response.output_item.added", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
		"response.output_item.done", "response.output_item.added", "response.output_text.delta", "response.output_item.done",
		"response.output_item.added", "response.function_call_arguments.delta", "response.output_item.done", "response.completed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, part := range []string{`"call_id":"call_1"`, `"arguments":"{\"cmd\":\"ls\"}"`, `"text":"Let me look."`, `"cached_tokens":40`, `"total_tokens":120`} {
		if !strings.Contains(all, part) {
			t.Errorf("no %s in\n%s", part, all)
		}
	}
	_, all = frames(t, s.URL+"/v1/responses", `{"model":"m","input":[{"type":"compaction_trigger"}]}`, nil)
	if !strings.Contains(all, `"encrypted_content":"opaque"`) || !strings.Contains(all, `"type":"compaction"`) {
		t.Errorf("the compaction answered\n%s", all)
	}
	got, _ = frames(t, s.URL+"/v1/responses", `{"model":"m","input":[]}`, nil)
	if len(got) == 0 || got[len(got)-1] != "response.incomplete" {
		t.Errorf("a cut answer ends with %q", got)
	}
}

func TestTheSummaryOfCodexIsTheWriters(t *testing.T) {
	s := New(t, "-- summary --\nwriter\nsay The summary.\n-- plain --\nsay Hello.\n")
	_, all := frames(t, s.URL+"/v1/responses", `{"model":"m","input":[]}`, map[string]string{"X-Codex-Turn-Metadata": `{"request_kind":"compaction"}`})
	if !strings.Contains(all, "The summary.") {
		t.Error(all)
	}
	_, all = frames(t, s.URL+"/v1/responses", `{"model":"m","input":[]}`, map[string]string{"X-Codex-Turn-Metadata": `{"request_kind":"turn"}`})
	if !strings.Contains(all, "Hello.") {
		t.Error(all)
	}
}

func TestMessagesAreEventsOfBlocks(t *testing.T) {
	s := New(t, "server anthropic\n-- a --\nthink Hm.\nsay Let me look.\ncall Bash {\"command\":\"ls\"} toolu_1\nusage 100 20 cached=40\n-- b --\nwriter\nsay <summary>S</summary>\n")
	got, all := frames(t, s.URL+"/v1/messages?beta=true", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil)
	want := []string{
		"message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, part := range []string{`"stop_reason":"tool_use"`, `"partial_json":"{\"command\":\"ls\"}"`, `"cache_read_input_tokens":40`, `"input_tokens":60`, "signature_delta"} {
		if !strings.Contains(all, part) {
			t.Errorf("no %s in\n%s", part, all)
		}
	}
	_, all = frames(t, s.URL+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"`+summaryOrder+`. Now."}]},{"role":"system","content":"note"}]}`, nil)
	if !strings.Contains(all, `"text":"<summary>S</summary>"`) || !strings.Contains(all, `"stop_reason":"end_turn"`) {
		t.Errorf("the summary is\n%s", all)
	}
}

func TestEachWireRefusesInItsWords(t *testing.T) {
	s := New(t, "server anthropic\nlimit 5\n-- a --\nsay x\n")
	_, all := frames(t, s.URL+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hello over there"}]}`, nil)
	if !strings.Contains(all, `"type":"error"`) || !strings.Contains(all, "prompt is too long: ") {
		t.Error(all)
	}
	s = New(t, "server openai\nlimit 5\n-- a --\nsay x\n")
	_, all = frames(t, s.URL+"/v1/responses", `{"model":"m","input":[{"type":"message","content":"hello over there"}]}`, nil)
	if !strings.Contains(all, `"code":"context_length_exceeded"`) {
		t.Error(all)
	}
	_, all = frames(t, s.URL+"/v1/messages/count_tokens", `{"messages":[]}`, nil)
	if !strings.Contains(all, `"input_tokens":4`) {
		t.Error(all)
	}
}
