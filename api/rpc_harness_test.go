package api

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// A wireFrame is what a JSON-RPC client reads.
type wireFrame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`
	Seq    int64           `json:"seq"`
	raw    string
}

func (f wireFrame) isAnswer() bool { return f.Method == "" }

// A caller is a JSON-RPC client that reads what comes when the test asks for it,
// unless it was told to hoard.
type caller struct {
	t       testing.TB
	end     jsonrpc.Transport
	frames  chan wireFrame
	gone    chan struct{} // closed when nothing more is read
	why     error         // set before gone is closed
	served  chan error    // what ServeConn returned
	cancel  context.CancelFunc
	closing sync.Once
	lastID  int
	stopped sync.Mutex           // held while the client reads nothing
	seen    []wireFrame          // taken by next
	early   map[string]wireFrame // answers that came before they were waited for
}

// dialPipe connects in memory.
func (d *door) dialPipe() *caller {
	d.t.Helper()
	client, server := jsonrpc.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := d.caller(client)
	c.cancel = cancel
	go func() { c.served <- d.server.ServeConn(ctx, server) }()
	d.t.Cleanup(c.close)
	return c
}

// caller reads what comes over a transport. Up to 4,096 frames wait for the test.
func (d *door) caller(t jsonrpc.Transport) *caller {
	c := &caller{t: d.t, early: map[string]wireFrame{}, end: t, frames: make(chan wireFrame, 4096), gone: make(chan struct{}), served: make(chan error, 1), cancel: func() {}}
	go func() {
		defer close(c.gone)
		for {
			c.stopped.Lock() // is held while the client does not read
			_ = c.end
			c.stopped.Unlock()
			b, err := t.Read()
			if err != nil {
				c.why = err
				return
			}
			f := wireFrame{raw: string(b)}
			if err := json.Unmarshal(b, &f); err != nil {
				c.why = fmt.Errorf("frame %q: %w", b, err)
				return
			}
			select {
			case c.frames <- f:
			case <-time.After(patience):
				c.why = fmt.Errorf("the test takes no frames")
				return
			}
		}
	}()
	return c
}

// close ends the connection and waits for the server to be done with it.
func (c *caller) close() { c.closing.Do(c.leave) }

func (c *caller) leave() {
	c.end.Close(jsonrpc.StatusNormal, "")
	<-c.gone
	select {
	case err := <-c.served:
		_ = err // why it ended is for the tests that look
	case <-time.After(patience):
		c.t.Error("the connection is served after its end")
	}
	c.cancel()
}

// hello dials and initializes.
func (d *door) hello(capabilities string) *caller {
	d.t.Helper()
	c := d.dialPipe()
	c.hello("tester", capabilities)
	return c
}

func (c *caller) hello(name, capabilities string) {
	c.t.Helper()
	if capabilities == "" {
		capabilities = `{"experimentalApi":true}`
	}
	c.must("initialize", fmt.Sprintf(`{"clientInfo":{"name":%q,"version":"1"},"capabilities":%s}`, name, capabilities), nil)
	c.write(`{"method":"initialized"}`)
}

// pause has the client read nothing more, but for one frame, until resume.
func (c *caller) pause() { c.stopped.Lock() }

func (c *caller) resume() { c.stopped.Unlock() }

func (c *caller) write(frame string) {
	c.t.Helper()
	if err := c.end.Write([]byte(frame)); err != nil {
		c.t.Fatalf("write %s: %v", frame, err)
	}
}

// post sends a request and returns its id.
func (c *caller) post(method, params string) string {
	c.t.Helper()
	c.lastID++
	id := fmt.Sprint(c.lastID)
	if params != "" {
		params = `,"params":` + params
	}
	c.write(`{"id":` + id + `,"method":"` + method + `"` + params + `}`)
	return id
}

// next is the next frame.
func (c *caller) next() wireFrame {
	c.t.Helper()
	select {
	case f := <-c.frames:
		c.seen = append(c.seen, f)
		return f
	case <-c.gone:
	case <-time.After(patience):
		c.t.Fatalf("nothing came after %s", c.tail())
	}
	select {
	case f := <-c.frames:
		c.seen = append(c.seen, f)
		return f
	default:
	}
	c.t.Fatalf("the connection ended (%v) after %s", c.why, c.tail())
	return wireFrame{}
}

func (c *caller) tail() string {
	last := c.seen[max(0, len(c.seen)-8):]
	text := ""
	for _, f := range last {
		text += "\n\t" + f.raw[:min(len(f.raw), 300)]
	}
	return text
}

// answerTo reads until the answer to a request.
func (c *caller) answerTo(id string) wireFrame {
	c.t.Helper()
	if f, early := c.early[id]; early {
		delete(c.early, id)
		return f
	}
	for {
		f := c.next()
		if f.isAnswer() && string(f.ID) == id {
			return f
		}
		if f.isAnswer() { // its turn comes
			c.early[string(f.ID)] = f
		}
	}
}

// must sends a request and returns its result.
func (c *caller) must(method, params string, result any) {
	c.t.Helper()
	f := c.answerTo(c.post(method, params))
	if f.Error != nil {
		c.t.Fatalf("%s: %+v", method, f.Error)
	}
	if result != nil {
		if err := json.Unmarshal(f.Result, result); err != nil {
			c.t.Fatalf("%s: %v in %s", method, err, f.Result)
		}
	}
}

// refused sends a request that must fail.
func (c *caller) refused(method, params string) *jsonrpc.Error {
	c.t.Helper()
	f := c.answerTo(c.post(method, params))
	if f.Error == nil {
		c.t.Fatalf("%s was answered with %s", method, f.Result)
	}
	return f.Error
}

// until reads until a notification or request of a method.
func (c *caller) until(method string) wireFrame {
	c.t.Helper()
	for {
		if f := c.next(); f.Method == method {
			return f
		}
	}
}

// start makes a thread of a provider.
func (c *caller) start(provider string) string {
	c.t.Helper()
	var r ThreadStartResult
	c.must("thread/start", `{"modelProvider":"`+provider+`","cwd":"/w"}`, &r)
	return r.Thread.ID
}

// say starts a turn and returns its id.
func (c *caller) say(thread, text string) string {
	c.t.Helper()
	var r TurnStartResult
	c.must("turn/start", mustEncode(c.t, map[string]any{
		"threadId": thread, "input": []any{map[string]string{"type": "text", "text": text}},
	}), &r)
	return r.Turn.ID
}

// flow are the methods of the frames that were taken since n, answers as "=".
func (c *caller) flow(n int) []string {
	var methods []string
	for _, f := range c.seen[n:] {
		if f.isAnswer() {
			f.Method = "="
		}
		if n := len(methods); f.Method == methodMessageDelta && n > 0 && methods[n-1] == f.Method {
			continue // how a text is cut is not what is tested
		}
		methods = append(methods, f.Method)
	}
	return methods
}

// seqs are the positions of the events among frames, those told again left out.
func seqs(frames []wireFrame) []int64 {
	var all []int64
	for _, f := range frames {
		if f.Seq > 0 {
			all = append(all, f.Seq)
		}
	}
	return all
}

// dense fails unless seqs are first, first+1, …
func dense(t testing.TB, first int64, got []int64) {
	t.Helper()
	for i, n := range got {
		if n != first+int64(i) {
			t.Fatalf("position %d is event %d, want %d: %v", i, n, first+int64(i), got[max(0, i-3):min(len(got), i+4)])
		}
	}
}

// texts puts together what deltas and completions tell of agent messages, by item,
// and fails if they contradict each other.
func texts(t testing.TB, frames []wireFrame) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, f := range frames {
		switch f.Method {
		case methodMessageDelta:
			var p protocol.AgentMessageDeltaParams
			if err := json.Unmarshal(f.Params, &p); err != nil {
				t.Fatal(err)
			}
			if int(p.Offset) != len(got[p.ItemID]) {
				t.Fatalf("delta at %d of an item of which %d bytes are there", p.Offset, len(got[p.ItemID]))
			}
			got[p.ItemID] += p.Delta
		case "item/completed":
			var p protocol.ItemCompletedParams
			if err := json.Unmarshal(f.Params, &p); err != nil {
				t.Fatal(err)
			}
			if m, ok := p.Item.ItemVariant.(protocol.AgentMessageItem); ok && got[m.ID] != m.Text {
				t.Fatalf("item %s is %q by its deltas and %q when completed", m.ID, got[m.ID], m.Text)
			}
		}
	}
	return got
}
