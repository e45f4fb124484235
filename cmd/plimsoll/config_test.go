package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConfigErrorNamesKeyAndLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ src, want string }{
		"unknown key":              {"[server]\nhosts = []\nport = 1\n", "3: unknown key server.port; [server] knows listen, hosts, origins"},
		"unknown section":          {"\n\n[sever]\nhosts = []\n", "3: unknown key sever"},
		"unknown top level":        {"# hello\ndebug = true", "2: unknown key debug"},
		"unknown in provider":      {"[providers.a]\nadapter = \"offline\"\n\n[providers.b]\nadapter = \"offline\"\nkey = \"sk\"\n", "6: unknown key providers.b.key"},
		"dotted":                   {"server.hosts = [\n  \"a\",\n]\nserver.prot = 1\n", "4: unknown key server.prot"},
		"after multi-line string":  {"[providers.a]\nadapter = \"offline\"\nmodel = \"\"\"\n[server]\nport = 1\n\"\"\"\nx = 2\n", "7: unknown key providers.a.x"},
		"multi-line unknown array": {"[server]\nhost = [\n \"a\",\n \"b\",\n]\n", "2: unknown key server.host"},
		"wrong type":               {"[server]\nhosts = \"a\"\n", "2: server.hosts must be a list of strings, got a string"},
		"wrong type in list":       {"[checks]\ncommands = [1]\n", "2: checks.commands must be a list of strings, got a number in it"},
		"number for a string":      {"[server]\nlisten = 4517\n", "2: server.listen must be a string, got a number"},
		"list for a string":        {"[server]\nlisten = []\n", "2: server.listen must be a string, got a list"},
		"bool for a string":        {"[providers.x]\nadapter = true\n", "2: providers.x.adapter must be a string, got true or false"},
		"section for a duration":   {"[limits]\nidle_after = {}\n", "2: limits.idle_after must be a string, got a section"},
		"value for a section":      {"server = 3\n", "1: server must be a section, got a number"},
		"value for a provider":     {"[providers]\nx = 3\n", "2: providers.x must be a section, got a number"},
		"value for all providers":  {"#\nproviders = \"x\"\n", "2: providers must be a section for each provider"},
		"bad address":              {"[server]\nlisten = \"4517\"\n", "2: server.listen: \"4517\": want an address and a port"},
		"bad port":                 {"[server]\nlisten = \"127.0.0.1:99999\"\n", "2: server.listen: \"127.0.0.1:99999\": 99999 is no port"},
		"syntax":                   {"[server]\nhosts = [\n", "2: "},
		"adapter missing":          {"\n[providers.x]\nmodel = \"m\"\n", "2: providers.x.adapter: \"\" is not one of: offline"},
		"adapter unknown":          {"[providers.x]\nadapter = \"gpt\"\n", "2: providers.x.adapter: \"gpt\" is not one of: offline"},
		"bad duration":             {"[limits]\nidle_after = \"0s\"\n", "2: limits.idle_after"},
		"bad origin":               {"[server]\norigins = [\"https://*\"]\n", "2: server.origins: \"https://*\" is not an origin"},
		"origin with path":         {"[server]\norigins = [\"https://a/\"]\n", "2: server.origins"},
		"bad route":                {"[compaction]\n\nroute = \"nativ\"\n", "3: compaction.route: \"nativ\" is not one of: native, local"},
		"unknown in compaction":    {"[compaction]\nroutes = \"native\"\n", "2: unknown key compaction.routes; [compaction] knows route"},
		"reserved provider":        {"[providers.a]\nadapter = \"offline\"\n[providers.title]\nadapter = \"offline\"\n", "3: providers.title: the name is taken"},
		"bad peers":                {"[limits]\npeers = -1\n", "2: limits.peers: want a number from 1 to"},
		"text for a number":        {"[limits]\npeers = \"many\"\n", "2: limits.peers must be a number, got a string"},
		"bad host":                 {"[server]\nlisten = \"x\"\nhosts = [\"*\"]\n", "3: server.hosts: \"*\" is not a host name"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseConfig([]byte(tt.src))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got error %v, want one that begins with %q", err, tt.want)
			}
		})
	}
}

func TestConfigKeepsTheOrderOfProviders(t *testing.T) {
	t.Parallel()
	cfg, err := parseConfig([]byte(`
[server]
hosts = ["plimsoll.example"]
origins = ["https://ui.example", "http://localhost:3000"]
[providers.zed]
adapter = "offline"
[providers.abe]
adapter = "offline"
model = "offline"
[checks]
commands = ["go test", "make check"]
[limits]
idle_after = "90s"
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"zed", "abe"}, cfg.order); diff != "" {
		t.Error(diff)
	}
	if got := time.Duration(cfg.Limits.IdleAfter); got != 90*time.Second {
		t.Errorf("idle_after is %v", got)
	}
	if diff := cmp.Diff([]string{"go test", "make check"}, cfg.Checks.Commands); diff != "" {
		t.Error(diff)
	}
}

func TestAbsentConfigIsEmpty(t *testing.T) {
	t.Parallel()
	cfg, err := readConfig(filepath.Join(t.TempDir(), configFile))
	if err != nil || cfg.order != nil {
		t.Errorf("got %+v, %v", cfg, err)
	}
}

func TestHugeConfigIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), configFile)
	if err := os.WriteFile(path, []byte(strings.Repeat("#\n", maxConfig)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}
