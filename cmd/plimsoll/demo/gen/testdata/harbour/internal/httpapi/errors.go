package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"harbour.example/api/internal/berth"
)

// apiError is an error as clients see it. The codes are a contract: the tablets
// of the pilots compare them as strings.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// The codes that do not come from a domain error.
var (
	errUnauthorised = &apiError{http.StatusUnauthorized, "UNAUTHORISED", "a valid X-Api-Key header is needed"}
	errBadRequest   = &apiError{http.StatusBadRequest, "BAD_REQUEST", "the body is not the JSON that this call wants"}
	errInternal     = &apiError{http.StatusInternalServerError, "INTERNAL", "something went wrong on our side"}
)

// table maps domain errors to public ones, first match wins.
var table = []struct {
	is  error
	api *apiError
}{
	{berth.ErrBerthTaken, &apiError{http.StatusConflict, "BERTH_TAKEN", "the berth is taken for this window"}},
	{berth.ErrNoBerth, &apiError{http.StatusUnprocessableEntity, "NO_BERTH_FITS", "the ship fits no berth of this harbour"}},
	{berth.ErrBadWindow, &apiError{http.StatusUnprocessableEntity, "BAD_WINDOW", "the window is not valid"}},
	{berth.ErrNoShip, &apiError{http.StatusNotFound, "SHIP_UNKNOWN", "no ship has this IMO number"}},
	{berth.ErrNoBooking, &apiError{http.StatusNotFound, "BOOKING_UNKNOWN", "no booking has this id"}},
}

// public returns what a client may see of err.
func public(err error) *apiError {
	var api *apiError
	if errors.As(err, &api) {
		return api
	}
	for _, row := range table {
		if errors.Is(err, row.is) {
			return row.api
		}
	}
	return errInternal
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	api := public(err)
	if api.Status >= 500 {
		s.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	s.reply(w, api.Status, map[string]*apiError{"error": api})
}

func (s *server) reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.Log.Warn("write reply", "err", err)
	}
}
