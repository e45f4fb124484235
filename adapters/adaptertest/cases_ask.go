package adaptertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds the scripted cases about providers that ask. They report to a
// Reporter, so that a test can see them fail.

// askCase makes a script and the check that goes with it.
type askCase struct {
	name string
	make func() (Script, func(context.Context, Reporter, fixture))
}

var askCases = []askCase{
	{"what is allowed is done and the turn goes on", askAllowed},
	{"what is declined is not done and the turn goes on", askDeclined},
	{"each question of a step is asked once", askTwice},
	{"an answer that cancels ends the turn", askCancelled},
	{"cancelling ends the waiting for an answer", stopAsking(func(_ context.Context, _ Reporter, _ fixture, cancel func()) { cancel() })},
	{"interrupting ends the waiting for an answer", stopAsking(func(ctx context.Context, r Reporter, f fixture, _ func()) {
		ok(r, "interrupt", f.session.Interrupt(ctx))
	})},
	{"closing ends the waiting for an answer", askClosed},
	{"a host that cannot ask ends the turn", askFails},
	{"another session goes on with a turn that waits", askContinued},
}

func runAsk(t *testing.T, play func(t *testing.T, s Script) adapters.Adapter) {
	for _, c := range askCases {
		t.Run(c.name, func(t *testing.T) {
			script, check := c.make()
			open := func(t *testing.T) adapters.Adapter { return play(t, script) }
			start(t, open, func(t *testing.T, f fixture) { check(t.Context(), t, f) })
		})
	}
}

// asks is the Reply of a provider that wants to run commands.
func asks(commands ...string) Reply {
	var r Reply
	for _, c := range commands {
		r = append(r, Ask(c))
	}
	return append(r, Spend(10, 5), Stop(adapters.StopTools))
}

// decide makes the host answer every question alike.
func (f fixture) decide(d adapters.Decision) {
	f.host.OnAsk = func(context.Context, adapters.Question) (adapters.Answer, error) {
		return adapters.Answer{Decision: d}, nil
	}
}

// wantAsked checks what was asked, in any order: a shell may be put around a
// command.
func (f fixture) wantAsked(r Reporter, commands ...string) {
	asked := f.host.Asked()
	for _, c := range commands {
		n := 0
		for _, q := range asked {
			if a, is := q.(adapters.CommandApproval); is && strings.Contains(a.Command, c) {
				n++
			}
		}
		if n != 1 {
			r.Errorf("%q was asked %d times, want once: %+v", c, n, asked)
		}
	}
	if len(asked) != len(commands) {
		r.Errorf("%d questions, want %d: %+v", len(asked), len(commands), asked)
	}
}

// outcomes returns how the commands that were asked about ended: done or not.
func (f fixture) outcomes() []bool {
	var done []bool
	for _, it := range f.host.Items() {
		switch b := it.Body.(type) {
		case transcript.ToolResult:
			done = append(done, !b.IsError)
		case transcript.Command:
			done = append(done, b.Status == "completed")
		}
	}
	return done
}

func wantOutcomes(r Reporter, f fixture, want ...bool) {
	if diff := cmp.Diff(want, f.outcomes()); diff != "" {
		r.Errorf("commands that were run (-want +got):\n%s", diff)
	}
}

func wantSaid(r Reporter, f fixture, want ...string) {
	if diff := cmp.Diff(want, said(f.host.Items())); diff != "" {
		r.Errorf("answers (-want +got):\n%s", diff)
	}
}

func askAllowed() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make"), Answer("Built.")}, func(ctx context.Context, r Reporter, f fixture) {
		f.decide(adapters.Accept)
		_, err := f.host.Play(ctx, f.session, "build it")
		ok(r, "run", err)
		f.wantAsked(r, "make")
		wantOutcomes(r, f, true)
		wantSaid(r, f, "Built.")
	}
}

func askDeclined() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make"), Answer("Then not.")}, func(ctx context.Context, r Reporter, f fixture) {
		f.decide(adapters.Decline)
		_, err := f.host.Play(ctx, f.session, "build it")
		ok(r, "run", err)
		f.wantAsked(r, "make")
		wantOutcomes(r, f, false)
		wantSaid(r, f, "Then not.")
	}
}

func askTwice() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make", "make test"), Answer("Both.")}, func(ctx context.Context, r Reporter, f fixture) {
		f.host.OnAsk = func(_ context.Context, q adapters.Question) (adapters.Answer, error) {
			if a, is := q.(adapters.CommandApproval); is && strings.Contains(a.Command, "test") {
				return adapters.Answer{Decision: adapters.Decline}, nil
			}
			return adapters.Answer{Decision: adapters.AcceptForSession}, nil
		}
		_, err := f.host.Play(ctx, f.session, "build and test")
		ok(r, "run", err)
		if n := len(f.host.Asked()); n != 2 {
			r.Errorf("%d questions, want 2: %+v", n, f.host.Asked())
		}
		done := 0
		for _, d := range f.outcomes() {
			if d {
				done++
			}
		}
		if done != 1 || len(f.outcomes()) != 2 {
			r.Errorf("outcomes %v, want one command that was run and one that was not", f.outcomes())
		}
		wantSaid(r, f, "Both.")
	}
}

// askCancelled has no second reply: a session that goes on is reported.
func askCancelled() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make")}, func(ctx context.Context, r Reporter, f fixture) {
		f.decide(adapters.Cancel)
		_, err := f.host.Play(ctx, f.session, "build it")
		interrupted(r, err)
		f.wantAsked(r, "make")
		for _, done := range f.outcomes() {
			if done {
				r.Errorf("what was cancelled was done")
			}
		}
	}
}

// stopAsking stops a turn while nobody answers, and takes another one.
func stopAsking(stop func(ctx context.Context, r Reporter, f fixture, cancel func())) func() (Script, func(context.Context, Reporter, fixture)) {
	return func() (Script, func(context.Context, Reporter, fixture)) {
		return Script{asks("make"), Answer("Next.")}, func(ctx context.Context, r Reporter, f fixture) {
			run, cancel := context.WithCancel(ctx)
			defer cancel()
			f.nobodyAnswers(func() { stop(ctx, r, f, cancel) })
			_, err := f.host.Play(run, f.session, "build it")
			interrupted(r, err)
			_, err = f.host.Play(ctx, f.session, "something else")
			ok(r, "the turn after one that waited", err)
			wantSaid(r, f, "Next.")
		}
	}
}

// nobodyAnswers makes questions wait, and calls then beside the first of them.
func (f fixture) nobodyAnswers(then func()) {
	f.host.OnAsk = func(ctx context.Context, _ adapters.Question) (adapters.Answer, error) {
		go then()
		<-ctx.Done()
		return adapters.Answer{}, ctx.Err()
	}
}

func askClosed() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make")}, func(ctx context.Context, r Reporter, f fixture) {
		closed := make(chan error, 1)
		f.nobodyAnswers(func() { closed <- f.session.Close() })
		if _, err := f.host.Play(ctx, f.session, "build it"); err == nil {
			r.Errorf("the turn of a closed session succeeded")
		}
		if f.wantAsked(r, "make"); len(f.host.Asked()) > 0 {
			ok(r, "close", <-closed)
		}
	}
}

func askFails() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make")}, func(ctx context.Context, r Reporter, f fixture) {
		gone := errors.New("the thread is gone")
		f.host.OnAsk = func(context.Context, adapters.Question) (adapters.Answer, error) { return adapters.Answer{}, gone }
		if _, err := f.host.Play(ctx, f.session, "build it"); !errors.Is(err, gone) {
			r.Errorf("the turn ended with %v, want the host's error", err)
		}
	}
}

// askContinued closes a session while it waits for the second of two answers, as
// a server does that stops, and lets another one go on: what was answered is not
// asked again, and what waits is about the same item.
func askContinued() (Script, func(context.Context, Reporter, fixture)) {
	return Script{asks("make", "publish"), Answer("Published.")}, func(ctx context.Context, r Reporter, f fixture) {
		if c, is := f.adapter.(adapters.Continuer); !is || !c.Continues() {
			return
		}
		closed, made := make(chan error, 1), make(chan struct{})
		first := sync.OnceFunc(func() { close(made) })
		var asked atomic.Bool
		f.host.Park()
		f.host.OnAsk = func(ctx context.Context, q adapters.Question) (adapters.Answer, error) {
			if a, is := q.(adapters.CommandApproval); !is || !strings.Contains(a.Command, "publish") {
				first()
				return adapters.Answer{Decision: adapters.Accept}, nil
			}
			asked.Store(true)
			select {
			case <-made:
			case <-ctx.Done():
			}
			go func() { closed <- f.session.Close() }()
			<-ctx.Done()
			return adapters.Answer{}, ctx.Err()
		}
		if _, err := f.host.Play(ctx, f.session, "publish it"); err == nil {
			r.Errorf("the turn of a closed session succeeded")
		}
		before := f.host.Asked()
		if !asked.Load() {
			r.Errorf("publish was not asked: %+v", before)
			return
		}
		ok(r, "close", <-closed)
		s, err := f.adapter.Open(ctx, adapters.OpenParams{Thread: thread, Cwd: f.cwd})
		if err != nil {
			r.Errorf("open another session: %v", err)
			return
		}
		f.decide(adapters.Accept)
		_, err = f.host.Continue(ctx, s)
		ok(r, "go on", err)
		f.wantSameItem(r, before, "publish")
		wantOutcomes(r, f, true, true)
		wantSaid(r, f, "Published.")
		ok(r, "close the other session", s.Close())
	}
}

// wantSameItem checks that after a number of questions only one was asked, about
// the item that it was about before.
func (f fixture) wantSameItem(r Reporter, before []adapters.Question, command string) {
	after := f.host.Asked()[len(before):]
	if len(after) != 1 {
		r.Errorf("the session that went on asked %+v, want only what was not answered", after)
		return
	}
	item := func(q adapters.Question) transcript.ItemID {
		if a, is := q.(adapters.CommandApproval); is && strings.Contains(a.Command, command) {
			return a.Item.ID
		}
		return ""
	}
	again := item(after[0])
	for _, q := range before {
		if id := item(q); id != "" && id != again {
			r.Errorf("%q was asked about item %s and then about item %q", command, id, again)
		}
	}
}
