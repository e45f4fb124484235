package chat

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/overflow"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// failure is the error that a server answered with: by its status, or 0 inside a
// stream, and its body.
func failure(status int, body []byte) *adapters.Error {
	v := overflow.Classify(status, body)
	if v.Class == "" { // an error in a shape that only we know, such as a bare code
		v = overflow.Classify(status, wrapped(body))
	}
	if v.Class == "" {
		v.Class, v.Message = string(adapters.ClassServer), excerpt(body)
	}
	e := &adapters.Error{
		Class: adapters.Class(v.Class), Status: status, Message: v.Message,
		Requested: v.Requested, Limit: v.Limit,
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the server answered with status %d and said nothing", status)
	}
	return e
}

// wrapped returns what an error says in the shape of one.
func wrapped(body []byte) []byte {
	var said any = json.RawMessage(body)
	if !json.Valid(body) {
		said = string(body)
	}
	b, err := transcript.Encode(map[string]any{"error": said})
	if err != nil { // valid JSON and texts always encode
		return nil
	}
	return b
}

// cut is the error of an answer that broke off.
func cut(format string, args ...any) error {
	return &adapters.Error{Class: adapters.ClassCut, Message: fmt.Sprintf(format, args...)}
}

// maxExcerpt bounds what is shown of an answer that cannot be read, in bytes.
const maxExcerpt = 200

// excerpt is the beginning of such an answer in one line, without what could move a
// terminal's cursor: it is shown to clients.
func excerpt(data []byte) string {
	s := string(data)
	if len(s) > maxExcerpt {
		s = s[:maxExcerpt] + "…"
	}
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// shares are texts that tell the input of a refused request apart from the bound of
// its answer, and the window: in that order (DeepSeek, OpenAI; vLLM in two forms).
var shares = []struct {
	words                *regexp.Regexp
	input, bound, window int
}{
	{words(`length is (\d+) tokens.*?\((\d+) in the messages, (\d+) in the completion`), 2, 3, 1},
	{words(`passed (\d+) input tokens and requested (\d+) output tokens.*?length is only (\d+)`), 1, 2, 3},
	{words(`length is (\d+) tokens.*?requested (\d+) output tokens and your prompt contains at least (\d+) input`), 3, 2, 1},
}

// roomFor returns how large an answer may be at most according to a refusal that
// came only because of the bound that was asked for; 0 if that was not it.
func roomFor(text string) int {
	for _, s := range shares {
		m := s.words.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		input, err1 := strconv.Atoi(m[s.input])
		window, err2 := strconv.Atoi(m[s.window])
		if room := window - input - window/100 - 16; err1 == nil && err2 == nil && room >= leastOutput {
			return room
		}
	}
	return 0
}
