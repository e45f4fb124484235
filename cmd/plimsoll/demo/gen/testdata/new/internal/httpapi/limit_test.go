package httpapi_test

import (
	"net/http"
	"testing"
)

// TestTooManyRequestsAreRateLimited: the burst of newServer is 5.
func TestTooManyRequestsAreRateLimited(t *testing.T) {
	srv := newServer(t)
	for n := range 5 {
		if status, body, _ := call(t, srv, "k-agent", "GET", "/v1/berths", ""); status != http.StatusOK {
			t.Fatalf("request %d: %d %v", n, status, body)
		}
	}
	status, body, header := call(t, srv, "k-agent", "GET", "/v1/berths", "")
	if status != http.StatusTooManyRequests || code(body) != "RATE_LIMITED" {
		t.Errorf("%d %v", status, body)
	}
	if header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q, want 1", header.Get("Retry-After"))
	}
}

// TestTheHealthCheckIsNeverLimited: the balancer would take the machine out.
func TestTheHealthCheckIsNeverLimited(t *testing.T) {
	srv := newServer(t)
	for range 50 {
		res, err := srv.Client().Get(srv.URL + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
}
