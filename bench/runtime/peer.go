package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// threadID is the peer's own, as codex's are: a session is leased by it.
var threadID = fmt.Sprintf("01a00000-0000-7000-8000-%012d", os.Getpid())

// A request is what the server sends, as far as this peer reads it.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Input []struct {
			Text string `json:"text"`
		} `json:"input"`
	} `json:"params"`
}

// servePeer speaks codex's wire on standard I/O. The text of an input says what its
// turn is: "flood N" streams N times as many deltas as one flood has, anything else
// three.
func servePeer() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	turn := 0
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return err
		}
		if len(r.ID) == 0 {
			continue
		}
		if r.Method == "turn/start" {
			turn++
			answer(out, r, turn)
		} else {
			result(out, r)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return in.Err()
}

func result(out *bufio.Writer, r request) {
	body := `{}`
	switch r.Method {
	case "initialize":
		body = `{"userAgent":"plimsoll/0.171.0 (bench)","codexHome":"/"}`
	case "thread/start", "thread/resume":
		body = `{"thread":{"id":"` + threadID + `","path":null},"model":"m","modelProvider":"p","cwd":"/"}`
	case "model/list":
		body = `{"data":[{"id":"m","displayName":"M","isDefault":true,"inputModalities":["text"]}]}`
	case "config/read":
		body = `{"config":{"model":null},"origins":{}}`
	case "account/read":
		body = `{"account":null,"requiresOpenaiAuth":true}`
	}
	line(out, `{"id":%s,"result":%s}`, r.ID, body)
}

// line writes one; who does not read any more is seen at the next flush.
func line(out *bufio.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format+"\n", args...)
}

// answer is a whole turn.
func answer(out *bufio.Writer, r request, n int) {
	turn, words := fmt.Sprintf("turn-%d", n), 3
	for _, part := range r.Params.Input {
		var times int
		if _, err := fmt.Sscanf(part.Text, "flood %d", &times); err == nil {
			words = times * deltas
		}
	}
	note := func(method, format string, args ...any) {
		line(out, `{"method":%q,"params":{"threadId":"%s",%s},"emittedAtMs":1}`, method, threadID, fmt.Sprintf(format, args...))
	}
	view := func(status string) string {
		return fmt.Sprintf(`"turn":{"id":%q,"items":[],"status":%q,"error":null}`, turn, status)
	}
	line(out, `{"id":%s,"result":{%s}}`, r.ID, view("inProgress"))
	note("turn/started", "%s", view("inProgress"))
	for left := words; left > 0; left -= deltas {
		said := min(left, deltas)
		item := fmt.Sprintf("msg_%d_%d", n, left)
		note("item/started", `"turnId":%q,"item":{"type":"agentMessage","id":%q,"text":""}`, turn, item)
		for range said {
			note("item/agentMessage/delta", `"turnId":%q,"itemId":%q,"delta":" twenty bytes of it."`, turn, item)
		}
		note("item/completed", `"turnId":%q,"item":{"type":"agentMessage","id":%q,"text":%q}`, turn, item, strings.Repeat(" twenty bytes of it.", said))
	}
	note("thread/tokenUsage/updated", `"turnId":%q,"tokenUsage":{"total":%[2]s,"last":%[2]s,"modelContextWindow":95000}`, turn,
		`{"totalTokens":39,"inputTokens":9,"outputTokens":30}`)
	note("turn/completed", "%s", view("completed"))
}
