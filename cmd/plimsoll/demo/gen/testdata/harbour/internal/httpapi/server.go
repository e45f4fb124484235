// Package httpapi is the public surface of the harbour.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"harbour.example/api/internal/berth"
)

// Store is what the API reads beside the assigner.
type Store interface {
	berth.Store
	Ships(ctx context.Context) ([]berth.Ship, error)
	Booking(ctx context.Context, id string) (berth.Booking, error)
	PutShip(s berth.Ship)
}

// Options is how an API is made.
type Options struct {
	Log      *slog.Logger
	Store    Store
	Assigner *berth.Assigner
	APIKeys  map[string]string
	Timeout  time.Duration
}

type server struct {
	Options
}

// New returns the handler of the whole API.
func New(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /v1/ships", s.listShips)
	mux.HandleFunc("PUT /v1/ships/{imo}", s.putShip)
	mux.HandleFunc("GET /v1/berths", s.listBerths)
	mux.HandleFunc("POST /v1/berths/{name}/hold", s.holdBerth)
	mux.HandleFunc("DELETE /v1/berths/{name}/hold", s.releaseBerth)
	mux.HandleFunc("GET /v1/berths/{name}/bookings", s.listBookings)
	mux.HandleFunc("POST /v1/bookings", s.createBooking)
	mux.HandleFunc("GET /v1/bookings/{id}", s.readBooking)
	mux.HandleFunc("DELETE /v1/bookings/{id}", s.cancelBooking)

	var h http.Handler = mux
	h = s.authenticate(h)
	h = s.timeout(h)
	h = s.logRequests(h)
	return s.recoverPanics(h)
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}
