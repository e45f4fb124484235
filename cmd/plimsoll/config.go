package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// A config is what config.toml says. The zero config is that of an absent file.
type config struct {
	Server     serverConfig              `toml:"server"`
	Providers  map[string]providerConfig `toml:"providers"`
	Compaction compactionConfig          `toml:"compaction"`
	Checks     checksConfig              `toml:"checks"`
	Limits     limitsConfig              `toml:"limits"`

	// order is the providers' names as the file has them: the first one is the
	// default.
	order []string
}

type serverConfig struct {
	Listen  string   `toml:"listen"`  // the default of serve --listen
	Hosts   []string `toml:"hosts"`   // names beside the loopback ones under which the server may be addressed
	Origins []string `toml:"origins"` // origins of web pages that may use the API with a token
}

type providerConfig struct {
	Adapter   string `toml:"adapter"`
	Model     string `toml:"model"`
	APIKeyEnv string `toml:"api_key_env"` // the name of a variable, never a key
}

type compactionConfig struct {
	Route string `toml:"route"` // of compactions that name none: native | local; empty: native if there is, else local
}

type checksConfig struct {
	Commands []string `toml:"commands"` // prefixes of commands that verify the work
}

type limitsConfig struct {
	IdleAfter duration `toml:"idle_after"` // an idle thread is unloaded after this
	StopAfter duration `toml:"stop_after"` // a session that ignores an interrupt is abandoned after this
	Peers     int      `toml:"peers"`      // WebSockets that are open at once
}

// A duration is written as in "90s" or "5m" and is positive.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no positive duration such as \"90s\" or \"5m\"", b)
	}
	*d = duration(v)
	return nil
}

// maxConfig is the size over which config.toml is refused unread.
const maxConfig = 64 << 10

// readConfig reads a configuration. A missing file is an empty one; anything in
// it that is not understood is an error that names key and line.
func readConfig(path string) (config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return config{}, nil
	}
	if err != nil {
		return config{}, fmt.Errorf("read configuration: %w", err)
	}
	defer shut(f)
	src, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return config{}, fmt.Errorf("read configuration: %w", err)
	}
	if len(src) > maxConfig {
		return config{}, fmt.Errorf("read configuration: %s is larger than %d bytes", path, maxConfig)
	}
	cfg, err := parseConfig(src)
	if err != nil {
		return config{}, fmt.Errorf("read configuration: %s:%w", path, err)
	}
	return cfg, nil
}

// parseConfig reads a configuration; its errors begin with the line number.
func parseConfig(src []byte) (config, error) {
	var cfg config
	md, err := toml.Decode(string(src), &cfg)
	if err != nil {
		return config{}, parseProblem(err)
	}
	// The decoder passes over a section of tables that is none.
	if t := md.Type("providers"); t != "" && t != "Hash" {
		return config{}, fmt.Errorf("%d: providers must be a section for each provider, such as [providers.local]", lineOf(src, toml.Key{"providers"}))
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		return config{}, fmt.Errorf("%d: unknown key %s%s", lineOf(src, unknown[0]), unknown[0], knownKeys(unknown[0]))
	}
	for _, key := range md.Keys() {
		if len(key) == 2 && key[0] == "providers" && !slices.Contains(cfg.order, key[1]) {
			cfg.order = append(cfg.order, key[1])
		}
	}
	return cfg, cfg.check(src)
}

// typeProblem is how the parser words a value of the wrong type.
var typeProblem = regexp.MustCompile(`^toml: line (\d+) \(last key "(.*)"\): (.*)$`)

// wrongType is what the parser says about a value of the wrong type: found and
// wanted, or, of a section, only found.
var wrongType = regexp.MustCompile(`^(?:incompatible types: TOML value has type (.*); destination has type (.*)|type mismatch for .*: expected table but found (.*))$`)

// typeText words a type as the file's author knows it.
func typeText(name string) string {
	switch name {
	case "string", "primitive (string-like)":
		return "a string"
	case "int64", "float64", "integer":
		return "a number"
	case "bool":
		return "true or false"
	case "time.Time":
		return "a date"
	case "slice":
		return "a list of strings" // there is no other
	case "map[string]any":
		return "a section"
	}
	if strings.HasPrefix(name, "[]") {
		return "a list"
	}
	return name
}

// parseProblem words an error of the parser as line, key and what is wrong.
func parseProblem(err error) error {
	if m := typeProblem.FindStringSubmatch(err.Error()); m != nil {
		line, key, text := m[1], m[2], m[3]
		w := wrongType.FindStringSubmatch(text)
		switch {
		case w == nil:
			return fmt.Errorf("%s: %s: %s", line, key, text)
		case w[3] != "":
			return fmt.Errorf("%s: %s must be a section, got %s", line, key, typeText(w[3]))
		case w[2] == "string" && slices.Contains(lists, key):
			return fmt.Errorf("%s: %s must be a list of strings, got %s in it", line, key, typeText(w[1]))
		}
		return fmt.Errorf("%s: %s must be %s, got %s", line, key, typeText(w[2]), typeText(w[1]))
	}
	e, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return fmt.Errorf("1: %w", err)
	}
	msg := e.Message
	if msg == "" {
		msg = e.Error()
	}
	if e.LastKey != "" && !strings.Contains(msg, e.LastKey) {
		msg = e.LastKey + ": " + msg
	}
	return fmt.Errorf("%d: %s", e.Position.Line, msg)
}

// check refuses what is well-formed and cannot work.
func (c config) check(src []byte) error {
	for _, name := range c.order {
		p := c.Providers[name]
		if _, ok := adapterKinds[p.Adapter]; !ok {
			key := toml.Key{"providers", name}
			if p.Adapter != "" {
				key = append(key, "adapter")
			}
			return fmt.Errorf("%d: providers.%s.adapter: %q is not one of: %s", lineOf(src, key), name, p.Adapter, strings.Join(adapterNames(), ", "))
		}
		if name == titlesProvider {
			return fmt.Errorf("%d: providers.%s: the name is taken by the server's own; choose another", lineOf(src, toml.Key{"providers", name}), name)
		}
	}
	if route := c.Compaction.Route; !slices.Contains([]string{"", string(compaction.RouteNative), string(compaction.RouteLocal)}, route) {
		return fmt.Errorf("%d: compaction.route: %q is not one of: %s, %s",
			lineOf(src, toml.Key{"compaction", "route"}), route, compaction.RouteNative, compaction.RouteLocal)
	}
	if n := c.Limits.Peers; n < 0 || n > maxPeers {
		return fmt.Errorf("%d: limits.peers: want a number from 1 to %s, or leave it out", lineOf(src, toml.Key{"limits", "peers"}), thousands(maxPeers))
	}
	return c.checkServer(src)
}

// maxPeers is more than a machine can serve.
const maxPeers = 1_000_000

func (c config) checkServer(src []byte) error {
	for _, host := range c.Server.Hosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			return fmt.Errorf("%d: server.hosts: %q is not a host name", lineOf(src, toml.Key{"server", "hosts"}), host)
		}
	}
	for _, origin := range c.Server.Origins {
		if !validOrigin(origin) {
			return fmt.Errorf("%d: server.origins: %q is not an origin such as https://ui.example or http://localhost:3000",
				lineOf(src, toml.Key{"server", "origins"}), origin)
		}
	}
	if addr := c.Server.Listen; addr != "" {
		if problem := addressProblem(addr); problem != "" {
			return fmt.Errorf("%d: server.listen: %q: %s", lineOf(src, toml.Key{"server", "listen"}), addr, problem)
		}
	}
	return nil
}

// validOrigin reports whether s is scheme://host[:port] and nothing more.
func validOrigin(s string) bool {
	scheme, host, ok := strings.Cut(s, "://")
	return ok && (scheme == "http" || scheme == "https") && host != "" && !strings.ContainsAny(host, "/*?#@ ")
}

// sections lists every key there is, for the message about an unknown one.
var sections = map[string][]string{
	"server":     {"listen", "hosts", "origins"},
	"providers":  {"adapter", "model", "api_key_env"},
	"compaction": {"route"},
	"checks":     {"commands"},
	"limits":     {"idle_after", "stop_after", "peers"},
}

// lists names the keys whose values are lists.
var lists = []string{"server.hosts", "server.origins", "checks.commands"}

// knownKeys says what could have been meant by an unknown key.
func knownKeys(key toml.Key) string {
	keys, ok := sections[key[0]]
	if !ok || len(key) < 2 {
		return "; the sections are [server], [providers.NAME], [compaction], [checks] and [limits]"
	}
	return fmt.Sprintf("; [%s] knows %s", key[0], strings.Join(keys, ", "))
}

// lineOf returns the line on which key is set. The parser does not say, but the
// shortest well-formed head of the file that has the key ends with it, and the
// well-formed head before that one ends on the line above.
func lineOf(src []byte, key toml.Key) int {
	above := 0
	for end, line := 0, 1; end < len(src); line++ {
		n := bytes.IndexByte(src[end:], '\n')
		if n < 0 {
			n = len(src) - end - 1
		}
		end += n + 1
		var tree map[string]any
		md, err := toml.Decode(string(src[:end]), &tree)
		if err != nil {
			continue
		}
		if md.IsDefined(key...) {
			return above + 1
		}
		above = line
	}
	return above
}
