package chat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// The ways to have a request counted without paying for it.
const (
	countTemplate = "template" // llama.cpp: /apply-template, then /tokenize
	countTokenize = "tokenize" // vLLM: /tokenize takes messages
)

// Count implements adapters.Model. A server that has no such interface is asked
// once.
func (m *Model) Count(ctx context.Context, req adapters.Request) (tokens int, known bool, err error) {
	if req.Model == "" {
		req.Model = m.o.Model
	}
	if m.p.count == "" || m.without(req.Model).has(refusedCount) {
		return 0, false, nil
	}
	pl := m.p.prepare(req, 0, 0, m.without(req.Model).merge(set{refusedUsage: true, refusedEffort: true}))
	body, err := pl.body()
	if err != nil {
		return 0, false, err
	}
	if m.p.count == countTemplate {
		tokens, err = m.countTemplate(ctx, body)
	} else {
		tokens, err = m.countTokenize(ctx, body)
	}
	if e, is := errors.AsType[*adapters.Error](err); is && missing(e.Status) {
		m.refuse(req.Model, refusedCount)
		return 0, false, nil
	}
	return tokens, err == nil && tokens > 0, err
}

// missing reports the statuses of a server that has no such address.
func missing(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
}

func (m *Model) countTemplate(ctx context.Context, body []byte) (int, error) {
	var rendered struct {
		Prompt string `json:"prompt"`
	}
	if err := m.post(ctx, m.root+"/apply-template", json.RawMessage(body), &rendered); err != nil {
		return 0, err
	}
	var out struct {
		Tokens []count `json:"tokens"`
	}
	in := map[string]any{"content": rendered.Prompt, "add_special": true, "parse_special": true}
	if err := m.post(ctx, m.root+"/tokenize", in, &out); err != nil {
		return 0, err
	}
	return len(out.Tokens), nil
}

func (m *Model) countTokenize(ctx context.Context, body []byte) (int, error) {
	var out struct {
		Count count `json:"count"`
	}
	if err := m.post(ctx, m.root+"/tokenize", json.RawMessage(body), &out); err != nil {
		return 0, err
	}
	return int(out.Count), nil
}
