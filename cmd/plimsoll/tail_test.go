package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// streamOf answers every request with the event stream that next returns.
type streamOf func(*http.Request) string

// RoundTrip implements http.RoundTripper.
func (next streamOf) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(next(r)))}, nil
}

// followOver follows a thread's events over connections that each bring what next
// returns, until ctx is done, and returns what was printed.
func followOver(ctx context.Context, next streamOf) (printed []string, err error) {
	dial := func() (*client, error) {
		return &client{http: &http.Client{Transport: next}, base: "http://localhost", close: func() error { return nil }}, nil
	}
	f := &follower{
		path: "/v1/threads/x/events", one: true, reconnect: dial, lost: func() {},
		print: func(_ []byte, n protocol.Notification) error { printed = append(printed, n.Method); return nil },
	}
	cl, _ := dial()
	err = f.run(ctx, cl)
	return printed, err
}

func TestTailBacksOffFromAServerThatEndsEveryStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		var at []time.Duration
		_, err := followOver(ctx, func(*http.Request) string {
			at = append(at, time.Since(begin))
			return "data: {\"method\":\"stream/live\"}\n\n"
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		for i, want := 1, firstPause; i < len(at); i, want = i+1, min(2*want, maxPause) {
			if got := at[i] - at[i-1]; got != want {
				t.Errorf("pause %d is %v, want %v", i, got, want)
			}
		}
		if want := 18; len(at) != want { // 7 that double make 6.35 s, then one in 5 s
			t.Errorf("%d connections in a minute, want %d", len(at), want)
		}
	})
}

func TestTailBeginsAgainWithTheFirstPauseAfterANewEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		var gap time.Duration
		n := 0
		_, err := followOver(ctx, func(*http.Request) string {
			switch n++; n {
			case 8: // seconds have passed
				begin = time.Now()
				return "id: j.1\ndata: {\"method\":\"turn/started\"}\n\n"
			case 9:
				gap = time.Since(begin)
			}
			return ""
		})
		if gap != firstPause || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("connected %v after an event, ended with %v", gap, err)
		}
	})
}

func TestTailEndsWithItsThread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		printed, err := followOver(t.Context(), func(*http.Request) string {
			n++
			return "id: j.7\ndata: {\"method\":\"thread/deleted\"}\n\n"
		})
		if !errors.Is(err, errDeleted) || n != 1 || len(printed) != 1 {
			t.Errorf("%d connections printed %v and ended with %v", n, printed, err)
		}
	})
}
