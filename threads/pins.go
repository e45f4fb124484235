package threads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// limits of pins.
const (
	maxPins  = 64     // of a thread
	maxPin   = 16_000 // code points of one
	pinShare = 10     // all of them together have at most one part in so many of the window
)

// PinParams is a text to pin.
type PinParams struct {
	Thread         transcript.ThreadID
	Text           string
	IdempotencyKey string
}

// A PinList is all pins of a thread, oldest first, and how much room they have.
type PinList struct {
	Pins   []Pin
	Tokens int // of all pins, by transcript.EstimateText
	Limit  int // of Tokens
	AsOf   events.Cursor
}

// A PinAck is a pin that is there now. Known says that the text was pinned already,
// so that nothing changed.
type PinAck struct {
	Pin   Pin
	Known bool
	AsOf  events.Cursor
}

// AddPin pins a text: from its next request on the thread carries it verbatim, as a
// part of the base that no compaction touches. A text is pinned once.
func (s *Service) AddPin(ctx context.Context, p PinParams) (PinAck, error) {
	if err := checkText("text", p.Text, maxPin); err != nil {
		return PinAck{}, err
	}
	if strings.TrimSpace(p.Text) == "" {
		return PinAck{}, fault.New(fault.Invalid, "text is empty; a pin needs something to say")
	}
	hash := requestHash([]string{string(p.Thread), p.Text})
	return ask[PinAck](ctx, s, p.Thread, inUse{addPin{p.Text, p.IdempotencyKey, hash}, p.IdempotencyKey, hash})
}

// RemovePin takes a pin away, from the next request on.
func (s *Service) RemovePin(ctx context.Context, id transcript.ThreadID, pin string) (PinList, error) {
	return ask[PinList](ctx, s, id, inUse{command: removePin{pin}})
}

// Pins lists the pins of a thread.
func (s *Service) Pins(ctx context.Context, id transcript.ThreadID) (PinList, error) {
	return query(ctx, s, id, func(a *actor) PinList { return a.state.pinList(a.svc.cfg.Policy, a.window) })
}

func (s *state) pinList(p compaction.Policy, window int) PinList {
	l := PinList{Pins: append([]Pin{}, s.Pins...), Limit: pinLimit(p, window), AsOf: s.cursor()}
	for _, pin := range s.Pins {
		l.Tokens += pin.Tokens
	}
	return l
}

// pinLimit is a tenth of the window, or of what the policy takes for it while it is
// unknown.
func pinLimit(p compaction.Policy, window int) int {
	if window <= 0 {
		window = p.Fire(compaction.Load{})
	}
	return window / pinShare
}

// addPin is AddPin.
type addPin struct{ text, key, hash string }

func (c addPin) decide(s *state, env env) (decision, error) {
	prior, again, err := s.repeated(c.key, c.hash)
	if err != nil {
		return decision{}, err
	}
	if again {
		if !slices.ContainsFunc(s.Pins, func(p Pin) bool { return p.ID == prior.Result }) {
			return decision{}, fault.New(fault.Conflict, "idempotency key %q added pin %s, which was removed since", c.key, prior.Result)
		}
		return decision{answer: pinned(prior.Result, true)}, nil
	}
	pin := Pin{
		ID: env.newID(), Text: c.text, Hash: hashOf(c.text), Tokens: transcript.EstimateText(c.text), AddedAt: transcript.Millis(env.now),
	}
	if i := slices.IndexFunc(s.Pins, func(p Pin) bool { return p.Hash == pin.Hash }); i >= 0 {
		d := decision{answer: pinned(s.Pins[i].ID, true)}
		if a := s.acceptance(env, c.key, c.hash, s.Pins[i].ID); a != nil {
			d.payloads = []Payload{PinsChanged{Pins: s.Pins, Accepted: a}} // so that the key gets this answer again
		}
		return d, nil
	}
	l := s.pinList(env.policy, env.window)
	switch {
	case len(s.Pins) >= maxPins:
		return decision{}, fault.New(fault.TooLarge, "the thread has %d pins already; at most %d are allowed, so remove one first", len(s.Pins), maxPins)
	case l.Tokens+pin.Tokens > l.Limit:
		return decision{}, fault.New(fault.TooLarge,
			"the pin has %d tokens and the others %d; together at most %d are allowed, a tenth of the window: shorten it or remove another one",
			pin.Tokens, l.Tokens, l.Limit)
	}
	return decision{
		payloads: []Payload{PinsChanged{
			Pins: append(slices.Clip(slices.Clone(s.Pins)), pin), Accepted: s.acceptance(env, c.key, c.hash, pin.ID),
		}},
		answer: pinned(pin.ID, false),
	}, nil
}

// pinned answers with a pin.
func pinned(id string, known bool) func(*state) any {
	return func(s *state) any {
		ack := PinAck{Known: known, AsOf: s.cursor()}
		if i := slices.IndexFunc(s.Pins, func(p Pin) bool { return p.ID == id }); i >= 0 {
			ack.Pin = s.Pins[i]
		}
		return ack
	}
}

// removePin is RemovePin.
type removePin struct{ id string }

func (c removePin) decide(s *state, env env) (decision, error) {
	is := func(p Pin) bool { return p.ID == c.id }
	if !slices.ContainsFunc(s.Pins, is) {
		return decision{}, fault.New(fault.NotFound, "thread %s has no pin %s", s.ID, c.id)
	}
	return decision{
		payloads: []Payload{PinsChanged{Pins: slices.DeleteFunc(append([]Pin{}, s.Pins...), is)}},
		answer:   func(s *state) any { return s.pinList(env.policy, env.window) },
	}, nil
}

// hashOf is the hash of a pin's text.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// pinsText is what a request carries of the pins: stable bytes, each text verbatim.
func pinsText(pins []Pin) string {
	if len(pins) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(pinsHead)
	for _, p := range pins {
		fmt.Fprintf(&b, pinFrame, p.ID, p.Text, p.ID)
	}
	return b.String()
}

const (
	pinsHead = "Pinned by the user. This counts for the whole conversation.\n"
	pinFrame = "\n--- pin %s ---\n%s\n--- end of pin %s ---\n"
)

// checkPins reports an error unless the next request would carry every pin as it was
// added: each text, as it stands in what is sent, has the hash of its pin.
func (s *state) checkPins() error {
	rest, ok := strings.CutPrefix(pinsText(s.Pins), pinsHead)
	for _, p := range s.Pins {
		var found bool
		rest, found = strings.CutPrefix(rest, "\n--- pin "+p.ID+" ---\n")
		if ok = ok && found && len(rest) >= len(p.Text); !ok || hashOf(rest[:len(p.Text)]) != p.Hash {
			return fault.New(fault.Corrupt, "pin %s is not what was pinned: its hash is not %s", p.ID, p.Hash)
		}
		if rest, found = strings.CutPrefix(rest[len(p.Text):], "\n--- end of pin "+p.ID+" ---\n"); !found {
			return fault.New(fault.Corrupt, "pin %s is not whole in what is sent", p.ID)
		}
	}
	if rest != "" {
		return fault.New(fault.Corrupt, "what is sent of the pins holds more than the pins")
	}
	return nil
}

// A preamble is what the server adds to the base of each request, as it was last.
type preamble struct {
	tokens int    // by transcript.Ruler
	bare   int    // by transcript.EstimateText
	warned string // what was said last about instruction files that are left out
}

// preamble returns what the next request carries beside the base of its session: the
// instruction files of the working folder, read anew, and the pins. The same files
// and pins give the same bytes. Nothing of it is ever part of what is compacted.
func (a *actor) preamble() string {
	text := a.instructions()
	if pins := pinsText(a.state.Pins); text == "" {
		text = pins
	} else if pins != "" {
		text += "\n" + pins
	}
	a.carried.tokens, a.carried.bare = transcript.Tokens(transcript.Notice{Text: text}), transcript.EstimateText(text)
	return text
}

// instructions reads the instruction files. Clients are told once of what is left
// out.
func (a *actor) instructions() (text string) {
	if a.svc.cfg.Instructions == nil {
		return ""
	}
	err := guard(func() (err error) {
		text, err = a.svc.cfg.Instructions(a.state.Settings.Cwd)
		return err
	})
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != a.carried.warned && said != "" {
		a.after(0, func(a *actor) {
			if a.failed == nil && !a.state.Deleted {
				if _, err := a.run(warn{said}); err != nil {
					a.svc.log.Warn("tell of instruction files", "thread", a.id, "err", err)
				}
			}
		})
	}
	a.carried.warned = said
	return text
}

// warn tells the thread's clients something.
type warn struct{ text string }

func (c warn) decide(*state, env) (decision, error) {
	return decision{payloads: []Payload{WarningRaised{c.text}}}, nil
}
