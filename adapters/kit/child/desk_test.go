package child_test

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
)

// words sorts lines: "#ID …" answers, "?" is no frame.
func words(line []byte) (f, answers string, ok bool) {
	s := string(line)
	if id, is := strings.CutPrefix(s, "#"); is {
		id, _, _ = strings.Cut(id, " ")
		return s, id, true
	}
	return s, "", s != "?"
}

func desk(t *testing.T) (d *child.Desk[string], other child.Conn, idle *atomic.Int64) {
	t.Helper()
	ours, theirs := child.Pipe()
	idle = &atomic.Int64{}
	d = child.NewDesk(ours, words, func(string) { idle.Add(1) })
	t.Cleanup(func() {
		_ = theirs.Close() // always nil
		<-d.Done()
	})
	return d, theirs, idle
}

func send(t *testing.T, c child.Conn, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if err := c.Send(t.Context(), []byte(l)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnswersGoToWhoAskedAndTheRestToWhoListens(t *testing.T) {
	d, other, _ := desk(t)
	ear := d.Listen()
	one, two := d.Expect("1"), d.Expect("2")
	d.Forget("2")
	send(t, other, "news", "#2 forgotten", "#1 answer", "#1 twice", "more")
	if a := <-one; a != "#1 answer" {
		t.Error(a)
	}
	if a, b := <-ear.C, <-ear.C; a != "news" || b != "more" {
		t.Error(a, b)
	}
	select {
	case a := <-two:
		t.Errorf("what was forgotten was answered: %s", a)
	default:
	}
}

func TestWhatNobodyHearsIsIdle(t *testing.T) {
	d, other, idle := desk(t)
	asked := d.Expect("x")
	send(t, other, "a", "b", "#x now")
	<-asked // in order: both were told
	if n := idle.Load(); n != 2 {
		t.Errorf("%d frames were idle", n)
	}
	ear := d.Listen()
	asked = d.Expect("y")
	send(t, other, "c", "#y now")
	<-asked
	d.Leave(ear)
	if n := idle.Load(); n != 3 {
		t.Errorf("%d frames were idle after leaving", n)
	}
}

func TestASlowListenerSlowsTheOtherSide(t *testing.T) {
	d, other, _ := desk(t)
	ear := d.Listen()
	const n = 2000 // more than the ear and the pipe hold
	go func() {
		for i := range n {
			if other.Send(t.Context(), []byte(strconv.Itoa(i))) != nil {
				return
			}
		}
	}()
	for i := range n {
		if got := <-ear.C; got != strconv.Itoa(i) {
			t.Fatalf("frame %d is %s", i, got)
		}
	}
	d.Leave(ear)
}

func TestGarbageEndsTheConversation(t *testing.T) {
	ours, theirs := child.Pipe()
	d := child.NewDesk(ours, words, func(string) {})
	for theirs.Send(t.Context(), []byte("?")) == nil { // until it is ended
	}
	<-d.Done()
	if !errors.Is(d.Err(), child.ErrGarbage) {
		t.Errorf("%v", d.Err())
	}
}

// Whatever it is: what nobody waits for costs a core as long as it is printed.
func TestAFloodThatNobodyListensToIsEnded(t *testing.T) {
	for name, line := range map[string]string{"news": "news", "answers": "#9 to nobody", "nothing": ""} {
		ours, theirs := child.Pipe()
		d := child.NewDesk(ours, words, func(string) {})
		for theirs.Send(t.Context(), []byte(line)) == nil { // until it is ended
		}
		<-d.Done()
		if !errors.Is(d.Err(), child.ErrFlood) {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
}

func TestWhatIsHeardIsNoFlood(t *testing.T) {
	d, other, _ := desk(t)
	ear := d.Listen()
	const n = 20_000
	go func() {
		for range n {
			if other.Send(t.Context(), []byte("news")) != nil {
				return
			}
		}
	}()
	for range n {
		<-ear.C
	}
	d.Leave(ear)
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}

// Who listens and takes nothing any more does not keep the end from coming.
func TestAFloodIsEndedByWhoListensToIt(t *testing.T) {
	ours, theirs := child.Pipe()
	d := child.NewDesk(ours, words, func(string) {})
	ear := d.Listen()
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		for theirs.Send(t.Context(), []byte("news")) == nil { // until it is ended
		}
	}()
	for range 100 {
		<-ear.C
	}
	d.Kill(ear)
	<-flooded
	if d.Err() == nil {
		t.Error("it goes on")
	}
}
