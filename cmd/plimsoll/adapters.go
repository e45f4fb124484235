package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/chat"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
	"github.com/plimsoll-dev/plimsoll/adapters/titles"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// An adapterKind is an adapter as the configuration knows it.
type adapterKind struct {
	keys []string // of [providers.NAME], beside adapter
	able bool     // its models use tools and write checkpoints
	// check says what is wrong with a provider, and at which key if there is one.
	check func(providerConfig) (key toml.Key, problem string)
	open  func(name string, p providerConfig, env environment) (adapters.Adapter, error)
}

// An environment is what an adapter may use of this process.
type environment struct {
	getenv func(string) string
	log    *slog.Logger
}

// adapterKinds is every adapter there is, by the name that the configuration
// uses. This file is the only place that names them.
var adapterKinds = map[string]adapterKind{
	"chat": {
		keys: []string{
			"base_url", "profile", "model", "api_key_env", "context_window", "max_output", "price_input", "price_cached_input",
			"price_output", "headers", "system", "connect_timeout", "first_byte_timeout", "idle_timeout", "attempts", "settings",
		},
		able: true, check: checkChat, open: openChat,
	},
	"codex":   {keys: append([]string{"settings"}, runtimeKeys...), check: checkRuntime, open: openCodex},
	"claude":  {keys: append([]string{"context_window"}, runtimeKeys...), check: checkRuntime, open: openClaude},
	"offline": {keys: []string{"model"}, check: checkOffline, open: openOffline},
}

func adapterNames() []string { return slices.Sorted(maps.Keys(adapterKinds)) }

func checkOffline(c providerConfig) (key toml.Key, problem string) {
	if c.Model != "" && c.Model != offline.ID {
		return toml.Key{"model"}, fmt.Sprintf("%q: the offline adapter has only %s", c.Model, offline.ID)
	}
	return nil, ""
}

func openOffline(string, providerConfig, environment) (adapters.Adapter, error) {
	return agent.New(offline.New()), nil
}

func checkChat(c providerConfig) (key toml.Key, problem string) {
	if c.BaseURL == "" {
		return nil, "base_url is missing: want an address such as http://127.0.0.1:8080/v1"
	}
	if c.Profile != "" && !slices.Contains(chat.Profiles(), c.Profile) {
		return toml.Key{"profile"}, fmt.Sprintf("%q is not one of: %s", c.Profile, strings.Join(chat.Profiles(), ", "))
	}
	if _, err := chat.New(chatOptions("", c, environment{})); err != nil {
		return toml.Key{"settings"}, fault.MessageOf(err)
	}
	return nil, ""
}

func chatOptions(name string, c providerConfig, env environment) chat.Options {
	o := chat.Options{
		Name: name, BaseURL: c.BaseURL, Profile: c.Profile, Model: c.Model, ContextWindow: c.ContextWindow, MaxOutput: c.MaxOutput,
		System: c.System, Headers: c.Headers, Overrides: map[string]string{}, Logger: env.log,
		Timeouts: chat.Timeouts{
			Connect: time.Duration(c.ConnectTimeout), FirstByte: time.Duration(c.FirstByteTimeout), Idle: time.Duration(c.IdleTimeout),
			Attempts: deref(c.Attempts),
		},
	}
	if c.APIKeyEnv != "" {
		o.APIKey = func() string { return env.getenv(c.APIKeyEnv) }
	}
	for k, v := range c.Settings {
		o.Overrides[k] = string(v)
	}
	return o
}

func openChat(name string, c providerConfig, env environment) (adapters.Adapter, error) {
	m, err := chat.New(chatOptions(name, c, env))
	if err != nil {
		return nil, err
	}
	if c.PriceInput == nil {
		return agent.New(m), nil
	}
	return agent.New(priced{m, adapters.Price{Input: *c.PriceInput, CachedInput: *cmp.Or(c.PriceCachedInput, c.PriceInput), Output: *c.PriceOutput}}), nil
}

// A priced model costs what the configuration says, whatever the server lists.
type priced struct {
	*chat.Model
	price adapters.Price
}

// Models implements adapters.Model.
func (p priced) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	list, err := p.Model.Models(ctx)
	for i := range list {
		list[i].Price = &p.price
	}
	return list, err
}

// openProviders makes the configured providers in their order; without any there
// is the embedded one, so that a fresh machine has something to talk to.
func openProviders(cfg config, env environment) ([]threads.Provider, error) {
	if len(cfg.order) == 0 {
		return []threads.Provider{{Name: "offline", Kind: "offline", Adapter: agent.New(offline.New())}}, nil
	}
	var out []threads.Provider
	for _, name := range cfg.order {
		p := cfg.Providers[name]
		adapter, err := adapterKinds[p.Adapter].open(name, p, env)
		if err != nil {
			return nil, fmt.Errorf("read configuration: providers.%s: %w", name, err)
		}
		out = append(out, threads.Provider{Name: name, Kind: p.Adapter, Adapter: adapter, Tools: adapterKinds[p.Adapter].able, AutoRebase: p.AutoRebase})
	}
	return out, nil
}

// titlesProvider is who runs the threads that only find a title for another one.
const titlesProvider = "title"

// ephemeralProviders are those of ephemeral threads beside the configured ones.
func ephemeralProviders() []threads.Provider {
	return []threads.Provider{{Name: titlesProvider, Kind: "titles", Adapter: agent.New(titles.New())}}
}
