package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A check lets a request pass or says why not.
type check func(r *http.Request) error

// chain puts recover, request id and the checks, in order, before a handler.
func (s *Server) chain(next http.Handler, checks ...check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tracked := &trackedWriter{ResponseWriter: w}
		defer s.recover(tracked, r)
		v := &visit{id: newRequestID()}
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		setCommonHeaders(w.Header(), v.id)
		for _, c := range checks {
			if err := c(r); err != nil {
				// Who is not let in keeps no connection, and is answered before
				// the body comes.
				w.Header().Set("Connection", "close")
				s.turnAway(tracked, r, err)
				return
			}
		}
		next.ServeHTTP(tracked, r)
	})
}

// turnAway answers who is not let in. Who asked for a WebSocket without the right
// token is told so in codex's words.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	d, ok := errors.AsType[*doorError](err)
	if !ok || d.status != http.StatusUnauthorized || !isUpgrade(r) {
		s.fail(w, r, err)
		return
	}
	text := "missing websocket bearer token"
	if r.Header.Get("Authorization") != "" {
		text = "invalid websocket bearer token"
	}
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "upgrade refused", slog.String("requestId", requestID(r.Context())), slog.Any("error", err))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set(d.header[0], d.header[1])
	w.WriteHeader(d.status)
	s.write(w, r, []byte(text))
}

// setCommonHeaders are the headers of every answer. There is no CORS header on
// purpose: no other origin's script can read anything here.
func setCommonHeaders(h http.Header, requestID string) {
	h.Set("X-Request-Id", requestID)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// A trackedWriter knows whether the answer has begun.
type trackedWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *trackedWriter) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *trackedWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recover turns a panic into a problem that reveals nothing, or, if the answer
// has begun, into a broken connection: a client never takes half for whole.
func (s *Server) recover(w *trackedWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.Any("panic", p), slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, &visit{id: w.Header().Get("X-Request-Id")}))
	s.fail(w, r, errors.New("panic"))
}

// A visit is what the door knows of a request.
type visit struct {
	id   string
	pass *pass // that it was let in with; nil if none was asked for
	// knocks: a WebSocket whose token is its first message.
	knocks bool
}

type visitKey struct{}

// visitOf returns a request's visit, an empty one without a chain.
func visitOf(ctx context.Context) *visit {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		return v
	}
	return &visit{}
}

func requestID(ctx context.Context) string { return visitOf(ctx).id }

func newRequestID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// checkHost stops DNS rebinding: a page of another name that resolves to this
// machine sends its own name. Forwarded headers do not count.
func (s *Server) checkHost(r *http.Request) error {
	if host := hostName(r.Host); !slices.Contains(s.hosts, host) {
		return refuse(http.StatusMisdirectedRequest, fault.Denied, "unknown host; this server is %s", strings.Join(s.hosts, ", "))
	}
	return nil
}

// hostName strips the port and the trailing dot of a Host header.
func hostName(hostport string) string {
	host := strings.ToLower(hostport)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") && isPort(host[i+1:]) {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

func isPort(s string) bool {
	return len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}

// checkOrigin stops other web pages. A program sends no Origin; a browser's
// must be listed, to the letter.
func (s *Server) checkOrigin(r *http.Request) error {
	if origins, ok := r.Header["Origin"]; ok && (len(origins) != 1 || !slices.Contains(s.origins, origins[0])) {
		return refuse(http.StatusForbidden, fault.Denied, "requests of this origin are not accepted; add it to the server's list of origins")
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return refuse(http.StatusForbidden, fault.Denied, "cross-site requests are not accepted")
	}
	return nil
}

// checkLimits refuses bodies that no route takes. A request that changes
// something needs a declared body, so that no form and no image tag can send it.
func (s *Server) checkLimits(r *http.Request) error {
	if ce := r.Header.Get("Content-Encoding"); ce != "" && !strings.EqualFold(ce, "identity") {
		return refuse(http.StatusUnsupportedMediaType, fault.Invalid, "Content-Encoding must be identity or absent").with("Accept-Encoding", "identity")
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		if _, err := mediaType(r); err != nil {
			return err
		}
	default:
		if r.ContentLength != 0 {
			return invalid("a %s request has no body", r.Method)
		}
	}
	return nil
}

// mediaType returns the content type of a body without its parameters.
func mediaType(r *http.Request) (string, error) {
	mt, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return "", refuse(http.StatusUnsupportedMediaType, fault.Invalid, "a Content-Type is missing or malformed: want application/json, also for an empty object")
	}
	if cs, ok := params["charset"]; ok && !strings.EqualFold(cs, "utf-8") {
		return "", refuse(http.StatusUnsupportedMediaType, fault.Invalid, "charset must be utf-8 or absent")
	}
	return mt, nil
}

// checkToken notes the token that a request is let in with. Health checks answer
// without one: they say nothing.
func (s *Server) checkToken(r *http.Request) error {
	if (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") && !isUpgrade(r) {
		return nil
	}
	query := r.URL.Query()
	if query.Has("token") || query.Has("access_token") {
		return unauthorized("a token in the URL ends up in logs and histories: send it as Authorization: Bearer TOKEN, and make a new one")
	}
	token, given := tokenIn(r)
	if !given && mayKnock(r) {
		visitOf(r.Context()).knocks = true
		return nil
	}
	p, ok := s.admit(hashOf(token))
	if !ok || !given {
		return unauthorized("missing or wrong token: send the server's token as Authorization: Bearer TOKEN")
	}
	visitOf(r.Context()).pass = &p
	return s.uses.request(p)
}

func unauthorized(text string) error {
	return refuse(http.StatusUnauthorized, fault.Denied, "%s", text).with("WWW-Authenticate", `Bearer realm="plimsoll"`)
}
