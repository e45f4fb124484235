package session

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Ref says where in a file an item comes from: the id of its record, empty if
// it has none, and the index of its content block.
type Ref struct {
	Record string
	Block  int
	Line   int
}

// A Builder assembles a Session. Items are added in the order of the file.
type Builder struct {
	s         *Session
	lim       Limits
	dropped   int // warnings beyond the limit
	ids       map[transcript.ItemID]bool
	compacted map[transcript.CompactionID]bool
	byRecord  map[string][]int // indexes of a record's items
	lines     []int            // line of each item
	lastAt    time.Time
	prompted  bool // the current turn was begun by a prompt
	opening   bool // the next item begins a turn
	ends      map[transcript.TurnID]turnEnd
	kept      [][]int // per boundary: indexes of the kept items, ascending
	title     string
}

// turnEnd is what the file says about how a turn ended.
type turnEnd struct {
	status transcript.TurnStatus
	err    *transcript.TurnError
}

// NewBuilder returns a Builder of a session of the given source.
func NewBuilder(source string, lim Limits) *Builder {
	return &Builder{
		s: &Session{
			Source: source, Blobs: map[string][]byte{}, Warnings: []Warning{}, Skipped: map[string]int{},
			Transcript: transcript.Transcript{Turns: []transcript.Turn{}, Items: []transcript.Item{}, Boundaries: []transcript.Boundary{}},
		},
		lim: lim.WithDefaults(), ids: map[transcript.ItemID]bool{}, compacted: map[transcript.CompactionID]bool{},
		byRecord: map[string][]int{}, ends: map[transcript.TurnID]turnEnd{}, opening: true,
	}
}

// Session gives access to the descriptive fields: SourceID, Cwd, Model, Title.
func (b *Builder) Session() *Session { return b.s }

// Warn records what could not be read as meant.
func (b *Builder) Warn(line int, format string, args ...any) {
	if len(b.s.Warnings) >= b.lim.MaxWarnings {
		b.dropped++
		return
	}
	b.s.Warnings = append(b.s.Warnings, Warning{line, fmt.Sprintf(format, args...)})
}

// maxSkipped bounds the kinds that are counted apart: a hostile file could
// invent a new one in every record.
const maxSkipped = 200

// Skip counts a record or block that is left out on purpose.
func (b *Builder) Skip(kind string) {
	if _, ok := b.s.Skipped[kind]; !ok && (len(b.s.Skipped) >= maxSkipped || len(kind) > 80) {
		kind = "other"
	}
	b.s.Skipped[kind]++
}

// Prompt says that the next item is a prompt and begins a turn. Notices before
// it that no turn owns belong to that turn.
func (b *Builder) Prompt() {
	b.opening = b.opening || b.prompted || !b.onlyNotices()
	b.prompted = true
}

// onlyNotices reports whether the current turn holds nothing but notices.
func (b *Builder) onlyNotices() bool {
	items := b.s.Transcript.Items
	turn := b.turn()
	for i := len(items) - 1; i >= 0 && items[i].Turn == turn; i-- {
		if items[i].Body.Kind() != transcript.KindNotice {
			return false
		}
	}
	return true
}

func (b *Builder) turn() transcript.TurnID {
	if turns := b.s.Transcript.Turns; len(turns) > 0 {
		return turns[len(turns)-1].ID
	}
	return ""
}

// EndTurn says how the current turn ended as far as the file shows; a later call
// for the same turn replaces it. Without one the open calls decide.
func (b *Builder) EndTurn(status transcript.TurnStatus, err *transcript.TurnError) {
	if id := b.turn(); id != "" {
		b.ends[id] = turnEnd{status, err}
	}
}

// Add appends an item and returns its id.
func (b *Builder) Add(ref Ref, at time.Time, body transcript.Body) transcript.ItemID {
	at = b.Seen(at)
	id := b.itemID(ref, body)
	if b.opening {
		b.opening = false
		b.s.Transcript.Turns = append(b.s.Transcript.Turns, transcript.Turn{
			ID: "turn-" + transcript.TurnID(id), Kind: transcript.TurnUser, StartedAt: at,
		})
	}
	turn := &b.s.Transcript.Turns[len(b.s.Transcript.Turns)-1]
	turn.CompletedAt = at
	if ref.Record != "" {
		b.byRecord[ref.Record] = append(b.byRecord[ref.Record], len(b.s.Transcript.Items))
	}
	b.lines = append(b.lines, ref.Line)
	b.s.Transcript.Items = append(b.s.Transcript.Items, transcript.Item{ID: id, Turn: turn.ID, StartedAt: at, CompletedAt: at, Body: body})
	return id
}

// ReopenTurn withdraws what EndTurn said of the current turn.
func (b *Builder) ReopenTurn() { delete(b.ends, b.turn()) }

// Len returns the number of items added so far.
func (b *Builder) Len() int { return len(b.s.Transcript.Items) }

// ItemsOf returns the indexes of the items that a record yielded.
func (b *Builder) ItemsOf(record string) []int { return b.byRecord[record] }

// Seen notes a time of the file and returns it. Without one it returns that of
// the item before, because an item without a completion time counts as open.
func (b *Builder) Seen(at time.Time) time.Time {
	if at.IsZero() {
		return b.lastAt
	}
	b.lastAt = at
	if b.s.StartedAt.IsZero() || at.Before(b.s.StartedAt) {
		b.s.StartedAt = at
	}
	if at.After(b.s.EndedAt) {
		b.s.EndedAt = at
	}
	return at
}

// plainID is what an id of a file must look like to be used as it is. The API
// takes 64 letters, digits, _ and -, and no more in the ids that are made of it:
// turn-ID, and that of the synthetic result of a call that nothing answers.
var plainID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,56}$`)

// itemID returns the id of a record's block, or one that is derived from it if
// the file's own does not do; without one it is derived from the item.
func (b *Builder) itemID(ref Ref, body transcript.Body) transcript.ItemID {
	id := ref.Record
	if ref.Block > 0 {
		id = fmt.Sprintf("%s-%d", id, ref.Block)
	}
	switch {
	case ref.Record == "" || b.ids[transcript.ItemID(id)]:
		id = derivedID(string(body.Kind()), transcript.Text(body), fmt.Sprint(b.Len()))
	case !plainID.MatchString(id) || strings.HasSuffix(id, string(transcript.SyntheticID(""))):
		id = derivedID(id)
	}
	for b.ids[transcript.ItemID(id)] {
		id = derivedID(id)
	}
	b.ids[transcript.ItemID(id)] = true
	return transcript.ItemID(id)
}

func derivedID(from ...string) string { return "item-" + digest(from...)[:24] }

// Compaction appends the marker of a native compaction and opens an epoch that
// keeps the items with the given indexes whole.
func (b *Builder) Compaction(ref Ref, at time.Time, kept []int) {
	name := ref.Record
	if name == "" {
		name = fmt.Sprint(b.Len())
	}
	id := transcript.CompactionID(asUUID(digest(b.s.Source, b.s.SourceID, name)))
	for b.compacted[id] {
		id = transcript.CompactionID(asUUID(digest(string(id))))
	}
	b.compacted[id] = true
	b.Add(ref, at, transcript.ContextCompaction{CompactionID: id})
	t := &b.s.Transcript
	t.Boundaries = append(t.Boundaries, transcript.Boundary{Epoch: len(t.Boundaries) + 1, CompactionID: id, Covered: len(t.Items), Kept: []transcript.Kept{}})
	b.kept = append(b.kept, kept)
}

// Checkpoint gives the newest boundary its summary. It reports false if there
// is no boundary that still lacks one.
func (b *Builder) Checkpoint(ref Ref, at time.Time, text string) bool {
	t := &b.s.Transcript
	if len(t.Boundaries) == 0 || t.Boundaries[len(t.Boundaries)-1].Checkpoint != nil {
		return false
	}
	body := transcript.Checkpoint{Version: "native", Text: text}
	at = b.Seen(at)
	t.Boundaries[len(t.Boundaries)-1].Checkpoint = &transcript.Item{
		ID: b.itemID(ref, body), Turn: b.turn(), StartedAt: at, CompletedAt: at, Body: body,
	}
	return true
}

// Blob stores bytes and returns their hash.
func (b *Builder) Blob(data []byte) string {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	b.s.Blobs[hash] = data
	return hash
}

// Media turns base64 data of a message into a part: an image as a blob; another
// kind of document as a blob and a line of text that names it.
func (b *Builder) Media(line int, kind, mediaType, data string) transcript.Part {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(data))
	if err != nil {
		b.Warn(line, "%s is not valid base64 and was replaced by a marker", kind)
		return transcript.Part{Type: transcript.PartText, Text: fmt.Sprintf("[unreadable %s %s]", kind, mediaType)}
	}
	hash := b.Blob(raw)
	if kind == "image" {
		return transcript.Part{Type: transcript.PartImage, Blob: hash, MediaType: mediaType}
	}
	return transcript.Part{Type: transcript.PartText, Text: fmt.Sprintf("[%s %s, %d bytes, sha256 %s]", kind, mediaType, len(raw), hash)}
}

// Title proposes the first prompt's text as the title.
func (b *Builder) Title(text string) {
	if b.title == "" {
		b.title = oneLine(text, 80)
	}
}

// oneLine returns s with its white space collapsed and at most n runes.
func oneLine(s string, n int) string {
	line := []rune(strings.Join(strings.Fields(s), " "))
	if len(line) > n {
		return strings.TrimSpace(string(line[:n-1])) + "…"
	}
	return string(line)
}

// digest is the hex sha256 of its parts, unambiguous about where they end.
func digest(parts ...string) string {
	var all []byte
	for _, p := range parts {
		all = fmt.Appendf(all, "%d:%s", len(p), p)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}

// asUUID writes a digest as a UUID of version 8, which is for such values.
func asUUID(digest string) string {
	return digest[:8] + "-" + digest[8:12] + "-8" + digest[13:16] + "-a" + digest[17:20] + "-" + digest[20:32]
}
