package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func TestAStreamTooManyIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(o *Options) { o.Limits.Streams = 2 })
		id := d.newThread("offline")
		target := "/v1/threads/" + id + "/events"
		for range 3 { // what does not begin takes no place for good
			d.problem(404, "GET", "/v1/threads/nobody/events", "", header("Accept", sseType))
		}
		one := d.follow(target, "")
		two := d.follow("/v1/events", "")
		one.until("stream/live")
		two.until("stream/live")
		for _, at := range []string{target, "/v1/events"} {
			a := d.do("GET", at, "", header("Accept", sseType))
			var p Problem
			if d.into(a, 429, &p); p.Code != fault.Overloaded || a.header.Get("Retry-After") != "5" || !strings.Contains(p.Detail, "2 streams") {
				t.Errorf("%s: %v %+v", at, a.header, p)
			}
		}
		call[EventsReadResult](d, 200, "GET", target, "", header("Accept", jsonType)) // pages are still there
		one.close()
		synctest.Wait()
		again := d.follow(target, "")
		again.until("stream/live")
		for _, st := range []*follower{again, two} {
			st.close()
		}
		d.close()
		synctest.Wait()
	})
}

func TestAnImportTooManyIsToldSo(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		id := d.newThread("offline")
		file := string(d.do("GET", "/v1/threads/"+id+"/export", "").body)
		media := header("Content-Type", ndjsonType)
		type slow struct {
			w    *io.PipeWriter
			done chan int
		}
		var running []slow
		for range 2 {
			r, w := io.Pipe()
			req := d.request("POST", "/v1/imports", "x", media)
			req.Body, req.ContentLength = r, -1
			s := slow{w, make(chan int, 1)}
			go func() {
				resp, err := d.client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				s.done <- resp.StatusCode
			}()
			running = append(running, s)
			synctest.Wait()
		}
		a := d.do("POST", "/v1/imports", file, media)
		var p Problem
		if d.into(a, 429, &p); p.Code != fault.Busy || a.header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "2 imports") {
			t.Errorf("%v %+v", a.header, p)
		}
		for _, s := range running {
			if _, err := io.WriteString(s.w, file); err != nil {
				t.Error(err)
			}
			s.w.Close()
			if status := <-s.done; status != http.StatusCreated {
				t.Errorf("one of the two: %d", status)
			}
			synctest.Wait()
			call[ImportResult](d, 201, "POST", "/v1/imports", file, media)
		}
	})
}

// A file that comes byte by byte does not keep the others out for ever.
func TestAnImportThatTakesForEverTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, d *door) {
		c := d.dialRaw()
		start := time.Now()
		<-send(c, fmt.Sprintf("POST /v1/imports HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n", testToken, ndjsonType))
		written := trickle(c, []byte(strings.Repeat(" ", 1000)), 20)
		status, _, body := readAnswer(t, c)
		if took := time.Since(start); status != http.StatusRequestTimeout || took != defaultTiming.file {
			t.Errorf("status %d after %v: %s", status, took, body)
		}
		c.Close()
		<-written
	})
}

// beside is another server over the same threads, whose answers hold less.
func (d *door) beside(pageBytes int) *door {
	d.t.Helper()
	b := *d
	b.ln = newMemListener()
	b.server = New(Options{Service: d.svc, Token: func() string { return testToken }, Version: "0.0.0-test", Limits: Limits{PageBytes: pageBytes}})
	b.client = &http.Client{Transport: &http.Transport{DialContext: b.ln.dial}}
	b.serve()
	d.t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.stop()
	})
	return &b
}

// full is a door with a thread that has many and long items, and compactions.
func full(t *testing.T) (d *door, thread string, turns []string) {
	t.Helper()
	d = open(t)
	d.newThread("offline") // so that no position among all threads is one in the thread
	thread = d.newThread("offline")
	for i := range 4 {
		text := fmt.Sprintf("Which ship is number %d? %s", i, strings.Repeat("The harbour has many ships. ", 40*i+1))
		turns = append(turns, d.turn(thread, text).Turn.ID)
	}
	for range 3 { // the first one opens an epoch
		call[CompactStartResult](d, 200, "POST", "/v1/threads/"+thread+"/compact", `{"route":"local","writer":"fixed","budget":1500,"wait":true}`)
	}
	if epoch := call[ThreadReadResult](d, 200, "GET", "/v1/threads/"+thread, "").Thread.Plimsoll.Epoch; epoch == 0 {
		t.Fatal("nothing was compacted")
	}
	d.newThread("offline")
	return d, thread, turns
}

// walk reads a list page by page and returns its elements, and the bytes of each
// page.
func (d *door) walk(target, list string) (elements []string, pages []int) {
	d.t.Helper()
	for cursor := ""; ; {
		req := d.request("GET", target+cursor, "", header("Accept", jsonType))
		a := d.exchange(req)
		if len(pages) < 2 { // checking is slow, and what follows is alike
			d.spec.check(d.t, req, "", a)
		}
		var page map[string]json.RawMessage
		d.into(a, 200, &page)
		var data []json.RawMessage
		if err := json.Unmarshal(page[list], &data); err != nil {
			d.t.Fatal(err)
		}
		size := 0
		for _, e := range data {
			elements = append(elements, string(e))
			size += len(e)
		}
		pages = append(pages, size)
		name, next := "cursor", ""
		if err := json.Unmarshal(page["nextCursor"], &next); page["nextCursor"] == nil {
			name = "after"
			if err = json.Unmarshal(page["cursor"], &next); err == nil && len(data) == 0 {
				next = ""
			}
		} else if err != nil {
			d.t.Fatal(err)
		}
		if next == "" {
			return elements, pages
		}
		cursor = "&" + name + "=" + next
		if len(pages) > 1000 {
			d.t.Fatalf("%s has no end", target)
		}
	}
}

// Pages that are cut because their texts are long say together what one page says:
// every list, in every direction, with every limit.
func TestListsAreCutByTheirTexts(t *testing.T) {
	d, id, turns := full(t)
	at := "/v1/threads/" + id
	for size, limits := range map[int][]string{1: {"limit=1000"}, 2000: {"limit=1000", "limit=3", ""}} {
		small := d.beside(size)
		for _, c := range []struct {
			target string
			list   string
			pages  int // at least, with the smallest size
		}{
			{"/v1/threads?", "data", 2},
			{at + "/turns?", "data", 4},
			{at + "/turns?sortDirection=asc&", "data", 4},
			{at + "/items?", "data", 8},
			{at + "/items?sortDirection=desc&", "data", 8},
			{at + "/items?turnId=" + turns[3] + "&", "data", 2},
			{at + "/compactions?", "data", 3},
			{at + "/context?", "entries", 2},
			{at + "/context?epoch=0&", "entries", 8},
			{at + "/events?", "data", 20},
			{"/v1/events?", "data", 20},
		} {
			want, _ := d.walk(c.target+"limit=1000", c.list)
			for _, limit := range limits {
				got, pages := small.walk(c.target+limit, c.list)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s%s in pages of %d bytes:\n%s", c.target, limit, size, diff)
				}
				if size == 1 && len(pages) < c.pages {
					t.Errorf("%s%s: %d pages", c.target, limit, len(pages))
				}
			}
		}
	}
}

// What bounds a page of events is their data, and a larger event comes alone.
func TestAPageOfEventsHoldsWhatItMay(t *testing.T) {
	d, id, _ := full(t)
	const size = 3000
	small := d.beside(size)
	evs, _, err := d.svc.ReadEvents(t.Context(), "", nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	bytes := map[int64]int{}
	for _, e := range evs {
		if e.Thread == id {
			bytes[e.Seq] = len(e.Data)
		}
	}
	cut := 0
	for cursor := ""; ; {
		page := call[EventsReadResult](small, 200, "GET", "/v1/threads/"+id+"/events?limit=1000&after="+cursor, "", header("Accept", jsonType))
		if len(page.Data) == 0 {
			break
		}
		total := 0
		for _, n := range page.Data {
			total += bytes[*n.Seq]
		}
		last := *page.Data[len(page.Data)-1].Seq
		if total > size && len(page.Data) > 1 {
			t.Errorf("a page of %d events has %d bytes", len(page.Data), total)
		}
		if next, ok := bytes[last+1]; ok {
			if cut++; total+next <= size {
				t.Errorf("the page ends at event %d with %d bytes, although %d more fit", last, total, next)
			}
		}
		cursor = page.Cursor
	}
	if cut < 3 {
		t.Errorf("%d pages were cut", cut)
	}
}

func TestTheLastEventOfADeletedThreadIsAPage(t *testing.T) {
	d, id, _ := full(t)
	call[Empty](d, 200, "DELETE", "/v1/threads/"+id, "")
	if got, _ := d.walk("/v1/threads/"+id+"/events?limit=1000", "data"); len(got) != 1 || !strings.Contains(got[0], "thread/deleted") {
		t.Errorf("%v", got)
	}
}

// A turn with more than an answer holds is read in part, and says where the rest is.
func TestALongTurnIsReadInParts(t *testing.T) {
	d, id, turns := full(t)
	at := "/v1/threads/" + id
	for i, turn := range turns {
		whole := call[TurnReadResult](d, 200, "GET", at+"/turns/"+turn, "")
		if whole.NextCursor != nil || whole.Turn.ItemsView != "full" || len(whole.Turn.Items) < 2 {
			t.Errorf("turn %d: %+v", i, whole)
		}
		small := d.beside(200)
		part := call[TurnReadResult](small, 200, "GET", at+"/turns/"+turn, "")
		if part.NextCursor == nil || part.Turn.ItemsView != "summary" || len(part.Turn.Items) == 0 {
			t.Fatalf("turn %d in part: %+v", i, part)
		}
		items := part.Turn.Items
		for next := part.NextCursor; next != nil; {
			page := call[ItemListResult](small, 200, "GET", at+"/items?turnId="+turn+"&cursor="+*next, "")
			for _, e := range page.Data {
				items = append(items, e.Item)
			}
			next = page.NextCursor
		}
		if diff := cmp.Diff(whole.Turn.Items, items); diff != "" {
			t.Errorf("turn %d:\n%s", i, diff)
		}
	}
}

func TestItemsOfAnUnknownTurnAreNotFound(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	if p := d.problem(404, "GET", "/v1/threads/"+id+"/items?turnId=nobody", ""); !strings.Contains(p.Detail, "nobody") {
		t.Errorf("%+v", p)
	}
	call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"one"}`)
	queued := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"two"}`)
	if r := call[ItemListResult](d, 200, "GET", "/v1/threads/"+id+"/items?turnId="+queued.Turn.ID, ""); len(r.Data) != 0 || r.NextCursor != nil {
		t.Errorf("a queued turn has items: %+v", r)
	}
}

func TestAContextCursorIsOfItsEpoch(t *testing.T) {
	d, id, _ := full(t)
	at := "/v1/threads/" + id + "/context"
	page := call[ContextReadResult](d, 200, "GET", at+"?epoch=0&limit=1", "")
	if page.NextCursor == nil || page.Epoch != 0 || page.CurrentEpoch == 0 {
		t.Fatalf("%+v", page)
	}
	if next := call[ContextReadResult](d, 200, "GET", at+"?limit=1&cursor="+*page.NextCursor, ""); next.Epoch != 0 || next.Tokens != page.Tokens {
		t.Errorf("the page after one of epoch 0 is of epoch %d with %d tokens, want %d", next.Epoch, next.Tokens, page.Tokens)
	}
	for _, query := range []string{"epoch=1&cursor=" + *page.NextCursor, "cursor=0.999", "cursor=0", "cursor=0.-1", "cursor=x.1", "cursor=0.01", "cursor=0.1.1", "cursor=-1.0", "cursor=0.99999999999999999999"} {
		if p := d.problem(400, "GET", at+"?"+query, ""); !strings.Contains(p.Detail, "`cursor`") {
			t.Errorf("%s: %+v", query, p)
		}
	}
	d.problem(404, "GET", at+"?cursor=999.0", "")
}

func TestADamagedJournalIsCorrupt(t *testing.T) {
	p, _ := problemOf(fmt.Errorf("read /home/me/plimsoll.db: %w", events.ErrCorrupt), "r1")
	if p.Status != 500 || p.Code != fault.Corrupt || strings.Contains(p.Detail, "home") {
		t.Errorf("%+v", p)
	}
}

func TestOnlyTextsWeigh(t *testing.T) {
	text, mixed := "four", struct {
		N   int
		Raw json.RawMessage
	}{1 << 40, json.RawMessage(`"12"`)}
	for name, c := range map[string]struct {
		v    any
		want int
	}{
		"nothing":  {(*string)(nil), 0},
		"pointer":  {&text, 4},
		"numbers":  {[]int{1, 2, 3}, 0},
		"raw":      {mixed, 4},
		"map":      {map[string][]string{"ab": {"c", "de"}}, 5},
		"variant":  {protocol.ThreadItem{ItemVariant: protocol.AgentMessageItem{Type: "t", ID: "id", Text: "text"}}, 7},
		"no items": {protocol.ThreadItem{}, 0},
	} {
		if got := weigh(reflect.ValueOf(c.v)); got != c.want {
			t.Errorf("%s weighs %d, want %d", name, got, c.want)
		}
	}
}

// A text weighs what it is in JSON, quotes left out.
func TestTextsWeighWhatJSONMakesOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringOf(rapid.RuneFrom([]rune("\x00\x1f\x7f\"\\/<>&\b\f\n\r\t\u2028\u2029\ufffdaé€𝄞")))).Draw(t, "text")
		b, err := encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := weighText(s), len(b)-2; got != want {
			t.Fatalf("%q weighs %d, and is %s: %d", s, got, b, want)
		}
	})
}

func TestLimitsHaveDefaults(t *testing.T) {
	want := Limits{Streams: 10_000, Connections: 256, Imports: 2, Peers: 1000, Follows: 1000, TokenPeers: 256, Requests: 500, PageBytes: 4 << 20}
	if got := (Limits{}).orDefault(); got != want {
		t.Errorf("%+v", got)
	}
	mine := Limits{Streams: 1, Connections: 2, Imports: 3, Peers: 5, Follows: 6, TokenPeers: 7, Requests: 8, PageBytes: 4}
	if got := mine.orDefault(); got != mine {
		t.Errorf("%+v", got)
	}
}
