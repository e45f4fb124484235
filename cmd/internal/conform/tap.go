package conform

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// A tap stands between an adapter and its program and passes on what both say. It adds
// lines to what the program says when it is told to, as a program would that tells of
// another session, or of what nobody asked for.

// TapArg is the first argument by which a program of this module becomes a tap.
const TapArg = "conform-tap"

// The variables of a tap's environment.
const (
	tapProgram = "PLIMSOLL_TAP_PROGRAM" // the real one
	tapPipe    = "PLIMSOLL_TAP_PIPE"    // where the lines come from
	tapUnset   = "PLIMSOLL_TAP_UNSET"   // a variable that the program does not get
	tapOld     = "PLIMSOLL_TAP_OLD"     // a text and, after a line feed, what the tap makes of it
)

// writeTap makes the program of a tap in a folder, and the pipe through which it is told.
func writeTap(dir string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if err := syscall.Mkfifo(pipeOf(dir), 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "tap")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s \"$@\"\n", strings.ReplaceAll(self, "'", `'\''`), TapArg)
	return path, os.WriteFile(path, []byte(script), 0o700)
}

func pipeOf(dir string) string { return filepath.Join(dir, "tap.pipe") }

// TapEnv is what the environment of a program needs for its tap.
func TapEnv(s Site, program string) []string {
	return []string{tapProgram + "=" + program, tapPipe + "=" + pipeOf(s.Dir)}
}

// TapReplaces has a tap replace a text wherever the program says it.
func TapReplaces(text, by string) string { return tapOld + "=" + text + "\n" + by }

// TapUnsets has a tap keep a variable of the environment from the program.
func TapUnsets(name string) string { return tapUnset + "=" + name }

// inject has the tap of a site say lines.
func inject(s Site, lines []string) error {
	f, err := os.OpenFile(pipeOf(s.Dir), os.O_WRONLY|syscall.O_NONBLOCK, 0) // a tap that is gone has nobody who reads
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// session finds the id of the session in what the program says.
var session = regexp.MustCompile(`"(?:threadId|session_id)":"([^"]+)"`)

// said is what goes to the adapter: whole lines, of the program and of others.
type said struct {
	mu   sync.Mutex
	part []byte // of a line of the program
	id   string // of the session, the newest that was seen
	to   *os.File

	old, by string // what is replaced
}

// Write implements io.Writer for the program's output.
func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part = append(s.part, b...)
	end := bytes.LastIndexByte(s.part, '\n') + 1
	if end == 0 {
		return len(b), nil
	}
	if m := session.FindSubmatch(s.part[:end]); m != nil {
		s.id = string(m[1])
	}
	line := s.part[:end]
	if s.old != "" {
		line = bytes.ReplaceAll(line, []byte(s.old), []byte(s.by))
	}
	_, err := s.to.Write(line)
	s.part = append([]byte(nil), s.part[end:]...)
	return len(b), err
}

func (s *said) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintln(s.to, strings.ReplaceAll(line, "{{session}}", s.id)) // who is gone hears nothing
}

// Tap is the tap. It ends with the program, with its status.
func Tap(args []string) int {
	pipe, err := os.OpenFile(os.Getenv(tapPipe), os.O_RDWR, 0) // so that it never ends
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out := &said{to: os.Stdout}
	out.old, out.by, _ = strings.Cut(os.Getenv(tapOld), "\n")
	go func() { // it ends with the process
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			out.add(lines.Text())
		}
	}()
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, os.Getenv(tapUnset)+"=") })
	p, err := proc.Start(proc.Spec{Argv: append([]string{os.Getenv(tapProgram)}, args...), Env: env, Stdin: os.Stdin, Stdout: out, Stderr: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	exit, _ := p.Wait() // who does not read any more is gone
	if exit.Code < 0 {
		return 1
	}
	return exit.Code
}
