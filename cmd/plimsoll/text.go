package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
	"unsafe"
)

// An output is stdout of one run. It remembers the first error, so that a result
// that could not be written ends in a failure and not in silence. If nobody reads
// it any more it calls gone, so that the run ends and cleans up.
type output struct {
	w    io.Writer
	gone func()
	err  error
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	o.err = err
	if errors.Is(err, syscall.EPIPE) {
		o.gone()
	}
	return n, err
}

// say writes text. On stdout its error is not lost: the output remembers it.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// shut closes what was only read, or what has failed already.
func shut(c io.Closer) { _ = c.Close() }

// A style marks text for terminals; the zero style leaves it plain.
type style struct{ on bool }

func (s style) wrap(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(t string) string   { return s.wrap("1", t) }
func (s style) dim(t string) string    { return s.wrap("2", t) }
func (s style) good(t string) string   { return s.wrap("32", t) }
func (s style) bad(t string) string    { return s.wrap("31", t) }
func (s style) notice(t string) string { return s.wrap("33", t) }

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	var t syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&t)))
	return errno == 0
}

// setColour turns colour on for a terminal whose user did not turn it off.
func (m *Main) setColour() {
	m.style.on = isTerminal(m.Stdout) && m.Getenv("NO_COLOR") == "" && m.Getenv("TERM") != "dumb"
}

// thousands writes n with separators: 64,000.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// percent writes part of whole with one decimal, or a dash if whole is unknown.
func percent(part, whole int) string {
	if whole <= 0 {
		return "–"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}

// plural counts things: 1 item, 2 items.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// printable returns s with control characters made visible, so that what a model
// or a file says cannot drive the user's terminal. Line feeds and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r // its picture
		case r == 0x7f:
			return 0x2421
		case r >= 0x80 && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return utf8.RuneError // C1 controls and direction overrides
		}
		return r
	}, s)
}

// oneLine returns the beginning of s on one line of at most n code points.
func oneLine(s string, n int) string {
	s = printable(strings.Join(strings.Fields(s), " "))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// A table is rows of cells printed in aligned columns; a column whose cells are
// all numbers is aligned to the right.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer, s style) {
	width := make([]int, len(t.head))
	right := make([]bool, len(t.head))
	for i, h := range t.head {
		width[i] = utf8.RuneCountInString(h)
		numbers, others := 0, 0
		for _, row := range t.rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
			switch {
			case row[i] == "–": // unknown, of either kind
			case strings.Trim(row[i], "0123456789,.% ") == "" && row[i] != "":
				numbers++
			default:
				others++
			}
		}
		right[i] = numbers > 0 && others == 0
	}
	line := func(cells []string) string {
		var b strings.Builder
		for i, c := range cells {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if right[i] {
				b.WriteString(pad + c + "  ")
			} else {
				b.WriteString(c + pad + "  ")
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	if strings.Join(t.head, "") != "" {
		say(w, "%s\n", s.dim(line(t.head)))
	}
	for _, row := range t.rows {
		say(w, "%s\n", line(row))
	}
}
