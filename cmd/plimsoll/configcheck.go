package main

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/hooks"
)

// check refuses what is well-formed and cannot work.
func (c config) check(src []byte) error {
	for _, check := range []func([]byte) error{
		c.checkServer, c.checkProviders, c.checkCompaction, c.checkWriter, c.checkHooks, c.checkLimits,
	} {
		if err := check(src); err != nil {
			return err
		}
	}
	return nil
}

func (c config) checkServer(src []byte) error {
	for _, host := range c.Server.Hosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			return wrong(src, toml.Key{"server", "hosts"}, "%q is not a host name", host)
		}
	}
	for _, origin := range c.Server.Origins {
		if !validOrigin(origin) {
			return wrong(src, toml.Key{"server", "origins"}, "%q is not an origin such as https://ui.example or http://localhost:3000", origin)
		}
	}
	if addr := c.Server.Listen; addr != "" {
		if problem := addressProblem(addr); problem != "" {
			return wrong(src, toml.Key{"server", "listen"}, "%q: %s", addr, problem)
		}
	}
	return nil
}

// validOrigin reports whether s is scheme://host[:port] and nothing more.
func validOrigin(s string) bool {
	scheme, host, ok := strings.Cut(s, "://")
	return ok && (scheme == "http" || scheme == "https") && host != "" && !strings.ContainsAny(host, "/*?#@ ")
}

func (c config) checkProviders(src []byte) error {
	for _, name := range c.order {
		key := toml.Key{"providers", name}
		p := c.Providers[name]
		kind, ok := adapterKinds[p.Adapter]
		if !ok {
			if p.Adapter != "" {
				key = append(key, "adapter")
			}
			return fmt.Errorf("%d: providers.%s.adapter: %q is not one of: %s", lineOf(src, key), name, p.Adapter, strings.Join(adapterNames(), ", "))
		}
		if name == titlesProvider {
			return wrong(src, key, "the name is taken by the server's own; choose another")
		}
		for _, k := range p.set() {
			if !slices.Contains(kind.keys, k) {
				return wrong(src, append(key, k), "the adapter %s does not know it; it knows adapter, %s", p.Adapter, strings.Join(kind.keys, ", "))
			}
		}
		if err := p.check(src, key); err != nil {
			return err
		}
		if kind.check != nil {
			if k, problem := kind.check(p); problem != "" {
				if len(k) > 0 && slices.Contains(p.set(), k[0]) {
					key = append(key, k...)
				}
				return wrong(src, key, "%s", problem)
			}
		}
	}
	return nil
}

// set lists the keys that a provider has beside its adapter.
func (p providerConfig) set() []string {
	has := map[string]bool{
		"base_url": p.BaseURL != "", "profile": p.Profile != "", "model": p.Model != "", "api_key_env": p.APIKeyEnv != "",
		"context_window": p.ContextWindow != 0, "max_output": p.MaxOutput != 0,
		"price_input": p.PriceInput != nil, "price_cached_input": p.PriceCachedInput != nil, "price_output": p.PriceOutput != nil,
		"headers": p.Headers != nil, "system": p.System != "", "settings": p.Settings != nil, "attempts": p.Attempts != nil,
		"program": p.Program != "", "home": p.Home != "", "env": p.Env != nil,
		"compact_timeout": p.CompactTimeout != 0, "auto_rebase": p.AutoRebase,
		"connect_timeout": p.ConnectTimeout != 0, "first_byte_timeout": p.FirstByteTimeout != 0, "idle_timeout": p.IdleTimeout != 0,
	}
	maps.DeleteFunc(has, func(_ string, set bool) bool { return !set })
	return slices.Sorted(maps.Keys(has))
}

// Bounds of what may be configured.
const (
	minWindow    = 1_000 // tokens; less holds no thread
	maxPrice     = 1_000_000
	maxAttempts  = 10
	maxHooks     = 16 // of one event
	maxHookLimit = 10 * time.Minute
	maxPeers     = 1_000_000 // more than a machine can serve
)

func (p providerConfig) check(src []byte, key toml.Key) error {
	at := func(name string) toml.Key { return append(slices.Clip(key), name) }
	if p.BaseURL != "" {
		if problem := baseProblem(p.BaseURL); problem != "" {
			return wrong(src, at("base_url"), "%s", problem)
		}
	}
	if p.APIKeyEnv != "" && !variable.MatchString(p.APIKeyEnv) { // not shown: it may be a key
		return wrong(src, at("api_key_env"), "want the name of a variable of the environment, such as OPENAI_API_KEY; the key itself is never in this file")
	}
	if p.ContextWindow != 0 && (p.ContextWindow < minWindow || p.ContextWindow > maxTokens) {
		return wrong(src, at("context_window"), "want a number of tokens from %s to %s", thousands(minWindow), thousands(maxTokens))
	}
	if p.MaxOutput < 0 || p.MaxOutput > maxTokens || p.ContextWindow > 0 && p.MaxOutput >= p.ContextWindow {
		return wrong(src, at("max_output"), "want a number of tokens from 1 to %s, and less than context_window", thousands(maxTokens))
	}
	if n := p.Attempts; n != nil && (*n < 1 || *n > maxAttempts) {
		return wrong(src, at("attempts"), "want a number from 1 to %d, or leave it out", maxAttempts)
	}
	if err := p.checkPrices(src, key); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		switch {
		case !headerName.MatchString(name) || strings.ContainsAny(p.Headers[name], "\r\n\x00"):
			return wrong(src, at("headers"), "%q is no header, or its value has more than one line", name)
		case secretHeader.MatchString(name):
			return wrong(src, at("headers"), "%s may hold a secret, which is never in this file; name a variable in api_key_env", name)
		}
	}
	return nil
}

func (p providerConfig) checkPrices(src []byte, key toml.Key) error {
	prices := map[string]*float64{"price_input": p.PriceInput, "price_cached_input": p.PriceCachedInput, "price_output": p.PriceOutput}
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if v := prices[name]; v != nil && !(*v >= 0 && *v <= maxPrice) {
			return wrong(src, append(slices.Clip(key), name), "want US dollars per million tokens, from 0 to %s", thousands(maxPrice))
		}
	}
	if (p.PriceInput == nil) != (p.PriceOutput == nil) || p.PriceCachedInput != nil && p.PriceInput == nil {
		return wrong(src, key, "a price needs both price_input and price_output, in US dollars per million tokens")
	}
	return nil
}

var (
	variable     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`)
	secretHeader = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|password|credential`)
)

// baseProblem says what is wrong with the address of a provider. It shows nothing of
// one that may hold a password.
func baseProblem(s string) string {
	const want = "want an address such as http://127.0.0.1:8080/v1 or https://api.example/v1"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return want
	case u.User != nil:
		return "no name and no password may be in it; name a variable in api_key_env"
	case u.RawQuery != "" || u.Fragment != "":
		return want + ", without ? and #"
	}
	return ""
}

// leavesInTheClear reports whether a key would go over a network unencrypted.
func leavesInTheClear(p providerConfig) bool {
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Scheme != "http" || p.APIKeyEnv == "" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !addr.IsLoopback())
}

// minCap is the smallest cap that leaves room for a checkpoint.
const minCap = 4_000

func (c config) checkCompaction(src []byte) error {
	p := c.Compaction
	at := func(name string) toml.Key { return toml.Key{"compaction", name} }
	if err := oneOfThese(src, at("route"), compaction.Route(p.Route), compaction.RouteNative, compaction.RouteLocal); err != nil {
		return err
	}
	if err := oneOfThese(src, at("preset"), compaction.Preset(p.Preset), compaction.Presets...); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"limit", p.Limit}, {"reserve", p.Reserve}} {
		if n.value < 0 || n.value > maxTokens {
			return wrong(src, at(n.name), "want a number of tokens from 1 to %s, or leave it out", thousands(maxTokens))
		}
	}
	if n := p.Cap; n != nil && (*n < minCap || *n > maxTokens) {
		return wrong(src, at("cap"), "want a number of tokens from %s to %s, or leave it out", thousands(minCap), thousands(maxTokens))
	}
	if p.Limit != 0 && compaction.Preset(p.Preset) != compaction.PresetCodex {
		return wrong(src, at("limit"), `only preset = "codex" has a limit`)
	}
	if p.Reserve != 0 && p.Preset != string(compaction.PresetPi) && p.Preset != string(compaction.PresetClaudeCode) {
		return wrong(src, at("reserve"), `only preset = "pi" and preset = "claude-code" have a reserve`)
	}
	return nil
}

func (c config) checkWriter(src []byte) error {
	p := c.Compaction
	at := func(name string) toml.Key { return toml.Key{"compaction", name} }
	writers := []compaction.Writer{compaction.WriterModel, compaction.WriterExtractive, compaction.WriterFixed}
	if err := oneOfThese(src, at("writer"), compaction.Writer(p.Writer), writers...); err != nil {
		return err
	}
	if p.Writer != "" && p.Writer != string(compaction.WriterModel) {
		for _, k := range []struct {
			name string
			set  bool
		}{{"writer_provider", p.WriterProvider != ""}, {"writer_model", p.WriterModel != ""}, {"writer_timeout", p.WriterTimeout != 0}} {
			if k.set {
				return wrong(src, at(k.name), `it counts for writer = "model" only`)
			}
		}
	}
	if p.WriterProvider == "" {
		return nil
	}
	var able []string
	for _, name := range c.order {
		if adapterKinds[c.Providers[name].Adapter].able {
			able = append(able, name)
		}
	}
	switch {
	case len(able) == 0:
		return wrong(src, at("writer_provider"), "%q: no provider that can write is configured; leave it out, or add one in [providers.NAME]", p.WriterProvider)
	case !slices.Contains(able, p.WriterProvider):
		return wrong(src, at("writer_provider"), "%q is not one of the providers that can write: %s", p.WriterProvider, strings.Join(able, ", "))
	}
	return nil
}

func (c config) checkHooks(src []byte) error {
	for _, event := range []string{"pre_compact", "post_compact"} {
		list := c.Hooks.PreCompact
		if event == "post_compact" {
			list = c.Hooks.PostCompact
		}
		if len(list) > maxHooks {
			return wrong(src, toml.Key{"hooks", event, fmt.Sprint(maxHooks)}, "there can be %d at most", maxHooks)
		}
		for i, h := range list {
			if err := h.check(src, event, toml.Key{"hooks", event, fmt.Sprint(i)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h hookConfig) check(src []byte, event string, key toml.Key) error {
	at := func(name string) toml.Key { return append(slices.Clip(key), name) }
	if len(h.Command) == 0 || h.Command[0] == "" {
		if h.Command != nil {
			key = at("command")
		}
		return wrong(src, key, `want command = ["PROGRAM", "ARGUMENT", …]; no shell reads it`)
	}
	// A relative path would be one of the thread's folder: files of a project never
	// choose what is run.
	if strings.Contains(h.Command[0], "/") && !strings.HasPrefix(h.Command[0], "/") {
		return wrong(src, at("command"), "%q: want an absolute path, or a name that PATH finds", h.Command[0])
	}
	if slices.ContainsFunc(h.Command, func(arg string) bool { return strings.Contains(arg, "\x00") }) {
		return wrong(src, at("command"), "an argument has a zero byte")
	}
	if time.Duration(h.Timeout) > maxHookLimit {
		return wrong(src, at("timeout"), "want at most %v", maxHookLimit)
	}
	if event == "post_compact" && h.OnFailure != "" {
		return wrong(src, at("on_failure"), "a hook after the compaction cannot deny it, so that its failure is always a warning; leave it out")
	}
	if err := oneOfThese(src, at("on_failure"), h.OnFailure, "open", "closed"); err != nil {
		return err
	}
	if err := oneOfThese(src, at("trigger"), hooks.Match(h.Trigger), hooks.MatchManual, hooks.MatchAuto); err != nil {
		return err
	}
	for _, name := range h.Env {
		if !variable.MatchString(name) { // not shown: it may be NAME=secret
			return wrong(src, at("env"), "want names of variables of the environment, without their values")
		}
	}
	return nil
}

func (c config) checkLimits(src []byte) error {
	for _, l := range []struct {
		name string
		n    *int
	}{{"peers", c.Limits.Peers}, {"token_peers", c.Limits.TokenPeers}, {"requests", c.Limits.Requests}} {
		if l.n != nil && (*l.n < 1 || *l.n > maxPeers) {
			return wrong(src, toml.Key{"limits", l.name}, "want a number from 1 to %s, or leave it out", thousands(maxPeers))
		}
	}
	return nil
}
