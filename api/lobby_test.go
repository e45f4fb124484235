package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// crowded runs a test, on a clock of its own, with few seats.
func crowded(t *testing.T, seats int, f func(t *testing.T, d *door)) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(o *Options) { o.Limits.Connections = seats })
		f(t, d)
		d.close()
		synctest.Wait()
	})
}

const rawHealth = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

// sit takes a seat, by a connection that keeps still, for up to 5 s.
func (d *door) sit() net.Conn {
	c := d.dialRaw()
	synctest.Wait()
	return c
}

func TestAConnectionTooManyIsToldSo(t *testing.T) {
	crowded(t, 2, func(t *testing.T, d *door) {
		one := d.sit()
		d.sit()
		start := time.Now()
		for i := range standingRoom + 3 { // who was told makes room
			wait := map[int]time.Duration{0: time.Second}[i] // the first one waits for those behind it too
			c := d.dialRaw()
			sent := send(c, rawHealth)
			status, closes, body := readAnswer(t, c)
			<-sent
			var p Problem
			if err := json.Unmarshal(body, &p); err != nil || status != http.StatusServiceUnavailable || p.Code != fault.Overloaded || !closes || !strings.Contains(p.Detail, "2 connections") {
				t.Errorf("connection %d: %d %s", i+3, status, body)
			}
			if took := time.Since(start); took != wait {
				t.Errorf("connection %d was told after %v, want %v", i+3, took, wait)
			}
			start = time.Now()
			c.Close()
		}
		one.Close()
		synctest.Wait()
		c := d.dialRaw()
		sent := send(c, rawHealth)
		if status, _, body := readAnswer(t, c); status != http.StatusOK || time.Since(start) != 0 {
			t.Errorf("with a seat: %d %s", status, body)
		}
		<-sent
	})
}

func TestAConnectionWaitsForASeat(t *testing.T) {
	crowded(t, 1, func(t *testing.T, d *door) {
		one := d.sit()
		time.AfterFunc(900*time.Millisecond, func() { one.Close() })
		c := d.dialRaw()
		sent := send(c, rawHealth)
		if status, _, body := readAnswer(t, c); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		<-sent
	})
}

func TestStreamsTakeNoSeats(t *testing.T) {
	crowded(t, 2, func(t *testing.T, d *door) {
		id := d.newThread("offline")
		var all []*follower
		for range 10 {
			st := d.follow("/v1/threads/"+id+"/events", "")
			st.until("stream/live")
			all = append(all, st)
		}
		d.do("GET", "/v1/threads", "")
		for _, st := range all {
			st.close()
		}
		synctest.Wait()
	})
}

// Those who stand are few, and the ones behind them are not even accepted until
// they are gone.
func TestStandingRoomIsSmall(t *testing.T) {
	crowded(t, 1, func(t *testing.T, d *door) {
		d.sit()
		d.sit() // waits a second, and stands
		time.Sleep(time.Second)
		for range standingRoom - 1 {
			d.sit()
		}
		dialled := make(chan struct{})
		d.sit() // is in the listener's hand
		go func() {
			defer close(dialled)
			if c, err := d.ln.dial(t.Context(), "", ""); err == nil {
				c.Close()
			}
		}()
		synctest.Wait()
		select {
		case <-dialled:
			t.Error("one more was accepted")
		default:
		}
		time.Sleep(6 * time.Second) // those who say nothing are closed
		synctest.Wait()
		select {
		case <-dialled:
		default:
			t.Error("the listener is stuck")
		}
	})
}

// A connection that stands or waits does not keep the server from closing.
func TestAFullLobbyCloses(t *testing.T) {
	for _, waiting := range []bool{true, false} {
		crowded(t, 1, func(t *testing.T, d *door) {
			d.sit()
			if !waiting {
				d.sit()
				time.Sleep(time.Second)
				for range standingRoom {
					d.sit()
				}
			}
			d.sit()
			start := time.Now()
			d.stop()
			if took := time.Since(start); took > defaultTiming.shutdown {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestWhoIsNotLetInKeepsNoConnection(t *testing.T) {
	d := open(t)
	for name, req := range map[string]string{
		"no token": "GET /v1/threads HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"no host":  "GET /v1/threads HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"health":   rawHealth,
		"ready":    strings.Replace(rawHealth, "healthz", "readyz", 1),
	} {
		c := d.dialRaw()
		sent := send(c, req)
		if status, closes, body := readAnswer(t, c); !closes {
			t.Errorf("%s: %d, and the connection stays: %s", name, status, body)
		}
		<-sent
	}
}

// A body that does not come holds nobody who was refused anyway, and no seat.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		token  string
		target string
		status int
		within time.Duration
	}{
		"no token":         {"wrong", "/v1/threads", 401, 0},
		"no such route":    {testToken, "/nowhere", 404, defaultTiming.rest},
		"not this method":  {testToken, "/healthz", 405, defaultTiming.rest},
		"not this id":      {testToken, "/v1/threads/%20/turns", 404, defaultTiming.rest},
		"too many imports": {testToken, "/v1/imports", 429, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, d *door) {
				for d.server.imports.take() {
				}
				conn, media := d.dialRaw(), jsonType
				if c.target == "/v1/imports" {
					media = ndjsonType
				}
				start := time.Now()
				<-send(conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n", c.target, c.token, media))
				status, closes, body := readAnswer(t, conn)
				if took := time.Since(start); status != c.status || !closes || took > c.within {
					t.Errorf("status %d after %v, close %v: %s", status, took, closes, body)
				}
				time.Sleep(defaultTiming.rest + time.Second)
				synctest.Wait()
				if _, err := conn.Write([]byte("x")); err == nil {
					t.Errorf("the connection is open after %v", time.Since(start))
				}
			})
		})
	}
}

func TestALobbyHandsOnTheErrorOfItsListener(t *testing.T) {
	ln := newMemListener()
	l := newLobby(ln, 1, time.Second)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// A connection that finds no place is closed with its lobby, whether it waits for a
// seat or for room to stand.
func TestAClosedLobbyKeepsNobody(t *testing.T) {
	for name, wait := range map[string]time.Duration{"a seat": time.Hour, "room": 0} {
		synctest.Test(t, func(t *testing.T) {
			ln := newMemListener()
			l := newLobby(ln, 1, wait)
			for l.seats.take() || l.stands.take() {
			}
			accepted := make(chan error, 1)
			go func() {
				_, err := l.Accept()
				accepted <- err
			}()
			c, err := ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			start := time.Now()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-accepted; !errors.Is(err, net.ErrClosed) || time.Since(start) > 0 {
				t.Errorf("waiting for %s: %v after %v", name, err, time.Since(start))
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("waiting for %s: read: %v", name, err)
			}
		})
	}
}
