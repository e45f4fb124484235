package upstream_test

import (
	"strings"
	"testing"
)

func TestRealClaudeTakesATurnAToolAndASummary(t *testing.T) {
	t.Parallel()
	r := startClaude(t, `
-- summary --
writer
say <summary>We read the tide tables; high water is at 07:30.</summary>
usage 700 40
-- tool --
think Let me look.
say Looking.
call Bash {"command":"echo from-$((40+2))","description":"look"} toolu_1
usage 1000 20 cached=400 written=100
-- answer --
expect from-42
expect toolu_1
expect c2NyaXB0ZWQ=
deltas 4
say The tool said so.
usage 1100 30
-- later --
expect 07:30
expect-not from-42
say Fine.
`)
	end := r.tells("look")
	r.said(`"type":"assistant"`, `"thinking":"Let me look."`, `"signature":"c2NyaXB0ZWQ="`)
	r.said(`"type":"tool_result"`, "from-42")
	r.demand(holds(end, `"result":"The tool said so."`, `"is_error":false`, `"cacheReadInputTokens":400`, `"cacheCreationInputTokens":100`, `"inputTokens":1600`), "the turn ends with %s", end)
	r.demand(!r.last().Writer, "a turn is taken for a compaction")
	r.tells("/compact")
	r.said(`"compact_result":"success"`)
	r.said(`"subtype":"compact_boundary"`, `"trigger":"manual"`)
	r.demand(r.last().Writer && r.last().Exchange == "summary", "the summary was asked for as %q", r.last().Exchange)
	end = r.tells("and now?")
	r.demand(holds(end, `"result":"Fine."`), "the turn after it ends with %s", end)
}

// Each failure is what Claude Code makes of it, as its results say.
func TestRealClaudeFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer string
		want   []string
	}{
		{"status 500", []string{`"is_error":true`, `"api_error_status":500`, "Internal server error"}},
		{"status 400", []string{`"is_error":true`, `"api_error_status":400`}},
		{"status 401", []string{`"is_error":true`, `"api_error_status":401`}},
		{"status 429", []string{`"is_error":true`, `"api_error_status":429`}},
		{"status 529", []string{`"is_error":true`, `"api_error_status":529`, "Overloaded"}},
		{"limit 10", []string{`"is_error":true`, `"terminal_reason":"prompt_too_long"`}},
		{"refuse I will not do that.", []string{`"is_error":true`, `"stop_reason":"refusal"`}},
	} {
		t.Run(tt.answer, func(t *testing.T) {
			r := startClaude(t, "-- a --\nunless question-2\nrepeat\n"+tt.answer+"\n-- b --\nwhen question-2\nsay Better.\n")
			end := r.tells("question-1")
			r.demand(holds(end, tt.want...), "it ends with %s", end)
			end = r.tells("question-2")
			r.demand(holds(end, `"result":"Better."`), "the next one ends with %s", end)
		})
	}
}

// An answer that breaks off because the provider is overloaded is asked for again, whole.
func TestRealClaudeAsksAgainAfterABrokenAnswer(t *testing.T) {
	t.Parallel()
	r := startClaude(t, "-- a --\nsay Half of it\nfail overloaded_error Overloaded\n-- b --\nsay The other half.\n")
	end := r.tells("hi")
	r.demand(holds(end, `"result":"The other half."`, `"is_error":false`), "it ends with %s", end)
	r.demand(holds(string(r.last().Body), `"stream":false`), "it asks again for a stream")
}

func TestRealClaudeIsInterruptedInAnAnswer(t *testing.T) {
	t.Parallel()
	r := startClaude(t, "-- a --\nsay Half of it\nhang middle\n-- b --\nsay Better.\n")
	r.send(`{"type":"user","message":{"role":"user","content":"hi"},"parent_tool_use_id":null}`)
	<-r.server.Reached("middle")
	r.send(`{"type":"control_request","request_id":"stop","request":{"subtype":"interrupt"}}`)
	end := r.until(`"type":"result"`)
	r.demand(holds(end, `"terminal_reason":"aborted_streaming"`), "it ends with %s", end)
	end = r.tells("and now?")
	r.demand(holds(end, `"result":"Better."`), "the next one ends with %s", end)
}

// A program with a home of package clis asks the scripted server and nobody else: a
// proxy for all the rest is asked nothing.
func TestRealProgramsAskNobodyElse(t *testing.T) {
	t.Parallel()
	proxy := listen(t)
	env := []string{"HTTPS_PROXY=http://" + proxy.addr, "HTTP_PROXY=http://" + proxy.addr, "ALL_PROXY=http://" + proxy.addr}
	claude := startClaude(t, "-- a --\nsay Hello.\n-- summary --\nwriter\nsay <summary>S</summary>\n", env...)
	claude.tells("hi")
	claude.tells("/compact")
	for _, provider := range []string{local, remote} {
		codex := startCodex(t, "-- a --\nsay Hello.\n-- summary --\nwriter\ncompaction x\n", provider, env...)
		codex.asks("hi")
		codex.compacts()
		for _, q := range codex.server.Requests() {
			codex.demand(strings.HasSuffix(q.Path, "/responses"), "codex asks for %s", q.Path)
		}
	}
	for _, q := range claude.server.Requests() {
		claude.demand(q.Path == "/v1/messages", "Claude Code asks for %s", q.Path)
	}
	if asked := proxy.asked(); len(asked) > 0 {
		t.Errorf("others are asked: %q", asked)
	}
}
