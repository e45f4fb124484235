// Package homes makes homes of codex and of Claude Code in which they reach a scripted
// model server and nothing else.
//
// Guarantees:
//
//   - Nothing of the developer's is used: not a home, not a key, not a variable but PATH.
//   - Whatever is not on this machine is asked for in vain, and fails at once.
//   - Nothing is written outside the folder that is given, whose name is in the environment
//     of every child.
package homes

import (
	"fmt"
	"os"
	"path/filepath"
)

// A Home is a private one for a program: its folder, and the whole environment of a
// child that is to use it.
type Home struct {
	Dir string
	Env []string
}

// Window is the context window that codex is told of the scripted model, in tokens.
const Window = 100_000

// dead is a proxy at which nobody listens. Both programs, and the git that codex runs,
// go by it for whatever is not on the loopback, so that it fails at once.
const dead = "http://127.0.0.1:1"

// Environ is what the children of a program find in their environment, but for what is
// the program's own.
func Environ(dir string) []string {
	return []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + dir,
		"HTTPS_PROXY=" + dead, "HTTP_PROXY=" + dead, "ALL_PROXY=" + dead, "NO_PROXY=127.0.0.1,localhost",
	}
}

// Codex makes a home for codex below dir, in which its model is the one of a
// scripted server. More is added to its config.toml, before the first section. codex
// retries nothing and compacts by its own prompt. Without features.plugins and
// features.apps it asks nobody else; with them it asks github.com and chatgpt.com as soon
// as it starts (codex 0.171, observed).
func Codex(dir, url, more string) (Home, error) {
	h := Home{Dir: filepath.Join(dir, "codex-home")}
	text := fmt.Sprintf(`model = "scripted"
model_provider = "scripted"
model_context_window = %d
check_for_update_on_startup = false
features.plugins = false
features.apps = false
%s
[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, Window, more, url)
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return h, err
	}
	h.Env = append(Environ(dir), "CODEX_HOME="+h.Dir, "SCRIPTED_KEY=scripted")
	return h, os.WriteFile(filepath.Join(h.Dir, "config.toml"), []byte(text), 0o600)
}

// Remote is the name of the provider of CodexRemote.
const Remote = "remote"

// CodexRemote is what more of Codex needs so that the provider Remote is there: the
// same server under the display name by which codex lets the provider compact, with an
// item, in place of its own prompt (codex 0.171, observed).
func CodexRemote(url string) string {
	return fmt.Sprintf(`[model_providers.%s]
name = "OpenAI"
base_url = "%s/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, Remote, url)
}

// Claude makes a home for Claude Code below dir, whose API is a scripted server.
// It reports nothing, updates nothing and asks for nothing beside its messages (Claude
// Code 2.1.332, observed).
func Claude(dir, url string) (Home, error) {
	h := Home{Dir: filepath.Join(dir, "claude-home")}
	h.Env = append(Environ(dir), "CLAUDE_CONFIG_DIR="+h.Dir,
		"ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY=scripted", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1",
	)
	return h, os.MkdirAll(h.Dir, 0o700)
}
