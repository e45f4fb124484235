package conform

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The page has the rows of the code, each passed, refused or skipped with a reason;
// `make conformance` writes it.
func TestThePageHasTheRowsOfTheCode(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	var names, demands []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|(.*)\|$`).FindAllStringSubmatch(page, -1) {
		if m[1] == "row" {
			for _, want := range []string{"offline", "chat", "codex 0.171.0", "claude 2.1.332"} {
				if !strings.Contains(m[3], want) {
					t.Errorf("the page has no column %s: %s", want, m[3])
				}
			}
			continue
		}
		names, demands = append(names, m[1]), append(demands, m[2])
		for cell := range strings.SplitSeq(m[3], "|") {
			cell, _, _ = strings.Cut(strings.TrimSpace(cell), " ")
			if cell != string(Pass) && cell != string(Refused) && cell != string(Skipped) {
				t.Errorf("row %s has %q", m[1], cell)
			}
		}
	}
	wantNames, wantDemands := Rows()
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("rows (-code +page):\n%s", diff)
	}
	if diff := cmp.Diff(wantDemands, demands); diff != "" {
		t.Errorf("demands (-code +page):\n%s", diff)
	}
	if !regexp.MustCompile(`(?m)^Measured on \d{4}-\d\d-\d\d\.$`).MatchString(page) {
		t.Error("the page does not say when")
	}
}

// What is written today says what the page says, but for the results and the day.
func TestThePageBeginsAsItIsWritten(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	if err := (Matrix{}).Markdown(&written, time.Now()); err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(b), "Measured on ")
	code, _, _ := strings.Cut(written.String(), "Measured on ")
	if diff := cmp.Diff(code, page); diff != "" {
		t.Errorf("-code +page:\n%s", diff)
	}
}
