package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// An endpoint answers what is asked beside the conversation. It says no if the
// server of the cassette has no such thing.
type endpoint func(s settings, body []byte) (any, bool)

// endpoints by method and path.
var endpoints = map[string]endpoint{
	"GET /v1/models":                 func(s settings, _ []byte) (any, bool) { return listModels(s), true },
	"GET /models":                    func(s settings, _ []byte) (any, bool) { return listModels(s), true }, // of a base URL without /v1
	"GET /props":                     only("llama.cpp", props),
	"POST /tokenize":                 tokenize,
	"POST /apply-template":           only("llama.cpp", applyTemplate),
	"POST /api/show":                 only("ollama", show),
	"GET /api/ps":                    only("ollama", loaded),
	"GET /api/tags":                  only("ollama", tags),
	"GET /api/v0/models":             only("lmstudio", lmModels),
	"GET /api/version":               only("ollama", func(settings, []byte) any { return object{"version": "0.33.0"} }),
	"GET /version":                   only("vllm", func(settings, []byte) any { return object{"version": "0.12.0"} }),
	"GET /health":                    func(settings, []byte) (any, bool) { return object{"status": "ok"}, true },
	"GET /api/v1/models":             only("openrouter", func(s settings, _ []byte) any { return listModels(s) }),
	"POST /v1/messages/count_tokens": countTokens,
	"GET /openai/v1/models":          only("groq", func(s settings, _ []byte) any { return listModels(s) }),
}

// endpointOf finds the endpoint of a method and path.
func endpointOf(place string) endpoint {
	if id, is := strings.CutPrefix(place, "GET /v1/models/"); is && id != "" {
		return func(s settings, _ []byte) (any, bool) {
			for _, m := range s.models {
				if m.id == id {
					return s.server.list(m), true
				}
			}
			return nil, false
		}
	}
	return endpoints[place]
}

// only is an endpoint that one server has.
func only(name string, f func(settings, []byte) any) endpoint {
	return func(s settings, body []byte) (any, bool) {
		if s.server.name != name {
			return nil, false
		}
		return f(s, body), true
	}
}

func listModels(s settings) object {
	data := []any{}
	for _, m := range s.models {
		data = append(data, s.server.list(m))
	}
	if s.server.name == "anthropic" { // it has pages
		o := object{"data": data, "has_more": false, "first_id": nil, "last_id": nil}
		if n := len(s.models); n > 0 {
			o["first_id"], o["last_id"] = s.models[0].id, s.models[n-1].id
		}
		return o
	}
	return object{"object": "list", "data": data}
}

// named is the model that a request names, else the first.
func named(s settings, body []byte) model {
	var r struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	_ = json.Unmarshal(body, &r) // what is not there is not named
	for _, m := range s.models {
		if m.id == cmp.Or(r.Model, r.Name) {
			return m
		}
	}
	if len(s.models) == 0 {
		return model{id: "scripted"}
	}
	return s.models[0]
}

// props is llama.cpp's: the window of one slot.
func props(s settings, body []byte) any {
	m := named(s, body)
	return object{
		"default_generation_settings": object{"n_ctx": m.window}, "total_slots": 1,
		"model_path": "/models/" + m.id + ".gguf", "build_info": "scripted",
	}
}

// tokenize is llama.cpp's or vLLM's: four characters make a token.
func tokenize(s settings, body []byte) (any, bool) {
	var r struct {
		Content  string            `json:"content"`
		Prompt   string            `json:"prompt"`
		Messages []json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &r)
	switch s.server.name {
	case "llama.cpp":
		return object{"tokens": ids(tokens(r.Content))}, true
	case "vllm":
		n := tokens(r.Prompt + render(r.Messages))
		return object{"count": n, "max_model_len": named(s, body).window, "tokens": ids(n)}, true
	default:
		return nil, false
	}
}

func ids(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func applyTemplate(_ settings, body []byte) any {
	var r struct {
		Messages []json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &r)
	return object{"prompt": render(r.Messages) + "<|assistant|>\n"}
}

// render puts messages into the template of a model.
func render(messages []json.RawMessage) string {
	var b strings.Builder
	for _, raw := range messages {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(raw, &m)
		fmt.Fprintf(&b, "<|%s|>\n%s", m.Role, texts(m.Content))
	}
	return b.String()
}

// show is Ollama's: the window that a model was trained with, and the parameters of
// its file.
func show(s settings, body []byte) any {
	m := named(s, body)
	o := object{
		"modelfile": "", "capabilities": []string{"completion", "tools"},
		"details":    object{"family": "scripted", "format": "gguf"},
		"model_info": object{"general.architecture": "scripted", "scripted.context_length": cmp.Or(m.trained, m.window)},
	}
	if m.window > 0 {
		o["parameters"] = fmt.Sprintf("num_ctx                        %d", m.window)
	}
	return o
}

func loaded(s settings, _ []byte) any {
	models := []any{}
	for _, m := range s.models {
		models = append(models, object{"name": m.id, "model": m.id, "context_length": m.window})
	}
	return object{"models": models}
}

func tags(s settings, _ []byte) any {
	models := []any{}
	for _, m := range s.models {
		models = append(models, object{"name": m.id, "model": m.id, "details": object{"family": "scripted", "context_length": cmp.Or(m.trained, m.window)}})
	}
	return object{"models": models}
}

// lmModels is LM Studio's: a model is loaded if its window is known.
func lmModels(s settings, _ []byte) any {
	data := []any{}
	for _, m := range s.models {
		o := object{"id": m.id, "object": "model", "type": "llm", "state": "not-loaded", "max_context_length": cmp.Or(m.trained, m.window)}
		if m.window > 0 {
			o["state"], o["loaded_context_length"] = "loaded", m.window
		}
		data = append(data, o)
	}
	return object{"object": "list", "data": data}
}
