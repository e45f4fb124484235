package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/api"
)

func TestConfigurationOfPrograms(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ toml, want string }{
		"all keys":        {"[providers.c]\nadapter = \"codex\"\nprogram = \"/opt/codex\"\nhome = \"/h\"\nmodel = \"m\"\nenv = [\"GOPATH\"]\ncompact_timeout = \"2m\"\nauto_rebase = true\n[providers.c.settings]\nmodel_context_window = 100000\n", ""},
		"claude":          {"[providers.c]\nadapter = \"claude\"\ncontext_window = 64000\n", ""},
		"relative path":   {"[providers.c]\nadapter = \"codex\"\nprogram = \"./codex\"\n", "3: providers.c.program: \"./codex\": want an absolute path"},
		"relative home":   {"[providers.c]\nadapter = \"claude\"\nhome = \"h\"\n", "3: providers.c.home: \"h\": want an absolute path"},
		"a value in env":  {"[providers.c]\nadapter = \"claude\"\nenv = [\"KEY=sk-123\"]\n", "3: providers.c.env: want names of variables"},
		"a key of models": {"[providers.c]\nadapter = \"codex\"\nbase_url = \"http://127.0.0.1/v1\"\n", "3: providers.c.base_url: the adapter codex does not know it"},
		"a feature":       {"[providers.c]\nadapter = \"codex\"\nsettings = {\"features.plugins\" = false}\n", ""},
		"an unknown key":  {"[providers.c]\nadapter = \"codex\"\n\n[providers.c.settings]\nmodel_window = 1\n", "5: providers.c.settings.model_window: it is none of: compact_prompt, "},
		"the server's":    {"[providers.c]\nadapter = \"codex\"\nsettings = {approval_policy = \"never\"}\n", "3: providers.c.settings.approval_policy: it is none of"},
		"a bare dot":      {"[providers.c]\nadapter = \"codex\"\n[providers.c.settings]\nfeatures.plugins = false\n", "a name with a dot is written in quotes"},
		"no settings":     {"[providers.c]\nadapter = \"claude\"\nsettings = {a = 1}\n", "3: providers.c.settings: the adapter claude does not know it"},
		"no program":      {"[providers.c]\nadapter = \"offline\"\nprogram = \"x\"\n", "the adapter offline does not know it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseConfig([]byte(tt.toml))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "sk-123") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestProgramsGetAListedEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "x")
	t.Setenv("OPENAI_API_KEY", "y")
	t.Setenv("MINE", "z")
	env := childEnv(codexEnv, providerConfig{Env: []string{"MINE"}})
	joined := "\n" + strings.Join(env, "\n") + "\n"
	if strings.Contains(joined, "SECRET_OF_THE_SERVER") {
		t.Error("the program gets what nobody named")
	}
	for _, want := range []string{"\nOPENAI_API_KEY=y\n", "\nMINE=z\n", "\nPATH="} {
		if !strings.Contains(joined, want) {
			t.Errorf("the program does not get %q", want)
		}
	}
}

func TestDoctorSaysWhatAProgramIsAndWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	refusal := adapters.Ability{Refusal: &adapters.Refusal{Code: "c", Reason: "it is too old", Remedy: "update it"}}
	native := adapters.Ability{Native: &adapters.Native{Form: "f"}}
	for name, tt := range map[string]struct {
		probe adapters.Probe
		want  finding
	}{
		"fine":      {adapters.Probe{Program: "/p", Version: "1", Tested: "1", Login: "ok", Compaction: native}, okay("runtime", "x: /p 1, logged in; it has a native compaction (f)")},
		"newer":     {adapters.Probe{Program: "/p", Version: "2", Tested: "1", Login: "unknown", LoginDetail: "try it", Compaction: native}, okay("runtime", "x: /p 2 (tested with 1), login unknown (try it); it has a native compaction (f)")},
		"refuses":   {adapters.Probe{Program: "/p", Version: "1", Tested: "1", Login: "ok", Compaction: refusal}, warning("runtime", "x: /p 1, logged in; it has no native compaction: it is too old", "update it")},
		"no login":  {adapters.Probe{Program: "/p", Version: "1", Tested: "1", Login: "missing", LoginDetail: "run: p login", Compaction: native}, failed("runtime", "x: /p 1, not logged in", "run: p login")},
		"not there": {adapters.Probe{Program: "p", Problems: []adapters.Problem{{Text: "cannot be started", Fix: "install it"}}}, failed("runtime", "x: cannot be started", "install it")},
	} {
		if diff := cmp.Diff([]finding{tt.want}, findingsOf("x", tt.probe)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// doctorOf runs doctor on a home with a configuration.
func doctorOf(t *testing.T, toml string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	mustDo(t, os.MkdirAll(dir, 0o700))
	mustDo(t, os.WriteFile(filepath.Join(dir, configFile), []byte(toml), 0o600))
	m := &Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv}
	var out strings.Builder
	for _, f := range examine(context.Background(), m, home{dir}) {
		out.WriteString(f.Check + " " + f.Status + " " + f.Detail + " " + f.Fix + "\n")
	}
	return out.String()
}

func TestDoctorOnAMissingProgram(t *testing.T) {
	t.Parallel()
	out := doctorOf(t, "[providers.c]\nadapter = \"codex\"\nprogram = \"/nowhere/codex\"\nhome = \""+t.TempDir()+"\"\n")
	if !strings.Contains(out, "runtime failed c: ") || !strings.Contains(out, "npm install -g @openai/codex") {
		t.Error(out)
	}
}

func TestDoctorOnTheRealPrograms(t *testing.T) {
	codex, claude := clis.Codex(t), clis.Claude(t)
	const nobody = "http://127.0.0.1:1" // with an address of their own they ask nobody else
	t.Setenv("ANTHROPIC_API_KEY", "scripted")
	t.Setenv("ANTHROPIC_BASE_URL", nobody)
	home, err := homes.Codex(t.TempDir(), nobody, "")
	mustDo(t, err)
	out := doctorOf(t, "[providers.c]\nadapter = \"codex\"\nprogram = \""+codex+"\"\nhome = \""+home.Dir+"\"\n"+
		"[providers.a]\nadapter = \"claude\"\nprogram = \""+claude+"\"\nhome = \""+t.TempDir()+"\"\n")
	for _, want := range []string{"it has a native compaction (claude-command)", "a: " + claude, "c: " + codex} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// What is wrong with a program is told once, with a remedy for that.
func TestDoctorTellsEachFailureOfAProgramOnce(t *testing.T) {
	t.Parallel()
	ls, home := clis.Tool(t, "ls"), filepath.Join(t.TempDir(), "gone")
	out := doctorOf(t, "[providers.none]\nadapter = \"codex\"\nprogram = \"/nowhere/codex\"\n"+
		"[providers.other]\nadapter = \"claude\"\nprogram = \""+ls+"\"\n"+
		"[providers.homeless]\nadapter = \"claude\"\nhome = \""+home+"\"\n"+
		"[providers.away]\nadapter = \"codex\"\nhome = \""+home+"\"\n")
	for name, want := range map[string]string{
		"none":     "runtime failed none: there is no program /nowhere/codex install codex",
		"other":    "runtime failed other: " + ls + " is not Claude Code: ",
		"homeless": "runtime failed homeless: its home " + home + " is not there correct home in [providers.homeless], or make the folder and log in there: ",
		"away":     "runtime failed away: its home " + home + " is not there correct home in [providers.away]",
	} {
		if n := strings.Count(out, " "+name+": ") + strings.Count(out, " "+name+" ("); n != 1 || !strings.Contains(out, want) {
			t.Errorf("%s is told %d times, want once: %q, in\n%s", name, n, want, out)
		}
	}
	if strings.Contains(out, "start its server") {
		t.Errorf("a program has no server to start:\n%s", out)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("a home of a program was made")
	}
}

// A program that works here and not at the server, or is slow there, has no server of its
// own to be started.
func TestDoctorOnAProgramThatTheServerHasTroubleWith(t *testing.T) {
	t.Parallel()
	said := "c: Claude Code did not start within 30s"
	want := warning("providers", "c (claude): Claude Code did not start within 30s",
		"it is asked again; if that lasts, start the server with the PATH and the login of this terminal")
	if diff := cmp.Diff(want, checkProvider(api.Provider{Name: "c", Kind: "claude", Error: &said}, providerConfig{Adapter: "claude"})); diff != "" {
		t.Error(diff)
	}
}
