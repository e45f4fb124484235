package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// An answer has the same bytes on both doors, whatever JSON may have escaped, and so
// has an event in an answer and by itself.
func TestAnswersHaveTheBytesOfREST(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	d.turn(id, "a <b> & \"c\"\u2028\x01 </script>")
	c := d.hello("")
	for _, get := range []struct{ method, params, target string }{
		{"thread/items/list", `{"threadId":"` + id + `"}`, "/items"},
		{"thread/turns/list", `{"threadId":"` + id + `","itemsView":"full"}`, "/turns?itemsView=full"},
		{"thread/context/read", `{"threadId":"` + id + `"}`, "/context"},
		{"thread/events/read", `{"threadId":"` + id + `"}`, "/events"},
	} {
		rest := d.do("GET", "/v1/threads/"+id+get.target, "", header("Accept", jsonType))
		got := c.answerTo(c.post(get.method, get.params))
		if string(got.Result) != string(rest.body) || !strings.Contains(got.raw, "a <b> & ") {
			t.Errorf("%s:\n%.2000s\nREST:\n%.2000s", get.method, got.Result, rest.body)
		}
	}
	var page struct{ Data []json.RawMessage }
	c.must("thread/events/read", `{"threadId":"`+id+`"}`, &page)
	c.post("thread/subscribe", `{"threadId":"`+id+`"}`)
	for i := range page.Data {
		f := c.next()
		for f.isAnswer() || f.Seq == 0 { // a delta belongs to no event
			f = c.next()
		}
		if f.raw != string(page.Data[i]) {
			t.Errorf("event %d is read as\n%s\nand told as\n%s", i, page.Data[i], f.raw)
		}
	}
}

// controls is a text that is six times as large in JSON.
func controls(n int) string { return strings.Repeat("\x01", n) }

// What a thread holds is read to its end, however much JSON escapes: no answer is
// larger than a client reads.
func TestAnswersAreBoundedByWhatIsSent(t *testing.T) {
	const size, page = 1 << 17, 1 << 19 // all texts are less than a page, and each is more in JSON
	d := open(t, func(o *Options) { o.Limits.PageBytes = page })
	c := d.hello("")
	id := c.start("puppet")
	c.must("thread/unsubscribe", `{"threadId":"`+id+`"}`, nil)
	const turns = 3
	for range turns {
		turn := c.say(id, "x"+controls(size))
		d.puppet.say(t, done())
		d.settled(id, turn)
	}
	at := `"threadId":"` + id + `"`
	for _, ask := range []struct{ method, params string }{
		{"thread/resume", ""},
		{"thread/read", `,"includeTurns":true`},
		{"thread/turns/list", `,"itemsView":"full","limit":1000`},
		{"thread/turns/list", `,"itemsView":"summary","limit":1000`},
		{"thread/items/list", `,"limit":1000`},
		{"thread/context/read", ""},
		{"thread/events/read", `,"limit":1000`},
		{"events/read", `,"limit":1000`},
	} {
		params := "{" + at + ask.params + "}"
		if ask.method == "events/read" {
			params = "{" + ask.params[1:] + "}"
		}
		f := c.answerTo(c.post(ask.method, params))
		if f.Error != nil || len(f.raw) > 6*size+page { // what is too much for a page is alone
			t.Errorf("%s%s: %d bytes, %+v", ask.method, ask.params, len(f.raw), f.Error)
		}
	}
	texts, cursor := 0, ""
	for {
		var page ItemListResult
		c.must("thread/items/list", "{"+at+`,"limit":1000`+cursor+"}", &page)
		texts += strings.Count(mustEncode(t, page.Data), `"x\u0001`)
		if page.NextCursor == nil {
			break
		}
		cursor = `,"cursor":"` + *page.NextCursor + `"`
	}
	if texts < turns {
		t.Errorf("%d of %d inputs were read", texts, turns)
	}
}

// An item that no answer can hold is told when it happens, and does not keep a client
// from reading everything else.
func TestAnItemLargerThanAnAnswerLeavesTheThreadReadable(t *testing.T) {
	d := open(t)
	c := d.hello(`{"experimentalApi":true,"optOutNotificationMethods":["item/agentMessage/delta"]}`)
	id := c.start("puppet")
	c.say(id, "go")
	for range 3 {
		d.puppet.say(t, text(controls(1<<20-100)))
	}
	d.puppet.say(t, done())
	largest := 0
	for f := c.next(); f.Method != "turn/completed"; f = c.next() {
		if f.Method == "item/completed" {
			largest = max(largest, len(f.raw))
		}
	}
	if largest <= jsonrpc.MaxFrame {
		t.Fatalf("the item has %d bytes only", largest)
	}
	at := `"threadId":"` + id + `"`
	p := c.refused("thread/items/list", "{"+at+`,"sortDirection":"desc","limit":1}`)
	if !strings.Contains(string(p.Data), string(fault.TooLarge)) || !strings.Contains(p.Message, "smaller limit") {
		t.Errorf("%+v", p)
	}
	for _, view := range []string{"full", "summary"} {
		var page TurnListResult
		c.must("thread/turns/list", "{"+at+`,"itemsView":"`+view+`"}`, &page)
		if len(page.Data) != 1 || page.Data[0].ItemsView != "notLoaded" {
			t.Errorf("in view %s: %d turns, %+v", view, len(page.Data), page.Data[0].ItemsView)
		}
	}
	var read ThreadReadResult
	c.must("thread/resume", "{"+at+"}", nil)
	c.must("thread/read", "{"+at+`,"includeTurns":true}`, &read)
	if len(read.Thread.Turns) != 1 || read.Thread.Turns[0].ItemsView != "notLoaded" {
		t.Errorf("%+v", read.Thread.Turns)
	}
	c.must("thread/items/list", "{"+at+`,"limit":1}`, nil)
}
