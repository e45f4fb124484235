package api

import (
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// wireRequest is a request of the server as clients see it, on every door.
func wireRequest(thread string, r threads.Request) (protocol.ServerRequest, error) {
	params, err := encode(requestParams(thread, r))
	return protocol.ServerRequest{ID: string(r.ID), Method: r.Method, Params: params}, err
}

func requestParams(thread string, r threads.Request) any {
	turn, item := string(r.TurnID), string(r.ItemID)
	switch {
	case r.Command != nil:
		p := protocol.CommandApprovalParams{
			Kind: "command", ThreadID: thread, TurnID: turn, ItemID: item, StartedAtMs: r.CreatedAt,
			Reason: nullable(r.Command.Reason), Command: r.Command.Command, Cwd: r.Command.Cwd,
			CommandActions: []protocol.CommandAction{{Type: "unknown", Command: r.Command.Command}},
		}
		if r.Command.Amendment != nil {
			p.ProposedExecpolicyAmendment = &r.Command.Amendment
		}
		return p
	case r.File != nil:
		return protocol.FileApprovalParams{
			ThreadID: thread, TurnID: turn, ItemID: item, StartedAtMs: r.CreatedAt,
			Reason: nullable(r.File.Reason), GrantRoot: nullable(r.File.GrantRoot),
		}
	case r.Tool != nil:
		return protocol.ToolCallParams{
			ThreadID: thread, TurnID: turn, CallID: string(r.Tool.CallID), Namespace: nullable(r.Tool.Namespace),
			Tool: r.Tool.Tool, Arguments: rawJSON(r.Tool.Arguments),
		}
	}
	panic("api: no form of a request " + r.Method)
}

func wireSettings(s threads.Settings) protocol.ThreadSettings {
	mode := s.Mode
	if mode == "" {
		mode = "default"
	}
	return protocol.ThreadSettings{
		Cwd: s.Cwd, ApprovalPolicy: s.ApprovalPolicy, ApprovalsReviewer: "user", SandboxPolicy: wireSandbox(s.Sandbox),
		Model: s.Model, ModelProvider: s.Provider, Effort: nullable(s.Effort),
		CollaborationMode: protocol.CollaborationMode{Mode: mode, Settings: protocol.CollaborationSettings{Model: s.Model, ReasoningEffort: nullable(s.Effort)}},
		DisabledPluginIDs: []string{}, MultiAgentMode: "explicitRequestOnly",
	}
}

func wireGit(g *threads.GitInfo) *protocol.GitInfo {
	if g == nil {
		return nil
	}
	return &protocol.GitInfo{SHA: nullable(g.SHA), Branch: nullable(g.Branch), OriginURL: nullable(g.OriginURL)}
}
