package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// doctor runs the command on a home with a configuration and returns its findings
// about what the configuration names.
func doctor(t *testing.T, toml string, env map[string]string) []finding {
	t.Helper()
	h := home{filepath.Join(t.TempDir(), "home")}
	var out strings.Builder
	m := &Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Getenv: func(name string) string { return env[name] }}
	if code := m.Run(t.Context(), []string{"token", "--home", h.dir}); code != exitOK {
		t.Fatalf("token: exit code %d", code)
	}
	if code := m.Run(t.Context(), []string{"threads", "list", "--home", h.dir}); code != exitOK { // makes the journal
		t.Fatalf("threads list: exit code %d", code)
	}
	mustDo(t, os.WriteFile(h.path(configFile), []byte(toml), 0o600))
	out.Reset()
	m.Run(t.Context(), []string{"doctor", "--home", h.dir, "--json"})
	for _, secret := range env {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the doctor shows a key:\n%s", out.String())
		}
	}
	var found []finding
	for line := range strings.Lines(out.String()) {
		var f finding
		mustDo(t, json.Unmarshal([]byte(line), &f))
		if slices.Contains([]string{"config", "providers", "keys", "hooks"}, f.Check) && (f.Check != "config" || f.Status != findingOK) {
			found = append(found, f)
		}
	}
	return found
}

func TestDoctorTellsWhatItsProvidersSay(t *testing.T) {
	t.Parallel()
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-doctor" {
			http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"tide-1","object":"model"},{"id":"tide-2","object":"model"}]}`)
	}))
	defer models.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	got := doctor(t, fmt.Sprintf(`
[providers.known]
adapter = "chat"
base_url = "%[1]s/v1"
api_key_env = "KNOWN_KEY"
context_window = 32_000
[providers.silent]
adapter = "chat"
base_url = "%[1]s/v1"
api_key_env = "KNOWN_KEY"
[providers.far]
adapter = "chat"
base_url = "http://models.invalid/v1"
api_key_env = "FAR_KEY"
attempts = 1
[providers.gone]
adapter = "chat"
base_url = "%[2]s/v1"
api_key_env = "GONE_KEY"
attempts = 1
[providers.other]
adapter = "chat"
base_url = "%[1]s/v1"
api_key_env = "KNOWN_KEY"
model = "tide-9"
context_window = 32_000
[providers.second]
adapter = "chat"
base_url = "%[1]s/v1"
api_key_env = "KNOWN_KEY"
model = "tide-2"
context_window = 32_000
[providers.named]
adapter = "chat"
base_url = "%[2]s/v1"
model = "tide-1"
context_window = 32_000
attempts = 1
`, models.URL, gone.URL), map[string]string{"KNOWN_KEY": "sk-doctor", "FAR_KEY": "sk-far-away"})
	want := []finding{
		okay("providers", "known (chat at "+models.URL+"/v1, 2 models): tide-1 with 32,000 tokens, as configured"),
		warning("providers", "silent (chat at "+models.URL+"/v1, 2 models): tide-1 has a window that nobody knows, so its threads compact at the cap",
			"set context_window in [providers.silent] of config.toml"),
		failed("providers", "far (chat at http://models.invalid/v1): …", "start its server, or correct [providers.far] of config.toml"),
		failed("providers", "gone (chat at "+gone.URL+"/v1): …", "start its server, or correct [providers.gone] of config.toml"),
		warning("providers", "other (chat at "+models.URL+"/v1, 2 models) has no model tide-9",
			"correct model in [providers.other] of config.toml; it has tide-1, tide-2"),
		okay("providers", "second (chat at "+models.URL+"/v1, 2 models): tide-2 with 32,000 tokens, as configured"),
		failed("providers", "named (chat at "+gone.URL+"/v1) does not answer: …", "start its server, or correct base_url"),
		okay("keys", "KNOWN_KEY, for known, is set"),
		okay("keys", "KNOWN_KEY, for silent, is set"),
		warning("keys", "FAR_KEY goes to http://models.invalid/v1 unencrypted", "use https in base_url"),
		warning("keys", "GONE_KEY, for gone, is not set here", "export it where the server is started, or correct api_key_env"),
		okay("keys", "KNOWN_KEY, for other, is set"),
		okay("keys", "KNOWN_KEY, for second, is set"),
	}
	for i, f := range got {
		if head, why, cut := strings.Cut(f.Detail, ": "); cut && f.Status == findingFailed && why != "" {
			got[i].Detail = head + ": …" // in the words of the network
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDoctorLooksForTheProgramsOfHooks(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	mustDo(t, os.WriteFile(plain, nil, 0o600))
	const pre, post = "[[hooks.pre_compact]]\n", "[[hooks.post_compact]]\n"
	there, gone := fmt.Sprintf("command = [%q]\n", os.Args[0]), "command = [\"plimsoll-no-such-program\"]\n"
	const fix = "install it, or correct [hooks] in config.toml"
	for name, tt := range map[string]struct {
		toml string
		want finding
	}{
		"found": {pre + there + post + there, okay("hooks", "pre_compact 1: "+os.Args[0]+"; post_compact 1: "+os.Args[0])},
		"missing": {
			pre + there + pre + gone + post + "command = [\"/plimsoll/no/such\"]\n",
			warning("hooks", "pre_compact 2: plimsoll-no-such-program is not in PATH; post_compact 1: /plimsoll/no/such does not exist", fix),
		},
		"closed": {
			pre + fmt.Sprintf("command = [%q]\non_failure = \"closed\"\n", plain),
			failed("hooks", "pre_compact 1: "+plain+" is no program; compactions are denied", fix),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := doctor(t, tt.toml, nil)
			got = slices.DeleteFunc(got, func(f finding) bool { return f.Check == "providers" })
			if diff := cmp.Diff([]finding{tt.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
