package claude

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file offers the tools of clients: as those of an MCP server whose messages go
// over the same conversation (2.1.332, observed).

// toolServer is the name of that server. Claude Code puts it before the names of its
// tools.
const toolServer = "plimsoll"

const toolPrefix = "mcp__" + toolServer + "__"

// plainName is the name of a tool as clients know it.
func plainName(tool string) string { return strings.TrimPrefix(tool, toolPrefix) }

// An mcpMessage is JSON-RPC, as MCP has it.
type mcpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Protocol  string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			ToolUseID string `json:"claudecode/toolUseId"`
		} `json:"_meta"`
	} `json:"params"`
}

// mcpReply is the answer to a control request with a message of MCP.
func mcpReply(m *mcpMessage, fields map[string]any) any {
	r := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	if m.ID == nil {
		r["id"] = 0 // what is only told is answered all the same
	}
	maps.Copy(r, fields)
	return map[string]any{"mcp_response": r}
}

// offer answers what MCP asks about the tools themselves; false: it is a call.
func offer(m *mcpMessage, tools []adapters.ToolSpec) (reply any, done bool) {
	switch m.Method {
	case "initialize":
		return mcpReply(m, map[string]any{"result": map[string]any{
			"protocolVersion": m.Params.Protocol, "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo": map[string]any{"name": toolServer, "version": "1"},
		}}), true
	case "tools/list":
		list := []any{}
		for _, t := range tools {
			list = append(list, map[string]any{"name": t.Name, "description": t.Description, "inputSchema": t.Schema})
		}
		return mcpReply(m, map[string]any{"result": map[string]any{"tools": list}}), true
	case "tools/call":
		return nil, false
	}
	if m.ID == nil || m.Method == "ping" {
		return mcpReply(m, map[string]any{"result": struct{}{}}), true
	}
	return mcpReply(m, map[string]any{"error": map[string]any{"code": -32601, "message": "there is no " + m.Method}}), true
}

// mcp answers a message of MCP outside of a turn.
func (p *peer) mcp(ctx context.Context, id string, q *controlRequest) error {
	reply, done := offer(&q.Message, p.tools)
	if !done {
		reply = mcpReply(&q.Message, map[string]any{"error": map[string]any{"code": -32000, "message": "no tool is run between turns"}})
	}
	return p.respond(ctx, id, reply)
}

// call runs a tool of the clients.
func (r *run) call(id string, q *controlRequest) {
	m := q.Message
	if reply, done := offer(&m, r.p.tools); done {
		r.answer(func(ctx context.Context) error { return r.p.respond(ctx, id, reply) })
		return
	}
	use := m.Params.Meta.ToolUseID
	if !r.line.Has(use) {
		if _, err := r.line.Show(use, r.itemOf(use, m.Params.Name, m.Params.Arguments)); err != nil {
			r.fail(err)
			return
		}
	} else if err := r.line.Emit(); err != nil { // what was said before stands before the result
		r.fail(err)
		return
	}
	it, _ := r.line.Run(use)
	r.asking.Go(func() {
		res, err := r.host.Tool(r.ctx, it)
		if err != nil {
			r.fail(err)
			return
		}
		reply := mcpReply(&m, map[string]any{"result": map[string]any{
			"content": []any{map[string]any{"type": "text", "text": transcript.PartsText(res.Output)}}, "isError": res.IsError,
		}})
		r.answer(func(ctx context.Context) error { return r.p.respond(ctx, id, reply) })
	})
}
