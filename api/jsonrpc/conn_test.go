package jsonrpc

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type echo struct{}

func (echo) Lane(string, json.RawMessage) string                   { return "" }
func (echo) Request(_ context.Context, r *Request)                 { r.Reply(r.Params) }
func (echo) Notification(context.Context, string, json.RawMessage) {}
func (echo) Response(json.RawMessage, json.RawMessage, *Error)     {}

func TestEcho(t *testing.T) {
	client, server := Pipe()
	done := make(chan error)
	go func() { done <- Serve(t.Context(), server, echo{}, Options{}) }()
	for _, f := range [][2]string{
		{`{"id":-7.5e3,"method":"m","params":{"a":1}}`, `{"id":-7.5e3,"result":{"a":1}}`},
		{`{bad`, `{"id":null,"error":{"code":-32700,"message":"Parse error: a frame is one JSON text in UTF-8"}}`},
		{`{"id":"x"}`, `{"id":"x","error":{"code":-32600,"message":"Invalid request: missing field ` + "`method`" + `"}}`},
	} {
		if err := client.Write([]byte(f[0])); err != nil {
			t.Fatal(err)
		}
		b, err := client.Read()
		if err != nil || string(b) != f[1] {
			t.Fatalf("%s, %v", b, err)
		}
	}
	client.Close(1000, "")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
