package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWhatAFrameIs(t *testing.T) {
	const parseError = `{"id":null,"error":{"code":-32700,"message":"Parse error: a frame is one JSON text in UTF-8"}}`
	noMethod := func(id string) string {
		return `{"id":` + id + `,"error":{"code":-32600,"message":"Invalid request: missing field ` + "`method`" + `"}}`
	}
	badMethod := func(id string) string {
		return `{"id":` + id + `,"error":{"code":-32600,"message":"Invalid request: ` + "`method`" + ` must be a string"}}`
	}
	echo := func(id, params string) string { return `{"id":` + id + `,"result":` + params + `}` }
	const dropped = ""
	for frame, want := range map[string]string{
		// no JSON
		``: parseError, ` `: parseError, `{`: parseError, `{bad`: parseError, `hello`: parseError, `{"id":1,}`: parseError,
		`{"id":1,"method":"m"}{}`: parseError, `{"id":01,"method":"m"}`: parseError, "\xef\xbb\xbf{}": parseError,
		"{\"id\":1,\"method\":\"\xff\"}": parseError, `{"id":1,"method":"m","params":` + strings.Repeat("[", 20_000): parseError,
		`{'id':1}`: parseError, "{\"id\":\"a\nb\"}": parseError, `NaN`: parseError, `{"id":1,"method":"m"`: parseError,

		// JSON, and no message, with nothing to answer to
		`{}`: dropped, `[]`: dropped, `7`: dropped, `"x"`: dropped, `null`: dropped, `true`: dropped,
		`[{"id":1,"method":"m"}]`: dropped, `[{"id":1,"method":"m"},{"id":2,"method":"m"}]`: dropped,
		`{"id":null,"method":"m"}`: dropped, `{"id":true,"method":"m"}`: dropped, `{"id":{},"method":"m"}`: dropped,
		`{"id":[1],"method":"m"}`: dropped, `{"method":5}`: dropped, `{"method":null}`: dropped, `{"params":{}}`: dropped,
		`{"result":1}`: dropped, `{"id":null,"result":1}`: dropped, `{"ID":1,"Method":"m"}`: dropped, `{"id":1,"id":null,"method":"m"}`: dropped,

		// the same, with an id
		`{"id":1}`: noMethod("1"), `{"id":"a","params":{}}`: noMethod(`"a"`), `{"id":-5.5,"error":null}`: noMethod("-5.5"),
		`{"id":1,"Method":"m"}`: noMethod("1"), `{"id":2,"method":5}`: badMethod("2"), `{"id":2,"method":null,"result":1}`: badMethod("2"),
		`{"id":2,"method":["m"]}`: badMethod("2"),

		// requests
		`{"id":1,"method":"m","params":{"a":1}}`:                                         echo("1", `{"a":1}`),
		` {"jsonrpc":"2.0","id":1,"method":"m","params":[]} `:                            echo("1", `[]`),
		`{"jsonrpc":"1.0","id":1,"method":"m","params":[]}`:                              echo("1", `[]`),
		`{"id":1,"method":"m"}`:                                                          echo("1", `null`),
		`{"id":1,"method":"m","params":null}`:                                            echo("1", `null`),
		`{"id":1,"method":"m","params":[],"trace":{"id":9},"meta":5}`:                    echo("1", `[]`),
		`{"id":1,"method":"","params":"p"}`:                                              echo("1", `"p"`),
		`{"id":1,"method":"a","params":[],"result":1,"error":{}}`:                        echo("1", `[]`),
		`{"id":1,"method":"m","params":1,"id":2,"params":2}`:                             echo("2", `2`),
		`{"\u0069d":1,"m\u0065thod":"m","params":[]}`:                                    echo("1", `[]`),
		"{\t\"id\"\r\n:\n1 ,\"method\" : \"m\" , \"params\" : 12345678901234567890.10 }": echo("1", `12345678901234567890.10`),
		`{"id":1,"method":"m","params":{"jsonrpc":"2.0","id":7,"s":"}],\"{"}}`:           echo("1", `{"jsonrpc":"2.0","id":7,"s":"}],\"{"}`),
	} {
		p := connectPipe(t, &script{}, Options{})
		p.send("%s", frame)
		if want != dropped {
			p.want(want)
		}
		p.alive()
		if err := p.hangUp(); err != nil {
			t.Error(err)
		}
		s := p.conn.Stats()
		answered := strings.Contains(want, `"result"`)
		if n := s.Unparsable + s.Refused + s.Dropped; (n == 0) != answered || n > 1 || (s.Dropped == 1) != (want == dropped) {
			t.Errorf("%.100q: counted as %+v", frame, s)
		}
	}
}

// ids are ids of every kind.
func ids() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?`),
		rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) }),
		rapid.SampledFrom([]string{`"\u0000id:7"`, `"\u2028\ud800"`, `"<&>"`, "\"\u2028\"", `""`, `-0`, `1E400`}),
	)
}

func TestIDsAreGivenBackByteForByte(t *testing.T) {
	p := connectPipe(t, &script{}, Options{})
	rapid.Check(t, func(t *rapid.T) {
		id := ids().Draw(t, "id")
		version := rapid.SampledFrom([]string{``, `"jsonrpc":"2.0",`}).Draw(t, "version")
		method := rapid.String().Draw(t, "method")
		quoted, _ := json.Marshal(method)
		p.t = t
		p.send("%s", `{`+version+`"id":`+id+`,"method":`+string(quoted)+`,"params":[1]}`)
		p.want(`{"id":` + id + `,"result":[1]}`)
		p.send("%s", `{"id":`+id+`}`)
		if r := parseReply(t, p.recv()); string(r.ID) != id || r.Error.Code != CodeInvalid {
			t.Fatalf("sent %s, got %s, %v", id, r.ID, r.Error)
		}
	})
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
}

func TestResponsesReachTheHandlerAsTheyWereSent(t *testing.T) {
	type said struct {
		id, result string
		problem    *Error
	}
	got := make(chan said, 1)
	p := connectPipe(t, &script{answer: func(id, result json.RawMessage, problem *Error) {
		got <- said{string(id), string(result), problem}
	}}, Options{})
	for frame, want := range map[string]said{
		`{"id":"req-1","result":{"a": 1e400}}`:                              {`"req-1"`, `{"a": 1e400}`, nil},
		`{"id":-1.50,"result":null,"error":null}`:                           {`-1.50`, `null`, nil},
		`{"jsonrpc":"2.0","error":{"code":-3,"message":"no"},"id":0}`:       {`0`, ``, &Error{Code: -3, Message: "no"}},
		`{"id":0,"error":{"code":1,"message":"m","data":{"x":[]}}}`:         {`0`, ``, &Error{Code: 1, Message: "m", Data: []byte(`{"x":[]}`)}},
		`{"id":0,"result":7,"error":{"code":1,"message":"m"},"other":true}`: {`0`, `7`, &Error{Code: 1, Message: "m"}},
		`{"id":0,"error":"boom"}`: {`0`, ``, &Error{
			Code: CodeInternal, Message: "the client answered with an error that is no error object", Data: []byte(`"boom"`),
		}},
	} {
		p.send("%s", frame)
		if diff := cmp.Diff(want, <-got, cmp.AllowUnexported(said{})); diff != "" {
			t.Errorf("%s:\n%s", frame, diff)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
}

// TestMembersAreThoseOfEncodingJSON holds the scanner against the standard one.
func TestMembersAreThoseOfEncodingJSON(t *testing.T) {
	value := rapid.Deferred(jsonText)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.String()).Draw(t, "names")
		blank := rapid.SampledFrom([]string{"", " ", "\n\t", "\r"})
		var obj bytes.Buffer
		obj.WriteString(`{` + blank.Draw(t, "blank"))
		for i, n := range names {
			if i > 0 {
				obj.WriteByte(',')
			}
			quoted, _ := json.Marshal(n)
			for _, part := range []string{string(quoted), ":", value.Draw(t, "value")} {
				obj.WriteString(blank.Draw(t, "blank") + part + blank.Draw(t, "blank"))
			}
		}
		obj.WriteString(`}`)
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(obj.Bytes(), &want); err != nil {
			t.Fatalf("%v: %s", err, obj.Bytes())
		}
		got := map[string]json.RawMessage{}
		for name, value := range members(obj.Bytes()) {
			got[string(name)] = value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s:\n%s", obj.Bytes(), diff)
		}
	})
}

// jsonText makes JSON texts.
func jsonText() *rapid.Generator[string] {
	text := rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) })
	inner := rapid.Deferred(jsonText)
	return rapid.OneOf(
		text, rapid.SampledFrom([]string{`null`, `true`, `false`, `0`, `-1.5e+7`, `"\\"`, `"\""`, `{ }`, `[ ]`, `"]}"`}),
		rapid.Map(rapid.SliceOfN(inner, 0, 2), func(v []string) string { return "[" + strings.Join(v, " , ") + "]" }),
		rapid.Custom(func(t *rapid.T) string { return "{" + text.Draw(t, "name") + " : " + inner.Draw(t, "inner") + "}" }),
	)
}

// FuzzFrame sends any bytes: whatever they are, a request after them is answered,
// and nothing else but at most one answer comes before.
func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		``, `{`, `{}`, `[]`, `null`, `{"id":1,"method":"m"}`, `{"id":-1.5e3,"method":"m","params":null}`,
		`{"id":1,"result":{}}`, `{"id":1,"error":{}}`, `{"method":"initialized"}`, `[{"id":1,"method":"m"}]`, "{\"id\":\"\xff\"}",
		`{"id":"\u0000","method":"\ud800"}`, `{"id":1e999,"method":"\u006d","params":[[[]]]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		p := connectPipe(t, &script{}, Options{})
		p.send("%s", frame)
		p.send(`{"id":"end of the fuzz","method":"m","params":[]}`)
		for range 2 {
			got := p.recv()
			if !json.Valid([]byte(got)) {
				t.Fatalf("%q is answered with %q", frame, got)
			}
			if got == `{"id":"end of the fuzz","result":[]}` {
				if err := p.hangUp(); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("%q has more than one answer", frame)
	})
}

// FuzzID sends anything as an id.
func FuzzID(f *testing.F) {
	for _, s := range []string{`1`, `-7`, `5.5`, `1e400`, `18446744073709551616`, `"a"`, `"\u0000"`, `null`, `true`, `{}`, `[1]`, `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		frame := `{"id":` + id + `,"method":"m"}`
		m, kind := parse([]byte(frame))
		var want struct{ ID any }
		d := json.NewDecoder(strings.NewReader(frame))
		d.UseNumber()
		if d.Decode(&want) != nil || kind == garbage {
			return
		}
		switch want.ID.(type) {
		case string, json.Number:
		default:
			return
		}
		if strings.ContainsAny(id, ",") { // it may have brought members along
			return
		}
		if kind != request || string(m.id) != strings.Trim(id, blanks) {
			t.Fatalf("%s is %d with id %s", frame, kind, m.id)
		}
		p := connectPipe(t, &script{}, Options{})
		p.send("%s", frame)
		p.want(`{"id":` + string(m.id) + `,"result":null}`)
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}
