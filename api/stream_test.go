package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// A frame is one event of a stream.
type frame struct {
	id      string
	data    string
	comment string
	protocol.Notification
}

// A follower reads a stream.
type follower struct {
	d      *door
	resp   *http.Response
	r      *bufio.Reader
	cancel context.CancelFunc
	seen   []frame
}

// follow opens a stream; lastID is sent as Last-Event-ID if set.
func (d *door) follow(target, lastID string, edits ...edit) *follower {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req := d.request("GET", target, "", append(edits, header("Accept", sseType))...).WithContext(ctx)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := d.client.Do(req) //nolint:bodyclose // closed by follower.close
	if err != nil {
		d.t.Fatal(err)
	}
	f := &follower{d: d, resp: resp, r: bufio.NewReader(resp.Body), cancel: cancel}
	d.t.Cleanup(f.close)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != sseType || resp.Header.Get("Cache-Control") != "no-store" ||
		resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get("Content-Encoding") != "" {
		body, _ := io.ReadAll(resp.Body)
		d.t.Fatalf("stream: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	if line := f.line(); line != "retry: 1000" {
		d.t.Fatalf("first line %q", line)
	}
	f.line()
	return f
}

func (f *follower) close() {
	f.cancel()
	f.resp.Body.Close()
}

func (f *follower) line() string {
	f.d.t.Helper()
	line, err := f.r.ReadString('\n')
	if err != nil {
		f.d.t.Fatalf("stream ended: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// next reads one event, and checks it against openapi.yaml.
func (f *follower) next() frame {
	f.d.t.Helper()
	var fr frame
	for line := f.line(); line != ""; line = f.line() {
		name, val, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			fr.id = val
		case "data":
			fr.data = val
		case "":
			fr.comment = val
		default:
			f.d.t.Fatalf("line %q", line)
		}
	}
	if fr.data != "" {
		f.d.spec.value(f.d.t, "Notification", []byte(fr.data))
		if err := json.Unmarshal([]byte(fr.data), &fr.Notification); err != nil {
			f.d.t.Fatal(err)
		}
		f.seen = append(f.seen, fr)
	}
	return fr
}

// until reads up to and including the next event of a method.
func (f *follower) until(method string) frame {
	f.d.t.Helper()
	for {
		if fr := f.next(); fr.Method == method {
			return fr
		}
	}
}

// ended reports whether the stream ends after what was read.
func (f *follower) ended() bool {
	rest, err := io.ReadAll(f.r)
	return err == nil && len(rest) == 0
}

// methods lists what was read, deltas left out.
func methodsOf(frames []frame) []string {
	var out []string
	for _, f := range frames {
		if f.Seq != nil {
			out = append(out, f.Method)
		}
	}
	return out
}

func delta(t testing.TB, f frame) protocol.AgentMessageDeltaParams {
	t.Helper()
	var p protocol.AgentMessageDeltaParams
	if err := json.Unmarshal(f.Params, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAStreamTellsATurnInOrder(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	st := d.follow("/v1/threads/"+id+"/events", "")
	st.until("stream/live")
	r := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"hi"}`)
	d.puppet.say(t, text("Ahoy"))
	one := st.until(methodMessageDelta)
	d.puppet.say(t, text(", übermorgen <b>"))
	two := st.until(methodMessageDelta)
	d.puppet.say(t, adapters.UsageChunk{Usage: adapters.Usage{InputTokens: 20, OutputTokens: 5}}, done())
	last := st.until("turn/completed")

	want := []string{
		"thread/started", "thread/status/changed", "turn/started", "item/started", "item/completed", // the user's message
		"item/started", "item/completed", "thread/tokenUsage/updated", "thread/status/changed", "turn/completed",
	}
	if diff := cmp.Diff(want, methodsOf(st.seen)); diff != "" {
		t.Errorf("order of a plain turn:\n%s", diff)
	}
	for i, f := range withSeq(st.seen) {
		if *f.Seq != int64(i+1) || !strings.HasSuffix(f.id, "."+strconv.Itoa(i+1)) {
			t.Errorf("event %d has seq %d and id %s", i+1, *f.Seq, f.id)
		}
	}
	a, b := delta(t, one), delta(t, two)
	if one.id != "" || a.TurnID != r.Turn.ID || a.Delta != "Ahoy" || a.Offset != 0 || b.Delta != ", übermorgen <b>" || b.Offset != 4 || a.ItemID != b.ItemID {
		t.Errorf("deltas %+v %+v", a, b)
	}
	var end protocol.TurnCompletedParams
	if err := json.Unmarshal(last.Params, &end); err != nil || end.Turn.Status != "completed" || end.Turn.ItemsView != "notLoaded" || len(end.Turn.Items) != 0 {
		t.Errorf("end of the turn: %s", last.data)
	}
}

func withSeq(frames []frame) []frame {
	var out []frame
	for _, f := range frames {
		if f.Seq != nil {
			out = append(out, f)
		}
	}
	return out
}

// The same thread, read as a stream, as pages and by all-threads stream: every
// event has the same bytes.
func TestAllReadersGetTheSameBytes(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	d.turn(id, "What is a <load> line & why?")
	one := d.follow("/v1/threads/"+id+"/events", "")
	one.until("stream/live")
	all := d.follow("/v1/events", "")
	all.until("stream/live")
	a := d.do("GET", "/v1/threads/"+id+"/events?limit=1000", "", header("Accept", jsonType))
	var page struct{ Data []json.RawMessage }
	if err := json.Unmarshal(a.body, &page); err != nil {
		t.Fatal(err)
	}
	var paged, streamed, fromAll []string
	for _, raw := range page.Data {
		paged = append(paged, string(raw))
	}
	for _, f := range withSeq(one.seen) {
		streamed = append(streamed, f.data)
	}
	for _, f := range withSeq(all.seen) {
		fromAll = append(fromAll, f.data)
	}
	if diff := cmp.Diff(paged, streamed); diff != "" {
		t.Errorf("page and stream differ:\n%s", diff)
	}
	if diff := cmp.Diff(streamed, fromAll); diff != "" {
		t.Errorf("a thread's stream and that of all threads differ:\n%s", diff)
	}
}

func TestAStreamIsResumedFromEveryPosition(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	d.turn(id, "What is a load line?")
	whole := d.follow("/v1/threads/"+id+"/events", "")
	whole.until("stream/live")
	all := withSeq(whole.seen)
	for i, from := range all {
		for _, how := range []string{"header", "query", "header wins"} {
			var st *follower
			switch how {
			case "header":
				st = d.follow("/v1/threads/"+id+"/events", from.id)
			case "query":
				st = d.follow("/v1/threads/"+id+"/events?after="+from.id, "")
			default:
				st = d.follow("/v1/threads/"+id+"/events?after="+all[0].id, from.id)
			}
			live := st.until("stream/live")
			if diff := cmp.Diff(datas(all[i+1:]), datas(withSeq(st.seen))); diff != "" {
				t.Errorf("after %s by %s:\n%s", from.id, how, diff)
			}
			if want := `"cursor":"` + all[len(all)-1].id + `"`; live.id != "" || live.Seq != nil || !strings.Contains(live.data, want) {
				t.Errorf("live: id %q, data %s", live.id, live.data)
			}
			st.close()
		}
	}
}

func datas(frames []frame) []string {
	out := []string{}
	for _, f := range frames {
		out = append(out, f.data)
	}
	return out
}

// S3: a connection that breaks inside an event, wherever that is, loses nothing
// and repeats nothing: a client goes on from the last id that it has whole.
func TestADisconnectAtEveryByteLosesNothing(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	d.turn(id, "What is a load line?")
	whole := d.follow("/v1/threads/"+id+"/events", "")
	whole.until("stream/live")
	all := withSeq(whole.seen)
	var wire strings.Builder
	for _, e := range all[:3] {
		wire.WriteString("id: " + e.id + "\ndata: " + e.data + "\n\n")
	}
	for cut := range wire.Len() {
		got := 0 // events that are complete
		last := ""
		for block := range strings.SplitAfterSeq(wire.String()[:cut], "\n\n") {
			if strings.HasSuffix(block, "\n\n") {
				last, _, _ = strings.Cut(strings.TrimPrefix(block, "id: "), "\n")
				got++
			}
		}
		target := "/v1/threads/" + id + "/events"
		st := d.follow(target, last)
		if next := st.next(); next.id != all[got].id || next.data != all[got].data {
			t.Fatalf("cut at byte %d, resumed after %q: %s, want %s", cut, last, next.id, all[got].id)
		}
		st.close()
	}
}

// A client that joins while a text grows gets its beginning.
func TestJoiningInsideATextGetsItFromItsStart(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	first := d.follow("/v1/threads/"+id+"/events", "")
	call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"hi"}`)
	d.puppet.say(t, text("one "))
	first.until(methodMessageDelta)
	d.puppet.say(t, text("two "))
	first.until(methodMessageDelta)
	cursor := withSeq(first.seen)[len(withSeq(first.seen))-1].id

	second := d.follow("/v1/threads/"+id+"/events", cursor)
	again := second.next()
	if again.Method != "item/started" || again.id != "" || again.Seq == nil {
		t.Errorf("first event after a resume inside a text: %+v", again)
	}
	if p := delta(t, second.next()); p.Delta != "one two " || p.Offset != 0 {
		t.Errorf("delta: %+v", p)
	}
	second.until("stream/live")
	d.puppet.say(t, text("three"), done())
	for _, st := range []*follower{first, second} {
		completed := st.until("item/completed")
		var item protocol.ItemCompletedParams
		if err := json.Unmarshal(completed.Params, &item); err != nil {
			t.Fatal(err)
		}
		if got, want := textOf(t, st.seen, item), item.Item.ItemVariant.(protocol.AgentMessageItem).Text; got != want || want != "one two three" {
			t.Errorf("the deltas say %q, the item %q", got, want)
		}
	}
}

// textOf puts the deltas of an item together as a client does.
func textOf(t testing.TB, frames []frame, done protocol.ItemCompletedParams) string {
	t.Helper()
	var text string
	id := done.Item.ItemVariant.(protocol.AgentMessageItem).ID
	for _, f := range frames {
		if f.Method != methodMessageDelta {
			continue
		}
		p := delta(t, f)
		if p.ItemID != id {
			continue
		}
		if int(p.Offset) > len(text) {
			t.Errorf("a hole: offset %d after %d bytes", p.Offset, len(text))
			continue
		}
		text = text[:p.Offset] + p.Delta
	}
	return text
}

func TestReasoningGrowsAsASummary(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	st := d.follow("/v1/threads/"+id+"/events", "")
	call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"hi"}`)
	d.puppet.say(t, adapters.ReasoningText{Text: "let me see"})
	f := st.until(methodReasoningDelta)
	d.puppet.say(t, text("so"), done())
	st.until("turn/completed")
	var p protocol.ReasoningSummaryTextDeltaParams
	if err := json.Unmarshal(f.Params, &p); err != nil || p.Delta != "let me see" || p.SummaryIndex != 0 {
		t.Errorf("%s", f.data)
	}
	items := call[ItemListResult](d, 200, "GET", "/v1/threads/"+id+"/items", "")
	if r, ok := items.Data[1].Item.ItemVariant.(protocol.ReasoningItem); !ok || len(r.Summary) != 1 || r.Summary[0] != "let me see" || len(r.Content) != 0 {
		t.Errorf("%+v", items.Data[1])
	}
}

func TestACursorThatCannotBeServedIsReset(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	head := call[ThreadReadResult](d, 200, "GET", "/v1/threads/"+id, "").AsOf
	journal, _, _ := strings.Cut(head, ".")
	for reason, cursor := range map[string]string{"ahead": journal + ".999", "journalChanged": "zzzzzzzz.1"} {
		st := d.follow("/v1/threads/"+id+"/events", cursor)
		f := st.next()
		var p protocol.StreamResetParams
		if err := json.Unmarshal(f.Params, &p); err != nil || f.Method != "stream/reset" || f.id != "" || p.Reason != reason || !strings.HasPrefix(p.Cursor, journal+".") {
			t.Errorf("%s: %s", reason, f.data)
		}
		if !st.ended() {
			t.Errorf("%s: the stream goes on", reason)
		}
		pr := d.problem(409, "GET", "/v1/threads/"+id+"/events?after="+cursor, "", header("Accept", jsonType))
		if data, ok := pr.Data.(map[string]any); !ok || data["reason"] != reason {
			t.Errorf("%s as a page: %+v", reason, pr)
		}
		resumed := d.follow("/v1/threads/"+id+"/events", p.Cursor)
		resumed.until("stream/live")
	}
}

func TestMalformedCursorsAreRefused(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	for _, cursor := range []string{"7", "abc", "zzzzzzzz.-1", "zzzzzzzz.01", "ZZZZZZZZ.1", "zzzzzzzz.99999999999999999999", "a/b.1", "zzzzzzzz.1.1"} {
		for _, accept := range []string{sseType, jsonType} {
			q := d.request("GET", "/v1/threads/"+id+"/events", "", header("Accept", accept))
			q.URL.RawQuery = "after=" + cursor
			if a := d.send(q, ""); a.status != 400 || !strings.Contains(string(a.body), "after") {
				t.Errorf("%q (%s): %d %s", cursor, accept, a.status, a.body)
			}
		}
		d.problem(400, "GET", "/v1/threads/"+id+"/events", "", header("Last-Event-ID", cursor), header("Accept", sseType))
	}
	d.problem(400, "GET", "/v1/threads/"+id+"/events?limit=5", "", header("Accept", sseType))
	d.problem(404, "GET", "/v1/threads/nobody/events", "", header("Accept", sseType))
	d.problem(404, "GET", "/v1/threads/nobody/events", "", header("Accept", jsonType))
}

func TestADeletionEndsTheStream(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	st := d.follow("/v1/threads/"+id+"/events", "")
	st.until("stream/live")
	call[Empty](d, 200, "DELETE", "/v1/threads/"+id, "")
	st.until("thread/deleted")
	if !st.ended() {
		t.Error("the stream goes on")
	}
}

func TestEventsAreReadInPages(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	d.turn(id, "What is a load line?")
	for _, path := range []string{"/v1/threads/" + id + "/events", "/v1/events"} {
		var seqs []int64
		cursor := ""
		for {
			page := call[EventsReadResult](d, 200, "GET", path+"?limit=3&after="+cursor, "", header("Accept", jsonType))
			if len(page.Data) == 0 {
				if page.Cursor != cursor {
					t.Errorf("%s: an empty page moved the cursor from %s to %s", path, cursor, page.Cursor)
				}
				break
			}
			for _, n := range page.Data {
				seqs = append(seqs, *n.Seq)
			}
			cursor = page.Cursor
		}
		for i, s := range seqs {
			if s != int64(i+1) {
				t.Fatalf("%s: seqs %v", path, seqs)
			}
		}
		if len(seqs) < 10 {
			t.Errorf("%s: %d events", path, len(seqs))
		}
	}
}

// What a client accepts decides between a page and a stream.
func TestWantsStream(t *testing.T) {
	for accept, want := range map[string]bool{
		"": true, "*/*": true, "text/event-stream": true, "application/json": false, "application/json, text/event-stream": true,
		"application/json;q=0.9": false, "text/html, */*": true,
	} {
		if got := wantsStream([]string{accept}); got != want {
			t.Errorf("%q: stream %v, want %v", accept, got, want)
		}
	}
	if !wantsStream(nil) {
		t.Error("no Accept at all: no stream")
	}
}
