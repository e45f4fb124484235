package compaction

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// ledgerVersion is the format of Checkpoint.Ledger. A ledger of another version
// is not read: its checkpoint is then carried like a provider's own.
const ledgerVersion = 1

// Bounds of a ledger, so that it stays small however many generations it has
// seen. What falls out first is the oldest.
const (
	maxUserChars = 80_000 // beside what is owed verbatim
	maxUserHead  = 4_000  // of a message that is not
	maxSaidChars = 40_000
	maxReads     = 300
	maxEdits     = 2_000
	maxRuns      = 200
	maxNames     = 200
	maxCarried   = 16_000
)

// A ledger holds the deterministic facts of everything that a thread's
// checkpoints stand for. It is carried forward and merged, never summarised. All
// lists are in order of the last mention, oldest first.
type ledger struct {
	Version    int                   `json:"v"`
	Generation int                   `json:"generation"`
	Items      int                   `json:"items"` // summarised so far
	First      transcript.ItemID     `json:"first"` // the range they come from
	Last       transcript.ItemID     `json:"last"`
	Kept       int                   `json:"kept"` // entries retained beside the checkpoint; their facts are in here
	Room       int                   `json:"room"` // tokens beside the base that were asked for
	Users      []said                `json:"users"`
	Rules      []rule                `json:"rules,omitempty"`
	Agent      []said                `json:"agent"`
	Files      []fileFact            `json:"files"`
	Runs       []runFact             `json:"runs"`
	Names      []nameFact            `json:"names"`
	Plan       []transcript.PlanStep `json:"plan"`
	Carried    *said                 `json:"carried"` // the summary of a provider, as far as it was disclosed
	// Notes are what a model wrote last about everything up to then. The next model
	// replaces them, so that they are never nested.
	Notes *said `json:"notes,omitempty"`
}

// said is a message, perhaps clipped.
type said struct {
	ID   transcript.ItemID `json:"id"`
	Turn transcript.TurnID `json:"turn,omitempty"`
	Text string            `json:"text"`
}

// fileFact is a file that was read or changed.
type fileFact struct {
	Path  string   `json:"path"`
	Edits int      `json:"edits,omitempty"`
	Sigs  []string `json:"sigs,omitempty"` // lines that the newest edits declare
}

// runFact is a command and how it went the last time.
type runFact struct {
	Command string `json:"command"`
	Failed  bool   `json:"failed"`
	Error   string `json:"error,omitempty"`
	Done    bool   `json:"done"`              // a result was seen
	Stale   bool   `json:"stale"`             // files changed since
	Refused bool   `json:"refused,omitempty"` // by the user
	Exit    *int   `json:"exit,omitempty"`    // status, if it was told
	Cleared bool   `json:"cleared,omitempty"` // it failed, and a later command that includes it passed
}

// nameFact is a hash or an id and the line that introduced it.
type nameFact struct {
	Name string `json:"name"`
	Line string `json:"line"`
}

// table is an ordered set with the newest value per key at the end.
type table[V any] struct {
	at   map[string]int
	rows []V
	live []bool
}

func newTable[V any](rows []V, key func(V) string) *table[V] {
	t := &table[V]{at: make(map[string]int, len(rows))}
	for _, r := range rows {
		t.put(key(r), r)
	}
	return t
}

func (t *table[V]) get(key string) (V, bool) {
	if i, ok := t.at[key]; ok {
		return t.rows[i], true
	}
	var zero V
	return zero, false
}

func (t *table[V]) put(key string, v V) {
	if i, ok := t.at[key]; ok {
		t.live[i] = false
	}
	t.at[key] = len(t.rows)
	t.rows = append(t.rows, v)
	t.live = append(t.live, true)
}

// set replaces a value in place.
func (t *table[V]) set(key string, v V) {
	if i, ok := t.at[key]; ok {
		t.rows[i] = v
	}
}

// newest returns the last n rows, oldest first.
func (t *table[V]) newest(n int) []V {
	out := []V{}
	for i := len(t.rows) - 1; i >= 0 && len(out) < n; i-- {
		if t.live[i] {
			out = append(out, t.rows[i])
		}
	}
	slices.Reverse(out)
	return out
}

// readLedger returns the ledger of a checkpoint, or nil.
func readLedger(c transcript.Checkpoint) *ledger {
	if c.Ledger == nil {
		return nil
	}
	l := &ledger{}
	if json.Unmarshal(*c.Ledger, l) != nil || l.Version != ledgerVersion {
		return nil
	}
	return l
}

// fold starts a ledger from the checkpoints of the context: theirs is continued,
// a summary without one is carried as it is.
func fold(prev []*transcript.Item) *ledger {
	l := &ledger{}
	for _, it := range prev {
		c := it.Body.(transcript.Checkpoint)
		if old := readLedger(c); old != nil {
			carried := l.Carried
			if l = old; l.Carried == nil {
				l.Carried = carried
			}
		} else if c.Text != "" {
			l.Carried = &said{ID: it.ID, Turn: it.Turn, Text: clipSaid(c.Text, maxCarried)}
		}
	}
	l.Version = ledgerVersion
	if l.Rules == nil { // of a time when they were not noted
		for _, u := range l.Users {
			l.Rules = append(l.Rules, rulesOf(u.ID, u.Text)...)
		}
	}
	return l
}

func clipSaid(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return parsePiece(strings.ToValidUTF8(s, "\uFFFD")).clip(n*3/4, n/4, "")
}

// absorb adds to the ledger what only summarised items add: what was said, names,
// and the range. It returns nothing that depends on how the checkpoint is written.
func (p *planner) absorb() *ledger {
	l := *p.led
	l.Generation++
	l.Room = p.asked
	l.Kept = 0
	l.Users, l.Rules, l.Agent, l.Names = slices.Clone(l.Users), slices.Clone(l.Rules), slices.Clone(l.Agent), slices.Clone(l.Names)
	names := newTable(l.Names, func(n nameFact) string { return n.Name })
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.kept {
			l.Kept++
			continue
		}
		l.Items++
		l.Last = n.item.ID
		if l.First == "" {
			l.First = n.item.ID
		}
		switch n.kind {
		case transcript.KindUserMessage:
			l.Rules = append(l.Rules, rulesOf(n.item.ID, n.text)...)
			if n.quoted || !saysNothing(n.text) {
				l.Users = append(l.Users, n.said())
			}
		case transcript.KindAgentMessage:
			l.Agent = addLast(l.Agent, said{n.item.ID, n.item.Turn, clipSaid(n.text, 1_600)})
		default: // what else the ledger takes of an item does not depend on its kind
		}
		eachRef(n.text, func(name, line string) { names.put(name, nameFact{name, line}) })
	}
	l.Users = capSaid(l.Users, maxUserChars, p.verbatim)
	l.Rules = capRules(l.Rules)
	l.Agent = capSaid(l.Agent, maxSaidChars, nil)
	l.Names = names.newest(maxNames)
	return &l
}

// said is a message of the user as the ledger carries it.
func (n *node) said() said {
	text := strings.ToValidUTF8(n.text, "\uFFFD")
	if !n.quoted {
		text = clipSaid(text, maxUserHead)
	}
	return said{n.item.ID, n.item.Turn, text}
}

// addLast keeps the last text of each turn, and of long turns also one long
// enough to say something now and then.
func addLast(list []said, s said) []said {
	if strings.TrimSpace(s.Text) == "" {
		return list
	}
	if n := len(list); n > 0 && list[n-1].Turn == s.Turn && utf8.RuneCountInString(list[n-1].Text) < 200 {
		list[n-1] = s
		return list
	}
	return append(list, s)
}

// capSaid drops the oldest messages over max characters, except those that are
// owed and the very first one, which usually says what the thread is about.
func capSaid(list []said, max int, owed map[transcript.ItemID]bool) []said {
	out := make([]said, 0, len(list))
	for i, s := range slices.Backward(list) {
		n := utf8.RuneCountInString(s.Text)
		switch {
		case owed[s.ID], i == 0:
		case n > max:
			continue
		default:
			max -= n
		}
		out = append(out, s)
	}
	slices.Reverse(out)
	return out
}

// eachRef calls f for each commit hash and issue or ticket id in s, with the line
// it stands in.
func eachRef(s string, f func(name, line string)) {
	for line := range strings.Lines(s) {
		if len(line) > 2_000 {
			continue
		}
		for word := range strings.FieldsFuncSeq(line, notRefRune) {
			if isHash(word) || isTicket(word) {
				f(word, oneLine(line, 120))
			}
		}
	}
}

func notRefRune(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '#' && r != '-'
}

// isHash reports whether w looks like a commit hash.
func isHash(w string) bool {
	if len(w) < 7 || len(w) > 40 {
		return false
	}
	digit, letter := false, false
	for i := range len(w) {
		switch c := w[i]; {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'f':
			letter = true
		default:
			return false
		}
	}
	return digit && letter
}

// isTicket reports whether w looks like #123 or ABC-123.
func isTicket(w string) bool {
	if rest, ok := strings.CutPrefix(w, "#"); ok {
		return len(rest) >= 2 && len(rest) <= 6 && digits(rest)
	}
	key, num, ok := strings.Cut(w, "-")
	if !ok || len(key) < 2 || len(key) > 8 || len(num) > 6 || !digits(num) {
		return false
	}
	for i := range len(key) {
		if key[i] < 'A' || key[i] > 'Z' {
			return false
		}
	}
	return key != "UTF" && key != "SHA" && key != "ISO"
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
