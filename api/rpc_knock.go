package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// A browser cannot send an Authorization header with a WebSocket. A page of a listed
// origin has two other ways to prove itself, none of which is in the URL: a
// subprotocol that holds the token, or the token as its first message.

// The subprotocols of this server. A client that sends its token as one may name the
// plain one as well, which is then the one agreed upon, so that the token is not
// echoed.
const (
	subprotocol      = "plimsoll"
	tokenSubprotocol = "plimsoll.token."
)

// methodAuthenticate is the first message of a WebSocket that was opened without a
// token.
const methodAuthenticate = "authenticate"

// AuthenticateParams is the first message of a WebSocket of a listed origin that was
// opened without a token.
type AuthenticateParams struct {
	Token string `json:"token"`
}

// tokenIn returns the token that a request brings, if it brings any.
func tokenIn(r *http.Request) (token string, given bool) {
	if auth, is := r.Header["Authorization"]; is {
		scheme, token, _ := strings.Cut(auth[0], " ")
		if len(auth) != 1 || !strings.EqualFold(scheme, "Bearer") {
			return "", true
		}
		return token, true
	}
	if !isUpgrade(r) {
		return "", false
	}
	for _, offered := range subprotocols(r) {
		if token, is := strings.CutPrefix(offered, tokenSubprotocol); is {
			return token, true
		}
	}
	return "", false
}

// subprotocols are those that a client offers.
func subprotocols(r *http.Request) []string { return elements(r.Header["Sec-Websocket-Protocol"]) }

// agreed is the answer to the subprotocols that a client offers: a browser takes no
// other one, and none only if it offers none.
func agreed(r *http.Request) http.Header {
	choice := ""
	for _, offered := range subprotocols(r) {
		if offered == subprotocol {
			choice = offered
			break
		}
		if strings.HasPrefix(offered, tokenSubprotocol) {
			choice = offered
		}
	}
	if choice == "" {
		return nil
	}
	return http.Header{"Sec-Websocket-Protocol": {choice}}
}

// mayKnock reports whether a request may prove itself with its first message: it comes
// from a page whose origin is listed, which was checked before.
func mayKnock(r *http.Request) bool { return isUpgrade(r) && r.Header.Get("Origin") != "" }

// knock waits for the first message of a WebSocket and returns the pass of its token.
// Without one in time, or with a wrong one, the connection is closed with 4401.
func (s *Server) knock(ctx context.Context, t jsonrpc.Transport, id string) (pass, bool) {
	late := time.AfterFunc(s.timing.knock, func() { shut(t, statusUnauthorized, "no token came in time: send it first") })
	gone := context.AfterFunc(ctx, func() { shut(t, jsonrpc.StatusGoingAway, "the server is shutting down") })
	defer gone()
	frame, err := t.Read()
	if !late.Stop() || err != nil {
		s.log.Debug("no first message", slog.String("requestId", id), slog.Any("error", err))
		shut(t, jsonrpc.StatusNormal, "")
		return pass{}, false
	}
	var first struct {
		ID     json.RawMessage    `json:"id"`
		Method string             `json:"method"`
		Params AuthenticateParams `json:"params"`
	}
	if json.Unmarshal(frame, &first) != nil || first.Method != methodAuthenticate {
		shut(t, statusUnauthorized, "the first message must be the request authenticate, with the token")
		return pass{}, false
	}
	p, ok := s.admit(hashOf(first.Params.Token))
	if !ok {
		shut(t, statusUnauthorized, "wrong token")
		return pass{}, false
	}
	if len(first.ID) > 0 {
		answer, err := encode(struct {
			ID     json.RawMessage `json:"id"`
			Result Empty           `json:"result"`
		}{ID: first.ID})
		if err == nil {
			err = t.Write(answer)
		}
		if err != nil {
			s.log.Debug("connection ended", slog.String("requestId", id), slog.Any("error", err))
			shut(t, jsonrpc.StatusNormal, "")
			return pass{}, false
		}
	}
	return p, true
}

// shut closes a transport that nothing is read from any more.
func shut(t jsonrpc.Transport, status int, reason string) {
	_ = t.Close(status, reason) // whoever is there is told; who is not needs nothing
}
