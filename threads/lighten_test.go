package threads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// shown returns the blobs of the images that a request shows.
func (r *request) shown() (hashes []string) {
	for _, e := range r.Entries {
		hashes = append(hashes, transcript.Blobs(e.Item.Body)...)
	}
	return hashes
}

// album has n turns with an image of size bytes each.
func (b *bench) album(id transcript.ThreadID, n, size int) (hashes []string) {
	b.t.Helper()
	for i := range n {
		data := png(fmt.Sprint(i), size)
		ack := b.show(id, fmt.Sprintf("screen %d", i), data)
		b.request().answer(b.t, fmt.Sprintf("seen %d", i))
		b.await(id, ended(ack.Turn.ID))
		hashes = append(hashes, blobHash(data))
	}
	return hashes
}

func tooLarge() error {
	return &adapters.Error{Class: adapters.ClassTooLarge, Status: 413, Message: "request_too_large"}
}

// F24, P086: 42 images of 800 KB are over the provider's 32 MB while the window is
// nearly empty. The oldest are told in words before the request is made, no model is
// asked to summarise anything, and the turn works. An undo shows them again.
func TestTooManyBytesOfImagesAreLeftOutBeforeTheRequest(t *testing.T) {
	b := newBench(t)
	id := b.create()
	all := b.album(id, 42, 800_000)
	b.puppet.maxBytes = 32_000_000
	before := len(b.payloads(id))
	ack := b.start(id, "what changed?")
	r := b.request()
	left := r.shown()
	if n := len(left) * 1_066_668; n > 32_000_000*6/10 || n < 32_000_000/2 || !slices.Equal(left, all[len(all)-len(left):]) {
		t.Errorf("%d images are left", len(left))
	}
	if texts := r.texts(); texts[0] != "userMessage: screen 0\n[image left out to save bytes: image/png]" || len(texts) != 85 {
		t.Errorf("%d entries, the first is %q", len(texts), texts[0])
	}
	r.answer(t, "Much.")
	b.await(id, ended(ack.Turn.ID))
	b.wantOutcomes(id, "payloadTooLarge completed")
	rec := b.records(id)[0]
	if rec.Code != nil || rec.Reason == nil || !strings.HasPrefix(*rec.Reason, "the request has 44.8 MB and the provider takes 32.0 MB; the ") || rec.Usage != nil || len(rec.PrunedItemIDs) != 42-len(left) ||
		rec.After.Tokens >= rec.Before.Tokens || rec.Items.Clipped != 42-len(left) || rec.Items.Whole != 85-rec.Items.Clipped {
		t.Errorf("record %s", mustJSON(t, rec))
	}
	if log := tail(describe(b.payloads(id)), before); !strings.Contains(log, "warning") || strings.Contains(log, "turn/started compact") {
		t.Errorf("it went\n%s", log)
	}

	b.restart()
	b.puppet.maxBytes = 0
	again := b.start(id, "and now?")
	r = b.request()
	if !slices.Equal(r.shown(), left) {
		t.Errorf("after a restart %d images are left, want %d", len(r.shown()), len(left))
	}
	r.answer(t, "Nothing.")
	b.await(id, ended(again.Turn.ID))
	if _, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: rec.CompactionID}); err != nil {
		t.Fatal(err)
	}
	again = b.start(id, "show all")
	r = b.request()
	if !slices.Equal(r.shown(), all) {
		t.Errorf("after an undo %d images are shown, want %d", len(r.shown()), len(all))
	}
	r.answer(t, "All.")
	b.await(id, ended(again.Turn.ID))
}

// P087: a 413 is no overflow. The oldest images go and the request is made again;
// what the provider took is remembered, and where nothing is left to strip the turn
// fails with the provider's error.
func TestARefusedPayloadIsMadeLighterAndNeverCompacted(t *testing.T) {
	b := newBench(t)
	id := b.create()
	all := b.album(id, 10, 10_000)
	ack := b.start(id, "go")
	b.request().fail <- tooLarge()
	r := b.request()
	if got := r.shown(); !slices.Equal(got, all[len(all)-len(got):]) || len(got) != 6 && len(got) != 5 {
		t.Errorf("%d of 10 images are left", len(got))
	}
	r.fail <- tooLarge()
	if r = b.request(); len(r.shown()) != 0 || len(r.Entries) != 21 {
		t.Errorf("the third request shows %d images in %d entries", len(r.shown()), len(r.Entries))
	}
	r.fail <- tooLarge()
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if e := done.Turn.Error; e == nil || e.Code != "payloadTooLarge" {
		t.Errorf("the turn ended with %+v", e)
	}
	b.wantOutcomes(id, "payloadTooLarge completed, payloadTooLarge completed")
	ack = b.start(id, "again")
	b.request().fail <- tooLarge() // there is nothing left to strip
	done = b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if e := done.Turn.Error; e == nil || e.Code != "payloadTooLarge" || e.Message != "request_too_large" {
		t.Errorf("the turn ended with %+v", e)
	}
	if len(b.puppet.requests) != 0 || len(b.records(id)) != 2 {
		t.Errorf("%d requests wait, %d records", len(b.puppet.requests), len(b.records(id)))
	}
}

// What a provider refused is not sent again: the next images make room for
// themselves without another refusal.
func TestARefusedSizeIsRemembered(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.album(id, 4, 10_000)
	ack := b.start(id, "go")
	b.request().fail <- tooLarge()
	r := b.request()
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
	b.album(id, 4, 10_000)
	if n := len(b.records(id)); n < 2 {
		t.Errorf("%d records, want one of the refusal and at least one that came before a request", n)
	}
	ack = b.start(id, "end")
	if r = b.request(); len(r.shown()) > 3 || len(r.shown()) == 0 {
		t.Errorf("%d images are shown", len(r.shown()))
	}
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
}

func TestNothingIsLeftOutWhereCompactionIsOff(t *testing.T) {
	b := newBench(t, never)
	id := b.create()
	b.album(id, 3, 10_000)
	b.puppet.maxBytes = 20_000
	ack := b.start(id, "go")
	r := b.request()
	if len(r.shown()) != 3 {
		t.Errorf("%d images are shown", len(r.shown()))
	}
	r.fail <- tooLarge()
	if e := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn.Error; e == nil || e.Code != "payloadTooLarge" {
		t.Errorf("the turn ended with %+v", e)
	}
	if n := len(b.records(id)); n != 0 {
		t.Errorf("%d records", n)
	}
}

// A compaction that waits for a step boundary runs first.
func TestImagesAreLeftOutAfterACompactionThatWaits(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.album(id, 8, 10_000)
	ack := b.start(id, "go")
	r := b.request()
	if _, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id}); err != nil {
		t.Fatal(err)
	}
	r.fail <- tooLarge()
	r = b.request()
	if n := len(r.shown()); n >= 8 {
		t.Errorf("%d images are shown", n)
	}
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
	if rs := b.records(id); len(rs) == 0 || rs[0].Trigger != "manual" {
		t.Errorf("records %s", mustJSON(t, rs))
	}
}
