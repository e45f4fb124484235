package chat

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/httpx"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Options describe one endpoint.
type Options struct {
	Name    string // of the provider, for messages
	BaseURL string // such as https://api.openai.com/v1 or http://localhost:11434
	Profile string // a name of Profiles; empty: guessed from BaseURL
	Model   string // the default; empty: the first one that the server lists
	// APIKey returns the key, or nothing. It is asked before each request. Nil: none.
	APIKey func() string
	// ContextWindow and MaxOutput are tokens, of Model or, if none is named, of every
	// model. 0: what the server says.
	ContextWindow, MaxOutput int
	System                   string
	Headers                  map[string]string // sent with each request
	// Overrides change the profile; Settings names what they may.
	Overrides map[string]string
	Timeouts  Timeouts
	Logger    *slog.Logger // nil: none

	dial func(ctx context.Context, network, addr string) (net.Conn, error) // in tests
}

// Timeouts bound the phases of a request. Zero values mean those of kit/httpx.
type Timeouts struct {
	Connect, FirstByte, Idle time.Duration
	// Attempts is how often a request is made at most.
	Attempts int
	// Backoff is the first wait before a request is made again whose stream failed
	// before it said anything; 500 ms.
	Backoff time.Duration
}

// Model is an adapters.Model.
type Model struct {
	o    Options
	p    profile
	base string // of chat completions
	root string // of the server's other interfaces
	http *httpx.Client
	lim  limits
	memory

	foundMu sync.Mutex // guards the fields below
	found   map[string]found
	asked   map[string]bool // models that the server was asked about for a request
}

var (
	_ adapters.Model   = (*Model)(nil)
	_ adapters.Carrier = (*Model)(nil)
)

// New returns the model of an endpoint. It asks the server nothing.
func New(o Options) (*Model, error) {
	u, err := url.Parse(strings.TrimSpace(o.BaseURL))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.Invalid, "provider %s: the base URL must be like https://host/v1", o.Name)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.New(fault.Invalid, "provider %s: the base URL holds a key, a query or a fragment; name the key's environment variable instead", o.Name)
	}
	p := guess(u)
	if o.Profile != "" {
		var known bool
		if p, known = byName(o.Profile); !known {
			return nil, fault.New(fault.Invalid, "provider %s: there is no profile %q; there are: %s", o.Name, o.Profile, strings.Join(Profiles(), ", "))
		}
	}
	if p, err = override(p, o.Overrides); err != nil {
		return nil, err
	}
	if o.ContextWindow < 0 || o.MaxOutput < 0 {
		return nil, fault.New(fault.Invalid, "provider %s: a number of tokens cannot be negative", o.Name)
	}
	o.Timeouts.Backoff = cmp.Or(o.Timeouts.Backoff, 500*time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	m := &Model{o: o, p: p, lim: bounds, base: strings.TrimRight(u.String(), "/"), found: map[string]found{}, asked: map[string]bool{}}
	for _, path := range []string{"/chat/completions", "/api/chat"} {
		m.base = strings.TrimSuffix(m.base, path)
	}
	m.root = strings.TrimSuffix(strings.TrimSuffix(m.base, "/v1"), "/api")
	m.http = httpx.New(httpx.Options{
		Connect: o.Timeouts.Connect, FirstByte: o.Timeouts.FirstByte, Idle: o.Timeouts.Idle,
		Attempts: o.Timeouts.Attempts, Secrets: m.secrets, Logger: o.Logger, Dial: o.dial,
	})
	return m, nil
}

// Close closes the connections that nobody uses.
func (m *Model) Close() { m.http.Close() }

// Profile is the name of the profile in use.
func (m *Model) Profile() string { return m.p.name }

// Base implements adapters.Model.
func (m *Model) Base() adapters.Base { return adapters.Base{System: m.o.System} }

// Compaction implements adapters.Model: chat completions have none.
func (m *Model) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{
		Code:   "nativeUnsupported",
		Reason: "chat completions have no compaction of their own",
		Remedy: adapters.UseLocal,
	}}
}

// secrets are the texts that no error may hold.
func (m *Model) secrets() []string {
	out := []string{m.key()}
	for name, value := range m.o.Headers {
		name = strings.ToLower(name)
		for _, word := range []string{"key", "token", "secret", "auth", "cookie"} {
			if strings.Contains(name, word) {
				out = append(out, value)
			}
		}
	}
	return out
}

func (m *Model) key() string {
	if m.o.APIKey == nil {
		return ""
	}
	return strings.TrimSpace(m.o.APIKey())
}

// header is that of every request.
func (m *Model) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"plimsoll"}}
	if key := m.key(); key != "" {
		if m.p.keyHeader != "" {
			h.Set(m.p.keyHeader, key)
		} else {
			h.Set("Authorization", "Bearer "+key)
		}
	}
	for name, value := range m.o.Headers {
		h.Set(name, value)
	}
	return h
}

// remember keeps what a server said of its models. What it says of a window is
// newer than what an error said.
func (m *Model) remember(list []found) {
	for _, f := range list {
		if f.window > 0 {
			m.forget(f.id)
			if m.names(f.id) {
				m.forget(m.o.Model)
			}
		}
	}
	m.foundMu.Lock()
	defer m.foundMu.Unlock()
	for _, f := range list {
		m.found[f.id] = f
		if m.names(f.id) {
			m.found[m.o.Model] = f
		}
	}
}

// known is what is known of a model without asking.
func (m *Model) known(id string) found {
	m.foundMu.Lock()
	defer m.foundMu.Unlock()
	f, is := m.found[id]
	if !is {
		f.id = id
	}
	return f
}

// firstAsk reports whether the server was not asked about a model yet, and that it
// is now.
func (m *Model) firstAsk(id string) bool {
	m.foundMu.Lock()
	defer m.foundMu.Unlock()
	_, known := m.found[id]
	first := !known && !m.asked[id]
	m.asked[id] = true
	return first
}

// askAgain takes a firstAsk back.
func (m *Model) askAgain(id string) {
	m.foundMu.Lock()
	defer m.foundMu.Unlock()
	delete(m.asked, id)
}

// lookUp returns what is known of the model of a request. Only Ollama is asked for
// it, once: a request there has to name the window that the model is loaded with.
func (m *Model) lookUp(ctx context.Context, id string) found {
	if m.p.native && m.configured(id, m.o.ContextWindow) == 0 && m.firstAsk(id) {
		list, err := probeOllama(ctx, m, id)
		if err != nil { // this time the builtin window holds
			m.askAgain(id)
		}
		for _, f := range list {
			if sameModel(f.id, id) {
				f.id = id
			}
			m.remember([]found{f})
		}
	}
	return m.known(id)
}
