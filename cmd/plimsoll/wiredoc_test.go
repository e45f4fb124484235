package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const wireDoc = "../../docs/wire.md"

// spoken is the script of the provider of the conversation in docs/wire.md.
const spoken = "-- compact ok --\n-- turn deploy --\nask run make deploy => done\nsay Deployed.\n-- turn * --\nsay Hello there.\n"

// spokenNames stand for the UUIDs of the conversation, by when they come.
var spokenNames = []string{"THREAD", "TURN-1", "INPUT-1", "TURN-2", "INPUT-2", "REQUEST", "COMPACTION", "TURN-3"}

// maxSpoken is how long a text is shown.
const maxSpoken = 100

// spokenMembers are what the document shows of the objects that are longer than that,
// by the member they hang at.
var spokenMembers = map[string][]string{
	"thread":     {"id", "status", "cwd"},
	"turn":       {"id", "status", "kind"},
	"item":       {"type", "id", "content", "text", "command", "status", "exitCode", "compactionId"},
	"compaction": {"compactionId", "trigger", "route", "phase", "outcome", "epoch"},
	"plimsoll":   {},
	"params":     {"threadId", "turnId", "itemId", "thread", "turn", "item", "status", "offset", "delta", "command", "cwd", "reason", "request", "requestId", "outcome", "by", "compaction", "cursor", "message", "error", "willRetry"},
	"result":     {"userAgent", "codexHome", "thread", "model", "turn", "queued", "steered", "asOf", "compactionId", "compaction", "status", "data"},
	"request":    {"id", "method"},
}

// TestConversationOfTheWireDocumentIsReal holds the frames that docs/wire.md shows to
// those of a session of app-server on stdio.
func TestConversationOfTheWireDocumentIsReal(t *testing.T) {
	b, err := os.ReadFile(filepath.FromSlash(wireDoc))
	mustDo(t, err)
	doc := string(b)
	_, part, ok := strings.Cut(doc, "<!-- conversation:")
	part, _, ended := strings.Cut(part, "<!-- end: conversation -->")
	if !ok || !ended || strings.Count(part, "\n> ") < 8 {
		t.Fatal("docs/wire.md has no conversation")
	}
	s := &spokenSession{program: start(t, scripted(t, spoken), "app-server"), names: map[string]string{}}
	var got []string
	lines := strings.Split(part, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "< ") {
			continue
		}
		got = append(got, line)
		text, sends := strings.CutPrefix(line, "> ")
		if !sends {
			continue
		}
		s.send(s.actual(text))
		want := 0
		for i+1+want < len(lines) && strings.HasPrefix(lines[i+1+want], "< ") {
			want++
		}
		got = append(got, s.hear(want)...)
	}
	mustDo(t, s.in.Close())
	if rest := s.hear(-1); len(rest) > 0 {
		t.Errorf("more is said than the document shows: %s", strings.Join(rest, "\n"))
	}
	said := strings.Join(got, "\n")
	if *update {
		mustDo(t, os.WriteFile(filepath.FromSlash(wireDoc), []byte(strings.Replace(doc, part, said, 1)), 0o644))
		return
	}
	for i, line := range got {
		if i >= len(lines) || line != lines[i] {
			t.Fatalf("docs/wire.md shows\n%s\nand what is said is\n%s\n(make update)", strings.Join(lines[i:min(i+1, len(lines))], ""), line)
		}
	}
}

// A spokenSession is a session whose frames are written as the document shows them.
type spokenSession struct {
	*program
	names   map[string]string // by UUID
	ids     []string
	journal string
	ahead   []frame
}

const shownJournal = "k3v9x0qa"

var (
	spokenUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	spokenTime   = regexp.MustCompile(`"(\w*At)":\d+`)
	spokenMillis = regexp.MustCompile(`"(\w*AtMs)":\d+`)
	spokenCursor = regexp.MustCompile(`"(asOf|cursor)":"([a-z0-9]+)\.`)
	spokenHost   = regexp.MustCompile(`"(userAgent|codexHome)":"[^"]*"`)
)

// actual puts what this session has for the names of the document into a frame.
func (s *spokenSession) actual(text string) string {
	for i, id := range s.ids {
		text = strings.ReplaceAll(text, `"`+spokenNames[i]+`"`, `"`+id+`"`)
	}
	return strings.ReplaceAll(text, shownJournal, s.journal)
}

// hear returns the next n frames, deltas of one item that follow each other as one;
// all up to the end if n is negative. To update the document it returns what comes
// until nothing comes.
func (s *spokenSession) hear(n int) (shown []string) {
	s.t.Helper()
	for n < 0 || *update || len(shown) < n {
		f, ok := s.next(n < 0)
		if !ok {
			break
		}
		if strings.HasSuffix(strings.ToLower(f.Method), "delta") {
			f = s.join(f)
		}
		shown = append(shown, "< "+s.shown(f.raw))
	}
	return shown
}

func (s *spokenSession) next(last bool) (frame, bool) {
	if len(s.ahead) > 0 {
		f := s.ahead[0]
		s.ahead = nil
		return f, true
	}
	wait := 20 * time.Second
	if *update && !last {
		wait = time.Second
	}
	select {
	case f, ok := <-s.out:
		return f, ok
	case <-time.After(wait):
		return frame{}, false
	}
}

// join adds the deltas that follow one.
func (s *spokenSession) join(f frame) frame {
	text := spokenDelta.FindStringSubmatch(f.raw)[1]
	for {
		more, ok := s.next(false)
		if !ok || more.Method != f.Method {
			if ok {
				s.ahead = []frame{more}
			}
			f.raw = spokenDelta.ReplaceAllLiteralString(f.raw, `"delta":"`+text+`"`)
			return f
		}
		text += spokenDelta.FindStringSubmatch(more.raw)[1]
	}
}

var spokenDelta = regexp.MustCompile(`"delta":"([^"]*)"`)

// shown is a frame as the document has it.
func (s *spokenSession) shown(raw string) string {
	s.t.Helper()
	raw = spokenUUID.ReplaceAllStringFunc(raw, func(id string) string {
		if strings.HasPrefix(id, "00000000-") {
			return id // of a thread that does not exist
		}
		if s.names[id] == "" {
			if len(s.ids) == len(spokenNames) {
				s.t.Fatalf("there is no name for %s in %s", id, raw)
			}
			s.names[id] = spokenNames[len(s.ids)]
			s.ids = append(s.ids, id)
		}
		return s.names[id]
	})
	if m := spokenCursor.FindStringSubmatch(raw); m != nil {
		s.journal = m[2]
	}
	raw = spokenCursor.ReplaceAllString(raw, `"$1":"`+shownJournal+`.`)
	raw = spokenTime.ReplaceAllString(raw, `"$1":1790000000`)
	raw = spokenMillis.ReplaceAllString(raw, `"$1":1790000000000`)
	raw = spokenHost.ReplaceAllString(raw, `"$1":"…"`)
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	return abridged(s.t, dec, "")
}

// abridged writes the next value of dec, which hangs at a member of that name, with …
// for what spokenMembers leaves out.
func abridged(t *testing.T, dec *json.Decoder, name string) string {
	t.Helper()
	tok, err := dec.Token()
	mustDo(t, err)
	open, is := tok.(json.Delim)
	if !is {
		if text, ok := tok.(string); ok && len(text) > maxSpoken {
			tok = text[:maxSpoken] + "…"
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		mustDo(t, enc.Encode(tok))
		return strings.TrimSpace(b.String())
	}
	keep, long := spokenMembers[name]
	var parts []string
	cut := false
	for dec.More() {
		if open == '[' {
			parts = append(parts, abridged(t, dec, ""))
			continue
		}
		key, err := dec.Token()
		mustDo(t, err)
		value := abridged(t, dec, key.(string))
		if long && !slices.Contains(keep, key.(string)) {
			cut = true
			continue
		}
		parts = append(parts, `"`+key.(string)+`":`+value)
	}
	if cut {
		parts = append(parts, "…")
	}
	end, err := dec.Token()
	mustDo(t, err)
	return open.String() + strings.Join(parts, ",") + end.(json.Delim).String()
}
