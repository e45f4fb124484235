package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/api"
)

// checkProviders asks the home's owner what its providers say: one finding each, but for
// the broken ones, of which it is told elsewhere what is wrong.
func (m *Main) checkProviders(ctx context.Context, cl *client, cfg config, broken map[string]bool) []finding {
	var list api.ProviderListResult
	if err := cl.call(ctx, http.MethodGet, "/v1/providers", nil, &list); err != nil {
		return []finding{failed("providers", err.Error(), "see the server's log")}
	}
	var out []finding
	for _, p := range list.Data {
		if p.Error != nil && broken[p.Name] {
			continue
		}
		f := checkProvider(p, cfg.Providers[p.Name])
		if base := cfg.Providers[p.Name].BaseURL; f.Status != findingFailed && base != "" {
			// A configured model is listed whether or not its server is there.
			if err := answers(ctx, base); err != nil {
				f = failed("providers", fmt.Sprintf("%s (%s at %s) does not answer: %v", p.Name, p.Kind, base, err), "start its server, or correct base_url")
			} else if has := m.instead(ctx, p, cfg.Providers[p.Name]); len(has) > 0 {
				f = warning("providers", fmt.Sprintf("%s (%s at %s, %s) has no model %s", p.Name, p.Kind, base, plural(len(has), "model"), p.Models[0].ID),
					fmt.Sprintf("correct model in [providers.%s] of %s; it has %s", p.Name, configFile, fewOf(has)))
			}
		}
		out = append(out, f)
	}
	return out
}

// checkProvidersOf is checkProviders for a home that was never started: nothing is made
// in it, so another one with its configuration is opened for the moment.
func (m *Main) checkProvidersOf(ctx context.Context, h home, cfg config, broken map[string]bool) (out []finding) {
	failure := func(err error) []finding { return []finding{failed("providers", err.Error(), "see above")} }
	dir, err := os.MkdirTemp("", "plimsoll-doctor-")
	if err != nil {
		return failure(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			out = append(out, warning("providers", err.Error(), ""))
		}
	}()
	there := home{dir}
	text, err := os.ReadFile(h.path(configFile))
	if err == nil {
		err = os.WriteFile(there.path(configFile), text, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure(err)
	}
	cl, err := m.inProcess(ctx, there, m.openAsIs)
	if err != nil {
		return failure(err)
	}
	defer func() {
		if err := cl.close(); err != nil {
			out = append(out, failed("providers", err.Error(), ""))
		}
	}()
	return m.checkProviders(ctx, cl, cfg, broken)
}

// instead returns what a provider's server lists if the configured model is not among
// it, although the provider has that one first in any case. Without a model that is
// configured, and without a list, there is nothing to tell.
func (m *Main) instead(ctx context.Context, p api.Provider, cfg providerConfig) []string {
	if cfg.Model == "" || len(p.Models) == 0 {
		return nil
	}
	cfg.Model = ""
	adapter, err := adapterKinds[cfg.Adapter].open(p.Name, cfg, environment{getenv: m.Getenv, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil
	}
	list, err := adapter.Models(ctx)
	if err != nil { // this process may lack the key that the server has
		return nil
	}
	var ids []string
	for _, info := range list {
		if !slices.ContainsFunc(p.Models[1:], func(other api.Model) bool { return other.ID == info.ID }) {
			return nil // it is the configured one, under its own name or the server's
		}
		ids = append(ids, info.ID)
	}
	return ids
}

// fewOf lists names, as many as a line holds.
func fewOf(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// answers asks an address for anything, without a key. Whatever comes is an answer.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func checkProvider(p api.Provider, cfg providerConfig) finding {
	section := "[providers." + p.Name + "] of " + configFile
	about := fmt.Sprintf("%s (%s%s, %s)", p.Name, p.Kind, address(cfg), plural(len(p.Models), "model"))
	_, runtime := runtimeForms[p.Kind]
	switch {
	case p.Error != nil && runtime: // the program itself works here, and has a model of its own
		return warning("providers", fmt.Sprintf("%s (%s): %s", p.Name, p.Kind, strings.TrimPrefix(*p.Error, p.Name+": ")),
			"it is asked again; if that lasts, start the server with the PATH and the login of this terminal")
	case p.Error != nil:
		return failed("providers", fmt.Sprintf("%s (%s%s): %s", p.Name, p.Kind, address(cfg), *p.Error), "start its server, or correct "+section)
	case len(p.Models) == 0:
		return failed("providers", about, "name a model in "+section)
	}
	m := p.Models[0]
	if m.ContextWindow == nil && runtime {
		return okay("providers", about+": the window is learned from its first report")
	}
	if m.ContextWindow == nil {
		return warning("providers", about+": "+m.ID+" has a window that nobody knows, so its threads compact at the cap",
			"set context_window in "+section)
	}
	source := map[string]string{"config": "as configured", "server": "as its server says", "builtin": "built in"}
	about += fmt.Sprintf(": %s with %s tokens", m.ID, thousands(*m.ContextWindow))
	if m.WindowSource != nil {
		about += ", " + cmp.Or(source[*m.WindowSource], *m.WindowSource)
	}
	return okay("providers", about)
}

func address(cfg providerConfig) string {
	if cfg.BaseURL == "" {
		return ""
	}
	return " at " + cfg.BaseURL
}

// checkKeys looks whether the variables with keys are set, and shows none. The
// environment is the doctor's: that of a server that runs may be another one.
func checkKeys(m *Main, cfg config) []finding {
	var out []finding
	for _, name := range cfg.order {
		p := cfg.Providers[name]
		switch {
		case p.APIKeyEnv == "":
		case m.Getenv(p.APIKeyEnv) == "":
			out = append(out, warning("keys", fmt.Sprintf("%s, for %s, is not set here", p.APIKeyEnv, name),
				"export it where the server is started, or correct api_key_env"))
		case leavesInTheClear(p):
			out = append(out, warning("keys", fmt.Sprintf("%s goes to %s unencrypted", p.APIKeyEnv, p.BaseURL), "use https in base_url"))
		default:
			out = append(out, okay("keys", fmt.Sprintf("%s, for %s, is set", p.APIKeyEnv, name)))
		}
	}
	return out
}

// checkHooks looks for the programs of the hooks, and runs none.
func checkHooks(cfg config) []finding {
	var missing, found []string
	deny := false
	for _, event := range []struct {
		name string
		list []hookConfig
	}{{"pre_compact", cfg.Hooks.PreCompact}, {"post_compact", cfg.Hooks.PostCompact}} {
		for i, h := range event.list {
			hook := fmt.Sprintf("%s %d", event.name, i+1)
			path, err := proc.Find(h.Command[0])
			if err == nil {
				found = append(found, hook+": "+path)
				continue
			}
			missing = append(missing, fmt.Sprintf("%s: %s %s", hook, h.Command[0], whyNotRun(err)))
			deny = deny || h.OnFailure == "closed"
		}
	}
	const fix = "install it, or correct [hooks] in " + configFile
	switch detail := strings.Join(missing, "; "); {
	case deny:
		return []finding{failed("hooks", detail+"; compactions are denied", fix)}
	case len(missing) > 0:
		return []finding{warning("hooks", detail, fix)}
	case len(found) > 0:
		return []finding{okay("hooks", strings.Join(found, "; "))}
	}
	return nil
}

func whyNotRun(err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "is not in PATH"
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "is no program"
	}
	return "cannot be run: " + err.Error()
}
