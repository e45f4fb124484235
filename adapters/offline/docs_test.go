package offline

import (
	"os"
	"strings"
	"testing"
)

func TestDocumentedAbility(t *testing.T) {
	doc, err := os.ReadFile("../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "| offline | model | refused: " + New().Compaction().Refusal.Code + " |\n"
	if !strings.Contains(string(doc), want) {
		t.Errorf("docs/adapters.md lacks the row %q", want)
	}
}
