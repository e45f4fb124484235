package threads_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A crowd is a turn in which the test asks the same question several times. It
// runs in a bubble of synctest.
type crowd struct {
	*bench
	id       transcript.ThreadID
	turn     transcript.TurnID
	host     adapters.Host
	question adapters.CommandApproval
	over     chan struct{} // closed by the test: the turn ends
}

func newCrowd(t *testing.T) *crowd {
	c, hosts := &crowd{over: make(chan struct{})}, make(chan adapters.Host)
	c.bench = directedBench(t, &director{run: func(_ context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		hosts <- h
		<-c.over
		return adapters.End{}, nil
	}})
	c.id = c.create()
	c.turn = c.start(c.id, "build").Turn.ID
	c.host = <-hosts
	it := transcript.Item{ID: c.host.NewItemID(), Turn: c.turn, Body: transcript.Command{Command: "make", Cwd: "/w", Status: "inProgress"}}
	c.question = adapters.CommandApproval{Item: it, Command: "make", Cwd: "/w"}
	return c
}

// ask asks, and returns once the question was heard.
func (c *crowd) ask(ctx context.Context) <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := c.host.Ask(ctx, c.question)
		answer <- err
	}()
	synctest.Wait()
	return answer
}

// waits returns how many requests wait, and checks the flag.
func (c *crowd) waits() int {
	c.t.Helper()
	rs, err := c.svc.Requests(c.t.Context(), c.id)
	if err != nil {
		c.t.Fatal(err)
	}
	if flags := c.read(c.id).Flags; len(flags) != len(rs) {
		c.t.Errorf("%d requests wait and the flags are %v", len(rs), flags)
	}
	return len(rs)
}

func TestAQuestionIsTakenBackByTheLastOfThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		one, cancelOne := context.WithCancel(t.Context())
		two, cancelTwo := context.WithCancel(t.Context())
		first, second := c.ask(one), c.ask(two)
		cancelTwo()
		if err := <-second; err == nil {
			t.Error("who stopped waiting got an answer")
		}
		synctest.Wait()
		if n := c.waits(); n != 1 {
			t.Errorf("one of two stopped, and %d requests wait", n)
		}
		cancelOne()
		if err := <-first; err == nil {
			t.Error("a question that nobody answered was answered")
		}
		synctest.Wait()
		if n := c.waits(); n != 0 {
			t.Errorf("nobody waits for an answer any more, and %d requests wait", n)
		}
		close(c.over)
		c.await(c.id, ended(c.turn))
	})
}

func TestWhoWasNeverHeardTakesNobodysQuestionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		first := c.ask(t.Context())
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 { // of which some are not heard
			if err := <-c.ask(cancelled); err == nil {
				t.Fatal("a question that nobody answered was answered")
			}
			if n := c.waits(); n != 1 {
				t.Fatalf("%d requests wait", n)
			}
		}
		c.answer(c.id, c.pending(c.id, 1)[0].ID, adapters.Accept)
		if err := <-first; err != nil {
			t.Error(err)
		}
		close(c.over)
		c.await(c.id, ended(c.turn))
	})
}

// A steer that comes too late for a run keeps the turn going without its
// questions.
func TestAQuestionOfARunThatEndedLeavesNoFlag(t *testing.T) {
	returns, again := make(chan struct{}), make(chan struct{})
	asked, runs := make(chan error, 1), 0
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		if runs++; runs > 1 {
			<-again
			return adapters.End{}, nil
		}
		go func() {
			_, _, err := askCommand(context.WithoutCancel(ctx), in, h, "make")
			asked <- err
		}()
		<-returns
		return adapters.End{}, nil
	}})
	id := b.create()
	ack := b.start(id, "build")
	b.pending(id, 1)
	p := threads.StartTurnParams{Thread: id, Input: transcript.TextParts("wait"), Mode: threads.ModeSteer}
	if more, err := b.svc.StartTurn(t.Context(), p); err != nil || !more.Steered {
		t.Fatalf("steer: %+v, %v", more, err)
	}
	close(returns)
	if err := <-asked; err == nil {
		t.Error("the question of a run that is over got an answer")
	}
	if th := b.read(id); th.Status != threads.StatusActive || len(th.Flags) != 0 {
		t.Errorf("the turn goes on as %s %v", th.Status, th.Flags)
	}
	close(again)
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, b.from(id, "serverRequest/resolved"), `
serverRequest/resolved cancelled
thread/status/changed active
item/completed command "make\n"
thread/status/changed idle
turn/completed completed`)
}
