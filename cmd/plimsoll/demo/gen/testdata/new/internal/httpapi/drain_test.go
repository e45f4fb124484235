package httpapi_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/httpapi"
	"harbour.example/api/internal/ratelimit"
	"harbour.example/api/internal/store"
)

// TestADrainingServerTellsTheBalancerAndGoesOnServing: the balancer needs a few
// probes to notice, and until then requests still come.
func TestADrainingServerTellsTheBalancerAndGoesOnServing(t *testing.T) {
	draining := false
	st := store.NewMemory()
	h := httpapi.New(httpapi.Options{
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Store:    st,
		Assigner: berth.NewAssigner(st, time.Minute),
		APIKeys:  map[string]string{"k-agent": "agent-1"},
		Limiter:  ratelimit.New(ratelimit.Limit{Burst: 5, Refill: 8}, time.Now),
		Timeout:  time.Second,
		Draining: func() bool { return draining },
	})
	get := func(path string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Api-Key", "k-agent")
		h.ServeHTTP(w, r)
		return w.Code
	}
	if status := get("/healthz"); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	draining = true
	if status := get("/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("draining: %d, want 503", status)
	}
	if status := get("/v1/berths"); status != http.StatusOK {
		t.Errorf("a request while draining: %d", status)
	}
}
