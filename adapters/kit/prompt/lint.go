package prompt

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Finding is a rule that a request breaks. It holds no words of the conversation.
type Finding struct {
	Rule  string // L1 … L13
	Where string // such as "message 3 (tool), part 1"
	Text  string // what is wrong
	// Stuck says that no repair helps: the request is not to be sent.
	Stuck bool
}

// String says what is wrong, and what is sent instead.
func (f Finding) String() string {
	s := f.Rule + ": "
	if f.Where != "" {
		s += f.Where + ": "
	}
	s += f.Text
	if f.Stuck {
		return s
	}
	return s + "; " + remedies[f.Rule]
}

// remedies say what Mend does about the findings of a rule.
var remedies = map[string]string{
	"L1":  "the result is sent next to its call, or told as text",
	"L2":  "the call is sent with a result that says it was never answered",
	"L3":  "the identifier is replaced, for call and result alike",
	"L4":  "it is left out, or a marker is sent",
	"L5":  "it is sent as a user message, or left out if there is one already",
	"L6":  "a marked message is put in, or messages are joined",
	"L7":  "an empty object is sent, and the result quotes the arguments",
	"L8":  "its description is sent as text, or its true type is named",
	"L9":  "it is left out",
	"L10": "it is told as text, or left out",
	"L11": "the repetition is left out",
	"L12": "the mark is taken out",
	"L13": "images are told as text, oldest first, and long texts are clipped",
}

// Lint returns what is wrong with a request, in the order of the messages for each
// rule. It changes nothing.
func Lint(ms []Message, r Rules) []Finding {
	l := newLinter(ms, r)
	l.calls()
	l.order()
	for i, m := range ms {
		if len(m.Parts) == 0 {
			l.at("L4", i, -1, "the message is empty")
		} else if onlyThought(m) {
			l.at("L4", i, -1, "the message is nothing but thinking")
		}
		for j, p := range m.Parts {
			l.part(i, j, p)
		}
	}
	l.repetitions()
	l.size()
	return l.found
}

type linter struct {
	ms       []Message
	r        Rules
	boundary int // the last message with a checkpoint; -1 if there is none
	found    []Finding
}

func newLinter(ms []Message, r Rules) *linter {
	l := &linter{ms: ms, r: r, boundary: -1}
	for i, m := range ms {
		if slices.ContainsFunc(m.Parts, isCheckpoint) {
			l.boundary = i
		}
	}
	return l
}

func (l *linter) at(rule string, message, part int, format string, args ...any) {
	where := ""
	if message >= 0 {
		where = fmt.Sprintf("message %d (%s)", message, l.ms[message].Role)
		if part >= 0 {
			where += fmt.Sprintf(", part %d", part)
		}
	}
	l.found = append(l.found, Finding{Rule: rule, Where: where, Text: fmt.Sprintf(format, args...)})
}

// calls judges pairs: the results of a message's calls follow it directly, each
// once (L1, L2), and ids and names have their form (L3).
func (l *linter) calls() {
	seen := map[string]bool{}
	var open []string
	at := -1 // the message with the open calls
	settle := func() {
		for range open {
			l.at("L2", at, -1, "a call is not answered by the next message")
		}
		open = nil
	}
	for i, m := range l.ms {
		if m.Role != Tool {
			settle()
		}
		for j, p := range m.Parts {
			switch {
			case p.Kind == Call && m.Role == Assistant:
				l.ident(i, j, p)
				if seen[p.CallID] {
					l.at("L3", i, j, "the id of the call was used before")
				}
				seen[p.CallID] = true
				open, at = append(open, p.CallID), i
			case p.Kind == Result && m.Role == Tool:
				l.ident(i, j, p)
				if k := slices.Index(open, p.CallID); k < 0 {
					l.at("L1", i, j, "the result answers no call of the message before")
				} else {
					open = slices.Delete(open, k, k+1)
				}
			case len(open) > 0 && m.Role == Assistant:
				l.at("L2", i, j, "something stands between a call and its result")
			}
		}
	}
	settle()
}

func (l *linter) ident(i, j int, p Part) {
	if !l.r.IDs.Fits(p.CallID) {
		l.at("L3", i, j, "the id of the %s is not in the form of the wire", p.Kind)
	}
	if !l.r.Names.Fits(p.Name) {
		l.at("L3", i, j, "the name of the tool is not in the form of the wire")
	}
}

// order judges roles (L5, L6).
func (l *linter) order() {
	real := false
	for i, m := range l.ms {
		if m.Role == System && i > 0 {
			l.at("L5", i, -1, "a system message that is not the first message")
		}
		real = real || m.Role == User && slices.ContainsFunc(m.Parts, isReal)
		if i == 0 {
			continue
		}
		before := l.ms[i-1].Role
		if l.r.MergeRoles && m.Role == before && (m.Role == User || m.Role == Assistant) {
			l.at("L6", i, -1, "it has the role of the message before")
		}
		if l.r.Bridge && m.Role == User && before == Tool {
			l.at("L6", i, -1, "it follows results directly")
		}
	}
	if !real {
		l.at("L6", -1, -1, "there is no message of the user")
	}
	if i := first(l.ms); l.r.UserFirst && i < len(l.ms) && l.ms[i].Role != User {
		l.at("L6", i, -1, "the conversation does not begin with the user")
	}
	if i := len(l.ms) - 1; i >= 0 && !ends(l.ms[i]) {
		l.at("L6", i, -1, "a request ends with the user's words or with results")
	}
}

// isReal reports whether a part of a user message is more than notes.
func isReal(p Part) bool {
	switch p.By {
	case transcript.KindUserMessage, "":
		return p.Kind == Image || p.Kind == Text && !blank(p.Text)
	default:
		return false
	}
}

// ends reports whether a message can be the last one.
func ends(m Message) bool {
	if m.Role != User && m.Role != Tool || len(m.Parts) == 0 {
		return false
	}
	return m.Parts[len(m.Parts)-1].By != transcript.KindCheckpoint
}

// allowed are the kinds of part of each role.
var allowed = map[Role][]Kind{
	System:    {Text},
	User:      {Text, Image},
	Assistant: {Text, Reasoning, Opaque, Call},
	Tool:      {Result},
}

// part judges one part for itself (L4, L7, L8, L9, L10, L12).
func (l *linter) part(i, j int, p Part) {
	role := l.ms[i].Role
	if why := l.foreign(role, p); why != "" {
		l.at("L10", i, j, "%s", why)
		return
	}
	switch p.Kind {
	case Text:
		l.text(i, j, p.Text)
	case Reasoning:
		l.echo(i, j, p)
	case Opaque:
		if p.Sum != SumOf(p) {
			l.at("L9", i, j, "it is not as its provider sent it")
		}
	case Call:
		if !isObject(p.Arguments) {
			l.at("L7", i, j, "the arguments are no JSON object")
		}
		l.mark(i, j, string(p.Arguments))
	case Result:
		l.output(i, j, p)
	case Image:
		l.image(i, j, p)
	}
}

// foreign says why a part cannot be where it is.
func (l *linter) foreign(role Role, p Part) string {
	switch {
	case allowed[role] == nil:
		return "a role that no wire knows"
	case !slices.Contains(allowed[role], p.Kind):
		return fmt.Sprintf("a part of kind %q is no part of such a message", p.Kind)
	case p.Kind == Opaque && !slices.Contains(l.r.Origins, p.Origin):
		return "an item that only another provider understands"
	case p.Kind == Reasoning && !l.r.Reasoning:
		return "the endpoint takes no reasoning back"
	case p.Kind == Image && l.r.Images == ImagesNone:
		return "the endpoint takes no images"
	case p.Kind != Text && l.r.Writer:
		return "the request of a writer holds text only"
	}
	return ""
}

func (l *linter) text(i, j int, s string) {
	switch {
	case blank(s):
		l.at("L4", i, j, "the text is empty")
	case !utf8.ValidString(s):
		l.at("L4", i, j, "the text is not UTF-8")
	}
	l.mark(i, j, s)
}

func (l *linter) mark(i, j int, s string) {
	if !l.r.Writer && strings.Contains(s, transcript.WriterMark) {
		l.at("L12", i, j, "it holds the prompt of a checkpoint writer")
	}
}

// echo judges reasoning that is sent back.
func (l *linter) echo(i, j int, p Part) {
	switch {
	case p.Sum != SumOf(p) || blank(p.Text):
		l.at("L9", i, j, "the reasoning is not as the model gave it")
	case i < l.boundary:
		l.at("L9", i, j, "the reasoning is older than the last boundary")
	}
	l.mark(i, j, p.Text)
}

func isCheckpoint(p Part) bool { return p.By == transcript.KindCheckpoint }

func (l *linter) output(i, j int, p Part) {
	if len(p.Output) == 0 {
		l.at("L4", i, j, "the result has no output")
	}
	for _, o := range p.Output {
		switch {
		case o.Kind == Image && l.r.Images == ImagesAll:
			l.image(i, j, o)
		case o.Kind == Text:
			l.text(i, j, o.Text)
		default:
			l.at("L10", i, j, "a result holds a part of kind %q, which the endpoint does not take there", o.Kind)
		}
	}
}

// image judges the bytes of an image (L8).
func (l *linter) image(i, j int, p Part) {
	switch is := transcript.ImageType(p.Data); {
	case len(p.Data) == 0:
		l.at("L8", i, j, "the bytes of the image are missing")
	case is == "":
		l.at("L8", i, j, "the bytes are no image that endpoints take")
	case is != p.MediaType:
		l.at("L8", i, j, "the image is %s and is called %q", is, p.MediaType)
	}
}

// minRepeated is the length of a system text, in bytes, whose repetition is no
// accident.
const minRepeated = 16

// sourceReanchor is the source of the notice that restates the facts after a
// boundary.
const sourceReanchor = "reanchor"

// repetitions judges what occurs once only (L11): the system text, and what
// restates it after a boundary. Others may quote the system text, but nobody's
// whole message is it.
func (l *linter) repetitions() {
	said := map[string]bool{}
	text := systemText(l.ms)
	for i, m := range l.ms {
		for j, p := range m.Parts {
			if repeats(m, p, text) {
				l.at("L11", i, j, "it repeats the system text")
			}
			if restates(m, p) {
				if said[p.Text] {
					l.at("L11", i, j, "it repeats what was restated before")
				}
				said[p.Text] = true
			}
		}
	}
}

// systemText is the first message, if it is the system's.
func systemText(ms []Message) string {
	if len(ms) == 0 || ms[0].Role != System {
		return ""
	}
	var all []string
	for _, p := range ms[0].Parts {
		all = append(all, p.Text)
	}
	return strings.TrimSpace(strings.Join(all, "\n"))
}

// repeats reports whether a part holds the system text again: as the whole of any
// text, or anywhere in what the server or a provider put in.
func repeats(m Message, p Part, text string) bool {
	if len(text) < minRepeated || p.Kind != Text || m.Role == System {
		return false
	}
	if strings.TrimSpace(p.Text) == text {
		return true
	}
	switch p.By {
	case transcript.KindNotice, transcript.KindCheckpoint, transcript.KindOpaque:
		return strings.Contains(p.Text, text)
	default:
		return false
	}
}

// restates reports whether a part is a checkpoint or what was restated after one.
func restates(m Message, p Part) bool {
	return m.Role == User && p.Kind == Text && (isCheckpoint(p) || p.By == transcript.KindNotice && p.Source == sourceReanchor)
}

// size judges the request as a whole (L13).
func (l *linter) size() {
	if l.r.MaxBytes > 0 && !within(l.ms, l.r.MaxBytes) {
		l.at("L13", -1, -1, "the request has about %d bytes, the endpoint takes %d", Bytes(l.ms), l.r.MaxBytes)
	}
	if l.r.MaxTokens > 0 {
		if n := Tokens(l.ms); n > l.r.MaxTokens {
			l.at("L13", -1, -1, "the request has about %d tokens, the window has room for %d", n, l.r.MaxTokens)
			l.found[len(l.found)-1].Stuck = true
		}
	}
}
