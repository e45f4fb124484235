package chat

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
