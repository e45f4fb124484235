package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A rotor is a token that a test replaces; it counts how often it is looked at.
type rotor struct {
	token atomic.Pointer[string]
	looks atomic.Int64
}

func (r *rotor) set(token string) { r.token.Store(&token) }

func (r *rotor) get() string {
	r.looks.Add(1)
	return *r.token.Load()
}

// withRotor runs a test, on a clock of its own, whose token can be replaced.
func withRotor(t *testing.T, f func(t *testing.T, d *door, r *rotor)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rotor{}
		r.set(testToken)
		d := open(t, func(o *Options) { o.Token = r.get })
		f(t, d, r)
		d.close()
		synctest.Wait()
	})
}

func TestAReplacedTokenEndsItsStreamsWithinASecond(t *testing.T) {
	withRotor(t, func(t *testing.T, d *door, r *rotor) {
		id := d.newThread("offline")
		var old []*follower
		for _, target := range []string{"/v1/threads/" + id + "/events", "/v1/events", "/v1/events"} {
			st := d.follow(target, "")
			st.until("stream/live")
			old = append(old, st)
		}
		time.Sleep(7 * time.Second) // the token is the same: nothing happens
		r.set("the next one")
		start, next := time.Now(), header("Authorization", "Bearer the next one")
		st := d.follow("/v1/threads/"+id+"/events", "", next)
		st.until("stream/live")
		for i, st := range old {
			if !st.ended() {
				t.Errorf("stream %d was cut, not ended", i)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the streams ended after %v", took)
		}
		d.problem(401, "GET", "/v1/events", "", header("Accept", sseType))
		if f := st.next(); f.comment != "hb" {
			t.Errorf("the stream of the new token: %+v", f)
		}
		st.close()
	})
}

// Many streams have one watcher, and no stream has none.
func TestTheTokenIsWatchedOnceForAllStreams(t *testing.T) {
	withRotor(t, func(t *testing.T, d *door, r *rotor) {
		id := d.newThread("offline")
		var all []*follower
		for range 50 {
			st := d.follow("/v1/threads/"+id+"/events", "")
			st.until("stream/live")
			all = append(all, st)
		}
		looks := func(in time.Duration) int64 {
			before := r.looks.Load()
			time.Sleep(in)
			synctest.Wait()
			return r.looks.Load() - before
		}
		if n := looks(12 * time.Second); n < 24 || n > int64(12*time.Second/defaultTiming.token)+1 {
			t.Errorf("the token was looked at %d times in 12 s", n)
		}
		for _, st := range all {
			st.close()
		}
		synctest.Wait()
		if n := looks(time.Minute); n != 0 {
			t.Errorf("without streams the token was looked at %d times", n)
		}
		st := d.follow("/v1/threads/"+id+"/events", "") // a new term begins
		st.until("stream/live")
		r.set("")
		if !st.ended() {
			t.Error("the stream was cut, not ended")
		}
	})
}

// A client that does not read cannot keep what is being written either.
func TestAReplacedTokenCutsAStreamThatIsNotRead(t *testing.T) {
	withRotor(t, func(t *testing.T, d *door, r *rotor) {
		id := d.newThread("offline")
		c := d.dialRaw()
		<-send(c, fmt.Sprintf("GET /v1/threads/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, testToken))
		time.Sleep(3 * time.Second)
		if _, err := c.Write(nil); err != nil {
			t.Fatalf("the stream ended before its token: %v", err)
		}
		r.set("the next one")
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("the connection is open a second later")
		}
	})
}

// The private socket asks for no token, so that none ends its streams.
func TestAReplacedTokenEndsNoPrivateStream(t *testing.T) {
	withRotor(t, func(t *testing.T, d *door, r *rotor) {
		id := d.newThread("offline")
		d.client.CloseIdleConnections()
		d.stop()
		d.ln = newMemListener()
		d.client = &http.Client{Transport: &http.Transport{DialContext: d.ln.dial}}
		d.server.guarded = d.server.private // what ServePrivate serves
		d.serve()
		st := d.follow("/v1/threads/"+id+"/events", "")
		st.until("stream/live")
		r.set("the next one")
		start := time.Now()
		for range 4 {
			if f := st.next(); f.comment != "hb" {
				t.Fatalf("got %+v", f)
			}
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("4 beats in %v", took)
		}
		st.close()
	})
}

func TestAStreamThatHadNotBegunSaysWhyItDoesNot(t *testing.T) {
	for want, why := range map[fault.Code]error{fault.Denied: errReplaced, fault.Unavailable: nil} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		p, _ := problemOf((&stream{ctx: ctx}).whyEnded(), "r1")
		if p.Code != want || why != nil && (p.Status != 401 || !strings.Contains(p.Detail, "replaced")) {
			t.Errorf("%v: %+v", why, p)
		}
	}
}
