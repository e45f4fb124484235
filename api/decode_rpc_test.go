package api

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

const someThread = "0190b3f0-0000-7000-8000-000000000000"

func decode(t *testing.T, name, params string, experimental bool) (any, error) {
	t.Helper()
	m, ok := methodNamed(name)
	if !ok {
		t.Fatalf("no method %s", name)
	}
	return decodeRPC(m, json.RawMessage(params), experimental)
}

// The texts were read off codex 0.171.
func TestJSONRPCParametersAreRefusedInTheWordsOfCodex(t *testing.T) {
	for _, c := range []struct{ method, params, want string }{
		{"thread/read", ``, "Invalid request: missing field `params`"},
		{"thread/read", `null`, "Invalid request: missing field `params`"},
		{"thread/read", `{}`, "Invalid request: missing field `threadId`"},
		{"thread/read", `{"threadId":5}`, "Invalid request: invalid type: integer `5`, expected a string"},
		{"thread/read", `{"threadId":null}`, "Invalid request: invalid type: null, expected a string"},
		{"thread/read", `{"threadId":{}}`, "Invalid request: invalid type: map, expected a string"},
		{"thread/read", `{"threadId":[true]}`, "Invalid request: invalid type: sequence, expected a string"},
		{"thread/read", `{"threadId":false}`, "Invalid request: invalid type: boolean `false`, expected a string"},
		{"thread/read", `{"threadId":"zzz"}`, `invalid thread id: want a UUID, got "zzz"`},
		{"thread/list", `{"limit":"x"}`, "Invalid request: invalid type: string \"x\", expected u32"},
		{"thread/list", `{"limit":-1}`, "Invalid request: invalid value: integer `-1`, expected u32"},
		{"thread/list", `{"limit":1.5}`, "Invalid request: invalid type: floating point `1.5`, expected u32"},
		{"thread/list", `{"limit":99999999999}`, "Invalid request: invalid value: integer `99999999999`, expected u32"},
		{"thread/start", `{"sandbox":"zz"}`, "Invalid request: unknown variant `zz`, expected one of `read-only`, `workspace-write`, `danger-full-access`"},
		{"turn/start", `{"threadId":"` + someThread + `"}`, "Invalid request: missing field `input`"},
		{"turn/start", `{"threadId":"` + someThread + `","input":"x","mode":"zz"}`, "Invalid request: unknown variant `zz`, expected `queue` or `steer`"},
		{"turn/start", `{"threadId":"` + someThread + `","input":5}`, "Invalid request: invalid type: integer `5`, expected a sequence"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{}]}`, "Invalid request: missing field `type`"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"zz"}]}`, "Invalid request: unknown variant `zz`, expected one of `text`, `image`, `localImage`"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"text","text":5}]}`, "Invalid request: invalid type: integer `5`, expected a string"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"skill","name":"s","path":"/p"}]}`, "input[0] is of type skill: this server takes texts and images; say it in words"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"image","fileId":"f"}]}`, "input[0] names a file of the provider: this server has none; send a data URL"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"localImage"}]}`, "Invalid request: missing field `path`"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"text"}]}`, "Invalid request: missing field `text`"},
		{"turn/start", `{"threadId":"` + someThread + `","input":[]}`, "field `input`: want a text that is not blank, or an image"},
		{"thread/start", `{"approvalPolicy":{"granular":{"rules":true}}}`, "Invalid request: unknown variant `granular`, expected one of `untrusted`, `on-request`, `never`"},
		{"thread/list", `{"includedThreadIds":["zz"]}`, `invalid thread id: want a UUID, got "zz"`},
		{"thread/list", `{"sourceKinds":["zz"]}`, "Invalid request: unknown variant `zz`, expected one of `cli`, `vscode`, `exec`, `appServer`, `subAgent`, `subAgentReview`, `subAgentCompact`, `subAgentThreadSpawn`, `subAgentOther`, `unknown`"},
		{"thread/settings/update", `{}`, "Invalid request: missing field `threadId`"},
		{"thread/settings/update", `{"threadId":"` + someThread + `"}`, "thread/settings/update requires experimentalApi capability"},
		{"thread/fork", `{"threadId":"` + someThread + `","beforeTurnId":"x"}`, "thread/fork.beforeTurnId requires experimentalApi capability"},
		{"thread/start", `{"dynamicTools":[]}`, "thread/start.dynamicTools requires experimentalApi capability"},
		{"thread/start", `{"experimentalRawEvents":true}`, "thread/start.experimentalRawEvents requires experimentalApi capability"},
		{"thread/start", `5`, "Invalid request: invalid type: integer `5`, expected struct ThreadStartParams"},
	} {
		_, err := decode(t, c.method, c.params, false)
		if fault.CodeOf(err) != fault.Invalid || fault.MessageOf(err) != c.want {
			t.Errorf("%s %s: %v, want %s", c.method, c.params, err, c.want)
		}
	}
}

func TestJSONRPCIgnoresWhatItDoesNotKnow(t *testing.T) {
	for _, params := range []string{
		`{"threadId":"` + someThread + `","input":"x","turnTrigger":"user","nonsense":{"a":[1]},"mode":null,"clientUserMessageId":null}`,
		`{"threadId":"x","threadId":"` + someThread + `","input":[{"type":"text","text":"x","more":1}]}`,
	} {
		got, err := decode(t, "turn/start", params, false)
		if err != nil {
			t.Errorf("%s: %v", params, err)
			continue
		}
		p := got.(*TurnStartParams)
		if p.ThreadID != someThread || p.Mode != "steer" || len(p.Input) != 1 || p.Input[0].Text != "x" {
			t.Errorf("%s: read as %+v", params, p)
		}
	}
}

func TestAThreadIsNamedInAnyFormOfItsUUID(t *testing.T) {
	for _, form := range []string{strings.ToUpper(someThread), "urn:uuid:" + someThread} {
		got, err := decode(t, "thread/read", `{"threadId":"`+form+`"}`, false)
		if err != nil || got.(*ThreadReadParams).ThreadID != someThread {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
}

func TestAPageOfZeroOrTooManyIsBroughtIntoItsBounds(t *testing.T) {
	for params, want := range map[string]int{`{"limit":0}`: 1, `{"limit":5000}`: maxPage, `{"limit":7}`: 7, `{"limit":null}`: 0, `{}`: 0} {
		got, err := decode(t, "thread/list", params, false)
		if err != nil || got.(*ThreadListParams).Limit != want {
			t.Errorf("%s: %+v, %v; want limit %d", params, got, err, want)
		}
	}
}

func TestExperimentalMembersNeedTheCapabilityUnlessTheyAreOff(t *testing.T) {
	for method, fields := range experimentalFields {
		on := map[string]string{ // a value that each of them can have
			"initialTurnsPage": `{}`, "dynamicTools": `[]`, "permissions": `":read-only"`, "collaborationMode": `{"mode":"default","settings":{}}`,
			"projectId": `"x"`, "parentThreadId": `"x"`, "ancestorThreadId": `"x"`, "attachedToThreadId": `"x"`, "beforeTurnId": `"x"`,
		}
		for _, f := range fields {
			params := `{"threadId":"` + someThread + `","input":"x","expectedTurnId":"x","gitInfo":null,"` + f + `":`
			for _, off := range []string{"null", "false"} {
				if _, err := decode(t, method, params+off+"}", false); err != nil && strings.Contains(err.Error(), "experimentalApi") {
					t.Errorf("%s with %s %s: %v", method, f, off, err)
				}
			}
			_, err := decode(t, method, params+cmp.Or(on[f], "true")+"}", false)
			if want := method + "." + f + " requires experimentalApi capability"; err == nil || err.Error() != want {
				t.Errorf("%s with %s: %v, want %s", method, f, err, want)
			}
		}
	}
	if _, err := decode(t, "thread/start", `{"experimentalRawEvents":true}`, true); err != nil {
		t.Errorf("with the capability: %v", err)
	}
}

// Whatever is sent as parameters is read or refused, with a text that is bounded.
func FuzzRPCParams(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `5`, `"x"`, `{"threadId":"` + someThread + `","input":[{"type":"text","text":"x"}],"limit":1e9}`,
		`{"threadId":"` + someThread + `","gitInfo":{"sha":null,"branch":5},"items":[{},null],"name":"n","turnId":"u"}`,
		`{"dynamicTools":[{"type":"namespace","name":"n","description":"d","tools":[{}]}],"cwd":["a",null],"sourceKinds":[[]]}`,
		`{"collaborationMode":{"mode":"plan","settings":null},"sandboxPolicy":{"type":{"readOnly":{}}},"result":{"decision":{}}}`,
		`{"threadId":"\ud800","limit":-0,"epoch":18446744073709551616}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, params []byte, experimental bool) {
		if !json.Valid(params) && len(params) > 0 {
			return // the connection has refused it before
		}
		for _, m := range methods {
			if m.call == nil {
				continue
			}
			got, err := decodeRPC(m, params, experimental)
			if err == nil && got == nil || err != nil && fault.CodeOf(err) != fault.Invalid {
				t.Errorf("%s %s: %v, %v", m.name, params, got, err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%s: the error has %d bytes", m.name, len(err.Error()))
			}
		}
	})
}
