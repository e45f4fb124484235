package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/httpx"
)

// A recording is a stream of a server, with what is to come of it.
type recording struct {
	name   string
	pl     plan
	stream string
	want   string
}

// recordings reads testdata/streams.
func recordings(t testing.TB) []recording {
	t.Helper()
	files, err := filepath.Glob("testdata/streams/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	var out []recording
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := recording{name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
		for _, f := range a.Files {
			switch f.Name {
			case "options":
				r.pl = planOf(t, string(f.Data))
			case "stream":
				r.stream = string(f.Data)
			case "want":
				r.want = string(f.Data)
			}
		}
		out = append(out, r)
	}
	return out
}

// planOf reads the options of a recording.
func planOf(t testing.TB, options string) plan {
	t.Helper()
	pl := plan{p: base, model: "m", seed: "7", names: names{"read": "read", "write": "write"}}
	for line := range strings.Lines(options) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.Atoi(value)
		switch key {
		case "profile":
			p, known := byName(value)
			if !known {
				t.Fatalf("unknown profile %q", value)
			}
			pl.p = p
		case "think":
			pl.p.think = value
		case "window":
			pl.window = n
		case "max":
			pl.max = n
		case "estimate":
			pl.estimate = n
		default:
			t.Fatalf("unknown option %q", key)
		}
	}
	return pl
}

// listen decodes a stream and returns what came of it, one line for each chunk,
// texts that follow each other joined.
func listen(t testing.TB, pl plan, stream io.Reader) (lines []string, chunks []adapters.Chunk, err error) {
	t.Helper()
	m, err := New(Options{BaseURL: "http://localhost:1/v1", Profile: Generic})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Model: m, cancel: func() {}, yield: func(c adapters.Chunk, _ error) bool {
		chunks = append(chunks, c)
		return true
	}}
	err = r.listen(context.Background(), pl, httpx.Request{}, io.NopCloser(stream))
	return told(chunks, err), chunks, err
}

// told describes chunks and the error after them.
func told(chunks []adapters.Chunk, err error) []string {
	var lines []string
	var text strings.Builder
	kind := ""
	flush := func(next string) {
		if kind != "" && kind != next {
			lines = append(lines, fmt.Sprintf("%s %q", kind, text.String()))
			text.Reset()
		}
		kind = next
	}
	for _, c := range chunks {
		switch c := c.(type) {
		case adapters.MessageText:
			flush("say")
			text.WriteString(c.Text)
		case adapters.ReasoningText:
			flush("think")
			text.WriteString(c.Text)
		default:
			flush("")
			if line := describe(c); line != uncounted {
				lines = append(lines, line)
			}
		}
	}
	flush("")
	if e, is := errors.AsType[*adapters.Error](err); is {
		line := fmt.Sprintf("error %s %s", e.Class, e.Message)
		if e.Class == adapters.ClassOverflow {
			line += fmt.Sprintf("; %d of %d", e.Requested, e.Limit)
		}
		lines = append(lines, line)
	} else if err != nil {
		lines = append(lines, "error "+err.Error())
	}
	return lines
}

// uncounted is the report of a request that nobody counted.
const uncounted = "usage 0 out 0"

func describe(c adapters.Chunk) string {
	switch c := c.(type) {
	case adapters.CallChunk:
		return fmt.Sprintf("call %s %s %s", c.Call.CallID, c.Call.Name, c.Call.Arguments)
	case adapters.UsageChunk:
		s := fmt.Sprintf("usage %d", c.Usage.InputTokens)
		if n := c.Usage.CachedInputTokens; n > 0 {
			s += fmt.Sprintf(" cached %d", n)
		}
		if n := c.Usage.CacheWriteInputTokens; n > 0 {
			s += fmt.Sprintf(" written %d", n)
		}
		s += fmt.Sprintf(" out %d", c.Usage.OutputTokens)
		if n := c.Usage.ReasoningOutputTokens; n > 0 {
			s += fmt.Sprintf(" reasoning %d", n)
		}
		return s
	case adapters.Repaired:
		return fmt.Sprintf("repaired %s %s", c.Rule, c.Text)
	case adapters.Retried:
		return "retried " + c.Message
	case adapters.Done:
		return "done " + string(c.Stop)
	}
	return fmt.Sprintf("%T", c)
}

// plainIDs puts numbers in place of ids that were made.
func plainIDs(text string) string {
	for i := range 4 {
		for _, name := range []string{"read", "write"} {
			text = strings.ReplaceAll(text, madeID("7", i, name), fmt.Sprintf("call_%d", i+1))
		}
	}
	return text
}

func TestEveryQuirkOfAStreamIsRead(t *testing.T) {
	for _, rec := range recordings(t) {
		t.Run(rec.name, func(t *testing.T) {
			for how, stream := range map[string]io.Reader{
				"whole":        strings.NewReader(rec.stream),
				"byte by byte": iotest.OneByteReader(strings.NewReader(rec.stream)),
			} {
				lines, _, _ := listen(t, rec.pl, stream)
				got := plainIDs(strings.Join(lines, "\n") + "\n")
				if diff := cmp.Diff(strings.Split(rec.want, "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}
