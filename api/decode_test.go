package api

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A request that is wrong is told what was wrong and what is allowed.
func TestWrongRequestsAreToldWhy(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	turns, compact := "/v1/threads/"+id+"/turns", "/v1/threads/"+id+"/compact"
	for _, c := range []struct {
		method, target, body string
		status               int
		detail               []string
	}{
		{"GET", "/v1/threads?limit=abc", "", 400, []string{"`limit`", "integer between 1 and 1000", `"abc"`}},
		{"GET", "/v1/threads?limit=0", "", 400, []string{"`limit`", "between 1 and 1000", "0"}},
		{"GET", "/v1/threads?limit=1001", "", 400, []string{"1001"}},
		{"GET", "/v1/threads?limit=%2B5", "", 400, []string{`"+5"`}},
		{"GET", "/v1/threads?limit=5&limit=6", "", 400, []string{"`limit`", "twice"}},
		{"GET", "/v1/threads?lmit=5", "", 400, []string{"`lmit`", "`cursor`, `limit`"}},
		{"GET", "/v1/threads?limit=%zz", "", 400, []string{"query"}},
		{"GET", "/v1/threads?cursor=zzz", "", 400, []string{"cursor", "zzz"}},
		{"GET", "/v1/threads?cursor=99999999999999999999", "", 400, []string{"cursor"}},
		{"GET", "/v1/threads/" + id + "/items?cursor=-3", "", 400, []string{"cursor", "-3"}},
		{"GET", turns + "?sortDirection=up", "", 400, []string{"`sortDirection`", "`asc`, `desc`", `"up"`}},
		{"GET", "/v1/threads/" + id + "/context?epoch=-1", "", 400, []string{"`epoch`", "-1"}},
		{"GET", "/v1/threads", "{}", 400, []string{"no body"}},
		{"DELETE", "/v1/threads/" + id, "{}", 400, []string{"no body"}},
		{"POST", "/v1/threads", "", 400, []string{"empty", "{}"}},
		{"POST", "/v1/threads", " \n", 400, []string{"empty"}},
		{"POST", "/v1/threads", "{", 400, []string{"malformed", "middle"}},
		{"POST", "/v1/threads", `{"cwd":"/w"`, 400, []string{"malformed"}},
		{"POST", "/v1/threads", `{"cwd" "/w"}`, 400, []string{"malformed", "byte"}},
		{"POST", "/v1/threads", `{"cwd":"/w",}`, 400, []string{"malformed"}},
		{"POST", "/v1/threads", `{cwd:1}`, 400, []string{"malformed"}},
		{"POST", "/v1/threads", `{} {}`, 400, []string{"more than one"}},
		{"POST", "/v1/threads", `[]`, 400, []string{"object", "a list"}},
		{"POST", "/v1/threads", `null`, 400, []string{"object", "null"}},
		{"POST", "/v1/threads", `7`, 400, []string{"object", "7"}},
		{"POST", "/v1/threads", "{\"cwd\":\"\xff\"}", 400, []string{"UTF-8"}},
		{"POST", "/v1/threads", `{"Cwd":"/w"}`, 400, []string{"unknown field `Cwd`", "`cwd`"}},
		{"POST", "/v1/threads", `{"cwd":7}`, 400, []string{"`cwd`", "a text", "7"}},
		{"POST", "/v1/threads", `{"sandbox":"none"}`, 400, []string{"`sandbox`", "`read-only`", `"none"`}},
		{"POST", "/v1/threads", `{"name":"` + strings.Repeat("n", 201) + `"}`, 400, []string{"`name`", "200"}},
		{"POST", "/v1/threads", `{"modelProvider":"nobody"}`, 400, []string{"nobody"}},
		{"POST", "/v1/threads", `{"clientRequestId":"x"}`, 400, []string{"`clientRequestId`"}},
		{"POST", turns, `{}`, 400, []string{"`input`", "missing"}},
		{"POST", turns, `{"input":null}`, 400, []string{"`input`"}},
		{"POST", turns, `{"input":7}`, 400, []string{"`input`", "a text or a list of parts", "7"}},
		{"POST", turns, `{"input":""}`, 400, []string{"`input`", "blank"}},
		{"POST", turns, `{"input":[]}`, 400, []string{"`input`", "between 1 and 64"}},
		{"POST", turns, `{"input":[{"type":"text"}]}`, 400, []string{"`input[0].text`", "missing"}},
		{"POST", turns, `{"input":[{"type":"text","text":1}]}`, 400, []string{"`input[0].text`", "1"}},
		{"POST", turns, `{"input":[{"type":"audio","text":"x"}]}`, 400, []string{"`input[0].type`", "`localImage`", `"audio"`}},
		{"POST", turns, `{"input":[{"type":"image","text":"x"}]}`, 400, []string{"`input[0].text`", "does not go with", "`url`"}},
		{"POST", turns, `{"input":[{"type":"localImage"}]}`, 400, []string{"`input[0].path`", "missing"}},
		{"POST", turns, `{"input":["x"]}`, 400, []string{"`input[0]`", "an object"}},
		{"POST", turns, `{"input":"x","mode":"now"}`, 400, []string{"`mode`", "`queue`, `steer`"}},
		{"POST", turns, `{"input":"x","threadId":"` + id + `"}`, 400, []string{"`threadId`"}},
		{"POST", turns, `{"input":[` + strings.Repeat(`{"type":"text","text":"x"},`, 64) + `{"type":"text","text":"x"}]}`, 400, []string{"64", "65"}},
		{"POST", compact, `{"budget":1.5}`, 400, []string{"`budget`", "an integer", "1.5"}},
		{"POST", compact, `{"budget":1e3}`, 400, []string{"`budget`"}},
		{"POST", compact, `{"budget":-1}`, 400, []string{"`budget`", "-1"}},
		{"POST", compact, `{"route":"other"}`, 400, []string{"`route`", "`native`, `local`"}},
		{"POST", compact, `{"wait":"yes"}`, 400, []string{"`wait`", "true or false"}},
		{"POST", compact + "?wait=yes", `{}`, 400, []string{"`wait`", "true or false"}},
		{"POST", compact + "?wait=true", `{"wait":true}`, 400, []string{"`wait`", "once"}},
		{"POST", compact, `{"instructions":"` + strings.Repeat("i", 4001) + `"}`, 400, []string{"`instructions`", "4000"}},
		{"POST", "/v1/threads", `{"a":[` + strings.Repeat("0,", 100_001) + `0]}`, 400, []string{"100000"}},
		{"POST", "/v1/threads", strings.Repeat("[", 65) + strings.Repeat("]", 65), 400, []string{"64 levels"}},
		{"POST", "/v1/threads", strings.Repeat("[", 64) + strings.Repeat("]", 64), 400, []string{"a list"}},
		{"GET", "/v1/threads/nobody", "", 404, []string{"nobody"}},
		{"GET", "/v1/threads/" + id + "/turns/nobody", "", 404, []string{"nobody"}},
		{"POST", "/v1/threads/" + id + "/turns/nobody/interrupt", "{}", 404, []string{"no active turn to interrupt"}},
		{"GET", "/v1/threads/" + id + "/compactions/nobody", "", 404, []string{"nobody"}},
		{"POST", "/v1/threads/nobody/turns", `{"input":"x"}`, 404, []string{"nobody"}},
		{"POST", "/v1/threads/nobody/compact", `{}`, 404, []string{"nobody"}},
		{"DELETE", "/v1/threads/nobody", "", 404, []string{"nobody"}},
		{"GET", "/v1/threads/no.body", "", 404, []string{"1 to 64"}},
		{"GET", "/v1/", "", 404, []string{"openapi.yaml"}},
		{"PUT", "/v1/threads", "{}", 415, nil},
		{"DELETE", "/v1/threads", "", 405, []string{"GET, POST"}},
		{"POST", "/openapi.yaml", "{}", 405, []string{"GET"}},
	} {
		name := c.method + " " + clip(c.target) + " " + clip(c.body)
		a := d.do(c.method, c.target, c.body)
		if a.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, a.status, c.status, a.body)
			continue
		}
		var p Problem
		d.into(a, c.status, &p)
		for _, part := range c.detail {
			if !strings.Contains(p.Detail, part) {
				t.Errorf("%s: detail %q lacks %q", name, p.Detail, part)
			}
		}
	}
}

// Null is as good as absent for what is optional: codex clients send it.
func TestNullIsAbsent(t *testing.T) {
	d := open(t)
	call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"cwd":null,"model":null,"sandbox":null,"name":null}`)
}

func FuzzRequestBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"input":"x"}`, `{"input":[{"type":"text","text":"x","text_elements":[{"byteRange":{"start":0,"end":1}}]}],"mode":"steer"}`,
		`{"a":{"a":{}}}`, `[1]`, `nul`, `{"input":1}{}`, "\xff", `{"cwd":"\ud800"}`, `{"budget":123456789012345678901234567890}`, `{"wait":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, m := range methods {
			params := reflect.New(m.params)
			v, err := parse(body)
			if err == nil {
				err = assign(v, params, m.fieldsIn(inBody, inBoth), "")
			}
			if err != nil {
				if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.Invalid || fe.Message == "" || len(fe.Message) > 1000 {
					t.Fatalf("%s: %q gives %#v", m.name, body, err)
				}
				continue
			}
			checkParams(t, m, params.Elem())
		}
	})
}

// checkParams verifies that what was accepted is within its constraints.
func checkParams(t *testing.T, m method, params reflect.Value) {
	for _, f := range m.fieldsIn(inBody, inBoth) {
		v := params.FieldByIndex(f.index)
		if v.IsZero() {
			continue
		}
		switch v.Kind() {
		case reflect.String:
			if !f.allowsText(v.String()) {
				t.Fatalf("%s: %s is %q", m.name, f.name, v)
			}
		case reflect.Int:
			if !f.allowsNumber(v.Int()) {
				t.Fatalf("%s: %s is %d", m.name, f.name, v.Int())
			}
		}
		if in, ok := reflect.TypeAssert[Input](v); ok && (len(in) == 0 || len(in) > maxParts) {
			t.Fatalf("%d parts", len(in))
		}
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "abcdefgh.1", "abcdefgh.-1", "abcdefgh.01", ".", "ABCDEFGH.1", "abcdefgh.9223372036854775808", "abcdefgh.1\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := cursorOf("after", s)
		switch {
		case err != nil:
			if fault.CodeOf(err) != fault.Invalid {
				t.Fatalf("%q: %v", s, err)
			}
		case c == nil:
			if s != "" {
				t.Fatalf("%q is no cursor and no error", s)
			}
		case c.String() != s || c.N < 0:
			t.Fatalf("%q reads as %v", s, c)
		}
	})
}
