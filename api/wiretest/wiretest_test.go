package wiretest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// A parrot answers each request with its parameters, and then says the frames that
// they hold.
type parrot struct{ ends []jsonrpc.Transport }

func (p *parrot) Dial() (jsonrpc.Transport, error) {
	client, server := jsonrpc.Pipe()
	p.ends = append(p.ends, server)
	go func() {
		for {
			b, err := server.Read()
			if err != nil {
				return
			}
			var f struct {
				ID     json.RawMessage `json:"id"`
				Params struct {
					Say []json.RawMessage `json:"say"`
				} `json:"params"`
			}
			if json.Unmarshal(b, &f) != nil || f.ID == nil {
				continue
			}
			_ = server.Write(fmt.Appendf(nil, `{"id":%s,"result":{}}`, f.ID)) // the client may be gone
			for _, say := range f.Params.Say {
				_ = server.Write(say)
			}
		}
	}()
	return client, nil
}

func (p *parrot) Restart() error {
	for _, end := range p.ends {
		_ = end.Close(jsonrpc.StatusNormal, "")
	}
	p.ends = nil
	return nil
}

// A witness takes down what a test says of itself.
type witness struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

func (w *witness) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }

// played returns what is said of a script, with or without time of the test's own.
func played(t *testing.T, wire string, own bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.txtar")
	if err := os.WriteFile(path, []byte("-- fake --\n"+wireHead+wire), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		return err.Error()
	}
	w := &witness{TB: t}
	p := &parrot{}
	run := Run{Server: p}
	if own {
		run.Settle = func(d time.Duration) { <-time.After(d); synctest.Wait() }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run.Play(w, s)
	}()
	<-done
	if err := p.Restart(); err != nil {
		t.Error(err)
	}
	return strings.Join(w.said, "\n")
}

const id = "00000000-0000-7000-8000-000000000001"

func TestAScriptFailsExactlyWhenItIsWrong(t *testing.T) {
	delta := func(at int, text string) string {
		return fmt.Sprintf(`{"method":"x/delta","params":{"itemId":"i","offset":%d,"delta":%q}}`, at, text)
	}
	ok := `A< {"id":1,"result":{}}` + "\n"
	joined := `A< {"deltas":"abcd","itemId":"i","method":"x/delta","offset":0}` + "\n"
	says := func(frames ...string) string {
		return `A> {"id":1,"method":"m","params":{"say":[` + strings.Join(frames, ",") + `]}}` + "\n" + ok
	}
	for name, c := range map[string]struct{ wire, want string }{
		"right":            {says(`{"method":"n","params":{"at":7,"startedAt":9,"id":"`+id+`"}}`) + `A< {"method":"n","params":{"at":7,"startedAt":0,"id":"$1"}}` + "\n", ""},
		"two clients":      {says() + strings.ReplaceAll(says(`{"method":"n"}`), "A", "B") + `B< {"method":"n"}` + "\n", ""},
		"after a restart":  {says() + "restart\n" + says(), ""},
		"joined":           {says(delta(0, "ab"), delta(2, "c"), delta(3, "d")) + joined, ""},
		"more than wanted": {says(`{"method":"n"}`), `"n"`},
		"another":          {says(`{"method":"n"}`) + `A< {"method":"o"}` + "\n", "what A received"},
		"another order":    {says(`{"method":"n"}`, `{"method":"o"}`) + "A< {\"method\":\"o\"}\nA< {\"method\":\"n\"}\n", "what A received"},
		"a hole":           {says(delta(0, "ab"), delta(3, "cd")) + joined, "the text before it ends at 2"},
		"longer":           {says(delta(0, "abcd"), delta(4, "e")) + joined, "e"},
		"unknown name":     {`A> {"id":1,"method":"m","params":{"id":"$1"}}` + "\n", "nothing is called $1 yet"},
		"no such request":  {says() + `A> {"id":9,"result":{}}` + "\n", "answers no request"},
		"no client":        {"A gone\n", "there is no client A"},
		"no step":          {"A= {}\n", "no step"},
		"no duration":      {"wait long\n", "invalid duration"},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(t *testing.T, own bool) {
				got := played(t, c.wire, own)
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("own time %v: said %q, want %q", own, got, c.want)
				}
			}
			check(t, false)
			synctest.Test(t, func(t *testing.T) { check(t, true) })
		})
	}
}

func TestAnUpdatedScriptIsRight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.txtar")
	wire := "# A word.\nA> {\"id\":1,\"method\":\"m\",\"params\":{\"say\":[{\"method\":\"n\"}]}}\nA< {\"id\":7}\nwait 2s\n"
	if err := os.WriteFile(path, []byte("Head.\n-- fake --\n"+wireHead+wire), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, update := range []bool{true, false} {
		s, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			p := &parrot{}
			Run{Server: p, Update: update, Settle: func(d time.Duration) { <-time.After(d); synctest.Wait() }}.Play(t, s)
			if err := p.Restart(); err != nil {
				t.Error(err)
			}
		})
	}
	b, err := os.ReadFile(path)
	want := "Head.\n-- fake --\n" + wireHead + strings.Replace(wire, `A< {"id":7}`, "A< {\"id\":1,\"result\":{}}\nA< {\"method\":\"n\"}", 1)
	if err != nil || string(b) != want {
		t.Errorf("%v\n%s", err, b)
	}
}
