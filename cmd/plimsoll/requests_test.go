package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// shell runs another command on a home.
func shell(t *testing.T, h string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("plimsoll", args...)
	cmd.Env = append(os.Environ(), "PLIMSOLL_HOME="+h, fakeVar+"=1", "GORACE=atexit_sleep_ms=0")
	var out, problem strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problem
	_ = cmd.Run() // its status is compared
	return out.String(), problem.String(), cmd.ProcessState.ExitCode()
}

func TestApprovalIsAnsweredFromTheShell(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nask run rm -r build => gone\nsay done\n")
	p := start(t, h, "app-server").greet()
	id := p.thread()
	p.turn(id, "clean up")
	p.until("serverRequest/created")
	list, _, code := shell(t, h, "requests", id)
	request, question, _ := strings.Cut(strings.TrimSpace(list), "  ")
	if code != 0 || !strings.HasPrefix(question, "run rm -r build in ") || len(request) != maxThread {
		t.Fatalf("requests: %d %q", code, list)
	}
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"answer", id, request, "perhaps"}, 2, `must be one of "accept","acceptForSession","decline","cancel"`},
		{[]string{"answer", id, "ffffffff", "accept"}, 1, "no request that waits has an id that begins with"},
		{[]string{"answer", id, request[:30], "accept"}, 0, ""},
		{[]string{"answer", id, request, "decline"}, 1, "answered"},
	} {
		if _, stderr, code := shell(t, h, tt.args...); code != tt.code || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%v: %d %s", tt.args, code, stderr)
		}
	}
	if _, f := p.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"completed"`) {
		t.Errorf("the turn ended as %s", f.Params)
	}
	if list, stderr, code := shell(t, h, "requests", id); list != "" || code != 0 || !strings.Contains(stderr, "nothing waits") {
		t.Errorf("requests afterwards: %d %q %s", code, list, stderr)
	}
}

func TestRequestsOfAllThreadsNameTheirThread(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nask run rm -r build => gone\nsay done\n")
	if list, stderr, code := shell(t, h, "requests"); list != "" || code != 0 || !strings.Contains(stderr, "nothing waits") {
		t.Errorf("requests of nobody: %d %q %s", code, list, stderr)
	}
	p := start(t, h, "app-server").greet()
	asking := []string{p.thread(), p.thread()}
	p.thread() // which asks nothing
	for _, id := range asking {
		p.turn(id, "clean up")
		p.until("serverRequest/created")
	}
	check := func(when string) {
		t.Helper()
		list, stderr, code := shell(t, h, "requests")
		lines := strings.Split(strings.TrimSpace(list), "\n")
		if code != 0 || len(lines) != len(asking) {
			t.Fatalf("%s: %d %q %s", when, code, list, stderr)
		}
		for _, id := range asking {
			if !strings.Contains(list, id+"  ") {
				t.Errorf("%s: thread %s is not in %q", when, id, list)
			}
		}
		for _, line := range lines { // as it is to be written behind answer
			if words := strings.Fields(line); len(words[0]) != maxThread || len(words[1]) != maxThread || words[2] != "run" {
				t.Errorf("%s: %q", when, line)
			}
		}
	}
	check("while they run")
	mustDo(t, p.cmd.Process.Kill())
	end := <-p.end
	p.end <- end // killed; the end of the test looks as well
	check("after a crash")
	list, _, _ := shell(t, h, "requests", "--json")
	if strings.Count(list, "\n") != len(asking) || !strings.Contains(list, `"threadId":"`+asking[0]+`"`) {
		t.Errorf("--json: %q", list)
	}
}

func TestArchivedThreadsAreListedApart(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nsay one\n")
	p := start(t, h, "app-server").greet()
	id, other := p.thread(), p.thread()
	p.ask("thread/name/set", fmt.Sprintf(`{"threadId":%q,"name":"the tides"}`, id))
	p.turn(id, "x")
	p.until("turn/completed")
	p.ask("thread/archive", fmt.Sprintf(`{"threadId":%q}`, id))
	plain, _, _ := shell(t, h, "threads", "list")
	archived, _, _ := shell(t, h, "threads", "list", "--archived")
	if !strings.Contains(plain, other) || strings.Contains(plain, id) || !strings.Contains(archived, id) || strings.Contains(archived, other) {
		t.Errorf("listed:\n%s\narchived:\n%s", plain, archived)
	}
	// A beginning finds an archived thread too.
	show, stderr, code := shell(t, h, "threads", "show", id[:18])
	if code != 0 || !strings.Contains(show, "the tides") || !strings.Contains(show, "takes no input") {
		t.Errorf("%d %s %s", code, show, stderr)
	}
	mustDo(t, p.in.Close())
	p.ends(0)
	tail, _, _ := shell(t, h, "tail", id) // without a server it ends with the journal
	for _, want := range []string{"named the tides", "archived"} {
		if !strings.Contains(tail, want) {
			t.Errorf("tail does not show %q:\n%s", want, tail)
		}
	}
}

func TestNotificationsAreTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, params, name, text string }{
		{"thread/name/updated", `{"threadId":"t","threadName":"a\u001b[31m b"}`, "thread", "named a␛[31m b"},
		{"thread/name/updated", `{"threadId":"t"}`, "thread", "has no name any more"},
		{"thread/archived", `{"threadId":"t"}`, "thread", "archived"},
		{"thread/unarchived", `{"threadId":"t"}`, "thread", "brought back from the archive"},
		{"thread/reverted", `{"threadId":"t","beforeTurnId":"u"}`, "thread", "reverted to before turn u"},
		{"thread/metadata/updated", `{"threadId":"t","gitInfo":{"branch":"main","sha":"abc"}}`, "thread", "repository main abc"},
		{
			"thread/settings/updated", `{"threadSettings":{"cwd":"/w","model":"m","modelProvider":"p","approvalPolicy":"never","sandboxPolicy":{"type":"readOnly"},"collaborationMode":{"mode":"plan"}}}`,
			"settings", "m on p in /w, approval never, sandbox readOnly, mode plan",
		},
		{"thread/status/changed", `{"status":{"type":"active","activeFlags":["waitingOnApproval"]}}`, "status", "active, waitingOnApproval"},
		{
			"serverRequest/created", `{"request":{"id":"r","method":"item/commandExecution/requestApproval","params":{"command":"make","cwd":"/w","reason":"to see"}}}`,
			"request", "r asks: run make in /w, because to see",
		},
		{
			"serverRequest/created", `{"request":{"id":"r","method":"item/fileChange/requestApproval","params":{"grantRoot":"/etc"}}}`,
			"request", "r asks: change files under /etc",
		},
		{
			"serverRequest/created", `{"request":{"id":"r","method":"item/tool/call","params":{"namespace":"n","tool":"t","arguments":{"a":1}}}}`,
			"request", `r asks: call the client's tool n/t with {"a":1}`,
		},
		{"serverRequest/created", `{"request":{"id":"r","method":"item/new/kind","params":[]}}`, "request", "r asks: item/new/kind"},
		{"serverRequest/resolved", `{"requestId":"r","outcome":"answered","by":"codex-tui"}`, "request", "r answered by codex-tui"},
		{"serverRequest/resolved", `{"requestId":"r","outcome":"cancelled","by":null}`, "request", "r cancelled"},
	} {
		if name, text := describe(protocol.Notification{Method: tt.method, Params: []byte(tt.params)}); name != tt.name || text != tt.text {
			t.Errorf("%s %s: got %q %q, want %q %q", tt.method, tt.params, name, text, tt.name, tt.text)
		}
	}
}
