package httpx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/httpx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-secret-0123456789"

// write sends text to a client that may have left.
func write(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// in runs a test in a bubble, against a handler.
func in(t *testing.T, o httpx.Options, h http.HandlerFunc, test func(t *testing.T, c *httpx.Client, req httpx.Request)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := upstream.NewListener()
		s := http.Server{Handler: h}
		go func() { _ = s.Serve(l) }()
		o.Dial = l.Dial
		if o.Rand == nil {
			o.Rand = func() float64 { return 0 }
		}
		c := httpx.New(o)
		test(t, c, httpx.Request{
			Method: "POST", URL: "http://model.test/v1/chat?key=" + key, Body: []byte("ask"),
			Header: http.Header{"Authorization": {"Bearer " + key}},
		})
		c.Close()
		s.Close()
	})
}

// answers plays one status after the other; the last one stays.
func answers(n *atomic.Int32, statuses ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		i := min(int(n.Add(1)), len(statuses)) - 1
		w.WriteHeader(statuses[i])
		write(w, "%d %s", n.Load(), body)
	}
}

func TestRequestsAreRepeatedOnlyAfterWhatMayPass(t *testing.T) {
	t.Parallel()
	for status, repeated := range map[int]bool{
		429: true, 500: true, 502: true, 503: true, 504: true, 529: true,
		400: false, 401: false, 403: false, 404: false, 408: false, 409: false, 413: false, 422: false, 501: false, 200: false, 204: false,
	} {
		var n atomic.Int32
		in(t, httpx.Options{}, answers(&n, status), func(t *testing.T, c *httpx.Client, req httpx.Request) {
			res, err := c.Do(t.Context(), req)
			want := int32(1)
			if repeated {
				want = 4
			}
			if err != nil || res.Status != status || n.Load() != want {
				t.Errorf("%d: %d requests, want %d; %+v, %v", status, n.Load(), want, res, err)
			}
		})
	}
}

func TestRetriesAreToldAndWaitLonger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jitter float64
		waits  []time.Duration
	}{
		{0, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}},
		{1, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}},
	} {
		var n atomic.Int32
		o := httpx.Options{Rand: func() float64 { return c.jitter }}
		in(t, o, answers(&n, 500, 429, 503, 200), func(t *testing.T, client *httpx.Client, req httpx.Request) {
			var told []httpx.Retry
			req.Retried = func(r httpx.Retry) { told = append(told, r) }
			start := time.Now()
			res, err := client.Do(t.Context(), req)
			if err != nil || res.Status != 200 || string(res.Body) != "4 ask" {
				t.Fatalf("%+v, %v", res, err)
			}
			want := []httpx.Retry{
				{Attempt: 1, Attempts: 4, Status: 500, Wait: c.waits[0], Reason: "the server answered 500 Internal Server Error"},
				{Attempt: 2, Attempts: 4, Status: 429, Wait: c.waits[1], Reason: "the server answered 429 Too Many Requests"},
				{Attempt: 3, Attempts: 4, Status: 503, Wait: c.waits[2], Reason: "the server answered 503 Service Unavailable"},
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("retries (-want +got):\n%s", diff)
			}
			if took, want := time.Since(start), c.waits[0]+c.waits[1]+c.waits[2]; took != want {
				t.Errorf("it took %v, want %v", took, want)
			}
		})
	}
}

func TestTheLongestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	in(t, httpx.Options{Attempts: 80}, answers(&n, 500), func(t *testing.T, c *httpx.Client, req httpx.Request) {
		longest := time.Duration(0)
		req.Retried = func(r httpx.Retry) { longest = max(longest, r.Wait) }
		if _, err := c.Do(t.Context(), req); err != nil || n.Load() != 80 || longest != 15*time.Second {
			t.Errorf("%d requests, at most %v apart; %v", n.Load(), longest, err)
		}
	})
}

func TestWhoAsksMayRefuseARepetition(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	in(t, httpx.Options{}, answers(&n, 500), func(t *testing.T, c *httpx.Client, req httpx.Request) {
		req.Repeat = func(status int, body []byte) bool { return string(body) != "2 ask" }
		if res, err := c.Do(t.Context(), req); err != nil || res.Status != 500 || n.Load() != 2 {
			t.Errorf("%d requests; %+v, %v", n.Load(), res, err)
		}
		req.Repeat, req.Attempts = nil, 1
		if _, err := c.Do(t.Context(), req); err != nil || n.Load() != 3 {
			t.Errorf("with one attempt: %d requests in all; %v", n.Load(), err)
		}
	})
}

func TestRetryAfterIsHonouredUpToACap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		took   time.Duration
		n      int32
	}{
		"seconds":           {http.Header{"Retry-After": {"7"}}, 7 * time.Second, 2},
		"a date":            {http.Header{"Retry-After": {"date"}}, 9 * time.Second, 2},
		"milliseconds":      {http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, 1500 * time.Millisecond, 2},
		"less than we wait": {http.Header{"Retry-After": {"0"}}, 250 * time.Millisecond, 2},
		"garbage":           {http.Header{"Retry-After": {"soon"}}, 250 * time.Millisecond, 2},
		"negative":          {http.Header{"Retry-After": {"-5"}}, 250 * time.Millisecond, 2},
		"the cap":           {http.Header{"Retry-After": {"60"}}, time.Minute, 2},
		"beyond the cap":    {http.Header{"Retry-After": {"61"}}, 0, 1},
		"absurd":            {http.Header{"Retry-After": {"1e300"}}, 0, 1},
		"not a number":      {http.Header{"Retry-After": {"NaN"}}, 250 * time.Millisecond, 2},
	} {
		var n atomic.Int32
		in(t, httpx.Options{Attempts: 2}, func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			for k, v := range c.header {
				if v[0] == "date" {
					v = []string{time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat)}
				}
				w.Header()[k] = v
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}, func(t *testing.T, client *httpx.Client, req httpx.Request) {
			start := time.Now()
			res, err := client.Do(t.Context(), req)
			if err != nil || res.Status != 429 || n.Load() != c.n || time.Since(start) != c.took {
				t.Errorf("%s: %d requests in %v, want %d in %v; %v", name, n.Load(), time.Since(start), c.n, c.took, err)
			}
			if name == "beyond the cap" && res.RetryAfter != 61*time.Second {
				t.Errorf("the answer says %v", res.RetryAfter)
			}
		})
	}
}

func TestConnectionsThatFailAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := httpx.New(httpx.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
			n++
			return nil, errors.New("connection refused for " + key)
		}})
		_, err := c.Do(t.Context(), httpx.Request{Method: "GET", URL: "http://u:" + key + "@model.test/a?key=" + key})
		if !errors.Is(err, httpx.ErrUnreachable) || n != 4 {
			t.Errorf("%d attempts: %v", n, err)
		}
		if want := "http://model.test/a: connection refused for [redacted]"; fmt.Sprint(err) != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
	})
}

func TestAServerThatHangsUpIsAskedAgain(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	in(t, httpx.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		write(w, "%s", "there")
	}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
		if res, err := c.Do(t.Context(), req); err != nil || string(res.Body) != "there" || n.Load() != 3 {
			t.Errorf("%d requests: %+v, %v", n.Load(), res, err)
		}
	})
}

// hang answers with some bytes and then with nothing more.
func hang(first string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if first != "" {
			write(w, "%s", first)
			flush(w)
		}
		<-r.Context().Done()
	}
}

func TestTheFirstByteHasALimit(t *testing.T) {
	t.Parallel()
	in(t, httpx.Options{FirstByte: time.Minute}, hang(""), func(t *testing.T, c *httpx.Client, req httpx.Request) {
		start := time.Now()
		_, err := c.Stream(t.Context(), req)
		if !errors.Is(err, httpx.ErrUnreachable) || !strings.Contains(err.Error(), "no answer within 1m0s") || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestAStreamThatStallsFails(t *testing.T) {
	t.Parallel()
	in(t, httpx.Options{Idle: 30 * time.Second}, hang("begun"), func(t *testing.T, c *httpx.Client, req httpx.Request) {
		start := time.Now()
		res, err := c.Stream(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Stream)
		if string(body) != "begun" || !errors.Is(err, httpx.ErrStalled) || time.Since(start) != 30*time.Second {
			t.Errorf("after %v: %q, %v", time.Since(start), body, err)
		}
		if want := "http://model.test/v1/chat: the answer stalled: nothing came for 30s"; fmt.Sprint(err) != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
		res.Stream.Close()
	})
}

func TestAStreamMayTakeAnyTimeAndItsReaderToo(t *testing.T) {
	t.Parallel()
	in(t, httpx.Options{FirstByte: time.Minute, Idle: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			time.Sleep(59 * time.Second) // on the clock of the bubble
			write(w, "%s", "x")
			flush(w)
		}
	}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
		res, err := c.Stream(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Stream.Close()
		one := make([]byte, 1)
		for i := range 100 {
			if _, err := io.ReadFull(res.Stream, one); err != nil {
				t.Fatalf("after %d bytes: %v", i, err)
			}
			time.Sleep(5 * time.Minute)
		}
		if _, err := res.Stream.Read(one); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	})
}

func TestAStreamThatIsCutSaysSo(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	in(t, httpx.Options{}, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		write(w, "%s", "begun")
		flush(w)
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
		if _, err := c.Do(t.Context(), req); !errors.Is(err, httpx.ErrCut) || n.Load() != 1 {
			t.Errorf("%d requests: %v", n.Load(), err)
		}
	})
}

func TestCancelEndsEveryWait(t *testing.T) {
	t.Parallel()
	why := errors.New("the user left")
	for name, h := range map[string]http.HandlerFunc{
		"before the answer": hang(""),
		"within it":         hang("begun"),
		"between attempts": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "50")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		in(t, httpx.Options{}, h, func(t *testing.T, c *httpx.Client, req httpx.Request) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Second, func() { cancel(why) })
			start := time.Now()
			_, err := c.Do(ctx, req)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || time.Since(start) != 10*time.Second {
				t.Errorf("%s: after %v: %v", name, time.Since(start), err)
			}
			if errors.Is(err, httpx.ErrUnreachable) || errors.Is(err, httpx.ErrCut) {
				t.Errorf("%s: the server is blamed: %v", name, err)
			}
		})
	}
}

func TestCloseEndsAStreamThatIsRead(t *testing.T) {
	t.Parallel()
	in(t, httpx.Options{}, hang("begun"), func(t *testing.T, c *httpx.Client, req httpx.Request) {
		res, err := c.Stream(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { res.Stream.Close() })
		if _, err := io.ReadAll(res.Stream); !errors.Is(err, context.Canceled) {
			t.Errorf("the read ended with %v", err)
		}
	})
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 100_000)
	for _, status := range []int{200, 400} {
		in(t, httpx.Options{MaxBody: 99_999}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			write(w, "%s", big)
		}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
			res, err := c.Do(t.Context(), req)
			if status == 200 && !errors.Is(err, httpx.ErrTooLarge) {
				t.Errorf("a success of %d bytes: %v", len(big), err)
			}
			if status == 400 && (err != nil || len(res.Body) != 64<<10) {
				t.Errorf("an error: %v", err)
			}
		})
	}
	in(t, httpx.Options{MaxBody: 100_000}, func(w http.ResponseWriter, _ *http.Request) { write(w, "%s", big) },
		func(t *testing.T, c *httpx.Client, req httpx.Request) {
			if res, err := c.Do(t.Context(), req); err != nil || len(res.Body) != len(big) {
				t.Errorf("exactly the bound: %v", err)
			}
		})
}

// An error that breaks off is still an answer, and does not hold anybody up.
func TestAnErrorThatStallsIsAnAnswer(t *testing.T) {
	t.Parallel()
	in(t, httpx.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		hang("half")(w, r)
	}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
		start := time.Now()
		res, err := c.Do(t.Context(), req)
		if err != nil || res.Status != 400 || string(res.Body) != "half" || time.Since(start) > 10*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(start), res, err)
		}
	})
}

func TestRedirectsStayAtTheSameServer(t *testing.T) {
	t.Parallel()
	for to, followed := range map[string]bool{
		"/v2/chat":                   true,
		"http://model.test/v2/chat":  true,
		"http://other.test/v2/chat":  false,
		"http://model.test:81/v2":    false,
		"https://model.test/v2/chat": false,
		"/v1/chat":                   false, // for ever
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			var others atomic.Int32
			in(t, httpx.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Host != "model.test" {
					others.Add(1)
				}
				if r.URL.Path == "/v1/chat" {
					http.Redirect(w, r, to, status)
					return
				}
				body, _ := io.ReadAll(r.Body)
				write(w, "%s %s %s", r.Method, body, r.Header.Get("Authorization"))
			}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
				res, err := c.Do(t.Context(), req)
				switch {
				case followed && status >= 307:
					if err != nil || string(res.Body) != "POST ask Bearer "+key {
						t.Errorf("%d to %s: %v", status, to, err)
					}
				case !errors.Is(err, httpx.ErrRedirect) || strings.Contains(err.Error(), key):
					t.Errorf("%d to %s: %v", status, to, err)
				}
				if others.Load() > 0 {
					t.Errorf("%d to %s: another server was asked", status, to)
				}
			})
		}
	}
}

func TestNoSecretComesOut(t *testing.T) {
	t.Parallel()
	const other = "another secret/+"
	var log bytes.Buffer
	o := httpx.Options{
		Secrets: func() []string { return []string{other, "", "abc"} },
		Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	in(t, o, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		write(w, "abc: %s, %s, another+secret%%2F%%2B, %s", r.Header.Get("Authorization"), other, r.URL.Query().Get("key"))
	}, func(t *testing.T, c *httpx.Client, req httpx.Request) {
		req.URL += "&api-version=2024-10-21"
		res, err := c.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if want := "abc: [redacted], [redacted], [redacted], [redacted]"; string(res.Body) != want {
			t.Errorf("the body is %q, want %q", res.Body, want)
		}
		if got := c.Redact(req, "x-"+key+"-y 2024-10-21"); got != "x-[redacted]-y 2024-10-21" {
			t.Errorf("a text became %q", got)
		}
		if log.Len() == 0 || strings.Contains(log.String(), key) {
			t.Errorf("the log: %s", &log)
		}
	})
}

func TestAddressesThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://[::1", "", "http://a b/" + key, "ftp://model.test/", "://x?key=" + key} {
		synctest.Test(t, func(t *testing.T) {
			c := httpx.New(httpx.Options{Secrets: func() []string { return []string{key} }})
			retried := func(httpx.Retry) { t.Errorf("%q is asked again", url) }
			_, err := c.Do(t.Context(), httpx.Request{Method: "GET", URL: url, Retried: retried})
			if !errors.Is(err, httpx.ErrUnreachable) || strings.Contains(err.Error(), key) {
				t.Errorf("%q: %v", url, err)
			}
		})
	}
}

// A certificate that nobody vouches for is not asked for again.
func TestAnUnknownCertificateIsPermanent(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	c := httpx.New(httpx.Options{})
	defer c.Close()
	retried := false
	_, err := c.Do(t.Context(), httpx.Request{Method: "GET", URL: s.URL, Retried: func(httpx.Retry) { retried = true }})
	if !errors.Is(err, httpx.ErrUnreachable) || retried || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("retried %v: %v", retried, err)
	}
}

func TestConnectHasALimit(t *testing.T) {
	t.Parallel()
	// A server that accepts and does not begin TLS.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := httpx.New(httpx.Options{Connect: 50 * time.Millisecond, Attempts: 1})
	defer c.Close()
	if _, err := c.Do(t.Context(), httpx.Request{Method: "GET", URL: "https://" + l.Addr().String()}); !errors.Is(err, httpx.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
