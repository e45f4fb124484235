package importer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func read(t testing.TB, raw []byte) *importer.Session {
	t.Helper()
	s, err := importer.Read(bytes.NewReader(raw), importer.Limits{})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	checkValid(t, s)
	return s
}

// TestOdditiesAreSurvived reads hand-written files that hold every oddity seen
// in recorded sessions and compares all that was understood with a golden file.
func TestOdditiesAreSurvived(t *testing.T) {
	for _, name := range []string{"claude-oddities", "pi-v1", "pi-v3", "omp"} {
		t.Run(name, func(t *testing.T) {
			raw := fixture(t, name+".jsonl")
			got := describe(read(t, raw))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(fixture(t, name+".golden")), got); diff != "" {
				t.Errorf("differs from %s (-want +got):\n%s", golden, diff)
			}
			if again := describe(read(t, raw)); again != got {
				t.Error("imports differently the second time")
			}
		})
	}
}

// describe writes a session for people to check.
func describe(s *importer.Session) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\ntitle %q cwd %q model %q\nfrom %s to %s\nhash %s\n\n", s.Source, s.SourceID, s.Title, s.Cwd, s.Model,
		s.StartedAt.Format("15:04:05.000"), s.EndedAt.Format("15:04:05.000"), s.Hash)
	turn, boundaries := transcript.TurnID(""), s.Transcript.Boundaries
	for i, it := range s.Transcript.Items {
		if it.Turn != turn {
			turn = it.Turn
			k := slices.IndexFunc(s.Transcript.Turns, func(t transcript.Turn) bool { return t.ID == turn })
			fmt.Fprintf(&out, "== %s %s", turn, s.Transcript.Turns[k].Status)
			if e := s.Transcript.Turns[k].Error; e != nil {
				fmt.Fprintf(&out, " %s %q", e.Code, e.Message)
			}
			out.WriteString("\n")
		}
		raw, _ := json.Marshal(it.Body)
		fmt.Fprintf(&out, "%s %s %s %s\n", it.ID, it.CompletedAt.Format("04:05"), it.Body.Kind(), raw)
		if len(boundaries) > 0 && boundaries[0].Covered == i+1 {
			b := boundaries[0]
			boundaries = boundaries[1:]
			fmt.Fprintf(&out, "-- epoch %d keeps", b.Epoch)
			for _, k := range b.Kept {
				fmt.Fprintf(&out, " %s", k.ItemID)
			}
			if b.Checkpoint != nil {
				fmt.Fprintf(&out, "\n-- checkpoint %s %q", b.Checkpoint.ID, transcript.Text(b.Checkpoint.Body))
			}
			out.WriteString("\n")
		}
	}
	out.WriteString("\n")
	for _, w := range s.Warnings {
		fmt.Fprintf(&out, "line %d: %s\n", w.Line, w.Reason)
	}
	skipped, _ := json.Marshal(s.Skipped)
	fmt.Fprintf(&out, "skipped %s, %d blobs\n", skipped, len(s.Blobs))
	return out.String()
}
