package compaction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestRulesAreFoundInManyLanguages(t *testing.T) {
	for text, want := range map[string]int{
		"Never touch the migrations folder.":      standing,
		"No new dependencies":                     standing,
		"Keep the public error codes as they are": standing,
		"Do not push to main.":                    standing,
		"The body must stay \"ok\" when healthy":  standing,
		"Ändere niemals das Schema.":              standing,
		"Keine neuen Abhängigkeiten.":             standing,
		"Verwende nur die Standardbibliothek":     standing,
		"Nunca toques la carpeta de migraciones.": standing,
		"Usa solo la biblioteca estándar":         standing,
		"Ne touche jamais au schéma.":             standing,
		"Não use bibliotecas novas":               standing,
		"Никогда не меняй схему":                  standing,
		"不要修改迁移目录":                                standing,
		"必须先运行测试":                                 standing,
		"テストを必ず実行すること":                            standing,
		"스키마는 절대 바꾸지 말 것":                         standing,
		"Capacity 60 instead of 40.":              wished,
		"per API key, not per IP":                 wished,
		"Decision of the team: capacity 40":       wished,
		"The timeout: 30 seconds":                 wished,
		"Bitte zuerst die Tests":                  wished,
		"Por favor, en español":                   wished,
		"请用中文回答":                                  wished,
		"I copied the part from the machine.":     -1,
		"Great.":                                  -1,
		"Should we not add an index too?":         -1,
		"The notice came on Monday at noon":       -1,
		"Ticket A-1: last week a ship came":       -1,
		"Must it always be one lock?":             -1,
		"Yes":                                     -1,
		"":                                        -1,
	} {
		weight, ok := weigh(text)
		if !ok {
			weight = -1
		}
		if weight != want {
			t.Errorf("%q has the weight %d, want %d", text, weight, want)
		}
	}
}

// What is listed under a line that announces rules is one, however it is worded.
func TestListsOfRulesAreTakenWhole(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []rule
	}{
		"english": {
			"Hi.\n\nSome rules for this repository:\n- The schema belongs to the data team. Hands off.\n- Tests first\n\nThanks for the help",
			[]rule{{"x", "The schema belongs to the data team. Hands off.", listed}, {"x", "Tests first", listed}},
		},
		"german":            {"Regeln:\n1. Erst testen\n2) Dann melden", []rule{{"x", "Erst testen", listed}, {"x", "Dann melden", listed}}},
		"chinese":           {"项目规则：\n1、先测试\n2、后提交", []rule{{"x", "先测试", listed}, {"x", "后提交", listed}}},
		"spanish":           {"Reglas del proyecto:\n* Primero las pruebas", []rule{{"x", "Primero las pruebas", listed}}},
		"double mark":       {"Rules:\n- - Tests first", []rule{{"x", "Tests first", listed}}},
		"not of rules":      {"I saw:\n- a red light\n- a green light", nil},
		"after the list":    {"Rules:\n- One\n\nI saw:\n- a light", []rule{{"x", "One", listed}}},
		"code is no rule":   {"```\n// never do this\n```", nil},
		"mark of a bullet":  {"- Never do this", []rule{{"x", "Never do this", standing}}},
		"several sentences": {"It works. Never do this! Nice.", []rule{{"x", "Never do this!", standing}}},
	} {
		if d := cmp.Diff(c.want, rulesOf("x", c.text)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if n := len(rulesOf("x", strings.Repeat("Never do this.\n", 500))); n > maxRulesPerText {
		t.Errorf("a document of %d rules", n)
	}
}

func TestTheLedgerBoundsRulesByWeight(t *testing.T) {
	var rules []rule
	add := func(n int, weight int, word string) {
		for i := range n {
			rules = append(rules, rule{Text: word + strings.Repeat("i", i), Weight: weight})
		}
	}
	add(40, listed, "l")
	add(100, wished, "w")
	add(60, standing, "s")
	add(1, listed, "l") // mentioned again
	got := capRules(rules)
	count := map[int]int{}
	for _, r := range got {
		count[r.Weight]++
	}
	if want := map[int]int{listed: 40, standing: 60, wished: maxRules - 100}; !cmp.Equal(count, want) {
		t.Errorf("kept %v, want %v", count, want)
	}
	if got[len(got)-1].Text != "l" || got[0].Text == "l" {
		t.Error("a rule that is repeated is not at its last mention")
	}
	l := ledger{Rules: got}
	if first := l.byWeight()[0]; first.Text != "l" {
		t.Errorf("the first to survive is %v", first)
	}
}

// A ledger of a time when rules were not noted yields those of its messages.
func TestOldLedgersGetTheirRules(t *testing.T) {
	raw := transcript.RawJSON(`{"v":1,"users":[{"id":"a","text":"Never do this."}]}`)
	it := transcript.Item{ID: "c", Body: transcript.Checkpoint{Ledger: &raw}}
	l := fold([]*transcript.Item{&it})
	if d := cmp.Diff([]rule{{"a", "Never do this.", standing}}, l.Rules); d != "" {
		t.Error(d)
	}
}

func TestWhatSaysNothingIsNotQuoted(t *testing.T) {
	for text, want := range map[string]bool{
		"[Request interrupted by user for tool use]": true,
		"[Request interrupted by user]":              true,
		"/mode":                                      true,
		"sleep":                                      true,
		"continue":                                   true,
		"":                                           true,
		"/mode plan, and never edit":                 false,
		"use B":                                      false,
		"2":                                          false,
		"继续":                                         false,
		"HARB-2187":                                  false,
	} {
		if got := saysNothing(text); got != want {
			t.Errorf("saysNothing(%q) = %t", text, got)
		}
	}
	entries := append(inOrderOf(user("Fix it, please."), user("[Request interrupted by user]"), user("/mode")), script("u a", 10, 2_000)...)
	c := mustCompose(t, Input{Entries: renumber(entries), Budget: 3_000})
	for _, noise := range []string{"interrupted", "/mode"} {
		if strings.Contains(c.Checkpoint.Text, noise) {
			t.Errorf("%q is quoted:\n%s", noise, c.Checkpoint.Text)
		}
	}
	if !strings.Contains(c.Checkpoint.Text, "- Fix it, please.\n") {
		t.Errorf("the request is not quoted:\n%s", c.Checkpoint.Text)
	}
}

func TestAnInterruptionIsNotTheLastRequest(t *testing.T) {
	entries := renumber(append(script("u a", 10, 1_000), inOrderOf(user("Now the last thing."), transcript.AgentMessage{Text: filler(1, 3_000)}, user("[Request interrupted by user]"))...))
	c := mustCompose(t, Input{Entries: entries, Budget: 1_200})
	if f := formOf(c, entries[len(entries)-3].Item.ID); f != transcript.FormWhole {
		t.Errorf("the request before the interruption is %q", f)
	}
}
