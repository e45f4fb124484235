package threads_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (b *bench) pin(id transcript.ThreadID, text string) threads.PinAck {
	b.t.Helper()
	ack, err := b.svc.AddPin(b.t.Context(), threads.PinParams{Thread: id, Text: text})
	if err != nil {
		b.t.Fatal(err)
	}
	return ack
}

// system is the system text of the next request of a thread.
func (b *bench) system(id transcript.ThreadID) string {
	b.t.Helper()
	ack := b.start(id, "hello")
	r := b.request()
	r.answer(b.t, "hi")
	b.await(id, ended(ack.Turn.ID))
	return r.Base.System
}

const canary = "RULE-7731: never touch /etc;\n\ttabs and  spaces stay — 規則 ✓"

func TestPinsAreInEveryRequestVerbatimWhateverIsCompacted(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	plain := b.system(id)
	b.pin(id, canary)
	b.pin(id, "second")
	with := b.system(id)
	if !strings.HasPrefix(with, plain) || strings.Count(with, canary) != 1 || strings.Index(with, canary) > strings.Index(with, "second") {
		t.Fatalf("the system text is:\n%s", with)
	}
	rec := b.shrink(id, threads.CompactParams{})
	if *rec.Outcome != compaction.Completed {
		t.Fatalf("the compaction ended %s", *rec.Outcome)
	}
	for _, e := range b.entries(id) {
		if strings.Contains(transcript.Text(e.Item.Body), "RULE-7731") {
			t.Errorf("the pin was taken into the context: %s", e.Item.Body.Kind())
		}
	}
	if after := b.system(id); after != with {
		t.Errorf("after the compaction the system text is:\n%s", after)
	}
	b.restart()
	if after := b.system(id); after != with {
		t.Errorf("after a restart the system text is:\n%s", after)
	}
	fork, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	if of := b.system(fork.Thread.ID); of != with {
		t.Errorf("the system text of a fork is:\n%s", of)
	}
	if of := b.system(b.moved(id)); of != with {
		t.Errorf("the system text of an import is:\n%s", of)
	}
}

func TestPinsCountAsBase(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	before := b.shrink(id, threads.CompactParams{}).Before
	text := strings.Repeat("pinned ", 500)
	b.pin(id, text)
	b.turn(id, "more", big("more", 2000))
	c, err := b.svc.ReadContext(t.Context(), id, nil)
	if err != nil || !strings.Contains(c.Preamble, text) || c.BaseTok < len(text)/4 {
		t.Errorf("the base has %d tokens and the preamble %q, %v", c.BaseTok, clip(c.Preamble), err)
	}
	rec := b.shrink(id, threads.CompactParams{Budget: c.BaseTok + 3000})
	if rec.Before.Tokens <= len(text)/4 || rec.After == nil || rec.After.Tokens < c.BaseTok {
		t.Errorf("before %+v, after %+v; the base has %d tokens (%+v)", rec.Before, rec.After, c.BaseTok, before)
	}
}

func TestPinsAreAddedOnceListedAndRemoved(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first := b.pin(id, "one")
	n := len(b.payloads(id))
	if again := b.pin(id, "one"); !again.Known || again.Pin != first.Pin || len(b.payloads(id)) != n {
		t.Errorf("the same text again: %+v", again)
	}
	p := threads.PinParams{Thread: id, Text: "two", IdempotencyKey: "k"}
	second, err := b.svc.AddPin(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	if again, err := b.svc.AddPin(t.Context(), p); err != nil || again.Pin != second.Pin || !again.Known {
		t.Errorf("the same key: %+v, %v", again, err)
	}
	p.Text = "three"
	if _, err := b.svc.AddPin(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("the key for another text: %v", err)
	}
	l, err := b.svc.Pins(t.Context(), id)
	if err != nil || len(l.Pins) != 2 || l.Pins[0] != first.Pin || l.Pins[1] != second.Pin || l.Limit != b.puppet.window/10 || l.Tokens != first.Pin.Tokens+second.Pin.Tokens {
		t.Errorf("the list is %+v, %v", l, err)
	}
	if l, err = b.svc.RemovePin(t.Context(), id, first.Pin.ID); err != nil || len(l.Pins) != 1 || l.Pins[0] != second.Pin {
		t.Errorf("after the removal: %+v, %v", l, err)
	}
	if _, err := b.svc.RemovePin(t.Context(), id, first.Pin.ID); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("removed again: %v", err)
	}
	p.Text = "two"
	if _, err := b.svc.RemovePin(t.Context(), id, second.Pin.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.svc.AddPin(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("the key of a pin that was removed: %v", err)
	}
	if text := b.system(id); strings.Contains(text, "Pinned") {
		t.Errorf("without pins the system text is:\n%s", text)
	}
}

func TestPinsHaveATenthOfTheWindow(t *testing.T) {
	for window, limit := range map[int]int{20_000: 2_000, 0: 12_800} {
		b := newBench(t)
		b.puppet.window = window
		b.restart()
		id := b.create()
		for left := limit; left > 3_000; left -= 3_000 {
			b.pin(id, fmt.Sprintf("%-11990d", left))
		}
		var err error
		for i := 0; err == nil && i < 70; i++ {
			_, err = b.svc.AddPin(t.Context(), threads.PinParams{Thread: id, Text: fmt.Sprintf("%d %s", i, strings.Repeat("word ", 300))})
		}
		l, lerr := b.svc.Pins(t.Context(), id)
		if fault.CodeOf(err) != fault.TooLarge || !strings.Contains(err.Error(), fmt.Sprint(limit)) || lerr != nil || l.Limit != limit || l.Tokens > limit || l.Tokens < limit/2 {
			t.Errorf("window %d: %v; the list is %d of %d, %v", window, err, l.Tokens, l.Limit, lerr)
		}
	}
}

func TestBadPinsAreRefused(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for _, text := range []string{"", " \n\t", "a\xff", strings.Repeat("x", 16_001)} {
		if _, err := b.svc.AddPin(t.Context(), threads.PinParams{Thread: id, Text: text}); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	for i := range 64 {
		b.pin(id, fmt.Sprint("pin ", i))
	}
	if _, err := b.svc.AddPin(t.Context(), threads.PinParams{Thread: id, Text: "one more"}); fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("the 65th pin: %v", err)
	}
	if _, err := b.svc.AddPin(t.Context(), threads.PinParams{Thread: "nobody", Text: "x"}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("of no thread: %v", err)
	}
}

// What is pinned is checked after every compaction, so a pin that is damaged stops it.
func TestACompactionFailsIfAPinIsNotWhatWasPinned(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	was := mustJSON(t, b.entries(id))
	good := b.pin(id, canary).Pin
	for name, damage := range map[string]func(*threads.Pin){
		"its text is shorter": func(p *threads.Pin) { p.Text = p.Text[:len(p.Text)-1] },
		"its text is longer":  func(p *threads.Pin) { p.Text += " " },
		"its text is another": func(p *threads.Pin) { p.Text = strings.Replace(p.Text, "never", "always", 1) },
		"its hash is another": func(p *threads.Pin) { p.Hash = strings.Repeat("0", 64) },
	} {
		pin := good
		damage(&pin)
		b.write(id, threads.PinsChanged{Pins: []threads.Pin{pin}})
		rec := b.shrink(id, threads.CompactParams{})
		if *rec.Outcome != compaction.Failed || rec.Code == nil || *rec.Code != string(fault.Corrupt) || !strings.Contains(*rec.Reason, pin.ID) {
			t.Errorf("%s: the compaction ended %s, %s", name, *rec.Outcome, mustJSON(t, rec.Reason))
		}
		if mustJSON(t, b.entries(id)) != was {
			t.Errorf("%s: the context was changed", name)
		}
	}
	b.write(id, threads.PinsChanged{Pins: []threads.Pin{good}})
	if rec := b.shrink(id, threads.CompactParams{}); *rec.Outcome != compaction.Completed {
		t.Errorf("with the pin as it was the compaction ended %s", *rec.Outcome)
	}
}

func TestInstructionFilesAreReadForEveryRequestAndNeverCompacted(t *testing.T) {
	text, err := "--- /repo/AGENTS.md ---\n"+canary+"\n", error(nil)
	b := newBench(t, func(c *threads.Config) {
		c.Instructions = func(string) (string, error) { return text, err }
	})
	id := b.laden()
	with := b.system(id)
	if strings.Count(with, text) != 1 {
		t.Fatalf("the system text is:\n%s", with)
	}
	b.shrink(id, threads.CompactParams{})
	if after := b.system(id); after != with {
		t.Errorf("after a compaction the system text is:\n%s", after)
	}
	b.pin(id, "a pin")
	if both := b.system(id); strings.Index(both, "RULE-7731") > strings.Index(both, "a pin") || !strings.Contains(both, text) {
		t.Errorf("with a pin the system text is:\n%s", both)
	}
	text = ""
	if gone := b.system(id); strings.Contains(gone, "RULE-7731") {
		t.Errorf("the file is gone, the rule is not:\n%s", gone)
	}
	text, err = "still there", errors.New("instruction file /x is left out: too large")
	if partly := b.system(id); !strings.Contains(partly, "still there") {
		t.Errorf("what could be read is left out too:\n%s", partly)
	}
	b.await(id, func(p threads.Payload) bool {
		w, ok := p.(threads.WarningRaised)
		return ok && w.Message == err.Error()
	})
	b.system(id)
	if n := strings.Count(b.log(id), "warning"); n != 1 {
		t.Errorf("%d warnings about one file", n)
	}
}
