package threads_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// The oldest acceptance makes room for the thousand and first; a restart in
// between changes nothing.
func TestTheNewestAcceptancesForTheSessionAreRemembered(t *testing.T) {
	t.Parallel()
	const kept = 1000
	var asks []string // of the next turn
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		var end adapters.End
		for _, command := range asks {
			more, _, err := askCommand(ctx, in, h, command)
			if err != nil {
				return end, err
			}
			end.Updates = append(end.Updates, more.Updates...)
		}
		return end, nil
	}})
	id := b.create()
	// asked has a turn ask about commands, and returns which of them people were asked about.
	asked := func(commands ...string) (got []string) {
		asks = commands
		ack := b.start(id, "build")
		b.await(id, func(p threads.Payload) bool {
			if c, ok := p.(threads.RequestCreated); ok && c.Request.TurnID == ack.Turn.ID {
				got = append(got, c.Request.Command.Command)
				b.answer(id, c.Request.ID, adapters.AcceptForSession)
			}
			return ended(ack.Turn.ID)(p)
		})
		return got
	}
	all := make([]string, kept+1)
	for i := range all {
		all[i] = fmt.Sprint("make ", i)
	}
	if got := asked(all...); len(got) != len(all) {
		t.Errorf("%d of %d new commands were asked about", len(got), len(all))
	}
	b.restart()
	if got := asked(all[1:]...); len(got) != 0 {
		t.Errorf("the newest %d were accepted for the session, and %d were asked about again", kept, len(got))
	}
	if got := asked(all[0]); len(got) != 1 {
		t.Errorf("acceptances beyond the newest %d are still remembered", kept)
	}
	if got := asked(all[2:]...); len(got) != 0 {
		t.Errorf("%d were asked about again after one more acceptance", len(got))
	}
	if got := asked(all[1]); len(got) != 1 {
		t.Error("the oldest acceptance did not make room")
	}
}
