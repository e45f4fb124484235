package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/BurntSushi/toml"
)

// A config is what config.toml says. The zero config is that of an absent file.
type config struct {
	Server     serverConfig              `toml:"server"`
	Providers  map[string]providerConfig `toml:"providers"`
	Compaction compactionConfig          `toml:"compaction"`
	Hooks      hooksConfig               `toml:"hooks"`
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

// A providerConfig is a provider. Which keys count depends on the adapter.
type providerConfig struct {
	Adapter          string             `toml:"adapter"`
	BaseURL          string             `toml:"base_url"` // up to and without /chat/completions
	Profile          string             `toml:"profile"`  // of the server program or company behind the address
	Model            string             `toml:"model"`
	APIKeyEnv        string             `toml:"api_key_env"`    // the name of a variable, never a key
	ContextWindow    int                `toml:"context_window"` // tokens; of every model
	MaxOutput        int                `toml:"max_output"`     // tokens; of every model
	PriceInput       *float64           `toml:"price_input"`    // US dollars per million tokens, as the other prices
	PriceCachedInput *float64           `toml:"price_cached_input"`
	PriceOutput      *float64           `toml:"price_output"`
	Headers          map[string]string  `toml:"headers"` // sent with every request; no secrets
	System           string             `toml:"system"`  // what every request begins with
	ConnectTimeout   duration           `toml:"connect_timeout"`
	FirstByteTimeout duration           `toml:"first_byte_timeout"`
	IdleTimeout      duration           `toml:"idle_timeout"` // without a byte, while an answer comes
	Attempts         *int               `toml:"attempts"`     // how often a request is made at most
	Settings         map[string]setting `toml:"settings"`     // of the profile, or of the program

	// Of programs that are run: see runtimes.go.
	Program        string   `toml:"program"`
	Home           string   `toml:"home"`            // the program's own folder; empty: where it looks by itself
	Env            []string `toml:"env"`             // names of further variables that it gets
	CompactTimeout duration `toml:"compact_timeout"` // of a compaction of its own
	AutoRebase     bool     `toml:"auto_rebase"`     // a program that refuses to compact is given a new session by itself
}

type compactionConfig struct {
	Route    string   `toml:"route"`     // of compactions that name none: native | local; empty: native if there is, else local
	Auto     *bool    `toml:"auto"`      // threads compact by themselves; absent: true
	Preset   string   `toml:"preset"`    // of the line at which they do
	Limit    int      `toml:"limit"`     // tokens; of the preset codex
	Reserve  int      `toml:"reserve"`   // tokens; of the presets pi and claude-code
	Cap      *int     `toml:"cap"`       // tokens; stands for a window that is unknown
	PostTurn *bool    `toml:"post_turn"` // also when a turn has ended; absent: true
	Idle     duration `toml:"idle"`      // a thread that rested this long compacts from half of its window on; absent: never

	Writer         string   `toml:"writer"`          // of local checkpoints: model | extractive | fixed; empty: model
	WriterProvider string   `toml:"writer_provider"` // of the model that writes; empty: the thread's own
	WriterModel    string   `toml:"writer_model"`
	WriterTimeout  duration `toml:"writer_timeout"` // of one request to it
}

type hooksConfig struct {
	TotalTimeout duration     `toml:"total_timeout"` // of all hooks of one event
	PreCompact   []hookConfig `toml:"pre_compact"`
	PostCompact  []hookConfig `toml:"post_compact"`
}

type hookConfig struct {
	Command   []string `toml:"command"` // the program and its arguments
	Timeout   duration `toml:"timeout"`
	OnFailure string   `toml:"on_failure"` // open | closed; empty: open
	Trigger   string   `toml:"trigger"`    // manual | auto; empty: both
	Env       []string `toml:"env"`        // names of variables that it gets
}

type checksConfig struct {
	Commands []string `toml:"commands"` // prefixes of commands that verify the work
}

type limitsConfig struct {
	IdleAfter duration `toml:"idle_after"` // an idle thread is unloaded after this
	StopAfter duration `toml:"stop_after"` // a session that ignores an interrupt is abandoned after this
	Peers     *int     `toml:"peers"`      // WebSockets that are open at once

	TokenPeers *int `toml:"token_peers"` // the same, with one token
	Requests   *int `toml:"requests"`    // with one token, per second
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

// A setting is a text, a number, or true or false, kept as a text.
type setting string

// UnmarshalTOML implements toml.Unmarshaler.
func (s *setting) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string, bool, int64:
		*s = setting(fmt.Sprint(v))
		return nil
	case map[string]any:
		return errors.New(`want a text, a whole number, or true or false; a name with a dot is written in quotes, such as "features.plugins" = false`)
	}
	return errors.New("want a text, a whole number, or true or false")
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
		return config{}, cfg.unknownKey(src, unknown[0])
	}
	for _, key := range md.Keys() {
		if len(key) == 2 && key[0] == "providers" && !slices.Contains(cfg.order, key[1]) {
			cfg.order = append(cfg.order, key[1])
		}
	}
	return cfg, cfg.check(src)
}
