// Package wiretest plays wire scripts: what clients send over JSON-RPC, and every
// frame that they must receive for it, in order. It exists for tests, and knows
// nothing of what serves; a script runs in memory and against a program alike.
//
// A script has two sections. What comes before the first is a comment.
//
//	-- fake --               what the provider does (adapters/fake)
//	-- wire --
//	A> {"id":1,…}            client A, which connects by it, sends a frame; an answer
//	                         must be to a request that A received
//	A>! {oops                the same, which is on purpose none of the protocol's
//	A< {"id":1,"result":…}   A receives a frame
//	A gone                   A closes its connection
//	restart                  the server ends and another one begins on its journal
//	wait 2s                  time passes, where it is the test's own
//
// Frames are compared as text, once what differs from run to run is made equal:
// each UUID is $1, $2, … by when the script first sees it, and can be sent by that
// name; times, cursors, and what a connection is told of the machine say only that
// they are there; deltas of one item that follow each other are one, because how a
// text is cut is not the protocol's.
//
// Guarantees:
//
//   - A frame that no line has is a failure. Where time is the test's own it is
//     found at once, also if it comes late; elsewhere when the next frame is
//     compared, or at the end of the script.
//   - Deltas that are joined continue each other.
//   - Every frame of both directions is judged by codex's schemas, if they are given.
package wiretest

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// A Script is a file of it.
type Script struct {
	Fake  string // the provider's script
	path  string
	head  string // all up to the lines
	lines []line
}

// A line is one step of a script.
type line struct {
	n      int    // in the file
	client string // empty: restart, wait or a comment
	verb   string // > | >! | < | gone | restart | wait | #
	text   string
}

const wireHead = "-- wire --\n"

// Load reads a script.
func Load(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, wire, ok := strings.Cut(string(b), wireHead)
	if !ok {
		return nil, fmt.Errorf("%s: no section wire", path)
	}
	s := &Script{path: path, head: head + wireHead}
	_, s.Fake, _ = strings.Cut(head, "-- fake --\n")
	n := strings.Count(s.head, "\n")
	for text := range strings.Lines(wire) {
		n++
		l, err := parse(strings.TrimRight(text, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		l.n = n
		s.lines = append(s.lines, l)
	}
	return s, nil
}

func parse(text string) (line, error) {
	if text == "" || strings.HasPrefix(text, "#") {
		return line{verb: "#", text: text}, nil
	}
	first, rest, _ := strings.Cut(text, " ")
	switch {
	case first == "restart":
		return line{verb: first}, nil
	case first == "wait":
		_, err := time.ParseDuration(rest)
		return line{verb: first, text: rest}, err
	case rest == "gone":
		return line{client: first, verb: rest}, nil
	}
	for _, verb := range []string{">!", ">", "<"} {
		if client, ok := strings.CutSuffix(first, verb); ok && client != "" {
			return line{client: client, verb: verb, text: rest}, nil
		}
	}
	return line{}, fmt.Errorf("no step: %q", text)
}

func (l line) String() string {
	switch l.verb {
	case "#":
		return l.text
	case "restart":
		return l.verb
	case "wait":
		return l.verb + " " + l.text
	case "gone":
		return l.client + " gone"
	}
	return l.client + l.verb + " " + l.text
}

// rewrite puts other lines into the file.
func (s *Script) rewrite(lines []line) error {
	var out strings.Builder
	out.WriteString(s.head)
	for _, l := range lines {
		out.WriteString(l.String() + "\n")
	}
	return os.WriteFile(s.path, []byte(out.String()), 0o644)
}

// Alone reports whether a script is of one connection to one server.
func (s *Script) Alone() bool {
	for _, l := range s.lines {
		if l.verb == "restart" || l.verb == "gone" || l.client != "" && l.client != "A" {
			return false
		}
	}
	return true
}
