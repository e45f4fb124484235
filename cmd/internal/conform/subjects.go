package conform

import (
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/chat"
	"github.com/plimsoll-dev/plimsoll/adapters/claude"
	"github.com/plimsoll-dev/plimsoll/adapters/codex"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
)

// Offline is the embedded model.
func Offline() Subject {
	return Subject{Name: "offline", Kind: "offline", Open: func(Site) (adapters.Adapter, error) { return agent.New(offline.New()), nil }}
}

// window is what scripted models are said to have, in tokens.
const window = homes.Window

// Chat is the adapter of OpenAI-compatible servers in front of a scripted one.
func Chat() Subject {
	return Subject{
		Name: "chat", Kind: "chat", Tools: true,
		Scripted: &Scripted{
			Window: window,
			Run:    func(path string) string { return fmt.Sprintf("call %s {\"path\":%q} call_1", toolName, path) },
		},
		Open: func(s Site) (adapters.Adapter, error) {
			m, err := chat.New(chat.Options{
				Name: "chat", BaseURL: s.URL + "/v1", Model: "scripted", ContextWindow: window, Timeouts: chat.Timeouts{Attempts: 1},
			})
			if err != nil {
				return nil, err
			}
			return agent.New(m), nil
		},
	}
}

// command is a call of a runtime's own tool that makes a file.
func command(path string) string { return "touch '" + path + "'" }

// Codex is the real codex in front of a scripted model server. Version is what it says of
// itself; an empty path means that it is not installed.
func Codex(path, version string) Subject {
	s := Subject{
		Name: "codex", Kind: "codex", Version: version,
		Scripted: &Scripted{
			Habits: "openai", Runtime: true, Process: true, Refusing: true, Pretends: true, Window: window * 95 / 100, Full: window * 94 / 100,
			Run: func(path string) string {
				return fmt.Sprintf("call exec_command {\"cmd\":%q,\"sandbox_permissions\":\"require_escalated\",\"justification\":\"it is needed\"} call_1", command(path))
			},
			Foreign: []string{
				`{"method":"turn/completed","params":{"threadId":"01a00000-0000-7000-8000-00000000f00d","turn":{"id":"01a00000-0000-7000-8000-00000000f00e","items":[],"status":"completed","error":null}}}`,
				`{"method":"item/completed","params":{"threadId":"{{session}}","turnId":"01a00000-0000-7000-8000-00000000f00e","item":{"type":"contextCompaction","id":"foreign"}}}`,
				`{"method":"thread/compacted","params":{"threadId":"{{session}}","turnId":"01a00000-0000-7000-8000-00000000f00e"}}`,
				`{"method":"turn/completed","params":{"threadId":"{{session}}","turn":{"id":"01a00000-0000-7000-8000-00000000f00e","items":[],"status":"completed","error":null}}}`,
			},
		},
		Open: func(s Site) (adapters.Adapter, error) { return openCodex(s, path) },
	}
	if path == "" {
		s.Missing = "codex is not installed"
	}
	return s
}

func openCodex(s Site, path string) (adapters.Adapter, error) {
	home, err := homes.Codex(s.Dir, s.URL, "")
	if err != nil {
		return nil, err
	}
	o := codex.Options{Name: "codex", Program: path, Home: home.Dir, Env: home.Env}
	if s.Tap != "" {
		o.Program, o.Env = s.Tap, append(o.Env, TapEnv(s, path)...)
	}
	if s.Refuse { // an older one, whose compaction nobody has verified
		o.Env = append(o.Env, TapReplaces("/0.171.", "/0.150."))
	}
	return codex.New(o), nil
}

// Claude is the real Claude Code in front of a scripted model server, as Codex is codex.
func Claude(path, version string) Subject {
	const other = `"session_id":"01a00000-0000-7000-8000-00000000f00d"`
	s := Subject{
		Name: "claude", Kind: "claude", Version: version,
		Scripted: &Scripted{
			Habits: "anthropic", Runtime: true, Process: true, Refusing: true, Quiet: true, Window: window, Full: window * 72 / 100,
			Run: func(path string) string {
				return fmt.Sprintf("call Bash {\"command\":%q,\"description\":\"make the file\"} toolu_1", `sh -c "`+command(path)+`"`)
			},
			Foreign: []string{
				`{"type":"system","subtype":"status","status":null,"compact_result":"success","uuid":"f-1",` + other + `}`,
				`{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":5000},"uuid":"f-2",` + other + `}`,
				`{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"num_turns":1,"result":"","uuid":"f-3",` + other + `}`,
			},
		},
		Open: func(s Site) (adapters.Adapter, error) { return openClaude(s, path) },
	}
	if path == "" {
		s.Missing = "claude is not installed"
	}
	return s
}

// openClaude gives Claude Code a home of its own and an API that is the scripted server.
func openClaude(s Site, path string) (adapters.Adapter, error) {
	home, err := homes.Claude(s.Dir, s.URL)
	if err != nil {
		return nil, err
	}
	o := claude.Options{
		Name: "claude", Program: path, Home: home.Dir, Model: "scripted", ContextWindow: window, Env: append(home.Env, "CLAUDE_CODE_MAX_RETRIES=0"),
	}
	if s.Refuse {
		o.Env = append(o.Env, "DISABLE_COMPACT=1")
	}
	if s.Tap != "" {
		o.Program, o.Env = s.Tap, append(o.Env, TapEnv(s, path)...)
	}
	if s.Loud {
		o.Env = append(o.Env, TapUnsets("DISABLE_AUTO_COMPACT"))
	}
	return claude.New(o), nil
}
