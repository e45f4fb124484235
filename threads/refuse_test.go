package threads_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func TestWhatIsRefusedIsAFailedTurnAndNoPartOfTheContext(t *testing.T) {
	b := newBench(t)
	id := b.create()
	if err := b.svc.RefuseTurn(t.Context(), id, "not here"); err != nil {
		t.Fatal(err)
	}
	wantLog(t, tail(strings.Split(b.log(id), "\n"), 1), `
thread/status/changed active
turn/started user
thread/status/changed idle
error refused willRetry=false
turn/completed failed`)
	page, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{View: threads.ItemsFull})
	if err != nil || len(page.Turns) != 1 || page.Turns[0].Error.Message != "not here" || len(page.Turns[0].Items) != 0 {
		t.Errorf("turns: %+v, %v", page, err)
	}
	ack := b.start(id, "go on")
	r := b.request()
	if got := strings.Join(r.texts(), "\n"); got != "userMessage: go on" {
		t.Errorf("the model reads:\n%s", got)
	}
	if err := b.svc.RefuseTurn(t.Context(), id, "not now either"); err != nil {
		t.Fatal(err)
	}
	r.answer(t, "yes")
	b.await(id, ended(ack.Turn.ID))
	if log := b.log(id); strings.Count(log, "turn/started") != 2 || !strings.Contains(log, "warning") {
		t.Errorf("while a turn ran it was no warning:\n%s", log)
	}
	if err := b.svc.Archive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.svc.RefuseTurn(t.Context(), id, "x"); fault.CodeOf(err) != fault.Refused {
		t.Errorf("in an archived thread: %v", err)
	}
}
