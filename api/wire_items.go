package api

import (
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// wireItem maps an item of the timeline. Result, for a call, is the item that
// answers it; nil while there is none. It reports false for an item that has no
// form on the wire.
func wireItem(it transcript.Item, result *transcript.Item) (protocol.ThreadItem, bool) {
	var v protocol.ItemVariant
	id, times := string(it.ID), wireTimes(it)
	switch b := it.Body.(type) {
	case transcript.UserMessage:
		v = protocol.UserMessageItem{Type: "userMessage", ID: id, ClientID: nullable(b.ClientID), Content: mapped(b.Content, wirePart), ItemTimes: times}
	case transcript.AgentMessage:
		v = protocol.AgentMessageItem{Type: "agentMessage", ID: id, Text: b.Text, ItemTimes: times}
	case transcript.Reasoning:
		v = protocol.ReasoningItem{Type: "reasoning", ID: id, Summary: summaryOf(b.Text), Content: []string{}, ItemTimes: times}
	case transcript.ToolCall:
		return wireCall(it, b, result), true
	case transcript.ToolResult:
		return wireResult(it, b, nil), true
	case transcript.Command:
		v = wireCommand(it, b)
	case transcript.FileChange:
		v = protocol.FileChangeItem{Type: "fileChange", ID: id, Changes: mapped(b.Changes, wireChange), Status: b.Status, ItemTimes: times}
	case transcript.Plan:
		v = protocol.PlanItem{Type: "plan", ID: id, Text: strings.TrimSuffix(transcript.Text(b), "\n"), ItemTimes: times}
	case transcript.Image:
		v = protocol.ImageViewItem{Type: "imageView", ID: id, Path: imagePath(b), ItemTimes: times}
	case transcript.Notice:
		v = protocol.HookPromptItem{Type: "hookPrompt", ID: id, Fragments: []protocol.HookFragment{{Text: b.Text, HookRunID: b.Source}}, ItemTimes: times}
	case transcript.ContextCompaction:
		v = protocol.ContextCompactionItem{Type: "contextCompaction", ID: id, CompactionID: string(b.CompactionID), ItemTimes: times}
	case transcript.Checkpoint, transcript.Opaque:
		return protocol.ThreadItem{}, false
	default:
		panic("api: no wire form of " + string(it.Body.Kind()))
	}
	return protocol.ThreadItem{ItemVariant: v}, true
}

// wireCall is a call as one item with its result.
func wireCall(it transcript.Item, call transcript.ToolCall, result *transcript.Item) protocol.ThreadItem {
	if result != nil {
		if body, ok := result.Body.(transcript.ToolResult); ok {
			return wireResult(*result, body, &it)
		}
	}
	times := wireTimes(it)
	times.CompletedAtMs = nil // it is open until it is answered
	return protocol.ThreadItem{ItemVariant: protocol.DynamicToolCallItem{
		Type: "dynamicToolCall", ID: string(it.ID), Tool: call.Name, Arguments: rawJSON(call.Arguments), Status: "inProgress", ItemTimes: times,
	}}
}

// wireResult is the same item once it is answered. Without its call it stands
// for itself.
func wireResult(it transcript.Item, result transcript.ToolResult, callItem *transcript.Item) protocol.ThreadItem {
	success, id := !result.IsError, string(it.ID)
	content := mapped(result.Output, wireContent)
	v := protocol.DynamicToolCallItem{
		Type: "dynamicToolCall", ID: id, Tool: "unknown", Status: "completed", Synthetic: result.Synthetic,
		ContentItems: &content, Success: &success, ResultItemID: &id, ItemTimes: wireTimes(it),
	}
	if result.IsError {
		v.Status = "failed"
	}
	if callItem != nil {
		v.ID, v.StartedAtMs = string(callItem.ID), millis(callItem.StartedAt)
		v.DurationMs = duration(callItem.StartedAt, it.CompletedAt)
		if call, ok := callItem.Body.(transcript.ToolCall); ok {
			v.Tool, v.Arguments = call.Name, rawJSON(call.Arguments)
		}
	}
	return protocol.ThreadItem{ItemVariant: v}
}

func wireCommand(it transcript.Item, b transcript.Command) protocol.CommandExecutionItem {
	v := protocol.CommandExecutionItem{
		Type: "commandExecution", ID: string(it.ID), Command: b.Command, Cwd: b.Cwd, Source: "agent", Status: b.Status,
		CommandActions: []protocol.CommandAction{{Type: "unknown", Command: b.Command}},
		ExitCode:       b.ExitCode, DurationMs: duration(it.StartedAt, it.CompletedAt), ItemTimes: wireTimes(it),
	}
	if b.Output != "" || b.Status != "inProgress" {
		v.AggregatedOutput = &b.Output
	}
	return v
}

func wireChange(c transcript.Change) protocol.FileUpdateChange {
	return protocol.FileUpdateChange{Path: c.Path, Kind: protocol.PatchChangeKind{Type: c.Op}, Diff: c.Diff}
}

func wirePart(p transcript.Part) protocol.UserInput {
	if p.Type == transcript.PartImage {
		return protocol.UserInput{Type: "image", URL: new(blobURN(p.Blob))}
	}
	return protocol.UserInput{Type: "text", Text: &p.Text, TextElements: &[]string{}}
}

func wireContent(p transcript.Part) protocol.ToolContent {
	if p.Type == transcript.PartImage {
		return protocol.ToolContent{Type: "inputImage", ImageURL: new(blobURN(p.Blob))}
	}
	return protocol.ToolContent{Type: "inputText", Text: &p.Text}
}

func summaryOf(text string) []string {
	if text == "" {
		return []string{}
	}
	return []string{text}
}

func imagePath(b transcript.Image) string {
	if b.Path != "" {
		return b.Path
	}
	return blobURN(b.Blob)
}

// blobURN names stored bytes.
func blobURN(hash string) string { return blobScheme + hash }

func wireTimes(it transcript.Item) protocol.ItemTimes {
	return protocol.ItemTimes{StartedAtMs: millis(it.StartedAt), CompletedAtMs: millis(it.CompletedAt)}
}

func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

func duration(from, to time.Time) *int64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	return new(to.Sub(from).Milliseconds())
}

func wireItemEntry(v threads.ItemView) (ItemEntry, bool) {
	item, ok := wireItem(v.Item, v.Result)
	completed := v.Item.CompletedAt
	if v.Result != nil {
		completed = v.Result.CompletedAt
	} else if v.Item.Body.Kind() == transcript.KindToolCall {
		completed = time.Time{}
	}
	return ItemEntry{TurnID: string(v.Item.Turn), Item: item, StartedAtMs: millis(v.Item.StartedAt), CompletedAtMs: millis(completed)}, ok
}
