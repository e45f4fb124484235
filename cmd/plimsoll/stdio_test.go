package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Who waits for an answer is no reason to stay: the request waits in the journal.
func TestEndOfInputDoesNotWaitForAnAnswer(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nask run ls => out\nsay done\n")
	p := start(t, h, "app-server").greet()
	id := p.thread()
	p.turn(id, "go")
	p.until("item/commandExecution/requestApproval")
	began := time.Now()
	mustDo(t, p.in.Close())
	p.ends(0)
	if took := time.Since(began); took > lastWords/2 {
		t.Errorf("it ended after %v", took)
	}
	q := start(t, h, "app-server").greet()
	q.ask("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id))
	_, f := q.until("item/commandExecution/requestApproval")
	q.send(fmt.Sprintf(`{"id":%s,"result":{"decision":"accept"}}`, f.ID))
	if _, f := q.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"completed"`) {
		t.Errorf("the turn ended as %s", f.Params)
	}
}

// A terminal or a connection that closes is no crash: what runs is journaled as
// interrupted, and said.
func TestHangupEndsInOrder(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn * --\nsay waiting\nhold\n")
	p := start(t, h, "app-server").greet()
	id := p.thread()
	p.turn(id, "go")
	p.until("item/completed")
	for range 3 {
		mustDo(t, p.cmd.Process.Signal(syscall.SIGHUP))
	}
	p.ends(0)
	if fileExists(filepath.Join(h, socketFile)) {
		t.Error("the socket is still there")
	}
}
