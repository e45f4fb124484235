package compaction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestAPassClearsOnlyWhatItIncludes(t *testing.T) {
	for _, c := range []struct {
		fail, pass string
		want       bool
	}{
		{"go build ./internal/api", "make test", true},
		{"go vet ./internal/api", "make test", true},
		{"go test -race -count=1 ./internal/config ./internal/api", "make test", true},
		{"go test -run 'A|B' ./internal/api", "make check", true},
		{"golangci-lint run", "make check", true},
		{"golangci-lint run", "golangci-lint run && make test", true},
		{"golangci-lint run ./api/...", "golangci-lint run ./...", true},
		{"cd /app && go test ./api", "cd /app && go test ./...", true},
		{"go test ./api 2>&1 | tail -20", "go test ./...", true},
		{"go vet ./... && go test ./...", "go vet ./... && go test ./... && git status", true},
		{"go build ./cmd/x", "go test ./...", true},
		{"cargo test parser", "cargo test", true},
		{"pytest tests/a.py -k b", "pytest", true},
		{"npm test -- --grep a", "npm test", false}, // a flag that is not known
		{"npm run lint", "npm run lint && npm test", true},

		{"golangci-lint run", "make test", false},
		{"go test ./api", "make build", false},
		{"go test ./api", "go test ./store", false},
		{"go test ./api", "go test", false}, // one package
		{"go test ./api", "go test -run A ./...", false},
		{"go test -race ./api", "go test ./...", false},
		{"go test -count=200 ./api", "make test", false},
		{"go test -run 'A|B' -count=200 ./api", "make test", false},
		{"go test -tags x ./api", "go test ./...", false},
		{"GOOS=windows go build ./...", "go build ./...", false},
		{"go test ./api", "go test ./... | tail", false},
		{"go test ./api", "go test ./... || true", false},
		{"go test ./api", "go test ./...; git status", false},
		{"go test ./api", "go test ./... &", false},
		{"cd /a && go test ./x", "cd /b && go test ./...", false},
		{"go test ./api && curl localhost", "make test", false},
		{"curl localhost", "make test", false},
		{"make e2e", "make test", false},
		{"go test ./api", "make -C sub test", false},
		{"go test ./api", "echo make test", false},
		{"", "make test", false},
	} {
		if got := clears(c.pass, c.fail); got != c.want {
			t.Errorf("a pass of %q clears %q: %t", c.pass, c.fail, got)
		}
	}
}

func TestFailuresAreClearedRefusedOrStopped(t *testing.T) {
	bash := func(id, cmd string) transcript.Body { return call(id, "Bash", `{"command":"`+cmd+`"}`) }
	const no = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new text was NOT written)."
	for name, c := range map[string]struct {
		result transcript.ToolResult
		then   []transcript.Body
		want   runFact
	}{
		"fails":                 {result("1", "FAIL x", true), nil, runFact{Done: true, Failed: true, Error: "FAIL x"}},
		"a superset passes":     {result("1", "FAIL x", true), []transcript.Body{bash("2", "make test"), result("2", "ok", false)}, runFact{Done: true, Cleared: true}},
		"a superset fails":      {result("1", "FAIL x", true), []transcript.Body{bash("2", "make test"), result("2", "no", true)}, runFact{Done: true, Failed: true, Error: "FAIL x"}},
		"a superset is refused": {result("1", "FAIL x", true), []transcript.Body{bash("2", "make test"), result("2", no, true)}, runFact{Done: true, Failed: true, Error: "FAIL x"}},
		"a superset goes on":    {result("1", "FAIL x", true), []transcript.Body{bash("2", "make test"), result("2", "Command running in background with ID: 1", false)}, runFact{Done: true, Failed: true, Error: "FAIL x"}},
		"fails again":           {result("1", "FAIL x", true), []transcript.Body{bash("2", "make test"), result("2", "ok", false), bash("3", "go vet ./api"), result("3", "FAIL y", true)}, runFact{Done: true, Failed: true, Error: "FAIL y"}},
		"refused":               {result("1", no, true), nil, runFact{Done: true, Refused: true}},
		"refused, curly":        {result("1", "The user doesn’t want to take this action right now.", true), nil, runFact{Done: true, Refused: true}},
		"stopped":               {result("1", transcript.AbortedText, true), nil, runFact{}},
		"speaks of a refusal":   {result("1", "FAIL: the user rejected is nil", true), nil, runFact{Done: true, Failed: true, Error: "FAIL: the user rejected is nil"}},
		"a pass that says so":   {result("1", no, false), nil, runFact{Done: true}},
	} {
		p, err := newPlanner(Input{Entries: inOrderOf(append([]transcript.Body{bash("1", "go vet ./api"), c.result}, c.then...)...)})
		if err != nil {
			t.Fatal(err)
		}
		p.group()
		p.measureAges()
		p.collect()
		c.want.Command = "go vet ./api"
		for _, r := range p.led.Runs {
			if r.Command == c.want.Command {
				if d := cmp.Diff(c.want, r); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
		}
	}
}

// A failure of an earlier generation is cleared too.
func TestAPassClearsFailuresOfTheLedger(t *testing.T) {
	raw := transcript.RawJSON(`{"v":1,"runs":[{"command":"go vet ./api","failed":true,"error":"x","done":true}]}`)
	entries := inOrderOf(transcript.Checkpoint{Ledger: &raw}, call("2", "Bash", `{"command":"make test"}`), result("2", "ok", false))
	p, err := newPlanner(Input{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	p.group()
	p.collect()
	if r := p.led.Runs[0]; r.Failed || !r.Cleared {
		t.Errorf("got %+v", r)
	}
}

func TestARefusedEditChangedNothing(t *testing.T) {
	entries := inOrderOf(
		call("1", "Edit", `{"file_path":"a/b.go","old_string":"x","new_string":"y"}`), result("1", "The user doesn't want to proceed with this tool use.", true),
		call("2", "Edit", `{"file_path":"a/c.go","old_string":"x","new_string":"y"}`), result("2", "ok", false))
	p, err := newPlanner(Input{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	p.group()
	p.collect()
	if len(p.led.Files) != 1 || p.led.Files[0].Path != "a/c.go" {
		t.Errorf("files %v", p.led.Files)
	}
}
