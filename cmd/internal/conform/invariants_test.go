package conform

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// sailed returns a checker that has read a thread of a subject, with a tool call and one
// compaction.
func sailed(t *testing.T, s Subject) *checker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rowLimit)
	t.Cleanup(cancel)
	w := &world{ctx: ctx, sub: s}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	var c *checker
	res := w.perform(row{script: func(w *world) {
		w.open(setup{cassette: summary + "-- run --\n{{run}}\nusage 1000 10\n" + answers})
		ack := w.ids.start("PROMPT-MAKE: make the file.")
		w.ids.answer(w.ids.request(), "accept")
		w.ids.end(ack)
		w.ids.settle()
		w.talk(3)
		w.happened(w.ids.compacted(w.ids.compact(w.best()).CompactionID))
		w.ids.turn("PROMPT-AFTER: and now?")
		c = &checker{ctx: ctx, e: Evidence{Service: w.ids.svc, Thread: w.thread, Prompts: w.prompts, Requests: w.model.Asked()}}
		w.must(c.read(), "the thread can be read")
		broken, seen, err := Invariants(ctx, c.e)
		w.must(err, "the invariants can be checked")
		w.demand(len(broken) == 0, "nothing is broken", "%v", broken)
		c.e.Earlier = seen
	}})
	if res.Outcome != Pass {
		t.Fatalf("%+v", res)
	}
	return c
}

// last returns the place of the terminal row of the compaction.
func (c *checker) last() int {
	return slices.IndexFunc(c.payloads, func(p threads.Payload) bool {
		u, ok := p.(threads.CompactionUpdated)
		return ok && u.Record.Terminal()
	})
}

// change changes the terminal record.
func (c *checker) change(f func(*threads.CompactionUpdated)) {
	i := c.last()
	u := c.payloads[i].(threads.CompactionUpdated)
	f(&u)
	c.payloads[i] = u
}

// first removes the first entry of a context that is of a kind.
func (c *checker) drop(kind transcript.Kind) {
	for n, read := range c.contexts {
		if i := slices.IndexFunc(read.Entries, func(e transcript.Entry) bool { return e.Item.Body.Kind() == kind }); i >= 0 {
			c.contexts[n].Entries = slices.Delete(slices.Clone(read.Entries), i, i+1)
			return
		}
	}
}

// Each invariant is broken once, or in several ways, and told by its name.
func TestEachBrokenInvariantIsFound(t *testing.T) {
	for _, tt := range []struct {
		invariant, how string
		native         bool
		breaks         func(*checker)
	}{
		{"I1", "no outcome", false, func(c *checker) { c.payloads = slices.Delete(c.payloads, c.last(), c.last()+1) }},
		{"I1", "two outcomes", true, func(c *checker) {
			u := c.payloads[c.last()].(threads.CompactionUpdated)
			u.Record.Outcome = new(compaction.Failed)
			c.payloads = append(c.payloads, u)
		}},
		{"I2", "a result without its call", false, func(c *checker) { c.drop(transcript.KindToolCall) }},
		{"I2", "a call without its result", false, func(c *checker) { c.drop(transcript.KindToolResult) }},
		{"I2", "a request without a result", false, func(c *checker) {
			c.e.Requests = append(c.e.Requests, upstream.Recorded{Body: []byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{}}]}]}`)})
		}},
		{"I3", "an item that is neither summarised nor kept", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) {
				items := *u.Record.Items
				items.Summarized--
				u.Record.Items = &items
			})
		}},
		{"I3", "an item that is kept twice", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) {
				b := *u.Boundary
				b.Kept = append(slices.Clone(b.Kept), b.Kept[0])
				u.Boundary = &b
			})
		}},
		{"I3", "a turn on the wrong side", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) {
				u.Record.RetainedTurnIDs, u.Record.SummarizedTurnIDs = u.Record.SummarizedTurnIDs, u.Record.RetainedTurnIDs
			})
		}},
		{"I4", "a context that grew", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) { u.Record.After, u.Record.Before = u.Record.Before, u.Record.After })
		}},
		{"I4", "two rulers", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) {
				after := *u.Record.After
				after.Source = "another"
				u.Record.After = &after
			})
		}},
		{"I5", "a native one without a result", true, func(c *checker) { c.change(func(u *threads.CompactionUpdated) { u.Record.Native = nil }) }},
		{"I5", "a checkpoint that was made up", true, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) { u.Record.Checkpoint = &compaction.CheckpointInfo{} })
		}},
		{"I5", "a local one that is called native", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) { u.Record.Native = &compaction.NativeInfo{} })
		}},
		{"I6", "an item in a compaction", true, func(c *checker) {
			c.payloads = slices.Insert(c.payloads, c.last(), threads.Payload(threads.TurnStarted{}))
		}},
		{"I7", "a context that changes before the end", false, func(c *checker) {
			c.change(func(u *threads.CompactionUpdated) { u.Record.Outcome = nil })
		}},
		{"I7", "an epoch from nowhere", false, func(c *checker) { c.change(func(u *threads.CompactionUpdated) { u.Boundary = nil }) }},
		{"I8", "a row that changed", false, func(c *checker) {
			c.e.Earlier = slices.Clone(c.e.Earlier)
			c.e.Earlier[3] = events.Event{Seq: 4, Type: "item/started"}
		}},
		{"I8", "a hole", false, func(c *checker) { c.events = slices.Delete(slices.Clone(c.events), 2, 3) }},
		{"I9", "settings that changed", false, func(c *checker) {
			c.payloads = append(c.payloads, threads.SettingsUpdated{Settings: threads.Settings{Sandbox: "read-only"}})
		}},
		{"I9", "a request that was reworded", true, func(c *checker) {
			for id := range c.e.Prompts {
				c.e.Prompts[id] += " (reworded)"
			}
		}},
		{"I9", "a request that never reached the model", true, func(c *checker) { c.e.Requests = c.e.Requests[:1] }},
		{"I10", "requests without end", true, func(c *checker) {
			for range 200 {
				c.e.Requests = append(c.e.Requests, c.e.Requests[0])
			}
		}},
		{"I10", "two compactions for one overflow", true, func(c *checker) {
			u := c.payloads[c.last()].(threads.CompactionUpdated)
			u.Record.Trigger = compaction.TriggerOverflow
			c.payloads = append(c.payloads, u, u)
		}},
	} {
		t.Run(tt.invariant+" "+tt.how, func(t *testing.T) {
			s := Chat()
			if tt.native {
				s = Puppet(honest)
			}
			c := sailed(t, s)
			tt.breaks(c)
			c.check()
			if !slices.ContainsFunc(c.broken, func(b Broken) bool { return b.Invariant == tt.invariant }) {
				t.Errorf("found %v", c.broken)
			}
		})
	}
}

func TestARowHasALimit(t *testing.T) {
	begun := time.Now()
	res := hold(t.Context(), Chat(), row{name: "stuck", limit: 300 * time.Millisecond, script: func(w *world) {
		w.open(setup{cassette: slow})
		w.ids.start("PROMPT-SLOW: take your time.")
		w.ids.says("what is never said")
	}})
	if res.Outcome != Fail || time.Since(begun) > 20*time.Second {
		t.Errorf("after %v: %+v", time.Since(begun), res)
	}
}

func TestWhatTheModelIsNotToBeAskedFailsTheRow(t *testing.T) {
	res := hold(t.Context(), Chat(), row{name: "short", script: func(w *world) {
		w.open(setup{cassette: "-- a --\nsay One.\n"})
		w.ids.turn("PROMPT-1: hello.")
		w.ids.end(w.ids.start("PROMPT-2: hello."))
		w.ids.settle()
	}})
	if res.Outcome != Fail {
		t.Errorf("%+v", res)
	}
}
