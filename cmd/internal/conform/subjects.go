package conform

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/plimsoll-dev/plimsoll/adapters"
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
const window = 100_000

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

// codexConfig is that of a codex which knows the scripted server and asks nobody else
// (codex 0.171, observed).
const codexConfig = `model = "scripted"
model_provider = "scripted"
model_context_window = %d
check_for_update_on_startup = false
features.plugins = false
features.apps = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`

func openCodex(s Site, path string) (adapters.Adapter, error) {
	home := filepath.Join(s.Dir, "codex-home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	env := append(environ(s), "CODEX_HOME="+home, "SCRIPTED_KEY=scripted")
	if err := os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, codexConfig, window, s.URL), 0o600); err != nil {
		return nil, err
	}
	o := codex.Options{Name: "codex", Program: path, Home: home, Env: env}
	if s.Tap != "" {
		o.Program, o.Env = s.Tap, append(env, TapEnv(s, path)...)
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

// openClaude gives Claude Code a home of its own and an API that is the scripted server;
// it reports nothing and updates nothing (Claude Code 2.1.332, observed).
func openClaude(s Site, path string) (adapters.Adapter, error) {
	home := filepath.Join(s.Dir, "claude-home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	env := append(environ(s), "CLAUDE_CONFIG_DIR="+home, "ANTHROPIC_BASE_URL="+s.URL, "ANTHROPIC_API_KEY=scripted",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_MAX_RETRIES=0", "IS_SANDBOX=1")
	if s.Refuse {
		env = append(env, "DISABLE_COMPACT=1")
	}
	o := claude.Options{Name: "claude", Program: path, Home: home, Model: "scripted", ContextWindow: window, Env: env}
	if s.Tap != "" {
		o.Program, o.Env = s.Tap, append(env, TapEnv(s, path)...)
	}
	if s.Loud {
		o.Env = append(o.Env, TapUnsets("DISABLE_AUTO_COMPACT"))
	}
	return claude.New(o), nil
}

// environ is what any program gets: nothing of the developer's.
func environ(s Site) []string {
	return []string{"HOME=" + s.Dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + s.Dir}
}
