package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// connect is the second process: one client, which says what it saw on standard
// output and is told what to do on standard input.
func connect(kind, target string) error {
	address, what, _ := strings.Cut(target, "/")
	var raw net.Conn
	dialer := websocket.Dialer{HandshakeTimeout: 10 * time.Second, NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if tcp, ok := c.(*net.TCPConn); ok && kind == "slow" {
			err = tcp.SetReadBuffer(1024) // the kernel shall not read for it
		}
		raw = c
		return c, err
	}}
	conn, resp, err := dialer.Dial("ws://"+address, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	c := &client{conn: conn}
	if err := c.call("initialize", `{"clientInfo":{"name":"bench","version":"1"},"capabilities":{"experimentalApi":true}}`, nil); err != nil {
		return err
	}
	if kind == "slow" {
		if err := c.call("thread/resume", `{"threadId":"`+what+`","excludeTurns":true}`, nil); err != nil {
			return err
		}
		fmt.Println("live")
		return dawdle(raw)
	}
	return c.serve(what)
}

// dawdle reads 1 KB a second for ever.
func dawdle(conn net.Conn) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range tick.C {
		if _, err := io.ReadFull(conn, make([]byte, 1024)); err != nil {
			return err
		}
	}
	return nil
}

type client struct {
	conn *websocket.Conn
	id   int
}

// frame is what the client looks at of what it gets.
type frame struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		Delta string `json:"delta"`
		Item  struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"item"`
	} `json:"params"`
}

func (c *client) call(method, params string, result any) error {
	c.id++
	err := c.conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"id":%d,"method":%q,"params":%s}`, c.id, method, params))
	if err != nil {
		return err
	}
	for {
		f, err := c.read()
		if err != nil {
			return err
		}
		if f.ID != c.id || f.Method != "" {
			continue
		}
		if f.Error != nil {
			return fmt.Errorf("%s: %s", method, f.Error)
		}
		if result != nil {
			return json.Unmarshal(f.Result, result)
		}
		return nil
	}
}

func (c *client) read() (f frame, err error) {
	_, b, err := c.conn.ReadMessage()
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	return f, err
}

// serve makes a thread with a provider, and a turn for each line of standard input.
func (c *client) serve(provider string) error {
	var started struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	if err := c.call("thread/start", fmt.Sprintf(`{"modelProvider":%q}`, provider), &started); err != nil {
		return err
	}
	fmt.Println(started.Thread.ID)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := c.turn(started.Thread.ID); err != nil {
			return err
		}
	}
	return lines.Err()
}

// turn runs a turn, and says how many bytes of text came in how many
// notifications.
func (c *client) turn(thread string) error {
	err := c.conn.WriteMessage(websocket.TextMessage,
		fmt.Appendf(nil, `{"id":"t","method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":"go"}]}}`, thread))
	if err != nil {
		return err
	}
	var text strings.Builder
	frames := 0
	for {
		_, b, err := c.conn.ReadMessage()
		if err != nil {
			return err
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			// The ids of this client are numbers but for the turn's.
			f.Method = ""
		}
		switch f.Method {
		case "item/agentMessage/delta":
			frames++
			text.WriteString(f.Params.Delta)
		case "item/completed":
			if f.Params.Item.Type == "agentMessage" && f.Params.Item.Text != text.String() {
				return fmt.Errorf("the deltas add up to %d bytes, the item has %d", text.Len(), len(f.Params.Item.Text))
			}
		case "turn/completed":
			_, err := fmt.Println(text.Len(), frames)
			return err
		}
	}
}
