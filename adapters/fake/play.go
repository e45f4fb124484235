package fake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// play is the run of one turn.
type play struct {
	*session
	ctx  context.Context
	host adapters.Host
	turn transcript.TurnID
	done map[transcript.ItemID]bool // what another process did
	pace time.Duration
	last []adapters.Update // of the newest answer; they end the turn if nothing follows

	remember func(texts ...string) error // of a Runtime; nil: the history is the server's
}

// id is that of the item of a step.
func (p *play) id(n int) transcript.ItemID {
	return transcript.ItemID(fmt.Sprintf("%s-%d", p.turn, n))
}

func (p *play) emit(updates ...adapters.Update) error {
	updates = append(p.last, updates...)
	p.last = nil
	if len(updates) == 0 {
		return nil
	}
	return p.host.Emit(p.ctx, updates...)
}

// step plays one step, unless another process has.
func (p *play) step(n int, st step) error {
	item := transcript.Item{ID: p.id(n), Turn: p.turn}
	if p.done[item.ID] {
		return nil
	}
	switch st.verb {
	case "say":
		return p.text(item, transcript.AgentMessage{}, transcript.AgentMessage{Text: st.what}, st.what)
	case "think":
		return p.text(item, transcript.Reasoning{}, transcript.Reasoning{Text: st.what}, st.what)
	case "quote":
		text := "You said: " + p.lastSteer()
		return p.text(item, transcript.AgentMessage{}, transcript.AgentMessage{Text: text}, text)
	case "run":
		return p.run(item, st)
	case "edit":
		return p.edit(item, st)
	case "call":
		return p.call(item, st)
	case "plan":
		return p.emit(adapters.PlanUpdated{Plan: planOf(st.what)})
	case "usage":
		return p.usage(st.what)
	}
	return p.control(st)
}

// control plays a step that makes no item.
func (p *play) control(st step) error {
	switch st.verb {
	case "pace":
		p.pace = st.delay
		return nil
	case "delay":
		if err := p.emit(); err != nil {
			return err
		}
		return wait(p.ctx, st.delay)
	case "hold":
		return p.hold()
	case "retry":
		return p.emit(adapters.Retrying{Message: st.what})
	case "fail":
		if err := p.emit(); err != nil {
			return err
		}
		return fault.New(fault.Unavailable, "%s", st.what)
	case "overflow":
		if err := p.emit(); err != nil {
			return err
		}
		return overflow(0, 0)
	case "crash":
		panic("the script says so")
	}
	return fmt.Errorf("fake: no step %q", st.verb)
}

// hold waits until the user steers.
func (p *play) hold() error {
	if err := p.emit(); err != nil {
		return err
	}
	select {
	case <-p.steered:
		if p.remember != nil {
			return p.remember(told(transcript.UserMessage{Content: transcript.TextParts(p.lastSteer())}))
		}
		_, err := p.host.Context(p.ctx)
		return err
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// text streams a text and completes its item, together with what comes next.
func (p *play) text(item transcript.Item, empty, whole transcript.Body, text string) error {
	item.Body = empty
	if err := p.emit(adapters.ItemStarted{Item: item}); err != nil {
		return err
	}
	said := ""
	for _, w := range words(text) {
		err := wait(p.ctx, p.pace)
		if err == nil {
			err = p.host.Emit(p.ctx, adapters.TextDelta{Item: item.ID, Text: w})
		}
		if err != nil {
			if whole.Kind() == transcript.KindAgentMessage {
				err = errors.Join(err, p.note(transcript.AgentMessage{Text: said}))
			}
			return err
		}
		said += w
	}
	if err := p.note(whole); err != nil {
		return err
	}
	item.Body = whole
	p.last = append(p.last, adapters.ItemCompleted{Item: item})
	return nil
}

// run plays a command.
func (p *play) run(item transcript.Item, st step) error {
	body := transcript.Command{Command: st.what, Cwd: p.cwd, Status: "inProgress"}
	item.Body = body
	allowed, err := p.begin(item, st, adapters.CommandApproval{Item: item, Command: st.what, Cwd: p.cwd, Reason: "the script asks"})
	if err != nil {
		return errors.Join(err, p.note(body))
	}
	body.Status = "declined"
	if allowed {
		body.Output, body.ExitCode, body.Status = st.more, &st.exit, "completed"
		if st.exit != 0 {
			body.Status = "failed"
		}
	}
	item.Body = body
	return errors.Join(p.note(body), p.emit(adapters.ItemCompleted{Item: item}))
}

// edit plays a change of a file.
func (p *play) edit(item transcript.Item, st step) error {
	body := transcript.FileChange{Status: "inProgress", Changes: []transcript.Change{{Path: st.what, Op: "add", Diff: st.more}}}
	item.Body = body
	allowed, err := p.begin(item, st, adapters.FileApproval{Item: item, Reason: "the script asks"})
	if err != nil {
		return errors.Join(err, p.note(body))
	}
	body.Status = "declined"
	if allowed {
		body.Status = "completed"
	}
	item.Body = body
	return errors.Join(p.note(body), p.emit(adapters.ItemCompleted{Item: item}))
}

// begin opens an item, and asks first if the step says so.
func (p *play) begin(item transcript.Item, st step, q adapters.Question) (allowed bool, err error) {
	if !st.ask {
		return true, p.emit(adapters.ItemStarted{Item: item})
	}
	if err := p.emit(); err != nil {
		return false, err
	}
	a, err := p.host.Ask(p.ctx, q)
	if err == nil && a.Decision == adapters.Cancel { // the interrupt is on its way
		<-p.ctx.Done()
		err = p.ctx.Err()
	}
	return a.Decision.Allows(), err
}

// call plays a call of a tool.
func (p *play) call(item transcript.Item, st step) error {
	args := transcript.RawJSON(st.more)
	if st.more == "" {
		args = transcript.RawJSON("{}")
	}
	item.Body = transcript.ToolCall{CallID: transcript.CallID("call-" + item.ID), Name: st.what, Arguments: args}
	if err := p.emit(adapters.ItemStarted{Item: item}); err != nil {
		return err
	}
	result, err := p.host.Tool(p.ctx, item)
	if err != nil {
		return err
	}
	return errors.Join(p.note(item.Body), p.note(result))
}

// note has a Runtime remember a body, unless the server has none of it.
func (p *play) note(b transcript.Body) error {
	if message, is := b.(transcript.AgentMessage); p.remember == nil || b.Kind() == transcript.KindReasoning || is && message.Text == "" {
		return nil
	}
	return p.remember(told(b))
}

func (p *play) usage(what string) error {
	var u adapters.Usage
	if _, err := fmt.Sscan(what, &u.InputTokens, &u.OutputTokens); err != nil {
		return fmt.Errorf("fake: usage %q: %w", what, err)
	}
	p.last = append(p.last, adapters.UsageReported{Usage: u})
	return nil
}

func planOf(what string) transcript.Plan {
	var plan transcript.Plan
	for i, s := range strings.Split(what, ";") {
		status := "pending"
		if i == 0 {
			status = "inProgress"
		}
		plan.Steps = append(plan.Steps, transcript.PlanStep{Step: strings.TrimSpace(s), Status: status})
	}
	return plan
}
