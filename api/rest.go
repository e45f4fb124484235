package api

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	plimsoll "github.com/plimsoll-dev/plimsoll"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// routes mounts the REST twins of all methods, and what belongs to the door.
func (s *Server) routes() http.Handler {
	mux := chi.NewRouter()
	for _, m := range methods {
		if m.verb != "" {
			mux.Method(m.verb, m.path, s.twin(m))
		}
	}
	mux.Get("/openapi.yaml", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		s.write(w, r, plimsoll.OpenAPI)
	})
	mux.Get("/healthz", s.health)
	mux.Get("/readyz", s.ready)
	mux.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, fault.New(fault.NotFound, "no such route; GET /openapi.yaml lists them"))
	})
	mux.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		allow := strings.Join(allowed(mux, r.URL.Path), ", ")
		s.fail(w, r, refuse(http.StatusMethodNotAllowed, fault.Invalid, "this route takes %s", allow).with("Allow", allow))
	})
	return mux
}

func allowed(mux *chi.Mux, path string) []string {
	var verbs []string
	for _, verb := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if mux.Match(chi.NewRouteContext(), verb, path) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// health answers that the server does. Nobody keeps a connection without a token.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	s.reply(w, r, http.StatusOK, Empty{})
}

// ready answers whether the journal can be read.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	if _, err := s.svc.ListThreads(r.Context(), threads.PageQuery{Limit: 1}); err != nil {
		s.fail(w, r, fault.Wrap(fault.Unavailable, err, "not ready"))
		return
	}
	s.reply(w, r, http.StatusOK, Empty{})
}

// statuser is a result whose status depends on what it says.
type statuser interface{ status() int }

// twin is the REST handler of a method.
func (s *Server) twin(m method) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		params, err := permitted(r.Context(), m, func() (any, error) { return s.bind(w, r, m) })
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if m.serve != nil {
			if err := m.serve(s, w, r, params); err != nil {
				s.fail(w, r, err)
			}
			return
		}
		result, err := m.call(s, r.Context(), params)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		status := m.status
		if st, ok := result.(statuser); ok {
			status = st.status()
		}
		s.reply(w, r, status, result)
	}
}

// bind merges path, query, header and body into the parameters of a method.
func (s *Server) bind(w http.ResponseWriter, r *http.Request, m method) (any, error) {
	params := reflect.New(m.params)
	for _, f := range m.fieldsIn(inPath) {
		id := chi.URLParam(r, f.name)
		if !idPattern.MatchString(id) {
			return nil, notFoundID(f.id, id)
		}
		params.Elem().FieldByIndex(f.index).SetString(id)
	}
	query, err := bindQuery(r, m, params)
	if err != nil {
		return nil, err
	}
	if err := bindHeaders(r, m, params); err != nil {
		return nil, err
	}
	if m.verb != http.MethodPost {
		return params.Interface(), nil
	}
	mt, err := mediaType(r)
	if err != nil {
		return nil, err
	}
	accepts := m.accepts
	if accepts == nil {
		accepts = []string{jsonType}
	}
	if !slices.Contains(accepts, mt) {
		return nil, refuse(http.StatusUnsupportedMediaType, fault.Invalid, "want Content-Type %s", strings.Join(accepts, ", "))
	}
	if m.accepts != nil {
		return params.Interface(), nil // the handler reads the body
	}
	return params.Interface(), s.bindBody(w, r, m, params, query)
}

// bindQuery sets what the query says and returns the names it used.
func bindQuery(r *http.Request, m method, params reflect.Value) (map[string]bool, error) {
	fields := m.fieldsIn(inQuery, inBoth)
	used := map[string]bool{}
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	for _, q := range query {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == q.name })
		if i < 0 {
			return nil, invalid("unknown query parameter `%s`; known here: %s", clip(q.name), names(fields))
		}
		if used[q.name] {
			return nil, invalid("query parameter `%s` is there twice", q.name)
		}
		used[q.name] = true
		f := fields[i]
		dst := params.Elem().FieldByIndex(f.index).Addr().Interface()
		if err := assignValue(fromText(f, q.value.text), dst, f.constraint, f.name); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// bindHeaders sets what stands in headers: text of visible ASCII.
func bindHeaders(r *http.Request, m method, params reflect.Value) error {
	for _, f := range m.fieldsIn(inHeader) {
		vals := r.Header.Values(f.header)
		if len(vals) == 0 {
			continue
		}
		text := vals[0]
		bad := func(c rune) bool { return c < 0x21 || c > 0x7e }
		if len(vals) > 1 || text == "" || strings.ContainsFunc(text, bad) || !f.allowsText(text) {
			return invalid("header %s: want 1 to %d visible ASCII characters, once", f.header, *f.max)
		}
		params.Elem().FieldByIndex(f.index).SetString(text)
	}
	return nil
}

func (s *Server) bindBody(w http.ResponseWriter, r *http.Request, m method, params reflect.Value, query map[string]bool) error {
	data, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	obj, err := parse(data)
	if err != nil {
		return err
	}
	for _, member := range obj.members {
		if query[member.name] {
			return invalid("`%s` is both in the query and in the body; want it once", member.name)
		}
	}
	return assign(obj, params, m.fieldsIn(inBody, inBoth), "")
}

// readBody reads a JSON body within its limits of size and time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close")
		return nil, tooLarge(maxBody)
	}
	rc := http.NewResponseController(w)
	deadline := time.Now().Add(s.timing.body)
	if err := supported(rc.SetReadDeadline(deadline), rc.SetWriteDeadline(deadline)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, bodyError(w, err)
	}
	return data, nil // at the end of the body net/http takes the read deadline back
}

// supported drops the errors of a writer that has no deadlines, as in tests
// without a connection.
func supported(errs ...error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	return nil
}

func tooLarge(limit int64) *fault.Error {
	return fault.New(fault.TooLarge, "the body is larger than %d MiB", limit>>20)
}

// bodyError says why a body could not be read. The connection cannot be used
// again, since nobody knows where the next request begins.
func bodyError(w http.ResponseWriter, err error) error {
	w.Header().Set("Connection", "close")
	if mbe, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(mbe.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, fault.Cancelled, "the body did not arrive in time")
	}
	return fault.Wrap(fault.Invalid, err, "the body could not be read")
}

// reply sends a result.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, v any) {
	b, err := encode(v)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	s.write(w, r, b)
}

// write sends the rest of an answer. That it cannot be sent is nobody's fault
// but the client's, who is gone or does not read.
func (s *Server) write(w http.ResponseWriter, r *http.Request, b []byte) {
	rc := http.NewResponseController(w)
	if err := supported(rc.SetWriteDeadline(time.Now().Add(s.timing.body))); err != nil {
		s.log.Debug("set write deadline", slog.String("requestId", requestID(r.Context())), slog.Any("error", err))
	}
	if _, err := w.Write(b); err != nil {
		s.log.Debug("client is gone", slog.String("requestId", requestID(r.Context())), slog.Any("error", err))
	}
}

// parseQuery reads a query string in order. Unlike net/url it does not let a
// malformed pair disappear.
func parseQuery(raw string) ([]member, error) {
	var pairs []member
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, text, _ := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(name)
		text, err2 := url.QueryUnescape(text)
		if err1 != nil || err2 != nil || !utf8.ValidString(name+text) {
			return nil, invalid("the query string is malformed: want percent-encoded UTF-8")
		}
		pairs = append(pairs, member{name, value{kind: kindString, text: text}})
	}
	return pairs, nil
}
