package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
)

type serveCmd struct {
	homeFlag
	Listen string `placeholder:"ADDRESS" help:"Where to listen (default: [server] listen of config.toml, else 127.0.0.1:4517)."`
	logFlags
}

// logFlags are the flags of every command that is a server.
type logFlags struct {
	Log   bool `help:"Also append the log to HOME/log."`
	Debug bool `help:"Log more. What is said in threads is never logged."`
}

// Run serves a home until the context ends.
func (c *serveCmd) Run(ctx context.Context, m *Main) (err error) {
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
	s, err := m.startServer(ctx, h, c.Listen, log)
	if err != nil {
		return err
	}
	s.announce(m.Stdout, m.style)
	log.Info("serving", "address", s.tcp.Addr().String(), "home", h.dir, "pid", os.Getpid())
	err = s.wait()
	log.Info("stopped")
	return err
}

// logger logs to stderr, as JSON unless somebody watches, and on request to the
// home as well. A line that repeats too often is held back.
func (c logFlags) logger(m *Main, h home) (*slog.Logger, func() error, error) {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if c.Debug {
		opts.Level = slog.LevelDebug
	}
	var handler slog.Handler = slog.NewJSONHandler(m.Stderr, opts)
	if isTerminal(m.Stderr) {
		handler = slog.NewTextHandler(m.Stderr, opts)
	}
	if !c.Log {
		return slog.New(newQuiet(handler)), func() error { return nil }, nil
	}
	f, err := os.OpenFile(h.path(logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	return slog.New(newQuiet(slog.NewMultiHandler(handler, slog.NewJSONHandler(f, opts)))), f.Close, nil
}

// A server serves a home on its socket, and on whatever else it listens on.
type server struct {
	*running
	tcp  net.Listener    // nil if it listens on none
	done chan error      // one for each listener
	n    int             // of listeners
	ctx  context.Context // of the listeners and connections
	stop context.CancelFunc

	unhook  func() bool // from the context that ends it
	drained sync.Once
}

// startServer owns the home and serves it until ctx is done; then wait returns.
// An empty address means the configured one.
func (m *Main) startServer(ctx context.Context, h home, listen string, log *slog.Logger) (*server, error) {
	r, err := m.openHome(h, lock{}, log)
	if err != nil {
		return nil, err
	}
	s, err := r.listenAsConfigured(ctx, listen)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return s, nil
}

func (r *running) listenAsConfigured(ctx context.Context, addr string) (*server, error) {
	if addr == "" {
		addr = r.cfg.Server.Listen
	}
	if addr == "" {
		addr = defaultListen
	}
	if err := checkListen(addr, r.cfg.Server.Hosts); err != nil {
		return nil, err
	}
	if _, err := r.home.token(); err != nil {
		return nil, err
	}
	return r.listen(ctx, addr)
}

// listen serves on a TCP address and on the home's socket.
func (r *running) listen(ctx context.Context, addr string) (*server, error) {
	tcp, err := listenTCP(addr)
	if err != nil {
		return nil, err
	}
	s, err := r.serveSockets(ctx, r.home.path(socketFile))
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	s.tcp = tcp
	s.serve(func(ctx context.Context) error { return r.api.Serve(ctx, tcp) })
	return s, nil
}

// serveSockets serves on unix sockets, the first of which is the home's.
func (r *running) serveSockets(ctx context.Context, paths ...string) (*server, error) {
	var socks []net.Listener
	for _, path := range paths {
		l, err := listenUnix(path, path == paths[0])
		if err != nil {
			for _, l := range socks {
				err = errors.Join(err, l.Close())
			}
			return nil, err
		}
		socks = append(socks, l)
	}
	s := &server{running: r, done: make(chan error, len(socks)+1)}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.unhook = context.AfterFunc(ctx, s.end)
	for _, l := range socks {
		s.serve(func(ctx context.Context) error { return r.api.ServePrivate(ctx, l) })
	}
	return s, nil
}

func (s *server) serve(f func(context.Context) error) {
	s.n++
	go func() { s.done <- f(s.ctx) }()
}

// wait returns when the server has stopped and given up the home. If one listener
// fails, the others are stopped too.
func (s *server) wait() error {
	err := <-s.done
	s.unhook()
	s.end()
	for range s.n - 1 {
		err = errors.Join(err, <-s.done)
	}
	return errors.Join(err, s.Close())
}

// close stops the server and gives the home up.
func (s *server) close() error {
	s.end()
	return s.wait()
}

// url is where the API is.
func (s *server) url() string {
	addr := s.tcp.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = s.cfg.Server.Hosts[0]
	}
	return "http://" + net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(addr.Port))
}

// describedBy is a command that prints the description of the API, which needs the token
// as everything does.
func describedBy(url, token string) string {
	return `curl -H "Authorization: Bearer $(` + token + `)" ` + url + "/openapi.yaml"
}

// announce says where the server is and how to get the token, never the token.
func (s *server) announce(w io.Writer, st style) {
	say(w, "%s %s\n", st.bold("plimsoll"), version)
	t := &table{head: []string{"", ""}}
	t.add("  api", s.url()+"/v1")
	token := "plimsoll token --home " + shellWord(s.home.dir)
	t.add("  description", describedBy(s.url(), token))
	t.add("  home", s.home.dir)
	t.add("  token", token)
	t.print(w, st)
	// Two short lines that a shell reads as one command, wherever they are copied to.
	say(w, "\nThe terminal UI of codex, from another terminal:\n\nPLIMSOLL_TOKEN=$(%s) \\\ncodex --remote ws%s --remote-auth-token-env PLIMSOLL_TOKEN\n\n",
		token, strings.TrimPrefix(s.url(), "http"))
}

// shellWord quotes s for a shell if that is needed.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
