package compaction

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// storyIn is a small session in a language: the user asks, a file is read and
// changed, a test fails and passes, and the user goes on.
func storyIn(code string) []transcript.Entry {
	return inOrderOf(
		user(samples[code][0]),
		transcript.Reasoning{Text: "The bound is off by one."},
		call("1", "Read", `{"file_path":"/w/app/internal/parse/header.go"}`),
		result("1", "package parse\n\nfunc ParseHeader(b []byte) error {\n\treturn nil\n}\n"+strings.Repeat("// The header has a name, a length and a checksum, in this order.\n", 120), false),
		call("2", "Edit", `{"file_path":"/w/app/internal/parse/header.go","old_string":"return nil","new_string":"if len(b) > 4096 {\n\t\treturn errTooLong\n\t}\n\treturn nil"}`),
		result("2", "edited", false),
		call("3", "Bash", `{"command":"go test ./..."}`),
		result("3", "--- FAIL: TestParseHeader (0.00s)\npanic: runtime error: index out of range [3] with length 3", true),
		call("4", "Bash", `{"command":"go test ./..."}`),
		result("4", "ok  app/internal/parse 0.01s", false),
		transcript.AgentMessage{Text: "`ParseHeader` is fixed, see internal/parse/header.go."},
		user(samples[code][1]),
		transcript.AgentMessage{Text: "OK."},
	)
}

// P064: the prompt names the user's language and has its headings; notes in it are
// taken, and their headings stay. A changed prompt or frame needs a new version.
func TestPromptsAndCheckpointsAreFixedByTheirVersion(t *testing.T) {
	for code, notes := range notesIn {
		t.Run(code, func(t *testing.T) {
			p := &pen{replies: []reply{writes(notes)}}
			job := modelJob(p)
			job.Input = Input{Entries: storyIn(code), Window: 64_000, Budget: 1_700, Facts: Facts{Recall: "recall"}}
			job.Instructions = "Keep what was said about limits."
			v := mustRun(t, job, p)
			if v.Outcome != Completed || v.Writer != WriterModel || len(p.prompts) != 1 {
				t.Fatalf("%s by %s after %d requests, skipped %v, warnings %q", v.Outcome, v.Writer, len(p.prompts), v.Skipped, v.Warnings)
			}
			text := p.prompts[0].Text
			for _, h := range languageOf(code).headings {
				if !strings.Contains(text, "\n## "+h+"\n") {
					t.Errorf("the prompt has no heading %q", h)
				}
			}
			golden(t, "prompt-"+promptVersion+"."+code, p.prompts[0].System+"\n"+text)
			golden(t, VersionModel+"."+code, v.Composed.Checkpoint.Text)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs:\n%s", path, d)
	}
}

// The headings that a model is asked for, and the languages that are told apart, are
// the same in the whole table: notes in any language are rejected for any other user.
func TestNotesInTheWrongLanguageAreRejected(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"zh", "pt", "ko", "en", "de", "ja"} {
		for wrote, notes := range notesIn {
			if wrote == code {
				continue
			}
			p := &pen{replies: []reply{writes(notes + notes)}}
			job := modelJob(p)
			job.Input = Input{Entries: storyIn(code), Window: 64_000, Budget: 1_700}
			if v := mustRun(t, job, p); v.Writer != WriterExtractive || v.Skipped[0].Code != codeLanguage {
				t.Errorf("notes in %s for a user who writes %s: by %s, skipped %v", wrote, code, v.Writer, v.Skipped)
			}
			if !strings.Contains(p.prompts[1].Text, "is to be in "+languageOf(code).name) {
				t.Errorf("the writer is not told that it was the language %s", code)
			}
		}
	}
}
