package fake

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Script is what a provider does, by what the user says.
type Script struct {
	turns   []turn
	compact compaction
}

// A turn is the steps for an input that has a word, or for any if the word is *.
type turn struct {
	word  string
	steps []step
}

// A step is one line of a script.
type step struct {
	verb  string
	ask   bool   // the user is asked first
	what  string // the text, command, path, tool or duration
	more  string // what comes after =>
	exit  int
	delay time.Duration
}

// compaction is how the provider's own compaction goes.
type compaction struct {
	how    string // none | ok | fail | hang | refuse | deny | nothing | lossy | uncertain
	reason string
}

// Parse reads a script: sections that begin with `-- turn WORD --` or
// `-- compact HOW REASON --`, each with one step a line. Lines that begin with #
// and empty ones say nothing. HOW is none, or what comes of a compaction that the
// session has the ability for: ok, fail, hang, refuse, deny, nothing, lossy or uncertain.
//
//	say TEXT               an answer, streamed word by word
//	think TEXT             the same as disclosed thinking
//	pace DURATION          the time between two words from here on
//	delay DURATION         nothing happens for a while
//	hold                   nothing happens until the user steers or interrupts
//	quote                  says what the user steered with
//	run COMMAND => OUTPUT  a command and its output; exit N at the end of it fails
//	ask run …              the same once the user allows it
//	edit PATH => TEXT      a file and what it holds
//	ask edit …             the same once the user allows it
//	call TOOL JSON         a tool of the clients
//	plan A; B; C           the plan, the first step in progress
//	usage INPUT OUTPUT     the provider's count
//	retry TEXT             a failure that is tried again
//	fail TEXT              the turn fails
//	overflow               the turn fails because a request does not fit
//	crash                  the adapter panics
func Parse(text string) (*Script, error) {
	s := &Script{compact: compaction{how: "none", reason: "the script has no compaction"}}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if head, ok := section(line); ok {
			if err := s.begin(head); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			continue
		}
		if len(s.turns) == 0 {
			return nil, fmt.Errorf("line %d: a step before the first -- turn WORD --", n)
		}
		st, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		last := &s.turns[len(s.turns)-1]
		last.steps = append(last.steps, st)
	}
	return s, lines.Err()
}

func section(line string) (string, bool) {
	head, ok := strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(head, " --")
}

func (s *Script) begin(head string) error {
	kind, rest, _ := strings.Cut(head, " ")
	switch kind {
	case "turn":
		if rest == "" {
			return fmt.Errorf("a turn needs the word that it answers to, or *")
		}
		s.turns = append(s.turns, turn{word: rest})
	case "compact":
		how, reason, _ := strings.Cut(rest, " ")
		switch how {
		case "none", "ok", "fail", "hang", "refuse", "deny", "nothing", "lossy", "uncertain":
			s.compact = compaction{how, reason}
		default:
			return fmt.Errorf("compact %q: want none, ok, fail, hang, refuse, deny, nothing, lossy or uncertain", how)
		}
	default:
		return fmt.Errorf("section %q: want turn or compact", kind)
	}
	return nil
}

func parseStep(line string) (step, error) {
	st := step{}
	verb, rest, _ := strings.Cut(line, " ")
	if verb == "ask" {
		st.ask = true
		verb, rest, _ = strings.Cut(rest, " ")
	}
	st.verb, st.what = verb, rest
	var err error
	switch verb {
	case "say", "think", "retry", "fail", "overflow", "plan", "hold", "quote", "crash", "usage":
	case "pace", "delay":
		st.delay, err = time.ParseDuration(rest)
	case "run", "edit":
		st.what, st.more, _ = strings.Cut(rest, " => ")
		if out, code, ok := strings.Cut(st.more, " exit "); ok {
			st.more = out
			st.exit, err = strconv.Atoi(code)
		}
	case "call":
		st.what, st.more, _ = strings.Cut(rest, " ")
	default:
		err = fmt.Errorf("unknown step %q", verb)
	}
	if st.ask && verb != "run" && verb != "edit" {
		err = fmt.Errorf("only run and edit can ask")
	}
	return st, err
}

// stepsFor returns the steps for an input: of the first turn whose word it has.
func (s *Script) stepsFor(input string) ([]step, bool) {
	for _, t := range s.turns {
		if t.word == "*" || strings.Contains(input, t.word) {
			return t.steps, true
		}
	}
	return nil, false
}
