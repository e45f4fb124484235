package importer_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

const (
	line1 = `{"type":"user","uuid":"u1","sessionId":"s","timestamp":"2026-03-02T08:00:00Z","message":{"role":"user","content":"one"}}`
	line2 = `{"type":"assistant","uuid":"a1","sessionId":"s","timestamp":"2026-03-02T08:00:01Z","message":{"role":"assistant","model":"m","content":[{"type":"text","text":"two"},{"type":"tool_use","id":"t1","name":"Read","input":{"p":"x"}}]}}`
	line3 = `{"type":"user","uuid":"u2","sessionId":"s","timestamp":"2026-03-02T08:00:02Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"three"}]}}`
)

// texts are the ids and texts of all items, joined.
func texts(s *importer.Session) string {
	var out []string
	for _, it := range s.Transcript.Items {
		out = append(out, string(it.ID)+"="+strings.ReplaceAll(transcript.Text(it.Body), "\n", " "))
	}
	return strings.Join(out, "|")
}

// TestDamageCostsOnlyTheDamagedRecord damages a file of three records; the
// others must come through and the warning must name the line.
func TestDamageCostsOnlyTheDamagedRecord(t *testing.T) {
	const whole = "u1=one|a1=two|a1-1=Read x|u2=three"
	nul := strings.Repeat("\x00", 4096)
	for name, c := range map[string]struct {
		file, want string
		line       int // of the only warning; 0 for none
	}{
		"undamaged":                    {line1 + "\n" + line2 + "\n" + line3 + "\n", whole, 0},
		"no final line end":            {line1 + "\n" + line2 + "\n" + line3, whole, 0},
		"windows line ends":            {line1 + "\r\n" + line2 + "\r\n" + line3 + "\r\n", whole, 0},
		"byte order mark":              {"\xef\xbb\xbf" + line1 + "\n" + line2 + "\n" + line3, whole, 0},
		"blank lines":                  {"\n\n" + line1 + "\n \n" + line2 + "\n\n" + line3, whole, 0},
		"all glued on one line":        {line1 + line2 + " " + line3 + "\n", whole, 0},
		"NUL bytes for a line":         {line1 + "\n" + nul + "\n" + line2 + "\n" + line3, whole, 2},
		"NUL bytes before a record":    {line1 + "\n" + nul + line2 + "\n" + line3, whole, 2},
		"NUL bytes after a record":     {line1 + "\n" + line2 + nul + "\n" + line3, whole, 2},
		"NUL bytes inside a record":    {line1 + "\n" + line2[:60] + nul + line2[90:] + "\n" + line3, "u1=one|u2=three", 2},
		"a line that is cut off":       {line1 + "\n" + line2[:200] + "\n" + line3, "u1=one|u2=three", 2},
		"cut off and then appended to": {line1 + "\n" + line2[:200] + line3 + "\n", "u1=one|u2=three", 2},
		"cut off behind an object":     {line1 + "\n" + line2[:strings.Index(line2, `,{"type":"tool_use"`)] + "\n" + line3, "u1=one|u2=three", 2},
		"the first line is cut off":    {line1[:90] + "\n" + line2 + "\n" + line3, "a1=two|a1-1=Read x|u2=three", 1},
		"the first line is NUL bytes":  {nul + "\n" + line2 + "\n" + line3, "a1=two|a1-1=Read x|u2=three", 1},
		"the last line is cut off":     {line1 + "\n" + line2 + "\n" + line3[:150], "u1=one|a1=two|a1-1=Read x", 3},
		"text that is no JSON":         {line1 + "\nFatal error: disk full\n" + line2 + "\n" + line3, whole, 2},
		"a JSON array":                 {line1 + "\n[1,2,3]\n" + line2 + "\n" + line3, whole, 2},
		"a lone surrogate":             {strings.Replace(line1, "one", `o\ud83dne`, 1) + "\n" + line2 + "\n" + line3, strings.Replace(whole, "one", "o\uFFFDne", 1), 1},
		"bytes that are not UTF-8":     {strings.Replace(line1, "one", "o\xffne", 1) + "\n" + line2 + "\n" + line3, strings.Replace(whole, "one", "o\uFFFDne", 1), 1},
		"a time that cannot be read":   {strings.Replace(line1, "2026-03-02T", "yesterday ", 1) + "\n" + line2 + "\n" + line3, whole, 1},
		"a field of another type":      {strings.Replace(line1, `"cwd"`, `"cwd":7,"x"`, 1) + "\n" + strings.Replace(line2, `"sessionId":"s"`, `"sessionId":7`, 1) + "\n" + line3, whole, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, []byte(c.file))
			if got := texts(s); got != c.want {
				t.Errorf("items %s\nwant  %s", got, c.want)
			}
			if c.line == 0 && len(s.Warnings) > 0 || c.line > 0 && (len(s.Warnings) != 1 || s.Warnings[0].Line != c.line) {
				t.Errorf("warnings %v, want one of line %d", s.Warnings, c.line)
			}
		})
	}
}

// TestSurrogatesInArgumentsAreReplaced looks at raw JSON, which strict readers
// of it would reject otherwise.
func TestSurrogatesInArgumentsAreReplaced(t *testing.T) {
	s := read(t, []byte(line1+"\n"+strings.Replace(line2, `"p":"x"`, `"p":"\\ud800 \udc00 \ud83c\udf0a \uD800"`, 1)+"\n"))
	got := string(s.Transcript.Items[2].Body.(transcript.ToolCall).Arguments)
	if want := `{"p":"\\ud800 \ufffd \ud83c\udf0a \ufffd"}`; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
}

func TestLinesOfMegabytesAreReadWhole(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20<<20/16)
	s := read(t, []byte(line1+"\n"+strings.Replace(line2, "two", big, 1)+"\n"+line3+"\n"))
	if got := transcript.Text(s.Transcript.Items[1].Body); got != big || len(s.Transcript.Items) != 4 {
		t.Errorf("%d items, the second of %d bytes", len(s.Transcript.Items), len(got))
	}
}

func TestALineOverTheLimitIsSkippedWithAWarning(t *testing.T) {
	big := strings.Repeat("x", 5000)
	file := line1 + "\n" + strings.Replace(line2, "two", big, 1) + "\n" + line3 + "\n"
	s, err := importer.Read(strings.NewReader(file), importer.Limits{MaxRecord: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(s); got != "u1=one|u2=three" || len(s.Warnings) != 1 || s.Warnings[0].Line != 2 || !strings.Contains(s.Warnings[0].Reason, "4096") {
		t.Errorf("items %s, warnings %v", got, s.Warnings)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	file := line1 + "\n" + strings.Repeat("broken\n", 500)
	s, err := importer.Read(strings.NewReader(file), importer.Limits{MaxWarnings: 10})
	if err != nil {
		t.Fatal(err)
	}
	if last := s.Warnings[len(s.Warnings)-1]; len(s.Warnings) != 11 || !strings.HasPrefix(last.Reason, "490 more") {
		t.Errorf("%d warnings, the last %v", len(s.Warnings), last)
	}
}

// TestHostileDamageIsReadInBoundedTime builds a line in which every position
// could begin a record and none does.
func TestHostileDamageIsReadInBoundedTime(t *testing.T) {
	file := line1 + "\n" + strings.Repeat(`{"a":[`, 1<<20) + "\n" + line2 + "\n"
	started := time.Now()
	s, err := importer.Read(strings.NewReader(file), importer.Limits{MaxRecord: 8 << 20})
	if took := time.Since(started); took > 30*time.Second { // without a budget it is minutes
		t.Errorf("took %v", took)
	}
	if err != nil || len(s.Warnings) != 1 || len(s.Transcript.Items) != 3 {
		t.Errorf("%v, %+v", err, s)
	}
}

func zipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestGzipIsRecognisedByItsMagic(t *testing.T) {
	raw := fixture(t, "claude-oddities.jsonl")
	plain, packed := read(t, raw), read(t, zipped(t, raw))
	if !reflect.DeepEqual(plain, packed) {
		t.Error("the gzipped file reads differently")
	}
}

func TestADamagedGzipFileYieldsWhatIsBeforeTheDamage(t *testing.T) {
	var raw bytes.Buffer // incompressible, so that half of the file is half of the text
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		raw.WriteString(line1[:22] + `"` + string(rune('a'+rng.IntN(26))) + random(rng, 60) + `"` + line1[26:] + "\n")
	}
	whole := read(t, raw.Bytes())
	packed := zipped(t, raw.Bytes())
	s := read(t, packed[:len(packed)/2])
	n := len(s.Transcript.Items)
	if n < len(whole.Transcript.Items)/3 || !reflect.DeepEqual(s.Transcript.Items, whole.Transcript.Items[:n]) {
		t.Errorf("%d of %d items, or others", n, len(whole.Transcript.Items))
	}
	if len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0].Reason, "compressed") {
		t.Errorf("warnings %v", s.Warnings)
	}
	packed[len(packed)-6] ^= 0xff // the checksum
	if s := read(t, packed); len(s.Transcript.Items) != len(whole.Transcript.Items) || len(s.Warnings) != 1 {
		t.Errorf("wrong checksum: %d items, warnings %v", len(s.Transcript.Items), s.Warnings)
	}
}

func random(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[rng.IntN(36)]
	}
	return string(b)
}

func TestGzipBombsAndLargeFilesAreRefused(t *testing.T) {
	bomb := zipped(t, append([]byte(line1+"\n"), bytes.Repeat([]byte(" "), 64<<20)...))
	for name, c := range map[string]struct {
		file []byte
		lim  importer.Limits
	}{
		"ratio":              {bomb, importer.Limits{}},
		"uncompressed size":  {bomb, importer.Limits{MaxRatio: 1 << 40, MaxBytes: 1 << 20}},
		"size of plain text": {bytes.Repeat([]byte(line1+"\n"), 100), importer.Limits{MaxBytes: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := importer.Read(bytes.NewReader(c.file), c.lim); fault.CodeOf(err) != fault.TooLarge {
				t.Errorf("error %v, want tooLarge", err)
			}
		})
	}
	small := zipped(t, append([]byte(line1+"\n"), bytes.Repeat([]byte(" "), 4<<20)...))
	if _, err := importer.Read(bytes.NewReader(small), importer.Limits{}); err != nil {
		t.Errorf("a small file that compresses well: %v", err)
	}
}

func TestADeviceErrorIsNotTakenForTheEnd(t *testing.T) {
	broken := errors.New("input/output error")
	for _, raw := range [][]byte{[]byte(line1 + "\n" + line2), zipped(t, []byte(line1+"\n"+line2))} {
		r := io.MultiReader(bytes.NewReader(raw[:len(raw)-4]), iotest.ErrReader(broken))
		if _, err := importer.Read(r, importer.Limits{}); !errors.Is(err, broken) || fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("error %v, want that of the device", err)
		}
	}
}

// TestNothingReadableIsAnError: an empty session is never the answer.
func TestNothingReadableIsAnError(t *testing.T) {
	for name, file := range map[string]string{
		"only noise":   `{"type":"progress","uuid":"p","sessionId":"s","timestamp":"2026-03-02T08:00:00Z","data":{}}` + "\n",
		"only damage":  line1[:90] + "\n" + line2[:100],
		"only headers": `{"type":"session","version":3,"id":"x","timestamp":"2026-03-02T08:00:00Z","cwd":"/"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := importer.Read(strings.NewReader(file), importer.Limits{})
			if fault.CodeOf(err) != fault.Invalid || s != nil {
				t.Errorf("session %v, error %v", s, err)
			}
		})
	}
}

func TestOtherFormatsAreNamed(t *testing.T) {
	for word, file := range map[string]string{
		"empty":         " \n",
		"Gemini CLI":    "{\n  \"sessionId\": \"x\",\n  \"projectHash\": \"y\",\n  \"messages\": [\n    {\n      \"type\": \"user\"\n    }\n  ]\n}\n",
		"SWE-agent":     `{"environment": "swe_main", "trajectory": []}`,
		"tau-bench":     `[{"task_id": 3, "reward": 0.0, "traj": []}]`,
		"codex rollout": `{"timestamp":"2026-03-02T08:00:00Z","type":"session_meta","payload":{}}`,
		"opencode":      `{"info":{},"messages":[]}`,
		"chat messages": `{"messages":[{"role":"user","content":"x"}]}`,
		"JSON array":    `[1,2]`,
		"unknown kind":  `{"hello":"world"}`,
		"zstd":          "\x28\xb5\x2f\xfd\x00\x00",
		"zip archive":   "PK\x03\x04....",
		"SQLite":        "SQLite format 3\x00",
		"UTF-16":        "\xff\xfe{\x00",
		"binary":        "\x7fELF\x00\x00",
		"not JSON":      "# Notes\n",
	} {
		t.Run(word, func(t *testing.T) {
			_, err := importer.Read(strings.NewReader(file), importer.Limits{})
			wantRefusal(t, err, word)
		})
	}
}
