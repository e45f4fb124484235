package importer_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// dataDir finds the recorded sessions, which are not part of the repository.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PLIMSOLL_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST.json")); err != nil {
		t.Skip("SKIPPED: no recorded sessions; set PLIMSOLL_DATA to the folder that has MANIFEST.json")
	}
	return dir
}

// recorded reads a recorded session once for all tests, which only look at it.
func recorded(t *testing.T, path string) *importer.Session {
	t.Helper()
	read, _ := sessions.LoadOrStore(path, sync.OnceValue(func() *importer.Session { return readFile(t, path) }))
	return read.(func() *importer.Session)()
}

var sessions sync.Map // path to func() *importer.Session

func readFile(t *testing.T, path string) *importer.Session {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := importer.Read(f, importer.Limits{})
	if err != nil {
		t.Fatalf("Read(%s): %v", filepath.Base(path), err)
	}
	return s
}

// canonicalItem is one line of the reference importer's output.
type canonicalItem struct {
	Kind string          `json:"k"`
	Turn int             `json:"turn"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
	Call string          `json:"cid"`
	Err  bool            `json:"err"`
	ID   string          `json:"id"`
	Text string          `json:"txt"`
}

func canonical(t *testing.T, path string) []canonicalItem {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var items []canonicalItem
	dec := json.NewDecoder(bufio.NewReader(zip))
	for dec.More() {
		var it canonicalItem
		if err := dec.Decode(&it); err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	return items
}

// asCanonical writes a session the way the reference importer does.
func asCanonical(s *importer.Session) []canonicalItem {
	var out []canonicalItem
	turns := map[transcript.TurnID]int{}
	boundary := 0
	turnOf := func(it transcript.Item) int {
		if _, ok := turns[it.Turn]; !ok {
			turns[it.Turn] = len(turns) + 1
		}
		return turns[it.Turn]
	}
	for _, it := range s.Transcript.Items {
		c := canonicalItem{Turn: turnOf(it), ID: string(it.ID), Text: transcript.Text(it.Body)}
		switch b := it.Body.(type) {
		case transcript.UserMessage:
			c.Kind = "user"
		case transcript.AgentMessage:
			c.Kind = "assistant"
		case transcript.Reasoning:
			c.Kind = "reasoning"
		case transcript.ToolCall:
			c.Kind, c.Name, c.Args, c.Call, c.Text = "call", b.Name, b.Arguments, string(b.CallID), ""
		case transcript.ToolResult:
			c.Kind, c.Call, c.Err = "result", string(b.CallID), b.IsError
		case transcript.Command:
			c.Kind = "meta"
		case transcript.Notice:
			c.Kind = map[string]string{"meta": "meta", "microcompact": "micro"}[b.Source]
		case transcript.ContextCompaction:
			c.Kind = "boundary"
		}
		out = append(out, c)
		if c.Kind != "boundary" {
			continue
		}
		if cp := s.Transcript.Boundaries[boundary].Checkpoint; cp != nil {
			out = append(out, canonicalItem{Kind: "summary", ID: string(cp.ID), Text: transcript.Text(cp.Body)})
		}
		boundary++
	}
	return out
}

// TestRecordedSessionsEqualTheReference compares every recorded session, item by
// item, with the output of an independent importer.
func TestRecordedSessionsEqualTheReference(t *testing.T) {
	dir := dataDir(t)
	files, err := filepath.Glob(filepath.Join(dir, "canonical", "*.items.jsonl.gz"))
	if err != nil || len(files) < 32 {
		t.Fatalf("%d reference files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".items.jsonl.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := filepath.Join(dir, "claude-code", name+".jsonl.gz")
			if _, err := os.Stat(source); err != nil {
				source = filepath.Join(dir, "pi", name+".jsonl")
			}
			want, got := canonical(t, file), asCanonical(recorded(t, source))
			if len(got) != len(want) {
				t.Errorf("%d items, want %d", len(got), len(want))
			}
			turns := 0 // turns that the reference begins at a mark of interruption, which here ends one
			for i := range min(len(got), len(want)) {
				g, w := got[i], want[i]
				if strings.HasPrefix(w.Text, "[Request interrupted by user") && w.Kind == "user" {
					turns++
				}
				w.Turn -= turns
				if diff := compareItem(g, w); diff != "" {
					t.Fatalf("item %d differs (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func compareItem(got, want canonicalItem) string {
	var a, b any
	if want.Kind == "call" {
		if json.Unmarshal(got.Args, &a) != nil || json.Unmarshal(want.Args, &b) != nil {
			return "arguments are not JSON"
		}
	}
	if diff := cmp.Diff(b, a); diff != "" {
		return diff
	}
	if want.Kind == "meta" && strings.HasPrefix(want.Text, `{"role": "bashExecution"`) {
		var cmd struct{ Command, Output string }
		if err := json.Unmarshal([]byte(want.Text), &cmd); err != nil {
			return err.Error()
		}
		want.Text = cmd.Command + "\n" + cmd.Output
	}
	switch want.Kind {
	case "boundary", "micro", "summary":
		got.Turn, want.Turn = 0, 0 // the reference gives them none
	}
	if want.Kind == "micro" || want.Kind == "boundary" {
		got.Text, want.Text = "", ""
	}
	if want.ID == "" || strings.HasPrefix(got.ID, want.ID+"-") {
		got.ID, want.ID = "", "" // no id in the file, or one record of several items
	}
	got.Args, want.Args = nil, nil
	return cmp.Diff(want, got)
}

// manifestEntry is what the index of the recorded sessions says of one.
type manifestEntry struct {
	File        string            `json:"file"`
	Raw         int64             `json:"raw"`
	ToolCalls   int               `json:"tool_calls"`
	Compactions []json.RawMessage `json:"compactions"`
	Models      []string          `json:"models"`
}

func TestRecordedSessionsMatchTheManifest(t *testing.T) {
	dir := dataDir(t)
	raw, err := os.ReadFile(filepath.Join(dir, "MANIFEST.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []manifestEntry
	if err := json.Unmarshal(raw, &entries); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.File, "claude-code/") {
			continue
		}
		checked++
		s := recorded(t, filepath.Join(dir, e.File))
		calls := 0
		for _, it := range s.Transcript.Items {
			if it.Body.Kind() == transcript.KindToolCall {
				calls++
			}
		}
		if calls != e.ToolCalls || len(s.Transcript.Boundaries) != len(e.Compactions) {
			t.Errorf("%s: %d calls and %d boundaries, want %d and %d", e.File, calls, len(s.Transcript.Boundaries), e.ToolCalls, len(e.Compactions))
		}
		if len(s.Warnings) > 0 {
			t.Errorf("%s: warnings %v", e.File, s.Warnings)
		}
		for i, b := range s.Transcript.Boundaries {
			if b.Checkpoint == nil {
				t.Errorf("%s: boundary %d has no summary", e.File, i+1)
			}
		}
	}
	if checked != 30 {
		t.Errorf("checked %d sessions, want 30", checked)
	}
}

func TestRecordedSessionsAreValidAndImportTwiceTheSame(t *testing.T) {
	dir := dataDir(t)
	files, _ := filepath.Glob(filepath.Join(dir, "claude-code", "*.gz"))
	more, _ := filepath.Glob(filepath.Join(dir, "pi", "*.jsonl"))
	for _, file := range append(files, more...) {
		first := recorded(t, file)
		checkValid(t, first)
		if second := readFile(t, file); !reflect.DeepEqual(first, second) { // cmp alone is slow on sessions of this size
			t.Errorf("%s imports differently the second time:\n%s", filepath.Base(file), cmp.Diff(first, second))
		}
		if first.Title == "" || first.Model == "" || first.SourceID == "" || first.Cwd == "" || first.StartedAt.IsZero() {
			t.Errorf("%s: title %q, model %q, id %q, cwd %q", filepath.Base(file), first.Title, first.Model, first.SourceID, first.Cwd)
		}
	}
}

func TestForeignFormatsAreRefusedByName(t *testing.T) {
	dir := dataDir(t)
	for pattern, word := range map[string]string{
		"gemini-cli/*.json": "Gemini CLI", "swe-agent/*.traj": "SWE-agent", "tau-bench/*.json": "tau-bench",
	} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(files) == 0 {
			t.Errorf("no files for %s", pattern)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = importer.Read(bytes.NewReader(raw), importer.Limits{})
			wantRefusal(t, err, word)
		}
	}
}
