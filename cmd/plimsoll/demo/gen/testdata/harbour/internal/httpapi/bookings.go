package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"harbour.example/api/internal/berth"
)

// maxBody is far above the largest request that makes sense.
const maxBody = 64 << 10

type bookingRequest struct {
	IMO   string    `json:"imo"`
	Berth string    `json:"berth"` // empty: the harbour chooses
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
}

func (s *server) createBooking(w http.ResponseWriter, r *http.Request) {
	var req bookingRequest
	if !s.decode(w, r, &req) {
		return
	}
	window := berth.Window{From: req.From, To: req.To}
	agent := agentOf(r.Context())
	var (
		b   berth.Booking
		err error
	)
	if req.Berth == "" {
		b, err = s.Assigner.Assign(r.Context(), req.IMO, agent, window)
	} else {
		b, err = s.Assigner.AssignTo(r.Context(), req.Berth, req.IMO, agent, window)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/bookings/"+b.ID)
	s.reply(w, http.StatusCreated, b)
}

func (s *server) readBooking(w http.ResponseWriter, r *http.Request) {
	b, err := s.Store.Booking(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, http.StatusOK, b)
}

func (s *server) cancelBooking(w http.ResponseWriter, r *http.Request) {
	if err := s.Assigner.Cancel(r.Context(), r.PathValue("id")); err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) listBookings(w http.ResponseWriter, r *http.Request) {
	list, err := s.Store.Bookings(r.Context(), r.PathValue("name"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, http.StatusOK, map[string]any{"bookings": list})
}

func (s *server) listBerths(w http.ResponseWriter, r *http.Request) {
	list, err := s.Store.Berths(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, http.StatusOK, map[string]any{"berths": list})
}

func (s *server) holdBerth(w http.ResponseWriter, r *http.Request) {
	until, err := s.Assigner.Hold(r.Context(), r.PathValue("name"), agentOf(r.Context()))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, http.StatusOK, map[string]any{"until": until})
}

func (s *server) releaseBerth(w http.ResponseWriter, r *http.Request) {
	s.Assigner.Release(r.PathValue("name"), agentOf(r.Context()))
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) decode(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		s.fail(w, r, errBadRequest)
		return false
	}
	return true
}
