package httpapi_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/httpapi"
	"harbour.example/api/internal/store"
)

func newServer(t *testing.T) *httptest.Server {
	t.Helper()
	st := store.NewMemory()
	st.PutBerth(berth.Berth{Name: "B-07", LengthM: 160, DraughtM: 9})
	st.PutShip(berth.Ship{IMO: "9100002", Name: "Grey Osprey", LengthM: 142, DraughtM: 7.9})
	srv := httptest.NewServer(httpapi.New(httpapi.Options{
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Store:    st,
		Assigner: berth.NewAssigner(st, time.Minute),
		APIKeys:  map[string]string{"k-office": "office", "k-agent": "agent-1"},
		Timeout:  time.Second,
	}))
	t.Cleanup(srv.Close)
	return srv
}

func call(t *testing.T, srv *httptest.Server, key, method, path, body string) (int, map[string]any, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out := map[string]any{}
	if res.StatusCode != http.StatusNoContent {
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, out, res.Header
}

func code(body map[string]any) string {
	e, _ := body["error"].(map[string]any)
	s, _ := e["code"].(string)
	return s
}

const osprey = `{"imo":"9100002","berth":"B-07","from":"2040-05-11T12:00:00Z","to":"2040-05-12T12:00:00Z"}`

func TestABookingIsCreatedAndReadBack(t *testing.T) {
	srv := newServer(t)
	status, body, header := call(t, srv, "k-agent", "POST", "/v1/bookings", osprey)
	if status != http.StatusCreated || body["berth"] != "B-07" {
		t.Fatalf("%d %v", status, body)
	}
	status, again, _ := call(t, srv, "k-agent", "GET", header.Get("Location"), "")
	if status != http.StatusOK || again["id"] != body["id"] {
		t.Fatalf("%d %v", status, again)
	}
}

func TestTheSecondBookingOfAWindowIsBerthTaken(t *testing.T) {
	srv := newServer(t)
	if status, body, _ := call(t, srv, "k-agent", "POST", "/v1/bookings", osprey); status != http.StatusCreated {
		t.Fatalf("%d %v", status, body)
	}
	status, body, _ := call(t, srv, "k-office", "POST", "/v1/bookings", osprey)
	if status != http.StatusConflict || code(body) != "BERTH_TAKEN" {
		t.Fatalf("%d %v", status, body)
	}
}

func TestErrorCodes(t *testing.T) {
	srv := newServer(t)
	for _, c := range []struct {
		name, key, body string
		status          int
		code            string
	}{
		{"no key", "", osprey, 401, "UNAUTHORISED"},
		{"no JSON", "k-agent", "{", 400, "BAD_REQUEST"},
		{"an unknown field", "k-agent", `{"ship":"x"}`, 400, "BAD_REQUEST"},
		{"an unknown ship", "k-agent", strings.Replace(osprey, "9100002", "9999999", 1), 404, "SHIP_UNKNOWN"},
		{"an unknown berth", "k-agent", strings.Replace(osprey, "B-07", "B-99", 1), 422, "NO_BERTH_FITS"},
		{"a bad window", "k-agent", strings.Replace(osprey, "2040-05-12", "2040-05-10", 1), 422, "BAD_WINDOW"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body, _ := call(t, srv, c.key, "POST", "/v1/bookings", c.body)
			if status != c.status || code(body) != c.code {
				t.Errorf("%d %v, want %d %s", status, body, c.status, c.code)
			}
		})
	}
}

func TestCancelledBookingsAreGone(t *testing.T) {
	srv := newServer(t)
	_, body, header := call(t, srv, "k-agent", "POST", "/v1/bookings", osprey)
	if status, _, _ := call(t, srv, "k-agent", "DELETE", header.Get("Location"), ""); status != http.StatusNoContent {
		t.Fatalf("status %d for %v", status, body)
	}
	if status, body, _ := call(t, srv, "k-agent", "GET", header.Get("Location"), ""); status != http.StatusNotFound || code(body) != "BOOKING_UNKNOWN" {
		t.Fatalf("%d %v", status, body)
	}
}
