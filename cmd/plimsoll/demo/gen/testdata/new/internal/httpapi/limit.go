package httpapi

import (
	"net"
	"net/http"
	"strconv"
)

var errRateLimited = &apiError{http.StatusTooManyRequests, "RATE_LIMITED", "too many requests; wait as long as Retry-After says"}

// limit refuses the requests of a client that makes too many of them.
func (s *server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		if ok, after := s.Limiter.Allow(clientOf(r)); !ok {
			w.Header().Set("Retry-After", strconv.Itoa(after))
			s.fail(w, r, errRateLimited)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clientOf is the address of the client without its port.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
