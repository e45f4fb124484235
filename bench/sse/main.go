// Command sse measures what a subscriber that idles costs the server, and how
// soon one event reaches all of them.
//
//	go run ./bench/sse -n 2000
//
// The server runs in this process over an in-memory journal; the clients are a
// second process, so that their end of the connections is not counted. The
// target is 20 KB of resident memory each, and one second for 10,000 of them.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

const token = "bench"

func main() {
	n := flag.Int("n", 2000, "subscribers")
	client := flag.String("client", "", "run the clients of this `address/thread` (used by the command itself)")
	flag.Parse()
	run := func() error { return serve(*n) }
	if address, thread, ok := strings.Cut(*client, "/"); ok {
		run = func() error { return subscribe(*n, address, thread) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/sse:", err)
		os.Exit(1)
	}
}

// serve runs the server and the clients, and prints what it measured.
func serve(n int) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	svc, err := threads.Open(ctx, threads.Config{
		Journal:   mem.New(),
		Providers: []threads.Provider{{Name: "offline", Kind: "offline", Adapter: agent.New(offline.New())}},
	})
	if err != nil {
		cancel()
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return errors.Join(err, svc.Close(ctx))
	}
	served := make(chan error, 1)
	go func() {
		server := api.New(api.Options{Service: svc, Token: func() string { return token }, Limits: api.Limits{Streams: n, Requests: 1_000_000}})
		served <- server.Serve(ctx, ln)
	}()
	err = measure(ctx, svc, n, ln.Addr().String())
	cancel()
	return errors.Join(err, <-served, svc.Close(context.WithoutCancel(ctx)))
}

func measure(ctx context.Context, svc *threads.Service, n int, address string) error {
	thread, err := svc.CreateThread(ctx, threads.CreateParams{})
	if err != nil {
		return err
	}
	before, err := resident()
	if err != nil {
		return err
	}
	clients, err := start(ctx, n, address+"/"+string(thread.Thread.ID))
	if err != nil {
		return err
	}
	if err := clients.expect("live"); err != nil {
		return err
	}
	after, err := resident()
	if err != nil {
		return err
	}
	fmt.Printf("%d idle subscribers: %.1f KB of resident memory each (%d KB before, %d KB after), %d goroutines\n",
		n, float64(after-before)/float64(n), before, after, runtime.NumGoroutine())
	begun := time.Now()
	if _, err := svc.StartTurn(ctx, threads.StartTurnParams{Thread: thread.Thread.ID, Input: transcript.TextParts("hello")}); err != nil {
		return err
	}
	if err := clients.expect("event"); err != nil {
		return err
	}
	fmt.Printf("a turn's first event reached all of them in %v\n", time.Since(begun).Round(time.Millisecond))
	return clients.stop()
}

// resident returns the resident memory of this process in KB after a collection.
func resident() (int, error) {
	runtime.GC()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB")))
		}
	}
	return 0, errors.New("no VmRSS in /proc/self/status")
}

// clients is the second process.
type clients struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func start(ctx context.Context, n int, target string) (*clients, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-n", strconv.Itoa(n), "-client", target)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &clients{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (c *clients) expect(word string) error {
	line, err := c.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != word {
		err = fmt.Errorf("clients said %q, want %q", line, word)
	}
	return err
}

func (c *clients) stop() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// subscribe opens n streams, and says when all are live and when all got an
// event. It ends with its standard input.
func subscribe(n int, address, thread string) error {
	live, got := make(chan error, n), make(chan error, n)
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c, "GET /v1/threads/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", thread, token); err != nil {
			return err
		}
		go func() {
			r := bufio.NewReaderSize(c, 512)
			live <- readTo(r, `"method":"stream/live"`)
			got <- readTo(r, `"method":"turn/started"`)
		}()
	}
	for _, stage := range []struct {
		word string
		each chan error
	}{{"live", live}, {"event", got}} {
		for range n {
			if err := <-stage.each; err != nil {
				return err
			}
		}
		fmt.Println(stage.word)
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// readTo reads lines until one holds text.
func readTo(r *bufio.Reader, text string) error {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("wait for %s: %w", text, err)
		}
		if strings.Contains(line, text) {
			return nil
		}
	}
}
