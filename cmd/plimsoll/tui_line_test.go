package main

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A line is a connection to the server that can be cut while both ends are well.
type line struct {
	net.Listener
	target string
	wg     sync.WaitGroup

	mu   sync.Mutex // guards what follows
	open []net.Conn
	dead bool // nobody is let through
}

// lay puts a line between the terminals that are opened from now on and the server.
func (d *desk) lay() *line {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mustDo(d.t, err)
	ln := &line{Listener: l, target: d.addr}
	ln.wg.Go(ln.accept)
	d.addr = l.Addr().String()
	d.t.Cleanup(func() {
		mustDo(d.t, ln.Close())
		ln.cut(true)
		ln.wg.Wait()
	})
	return ln
}

func (ln *line) accept() {
	for {
		from, err := ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", ln.target)
		if err != nil || !ln.hold(from, to) {
			_ = from.Close() // as cut does
			continue
		}
		ln.wg.Go(func() { pass(from, to) })
		ln.wg.Go(func() { pass(to, from) })
	}
}

// pass carries what comes until one end is closed, and then closes the other.
func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from) // cut
	_ = to.Close()
}

// hold remembers the ends of a connection, unless the line is dead.
func (ln *line) hold(ends ...net.Conn) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.dead {
		for _, c := range ends {
			_ = c.Close()
		}
		return false
	}
	ln.open = append(ln.open, ends...)
	return true
}

// cut breaks what is connected; a dead line lets nobody through from then on.
func (ln *line) cut(dead bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, c := range ln.open {
		_ = c.Close()
	}
	ln.open, ln.dead = nil, dead
}

// mend makes a dead line carry again.
func (ln *line) mend() { ln.cut(false) }

func TestTerminalGoesOnInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "", strings.Replace(tides, "pace 60ms", "pace 150ms", 1)) // it still streams after the cut
	ln := d.lay()
	tm := d.open()
	tm.ready()
	tm.says("explain it slowly")
	tm.shows("The water rises")
	ln.cut(true)
	tm.shows("Reconnecting to server…")
	ln.mend()
	tm.lacks("Reconnecting to server…")
	s := tm.shows("• The water rises slowly at first, faster in the middle of the tide, and slowly again before it is high.")
	if n := strings.Count(s, "The water rises"); n != 1 {
		t.Errorf("the answer is there %d times:\n%s", n, s)
	}
	tm.says("are you still there?")
	tm.shows("• You said: are you still there?")
	tm.finishes(1)
	tm.captured("line")
	id, _ := d.thread()
	want := []turnShape{{"completed", []string{"userMessage", "agentMessage", "userMessage", "agentMessage"}}}
	if diff := cmp.Diff(want, d.turns(id)); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}
