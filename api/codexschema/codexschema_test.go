package codexschema

import (
	"strings"
	"testing"
)

// A judge that lets everything pass would make every test that asks it worthless.
func TestWhatIsWrongIsFound(t *testing.T) {
	s := Load(t)
	const turn = `{"id":"u","items":[],"itemsView":"notLoaded","status":"inProgress","rootTurnId":"u","error":null,"startedAt":null,"completedAt":null,"durationMs":null,"kind":"user","queued":false}`
	for _, c := range []struct {
		d              Direction
		data, method   string
		wrong, because string
	}{
		{FromClient, `{"id":1,"method":"thread/read","params":{"threadId":"t"}}`, "", `{"id":1,"method":"thread/read","params":{}}`, "threadId"},
		{FromClient, `{"id":"a","method":"initialize","params":{"clientInfo":{"name":"n","version":"1"}}}`, "", `{"id":1.5,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"}}}`, "id"},
		{FromClient, `{"method":"initialized"}`, "", `{"method":"finalized"}`, "nobody knows"},
		{FromClient, `{"id":1,"method":"thread/compact/list","params":{"threadId":"t"}}`, "", `{"id":1,"method":"thread/compact/lost","params":{"threadId":"t"}}`, "nobody knows"},
		{FromServer, `{"id":1,"result":{}}`, "thread/archive", `{"id":1,"result":[]}`, "archive"},
		{FromServer, `{"id":1,"result":{"turnId":"u"}}`, "turn/steer", `{"id":1,"result":{}}`, "turnId"},
		{FromServer, `{"id":1,"result":{"data":[]}}`, "provider/list", `{"id":1,"result":{"data":[{"name":"x"}]}}`, "openapi.yaml"},
		{FromServer, `{"id":1,"error":{"code":-32600,"message":"m"}}`, "turn/steer", `{"id":1,"error":{"message":"m"}}`, "code"},
		{
			FromServer, `{"method":"turn/started","params":{"threadId":"t","turn":` + turn + `},"seq":1,"emittedAtMs":1}`, "",
			`{"method":"turn/started","params":{"threadId":"t","turn":` + turn + `,"more":1},"seq":1,"emittedAtMs":1}`, "openapi.yaml",
		},
		{
			FromServer, `{"method":"item/tool/call","id":"r","params":{"threadId":"t","turnId":"u","callId":"c","tool":"x","namespace":null,"arguments":{}}}`, "",
			`{"method":"item/tool/call","id":"r","params":{"threadId":"t","turnId":"u","tool":"x","arguments":{}}}`, "callId",
		},
		{FromClient, `{"id":"r","result":{"contentItems":[],"success":true}}`, "item/tool/call", `{"id":"r","result":{"success":true}}`, "contentItems"},
		{FromClient, `{"id":"r","result":{"decision":"accept"}}`, "item/fileChange/requestApproval", `{"id":"r","result":{"decision":"perhaps"}}`, "decision"},
		{FromServer, `{"method":"stream/live","params":{"cursor":"a.1"},"emittedAtMs":1}`, "", `{"id":1}`, "neither"},
	} {
		if err := s.Validate(c.d, []byte(c.data), c.method); err != nil {
			t.Errorf("refused %s: %v", c.data, err)
		}
		if err := s.Validate(c.d, []byte(c.wrong), c.method); err == nil || !strings.Contains(err.Error(), c.because) {
			t.Errorf("%s: %v; want an error about %s", c.wrong, err, c.because)
		}
	}
}

func TestOwnNamesAreKnownOnceTheyAreNamed(t *testing.T) {
	s := Load(t)
	ask := []byte(`{"id":1,"method":"ours/own","params":{}}`)
	if err := s.Validate(FromClient, ask, ""); err == nil {
		t.Error("a name that nobody has named is known")
	}
	s.Own("ours/own")
	if err := s.Validate(FromClient, ask, ""); err != nil {
		t.Errorf("a name that was named is not known: %v", err)
	}
}

func TestExperimentalIsWhatTheStableSchemaLacks(t *testing.T) {
	s := Load(t)
	if whole, _ := s.Experimental("thread/queue/list"); !whole {
		t.Error("thread/queue/list is not experimental")
	}
	whole, members := s.Experimental("thread/start")
	if whole || !strings.Contains(strings.Join(members, " "), "dynamicTools") {
		t.Errorf("thread/start: whole %v, members %v", whole, members)
	}
	if _, members := s.Experimental("thread/archive"); len(members) > 0 {
		t.Errorf("thread/archive has experimental members %v", members)
	}
}
