package compaction

import "testing"

func TestDeclarationsIntroduceNames(t *testing.T) {
	for line, want := range map[string]bool{
		"type parserState struct{}":                  true,
		"func ParseAll(r io.Reader) error":           false, // another name
		"func parserState() int {":                   true,
		"func (p *Parser) parserState() int {":       true,
		"    88→func (p *Parser) parserState() {":    true,
		"\tparserState  time.Duration":               true,
		"  12\tparserState = errors.New(\"x\")":      true,
		"parserState := 1":                           true,
		"class parserState:":                         true,
		"export parserState = 3":                     true,
		"\treturn parserState":                       false,
		"\tparserState(ctx, 1)":                      false,
		"if x == parserState {":                      false,
		"parserState == 3":                           false,
		"// parserState holds it":                    false,
		"the parserState is what we need to look at": false,
	} {
		got := false
		for m := range names(line) {
			got = got || m.name == "parserState" && m.isDeclared()
		}
		if got != want {
			t.Errorf("%q declares parserState: %t", line, got)
		}
	}
}

func TestNamesOfLibrariesAreForeign(t *testing.T) {
	for line, want := range map[string]bool{
		"w.WriteHeader(http.StatusOK)": true,
		"x := http.StatusTeapot":       true,
		"return errRateLimited":        false,
		"berth.NewAssigner(store)":     false,
		"s.addTotal()":                 false,
	} {
		got := false
		for m := range names(line) {
			got = got || m.isForeign()
		}
		if got != want {
			t.Errorf("%q holds a foreign name: %t", line, got)
		}
	}
}

func TestNumbersOfLinesAreTakenOff(t *testing.T) {
	for line, want := range map[string]string{
		"    88→// AssignTo": "// AssignTo",
		"12\tx":              "x",
		"  7| x":             " x",
		"12 ships":           "12 ships",
		"x":                  "x",
		"":                   "",
	} {
		if got := withoutNumber(line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

// A name that stands in very many items, and that nobody declared, is no fact.
func TestCommonNamesAreNotFacts(t *testing.T) {
	for _, c := range []struct {
		mentions int
		want     bool
	}{{3, true}, {40, false}} {
		p := &planner{}
		for i := range 60 {
			text := "nothing"
			if i < c.mentions {
				text = "we use sessionToken here"
			}
			e := withID("x", 1, user(text))
			p.nodes = append(p.nodes, newNode(&e))
		}
		got := p.introductions(map[string]int{"sessionToken": 1})["sessionToken"].line != ""
		if got != c.want {
			t.Errorf("a name in %d of 60 items is a fact: %t", c.mentions, got)
		}
	}
}
