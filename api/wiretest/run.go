package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/api/codexschema"
	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// A Server is what a script runs against.
type Server interface {
	Dial() (jsonrpc.Transport, error)
	// Restart ends the server, and with it its connections, and starts it again.
	Restart() error
}

// A Run is how scripts are played.
type Run struct {
	Server Server
	// Settle, where time is the test's own, lets it pass, and returns once nothing
	// more happens. Nil: as many frames are read as are expected.
	Settle func(time.Duration)
	Schema *codexschema.Schema // nil: frames are not judged
	Update bool                // what came is written into the script; needs Settle
}

// patience bounds the wait for a frame that is expected.
const patience = 20 * time.Second

type player struct {
	Run
	t       testing.TB
	names   names
	clients map[string]*client
}

// A client reads all that comes, and keeps it until it is looked at.
type client struct {
	end    jsonrpc.Transport
	frames chan string
	ahead  []string          // taken from frames and not looked at
	asked  map[string]string // by id of a request of the client, its method
	told   map[string]string // the same of the server's requests
}

// Play runs a script.
func (r Run) Play(t testing.TB, s *Script) {
	t.Helper()
	p := &player{Run: r, t: t, names: names{byID: map[string]string{}}, clients: map[string]*client{}}
	defer p.closeAll()
	var out []line
	for i := 0; i < len(s.lines); {
		l := s.lines[i]
		i++
		if l.verb == "#" {
			out = append(out, l)
			continue
		}
		if l.verb != "<" {
			out = append(out, l)
			p.do(s, l)
		}
		from := i
		if l.verb == "<" {
			from--
		}
		for i < len(s.lines) && s.lines[i].verb == "<" {
			i++
		}
		out = append(out, p.expect(s, s.lines[from:i])...)
	}
	p.end()
	if r.Update {
		if err := s.rewrite(out); err != nil {
			t.Fatal(err)
		}
	}
}

// The last request of a client, and what answers it. No server knows the method,
// and what it sent before comes before.
const endID = `"wiretest end"`

// end looks, where time is not the test's own, for frames that no line has.
func (p *player) end() {
	p.t.Helper()
	if p.Settle != nil {
		return
	}
	for _, name := range sorted(p.clients) {
		c := p.clients[name]
		if err := c.end.Write([]byte(`{"id":` + endID + `,"method":"wiretest/end","params":{}}`)); err != nil {
			p.t.Errorf("%s: %v", name, err)
			continue
		}
		c.asked[endID] = "wiretest/end"
		for frame, ok := p.receive(c); !strings.Contains(frame, endID); frame, ok = p.receive(c) {
			if !ok {
				p.t.Errorf("%s: the connection does not answer at the end", name)
				break
			}
			p.t.Errorf("%s received at the end: %s", name, p.names.normal(frame))
		}
	}
}

// do plays a step.
func (p *player) do(s *Script, l line) {
	p.t.Helper()
	var err error
	switch l.verb {
	case ">", ">!":
		err = p.send(l)
	case "gone":
		err = p.close(l.client)
	case "restart":
		err = p.Server.Restart()
		p.closeAll()
	case "wait":
		if p.Settle != nil {
			d, _ := time.ParseDuration(l.text) // was checked by Load
			p.Settle(d)
		}
	}
	if err != nil {
		p.t.Fatalf("%s:%d: %v", s.path, l.n, err)
	}
}

func (p *player) send(l line) error {
	c := p.clients[l.client]
	if c == nil {
		end, err := p.Server.Dial()
		if err != nil {
			return err
		}
		c = &client{end: end, frames: make(chan string, 10_000), asked: map[string]string{}, told: map[string]string{}}
		p.clients[l.client] = c
		go c.read()
	}
	frame, err := p.names.actual(l.text)
	if err != nil {
		return err
	}
	if l.verb == ">" {
		if err := p.judge(codexschema.FromClient, frame, c.told, c.asked); err != nil {
			return err
		}
	} else {
		note(frame, c.asked)
	}
	return c.end.Write([]byte(frame))
}

func (c *client) read() {
	defer close(c.frames)
	for {
		b, err := c.end.Read()
		if err != nil {
			return
		}
		c.frames <- string(b)
	}
}

func (p *player) close(name string) error {
	c := p.clients[name]
	if c == nil {
		return errors.New("there is no client " + name)
	}
	delete(p.clients, name)
	err := c.end.Close(jsonrpc.StatusNormal, "")
	for range c.frames { // until the reader has ended
	}
	return err
}

func (p *player) closeAll() {
	for name := range p.clients {
		_ = p.close(name) // its other end may be gone
	}
}

// note remembers the method of a request.
func note(frame string, asked map[string]string) (method string) {
	var f struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal([]byte(frame), &f) == nil && f.Method != "" && f.ID != nil {
		asked[string(f.ID)] = f.Method
	}
	return asked[string(f.ID)]
}

// judge holds a frame to the schema. Answered are the requests that it may answer,
// asking those it may add to.
func (p *player) judge(d codexschema.Direction, frame string, answered, asking map[string]string) error {
	var f struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	method := ""
	if err := json.Unmarshal([]byte(frame), &f); err != nil {
		return err
	}
	if f.Method == "" {
		method = answered[string(f.ID)]
	}
	note(frame, asking)
	if f.Method == "" && method == "" && string(f.ID) != "null" {
		return fmt.Errorf("it answers no request: %s", frame)
	}
	if p.Schema == nil || string(f.ID) == "null" { // an answer to no request, which codex has none of
		return nil
	}
	return p.Schema.Validate(d, []byte(frame), method)
}

// expect compares what the clients receive with lines, client by client.
func (p *player) expect(s *Script, want []line) (got []line) {
	p.t.Helper()
	if p.Settle != nil {
		p.Settle(time.Second)
	}
	var order []string
	for _, l := range want {
		if !slices.Contains(order, l.client) {
			order = append(order, l.client)
		}
	}
	for _, name := range sorted(p.clients) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		var expected []string
		for _, l := range want {
			if l.client == name {
				expected = append(expected, l.text)
			}
		}
		received := p.take(name, expected)
		if diff := cmp.Diff(expected, received); diff != "" && !p.Update {
			p.t.Fatalf("%s:%d: what %s received (-want +got):\n%s", s.path, at(want), name, diff)
		}
		for _, text := range received {
			got = append(got, line{client: name, verb: "<", text: text})
		}
	}
	return got
}

func at(lines []line) int {
	if len(lines) == 0 {
		return 0
	}
	return lines[0].n
}

func sorted(m map[string]*client) (all []string) {
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// take returns the next frames of a client, as many as are expected, or all that
// are there where time is the test's own.
func (p *player) take(name string, expected []string) (got []string) {
	c := p.clients[name]
	for c != nil && (p.Settle != nil || len(got) < len(expected)) {
		frame, ok := p.next(c)
		if !ok {
			break
		}
		d, is := deltaOf(frame)
		if !is {
			got = append(got, p.names.normal(frame))
			continue
		}
		want := ""
		if p.Settle == nil {
			want = expected[len(got)]
		}
		got = append(got, p.join(c, d, want))
	}
	return got
}

// join adds the deltas that follow one of the same item. It does not wait for more
// than are wanted; if more come, they are the next frame.
func (p *player) join(c *client, d delta, want string) string {
	text := d.short(&p.names)
	for text != want {
		more, ok := p.next(c)
		if !ok {
			break
		}
		e, is := deltaOf(more)
		if !is || e.Method != d.Method || e.Params.ItemID != d.Params.ItemID {
			c.ahead = append([]string{more}, c.ahead...)
			break
		}
		if e.Params.Offset != d.Params.Offset+len(d.Params.Delta) {
			p.t.Errorf("a delta of %s is at %d, the text before it ends at %d", e.Params.ItemID, e.Params.Offset, d.Params.Offset+len(d.Params.Delta))
		}
		d.Params.Delta += e.Params.Delta
		text = d.short(&p.names)
	}
	return text
}

// next is the next frame of a client, judged; false: none comes.
func (p *player) next(c *client) (frame string, ok bool) {
	p.t.Helper()
	if len(c.ahead) > 0 {
		frame, c.ahead = c.ahead[0], c.ahead[1:]
		return frame, true
	}
	frame, ok = p.receive(c)
	if ok {
		if err := p.judge(codexschema.FromServer, frame, c.asked, c.told); err != nil {
			p.t.Errorf("%v", err)
		}
	}
	return frame, ok
}

// receive is next, without judgement.
func (p *player) receive(c *client) (frame string, ok bool) {
	p.t.Helper()
	if len(c.ahead) > 0 {
		frame, c.ahead = c.ahead[0], c.ahead[1:]
		return frame, true
	}
	if p.Settle != nil {
		select {
		case frame, ok = <-c.frames:
		default:
		}
	} else {
		select {
		case frame, ok = <-c.frames:
		case <-time.After(patience):
		}
	}
	return frame, ok
}
