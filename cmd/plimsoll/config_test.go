package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// chatTo begins a provider with an adapter chat.
const chatTo = "[providers.a]\nadapter = \"chat\"\nbase_url = \"http://127.0.0.1:8080/v1\"\n"

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
		"adapter missing":          {"\n[providers.x]\nmodel = \"m\"\n", "2: providers.x.adapter: \"\" is not one of: chat, claude, codex, offline"},
		"adapter unknown":          {"[providers.x]\nadapter = \"gpt\"\n", "2: providers.x.adapter: \"gpt\" is not one of: chat, claude, codex, offline"},
		"bad duration":             {"[limits]\nidle_after = \"0s\"\n", "2: limits.idle_after"},
		"bad origin":               {"[server]\norigins = [\"https://*\"]\n", "2: server.origins: \"https://*\" is not an origin"},
		"origin with path":         {"[server]\norigins = [\"https://a/\"]\n", "2: server.origins"},
		"bad route":                {"[compaction]\n\nroute = \"nativ\"\n", "3: compaction.route: \"nativ\" is not one of: native, local"},
		"unknown in compaction":    {"[compaction]\nroutes = \"native\"\n", "2: unknown key compaction.routes; [compaction] knows route, auto, preset, limit, reserve, cap, post_turn, idle, writer, writer_provider, writer_model, writer_timeout"},
		"price as text":            {"[providers.a]\nadapter = \"offline\"\nprice_input = \"1\"\n", "3: providers.a.price_input must be a number, got a string"},
		"part of a token":          {"[compaction]\nlimit = 1.5\n", "2: compaction.limit must be a whole number"},
		"text for a switch":        {"[compaction]\nauto = \"yes\"\n", "2: compaction.auto must be true or false, got a string"},
		"key of another adapter":   {"[providers.a]\nadapter = \"offline\"\napi_key_env = \"KEY\"\n", "3: providers.a.api_key_env: the adapter offline does not know it; it knows adapter, model"},
		"model of offline":         {"[providers.a]\nadapter = \"offline\"\nmodel = \"gpt\"\n", "3: providers.a.model: \"gpt\": the offline adapter has only offline"},
		"bad preset":               {"[compaction]\npreset = \"claude\"\n", "2: compaction.preset: \"claude\" is not one of: plimsoll, pi, codex, claude-code"},
		"limit without its preset": {"[compaction]\nlimit = 90000\n", "2: compaction.limit: only preset = \"codex\" has a limit"},
		"reserve of codex":         {"[compaction]\npreset = \"codex\"\nreserve = 1\n", "3: compaction.reserve: only preset = \"pi\" and preset = \"claude-code\" have a reserve"},
		"negative cap":             {"[compaction]\ncap = -1\n", "2: compaction.cap: want a number of tokens from 4,000 to 100,000,000, or leave it out"},
		"bad idle":                 {"[compaction]\nidle = \"-5m\"\n", "2: compaction.idle: \"-5m\" is no positive duration"},
		"bad writer":               {"[compaction]\nwriter = \"gpt\"\n", "2: compaction.writer: \"gpt\" is not one of: model, extractive, fixed"},
		"writer that needs none":   {"[compaction]\nwriter = \"fixed\"\nwriter_model = \"m\"\n", "3: compaction.writer_model: it counts for writer = \"model\" only"},
		"nobody can write":         {"[compaction]\nwriter_provider = \"x\"\n", "2: compaction.writer_provider: \"x\": no provider that can write is configured; leave it out, or"},
		"unknown in hooks":         {"[hooks]\npre_compacts = []\n", "2: unknown key hooks.pre_compacts; [hooks] knows total_timeout, pre_compact, post_compact"},
		"unknown in a hook":        {"[[hooks.pre_compact]]\ncommand = [\"a\"]\n[[hooks.pre_compact]]\ncommand = [\"b\"]\nmatcher = \"auto\"\n", "5: unknown key hooks.pre_compact.matcher; [[hooks.pre_compact]] knows command, timeout, on_failure, trigger, env"},
		"unknown in inline hook":   {"[hooks]\npre_compact = [\n {command = [\"a\"]},\n {command = [\"a\"], x = 1},\n]\n", "2: unknown key hooks.pre_compact.x"},
		"one hook, not a list":     {"[hooks.pre_compact]\ncommand = [\"a\"]\n", "1: hooks.pre_compact must be a section for each, such as [[hooks.pre_compact]], got a section"},
		"hook as a line":           {"[[hooks.pre_compact]]\ncommand = \"guard --all\"\n", "2: hooks.pre_compact.command must be a list of strings, got a string"},
		"number in a command":      {"[[hooks.pre_compact]]\ncommand = [\"guard\", 1]\n", "2: hooks.pre_compact.command must be a list of strings, got a number in it"},
		"hook without a command":   {"[[hooks.post_compact]]\ncommand = [\"a\"]\n[[hooks.post_compact]]\ntimeout = \"1s\"\n", "3: hooks.post_compact: want command = ["},
		"empty command":            {"[[hooks.pre_compact]]\ncommand = []\n", "2: hooks.pre_compact.command: want command = ["},
		"program of the project":   {"[[hooks.pre_compact]]\ncommand = [\"./guard\"]\n", "2: hooks.pre_compact.command: \"./guard\": want an absolute path, or a name that PATH finds"},
		"zero byte":                {"[[hooks.pre_compact]]\ncommand = [\"a\", \"b\\u0000\"]\n", "2: hooks.pre_compact.command: an argument has a zero byte"},
		"long hook":                {"[[hooks.pre_compact]]\ncommand = [\"a\"]\n[[hooks.pre_compact]]\ncommand = [\"a\"]\ntimeout = \"1h\"\n", "5: hooks.pre_compact.timeout: want at most 10m0s"},
		"bad failure":              {"[[hooks.pre_compact]]\ncommand = [\"a\"]\non_failure = \"block\"\n", "3: hooks.pre_compact.on_failure: \"block\" is not one of: open, closed"},
		"failure after the fact":   {"[[hooks.post_compact]]\ncommand = [\"a\"]\non_failure = \"closed\"\n", "3: hooks.post_compact.on_failure: a hook after the compaction cannot deny it"},
		"bad trigger":              {"[[hooks.pre_compact]]\ncommand = [\"a\"]\ntrigger = \"preTurn\"\n", "3: hooks.pre_compact.trigger: \"preTurn\" is not one of: manual, auto"},
		"value for a variable":     {"[[hooks.pre_compact]]\ncommand = [\"a\"]\nenv = [\"A=1\"]\n", "3: hooks.pre_compact.env: want names of variables of the environment, without their values"},
		"too many hooks":           {strings.Repeat("[[hooks.pre_compact]]\ncommand = [\"a\"]\n", maxHooks+1), "33: hooks.pre_compact: there can be 16 at most"},
		"bad total":                {"[hooks]\ntotal_timeout = \"soon\"\n", "2: hooks.total_timeout: \"soon\" is no positive duration"},
		"chat without an address":  {"\n[providers.a]\nadapter = \"chat\"\n", "2: providers.a: base_url is missing"},
		"bad address of a server":  {"[providers.a]\nadapter = \"chat\"\nbase_url = \"localhost:8080\"\n", "3: providers.a.base_url: want an address such as"},
		"password in the address":  {"[providers.a]\nadapter = \"chat\"\nbase_url = \"http://u:pw@h/v1\"\n", "3: providers.a.base_url: no name and no password may be in it"},
		"query in the address":     {"[providers.a]\nadapter = \"chat\"\nbase_url = \"http://h/v1?key=sk\"\n", "3: providers.a.base_url: want an address"},
		"bad profile":              {chatTo + "profile = \"gpt\"\n", "4: providers.a.profile: \"gpt\" is not one of: generic, openai,"},
		"key in the file":          {chatTo + "api_key_env = \"sk-123\"\n", "4: providers.a.api_key_env: want the name of a variable of the environment, such as OPENAI_API_KEY; the key itself is never in this file"},
		"tiny window":              {chatTo + "context_window = 500\n", "4: providers.a.context_window: want a number of tokens from 1,000 to 100,000,000"},
		"output over the window":   {chatTo + "context_window = 4000\nmax_output = 4000\n", "5: providers.a.max_output: want a number of tokens from 1 to 100,000,000, and less than context_window"},
		"half a price":             {chatTo + "price_input = 2\n", "1: providers.a: a price needs both price_input and price_output"},
		"negative price":           {chatTo + "price_input = 2\nprice_output = -1.5\n", "5: providers.a.price_output: want US dollars per million tokens, from 0 to"},
		"price that is none":       {chatTo + "price_input = nan\nprice_output = 1\n", "4: providers.a.price_input: want US dollars"},
		"secret header":            {chatTo + "[providers.a.headers]\nX-Title = \"t\"\nX-Api-Key = \"sk\"\n", "4: providers.a.headers: X-Api-Key may hold a secret"},
		"broken header":            {chatTo + "headers = {\"X-A\" = \"a\\nb\"}\n", "4: providers.a.headers: \"X-A\" is no header"},
		"unknown setting":          {chatTo + "[providers.a.settings]\nimage = true\n", "4: providers.a.settings: a chat provider has no setting \"image\"; there are: "},
		"bad setting":              {chatTo + "[providers.a.settings]\nimages = 3\n", "4: providers.a.settings: images = \"3\": want true or false"},
		"list as a setting":        {chatTo + "[providers.a.settings]\nimages = []\n", "5: providers.a.settings.images: want a text, a whole number, or true or false"},
		"too many attempts":        {chatTo + "attempts = 100\n", "4: providers.a.attempts: want a number from 1 to 10"},
		"bad timeout":              {chatTo + "idle_timeout = \"0s\"\n", "4: providers.a.idle_timeout: \"0s\" is no positive duration"},
		"unknown in chat":          {chatTo + "key = \"sk\"\n", "4: unknown key providers.a.key; the adapter chat knows adapter, base_url, profile, model,"},
		"unknown in codex":         {"[providers.a]\nadapter = \"codex\"\ntide = \"x\"\n", "3: unknown key providers.a.tide; the adapter codex knows adapter, settings, program, home, model, env, compact_timeout, auto_rebase"},
		"unknown without adapter":  {"[providers.a]\ntide = \"x\"\n", "2: unknown key providers.a.tide; [providers.NAME] knows adapter, base_url, "},
		"writer that cannot":       {chatTo + "[providers.b]\nadapter = \"offline\"\n[compaction]\nwriter_provider = \"b\"\n", "7: compaction.writer_provider: \"b\" is not one of the providers that can write: a"},
		"reserved provider":        {"[providers.a]\nadapter = \"offline\"\n[providers.title]\nadapter = \"offline\"\n", "3: providers.title: the name is taken"},
		"cap without room":         {"[compaction]\ncap = 10\n", "2: compaction.cap: want a number of tokens from 4,000 to"},
		"no cap at all":            {"[compaction]\ncap = 0\n", "2: compaction.cap: want a number of tokens from 4,000 to"},
		"part of a cap":            {"[compaction]\ncap = 4000.5\n", "2: compaction.cap must be a whole number"},
		"no attempt":               {chatTo + "attempts = 0\n", "4: providers.a.attempts: want a number from 1 to 10"},
		"attempts of offline":      {"[providers.a]\nadapter = \"offline\"\nattempts = 0\n", "3: providers.a.attempts: the adapter offline does not know it"},
		"nobody may connect":       {"[limits]\npeers = 0\n", "2: limits.peers: want a number from 1 to 1,000,000, or leave it out"},
		"bad peers":                {"[limits]\npeers = -1\n", "2: limits.peers: want a number from 1 to"},
		"no requests":              {"[limits]\nrequests = 0\n", "2: limits.requests: want a number from 1 to 1,000,000, or leave it out"},
		"no peers of a token":      {"[limits]\ntoken_peers = 0\n", "2: limits.token_peers: want a number from 1 to 1,000,000"},
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
			for _, secret := range []string{"sk-123", "u:pw", "key=sk"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows a secret: %v", err)
				}
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
model = "offline-extractive"
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
