package importer_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
)

// TestATruncatedFileYieldsAPrefix cuts a small file at every byte and the linear
// fixtures, whose length squared is what this costs, at every few.
func TestATruncatedFileYieldsAPrefix(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		step int
	}{
		"small":           {[]byte(line1 + "\n" + line2 + line3 + "\n"), 1},
		"claude-oddities": {fixture(t, "claude-oddities.jsonl"), 7},
		"pi-v1":           {fixture(t, "pi-v1.jsonl"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := c.raw
			whole := read(t, raw).Transcript.Items
			for n := 0; n < len(raw); n += c.step {
				s, err := importer.Read(bytes.NewReader(raw[:n]), importer.Limits{})
				if err != nil {
					if fault.CodeOf(err) != fault.Invalid {
						t.Fatalf("cut at %d: %v", n, err)
					}
					continue
				}
				items := s.Transcript.Items
				if len(items) > len(whole) || !reflect.DeepEqual(items, whole[:len(items)]) {
					t.Fatalf("cut at %d: the %d items are no prefix", n, len(items))
				}
				if cut := n > 0 && raw[n-1] != '\n' && raw[n] != '\n' && raw[n] != '{'; cut && !cutOffWarned(s, bytes.Count(raw[:n], []byte("\n"))+1) {
					t.Fatalf("cut at %d: no warning about the last line: %v", n, s.Warnings)
				}
			}
		})
	}
}

func cutOffWarned(s *importer.Session, line int) bool {
	for _, w := range s.Warnings {
		if w.Line == line {
			return true
		}
	}
	return false
}

// FuzzRead feeds damaged files: whatever is read is valid, bounded and the same
// the second time.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"claude-oddities.jsonl", "pi-v1.jsonl", "pi-v3.jsonl", "omp.jsonl", "export.jsonl"} {
		raw := fixture(f, name)
		f.Add(raw)
		f.Add(zipped(f, raw))
	}
	f.Add([]byte(line1 + "\n" + line2[:100] + line3))
	f.Add([]byte("\x00\x00" + line1))
	lim := importer.Limits{MaxBytes: 8 << 20, MaxRecord: 1 << 20, MaxWarnings: 50}
	f.Fuzz(func(t *testing.T, raw []byte) {
		started := time.Now()
		s, err := importer.Read(bytes.NewReader(raw), lim)
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%d bytes took %v", len(raw), took)
		}
		if err != nil {
			if code := fault.CodeOf(err); code != fault.Invalid && code != fault.TooLarge {
				t.Errorf("error %v of code %s", err, code)
			}
			return
		}
		if len(s.Warnings) > lim.MaxWarnings+1 || s.Source != "plimsoll" && len(s.Transcript.Items) == 0 {
			t.Errorf("%d warnings, %d items", len(s.Warnings), len(s.Transcript.Items))
		}
		checkValid(t, s)
		if again, err := importer.Read(bytes.NewReader(raw), lim); err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("reads differently the second time: %v", err)
		}
	})
}
