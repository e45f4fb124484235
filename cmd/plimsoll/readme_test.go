package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

var update = flag.Bool("update", false, "rewrite the record in the README and the captures of the terminal")

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	mustDo(t, err)
	return string(b)
}

// blocks returns the fenced blocks of a language.
func blocks(doc, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		out = append(out, m[1])
	}
	return out
}

// serveHome runs a server on a home of its own until the test ends.
func serveHome(t *testing.T) *server {
	t.Helper()
	m := &Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	s, err := m.startServer(context.Background(), home{filepath.Join(t.TempDir(), "home")}, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	mustDo(t, err)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("close server: %v", err)
		}
	})
	return s
}

func TestWalkThroughOfTheReadmeWorksWordForWord(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so the README was not tried", tool)
		}
	}
	_, part, _ := strings.Cut(readme(t), "<!-- tested: ")
	part, _, ok := strings.Cut(part, "<!-- end of tested -->")
	scripts := blocks(part, "sh")
	if !ok || len(scripts) < 5 {
		t.Fatalf("the README has %d tested blocks", len(scripts))
	}
	s := serveHome(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.Join(scripts, "\n")+"\nexec >&2\nset | grep -E '^(THREAD|LONG|COMPACTION)='\n")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "PLIMSOLL_URL="+s.url(), "PLIMSOLL_HOME="+s.home.dir, "GORACE=atexit_sleep_ms=0")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	for _, want := range []string{
		`"method":"turn/completed"`, // the events were followed to the end of the turn
		`your message: "High water`, // the answer quotes what was told
		`use route local`,           // the refusal has its remedy
		"\n409\n",                   // and its status
		`"outcome": "completed"`,    // the record
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q was not printed", want)
		}
	}
	if got := len(regexp.MustCompile(`(?m)^\{"turn":.*\}$`).FindAllString(stdout.String(), -1)); got != 2 {
		t.Errorf("%d answers to turns have lines of their own, want 2", got)
	}
	checkWalkThrough(t, s, stderr.String())
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", stdout.String(), stderr.String())
	}
}

// checkWalkThrough looks at the server for what the README says was done.
func checkWalkThrough(t *testing.T, s *server, vars string) {
	t.Helper()
	value := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `='?([0-9a-f-]{36})'?$`).FindStringSubmatch(vars)
		if m == nil {
			t.Fatalf("the blocks did not set %s to an id", name)
		}
		return m[1]
	}
	cl, ok := dialSocket(s.home)
	if !ok {
		t.Fatal("the socket does not answer")
	}
	defer func() { mustDo(t, cl.close()) }()
	var turns api.TurnListResult
	mustDo(t, cl.call(t.Context(), http.MethodGet, threadPath(value("THREAD"), "/turns"), nil, &turns))
	if len(turns.Data) != 2 || turns.Data[0].Status != "completed" || turns.Data[1].Status != "completed" {
		t.Errorf("turns of the first thread: %+v", turns.Data)
	}
	var list api.CompactionListResult
	mustDo(t, cl.call(t.Context(), http.MethodGet, threadPath(value("LONG"), "/compactions"), nil, &list))
	var got []string
	for _, r := range list.Data {
		if r.Outcome != nil && r.Trigger == compaction.TriggerManual {
			got = append(got, string(*r.Outcome))
		}
	}
	if diff := cmp.Diff([]string{"completed", "refused"}, got); diff != "" || string(list.Data[0].CompactionID) != value("COMPACTION") {
		t.Errorf("compactions, newest first: %s", diff)
	}
}

func TestCommandsOfTheReadmeParse(t *testing.T) {
	t.Parallel()
	doc := readme(t)
	var lines []string
	for _, m := range regexp.MustCompile("`(plimsoll [^`]*)`").FindAllStringSubmatch(doc, -1) {
		lines = append(lines, m[1])
	}
	for _, block := range blocks(doc, "sh") {
		lines = append(lines, regexp.MustCompile(`plimsoll [a-z][^|)#&\n]*`).FindAllString(block, -1)...)
	}
	seen := map[string]bool{}
	for _, line := range lines {
		args := strings.Fields(line)[1:]
		var cli CLI
		m := &Main{Stdout: io.Discard, Stderr: io.Discard}
		parser, err := m.parser(&cli)
		mustDo(t, err)
		if _, err := parser.Parse(args); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		seen[args[0]] = true
	}
	for _, command := range []string{"serve", "demo", "import", "export", "threads", "compact", "search", "pin", "tail", "token", "conform", "doctor", "version"} {
		if !seen[command] {
			t.Errorf("the README does not show %s", command)
		}
	}
}

// TestRecordOfTheReadmeIsReal compares the record that the README shows with the
// one that the command above it prints, lists of ids cut to their first one.
func TestRecordOfTheReadmeIsReal(t *testing.T) {
	doc := readme(t)
	shown := blocks(doc, "json")
	if len(shown) != 1 {
		t.Fatalf("%d json blocks, want the record only", len(shown))
	}
	done, err := compactFile(t.Context(), bytes.NewReader(demoSession), fileOptions{budget: 4000})
	mustDo(t, err)
	r := done.record
	if r.Outcome == nil || *r.Outcome != compaction.Completed {
		t.Fatalf("the bundled session was not compacted: %+v", r)
	}
	r.SummarizedTurnIDs = r.SummarizedTurnIDs[:min(1, len(r.SummarizedTurnIDs))]
	r.RetainedTurnIDs = r.RetainedTurnIDs[:min(1, len(r.RetainedTurnIDs))]
	r.PrunedItemIDs = r.PrunedItemIDs[:min(1, len(r.PrunedItemIDs))]
	want := memberALine(t, r)
	if shown[0] == want {
		return
	}
	if *update {
		mustDo(t, os.WriteFile(filepath.Join("..", "..", "README.md"), []byte(strings.Replace(doc, shown[0], want, 1)), 0o644))
		return
	}
	t.Errorf("the record of the README is stale (make update):\n%s", cmp.Diff(shown[0], want))
}

// What is read in a terminal is not to wrap: tables are the widest that there is.
func TestLinesOfTheReadmeAreShort(t *testing.T) {
	t.Parallel()
	doc := readme(t)
	for _, record := range blocks(doc, "json") {
		doc = strings.Replace(doc, record, "", 1)
	}
	for line := range strings.Lines(doc) {
		if n := len([]rune(strings.TrimSpace(line))); n > 130 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

// memberALine writes an object with one member a line, in its own order.
func memberALine(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	mustDo(t, err)
	dec := json.NewDecoder(bytes.NewReader(b))
	_, err = dec.Token()
	mustDo(t, err)
	var lines []string
	for dec.More() {
		key, err := dec.Token()
		mustDo(t, err)
		var value json.RawMessage
		mustDo(t, dec.Decode(&value))
		lines = append(lines, fmt.Sprintf("  %q: %s", key, value))
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n}\n"
}

func TestConfigurationOfTheReadmeIsRead(t *testing.T) {
	t.Parallel()
	shown := blocks(readme(t), "toml")
	if len(shown) != 1 {
		t.Fatalf("%d toml blocks", len(shown))
	}
	cfg, err := parseConfig([]byte(shown[0]))
	mustDo(t, err)
	if _, err := openProviders(cfg, environment{getenv: os.Getenv}); err != nil {
		t.Error(err)
	}
	for _, key := range allKeys(reflect.TypeFor[config]()) {
		if !regexp.MustCompile(`(?m)^(#\s*)?` + key + ` = `).MatchString(shown[0]) {
			t.Errorf("the README does not show %s", key)
		}
	}
	_, programs, _ := strings.Cut(shown[0], "[providers.agent]")
	for _, adapter := range []string{"codex", "claude"} {
		for _, key := range adapterKinds[adapter].keys {
			if !regexp.MustCompile(`(?m)^(#\s*)?` + key + ` = `).MatchString(programs) {
				t.Errorf("the README does not show %s of %s", key, adapter)
			}
		}
	}
}

// allKeys lists the keys of all sections that have values.
func allKeys(t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Map, reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return allKeys(t.Elem())
		}
	case reflect.Struct:
		var out []string
		for _, name := range keysOf(t) {
			f, _ := fieldOf(t, name)
			if below := allKeys(f.Type); below != nil {
				out = append(out, below...)
			} else {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}
