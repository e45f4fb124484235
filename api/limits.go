package api

import (
	"cmp"
	"reflect"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// Limits bound what the clients of a Server can make it hold at once. Zero means
// the default. What they do not bound for themselves, the number of requests that
// run, is at most that of the connections.
type Limits struct {
	Streams     int // event streams that are open, and threads that connections follow, in all; 10,000
	Connections int // of one Serve call, those of its streams and WebSockets left out; 256
	Imports     int // session files that are read; 2
	Peers       int // WebSockets that are open, in all; 1,000
	Follows     int // threads that one connection follows; 1,000
	TokenPeers  int // WebSockets that are open with one token; 256
	Requests    int // per second with one token, in a burst twice as many; 500
	PageBytes   int // of the texts in one answer that can be continued, as JSON; 4 MiB
}

func (l Limits) orDefault() Limits {
	return Limits{
		Streams: cmp.Or(l.Streams, 10_000), Connections: cmp.Or(l.Connections, 256),
		Imports: cmp.Or(l.Imports, 2), Peers: cmp.Or(l.Peers, 1000), Follows: cmp.Or(l.Follows, 1000),
		TokenPeers: cmp.Or(l.TokenPeers, 256), Requests: cmp.Or(l.Requests, 500),
		PageBytes: cmp.Or(l.PageBytes, 4<<20),
	}
}

// maxAlone is the most that the texts of an element have which is an answer by
// itself, where a smaller one would do: room for all that is not text is left.
const maxAlone = jsonrpc.MaxFrame - 1<<20

// A quota is how many of something there may be at once.
type quota chan struct{}

func (q quota) take() bool {
	select {
	case q <- struct{}{}:
		return true
	default:
		return false
	}
}

func (q quota) give() { <-q }

// pageOf reads a page of a list: as many elements as q asks for, or fewer, but
// one, if their texts are more than an answer may hold. Read maps a page of the
// service and returns the cursors after and before it.
func pageOf[T any](s *Server, q threads.PageQuery, read func(threads.PageQuery) (page []T, next, back string, err error)) ([]T, NextPage, BackPage, error) {
	for {
		page, next, back, err := read(q)
		if err != nil {
			return nil, NextPage{}, BackPage{}, err
		}
		n := s.fitting(len(page), func(i int) int { return weigh(reflect.ValueOf(&page[i])) })
		if n == len(page) {
			return page, NextPage{nullable(next)}, BackPage{nullable(back)}, nil
		}
		q.Limit = n // read again, for the cursor after the last one that fits
	}
}

// fitting returns how many of n elements fit into an answer: one at least.
func (s *Server) fitting(n int, weight func(i int) int) int {
	total := 0
	for i := range n {
		if total += weight(i); total > s.caps.PageBytes && i > 0 {
			return i
		}
	}
	return n
}

// weigh counts the bytes of all texts in a value of the wire, as JSON has them:
// nothing else in it can be large.
func weigh(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.String:
		n = weighText(v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = weigh(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += weigh(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		for i := range v.Len() {
			n += weigh(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += weigh(it.Key()) + weigh(it.Value())
		}
	}
	return n
}

// weighText counts the bytes of a text as JSON has it, quotes left out. A character
// that is escaped has up to six.
func weighText(s string) int {
	n := len(s)
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
				n += len(`\u2028`) - size
			}
			i += size
			continue
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += len(`\u0001`) - 1
		}
		i++
	}
	return n
}
