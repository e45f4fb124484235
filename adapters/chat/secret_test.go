package chat

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// No error holds a key, wherever the server's text is cut.
func TestNoErrorHoldsMostOfAKey(t *testing.T) {
	key := "sk-proj-" + strings.Repeat("0123456789abcdef", 3)
	for _, c := range []struct{ name, body string }{
		{"error event", "data: {\"error\":{\"message\":\"" + strings.Repeat("x", 459) + " Bearer " + key + " is expired\"}}\n\n"},
		{"no JSON", "data: {" + strings.Repeat("x", 150) + " " + key + "\n\n"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, c.body)
		}))
		m, err := New(Options{Name: "x", BaseURL: srv.URL + "/v1", APIKey: func() string { return key }, Timeouts: Timeouts{Attempts: 1, Backoff: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range m.Stream(context.Background(), adapters.Request{Model: "m"}) {
			if err != nil && strings.Contains(err.Error(), key[:20]) {
				t.Errorf("%s: the error holds a key: …%s", c.name, err.Error()[max(0, len(err.Error())-90):])
			}
		}
		m.Close()
		srv.Close()
	}
}

func TestNoErrorHoldsWhatMovesACursor(t *testing.T) {
	const bad = "\x1b[31mhi\x00\u009b2J\x7f\b"
	quoted := `\u001b[31mhi\u0000\u009b2J\b`
	for _, c := range []struct {
		name, kind, body string
		status           int
	}{
		{"an event that is no JSON", "text/event-stream", "data: {" + bad + "\n\n", 200},
		{"an event of another type", "text/event-stream", "data: [\"" + bad + "\"]\n\n", 200},
		{"an error event", "text/event-stream", `data: {"error":{"message":"` + quoted + `"}}` + "\n\n", 200},
		{"an error event that is no JSON", "text/event-stream", "event: error\ndata: " + bad + "\n\n", 200},
		{"a bare error", "text/event-stream", `data: {"error":"` + quoted + `"}` + "\n\n", 200},
		{"an answer that is no JSON", "application/json", "{" + bad, 200},
		{"a refusal", "application/json", `{"error":{"message":"` + quoted + `"}}`, 400},
		{"a refusal that is text", "text/plain", bad, 400},
		{"a failure that is text", "text/plain", bad, 500},
		{"an overflow", "application/json", `{"error":{"code":"context_length_exceeded","message":"` + quoted + `"}}`, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = fmt.Fprint(w, c.body)
			}))
			defer srv.Close()
			m, err := New(Options{Name: "x", BaseURL: srv.URL + "/v1", Timeouts: Timeouts{Attempts: 1, Backoff: time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var failed error
			for _, err := range m.Stream(context.Background(), adapters.Request{Model: "m"}) {
				if err != nil {
					failed = err
				}
			}
			if failed == nil || strings.IndexFunc(failed.Error(), unicode.IsControl) >= 0 {
				t.Errorf("got the error %q, want one without control characters", failed)
			}
		})
	}
}
