package threads_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// png is an image of n bytes, as far as anybody looks.
func png(tag string, n int) []byte {
	head := "\x89PNG\r\n\x1a\n" + tag
	return append([]byte(head), bytes.Repeat([]byte{7}, max(0, n-len(head)))...)
}

// shows is an input of a text and images.
func shows(t testing.TB, id transcript.ThreadID, text string, images ...[]byte) threads.StartTurnParams {
	t.Helper()
	p := threads.StartTurnParams{Thread: id, Input: transcript.TextParts(text), Images: threads.Images{}}
	for _, data := range images {
		part, err := p.Images.Add(data)
		if err != nil {
			t.Fatal(err)
		}
		p.Input = append(p.Input, part)
	}
	return p
}

func (b *bench) show(id transcript.ThreadID, text string, images ...[]byte) threads.TurnAck {
	b.t.Helper()
	ack, err := b.svc.StartTurn(b.t.Context(), shows(b.t, id, text, images...))
	if err != nil {
		b.t.Fatal(err)
	}
	return ack
}

// wantBlob checks whether an image is stored.
func (b *bench) wantBlob(data []byte, want bool) {
	b.t.Helper()
	got, err := b.journal.Blob(b.t.Context(), blobHash(data))
	if (err == nil) != want || want && !bytes.Equal(got, data) {
		b.t.Errorf("an image is stored: %v (%v), want %v", err == nil, err, want)
	}
}

func TestAnImageReachesTheModel(t *testing.T) {
	b := newBench(t, never)
	id := b.create()
	first, queued, steered := png("first", 100), png("queued", 100), png("steered", 100)
	ack := b.show(id, "What is this?", first)
	r := b.request()
	b.wantBlob(first, true)
	waits := b.show(id, "And this?", queued)
	b.wantBlob(queued, true)
	p := shows(t, id, "Look here.", steered)
	p.Mode = threads.ModeSteer
	if _, err := b.svc.StartTurn(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b.wantBlob(steered, true)
	if got, err := r.Blob(r.Entries[0].Item.Body.(transcript.UserMessage).Content[1].Blob); err != nil || !bytes.Equal(got, first) {
		t.Errorf("the model got %q, %v", got, err)
	}
	r.answer(t, "A pier.")
	b.request().answer(t, "Another.")
	b.await(id, ended(ack.Turn.ID))
	r = b.request()
	r.answer(t, "A third.")
	b.await(id, ended(waits.Turn.ID))
	if n := len(r.Entries); n != 5 || transcript.Images(r.Entries[4].Item.Body) != 1 {
		t.Errorf("the last request: %q", r.texts())
	}
}

func TestBadImagesAreRefusedAndNothingIsStored(t *testing.T) {
	b := newBench(t, never)
	id := b.create()
	part := func(change func(*transcript.Part)) threads.StartTurnParams {
		p := shows(t, id, "see", png("x", 50))
		change(&p.Input[1])
		return p
	}
	many := shows(t, id, "see")
	for i := range threads.MaxImages + 1 {
		more := shows(t, id, "", png(strings.Repeat("i", i), 200))
		many.Input = append(many.Input, more.Input[1])
		maps.Copy(many.Images, more.Images)
	}
	for name, c := range map[string]struct {
		p    threads.StartTurnParams
		code fault.Code
		text string
	}{
		"unknown":    {part(func(p *transcript.Part) { p.Blob = blobHash([]byte("nothing")) }), fault.Invalid, "input[1]: no image is stored under "},
		"other type": {part(func(p *transcript.Part) { p.MediaType = "image/gif" }), fault.Invalid, "said to be image/gif and is image/png"},
		"too many":   {many, fault.TooLarge, "more than 64 images"},
	} {
		if _, err := b.svc.StartTurn(t.Context(), c.p); fault.CodeOf(err) != c.code || !strings.Contains(fault.MessageOf(err), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	forged := shows(t, id, "see", png("real", 50))
	forged.Images[forged.Input[1].Blob] = png("forged", 50)
	if _, err := b.svc.StartTurn(t.Context(), forged); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("forged: %v", err)
	}
	if _, err := (threads.Images{}).Add(png("x", threads.MaxImageBytes+1)); fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("large: %v", err)
	}
	if _, err := (threads.Images{}).Add([]byte("<svg/>")); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("no image: %v", err)
	}
	b.wantBlob(png("x", 50), false)
	if n := len(b.payloads(id)); n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestAKeyStandsForTheBytesOfImages(t *testing.T) {
	b := newBench(t, never)
	id := b.create()
	start := func(data []byte) (threads.TurnAck, error) {
		p := shows(t, id, "see", data)
		p.IdempotencyKey = "k"
		return b.svc.StartTurn(t.Context(), p)
	}
	first, err := start(png("one", 60))
	if err != nil {
		t.Fatal(err)
	}
	b.request().answer(t, "seen")
	b.await(id, ended(first.Turn.ID))
	if again, err := start(png("one", 60)); err != nil || again.Turn.ID != first.Turn.ID {
		t.Errorf("the same bytes: %v, %v", again.Turn.ID, err)
	}
	if _, err := start(png("two", 60)); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("other bytes: %v", err)
	}
	b.wantBlob(png("two", 60), false)
}

// An image belongs to the threads that show it: a fork keeps it, an export takes it
// along, also one that only waits in the queue, and the last deletion removes it.
func TestImagesGoWhereTheirThreadsGo(t *testing.T) {
	b := newBench(t, never)
	id := b.create()
	seen, waits := png("seen", 80), png("waits", 80)
	ack := b.show(id, "see", seen)
	b.request().answer(t, "seen")
	b.await(id, ended(ack.Turn.ID))
	running := b.start(id, "go on")
	r := b.request()
	b.show(id, "later", waits)

	var file bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &file); err != nil {
		t.Fatal(err)
	}
	fork, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	r.answer(t, "done")
	b.await(id, ended(running.Turn.ID))
	b.request().answer(t, "seen too")
	b.wantBlob(waits, true)
	if err := b.svc.DeleteThread(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.wantBlob(seen, true)
	b.wantBlob(waits, false)
	if err := b.svc.DeleteThread(t.Context(), fork.Thread.ID); err != nil {
		t.Fatal(err)
	}
	b.wantBlob(seen, false)

	back, err := b.svc.Import(t.Context(), &file, threads.ImportParams{})
	if err != nil {
		t.Fatal(err)
	}
	b.wantBlob(seen, true)
	b.wantBlob(waits, true)
	again := b.start(back.Thread.ID, "what was it?")
	r = b.request()
	if part := r.Entries[0].Item.Body.(transcript.UserMessage).Content[1]; part.Blob != blobHash(seen) {
		t.Errorf("the image of the imported thread: %+v", part)
	}
	r.answer(t, "a pier")
	b.await(back.Thread.ID, ended(again.Turn.ID))
}
