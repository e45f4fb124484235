package httpapi

import (
	"net/http"
	"regexp"

	"harbour.example/api/internal/berth"
)

var imoNumber = regexp.MustCompile(`^[0-9]{7}$`)

func (s *server) listShips(w http.ResponseWriter, r *http.Request) {
	list, err := s.Store.Ships(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, http.StatusOK, map[string]any{"ships": list})
}

func (s *server) putShip(w http.ResponseWriter, r *http.Request) {
	var ship berth.Ship
	if !s.decode(w, r, &ship) {
		return
	}
	ship.IMO = r.PathValue("imo")
	if !imoNumber.MatchString(ship.IMO) || ship.LengthM <= 0 || ship.DraughtM <= 0 {
		s.fail(w, r, errBadRequest)
		return
	}
	s.Store.PutShip(ship)
	s.reply(w, http.StatusOK, ship)
}
