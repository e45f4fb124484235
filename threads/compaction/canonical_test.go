package compaction

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// dataDir finds the shared sessions, or skips the test loudly.
func dataDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PLIMSOLL_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "canonical")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED, no real sessions were tested: %v (set PLIMSOLL_DATA)", err)
	}
	return dir
}

type canonicalItem struct {
	K    string          `json:"k"`
	Turn int             `json:"turn"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
	Cid  string          `json:"cid"`
	Err  bool            `json:"err"`
	Txt  string          `json:"txt"`
}

func (c canonicalItem) body() transcript.Body {
	switch c.K {
	case "user":
		return transcript.UserMessage{Content: transcript.TextParts(c.Txt)}
	case "assistant":
		return transcript.AgentMessage{Text: c.Txt}
	case "reasoning":
		return transcript.Reasoning{Text: c.Txt}
	case "call":
		return transcript.ToolCall{CallID: transcript.CallID(c.Cid), Name: c.Name, Arguments: c.Args}
	case "result":
		return transcript.ToolResult{CallID: transcript.CallID(c.Cid), Output: transcript.TextParts(c.Txt), IsError: c.Err}
	case "summary", "meta":
		return transcript.Notice{Source: c.K, Text: c.Txt}
	}
	return nil
}

// readCanonical reads one session as a context without any boundary.
func readCanonical(t testing.TB, path string) []transcript.Entry {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bufio.NewReader(z))
	var entries []transcript.Entry
	for n := 0; ; n++ {
		var c canonicalItem
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			return entries
		} else if err != nil {
			t.Fatalf("%s item %d: %v", path, n, err)
		}
		if b := c.body(); b != nil {
			it := transcript.Item{ID: transcript.ItemID(fmt.Sprintf("i%05d", n)), Turn: transcript.TurnID(fmt.Sprintf("t%04d", c.Turn)), Body: b}
			entries = append(entries, transcript.Entry{Item: it, Form: transcript.FormWhole})
		}
	}
}

// next is the context after a boundary, as transcript.Context would fold it.
func nextContext(entries []transcript.Entry, c *Composed, id string) []transcript.Entry {
	out := []transcript.Entry{{Item: transcript.Item{ID: transcript.ItemID(id), Body: c.Checkpoint}, Form: transcript.FormWhole}}
	byID := map[transcript.ItemID]transcript.Item{}
	for _, e := range entries {
		byID[e.Item.ID] = e.Item
	}
	for _, k := range c.Kept {
		out = append(out, transcript.Entry{Item: transcript.Render(byID[k.ItemID], k), Form: k.Form})
	}
	return out
}

func TestRealSessionsKeepTheContract(t *testing.T) {
	dir := dataDir(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.items.jsonl.gz"))
	if err != nil || len(files) < 30 {
		t.Fatalf("only %d sessions in %s: %v", len(files), dir, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".items.jsonl.gz"), func(t *testing.T) {
			t.Parallel()
			entries := readCanonical(t, path)
			before := mustJSON(t, entries)
			for _, w := range []Writer{WriterExtractive, WriterFixed} {
				for _, budget := range []int{8_000, 16_000, 24_000} {
					composeTwice(t, Input{Entries: entries, Budget: budget, Writer: w})
				}
			}
			if mustJSON(t, entries) != before {
				t.Error("the input was changed")
			}
		})
	}
}

// composeTwice checks the contract, that a second run gives the same bytes, and
// that compacting the result again does nothing.
func composeTwice(t *testing.T, in Input) {
	t.Helper()
	c, err := Compose(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(in, c); err != nil {
		t.Errorf("%s at %d: %v", in.Writer, in.Budget, err)
	}
	again, err := Compose(in)
	if err != nil || mustJSON(t, again) != mustJSON(t, c) {
		t.Errorf("%s at %d: two runs differ (%v)", in.Writer, in.Budget, err)
	}
	if c.Outcome != Completed {
		if c.Before > in.Budget {
			t.Errorf("%s at %d: %s{%s} with %d tokens", in.Writer, in.Budget, c.Outcome, c.Code, c.Before)
		}
		return
	}
	in.Entries = nextContext(in.Entries, c, "checkpoint-1")
	if c, err = Compose(in); err != nil || c.Code != CodeNothingToCompact {
		t.Errorf("%s at %d: repeating ends with %s{%s}, %v", in.Writer, in.Budget, c.Outcome, c.Code, err)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
