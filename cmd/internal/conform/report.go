package conform

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A Matrix is what was found of several subjects.
type Matrix struct{ Results []Result }

// Failed counts the rows that failed.
func (m Matrix) Failed() (n int) {
	for _, r := range m.Results {
		if r.Outcome == Fail {
			n++
		}
	}
	return n
}

// Tried reports whether a provider was held to any row.
func (m Matrix) Tried(provider string) bool {
	return slices.ContainsFunc(m.Results, func(r Result) bool { return r.Provider == provider && r.Outcome != Skipped })
}

// providers returns the columns, in order, each with its version.
func (m Matrix) providers() (names []string, versions map[string]string) {
	versions = map[string]string{}
	for _, r := range m.Results {
		if !slices.Contains(names, r.Provider) {
			names = append(names, r.Provider)
			versions[r.Provider] = r.Version
		}
	}
	return names, versions
}

func (m Matrix) at(provider, row string) (Result, bool) {
	i := slices.IndexFunc(m.Results, func(r Result) bool { return r.Provider == provider && r.Row == row })
	if i < 0 {
		return Result{}, false
	}
	return m.Results[i], true
}

// rowNames returns the rows that were held, in order.
func (m Matrix) rowNames() (names []string) {
	for _, r := range rows {
		if slices.ContainsFunc(m.Results, func(res Result) bool { return res.Row == r.name }) {
			names = append(names, r.name)
		}
	}
	return names
}

// JSON writes one object a line.
func (m Matrix) JSON(w io.Writer) error {
	for _, r := range m.Results {
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Table writes the matrix for people, and behind it what there is to say.
func (m Matrix) Table(w io.Writer) error {
	names, versions := m.providers()
	var b strings.Builder
	width := []int{0}
	for _, r := range m.rowNames() {
		width[0] = max(width[0], len(r))
	}
	heads := []string{""}
	for _, p := range names {
		head := strings.TrimSpace(p + " " + versions[p])
		heads, width = append(heads, head), append(width, max(len(head), len(Skipped)))
	}
	line := func(cells []string) {
		var l strings.Builder
		for i, c := range cells {
			fmt.Fprintf(&l, "%-*s  ", width[i], c)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(heads)
	for _, row := range m.rowNames() {
		cells := []string{row}
		for _, p := range names {
			r, _ := m.at(p, row)
			cells = append(cells, string(r.Outcome))
		}
		line(cells)
	}
	for _, r := range m.Results {
		switch r.Outcome {
		case Fail:
			fmt.Fprintf(&b, "\nFAIL %s, %s\n  expected: %s\n  seen:     %s\n", r.Provider, r.Row, r.Expected, r.Seen)
		case Refused:
			fmt.Fprintf(&b, "\n%s, %s: refused with %s: %s\n", r.Provider, r.Row, r.Code, r.Reason)
		case Pass, Skipped:
		}
	}
	for _, s := range m.reasons(Skipped, Pass) {
		fmt.Fprintf(&b, "\n%s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// reasons groups what was said of rows with some outcomes: "chat: reason (rows)".
func (m Matrix) reasons(outcomes ...Outcome) (all []string) {
	type key struct{ provider, reason string }
	var order []key
	rowsOf := map[key][]string{}
	for _, r := range m.Results {
		if !slices.Contains(outcomes, r.Outcome) || r.Reason == "" {
			continue
		}
		k := key{r.Provider, string(r.Outcome) + ": " + r.Reason}
		if rowsOf[k] == nil {
			order = append(order, k)
		}
		rowsOf[k] = append(rowsOf[k], r.Row)
	}
	for _, k := range order {
		all = append(all, fmt.Sprintf("%s %s (%s)", k.provider, k.reason, strings.Join(rowsOf[k], ", ")))
	}
	return all
}

// Markdown writes the matrix as a page.
func (m Matrix) Markdown(w io.Writer, at time.Time) error {
	names, versions := m.providers()
	var b strings.Builder
	b.WriteString("# Conformance\n\n" +
		"What each adapter was held to, from the outside: through a whole server, with a scripted model server behind the provider. " +
		"Runtimes are the real programs; what they do not do on demand is put into what they say on their way to the adapter: another session's completion, " +
		"an older codex's version. This page is written by `make conformance`; `plimsoll conform --configured NAME` prints the same for a provider of yours, on its real model.\n\n" +
		"*pass*: what the row demands was seen, in the journal and at the model. *refused*: it cannot, and says so with code, reason and remedy; that this reaches " +
		"the client and leaves the thread as it was is checked. *skipped*: the row is not about such a provider, for the reason below.\n\n" +
		"*I1* to *I10* are what holds of every compaction: I1 one outcome; I2 calls stay with their results; I3 every item is summarised or kept, once; " +
		"I4 a local checkpoint is smaller than what it stands for; I5 nothing is made up for a native compaction; I6 nothing else is said or begun while one " +
		"runs; I7 the context changes in one commit with the record; I8 what was journaled never changes; I9 the last request and the user's words survive " +
		"verbatim; I10 what failed is not tried again and again.\n\n")
	fmt.Fprintf(&b, "Measured on %s.\n\n", at.UTC().Format("2006-01-02"))
	b.WriteString("| row | it demands |")
	for _, p := range names {
		fmt.Fprintf(&b, " %s |", strings.TrimSpace(p+" "+versions[p]))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(names)) + "\n")
	_, demands := Rows()
	all, _ := Rows()
	for _, row := range m.rowNames() {
		fmt.Fprintf(&b, "| %s | %s |", row, demands[slices.Index(all, row)])
		for _, p := range names {
			r, _ := m.at(p, row)
			cell := string(r.Outcome)
			if r.Outcome == Refused {
				cell += " `" + r.Code + "`"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n## What there is to say\n\n")
	for _, s := range m.reasons(Refused, Skipped, Pass) {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	for _, r := range m.Results {
		if r.Outcome == Fail {
			fmt.Fprintf(&b, "- **FAIL** %s, %s: expected: %s; seen: %s\n", r.Provider, r.Row, r.Expected, r.Seen)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
