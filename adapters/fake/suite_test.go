package fake_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func TestARuntimePassesTheSuite(t *testing.T) {
	for name, inFolder := range map[string]bool{"in memory": false, "in a folder": true} {
		t.Run(name, func(t *testing.T) {
			adaptertest.RunRuntime(t, func(t *testing.T, s adaptertest.Script) adaptertest.Program {
				opts := fake.RuntimeOptions{}
				if inFolder {
					opts.Dir = t.TempDir()
				}
				return program(t, script(t, played(s)), opts)
			})
		})
	}
}

func program(t *testing.T, s *fake.Script, o fake.RuntimeOptions) adaptertest.Program {
	r := fake.NewRuntime(s, o)
	return adaptertest.Program{
		Runtime: r,
		Told: func(id string) []string {
			history, err := r.History(id)
			if err != nil {
				t.Error(err)
			}
			told := r.Noted(id)
			for _, part := range history {
				if _, answer := strings.CutPrefix(part, "agentMessage: "); !answer || strings.Contains(part, seeded) {
					told = append(told, part)
				}
			}
			return told
		},
		Lose: func(id string) {
			if err := r.Lose(id); err != nil {
				t.Error(err)
			}
		},
	}
}

// seeded marks the answer in the suite's seed, which is told and not its own.
const seeded = "The parser is written."

// played is a script of the suite in the words of the fake, which has one answer for all
// inputs but those that are to hang.
func played(s adaptertest.Script) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- compact ok --\n")
	for _, reply := range s {
		for _, step := range reply {
			switch {
			case step.Hang:
				b.WriteString("-- turn hang --\nsay Two and\nhold\n")
			case step.Err != nil:
				fmt.Fprintf(&b, "-- compact %s %s --\n", comesTo(step.Err), step.Err)
			}
		}
	}
	b.WriteString("-- turn * --\nsay Yes.\nusage 10 5\n")
	return b.String()
}

// comesTo is the fake's word for what a compaction came to.
func comesTo(err error) string {
	_, refused := errors.AsType[*adapters.RefusedError](err)
	switch {
	case errors.Is(err, adapters.ErrNothingToCompact):
		return "nothing"
	case errors.Is(err, adapters.ErrLossy):
		return "lossy"
	case errors.Is(err, adapters.ErrUncertain):
		return "uncertain"
	case refused:
		return "refuse"
	case fault.CodeOf(err) == fault.Denied:
		return "deny"
	}
	return "fail"
}
