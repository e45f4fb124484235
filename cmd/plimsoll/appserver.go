package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
)

// appServerCmd has the flags of `codex app-server`, so that a program which starts
// that one can start this one.
type appServerCmd struct {
	homeFlag
	Listen string `default:"stdio://" placeholder:"URL" help:"Where clients connect: stdio://, ws://IP:PORT, unix://PATH, or unix:// for the home's socket (default: stdio://)."`
	Stdio  bool   `help:"The same as --listen stdio://."`
	wsAuth
	logFlags
	codexFlags
}

// codexFlags are flags that codex's clients pass and that mean nothing here.
type codexFlags struct {
	Config                  []string `short:"c" sep:"none" placeholder:"KEY=VALUE" help:"Ignored, as are the next four: codex's clients may pass them."`
	Enable                  []string `sep:"none" placeholder:"FEATURE" help:"Ignored."`
	Disable                 []string `sep:"none" placeholder:"FEATURE" help:"Ignored."`
	StrictConfig            bool     `help:"Ignored."`
	AnalyticsDefaultEnabled bool     `help:"Ignored."`
}

// given names the flags that were passed.
func (f codexFlags) given() []string {
	var names []string
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"--config", len(f.Config) > 0},
		{"--enable", len(f.Enable) > 0},
		{"--disable", len(f.Disable) > 0},
		{"--strict-config", f.StrictConfig},
		{"--analytics-default-enabled", f.AnalyticsDefaultEnabled},
	} {
		if flag.set {
			names = append(names, flag.name)
		}
	}
	return names
}

// Run speaks codex's protocol with one client on stdio, or with many on a listener.
func (c *appServerCmd) Run(ctx context.Context, m *Main) (err error) {
	if c.Stdio {
		c.Listen = stdioURL
	}
	at, err := parseEndpoint(c.Listen)
	if err != nil {
		return err
	}
	if err := c.wsAuth.check(at); err != nil {
		return err
	}
	h, err := c.resolve(m)
	if err != nil {
		return err
	}
	if err := h.create(); err != nil {
		return err
	}
	log, closeLog, err := c.logger(m, h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if names := c.given(); len(names) > 0 {
		log.Warn("flags of codex that mean nothing here are ignored; see config.toml of the home", "flags", strings.Join(names, " "))
	}
	switch at.network {
	case "tcp":
		return c.serveWebSocket(ctx, m, h, at, log)
	case "unix":
		return m.serveUnix(ctx, h, at, log)
	}
	return m.serveStdio(ctx, h, log)
}

// An endpoint is where clients connect.
type endpoint struct {
	network string // stdio, tcp or unix
	address string // of tcp; of unix a path, empty for the home's own socket
}

const stdioURL = "stdio://"

// parseEndpoint reads a --listen URL.
func parseEndpoint(url string) (endpoint, error) {
	if url == stdioURL {
		return endpoint{network: "stdio"}, nil
	}
	if address, ok := strings.CutPrefix(url, "ws://"); ok {
		if problem := addressProblem(address); problem != "" {
			return endpoint{}, usagef("--listen %s: %s", url, strings.Replace(problem, defaultListen, "ws://"+defaultListen, 1))
		}
		return endpoint{"tcp", address}, nil
	}
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		if path == "" {
			return endpoint{network: "unix"}, nil
		}
		path, err := filepath.Abs(path)
		return endpoint{"unix", path}, err
	}
	return endpoint{}, usagef("unsupported --listen URL `%s`; expected `stdio://`, `unix://`, `unix://PATH` or `ws://IP:PORT`", url)
}

// open reports whether others than this machine could reach the endpoint.
func (e endpoint) open() bool {
	host, _, _ := net.SplitHostPort(e.address)
	return e.network == "tcp" && !isLoopback(host)
}

// serveWebSocket owns the home and serves it on TCP.
func (c *appServerCmd) serveWebSocket(ctx context.Context, m *Main, h home, at endpoint, log *slog.Logger) error {
	lock, err := c.lock(h, log)
	if err != nil {
		return err
	}
	if lock.hosts, err = addressesOf(at); err != nil {
		return err
	}
	r, err := m.openHome(h, lock, log)
	if err != nil {
		return err
	}
	s, err := r.listen(ctx, at.address)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	addr := s.tcp.Addr()
	say(m.Stderr, "plimsoll app-server (WebSockets)\n  listening on: ws://%s\n  readyz: http://%s/readyz\n  healthz: http://%s/healthz\n", addr, addr, addr)
	if c.Mode == "" {
		say(m.Stderr, "  token: plimsoll token --home %s\n", shellWord(h.dir))
	}
	return s.wait()
}

// addressesOf returns the names under which clients may address an endpoint that is
// no loopback one: addresses, which no other site's name can be made to mean.
func addressesOf(at endpoint) ([]string, error) {
	host, _, _ := net.SplitHostPort(at.address)
	ip := net.ParseIP(host)
	switch {
	case !at.open() || host != "" && ip == nil:
		return nil, nil
	case ip != nil && !ip.IsUnspecified():
		return []string{hostOf(ip)}, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at.address, err)
	}
	var names []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			names = append(names, hostOf(n.IP))
		}
	}
	return names, nil
}

// hostOf writes an address as a Host header does.
func hostOf(ip net.IP) string {
	if ip.To4() == nil {
		return "[" + ip.String() + "]"
	}
	return ip.String()
}

// serveUnix owns the home and serves it on its own socket and, if the endpoint
// names one, on another.
func (m *Main) serveUnix(ctx context.Context, h home, at endpoint, log *slog.Logger) error {
	r, err := m.openHome(h, lock{}, log)
	if err != nil {
		return err
	}
	private := []string{h.path(socketFile)}
	if at.address != "" && at.address != private[0] {
		private = append(private, at.address)
	}
	s, err := r.serveSockets(ctx, private...)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	say(m.Stderr, "plimsoll app-server (unix socket)\n  listening on: unix://%s\n", private[len(private)-1])
	return s.wait()
}
