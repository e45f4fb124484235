// Command scripted starts a model server that plays a cassette:
//
//	go run ./adapters/adaptertest/scripted [--listen ADDRESS] [--record FILE] CASSETTE
//
// It prints its URL, alone on the first line of stdout, and serves until it is
// interrupted. What goes wrong while the cassette is played, such as a request that
// nothing in it answers, is told on stderr. With --record each request becomes a
// line of JSON in FILE, without keys. The language of cassettes is that of package
// upstream; cassettes/ holds some.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "scripted:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scripted", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(stderr, "usage: scripted [--listen ADDRESS] [--record FILE] CASSETTE")
		flags.PrintDefaults()
	}
	listen := flags.String("listen", "127.0.0.1:0", "the `address` to serve at; port 0 is any free one")
	record := flags.String("record", "", "the `file` that requests are written to, one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return flag.ErrHelp
	}
	cassette, err := upstream.Load(flags.Arg(0))
	if err != nil {
		return err
	}
	var mu sync.Mutex // of stderr
	options := upstream.Options{Mistake: func(m string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(stderr, "scripted:", m)
	}}
	var out *os.File
	if *record != "" {
		if out, err = os.OpenFile(*record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		options.Recorded = recorder(out, options.Mistake)
	}
	var config net.ListenConfig
	if options.Listener, err = config.Listen(ctx, "tcp", *listen); err != nil {
		return err
	}
	server, err := upstream.Serve(cassette, options)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, server.URL)
	if err == nil {
		<-ctx.Done()
	}
	server.Close()
	if out != nil {
		err = errors.Join(err, out.Close())
	}
	return err
}

// A line is a request in the record.
type line struct {
	Method   string          `json:"method"`
	Path     string          `json:"path"`
	Header   http.Header     `json:"header"`
	Body     json.RawMessage `json:"body,omitempty"`
	Text     string          `json:"text,omitempty"` // of a body that is no JSON
	Tokens   int             `json:"tokens"`
	Writer   bool            `json:"writer,omitempty"`
	Exchange string          `json:"exchange,omitempty"`
	Refused  bool            `json:"refused,omitempty"`
}

// recorder writes requests, one a line, each at once.
func recorder(w io.Writer, mistake func(string)) func(upstream.Recorded) {
	var mu sync.Mutex
	return func(r upstream.Recorded) {
		l := line{
			Method: r.Method, Path: r.Path, Header: r.Header, Tokens: r.Tokens, Writer: r.Writer,
			Exchange: r.Exchange, Refused: r.Refused,
		}
		if json.Valid(r.Body) {
			l.Body = r.Body
		} else {
			l.Text = string(r.Body)
		}
		b, err := json.Marshal(l)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			_, err = w.Write(append(b, '\n'))
		}
		if err != nil {
			mistake("a request is not recorded: " + err.Error())
		}
	}
}
