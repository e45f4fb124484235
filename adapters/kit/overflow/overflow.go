// Package overflow tells what kind of failure a model server's error is, and above
// all whether the request was larger than the context window. No two servers say
// that alike; some say it inside a stream that began with status 200, some in a
// bare string, some only as text wrapped in another error.
//
// The order of judgement, where the first that applies decides:
//
//  1. a machine-readable code that means overflow, in a field or quoted in a text;
//  2. wording that only looks like overflow: rate limits count tokens too, and the
//     bound of an answer is not the window;
//  3. status 429 and 5xx, which are never overflow by their wording alone, unless
//     the body itself names another status (a gateway that relays an error);
//  4. wording that means overflow;
//  5. what has too many bytes: status 413, or wording that says so. Evidence of
//     tokens has won before that, because no compaction of text makes images
//     smaller;
//  6. other codes, then the status.
//
// Only fields that servers use for errors are read. What a server echoes of the
// request, such as the input that a validation refused, is never taken for its
// words.
package overflow

// The classes are those of adapters.Class, which this package may not import.
const (
	window      = "contextWindowExceeded"
	tooLarge    = "payloadTooLarge"
	rateLimited = "usageLimitExceeded"
	overloaded  = "serverOverloaded"
	server      = "internalServerError"
	denied      = "unauthorized"
	badRequest  = "badRequest"
	filtered    = "contentFilter"
)

// A Verdict is what an error means.
type Verdict struct {
	Class string // a value of adapters.Class; empty if there is no error
	// Message is for people: at most 500 bytes of UTF-8 on one line. It is the
	// server's own text, so the caller redacts secrets.
	Message string
	// Requested and Limit are the tokens of an overflow as far as the server named
	// them, else 0. Requested is the input alone where the server told it apart from
	// the answer's share, and may be a lower bound (vLLM counts only up to its
	// limit). Limit is the window, or the bound of the input if only that was named.
	Requested, Limit int
	// Ambiguous: the status is 400 or 413 and nothing was said, which some servers
	// do when the window is exceeded (Cerebras). The class is then badRequest or
	// payloadTooLarge; whoever knows the size of the request decides by it.
	Ambiguous bool
}

// Classify judges an answer by its status and body. A status below 400, also 0,
// is that of a stream: its event is judged as an error only if it is shaped like
// one. Time is linear in the body.
func Classify(status int, body []byte) Verdict {
	a := read(body)
	if status < 400 {
		if !a.failed {
			return Verdict{}
		}
		status = a.status
	}
	if status >= 500 && a.status >= 400 && a.status < 500 {
		status = a.status
	}
	v := judge(status, a)
	if v.Class == window {
		v.Requested, v.Limit = a.tokens()
	}
	if v.Message == "" {
		v.Message = a.summary(status)
	}
	v.Message = bound(v.Message)
	return v
}

// judge applies the order of the package comment. It sets the message if one of
// several decided.
func judge(status int, a answer) Verdict {
	if a.has(windowCodes) {
		return Verdict{Class: window, Message: a.matching(positive)}
	}
	if m := a.matching(codeInText); m != "" {
		return Verdict{Class: window, Message: m}
	}
	for _, n := range negative {
		if m := a.matching(n.words); m != "" {
			return Verdict{Class: n.class, Message: m}
		}
	}
	if status != 429 && status < 500 {
		if m := a.matching(positive); m != "" {
			return Verdict{Class: window, Message: m}
		}
	}
	if m := a.matching(manyBytes); m != "" {
		return Verdict{Class: tooLarge, Message: m}
	}
	for _, c := range specific {
		if a.has(c.codes) {
			return Verdict{Class: c.class}
		}
	}
	said := len(a.messages) > 0 || len(a.codes) > 0
	return Verdict{Class: byStatus(status, a), Ambiguous: !said && (status == 400 || status == 413)}
}

// byStatus is the class of an error that only its status tells; 0 if a stream did
// not say it.
func byStatus(status int, a answer) string {
	switch {
	case status == 401 || status == 403:
		return denied
	case status == 402 || status == 429:
		return rateLimited
	case status == 413:
		return tooLarge
	case status == 503 || status == 529:
		return overloaded
	case status == 408 || status >= 500:
		return server
	case status >= 400 || a.has(requestCodes):
		return badRequest
	default:
		return server
	}
}
