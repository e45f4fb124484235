package api

import (
	"fmt"
	"strings"
	"testing"
)

// A client may write everything at once: what comes behind initialize is done in
// order, wherever the server is with the greeting when it reads it.
func TestWhatComesRightBehindInitializeIsDoneInOrder(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	const n = 30
	for round := range 200 {
		b := d.dialPipe()
		b.post("initialize", `{"clientInfo":{"name":"x","version":"1"},"capabilities":{"experimentalApi":true}}`)
		for i := range n {
			b.post("thread/name/set", fmt.Sprintf(`{"threadId":%q,"name":"n %d"}`, thread, i))
		}
		for i := range n + 1 {
			f := b.next()
			if !f.isAnswer() || string(f.ID) != fmt.Sprint(i+1) || f.Error != nil {
				t.Fatalf("connection %d: answer %d is %s", round, i+1, f.raw)
			}
		}
		var r ThreadReadResult
		b.must("thread/read", `{"threadId":"`+thread+`"}`, &r)
		if r.Thread.Name == nil || *r.Thread.Name != fmt.Sprint("n ", n-1) {
			t.Fatalf("connection %d: the last name is %v", round, *r.Thread.Name)
		}
		b.close()
	}
	a.close()
}

// spellings are forms of one id.
func spellings(id string) []string {
	return []string{id, strings.ToUpper(id), strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id}
}

func TestAllSpellingsOfAnIDAreOneThread(t *testing.T) {
	d := open(t)
	a := d.hello("")
	thread := a.start("offline")
	for i := range 50 {
		for k, id := range spellings(thread) {
			a.post("thread/name/set", fmt.Sprintf(`{"threadId":%q,"name":"%d.%d"}`, id, i, k))
		}
		for k := range spellings(thread) {
			want := fmt.Sprintf("%d.%d", i, k)
			if f := a.until("thread/name/updated"); !strings.Contains(f.raw, `"threadName":"`+want+`"`) {
				t.Fatalf("want the name %s, got %s", want, f.raw)
			}
		}
	}
	a.close()
}

// Joining in many spellings at once follows the thread once.
func TestAllSpellingsOfAnIDAreFollowedOnce(t *testing.T) {
	d := open(t)
	a := d.hello("")
	for range 20 {
		thread := a.start("offline")
		b := d.hello("")
		for _, id := range spellings(thread) {
			b.post("thread/resume", `{"threadId":"`+id+`"}`)
		}
		for range spellings(thread) {
			for f := b.next(); !f.isAnswer(); f = b.next() {
			}
		}
		before := len(b.seen)
		b.say(thread, "hello")
		b.until("turn/completed")
		b.must("thread/read", `{"threadId":"`+thread+`"}`, nil)
		got := seqs(b.seen[before:])
		dense(t, got[0], got)
		b.close()
	}
	a.close()
}
