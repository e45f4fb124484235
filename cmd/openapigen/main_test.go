package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

const root = "../.."

// A build of CI runs this test: a stale file fails it.
func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate ./...", name)
		}
	}
}

func TestOutputDependsOnTheSourceOnly(t *testing.T) {
	one, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		two, err := generate(root)
		if err != nil {
			t.Fatal(err)
		}
		for name := range one {
			if !bytes.Equal(one[name], two[name]) {
				t.Fatalf("%s differs between two runs", name)
			}
		}
	}
}

// Every schema is closed or says what it is; every operation and every parameter
// is described.
func TestEverythingIsDescribed(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(files["openapi.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	for name, ref := range doc.Components.Schemas {
		s := ref.Value
		closed := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
		if s.Description == "" {
			t.Errorf("schema %s has no description", name)
		}
		if s.Type.Is("object") && !closed {
			t.Errorf("schema %s is open", name)
		}
	}
	for path, item := range doc.Paths.Map() {
		for verb, op := range item.Operations() {
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s has no operationId or summary", verb, path)
			}
			for _, p := range op.Parameters {
				if p.Value.Description == "" && p.Value.In != "path" {
					t.Errorf("%s %s: parameter %s has no description", verb, path, p.Value.Name)
				}
			}
		}
	}
}

func TestProseDropsTheGoName(t *testing.T) {
	for _, c := range [][3]string{
		{"Thread", "Thread is a\nconversation.\n", "A conversation."},
		{"Split", "A Split marks the turn", "Marks the turn."},
		{"X", "X: gone", "Gone."},
		{"y", "tokens per\n\nturn", "Tokens per\n\nturn."},
		{"z", "", ""},
	} {
		if got := prose(c[0], c[1]); got != c[2] {
			t.Errorf("prose(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestYAMLQuotesWhatIsNotPlain(t *testing.T) {
	got := string(yaml(object{{"a", "true"}, {"b", "x: y"}, {"c", []any{object{{"d", 1}, {"e", []any{"f", null{}}}}, "g"}}, {"200", object{}}, {"h", []any{}}}))
	want := "a: \"true\"\nb: \"x: y\"\nc:\n  - d: 1\n    e:\n      - f\n      - null\n  - g\n\"200\": {}\nh: []\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
