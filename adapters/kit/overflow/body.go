package overflow

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is looked at.
const (
	maxBody    = 256 << 10 // of a body, in bytes
	maxText    = 16 << 10  // of one message
	maxDepth   = 8         // of objects in objects, quoted ones among them
	maxStrings = 64        // messages and codes
	maxMessage = 500       // of a Verdict
)

// An answer is what an error body says, the outermost first.
type answer struct {
	messages []string
	codes    []string // lower case; numbers as text
	status   int      // of HTTP, named in the body; 0 if it names none
	prompt   int      // tokens in fields of their own (llama.cpp)
	window   int
	failed   bool // it is shaped like an error
}

// read finds what a body says. It may be an object, a list of them, a string, or
// plain text with an object inside.
func read(body []byte) answer {
	var a answer
	if len(body) > maxBody {
		body = body[:maxBody]
	}
	text := strings.TrimSpace(event.ReplaceAllString(string(body), ""))
	if v, is := decode(text); is {
		a.failed = fails(v)
		a.walk(v, 0)
		return a
	}
	a.text(text, 0)
	return a
}

// event is what comes before the data in an event stream that is given raw.
var event = regexp.MustCompile(`^\s*(event:[^\n]*\n)?data:`)

// decode reads one JSON value that is an object, a list or a string.
func decode(s string) (any, bool) {
	if s == "" || !strings.ContainsAny(s[:1], `{["`) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	return v, true
}

// fails reports whether a value is shaped like an error rather than like a piece
// of an answer.
func fails(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, fails)
	case map[string]any:
		o := lower(v)
		if o["type"] == "error" || o["object"] == "error" || there(o["error"]) || there(o["errors"]) {
			return true
		}
		if r, is := o["response"].(map[string]any); is && there(lower(r)["error"]) {
			return true
		}
		if _, is := o["choices"]; is {
			return false
		}
		message, _ := first(o, "message", "msg", "detail").(string)
		return message != "" && !fine(first(o, "code", "status", "__type"))
	default:
		return false
	}
}

// there reports whether a field holds anything.
func there(v any) bool { return v != nil && v != "" && v != false }

// fine reports whether a code says that all is well, or says nothing.
func fine(code any) bool {
	switch strings.ToLower(fmt.Sprint(code)) {
	case "<nil>", "", "0", "200", "ok", "success":
		return true
	default:
		return false
	}
}

func first(o map[string]any, keys ...string) any {
	for _, k := range keys {
		if o[k] != nil {
			return o[k]
		}
	}
	return nil
}

// lower returns an object with its keys in lower case: AWS writes Message.
func lower(o map[string]any) map[string]any {
	out := make(map[string]any, len(o))
	for k, v := range o {
		out[strings.ToLower(k)] = v
	}
	return out
}

// The fields that servers use for errors, in the order in which they are read.
var (
	codeKeys = []string{"code", "type", "status", "status_code", "statuscode", "error_code", "errorcode", "__type", "reason"}
	textKeys = []string{"message", "msg", "error", "detail", "error_description", "title"}
	deepKeys = []string{"error", "errors", "detail", "details", "message", "metadata", "raw", "response", "body", "cause", "innererror", "data"}
)

// walk collects what a decoded value says.
func (a *answer) walk(v any, depth int) {
	if depth > maxDepth || len(a.messages)+len(a.codes) > maxStrings {
		return
	}
	switch v := v.(type) {
	case string:
		a.text(v, depth)
	case []any:
		for _, e := range v {
			a.walk(e, depth+1)
		}
	case map[string]any:
		o := lower(v)
		for _, k := range codeKeys {
			a.code(k, o[k])
		}
		for _, k := range textKeys {
			if s, is := o[k].(string); is {
				a.text(s, depth+1)
			}
		}
		for _, k := range deepKeys {
			if s, is := o[k].(string); !is || k == "raw" || k == "body" {
				if !is || s != "" {
					a.walk(o[k], depth+1)
				}
			}
		}
		a.prompt = max(a.prompt, number(o["n_prompt_tokens"]))
		a.window = max(a.window, number(o["n_ctx"]))
	}
}

// code takes a field that may hold a code. A number may be a status.
func (a *answer) code(key string, v any) {
	var s string
	switch v := v.(type) {
	case string:
		s = strings.ToLower(v)
	case json.Number:
		s = v.String()
	default:
		return
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 400 && n < 600 {
		if a.status == 0 && key != "type" && key != "reason" {
			a.status = n
		}
		return
	}
	// AWS: a name after a namespace, or before a colon.
	_, s, _ = strings.Cut("#"+s[strings.LastIndex(s, "#")+1:], "#")
	s, _, _ = strings.Cut(s, ":")
	if s != "" && s != "error" && len(s) <= 100 {
		a.codes = append(a.codes, s)
	}
}

// quoted finds what may be an object inside a text.
var quoted = regexp.MustCompile(`[{\[]\s*["{]`)

// text takes a message, and what an object quoted in it says.
func (a *answer) text(s string, depth int) {
	if s = strings.TrimSpace(s); s == "" || depth > maxDepth {
		return
	}
	if len(s) > maxBody {
		s = s[:maxBody]
	}
	if at := quoted.FindStringIndex(s); at != nil {
		if v, is := decode(s[at[0]:]); is {
			a.plain(s[:at[0]])
			a.walk(v, depth+1)
			return
		}
	}
	a.plain(s)
}

// tag is a piece of markup: proxies answer with pages.
var tag = regexp.MustCompile(`(?s)<(style|script|head)\b.*?</(style|script|head)>|<[^>]*>`)

// plain takes a message that is only text.
func (a *answer) plain(s string) {
	if strings.HasPrefix(s, "<") {
		s = tag.ReplaceAllString(s, " ")
	}
	if len(s) > maxText {
		s = s[:maxText]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if strings.IndexFunc(s, unicode.IsLetter) >= 0 && !slices.Contains(a.messages, s) {
		a.messages = append(a.messages, s)
	}
}

func number(v any) int {
	n, is := v.(json.Number)
	if !is {
		return 0
	}
	f, err := n.Float64()
	if err != nil || f < 1 || f > maxTokens {
		return 0
	}
	return int(f)
}

// has reports whether one of some codes is named.
func (a answer) has(codes map[string]bool) bool {
	return slices.ContainsFunc(a.codes, func(c string) bool { return codes[c] })
}

// matching returns the first message that an expression matches, or nothing.
func (a answer) matching(words *regexp.Regexp) string {
	i := slices.IndexFunc(a.messages, words.MatchString)
	if i < 0 {
		return ""
	}
	return a.messages[i]
}

// summary is what was said altogether. A message that another one holds is left
// out.
func (a answer) summary(status int) string {
	var parts []string
	for i, m := range a.messages {
		told := slices.ContainsFunc(a.messages[:i], func(o string) bool { return strings.Contains(o, m) })
		if !told && len(parts) < 3 {
			parts = append(parts, strings.TrimRight(m, " :-"))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ": ")
	case len(a.codes) > 0:
		return "the server answered " + a.codes[0]
	case status == 0:
		return "the server reported an error without saying which"
	default:
		return strings.TrimSpace(fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))) + " and said nothing else"
	}
}

// bound cuts a text at the end of a character.
func bound(s string) string {
	const mark = "…"
	if len(s) <= maxMessage {
		return s
	}
	end := maxMessage - len(mark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
