package threads

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// host is what a session of one turn sees of the server. It holds nothing: every
// call goes to the actor's mailbox, but for streamed text, which goes straight
// to the hub.
type host struct {
	a     *actor
	turn  transcript.TurnID
	tools map[string]DynamicTool // that clients run, by the names that models know
	own   map[string]ownTool     // of the server
}

var _ adapters.Host = (*host)(nil)

// Context implements adapters.Host.
func (h *host) Context(ctx context.Context) (adapters.Context, error) {
	v, err := h.a.send(ctx, message{cmd: stepBoundary{h.turn}})
	if err != nil {
		return adapters.Context{}, err
	}
	return v.(adapters.Context), nil
}

// Emit implements adapters.Host.
func (h *host) Emit(ctx context.Context, updates ...adapters.Update) error {
	if err := checkUpdates(updates); err != nil {
		return err
	}
	var batch []adapters.Update
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := h.a.send(ctx, message{cmd: report{h.turn, batch}})
		batch = nil
		return err
	}
	for _, u := range updates {
		d, ok := u.(adapters.TextDelta)
		if !ok {
			batch = append(batch, u)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		at, err := h.a.svc.hub.Extend(string(h.a.id), string(d.Item), d.Text)
		if err != nil {
			return fmt.Errorf("stream text of item %s, which must be an open message or reasoning: %w", d.Item, err)
		}
		if at > maxText {
			return fault.New(fault.TooLarge, "item %s has more than %d bytes of text", d.Item, maxText)
		}
	}
	return flush()
}

// maxText bounds the text of one item of a session, in bytes.
const maxText = 4 << 20

// checkUpdates refuses what no session may report.
func checkUpdates(updates []adapters.Update) error {
	for _, u := range updates {
		var it transcript.Item
		switch u := u.(type) {
		case adapters.ItemStarted:
			it = u.Item
		case adapters.ItemCompleted:
			it = u.Item
		default:
			continue
		}
		if err := checkItem(it); err != nil {
			return fmt.Errorf("the session reported a broken item: %w", err)
		}
		switch it.Body.Kind() {
		case transcript.KindCheckpoint, transcript.KindContextCompaction:
			return fmt.Errorf("the session reported an item of kind %s, which only the server makes", it.Body.Kind())
		default:
		}
	}
	return nil
}

// Tool implements adapters.Host. A tool that does not exist, fails or panics
// gives the model a result that says so.
func (h *host) Tool(ctx context.Context, call transcript.Item) (transcript.ToolResult, error) {
	body, ok := call.Body.(transcript.ToolCall)
	if !ok {
		return transcript.ToolResult{}, fmt.Errorf("item %s is no tool call", call.ID)
	}
	if tool, ok := h.tools[body.Name]; ok {
		return h.callClient(ctx, call, tool)
	}
	if tool, ok := h.own[body.Name]; ok {
		return h.callOwn(ctx, call, body, tool)
	}
	result := h.runTool(ctx, call, body)
	result.CallID = body.CallID
	if err := ctx.Err(); err != nil {
		return transcript.ToolResult{}, context.Cause(ctx)
	}
	_, err := h.a.send(ctx, message{cmd: answerCall{h.turn, call.ID, result}})
	return result, err
}

func (h *host) runTool(ctx context.Context, item transcript.Item, call transcript.ToolCall) transcript.ToolResult {
	tool, ok := h.a.svc.cfg.Tools[call.Name]
	if !ok {
		return failedResult(fmt.Sprintf("there is no tool %q; available: %s", call.Name, h.toolNames()))
	}
	var result transcript.ToolResult
	err := guard(func() (err error) {
		result, err = tool(ctx, call, func(ctx context.Context, q adapters.Question) (adapters.Answer, error) {
			return h.Ask(ctx, about(q, item))
		})
		return err
	})
	if err != nil {
		h.a.svc.log.Warn("tool failed", "thread", h.a.id, "tool", call.Name, "err", err)
		return failedResult(fmt.Sprintf("tool %q failed: %s", call.Name, fault.MessageOf(err)))
	}
	if n := len(transcript.PartsText(result.Output)); n > maxText {
		return failedResult(fmt.Sprintf("tool %q returned %d bytes; at most %d are allowed", call.Name, n, maxText))
	}
	return result
}

// toolNames lists what can be called, for a model that called something else.
func (h *host) toolNames() string {
	names := slices.Sorted(maps.Keys(h.a.svc.cfg.Tools))
	names = append(names, slices.Sorted(maps.Keys(h.tools))...)
	names = append(names, slices.Sorted(maps.Keys(h.own))...)
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func failedResult(text string) transcript.ToolResult {
	return transcript.ToolResult{IsError: true, Output: transcript.TextParts(text)}
}

// NewItemID implements adapters.Host.
func (h *host) NewItemID() transcript.ItemID { return transcript.ItemID(h.a.svc.newID()) }
