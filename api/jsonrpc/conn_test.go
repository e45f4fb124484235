package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// numbers reads the answers to the requests 0 to n-1 and returns how many there
// were of each kind.
func numbers(t *testing.T, p *peer, n int) (answered, overloaded int) {
	t.Helper()
	seen := make([]bool, n)
	for range n {
		r := parseReply(t, p.recv())
		var id int
		if err := json.Unmarshal(r.ID, &id); err != nil || seen[id] {
			t.Fatalf("id %s: answered twice, or %v", r.ID, err)
		}
		seen[id] = true
		switch {
		case r.Error == nil:
			answered++
		case r.Error.Code == CodeOverloaded && r.Error.Message == "Server overloaded; retry later." && r.Error.Data == nil:
			overloaded++
		default:
			t.Fatalf("id %d: %+v", id, r.Error)
		}
	}
	return answered, overloaded
}

func TestTooManyRequestsAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
			<-open
			r.Reply(1)
		}}, Options{})
		const n = 1500
		for i := range n { // nobody reads meanwhile
			p.send(`{"id":%d,"method":"m"}`, i)
		}
		synctest.Wait()
		if got := p.conn.Stats().Overloaded; got != n-65 {
			t.Errorf("%d refused while none was answered", got)
		}
		close(open)
		answered, overloaded := numbers(t, p, n)
		if answered != 65 || overloaded != n-65 { // one runs, 64 wait
			t.Errorf("%d answered, %d overloaded", answered, overloaded)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAllLanesTogetherAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, running := make(chan struct{}), make(chan struct{}, 1000)
		p := connectPipe(t, &script{
			lane: func(m string, _ json.RawMessage) string { return m },
			req: func(_ context.Context, r *Request) {
				running <- struct{}{}
				<-open
				r.Reply(1)
			},
		}, Options{})
		const n = 600
		for i := range n {
			p.send(`{"id":%d,"method":"lane %d"}`, i, i%100)
		}
		synctest.Wait()
		if len(running) != 8 {
			t.Errorf("%d run", len(running))
		}
		close(open)
		if answered, overloaded := numbers(t, p, n); answered != 256 || overloaded != n-256 {
			t.Errorf("%d answered, %d overloaded", answered, overloaded)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhatClientsMakeAServerHoldIsBoundedInBytes(t *testing.T) {
	open := make(chan struct{})
	p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
		<-open
		r.Reply(1)
	}}, Options{})
	for i := range 3 { // each as large as may be
		frame := fmt.Sprintf(`{"id":%d,"method":"m","params":""}`, i)
		frame = frame[:len(frame)-2] + strings.Repeat("x", MaxFrame-len(frame)) + `"}`
		if err := p.Write([]byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	if r := parseReply(t, p.recv()); r.Error == nil || r.Error.Code != CodeOverloaded || string(r.ID) != "2" {
		t.Fatalf("%s, %v", r.ID, r.Error)
	}
	close(open)
	for range 2 {
		if r := parseReply(t, p.recv()); r.Error != nil {
			t.Fatal(r.Error)
		}
	}
	p.send(`{"id":"now there is room","method":"m"}`)
	p.want(`{"id":"now there is room","result":1}`)
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
}

func TestLanesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		p := connectPipe(t, &script{
			lane: func(m string, _ json.RawMessage) string { return m },
			req: func(_ context.Context, r *Request) {
				if r.Method == "slow" {
					<-open
				}
				r.Reply(r.Method)
			},
		}, Options{})
		p.send(`{"id":1,"method":"slow"}`)
		p.send(`{"id":2,"method":"slow"}`)
		p.send(`{"id":3,"method":"fast"}`)
		p.want(`{"id":3,"result":"fast"}`)
		close(open)
		p.want(`{"id":1,"result":"slow"}`)
		p.want(`{"id":2,"result":"slow"}`)
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStartSteerInterruptKeepTheirOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	p := connectPipe(t, &script{
		lane: func(_ string, params json.RawMessage) string { return string(params) },
		req: func(_ context.Context, r *Request) {
			mu.Lock()
			order = append(order, r.Method)
			mu.Unlock()
			r.Reply(r.Method)
		},
	}, Options{})
	var writing sync.WaitGroup
	gate := make(chan struct{}, 20) // below what may wait
	const rounds = 1000
	methods := []string{"turn/start", "turn/steer", "turn/interrupt"}
	writing.Go(func() {
		for i := range rounds {
			gate <- struct{}{}
			for j, m := range methods {
				p.send(`{"id":%d,"method":%q,"params":"thread"}`, 3*i+j, m)
			}
		}
	})
	for i := range 3 * rounds {
		p.want(fmt.Sprintf(`{"id":%d,"result":%q}`, i, methods[i%3]))
		if i%3 == 2 {
			<-gate
		}
	}
	writing.Wait()
	for i, m := range order {
		if m != methods[i%3] {
			t.Fatalf("%d was %s", i, m)
		}
	}
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
}

func TestEqualIDsInFlightAreEachAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []*Request
		p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
			if held = append(held, r); len(held) == 3 {
				for i, r := range held {
					r.Reply(i)
					r.Reply("again")
					r.Fail(&Error{Code: 1})
				}
			}
		}}, Options{})
		for range 3 {
			p.send(`{"id":7,"method":"m"}`)
		}
		for i := range 3 {
			p.want(fmt.Sprintf(`{"id":7,"result":%d}`, i))
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestErrorsAreSentAsTheyAre(t *testing.T) {
	p := connectPipe(t, &script{req: func(_ context.Context, r *Request) {
		switch r.Method {
		case "plain":
			r.Fail(&Error{Code: -32600, Message: "no `x`, \"jsonrpc\":\"2.0\""})
		case "data":
			r.Fail(&Error{Code: -5, Message: "m", Data: []byte(`{"jsonrpc":"2.0", "a":[1]}`)})
		case "no data":
			r.Fail(&Error{Code: 3, Message: "m", Data: []byte(`{`)})
		case "result":
			r.Reply(map[string]any{"jsonrpc": "2.0", "error": nil})
		case "unencodable":
			r.Reply(func() {})
		}
	}}, Options{})
	for method, want := range map[string]string{
		"plain":       `{"id":1,"error":{"code":-32600,"message":"no ` + "`x`" + `, \"jsonrpc\":\"2.0\""}}`,
		"data":        `{"id":1,"error":{"code":-5,"message":"m","data":{"jsonrpc":"2.0","a":[1]}}}`,
		"no data":     `{"id":1,"error":{"code":3,"message":"m"}}`,
		"result":      `{"id":1,"result":{"error":null,"jsonrpc":"2.0"}}`,
		"unencodable": `{"id":1,"error":{"code":-32603,"message":"internal error"}}`,
	} {
		p.send(`{"id":1,"method":%q}`, method)
		p.want(want)
	}
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
}

func TestAPanicIsAnsweredAndTheConnectionLives(t *testing.T) {
	h := &script{
		lane: func(m string, _ json.RawMessage) string {
			if m == "panic in Lane" {
				panic("lane")
			}
			return ""
		},
		req: func(_ context.Context, r *Request) {
			if r.Method == "panic after the answer" {
				r.Reply("first")
			}
			if strings.HasPrefix(r.Method, "panic") {
				panic("request")
			}
			r.Reply(r.Params)
		},
		note:   func(context.Context, string, json.RawMessage) { panic("notification") },
		answer: func(_, _ json.RawMessage, _ *Error) { panic("response") },
	}
	p := connectPipe(t, h, Options{})
	for frame, want := range map[string]string{
		`{"id":1,"method":"panic"}`:                  `{"id":1,"error":{"code":-32603,"message":"internal error"}}`,
		`{"id":2,"method":"panic in Lane"}`:          `{"id":2,"error":{"code":-32603,"message":"internal error"}}`,
		`{"id":3,"method":"panic after the answer"}`: `{"id":3,"result":"first"}`,
		`{"method":"panic"}`:                         ``,
		`{"method":"panic in Lane"}`:                 ``,
		`{"id":4,"result":1}`:                        ``,
	} {
		p.send("%s", frame)
		if want != "" {
			p.want(want)
		}
		p.alive()
	}
	if err := p.hangUp(); err != nil {
		t.Fatal(err)
	}
	if got := p.conn.Stats().Panics; got != 6 {
		t.Errorf("%d panics counted", got)
	}
}

func TestTheFirstInitializedIsNeverDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		got := map[string]int{}
		p := connectPipe(t, &script{
			req:  func(_ context.Context, r *Request) { <-open; r.Reply(1) },
			note: func(_ context.Context, m string, _ json.RawMessage) { got[m]++ },
		}, Options{})
		for i := range 200 {
			p.send(`{"id":%d,"method":"m"}`, i)
			p.send(`{"method":"other"}`)
		}
		for range 10 {
			p.send(`{"method":"initialized"}`)
		}
		synctest.Wait()
		close(open)
		numbers(t, p, 200)
		synctest.Wait()
		if got["initialized"] != 1 || got["other"] != 64 {
			t.Errorf("handled %v", got)
		}
		if s := p.conn.Stats(); s.Dropped != 200-64+9 {
			t.Errorf("%+v", s)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNotificationsOfAllLanesTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		p := connectPipe(t, &script{
			lane: func(m string, _ json.RawMessage) string { return m },
			note: func(context.Context, string, json.RawMessage) { <-open },
		}, Options{})
		for i := range 1000 {
			p.send(`{"method":"lane %d"}`, i)
		}
		synctest.Wait()
		if s := p.conn.Stats(); s.Dropped != 1000-8-256 {
			t.Errorf("%+v", s)
		}
		close(open)
		p.alive()
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheFirstOfTwoAnswersCountsAlsoWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := make(chan *Request, 1)
		p := connectPipe(t, &script{req: func(_ context.Context, r *Request) { requests <- r }}, Options{QueueFrames: 1})
		if err := p.conn.Send(t.Context(), []byte(`"in the way"`)); err != nil {
			t.Fatal(err)
		}
		p.send(`{"id":1,"method":"m"}`)
		r := <-requests
		go r.Reply("first")
		synctest.Wait()
		r.Reply("second")
		p.want(`"in the way"`)
		p.want(`{"id":1,"result":"first"}`)
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestResponsesAreHeardWhileEverythingElseIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		p := connectPipe(t, &script{
			req:    func(_ context.Context, r *Request) { <-answered; r.Reply(1) },
			answer: func(_, _ json.RawMessage, _ *Error) { close(answered) },
		}, Options{MaxWaiting: 2})
		for i := range 40 {
			p.send(`{"id":%d,"method":"m"}`, i)
		}
		p.send(`{"id":"approval","result":{"decision":"accept"}}`)
		if ok, refused := numbers(t, p, 40); ok != 3 || refused != 37 {
			t.Errorf("%d, %d", ok, refused)
		}
		if err := p.hangUp(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestValidRequestsAmongAnything is the property behind the package's promise.
func TestValidRequestsAmongAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := map[int]int{} // of each lane, as the handler sees it
		var mu sync.Mutex
		p := connectPipe(t, &script{
			lane: func(_ string, params json.RawMessage) string {
				var k []int
				if json.Unmarshal(params, &k) != nil || len(k) != 2 {
					return "other"
				}
				return fmt.Sprint(k[0])
			},
			req: func(_ context.Context, r *Request) {
				var k []int
				if json.Unmarshal(r.Params, &k) == nil && len(k) == 2 && r.Method == "valid" {
					mu.Lock()
					if k[1] != next[k[0]] {
						r.Fail(&Error{Code: 1, Message: fmt.Sprintf("lane %d: %d instead of %d", k[0], k[1], next[k[0]])})
					}
					next[k[0]]++
					mu.Unlock()
				}
				r.Reply(r.Params)
			},
		}, Options{MaxWaiting: 1000})
		noise := rapid.OneOf(
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), rapid.String(), jsonText(),
			rapid.SampledFrom([]string{
				`{"id":"noise"}`, `[{"id":1,"method":"valid"}]`, `{"id":null,"method":"x"}`, `{"method":"n"}`,
				`{"id":"noise","result":1}`, `{"id":"noise","method":"n","params":[9,9]}`,
			}),
		)
		sent := map[int]int{}
		want := map[string]bool{}
		var frames []string
		for range rapid.IntRange(1, 60).Draw(t, "frames") {
			if rapid.Bool().Draw(t, "valid") {
				lane := rapid.IntRange(0, 3).Draw(t, "lane")
				frames = append(frames, fmt.Sprintf(`{"id":"%d/%d","method":"valid","params":[%d,%d]}`, lane, sent[lane], lane, sent[lane]))
				want[fmt.Sprintf(`"%d/%d"`, lane, sent[lane])] = true
				sent[lane]++
			} else {
				frames = append(frames, noise.Draw(t, "noise"))
			}
		}
		go func() {
			for _, f := range frames {
				if p.Write([]byte(f)) != nil {
					return
				}
			}
		}()
		at := map[string]int{}
		for len(want) > 0 {
			r := parseReply(t, p.recv())
			if !want[string(r.ID)] {
				if strings.Contains(string(r.ID), "/") {
					t.Fatalf("%s is answered again", r.ID)
				}
				continue
			}
			delete(want, string(r.ID))
			lane, n, _ := strings.Cut(strings.Trim(string(r.ID), `"`), "/")
			if r.Error != nil || n != fmt.Sprint(at[lane]) {
				t.Fatalf("%s: %v, after %d of its lane", r.ID, r.Error, at[lane])
			}
			at[lane]++
		}
		_ = p.hangUp() // noise may still be on its way
	})
}
