package threads

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// limits of InjectItems.
const (
	maxInjected      = 1000
	maxInjectedBytes = 4 << 20
	maxInjectedDepth = 500 // the journal nests an item further, and JSON decoders have an end
)

// originResponses is the origin of items of the Responses API.
const originResponses = "responses"

// InjectItems adds raw items of the Responses API to the context of an idle
// thread, without a turn: no client sees them as messages. They are kept byte for
// byte, up to white space; of those that are messages the text is kept beside, for
// rulers and for models of other providers.
func (s *Service) InjectItems(ctx context.Context, id transcript.ThreadID, raw []transcript.RawJSON) error {
	bodies, err := injected(raw)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, id, message{cmd: inUse{command: injectItems{bodies}}})
	return err
}

// injected checks raw items and reads what they say.
func injected(raw []transcript.RawJSON) ([]transcript.Opaque, error) {
	switch {
	case len(raw) == 0:
		return nil, fault.New(fault.Invalid, "items is empty; it needs at least one item")
	case len(raw) > maxInjected:
		return nil, fault.New(fault.TooLarge, "there are %d items; at most %d are allowed", len(raw), maxInjected)
	}
	size, bodies := 0, make([]transcript.Opaque, len(raw))
	for i, r := range raw {
		if size += len(r); size > maxInjectedBytes {
			return nil, fault.New(fault.TooLarge, "the items have more than %d bytes", maxInjectedBytes)
		}
		switch {
		case !isObject(r):
			return nil, fault.New(fault.Invalid, "items[%d] is not a JSON object", i)
		case !utf8.Valid(r):
			return nil, fault.New(fault.Invalid, "items[%d] is not valid UTF-8", i)
		case depth(r) > maxInjectedDepth:
			return nil, fault.New(fault.Invalid, "items[%d] is nested more than %d deep", i, maxInjectedDepth)
		}
		bodies[i] = transcript.Opaque{Origin: originResponses, Raw: bytes.Clone(r), Text: messageText(r)}
	}
	return bodies, nil
}

// isObject reports whether raw is one JSON object.
func isObject(raw transcript.RawJSON) bool {
	return json.Valid(raw) && bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

// depth is how far a valid JSON value is nested.
func depth(raw transcript.RawJSON) int {
	open, deepest, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

// messageText is what an item says if it is a message: its texts, one a line.
func messageText(raw transcript.RawJSON) string {
	var item struct {
		Type    string             `json:"type"`
		Role    string             `json:"role"`
		Content transcript.RawJSON `json:"content"`
	}
	if json.Unmarshal(raw, &item) != nil || item.Type != "message" && (item.Type != "" || item.Role == "") {
		return ""
	}
	var text string
	if json.Unmarshal(item.Content, &text) == nil {
		return text
	}
	var parts []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if json.Unmarshal(item.Content, &parts) != nil {
		return ""
	}
	var lines []string
	for _, p := range parts {
		if p.Text += p.Refusal; p.Text != "" {
			lines = append(lines, p.Text)
		}
	}
	return strings.Join(lines, "\n")
}

// injectItems is InjectItems. The items belong to the newest turn, so that they
// leave the thread together with what they follow; in a thread without turns, to
// none.
type injectItems struct{ bodies []transcript.Opaque }

func (c injectItems) decide(s *state, env env) (decision, error) {
	if err := s.mustRest(); err != nil {
		return decision{}, err
	}
	var turn transcript.TurnID
	if n := len(s.Transcript.Turns); n > 0 {
		turn = s.Transcript.Turns[n-1].ID
	}
	ps, tokens := make([]Payload, 0, len(c.bodies)+1), s.tokens
	for _, b := range c.bodies {
		ps = append(ps, ItemCompleted{Item: wholeItem(env, turn, b)})
		tokens += transcript.Tokens(b)
	}
	return decision{payloads: append(ps, s.estimate(env, turn, tokens))}, nil
}

// estimate reports the size of the next request where no provider has counted it.
// What was spent stays spent.
func (s *state) estimate(env env, turn transcript.TurnID, tokens int) Payload {
	return UsageUpdated{TurnID: turn, Total: s.Usage.Total, Context: env.base + tokens, Base: env.base, Source: transcript.Ruler, Window: env.window}
}
