package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// An eventPrinter writes notifications for people: one line each, and the text of
// an open item as it comes.
type eventPrinter struct {
	w    io.Writer
	s    style
	open string         // the item whose text is being written; the cursor is behind it
	sent map[string]int // bytes written of the text of each open item
}

func newEventPrinter(w io.Writer, s style) *eventPrinter {
	return &eventPrinter{w: w, s: s, sent: map[string]int{}}
}

// print writes one notification. One that it does not know is shown by its name:
// a newer server may have more of them.
func (p *eventPrinter) print(n protocol.Notification) {
	switch n.Method {
	case "item/agentMessage/delta", "item/reasoning/summaryTextDelta":
		p.delta(n)
		return
	}
	name, text := describe(n)
	switch n.Method {
	case "item/started":
		if !p.started(n) {
			return
		}
	case "item/completed":
		text = p.completed(n, text)
	}
	p.endText()
	at := time.UnixMilli(n.EmittedAtMs).Format("15:04:05")
	seq := "·"
	if n.Seq != nil {
		seq = fmt.Sprint(*n.Seq)
	}
	say(p.w, "%s %5s  %-12s %s\n", p.s.dim(at), seq, name, text)
}

// endText finishes the line of an open item's text.
func (p *eventPrinter) endText() {
	if p.open != "" {
		say(p.w, "\n")
		p.open = ""
	}
}

// delta writes the part of an open item's text that was not written yet.
func (p *eventPrinter) delta(n protocol.Notification) {
	var d protocol.AgentMessageDeltaParams // the members that matter are the same for both
	if json.Unmarshal(n.Params, &d) != nil {
		return
	}
	known, offset := p.sent[d.ItemID], int(d.Offset)
	if end := offset + len(d.Delta); end <= known || offset > known {
		return // seen, or a hole that item/completed fills
	}
	text := d.Delta[known-offset:]
	p.sent[d.ItemID] = offset + len(d.Delta)
	if p.open != d.ItemID {
		p.endText()
		say(p.w, "%s %5s  %-12s ", strings.Repeat(" ", 8), "", "text")
		p.open = d.ItemID
	}
	say(p.w, "%s", strings.ReplaceAll(printable(text), "\n", "\n"+strings.Repeat(" ", 29)))
}

// itemHead is what all items have.
type itemHead struct {
	Item struct{ ID, Type string } `json:"item"`
}

// started reports whether the item was not open yet: a new connection is told of
// open items again.
func (p *eventPrinter) started(n protocol.Notification) bool {
	var head itemHead
	if json.Unmarshal(n.Params, &head) != nil {
		return true
	}
	_, again := p.sent[head.Item.ID]
	if !again {
		p.sent[head.Item.ID] = 0
	}
	return !again
}

// completed is the text for an item that is whole; one whose text was written as
// it came is not written again.
func (p *eventPrinter) completed(n protocol.Notification, text string) string {
	var head itemHead
	if json.Unmarshal(n.Params, &head) != nil {
		return text
	}
	size := p.sent[head.Item.ID]
	delete(p.sent, head.Item.ID)
	if size > 0 {
		return fmt.Sprintf("✓ %s, %s", head.Item.Type, plural(size, "byte"))
	}
	return text
}

// describe returns the short name and the text of a notification.
func describe(n protocol.Notification) (name, text string) {
	switch n.Method {
	case "serverRequest/created":
		return "request", decodeAnd(n, func(v protocol.ServerRequestCreatedParams) string { return requestText(v.Request) })
	case "serverRequest/resolved":
		return "request", decodeAnd(n, resolvedText)
	case "turn/started":
		return "turn", decodeAnd(n, func(v protocol.TurnStartedParams) string { return v.Turn.Kind + " turn started" })
	case "turn/completed":
		return "turn", decodeAnd(n, func(v protocol.TurnCompletedParams) string { return turnText(v.Turn) })
	case "turn/plan/updated":
		return "plan", decodeAnd(n, planText)
	case "item/started":
		return "item", decodeAnd(n, func(v protocol.ItemStartedParams) string { return "▸ " + itemText(v.Item) })
	case "item/completed":
		return "item", decodeAnd(n, func(v protocol.ItemCompletedParams) string { return "✓ " + itemText(v.Item) })
	case "item/hidden":
		return "item", decodeAnd(n, hiddenText)
	case "error":
		return "error", decodeAnd(n, func(v protocol.ErrorParams) string { return oneLine(v.Error.Message, 160) })
	case "warning":
		return "warning", decodeAnd(n, func(v protocol.WarningParams) string { return oneLine(v.Message, 160) })
	case "stream/live":
		return "stream", "live"
	case "stream/reset":
		return "stream", decodeAnd(n, func(v protocol.StreamResetParams) string { return "reset: " + v.Reason })
	}
	return describeThread(n)
}

// describeThread is describe for what is said of the thread itself.
func describeThread(n protocol.Notification) (name, text string) {
	switch n.Method {
	case "thread/started":
		return "thread", decodeAnd(n, func(v protocol.ThreadStartedParams) string { return startedText(v.Thread) })
	case "thread/deleted":
		return "thread", "deleted"
	case "thread/archived":
		return "thread", "archived"
	case "thread/unarchived":
		return "thread", "brought back from the archive"
	case "thread/name/updated":
		return "thread", decodeAnd(n, nameText)
	case "thread/metadata/updated":
		return "thread", decodeAnd(n, metadataText)
	case "thread/reverted":
		return "thread", decodeAnd(n, func(v protocol.ThreadRevertedParams) string { return "reverted to before turn " + v.BeforeTurnID })
	case "thread/settings/updated":
		return "settings", decodeAnd(n, func(v protocol.ThreadSettingsUpdatedParams) string { return settingsText(v.ThreadSettings) })
	case "thread/status/changed":
		return "status", decodeAnd(n, statusText)
	case "thread/queue/changed":
		return "queue", decodeAnd(n, func(v protocol.ThreadQueueChangedParams) string { return plural(len(v.Queue), "turn") + " waiting" })
	case "thread/pins/changed":
		return "pins", decodeAnd(n, func(v api.PinsChangedParams) string { return plural(len(v.Pins), "pin") })
	case "thread/tokenUsage/updated":
		return "load", decodeAnd(n, loadText)
	case "thread/compaction/updated":
		return "compaction", decodeAnd(n, func(v api.CompactionUpdatedParams) string { return compactionText(&v.Compaction) })
	case "thread/compaction/undone":
		return "compaction", decodeAnd(n, undoneText)
	case "thread/session/updated":
		return "session", decodeAnd(n, sessionText)
	}
	return "event", n.Method
}

func decodeAnd[P any](n protocol.Notification, text func(P) string) string {
	var p P
	if err := json.Unmarshal(n.Params, &p); err != nil {
		return n.Method + ": " + err.Error()
	}
	return text(p)
}

func startedText(t protocol.Thread) string {
	if t.Plimsoll.Imported != nil {
		return "started, imported from " + t.Plimsoll.Imported.Source
	}
	return "started on " + t.ModelProvider
}

func turnText(t protocol.Turn) string {
	text := t.Kind + " turn " + t.Status
	if t.DurationMs != nil {
		text += fmt.Sprintf(" after %s ms", thousands(int(*t.DurationMs)))
	}
	if t.Error != nil {
		text += ": " + oneLine(t.Error.Message, 120)
	}
	return text
}

func planText(v protocol.PlanUpdatedParams) string {
	done := 0
	for _, step := range v.Plan {
		if step.Status == "completed" {
			done++
		}
	}
	return fmt.Sprintf("%d of %s done", done, plural(len(v.Plan), "step"))
}

func loadText(v protocol.TokenUsageUpdatedParams) string {
	text := fmt.Sprintf("%s tokens in the next request (%s)", thousands(v.TokenUsage.Last.TotalTokens), v.Source)
	if w := v.TokenUsage.ModelContextWindow; w != nil {
		text += ", " + percent(v.TokenUsage.Last.TotalTokens, *w) + " of the window"
	}
	return text
}

func compactionText(r *compaction.Record) string {
	if r.Outcome == nil {
		return string(r.Phase)
	}
	if *r.Outcome == compaction.Completed && r.Before != nil && r.After != nil {
		return fmt.Sprintf("completed: %s → %s tokens", thousands(r.Before.Tokens), thousands(r.After.Tokens))
	}
	parts := []string{string(*r.Outcome)}
	for _, v := range []*string{r.Code, r.Reason} {
		if v != nil && *v != string(*r.Outcome) {
			parts = append(parts, oneLine(*v, 160))
		}
	}
	return strings.Join(parts, ": ")
}

// itemText is an item on one line.
func itemText(item protocol.ThreadItem) string {
	const n = 100
	switch v := item.ItemVariant.(type) {
	case protocol.UserMessageItem:
		return "user: " + oneLine(inputText(v.Content), n)
	case protocol.AgentMessageItem:
		return "agent: " + oneLine(v.Text, n)
	case protocol.ReasoningItem:
		return "reasoning: " + oneLine(strings.Join(v.Summary, " "), n)
	case protocol.DynamicToolCallItem:
		return "tool " + printable(v.Tool) + " " + v.Status + ": " + oneLine(string(v.Arguments), n)
	case protocol.CommandExecutionItem:
		return "command " + v.Status + ": " + oneLine(v.Command, n)
	case protocol.FileChangeItem:
		return "file change " + v.Status + ": " + plural(len(v.Changes), "file")
	case protocol.PlanItem:
		return "plan: " + oneLine(v.Text, n)
	case protocol.ImageViewItem:
		return "image: " + oneLine(v.Path, n)
	case protocol.HookPromptItem:
		return "notice"
	case protocol.ContextCompactionItem:
		return "context compaction " + v.CompactionID
	}
	return "item"
}

func inputText(content []protocol.UserInput) string {
	var parts []string
	for _, c := range content {
		if c.Text != nil {
			parts = append(parts, *c.Text)
		}
	}
	return strings.Join(parts, " ")
}
