package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
	"github.com/plimsoll-dev/plimsoll/adapters/titles"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// adapterKinds is every adapter there is, by the name that the configuration
// uses. This file is the only place that names them.
var adapterKinds = map[string]func(providerConfig) (adapters.Adapter, error){
	"offline": newOffline,
}

func adapterNames() []string { return slices.Sorted(maps.Keys(adapterKinds)) }

func newOffline(c providerConfig) (adapters.Adapter, error) {
	if c.APIKeyEnv != "" {
		return nil, errors.New("api_key_env: the offline adapter needs no key")
	}
	if c.Model != "" && c.Model != offline.ID {
		return nil, fmt.Errorf("model: the offline adapter has only %s", offline.ID)
	}
	return agent.New(offline.New()), nil
}

// openProviders makes the configured providers in their order; without any there
// is the embedded one, so that a fresh machine has something to talk to.
func openProviders(cfg config) ([]threads.Provider, error) {
	if len(cfg.order) == 0 {
		return []threads.Provider{{Name: "offline", Kind: "offline", Adapter: agent.New(offline.New())}}, nil
	}
	var out []threads.Provider
	for _, name := range cfg.order {
		p := cfg.Providers[name]
		adapter, err := adapterKinds[p.Adapter](p)
		if err != nil {
			return nil, fmt.Errorf("read configuration: providers.%s: %w", name, err)
		}
		out = append(out, threads.Provider{Name: name, Kind: p.Adapter, Adapter: adapter})
	}
	return out, nil
}

// titlesProvider is who runs the threads that only find a title for another one.
const titlesProvider = "title"

// ephemeralProviders are those of ephemeral threads beside the configured ones.
func ephemeralProviders() []threads.Provider {
	return []threads.Provider{{Name: titlesProvider, Kind: "titles", Adapter: agent.New(titles.New())}}
}
