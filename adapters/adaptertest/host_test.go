package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// notes is a Reporter that keeps what it is told.
type notes struct{ errs []string }

func (*notes) Helper() {}

func (n *notes) Errorf(format string, args ...any) {
	n.errs = append(n.errs, fmt.Sprintf(format, args...))
}

// acts is a session whose Run does what a case wants.
type acts struct {
	adapters.Session
	run func(h *Host, turn transcript.TurnID) error
	end adapters.End
}

func (a *acts) Run(_ context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	return a.end, a.run(host.(*Host), in.Turn)
}

// TestHostReportsBrokenRules is what makes the suite worth running: each rule of
// the package comment is broken once.
func TestHostReportsBrokenRules(t *testing.T) {
	ctx := t.Context()
	message := func(id transcript.ItemID, turn transcript.TurnID, text string) transcript.Item {
		return transcript.Item{ID: id, Turn: turn, Body: transcript.AgentMessage{Text: text}}
	}
	call := func(id transcript.ItemID, turn transcript.TurnID, callID, args string) transcript.Item {
		return transcript.Item{ID: id, Turn: turn, Body: transcript.ToolCall{
			CallID: transcript.CallID(callID), Name: "a", Arguments: transcript.RawJSON(args),
		}}
	}
	for _, c := range []struct {
		name, want string
		run        func(h *Host, turn transcript.TurnID) error
	}{
		{"delta before start", "not open", func(h *Host, _ transcript.TurnID) error {
			return h.Emit(ctx, adapters.TextDelta{Item: h.NewItemID(), Text: "x"})
		}},
		{"delta after completion", "not open", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemStarted{Item: message(id, turn, "")},
				adapters.ItemCompleted{Item: message(id, turn, "")}, adapters.TextDelta{Item: id, Text: "x"})
		}},
		{"completed with other text", "add up", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemStarted{Item: message(id, turn, "")},
				adapters.TextDelta{Item: id, Text: "abc"}, adapters.ItemCompleted{Item: message(id, turn, "abd")})
		}},
		{"completed as another kind", "was started as", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemStarted{Item: message(id, turn, "")},
				adapters.ItemCompleted{Item: transcript.Item{ID: id, Turn: turn, Body: transcript.Reasoning{}}})
		}},
		{"completed twice", "completed twice", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemCompleted{Item: message(id, turn, "a")}, adapters.ItemCompleted{Item: message(id, turn, "a")})
		}},
		{"started twice", "used before", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemCompleted{Item: message(id, turn, "a")}, adapters.ItemStarted{Item: message(id, turn, "")})
		}},
		{"started with text", "by deltas", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemStarted{Item: message(id, turn, "a")},
				adapters.TextDelta{Item: id, Text: "a"}, adapters.ItemCompleted{Item: message(id, turn, "a")})
		}},
		{"own id", "not handed out", func(h *Host, turn transcript.TurnID) error {
			return h.Emit(ctx, adapters.ItemCompleted{Item: message("mine", turn, "a")})
		}},
		{"foreign turn", "belongs to turn", func(h *Host, _ transcript.TurnID) error {
			return h.Emit(ctx, adapters.ItemCompleted{Item: message(h.NewItemID(), "other", "a")})
		}},
		{"no body", "no body", func(h *Host, turn transcript.TurnID) error {
			return h.Emit(ctx, adapters.ItemCompleted{Item: transcript.Item{ID: h.NewItemID(), Turn: turn}})
		}},
		{"empty delta", "empty delta", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemStarted{Item: message(id, turn, "")},
				adapters.TextDelta{Item: id}, adapters.ItemCompleted{Item: message(id, turn, "")})
		}},
		{"broken delta", "not valid UTF-8", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			return h.Emit(ctx, adapters.ItemStarted{Item: message(id, turn, "")},
				adapters.TextDelta{Item: id, Text: "\xe6"}, adapters.ItemCompleted{Item: message(id, turn, "\xe6")})
		}},
		{"delta of a call", "no text that grows", func(h *Host, turn transcript.TurnID) error {
			id := h.NewItemID()
			it := call(id, turn, "c", "{}")
			return errors.Join(h.Emit(ctx, adapters.ItemStarted{Item: it}, adapters.TextDelta{Item: id, Text: "x"}), tool(h, it))
		}},
		{"item left open", "is open", func(h *Host, turn transcript.TurnID) error {
			return h.Emit(ctx, adapters.ItemStarted{Item: message(h.NewItemID(), turn, "")})
		}},
		{"call left unanswered", "is unanswered", func(h *Host, turn transcript.TurnID) error {
			return h.Emit(ctx, adapters.ItemStarted{Item: call(h.NewItemID(), turn, "c", "{}")})
		}},
		{"next request before the answer", "is unanswered", func(h *Host, turn transcript.TurnID) error {
			it := call(h.NewItemID(), turn, "c", "{}")
			err := h.Emit(ctx, adapters.ItemStarted{Item: it})
			_, err2 := h.Context(ctx)
			return errors.Join(err, err2, tool(h, it))
		}},
		{"tool before its call", "before it was emitted", func(h *Host, turn transcript.TurnID) error {
			return tool(h, call(h.NewItemID(), turn, "c", "{}"))
		}},
		{"tool run twice", "run again", func(h *Host, turn transcript.TurnID) error {
			it := call(h.NewItemID(), turn, "c", "{}")
			return errors.Join(h.Emit(ctx, adapters.ItemStarted{Item: it}), tool(h, it), tool(h, it))
		}},
		{"tool for a message", "is run for a agentMessage", func(h *Host, turn transcript.TurnID) error {
			return tool(h, message(h.NewItemID(), turn, "a"))
		}},
		{"call id twice", "used before", func(h *Host, turn transcript.TurnID) error {
			a, b := call(h.NewItemID(), turn, "c", "{}"), call(h.NewItemID(), turn, "c", "{}")
			return errors.Join(h.Emit(ctx, adapters.ItemStarted{Item: a}, adapters.ItemStarted{Item: b}), tool(h, b))
		}},
		{"arguments that are no JSON", "not valid JSON", func(h *Host, turn transcript.TurnID) error {
			it := call(h.NewItemID(), turn, "c", "{")
			return errors.Join(h.Emit(ctx, adapters.ItemStarted{Item: it}), tool(h, it))
		}},
		{"question about a message", "must be a command or a file change", func(h *Host, turn transcript.TurnID) error {
			return question(h, message(h.NewItemID(), turn, ""))
		}},
		{"question about what is over", "which is complete", func(h *Host, turn transcript.TurnID) error {
			it := call(h.NewItemID(), turn, "c", "{}")
			return errors.Join(h.Emit(ctx, adapters.ItemStarted{Item: it}), tool(h, it), question(h, it))
		}},
		{"question that asks nothing", "names no command", func(h *Host, turn transcript.TurnID) error {
			it := call(h.NewItemID(), turn, "c", "{}")
			_, err := h.Ask(ctx, adapters.CommandApproval{Item: it})
			return errors.Join(err, h.Emit(ctx, adapters.ItemStarted{Item: call(h.NewItemID(), turn, "d", "{}")}))
		}},
		{"result without a call", "does not wait", func(h *Host, turn transcript.TurnID) error {
			return h.Emit(ctx, adapters.ItemCompleted{Item: transcript.Item{
				ID: h.NewItemID(), Turn: turn, Body: transcript.ToolResult{CallID: "c"},
			}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &notes{}
			if _, err := NewHost(n).Play(ctx, &acts{run: c.run}, "go"); err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(n.errs, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("reports %q, want one with %q", all, c.want)
			}
		})
	}
}

func question(h *Host, it transcript.Item) error {
	_, err := h.Ask(context.Background(), adapters.FileApproval{Item: it})
	return err
}

func tool(h *Host, it transcript.Item) error {
	_, err := h.Tool(context.Background(), it)
	return err
}

func TestHostReportsUseAfterTheTurn(t *testing.T) {
	n := &notes{}
	h := NewHost(n)
	if _, err := h.Play(t.Context(), &acts{run: func(*Host, transcript.TurnID) error { return nil }}, "go"); err != nil {
		t.Fatal(err)
	}
	if len(n.errs) != 0 {
		t.Fatalf("a turn that did nothing is reported: %q", n.errs)
	}
	h.NewItemID()
	if _, err := h.Context(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Emit(t.Context(), adapters.Retrying{}); err != nil {
		t.Error(err)
	}
	if len(n.errs) != 3 {
		t.Errorf("three calls after the turn got the reports %q", n.errs)
	}
}

func TestHostShowsTheTextOfAnInterruptedItem(t *testing.T) {
	h := NewHost(t)
	stopped := errors.New("stopped")
	_, err := h.Play(t.Context(), &acts{run: func(h *Host, turn transcript.TurnID) error {
		id := h.NewItemID()
		return errors.Join(stopped, h.Emit(t.Context(),
			adapters.ItemStarted{Item: transcript.Item{ID: id, Turn: turn, Body: transcript.Reasoning{}}},
			adapters.TextDelta{Item: id, Text: "so far"}))
	}}, "go")
	if !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if got := transcript.Text(h.Items()[1].Body); got != "so far" {
		t.Errorf("the item has text %q, want what was streamed", got)
	}
}
