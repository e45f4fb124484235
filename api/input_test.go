package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// An input has as many characters as codex takes, on both doors, in all its parts.
func TestAnInputHasALimit(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	c := d.hello("")
	half := strings.Repeat("é", maxInputChars/2)
	most := `[{"type":"text","text":"` + half + `"},{"type":"text","text":"` + half + `"}]`
	over := `[{"type":"text","text":"` + half + `"},{"type":"text","text":"` + half + `x"}]`
	const text = "Input exceeds the maximum length of 1048576 characters."
	data := fmt.Sprintf(`{"code":"tooLarge","input_error_code":"input_too_large","max_chars":1048576,"actual_chars":%d}`, maxInputChars+1)
	for method, more := range map[string]string{"turn/start": "", "turn/steer": `,"expectedTurnId":"x"`} {
		p := c.refused(method, `{"threadId":"`+id+`"`+more+`,"input":`+over+`}`)
		if p.Code != codeParams || p.Message != text || !sameJSON(p.Data, data) {
			t.Errorf("%s: %+v %s", method, p, p.Data)
		}
	}
	p := d.problem(413, "POST", "/v1/threads/"+id+"/turns", `{"input":`+over+`}`)
	if p.Code != fault.TooLarge || p.Detail != text || !sameJSON([]byte(mustEncode(t, p.Data)), strings.Replace(data, `"code":"tooLarge",`, "", 1)) {
		t.Errorf("%+v", p)
	}
	if p := d.problem(413, "POST", "/v1/threads/"+id+"/turns", `{"input":"`+half+half+`x"}`); p.Code != fault.TooLarge {
		t.Errorf("a plain text: %+v", p)
	}
	if events := call[TurnListResult](d, 200, "GET", "/v1/threads/"+id+"/turns", ""); len(events.Data) != 0 {
		t.Errorf("%d turns", len(events.Data))
	}
	var r TurnStartResult
	c.must("turn/start", `{"threadId":"`+id+`","input":`+most+`}`, &r)
	d.settled(id, r.Turn.ID)
	c.must("thread/inject_items", `{"threadId":"`+id+`","items":[{"type":"message","role":"user","content":[{"type":"input_text","text":"`+strings.Repeat("x", 3<<20)+`"}]}]}`, nil)
}
