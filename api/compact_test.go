package api

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// laden is a thread of the offline model that has something to compact.
func (d *door) laden() string {
	d.t.Helper()
	id := d.newThread("offline")
	d.turn(id, "The anchor weighs 7731 stone and lies off Cape Wrath.")
	for i := range 6 {
		d.turn(id, strings.Repeat("Buoy "+string(rune('A'+i))+" was painted and sounded again. ", 80))
	}
	return id
}

func TestACompactionIsPreviewedDoneSearchedAndUndone(t *testing.T) {
	d := open(t)
	id := d.laden()
	at := "/v1/threads/" + id
	before := call[ContextReadResult](d, 200, "GET", at+"/context", "")
	seen := call[CompactPreviewResult](d, 200, "POST", at+"/compact/preview", `{"route":"local","budget":1500}`)
	if *seen.Compaction.Outcome != compaction.Completed || seen.Compaction.After.Tokens >= seen.Compaction.Before.Tokens || len(seen.SummarizedItemIDs) == 0 {
		t.Fatalf("the preview is %s", mustEncode(t, seen))
	}
	done := call[CompactStartResult](d, 200, "POST", at+"/compact?wait=true", `{"route":"local","budget":1500}`)
	if rec := done.Compaction; mustEncode(t, rec.After) != mustEncode(t, seen.Compaction.After) || mustEncode(t, rec.Items) != mustEncode(t, seen.Compaction.Items) {
		t.Errorf("the preview was %s, the record is %s", mustEncode(t, seen.Compaction), mustEncode(t, rec))
	}
	d.turn(id, "And now?")
	found := call[ContextSearchResult](d, 200, "GET", at+"/context/search?limit=3&query="+url.QueryEscape(`"7731" stone`), "")
	if !found.Complete || len(found.Data) == 0 || len(found.Data) > 3 || !strings.Contains(found.Data[0].Text, "Cape Wrath") {
		t.Errorf("found %s", mustEncode(t, found))
	}
	undo := at + "/compactions/" + done.CompactionID + "/undo"
	first := call[CompactUndoResult](d, 200, "POST", undo, `{}`, header("Idempotency-Key", "once"))
	again := call[CompactUndoResult](d, 200, "POST", undo, `{}`, header("Idempotency-Key", "once"))
	if first.Epoch != 2 || again != first && again.AsOf != first.AsOf {
		t.Errorf("undone: %+v, again: %+v", first, again)
	}
	after := call[ContextReadResult](d, 200, "GET", at+"/context", "")
	if after.Undoes == nil || *after.Undoes != done.CompactionID || after.CompactionID != nil || before.Undoes != nil {
		t.Errorf("the epoch was opened by %v, and undoes %v", after.CompactionID, after.Undoes)
	}
	if n := len(before.Entries); len(after.Entries) != n+2 || mustEncode(t, after.Entries[:n]) != mustEncode(t, before.Entries) {
		t.Errorf("the context was\n%s\nand is\n%s", mustEncode(t, before.Entries), mustEncode(t, after.Entries))
	}
	p := d.problem(409, "POST", undo, `{}`)
	var why threads.UndoRefusal
	if err := json.Unmarshal([]byte(mustEncode(t, p.Data)), &why); err != nil || why.Code != threads.UndoAlready || p.Code != "refused" {
		t.Errorf("undone twice: %+v", p)
	}
	if p := d.problem(409, "POST", at+"/compactions/"+done.CompactionID+"/cancel", `{}`); p.Code != "conflict" {
		t.Errorf("cancelled after its end: %+v", p)
	}
	for _, path := range []string{"/compactions/none/undo", "/compactions/none/cancel"} {
		if p := d.problem(404, "POST", at+path, `{}`); p.Code != "notFound" {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestARefusedRouteIsAValueOfThePreview(t *testing.T) {
	d := open(t)
	id := d.laden()
	seen := call[CompactPreviewResult](d, 200, "POST", "/v1/threads/"+id+"/compact/preview", `{"route":"native"}`)
	if *seen.Compaction.Outcome != compaction.Refused || seen.Compaction.Code == nil || seen.Compaction.Remedy == nil {
		t.Errorf("got %s", mustEncode(t, seen))
	}
}

func TestACompactionThatWaitsIsCancelled(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	at := "/v1/threads/" + id
	turn := call[TurnStartResult](d, 202, "POST", at+"/turns", `{"input":"go","maxTotalTokens":500000}`)
	d.puppet.say(t, text("I am"))
	asked := call[CompactStartResult](d, 202, "POST", at+"/compact", `{"route":"local","writer":"model"}`)
	ended := call[CompactCancelResult](d, 200, "POST", at+"/compactions/"+asked.CompactionID+"/cancel", `{}`)
	if *ended.Compaction.Outcome != compaction.Cancelled || ended.Compaction.StartedAt != nil {
		t.Errorf("got %s", mustEncode(t, ended))
	}
	d.puppet.say(t, done())
	d.settled(id, turn.Turn.ID)
}

func TestPinsOnREST(t *testing.T) {
	d := open(t)
	at := "/v1/threads/" + d.newThread("offline") + "/pins"
	one := call[PinAddResult](d, 200, "POST", at, `{"text":"Never on a Sunday."}`)
	if two := call[PinAddResult](d, 200, "POST", at, `{"text":"Never on a Sunday."}`); !one.Added || two.Added || two.Pin != one.Pin {
		t.Errorf("added %+v, then %+v", one, two)
	}
	if l := call[PinListResult](d, 200, "GET", at, ""); len(l.Data) != 1 || l.Data[0] != one.Pin || l.Limit != 6_400 || l.Tokens != one.Pin.Tokens {
		t.Errorf("the list is %+v", l)
	}
	thread := strings.TrimSuffix(at, "/pins")
	d.turn(thread[strings.LastIndexByte(thread, '/')+1:], "hello")
	if c := call[ContextReadResult](d, 200, "GET", thread+"/context", ""); c.Base.Preamble == nil || !strings.Contains(*c.Base.Preamble, one.Pin.Text) {
		t.Errorf("the base is %+v", c.Base)
	}
	if l := call[PinListResult](d, 200, "DELETE", at+"/"+one.Pin.ID, ""); len(l.Data) != 0 {
		t.Errorf("after the removal: %+v", l)
	}
	d.problem(404, "DELETE", at+"/"+one.Pin.ID, "")
	d.problem(400, "POST", at, `{"text":""}`)
	d.problem(400, "POST", at, `{}`)
	if p := d.problem(413, "POST", at, `{"text":"`+strings.Repeat("規", 16_000)+`"}`); !strings.Contains(p.Detail, "6400") {
		t.Errorf("too much is pinned: %s", p.Detail)
	}
	d.problem(404, "GET", "/v1/threads/none/pins", "")
}

func TestBadSearchesOnREST(t *testing.T) {
	d := open(t)
	at := "/v1/threads/" + d.newThread("offline") + "/context/search"
	for _, query := range []string{"", "?query=", "?query=%20", "?query=x&limit=0", "?query=x&limit=51", "?query=" + strings.Repeat("x", 1001), "?query=x&deep=1"} {
		d.problem(400, "GET", at+query, "")
	}
}
