package threads

import (
	"context"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file tells runtimes what models find in their contexts: the pins, and how
// things stand after a compaction. Both are notes of the server beside the input of a
// turn (TurnInput.Notes), and in the journal, so that nothing is told twice: the pins
// once to each native session, again after its history was replaced, and when they
// changed; the re-anchor once after each replacement. Notes of a turn from which nothing
// was heard count as not told. The instruction files of the folder are no part of them:
// runtimes read those themselves.

// Told is what a native session was told of the pins.
type Told struct {
	Session string `json:"session"` // its native id
	Hash    string `json:"hash"`    // of the text; of none if there were no pins
}

// unpinned is what a session is told that knows pins which are gone.
const unpinned = "The user has taken the pins away. What was pinned before does not count any more.\n"

// repinned opens the pins for a session that knows others.
const repinned = "The pins were changed. These replace all that was pinned before.\n\n"

// untold returns what a native session does not know yet of the pins, and the fact that
// it does once it was told; empty if there is nothing to tell.
func (s *state) untold(session string) (text string, told Told) {
	pins := pinsText(s.Pins)
	told = Told{Session: session, Hash: hashOf(pins)}
	knows := s.Told.Session == session && s.Told.Hash != ""
	switch {
	case s.Told == told, pins == "" && (!knows || s.Told.Hash == hashOf("")):
		return "", told
	case pins == "":
		return unpinned, told
	case knows && s.Told.Hash != hashOf(""):
		return repinned + pins, told
	}
	return pins, told
}

// tellSession journals what a native session is about to be told of the pins, and
// answers with it.
type tellSession struct {
	turn    transcript.TurnID
	session string
}

func (c tellSession) decide(s *state, env env) (decision, error) {
	if s.Active != c.turn {
		return decision{}, errOver(c.turn)
	}
	text, told := s.untold(c.session)
	d := decision{answer: func(*state) any { return text }}
	if text != "" {
		if err := s.checkPins(); err != nil {
			return decision{}, err
		}
		note := transcript.Notice{Source: transcript.SourcePins, Text: text}
		d.payloads = []Payload{ItemCompleted{Item: wholeItem(env, c.turn, note), Told: &told}}
	}
	return d, nil
}

// notes adds to what a turn is to restate what its session does not know yet.
func (a *actor) notes(ctx context.Context, turn transcript.TurnID, sess *session, restated string) (string, error) {
	if !a.keeps(sess.settings) {
		return "", nil // it is in the context
	}
	v, err := a.send(ctx, message{cmd: tellSession{turn, sess.NativeID()}})
	if err != nil {
		return "", err
	}
	return joined(v.(string), restated), nil
}

// joined is two notes as one text.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimSuffix(a, "\n") + "\n\n" + b
}

// keeps reports whether the provider of settings keeps its own history.
func (a *actor) keeps(settings Settings) bool {
	p, ok := a.svc.provider(settings.Provider)
	return ok && isRuntime(p)
}

// isRuntime reports whether a provider keeps its own history.
func isRuntime(p Provider) bool {
	_, is := p.Adapter.(adapters.Runtime)
	return is
}

// restates is the re-anchor that a turn began with.
func (s *state) restates(turn transcript.TurnID) string {
	for _, it := range slices.Backward(s.Transcript.Items) {
		if it.Turn != turn {
			break
		}
		if note, ok := it.Body.(transcript.Notice); ok && note.Source == sourceReanchor {
			return note.Text
		}
	}
	return ""
}

// unheard reports whether nothing was heard from the provider in the turn in progress,
// so that nobody knows whether it heard anything itself.
func (s *state) unheard() bool {
	if s.Usage.TurnID == s.Active && s.Usage.Model != "" {
		return false
	}
	for _, it := range slices.Backward(s.Transcript.Items) {
		if it.Turn != s.Active {
			break
		}
		switch it.Body.Kind() {
		case transcript.KindUserMessage, transcript.KindNotice, transcript.KindContextCompaction:
		default:
			return false
		}
	}
	return true
}

// forgetNotes folds a turn whose notes may not have arrived.
func (s *state) forgetNotes(turn transcript.TurnID) {
	s.Told = Told{}
	if s.Reanchor == "" {
		s.Reanchor = s.restates(turn)
	}
}
