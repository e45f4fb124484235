package offline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestClauses(t *testing.T) {
	for question, want := range map[string][]string{
		"Which port is it?": {"Which port is it"},
		"Which error code must stay, which port does staging use, and what is open in the plan?": {
			"Which error code must stay", "which port does staging use", "what is open in the plan",
		},
		"What are the capacity and the refill of the limit, and is it per IP or per key?": {
			"What are the capacity and the refill of the limit", "is it per IP or per key",
		},
		"For the staging server, which port is used?":                      {"For the staging server, which port is used"},
		"What runs first, the linter or the tests?":                        {"What runs first, the linter or the tests"},
		"Name the port, the ticket and the owner.":                         {"Name the port", "the ticket", "the owner"},
		"Tell me the port and the ticket.":                                 {"Tell me the port and the ticket"},
		"Is 1,000 the limit? Where is main.go; who wrote it":               {"Is 1,000 the limit", "Where is main.go", "who wrote it"},
		"Welcher Port gilt, was muss laufen, bevor es fertig ist, und wo?": {"Welcher Port gilt", "was muss laufen, bevor es fertig ist", "wo"},
		"Was ist im Plan noch offen und welchen Port nutzt Staging?":       {"Was ist im Plan noch offen", "welchen Port nutzt Staging"},
		"Quel port utilise le serveur et où est la clé?":                   {"Quel port utilise le serveur", "où est la clé"},
		"¿Qué puerto usa el servidor y dónde está la clave?":               {"¿Qué puerto usa el servidor", "dónde está la clave"},
		"哪个错误码必须保持不变，预发环境用哪个端口以及计划里还有什么没完成？":                               {"哪个错误码必须保持不变", "预发环境用哪个端口", "计划里还有什么没完成"},
		"容量、补充速率是多少？是谁决定的":                                                 {"容量、补充速率是多少", "是谁决定的"},
		"どのポートを使いますか。鍵はどこ、計画で残っているのは何ですか？":                                 {"どのポートを使いますか", "鍵はどこ", "計画で残っているのは何ですか"},
		"?!":                      {},
		"a? b? c? d? e? f? g? h?": {"a", "b", "c", "d", "e", "f g h"},
	} {
		if diff := cmp.Diff(want, clauses(question)); diff != "" {
			t.Errorf("clauses of %q (-want +got):\n%s", question, diff)
		}
	}
}

// sections cuts an answer at its labels.
func labelled(t *testing.T, answer string, labels ...string) []string {
	t.Helper()
	var out []string
	for i, l := range labels {
		_, rest, found := strings.Cut(answer, "\n"+l+"\n")
		if !found {
			t.Fatalf("the answer has no section %q:\n%s", l, answer)
		}
		if i+1 < len(labels) {
			rest, _, _ = strings.Cut(rest, "\n"+labels[i+1]+"\n")
		}
		out = append(out, rest)
	}
	return out
}

// noise is the output of a test run that has many of the words that are asked for.
func noise() transcript.Body {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "=== RUN   TestErrorCodes%d\n--- PASS: TestStagingPort%d (0.0%ds)\nok  \tplan/open%d\t0.1s\n", i, i, i, i)
	}
	return result("run", b.String())
}

// Each clause is answered on its own, from what the user said and not from the
// output that has more of its words.
func TestCompoundQuestions(t *testing.T) {
	for _, c := range []struct {
		name, ask string
		bodies    []transcript.Body
		labels    []string
		first     []string // what the first quote of each section has
	}{
		{
			name: "English",
			ask:  "Which error code must stay stable, which port does staging use, and which ticket is this?",
			bodies: []transcript.Body{
				user("Ticket PIER-12: two ships got one berth.\n\nRules:\n- Keep the error codes as they are, above all BERTH_TAKEN.\n- No new dependencies."),
				call("run", "bash", `{"command":"go test ./..."}`), noise(), user("Staging listens on port 7480."), noise(),
			},
			labels: []string{"Which error code must stay stable:", "which port does staging use:", "which ticket is this:"},
			first:  []string{"BERTH_TAKEN", "7480", "PIER-12"},
		},
		{
			name: "German",
			ask:  "Welcher Fehlercode muss stabil bleiben, welchen Port nutzt Staging und in welchem Ordner darf nichts geändert werden?",
			bodies: []transcript.Body{
				user("Die Fehlercodes bleiben genau so, vor allem BERTH_TAKEN. Im Verzeichnis migrations darf niemand etwas ändern."),
				noise(), user("Staging lauscht seit Montag auf Port 7480."), noise(),
			},
			labels: []string{"Welcher Fehlercode muss stabil bleiben:", "welchen Port nutzt Staging:", "in welchem Ordner darf nichts geändert werden:"},
			first:  []string{"BERTH_TAKEN", "7480", "your message, as quoted above"},
		},
		{
			name: "Chinese",
			ask:  "哪个错误码必须保持不变，预发环境用哪个端口，工单号是多少？",
			bodies: []transcript.Body{
				user("工单号 PIER-12：两条船分到了同一个泊位。"), user("错误码一律保持原样，尤其是 BERTH_TAKEN。"),
				noise(), user("预发环境现在监听端口 7480。"), noise(),
			},
			labels: []string{"哪个错误码必须保持不变：", "预发环境用哪个端口：", "工单号是多少："},
			first:  []string{"BERTH_TAKEN", "7480", "PIER-12"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := answer(entries(append(c.bodies, user(c.ask))...))
			for i, section := range labelled(t, got, c.labels...) {
				if first, _, _ := strings.Cut(section, "\n"); !strings.Contains(first, c.first[i]) {
					t.Errorf("%s does not begin with %s:\n%s", c.labels[i], c.first[i], got)
				}
				if n := strings.Count(section, "\n- ") + 1; n > maxOfClause {
					t.Errorf("%s has %d quotes", c.labels[i], n)
				}
			}
			if strings.Contains(got, "=== RUN") {
				t.Errorf("noise is quoted:\n%s", got)
			}
		})
	}
}

// A question without a comma can ask for two things as well: the second quote is
// the one that has what the first one lacks.
func TestQuotesComplementEachOther(t *testing.T) {
	got := answer(entries(
		user("The capacity of the tank is large, the capacity of the tank matters."), user("The capacity of the tank is 60 litres."),
		user("The colour of the hull is green."), user("tell me the capacity of the tank and the colour of the hull"),
	))
	quotes := strings.Split(got, "\n- ")[1:]
	if len(quotes) < 2 || !strings.Contains(quotes[0]+quotes[1], "capacity") || !strings.Contains(quotes[0]+quotes[1], "green") {
		t.Errorf("the first two quotes are of one thing:\n%s", got)
	}
}

func TestALineThatRepeatsANameIsWorthLess(t *testing.T) {
	for line, want := range map[string]bool{
		"=== RUN   TestErrorCodes":                           true,
		"104→func TestErrorCodes(t *testing.T)":              true,
		"const errorCodes = 8":                               false, // a value
		`"errorCodes": 8`:                                    false,
		"error_codes are compared as strings by the tablets": false, // a sentence
		"the error of the codes":                             false, // no identifier
		"errorCodes and codeErrors":                          false,
		"nothing":                                            false,
	} {
		q := newQuery("error codes?")
		if got := repeatsName(line, &q, q.clauses[0].terms); got != want {
			t.Errorf("%q repeats a name: %v", line, got)
		}
	}
}

func TestASentenceGoesBeforeANameThatIsRepeated(t *testing.T) {
	got := answer(entries(result("1", "=== RUN   TestBackoffLimit\n--- PASS: TestBackoffLimit (0.02s)\nafter three tries the backoff of the client has its limit"), user("what is the backoff limit?")))
	if first := strings.Split(got, "\n- ")[1]; !strings.Contains(first, "three tries") {
		t.Errorf("the name comes first:\n%s", got)
	}
}

func TestAShortItemIsQuotedWithTheNextOne(t *testing.T) {
	got := answer(entries(user("Hosts:\n- staging\n- 10.0.0.7 port 7480\n- production"), user("staging?")))
	if want := `"- staging - 10.0.0.7 port 7480"`; !strings.Contains(got, want) {
		t.Errorf("the answer lacks %s:\n%s", want, got)
	}
}

func TestLongMessagesAreCutWithTheSentenceBefore(t *testing.T) {
	long := strings.Repeat("The weather was fine that day. ", 14) + "Here is the rule. " + strings.Repeat("Nobody came to the harbour today. ", 20)
	var got []string
	cutText(long, true, true, func(text, _ string) { got = append(got, text) })
	for i, text := range got {
		if len(text) > maxUserPassage || !strings.HasSuffix(text, ".") {
			t.Errorf("passage %d: %q", i, text)
		}
		last := text[strings.LastIndex(text[:len(text)-1], ".")+1:]
		if i+1 < len(got) && !strings.HasPrefix(got[i+1], strings.TrimSpace(last)) {
			t.Errorf("passage %d does not begin with %q", i+1, last)
		}
	}
	if len(got) < 3 {
		t.Errorf("%d passages", len(got))
	}
}

// What several clauses quote, the names of the clauses and the missing words share
// one bound.
func TestAnswersToManyClausesAreBounded(t *testing.T) {
	var bodies []transcript.Body
	var ask strings.Builder
	var steps []string
	for i := range 12 {
		for j := range 5 {
			bodies = append(bodies, user(strings.Repeat(fmt.Sprintf("subject%c is number %d of a long list. ", 'a'+i, j), 12)))
		}
		fmt.Fprintf(&ask, "what is subject%c and unknown%c, ", 'a'+i, 'a'+i)
		steps = append(steps, fmt.Sprintf(`{"step":%q,"status":"pending"}`, strings.Repeat("paint the hull ", 20)))
	}
	bodies = append(bodies, call("p", "update_plan", `{"plan":[`+strings.Join(steps, ",")+`]}`))
	for _, q := range []string{ask.String(), "what is open in the plan, and what is done in the plan, " + ask.String(), "what is open in the plan?"} {
		got := answer(entries(append(slices.Clip(bodies), user(q))...))
		if n := textTokens(got); n > 600 {
			t.Errorf("the answer to %q has %d tokens:\n%s", q, n, got)
		}
	}
}

func TestLongQuestionsHaveFewClauses(t *testing.T) {
	for _, piece := range []string{"what? ", "what, ", "a, ", "and ", "什么，", "\xff"} {
		if got := clauses(strings.Repeat(piece, 100_000/len(piece))); len(got) > maxClauses {
			t.Errorf("%q gives %d clauses", piece, len(got))
		}
	}
}
