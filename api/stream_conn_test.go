package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
)

func TestASilentStreamBeats(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		id := d.newThread("offline")
		st := d.follow("/v1/threads/"+id+"/events", "")
		st.until("stream/live")
		start := time.Now()
		for range 3 {
			if f := st.next(); f.comment != "hb" {
				t.Fatalf("got %+v", f)
			}
		}
		if took := time.Since(start); took != 45*time.Second {
			t.Errorf("3 beats in %v", took)
		}
		st.close()
	})
}

func TestRow48AReaderThatNeverReadsIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		id := d.newThread("offline")
		c := d.dialRaw()
		<-send(c, fmt.Sprintf("GET /v1/threads/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, testToken))
		start := time.Now()
		other := d.follow("/v1/threads/"+id+"/events", "")
		other.until("stream/live") // nobody else waits
		time.Sleep(11 * time.Second)
		synctest.Wait()
		// The server has closed its end: the pipe is broken, not just full.
		if _, err := c.Write([]byte("x")); err == nil {
			t.Errorf("the connection is open after %v", time.Since(start))
		}
		other.close()
	})
}

// Serve returns when nothing is left of its streams, also of one whose client does
// not take its end.
func TestServeWaitsForItsStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		id := d.newThread("offline")
		c := d.dialRaw()
		<-send(c, fmt.Sprintf("GET /v1/threads/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, testToken))
		synctest.Wait() // the stream is stuck in its first write
		d.client.CloseIdleConnections()
		d.stop()
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("the stream has its connection after Serve returned")
		}
	})
}

// rawStream sends a raw GET of a stream and returns what came until the end.
func (d *door) rawStream(proto, id string) string {
	d.t.Helper()
	c := d.dialRaw()
	<-send(c, fmt.Sprintf("GET /v1/threads/%s/events %s\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, proto, testToken))
	b, err := io.ReadAll(c)
	if err != nil {
		d.t.Error(err)
	}
	return string(b)
}

// HTTP/1.0 knows no chunks: such a stream is its body until the connection ends.
func TestAStreamOfHTTP10HasNoChunks(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	call[Empty](d, 200, "DELETE", "/v1/threads/"+id, "") // so that the stream ends
	old, modern := d.rawStream("HTTP/1.0", id), d.rawStream("HTTP/1.1", id)
	if strings.Contains(old, "chunked") || !strings.Contains(old, "\r\n\r\nretry: 1000\n\n") || strings.Contains(old, "\r\n0\r\n") {
		t.Errorf("HTTP/1.0: %q", old)
	}
	if !strings.Contains(modern, "Transfer-Encoding: chunked\r\n") || !strings.HasSuffix(modern, "\r\n0\r\n\r\n") {
		t.Errorf("HTTP/1.1: %q", modern)
	}
}

// Only the client's leaving ends a stream whose server runs on.
func TestAClientThatLeavesEndsItsStream(t *testing.T) {
	for name, leave := range map[string]func(net.Conn) error{
		"closes": net.Conn.Close,
		"talks": func(c net.Conn) error {
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\n")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			id := d.newThread("offline")
			ln := newMemListener()
			srv := &http.Server{Handler: d.server.Handler(), ReadHeaderTimeout: time.Second}
			go func() {
				if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			}()
			defer srv.Close()
			c, err := ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			<-send(c, fmt.Sprintf("GET /v1/threads/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, testToken))
			r := bufio.NewReader(c)
			for line := ""; !strings.Contains(line, "stream/live"); {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			go func() { _, _ = io.Copy(io.Discard, r) }() // an end that is told must be taken
			if err := leave(c); err != nil && name == "closes" {
				t.Fatal(err)
			}
			d.server.loose.wait()
		})
	}
}

// Many follow, one encodes.
func TestAnEventIsEncodedOnceForAllItsFollowers(t *testing.T) {
	var calls atomic.Int64
	f := newFrames(func(e events.Event) ([]byte, error) {
		calls.Add(1)
		if e.Type == "broken" {
			return nil, errors.New("unreadable")
		}
		return []byte(e.Thread + strconv.FormatInt(e.Seq, 10)), nil
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for seq := int64(1); seq <= 1000; seq++ {
				for _, thread := range []string{"a", "b"} { // of two journals: their positions are the same
					if b, err := f.of(events.Event{Thread: thread, Pos: seq, Seq: seq}); err != nil || string(b) != thread+strconv.FormatInt(seq, 10) {
						t.Errorf("frame of %s %d: %s %v", thread, seq, b, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(f.byAt); n > keptFrames {
		t.Errorf("%d frames are kept", n)
	}
	calls.Store(0)
	for range 20 {
		if _, err := f.of(events.Event{Thread: "a", Seq: 1001, Type: "broken"}); err == nil {
			t.Error("no error")
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("encoded %d times", n)
	}
	big := events.Event{Thread: "a", Seq: 2000, Data: make([]byte, maxKeptFrame+1)}
	for range 2 {
		if _, err := f.of(big); err != nil {
			t.Error(err)
		}
	}
	if _, kept := f.byAt[spot{"a", 2000}]; kept {
		t.Error("a large frame is kept")
	}
}
