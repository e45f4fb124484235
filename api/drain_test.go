package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// What a stopped service made happen reaches every follower, also the one that reads
// late, before the server ends; and what is asked meanwhile is refused in words.
func TestFollowersCatchUpWithAStoppedService(t *testing.T) {
	d := open(t)
	c, other := d.hello(""), d.hello("")
	thread := c.start("puppet")
	sse := d.follow("/v1/threads/"+thread+"/events", "")
	c.must("turn/start", `{"threadId":"`+thread+`","input":[{"type":"text","text":"go"}]}`, nil)
	c.until("turn/started")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := d.svc.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if e := other.refused("turn/start", `{"threadId":"`+thread+`","input":[{"type":"text","text":"more"}]}`); !strings.Contains(e.Message, "the server is closing") || !strings.Contains(string(e.Data), string(fault.Unavailable)) {
		t.Errorf("refused with %+v", e)
	}
	caughtUp := make(chan struct{})
	go func() { d.server.CatchUp(ctx); c.cancel(); d.stop(); close(caughtUp) }()
	sse.until("turn/completed") // until then it is written nowhere: the listener has no buffer
	<-caughtUp
	if ctx.Err() != nil {
		t.Error("it took too long")
	}
	c.until("turn/completed")
}

// A follower that takes nothing holds a server up only for as long as it is let.
func TestCatchingUpIsBounded(t *testing.T) {
	told := func() int64 { return -1 }
	d := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	reached(ctx, d.svc, "", told, func() bool { return false })
	if ctx.Err() == nil {
		t.Error("nobody was told, and it is over")
	}
	reached(t.Context(), d.svc, "", told, func() bool { return true })
}

func TestNobodyIsLetInOnceAServerWasAlone(t *testing.T) {
	var s Server
	if !s.guests.enter() {
		t.Fatal("the first one is refused")
	}
	alone, left := s.RefuseIfAlone()
	if alone || !s.guests.enter() {
		t.Fatal("somebody is there, and others are refused")
	}
	s.guests.leave()
	select {
	case <-left:
		t.Fatal("one is still there")
	default:
	}
	s.guests.leave()
	<-left
	if alone, _ := s.RefuseIfAlone(); !alone || s.guests.enter() {
		t.Error("somebody is let in after the last one left")
	}
}
