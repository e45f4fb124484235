package upstream

import (
	"cmp"
	"fmt"
)

// A server is what model servers do differently: the field of thinking, what they
// tell of their models, and how they say that a request is too large.
type server struct {
	name      string
	reasoning string
	list      func(m model) object // of one model in GET /v1/models
	overflow  func(e excess) (status int, body object)
}

// An excess is a request that does not fit.
type excess struct{ input, output, window int }

// servers by their names. The texts of overflows are those of the servers
// (providers' documentation, sources and error reports).
var servers = map[string]server{}

func init() {
	for _, s := range []server{
		{"generic", "reasoning_content", genericModel, openAIError("invalid_request_error", "context_length_exceeded", longMessages)},
		{"openai", "reasoning_content", listed(), openAIError("invalid_request_error", "context_length_exceeded", longMessages)},
		{"anthropic", "thinking", anthropicModel, tooLongPrompt},
		{"llama.cpp", "reasoning_content", llamaModel, llamaError},
		{"ollama", "reasoning", listed(), openAIError("invalid_request_error", nil, availableContext)},
		{"vllm", "reasoning", listed("max_model_len"), flatError(func(e excess) string {
			return fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens.",
				e.window, e.output, min(e.input, e.window+1), e.output+min(e.input, e.window+1))
		})},
		{"lmstudio", "reasoning_content", listed(), func(e excess) (int, object) {
			return 400, object{"error": fmt.Sprintf("Trying to keep the first %d tokens when context the overflows. However, the model is loaded with context length of only %d tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input", e.input, e.window)}
		}},
		{"openrouter", "reasoning", openRouterModel, func(e excess) (int, object) {
			return 400, object{"error": object{"code": 400, "message": fmt.Sprintf("This endpoint's maximum context length is %d tokens. However, you requested about %d tokens (%d of text input, %d in the output). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.", e.window, e.input+e.output, e.input, e.output)}}
		}},
		{"litellm", "reasoning_content", listed(), openAIError(nil, "400", func(e excess) string {
			return "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: " + longMessages(e)
		})},
		{"groq", "reasoning", listed("context_window"), openAIError("invalid_request_error", "context_length_exceeded", func(excess) string {
			return "Please reduce the length of the messages or completion."
		})},
		{"xai", "reasoning_content", listed(), func(e excess) (int, object) {
			return 400, object{"code": "Client specified an invalid argument", "error": fmt.Sprintf("This model's maximum prompt length is %d but the request contains %d tokens.", e.window, e.input)}
		}},
		{"deepseek", "reasoning_content", listed(), openAIError("invalid_request_error", "invalid_request_error", func(e excess) string {
			return fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion.", e.window, e.input+e.output, e.input, e.output)
		})},
		{"mistral", "reasoning_content", listed("max_context_length"), flatError(func(e excess) string {
			return fmt.Sprintf("Prompt contains %d tokens and 0 draft tokens, too large for model with %d maximum context length", e.input, e.window)
		})},
		{"kimi", "reasoning_content", listed("context_length"), openAIError("invalid_request_error", nil, func(e excess) string {
			return fmt.Sprintf("Invalid request: Your request exceeded model token limit: %d (requested: %d)", e.window, e.input)
		})},
		{"glm", "reasoning_content", listed(), func(excess) (int, object) {
			return 400, object{"error": object{"code": "1261", "message": "Prompt exceeds max length"}}
		}},
	} {
		servers[s.name] = s
	}
}

func longMessages(e excess) string {
	return fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", e.window, e.input)
}

func availableContext(e excess) string {
	return fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", e.input, e.window)
}

// openAIError is an error in OpenAI's shape.
func openAIError(kind, code any, text func(excess) string) func(excess) (int, object) {
	return func(e excess) (int, object) {
		return 400, object{"error": object{"message": text(e), "type": kind, "param": nil, "code": code}}
	}
}

// openAIFailure is what OpenAI answers with an error status (platform docs, "Error
// codes").
func openAIFailure(status int) object {
	kind, text, code := "invalid_request_error", "The request could not be understood.", any(nil)
	switch {
	case status == 401:
		text, code = "Incorrect API key provided", "invalid_api_key"
	case status == 403:
		text, code = "Country, region, or territory not supported", "unsupported_country_region_territory"
	case status == 404:
		text, code = "The model does not exist or you do not have access to it.", "model_not_found"
	case status == 429:
		kind, text, code = "requests", "Rate limit reached for requests. Please try again in 1s.", "rate_limit_exceeded"
	case status == 503:
		kind, text, code = "server_error", "The engine is currently overloaded, please try again later", "server_is_overloaded"
	case status >= 500:
		kind, text, code = "server_error", "The server had an error while processing your request.", "server_error"
	}
	return object{"error": object{"message": text, "type": kind, "param": nil, "code": code}}
}

// anthropicFailure is what Anthropic answers with an error status (platform docs,
// "Errors").
func anthropicFailure(status int) object {
	kind, text := "invalid_request_error", "The request could not be understood."
	switch {
	case status == 401:
		kind, text = "authentication_error", "invalid x-api-key"
	case status == 402:
		kind, text = "billing_error", "Your credit balance is too low to access the API."
	case status == 403:
		kind, text = "permission_error", "Your API key does not have permission to use the resource."
	case status == 404:
		kind, text = "not_found_error", "The model was not found."
	case status == 413:
		kind, text = "request_too_large", "Request exceeds the maximum size"
	case status == 429:
		kind, text = "rate_limit_error", "This request would exceed your rate limit."
	case status == 504:
		kind, text = "timeout_error", "The request timed out."
	case status == 529:
		kind, text = "overloaded_error", "Overloaded"
	case status >= 500:
		kind, text = "api_error", "Internal server error"
	}
	return object{"error": object{"type": kind, "message": text}}
}

// flatError is an error without a wrapping, as vLLM's of old and Mistral's.
func flatError(text func(excess) string) func(excess) (int, object) {
	return func(e excess) (int, object) {
		return 400, object{"object": "error", "message": text(e), "type": "BadRequestError", "param": nil, "code": 400}
	}
}

func llamaError(e excess) (int, object) {
	return 400, object{"error": object{
		"code": 400, "type": "exceed_context_size_error", "message": availableContext(e), "n_prompt_tokens": e.input, "n_ctx": e.window,
	}}
}

// listed is a model of OpenAI's list, with its window in a field if the server
// tells it there.
func listed(window ...string) func(model) object {
	return func(m model) object {
		o := object{"id": m.id, "object": "model", "created": created, "owned_by": "scripted"}
		for _, field := range window {
			if m.window > 0 {
				o[field] = m.window
			}
		}
		return o
	}
}

// genericModel tells what a server can tell in a list.
func genericModel(m model) object {
	o := listed("context_length")(m)
	if m.output > 0 {
		o["max_output_tokens"] = m.output
	}
	return o
}

func anthropicModel(m model) object {
	return object{"type": "model", "id": m.id, "display_name": m.id, "created_at": "2026-01-01T00:00:00Z", "max_input_tokens": m.window, "max_tokens": m.output}
}

func llamaModel(m model) object {
	o := listed()(m)
	if t := cmp.Or(m.trained, m.window); t > 0 {
		o["meta"] = object{"n_ctx_train": t}
	}
	return o
}

func openRouterModel(m model) object {
	o := listed("context_length")(m)
	top := object{"is_moderated": false}
	if m.window > 0 {
		top["context_length"] = m.window
	}
	if m.output > 0 {
		top["max_completion_tokens"] = m.output
	}
	o["top_provider"] = top
	o["pricing"] = object{"prompt": "0.000001", "completion": "0.000002"}
	return o
}
