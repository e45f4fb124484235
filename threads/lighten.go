package threads

import (
	"context"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Lighten implements adapters.Host.
func (h *host) Lighten(ctx context.Context, heavy adapters.Heavy) (freed int, err error) {
	for {
		v, err := h.a.send(ctx, message{cmd: lighten{h.turn, heavy}})
		if err != nil {
			return 0, err
		}
		done := v.(lightened)
		if !done.waits {
			return done.freed, nil
		}
		if _, err := h.Context(ctx); err != nil { // the compaction that was asked for comes first
			return 0, err
		}
	}
}

// lighten is a session whose request has too many bytes. What goes is the same as in a
// compaction that only prunes: journaled, in the record, and it can be undone. Hooks
// are not asked, because nothing is summarised.
type lighten struct {
	turn transcript.TurnID
	adapters.Heavy
}

// lightened is the answer to lighten.
type lightened struct {
	freed int
	waits bool // a compaction that was asked for must run first
}

func (c lighten) decide(s *state, env env) (decision, error) {
	if s.Active != c.turn || s.Stopping {
		return decision{}, errOver(c.turn)
	}
	none := func(*state) any { return lightened{} }
	if env.auto.policy.Off || s.inCompactTurn() {
		return decision{answer: none}, nil
	}
	if s.running() != nil {
		return decision{answer: func(*state) any { return lightened{waits: true} }}, nil
	}
	kept, freed := compaction.StripImages(s.context, s.unread(env.read), c.Excess, func(hash string) int { return c.Images[hash] })
	if len(kept) == 0 {
		return decision{answer: none}, nil
	}
	r := s.newCompaction(env, compaction.TriggerBytes)
	r.TurnID = c.turn
	images := 0
	shown := map[transcript.ItemID]int{}
	for _, e := range s.context {
		shown[e.Item.ID] = transcript.Images(e.Item.Body)
	}
	for _, k := range kept {
		images += shown[k.ItemID]
	}
	r, prune := r.Lightened(s.context, kept, s.load(env.auto, 0).Used, env.auto.limits.measured(), transcript.Millis(env.now))
	reason := c.reason(images, freed)
	r.Reason = &reason
	return decision{
		payloads: []Payload{
			ItemStarted{Item: compactionItem(env, r)},
			CompactionUpdated{Record: r, Prune: &prune},
			contextMeasured(s, env, r),
			ItemCompleted{Item: closedMarker(s, env, r)},
			WarningRaised{Message: reason},
		},
		answer: func(*state) any { return lightened{freed: freed} },
	}, nil
}

// reason tells people what was left out, and why.
func (c lighten) reason(images, freed int) string {
	why := fmt.Sprintf("the request has %s and the provider takes %s", megabytes(c.Bytes), megabytes(c.Limit))
	if c.Refused {
		why = fmt.Sprintf("the provider refused a request of %s as too large", megabytes(c.Bytes))
	}
	what := "the oldest image was"
	if images != 1 {
		what = fmt.Sprintf("the %d oldest images were", images)
	}
	return fmt.Sprintf("%s; %s left out of the context (%s)", why, what, megabytes(freed))
}

func megabytes(n int) string {
	if n < 1_000_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
