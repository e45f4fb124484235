package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A quiet handler does not let one line fill a disk: what is said more often than
// logBurst times in logWindow is counted, and told as one line when it is said again
// after that. What is said once is never held back, and the clock is that of the records.
type quiet struct {
	slog.Handler
	scope string // the attributes and groups that the handler was given
	said  *logged
}

const (
	logBurst  = 10
	logWindow = time.Minute
	// logKinds bounds what is remembered: of more different lines than these none is held back.
	logKinds = 1000
)

// logged is what was logged lately.
type logged struct {
	mu    sync.Mutex
	lines map[string]*loggedLine
}

type loggedLine struct {
	since time.Time
	times int
}

func newQuiet(h slog.Handler) quiet { return quiet{h, "", &logged{lines: map[string]*loggedLine{}}} }

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	held, repeated := q.said.count(q.scope+sameLine(r), r.Time)
	if held {
		return nil
	}
	if repeated > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("held_back", repeated))
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(as []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(as), q.scope + fmt.Sprint(as), q.said}
}

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.scope + name + ".", q.said}
}

// sameLine is what makes two lines the same one: everything but the time.
func sameLine(r slog.Record) string {
	var b strings.Builder
	b.WriteString(r.Level.String() + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString("\x00" + a.String())
		return true
	})
	return b.String()
}

// count notes a line and reports whether it is held back, or else how many of it were.
func (s *logged) count(line string, now time.Time) (held bool, repeated int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[line]
	if l == nil || now.Sub(l.since) >= logWindow {
		if l != nil {
			repeated = max(l.times-logBurst, 0)
		} else {
			s.forget(now)
		}
		if l != nil || len(s.lines) < logKinds {
			s.lines[line] = &loggedLine{now, 1}
		}
		return false, repeated
	}
	l.times++
	return l.times > logBurst, 0
}

// forget makes room: it drops lines whose time is over.
func (s *logged) forget(now time.Time) {
	if len(s.lines) < logKinds {
		return
	}
	for line, l := range s.lines {
		if now.Sub(l.since) >= logWindow {
			delete(s.lines, line)
		}
	}
}
