package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The models of the server: what each of them answers.
const (
	plainModel = "plain"
	args5      = "args-5"
	args10     = "args-10"
)

// process is the model server, as this process sees it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startServer() (*process, string, error) {
	cmd := exec.Command(os.Args[0], "-serve")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	return &process{cmd, in}, strings.TrimSpace(url), err
}

func (p *process) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// bodies are the requests that the server was sent.
type bodies struct {
	mu  sync.Mutex
	all [][]byte
}

func (b *bodies) add(body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, body)
}

// serveModel is the second process. It ends with its standard input.
func serveModel() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var asked bodies
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":[{"id":%q},{"id":%q},{"id":%q}]}`, plainModel, args5, args10)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		asked.add(body)
		answer(w, body)
	})
	mux.HandleFunc("GET /bodies", func(w http.ResponseWriter, _ *http.Request) {
		asked.mu.Lock()
		defer asked.mu.Unlock()
		if err := json.NewEncoder(w).Encode(asked.all); err != nil {
			return
		}
		asked.all = nil
	})
	fmt.Printf("http://%s/v1\n", l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	if err := (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// answer streams ten words, or one call with a long argument.
func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	var req struct {
		Model    string
		Messages []struct{ Role string }
	}
	if json.Unmarshal(body, &req) != nil || len(req.Messages) == 0 {
		return
	}
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }()
	send := func(s string) {
		_, _ = fmt.Fprintf(out, "data: %s\n\n", s)
		_ = out.Flush()
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	size := map[string]int{args5: 5 << 20, args10: 10 << 20}[req.Model]
	if size == 0 || req.Messages[len(req.Messages)-1].Role == "tool" {
		for i := range 10 {
			send(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"word%d "}}]}`, i))
		}
		finish(send, "stop", len(body)/4)
		return
	}
	send(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"write","arguments":"{\"text\":\""}}]}}]}`)
	piece := strings.Repeat("abcdefgh", 128)
	for range size / len(piece) {
		_, _ = fmt.Fprintf(out, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}}]}`+"\n\n", piece)
	}
	send(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}}]}`)
	finish(send, "tool_calls", len(body)/4)
}

func finish(send func(string), reason string, tokens int) {
	send(fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason))
	send(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":20,"total_tokens":%d}}`, tokens, tokens+20))
	send("[DONE]")
}

// lastBodies returns the requests that the server was sent since the last time.
func lastBodies(url string, want int) ([][]byte, error) {
	res, err := http.Get(strings.TrimSuffix(url, "/v1") + "/bodies")
	if err != nil {
		return nil, err
	}
	var all [][]byte
	err = errors.Join(json.NewDecoder(res.Body).Decode(&all), res.Body.Close())
	if err == nil && len(all) != want {
		err = fmt.Errorf("the model was asked %d times, want %d", len(all), want)
	}
	return all, err
}

// exchange sends requests with net/http and reads the answers line by line.
func exchange(url string, all [][]byte) error {
	for _, body := range all {
		res, err := http.Post(url+"/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
		}
		if err := errors.Join(lines.Err(), res.Body.Close()); err != nil {
			return err
		}
	}
	_, err := lastBodies(url, len(all))
	return err
}

// spend returns the processor time that this process uses while f runs.
func spend(f func() error) (time.Duration, error) {
	before, err := used()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := used()
	return after - before, err
}

func used() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
