package upstream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
)

// The providers of a thread: one whose history codex sums up itself, and one that
// compacts.
const (
	local  = `"modelProvider":"scripted"`
	remote = `"modelProvider":"` + homes.Remote + `"`
)

func TestRealCodexTakesATurnAToolAndASummary(t *testing.T) {
	t.Parallel()
	r := startCodex(t, `
-- summary --
writer
say We read the tide tables; high water is at 07:30.
usage 700 40
-- tool --
think Let me look.
say Looking.
call exec_command {"cmd":"echo from-$((40+2))"} call_1
usage 1000 20 cached=400 written=100 reasoning=5
-- answer --
expect from-42
expect call_1
deltas 4
say The tool said so.
usage 1100 30
-- later --
expect 07:30
expect-not from-42
say Fine.
`, local)
	r.asks("look")
	r.said(`"method":"item/reasoning/summaryTextDelta"`, `"delta":"Let me look."`)
	r.said(`"method":"item/completed"`, `"type":"commandExecution"`, `"aggregatedOutput":"from-42\n"`)
	r.said(`"method":"item/agentMessage/delta"`, `"delta":"The "`)
	r.said(`"method":"item/completed"`, `"type":"agentMessage"`, `"text":"The tool said so."`)
	r.said(`"method":"thread/tokenUsage/updated"`, `"last":{"totalTokens":1020,"inputTokens":1000,"cachedInputTokens":400,"cacheWriteInputTokens":100,"outputTokens":20,"reasoningOutputTokens":5}`)
	r.demand(!r.last().Writer, "a turn is taken for a compaction")
	r.compacts()
	r.said(`"method":"item/completed"`, `"type":"contextCompaction"`)
	r.demand(r.last().Writer && r.last().Exchange == "summary", "the summary was asked for as %+v", r.last().Exchange)
	r.asks("and now?")
	r.said(`"type":"agentMessage"`, `"text":"Fine."`)
}

// compacts lets codex compact and returns how the turn of that ended.
func (r *real) compacts() string {
	r.Helper()
	r.send(`{"id":4,"method":"thread/compact/start","params":{"threadId":"` + r.thread + `"}}`)
	return r.until(`"method":"turn/completed"`)
}

func TestRealCodexLetsTheProviderCompact(t *testing.T) {
	t.Parallel()
	r := startCodex(t, `
-- none --
writer
say This is no item.
-- item --
writer
compaction opaque-1
usage 70 4
-- first --
say Hello.
-- second --
say Still here.
-- third --
expect "\"encrypted_content\":\"opaque-1\""
expect-not Hello.
say And after it.
`, remote)
	r.asks("hi")
	end := r.compacts()
	r.demand(holds(end, `"status":"failed"`, "expected exactly one compaction output item"), "without an item it ends with %s", end)
	r.asks("hi again")
	end = r.compacts()
	r.demand(holds(end, `"status":"completed"`), "with an item it ends with %s", end)
	r.demand(holds(string(r.last().Body), `"compaction_trigger"`) && r.last().Writer, "it was asked for by %s", r.last().Body)
	r.asks("and now?")
	r.said(`"text":"And after it."`)
}

// Each failure is what codex makes of it, as the errors of its protocol say.
func TestRealCodexFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ answer, want string }{
		{"status 500", `"codexErrorInfo":"internalServerError"`},
		{"status 401", `"httpStatusCode":401`},
		{"status 429", `"httpStatusCode":429`},
		{"status 400", `"codexErrorInfo":"other"`},
		{"say Half\nfail server_is_overloaded", `"codexErrorInfo":"serverOverloaded"`},
		{"say Half\ncut", `"codexErrorInfo":`},
		{"limit 10", `"codexErrorInfo":"contextWindowExceeded"`},
		{"fail context_length_exceeded Your input exceeds the context window.", `"codexErrorInfo":"contextWindowExceeded"`},
	} {
		t.Run(strings.ReplaceAll(tt.answer, "\n", " "), func(t *testing.T) {
			r := startCodex(t, "-- summary --\nwriter\nsay A summary.\n-- a --\nunless question-2\n"+tt.answer+"\n-- b --\nwhen question-2\nsay Better.\n", local)
			end := r.asks("question-1")
			r.demand(holds(end, `"status":"failed"`, tt.want), "it ends with %s", end)
			end = r.asks("question-2")
			r.demand(holds(end, `"status":"completed"`), "the next one ends with %s", end)
		})
	}
}

// Models that codex knows have a tool whose input is a text, or one that runs a script.
func TestRealCodexTakesCallsOfCustomTools(t *testing.T) {
	t.Parallel()
	r := startCodex(t, `
-- patch --
custom apply_patch <<END
*** Begin Patch
*** Add File: made.txt
+hello
*** End Patch
END
-- after --
expect custom_tool_call_output
say Patched.
`, local+`,"model":"gpt-5.5"`)
	r.asks("patch")
	r.said(`"method":"item/completed"`, `"type":"fileChange"`, `"status":"completed"`)
	b, err := os.ReadFile(filepath.Join(r.cwd, "made.txt"))
	r.demand(err == nil && string(b) == "hello\n", "the file is %q, %v", b, err)

	r = startCodex(t, `
-- script --
custom functions/exec text(JSON.stringify(await tools.exec_command({cmd: "echo from-$((40+2))"})))
-- after --
expect from-42
say Run.
`, local+`,"model":"gpt-6.2-sol"`)
	r.asks("run")
	r.said(`"text":"Run."`)
}

// A refusal is an item that codex drops: the turn completes and says nothing.
func TestRealCodexDropsARefusal(t *testing.T) {
	t.Parallel()
	r := startCodex(t, "-- a --\nrefuse I will not do that.\n", local)
	end := r.asks("hi")
	r.demand(holds(end, `"status":"completed"`) && !strings.Contains(strings.Join(r.seen, ""), "I will not do that"), "it ends with %s", end)
}

func TestRealCodexIsInterruptedInAnAnswer(t *testing.T) {
	t.Parallel()
	r := startCodex(t, "-- a --\nsay Half of it\nhang middle\n-- b --\nsay Better.\n", local)
	r.send(`{"id":3,"method":"turn/start","params":{"threadId":"` + r.thread + `","input":[{"type":"text","text":"hi"}]}}`)
	started := r.until(`"method":"turn/started"`)
	<-r.server.Reached("middle")
	r.until(`"Half of it"`)
	_, id, _ := strings.Cut(started, `"turn":{"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	r.send(`{"id":5,"method":"turn/interrupt","params":{"threadId":"` + r.thread + `","turnId":"` + id + `"}}`)
	end := r.until(`"method":"turn/completed"`)
	r.demand(holds(end, `"status":"interrupted"`), "it ends with %s", end)
	end = r.asks("and now?")
	r.demand(holds(end, `"status":"completed"`), "the next one ends with %s", end)
}
