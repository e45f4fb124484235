package conform

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// A row is one thing that clients rely on.
type row struct {
	name   string
	what   string        // it demands, in a sentence
	limit  time.Duration // 0: rowLimit
	real   bool          // it needs no control of the model
	paid   bool          // it asks the model of a real endpoint
	can    func(*Scripted) string
	script func(*world)
}

const (
	rowLimit  = 60 * time.Second
	longLimit = 120 * time.Second
)

// Rows returns the names of the rows, in order, with what each demands.
func Rows() (names, demands []string) {
	for _, r := range rows {
		names, demands = append(names, r.name), append(demands, r.what)
	}
	return names, demands
}

// Costs counts the rows that ask a model of a subject which may have to be paid.
func Costs(s Subject) (n int) {
	for _, r := range rows {
		if costs(s, r) {
			n++
		}
	}
	return n
}

func costs(s Subject, r row) bool {
	return s.Scripted == nil && s.Missing == "" && s.Kind != "offline" && r.real && r.paid
}

// Options choose what Run does.
type Options struct {
	Only []string // names of rows; none: all
	Free bool     // no row that may cost money
	// Tell is told each result when it is there; nil: nobody is.
	Tell func(Result)
}

// Run holds a subject to the rows.
func Run(ctx context.Context, s Subject, o Options) (all []Result) {
	for _, r := range rows {
		if len(o.Only) > 0 && !slices.Contains(o.Only, r.name) {
			continue
		}
		if o.Free && costs(s, r) {
			all = append(all, Result{Provider: s.Name, Version: s.Version, Row: r.name, Outcome: Skipped, Reason: "it asks a real model, which may cost money: say --yes"})
			continue
		}
		res := hold(ctx, s, r)
		if o.Tell != nil {
			o.Tell(res)
		}
		all = append(all, res)
	}
	return all
}

// hold holds a subject to one row.
func hold(ctx context.Context, s Subject, r row) (res Result) {
	begun := time.Now()
	defer func() {
		res.Provider, res.Version, res.Row, res.DurationMs = s.Name, s.Version, r.name, time.Since(begun).Milliseconds()
	}()
	if why := unable(s, r); why != "" {
		return Result{Outcome: Skipped, Reason: why}
	}
	limit := r.limit
	if limit == 0 {
		limit = rowLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	goroutines, files := count(), littered()
	w := &world{ctx: ctx, sub: s}
	res = w.perform(r)
	err := w.close()
	if err == nil {
		err = leaked(goroutines)
	}
	if err == nil {
		if left := slices.DeleteFunc(littered(), func(f string) bool { return slices.Contains(files, f) || !strings.HasPrefix(f, w.site.Dir) }); len(left) > 0 && w.site.Dir != "" {
			err = fmt.Errorf("files are left: %s", strings.Join(left, ", "))
			_ = os.RemoveAll(w.site.Dir) // it is told already
		}
	}
	if err != nil && res.Outcome != Fail {
		return Result{Outcome: Fail, Expected: "nothing is left of it", Seen: told(err)}
	}
	return res
}

// unable says why a subject is not held to a row.
func unable(s Subject, r row) string {
	switch {
	case s.Missing != "":
		return s.Missing
	case s.Scripted == nil && !r.real:
		return "its model is not ours to control"
	case s.Scripted != nil && r.can != nil:
		return r.can(s.Scripted)
	}
	return ""
}

// perform runs the script of a row and returns its verdict.
func (w *world) perform(r row) (res Result) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case verdict:
			res = v.Result
			if w.model != nil && res.Outcome == Fail && len(w.model.Mistakes()) > 0 {
				res.Seen += "; the model server complains: " + strings.Join(w.model.Mistakes(), "; ")
			}
		default:
			panic(v)
		}
	}()
	r.script(w)
	if w.model != nil {
		mistakes := w.model.Mistakes()
		w.demand(len(mistakes) == 0, "the model is asked what the row makes it answer", "%s", strings.Join(mistakes, "; "))
	}
	return Result{Outcome: Pass}
}

// refused ends the row with a refusal that reached the client.
func refused(code, reason string) {
	panic(verdict{Result{Outcome: Refused, Code: code, Reason: reason}})
}
