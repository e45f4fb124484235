package main

import (
	"fmt"
	"os"
	"os/signal"
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
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // or the program ignores it where these tests run under nohup, as it should there
	t.Cleanup(func() { signal.Stop(heard) })
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

// The window that was opened first can be closed first: its process serves the others
// and those that come, and ends with the last one.
func TestOwnerWithoutAClientServesOthers(t *testing.T) {
	t.Parallel()
	h := scripted(t, "-- turn first --\nsay waiting\ndelay 12s\nsay late\n-- turn * --\nsay one\n")
	a := start(t, h, "app-server").greet()
	b := start(t, h, "app-server").greet()
	mine := b.thread()
	b.turn(mine, "first")
	b.until("item/completed")
	mustDo(t, a.in.Close())
	c := start(t, h, "app-server").greet()
	id := c.thread()
	c.turn(id, "more")
	c.until("turn/completed")
	mustDo(t, c.in.Close())
	c.ends(0)
	if _, f := b.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"completed"`) {
		t.Errorf("the turn ended as %s", f.Params)
	}
	began := time.Now()
	mustDo(t, b.in.Close())
	b.ends(0)
	a.ends(0)
	if took := time.Since(began); took > lastWords/2 {
		t.Errorf("with nobody left and nothing at work it ended after %v", took)
	}
}

// Whoever follows is told how the turns ended that the end of a server interrupts,
// and only then that the server is gone.
func TestTheEndOfAServerIsToldAfterTheEndsOfItsTurns(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"stdio":     {"app-server"},
		"WebSocket": {"app-server", "--listen", "ws://127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := scripted(t, "-- turn * --\nsay waiting\nhold\n")
			s := start(t, h, args...)
			eventually(t, "it serves", func() bool { return fileExists(filepath.Join(h, socketFile)) })
			others := []*program{start(t, h, "app-server").greet(), start(t, h, "app-server").greet()}
			id := others[0].thread()
			others[1].ask("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id))
			others[0].turn(id, "go")
			for _, p := range others {
				p.until("item/completed")
			}
			mustDo(t, s.cmd.Process.Signal(syscall.SIGTERM))
			for _, p := range others {
				if _, f := p.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"interrupted"`) {
					t.Errorf("the turn ended as %s", f.Params)
				}
				p.ends(1)
			}
			s.ends(0)
		})
	}
}

// The client of an ending process is told that its turn was interrupted.
func TestLastWordsHaveAnEnd(t *testing.T) {
	t.Parallel()
	p := start(t, scripted(t, "-- turn * --\nsay waiting\nhold\n"), "app-server").greet()
	id := p.thread()
	p.turn(id, "go")
	mustDo(t, p.in.Close())
	if _, f := p.until("turn/completed"); !strings.Contains(string(f.Params), `"status":"interrupted"`) {
		t.Errorf("the turn ended as %s", f.Params)
	}
	p.ends(0)
}
