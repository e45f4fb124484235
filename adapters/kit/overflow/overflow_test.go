package overflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/overflow"
)

const (
	window      = string(adapters.ClassOverflow)
	tooLarge    = string(adapters.ClassTooLarge)
	rateLimited = string(adapters.ClassRateLimited)
	overloaded  = string(adapters.ClassOverloaded)
	server      = string(adapters.ClassServer)
	denied      = string(adapters.ClassDenied)
	badRequest  = string(adapters.ClassBadRequest)
	filtered    = string(adapters.ClassFiltered)
)

// body wraps a message as most servers do.
func body(message string) string {
	text, _ := json.Marshal(message)
	return fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":null}}`, text)
}

// wordings are what servers say when a request exceeds the window, with the
// numbers in it.
var wordings = []struct {
	who, text  string
	req, limit int
}{
	{"openai", "Your input exceeds the context window of this model. Please adjust your input and try again.", 0, 0},
	{"openai chat", "This model's maximum context length is 128000 tokens. However, your messages resulted in 130112 tokens. Please reduce the length of the messages.", 0, 128000},
	{"openai chat, the parts", "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens (6000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.", 6000, 8192},
	{"anthropic", "prompt is too long: 208310 tokens > 200000 maximum", 208310, 200000},
	{"anthropic, with the answer", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again", 190000, 200000},
	{"anthropic, relayed", "input length and max_tokens exceeded context limit", 0, 0},
	{"bedrock", "Input is too long for requested model", 0, 0},
	{"bedrock, short", "Input is too long", 0, 0},
	{"bedrock, stream", "Input exceeds the max input token limit", 0, 0},
	{"gemini", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1200000, 1048576},
	{"ollama", "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it", 9000, 4096},
	{"ollama, truncating", "the prompt is longer than the context length currently available to the model; try a shorter one", 0, 0},
	{"ollama, short", "context length exceeded", 0, 0},
	{"ollama, silent rule", "prompt filled the context window", 0, 0},
	{"llama.cpp, older", "the request exceeds the available context size, try increasing it", 0, 0},
	{"vllm, old", "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.", 4000, 4096},
	{"vllm, mid", "You passed 9000 input tokens and requested 1024 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 7168 tokens. Please reduce the length of the input prompt.", 9000, 8192},
	{"vllm, mid, characters", "You passed 90000 input characters and requested 1024 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 7168 tokens.", 0, 8192},
	{"vllm, new", "This model's maximum context length is 8192 tokens. However, you requested 1024 output tokens and your prompt contains at least 8193 input tokens, for a total of at least 9217 tokens.", 8193, 8192},
	{"vllm, the end alone", "your prompt contains at least 8193 input tokens", 8193, 0},
	{"vllm, engine", "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.", 5000, 4096},
	{"lm studio", "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input", 0, 0},
	{"lm studio, first", "Trying to keep the first 6000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input", 6000, 4096},
	{"lm studio, n_keep", "Cannot truncate prompt with n_keep (6000) >= n_ctx (4096)", 6000, 4096},
	{"openrouter", "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (120000 of text input, 10000 of tool input, 10000 in the output). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.", 130000, 131072},
	{"openrouter, about", "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.", 140000, 131072},
	{"openrouter, two parts", "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (130000 of text input, 10000 in the output).", 130000, 131072},
	{"litellm", "litellm.ContextWindowExceededError: litellm.BadRequestError: Context Window exceeded for given call. No context_window_fallback_dict set.", 0, 0},
	{"litellm, check", "the request exceeds the model's maximum context length of 8192 tokens", 0, 8192},
	{"groq", "Please reduce the length of the messages or completion.", 0, 0},
	{"xai", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537812, 131072},
	{"deepseek", "This model's maximum context length is 1048576 tokens. However, you requested 1148576 tokens (1100000 in the messages, 48576 in the completion). Please reduce the length of the messages or completion.", 1100000, 1048576},
	{"mistral", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 40000, 32768},
	{"kimi", "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)", 269030, 262144},
	{"z.ai", "Prompt too long", 0, 0},
	{"z.ai, length", "Prompt exceeds max length", 0, 0},
	{"z.ai, reason", "model_context_window_exceeded", 0, 0},
	{"z.ai, Chinese", "Prompt 超长", 0, 0},
	{"Chinese, input", "输入长度超过模型最大上下文限制", 0, 0},
	{"Chinese, context", "上下文长度超出限制，请减少输入", 0, 0},
	{"Chinese, tokens", "输入 tokens 总数已超过限制", 0, 0},
	{"together", "The input (40000 tokens) is longer than the model's context length (32768 tokens).", 40000, 32768},
	{"copilot", "prompt token count of 135000 exceeds the limit of 128000", 135000, 128000},
	{"minimax", "invalid params, context window exceeds limit (2013)", 0, 0},
	{"dashscope", "Range of input length should be [1, 98304]", 0, 98304},
	{"poolside", "Input length 140000 exceeds the maximum allowed input length of 131072 tokens.", 140000, 131072},
	{"ds4", "Prompt has 9000 tokens, but the configured context size is 8192 tokens", 9000, 8192},
	{"ds4, with commas", "Prompt has 1,040,001 tokens, but the configured context size is 1,000,000 tokens", 1040001, 1000000},
	{"siliconflow", "length of prompt_tokens (40000) must be less than max_seq_len (32768).", 40000, 32768},
	{"cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.", 4292, 4081},
	{"cohere, max", "total tokens exceeds the model's max of 128000", 0, 128000},
}

// Every wording counts in every wrapping that servers and gateways use.
func TestEveryOverflowWordingIsRecognised(t *testing.T) {
	t.Parallel()
	quote := func(s string) string { text, _ := json.Marshal(s); return string(text) }
	for _, c := range wordings {
		raw := quote(c.text)
		for how, in := range map[string]struct {
			status int
			body   string
		}{
			"an object":             {400, body(c.text)},
			"a numeric code":        {400, `{"error":{"message":` + raw + `,"code":400}}`},
			"in a stream":           {200, `{"error":{"message":` + raw + `,"code":400}}`},
			"in a stream, no code":  {200, `{"type":"error","error":{"type":"invalid_request_error","message":` + raw + `}}`},
			"LM Studio's event":     {200, `{"error":{"message":` + raw + `},"message":` + raw + `}`},
			"a raw event":           {400, "event: error\ndata: " + `{"error":{"message":` + raw + `}}` + "\n\n"},
			"error is a string":     {400, `{"error":` + raw + `}`},
			"xAI's":                 {400, `{"code":"Client specified an invalid argument","error":` + raw + `}`},
			"flat":                  {400, `{"object":"error","message":` + raw + `,"type":"BadRequestError","param":null,"code":400}`},
			"AWS":                   {400, `{"__type":"ValidationException","Message":` + raw + `}`},
			"a detail":              {422, `{"detail":[{"msg":` + raw + `,"type":"value_error"}]}`},
			"a list":                {400, `[{"error":{"code":400,"message":` + raw + `,"status":"INVALID_ARGUMENT"}}]`},
			"a JSON string":         {400, raw},
			"plain text":            {400, c.text},
			"behind a status":       {400, "400 " + body(c.text)},
			"413":                   {413, body(c.text)},
			"OpenRouter's raw":      {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":` + quote(body(c.text)) + `,"provider_name":"X"}}}`},
			"an object in a string": {400, body(body(c.text))},
			"a gateway's 500":       {500, `{"error":{"message":` + raw + `,"code":"400"}}`},
		} {
			v := overflow.Classify(in.status, []byte(in.body))
			if v.Class != window || v.Requested != c.req || v.Limit != c.limit {
				t.Errorf("%s, %s: %q %d of %d, want %d of %d\n%s", c.who, how, v.Class, v.Requested, v.Limit, c.req, c.limit, in.body)
			}
			if !strings.HasPrefix(c.text, strings.TrimSuffix(v.Message, "…")) {
				t.Errorf("%s, %s: the message is %q", c.who, how, v.Message)
			}
		}
	}
}

var bodies = []struct {
	who    string
	status int
	body   string
	want   overflow.Verdict // without a message: any
}{
	// Codes.
	{
		"responses", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
		overflow.Verdict{Class: window, Message: "Your input exceeds the context window of this model. Please adjust your input and try again."},
	},
	{"responses in a stream", 200, `{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"m","param":"input"},"sequence_number":2}`, overflow.Verdict{Class: window, Message: "m"}},
	{"responses in a stream, flat", 200, `{"type":"error","code":"context_length_exceeded","message":"m","param":null,"sequence_number":2}`, overflow.Verdict{Class: window, Message: "m"}},
	{"responses failed", 200, `{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"context_length_exceeded","message":"m"}}}`, overflow.Verdict{Class: window, Message: "m"}},
	{
		"llama.cpp", 400, `{"error":{"code":400,"message":"request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":13392,"n_ctx":8192}}`,
		overflow.Verdict{Class: window, Requested: 13392, Limit: 8192, Message: "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it"},
	},
	{"groq", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, overflow.Verdict{Class: window}},
	{"z.ai", 400, `{"code":"1261","message":"Prompt too long"}`, overflow.Verdict{Class: window}},
	{"z.ai with 200", 200, `{"code":"1261","message":"Prompt exceeds max length"}`, overflow.Verdict{Class: window}},
	{"z.ai with 429", 429, `{"error":{"code":"1261","message":"Prompt too long"}}`, overflow.Verdict{Class: window}},
	{"z.ai, a number", 400, `{"error":{"code":1261,"message":"?"}}`, overflow.Verdict{Class: window}},
	{"copilot", 400, `{"error":{"message":"prompt token count of 135000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`, overflow.Verdict{Class: window, Requested: 135000, Limit: 128000}},
	{"a code quoted in another language", 500, `{"error":{"message":"Error code: 400 - {'error': {'message': 'too big', 'code': 'context_length_exceeded'}}"}}`, overflow.Verdict{Class: window}},
	{"only a code", 400, `{"error":{"code":"context_length_exceeded"}}`, overflow.Verdict{Class: window, Message: "the server answered context_length_exceeded"}},

	// Bytes, not tokens.
	{"anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, overflow.Verdict{Class: tooLarge, Message: "Request exceeds the maximum size"}},
	{"anthropic, tokens", 413, `{"type":"error","error":{"type":"request_too_large","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`, overflow.Verdict{Class: window, Requested: 208310, Limit: 200000}},
	{"nginx", 413, "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n", overflow.Verdict{Class: tooLarge, Message: "413 Request Entity Too Large nginx"}},
	{"express", 413, "Payload Too Large", overflow.Verdict{Class: tooLarge}},
	{"kimi", 400, body("total message size 10176584 exceeds limit 2097152"), overflow.Verdict{Class: tooLarge}},
	{"copilot", 413, "failed to parse request", overflow.Verdict{Class: tooLarge}},
	{"any 413", 413, `{"error":{"message":"no"}}`, overflow.Verdict{Class: tooLarge, Message: "no"}},

	// Nothing said: Cerebras means overflow, others may not.
	{"cerebras", 400, "", overflow.Verdict{Class: badRequest, Ambiguous: true, Message: "the server answered 400 Bad Request and said nothing else"}},
	{"cerebras", 413, " \n", overflow.Verdict{Class: tooLarge, Ambiguous: true}},
	{"an empty object", 400, "{}", overflow.Verdict{Class: badRequest, Ambiguous: true}},
	{"a bare 422", 422, "", overflow.Verdict{Class: badRequest}},

	// What looks like overflow.
	{"groq TPM", 413, `{"error":{"message":"Request too large for model x in organization y on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, overflow.Verdict{Class: rateLimited}},
	{"openai TPM", 429, body("Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 52000. The input or output tokens must be reduced in order to run successfully."), overflow.Verdict{Class: rateLimited}},
	{"bedrock", 400, `{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}`, overflow.Verdict{Class: rateLimited}},
	{"bedrock, a namespace", 400, `{"__type":"com.amazon.coral.service#ThrottlingException","message":"slow"}`, overflow.Verdict{Class: rateLimited}},
	{"tokens per day", 400, body("This request exceeds the available context window of tokens per day"), overflow.Verdict{Class: rateLimited}},
	{"tokens per hour", 429, body("Too many tokens per hour"), overflow.Verdict{Class: rateLimited}},
	{"rate limit", 400, body("rate limit exceeded: prompt too long for your tier"), overflow.Verdict{Class: rateLimited}},
	{"too many requests", 429, "Too Many Requests", overflow.Verdict{Class: rateLimited}},
	{"throttled", 400, body("Request was throttled. Expected available in 3 seconds."), overflow.Verdict{Class: rateLimited}},
	{"quota", 400, body("You exceeded your current quota, please check your plan and billing details."), overflow.Verdict{Class: rateLimited}},
	{"z.ai, frequency", 429, `{"error":{"code":"1303","message":"您当前使用该API的频率过高，请降低频率"}}`, overflow.Verdict{Class: rateLimited}},
	{"z.ai, money", 400, `{"error":{"code":"1113","message":"您的账户已欠费，余额不足"}}`, overflow.Verdict{Class: rateLimited}},
	{"z.ai, at once", 400, body("您当前使用该API的并发数过高，请降低并发"), overflow.Verdict{Class: rateLimited}},
	{"Chinese, speed", 400, body("触发速率限制，输入过长"), overflow.Verdict{Class: rateLimited}},
	{"Chinese, too often", 400, body("请求频率超限"), overflow.Verdict{Class: rateLimited}},
	{"Chinese, throttled", 400, body("已被限流，请稍后再试"), overflow.Verdict{Class: rateLimited}},
	{"Chinese, allowance", 400, body("免费额度已用完"), overflow.Verdict{Class: rateLimited}},
	{"Chinese, quota", 400, body("配额不足"), overflow.Verdict{Class: rateLimited}},
	{"many requests", 400, body("Too many requests in flight"), overflow.Verdict{Class: rateLimited}},
	{"service unavailable", 400, body("Service unavailable: context limit of the proxy reached"), overflow.Verdict{Class: overloaded}},
	{"z.ai, the answer's bound", 400, body("max_tokens参数非法：限制数值范围[1,131072]"), overflow.Verdict{Class: badRequest, Message: "max_tokens参数非法：限制数值范围[1,131072]"}},
	{"groq, the answer's bound", 400, body("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model"), overflow.Verdict{Class: badRequest}},
	{"anthropic, the answer's bound", 400, body("max_tokens: 100000 exceeds model's maximum output of 64000; the context limit is 200000"), overflow.Verdict{Class: badRequest}},
	{"dashscope, the answer's bound", 400, body("Range of max_tokens should be [1, 8192], the context limit is 98304"), overflow.Verdict{Class: badRequest}},
	{"too short", 400, body("Input is too short"), overflow.Verdict{Class: badRequest}},
	{"429 with the words", 429, body("prompt is too long"), overflow.Verdict{Class: rateLimited}},
	{"529 with the words", 529, body("prompt is too long"), overflow.Verdict{Class: overloaded}},
	{"500 with the words", 500, body("maximum context length"), overflow.Verdict{Class: server}},
	{"503 with the words", 503, body("context length exceeded"), overflow.Verdict{Class: overloaded}},
	{"the request echoed", 422, `{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required","input":{"messages":[{"role":"user","content":"prompt is too long: 9 tokens > 8 maximum"}]}}]}`, overflow.Verdict{Class: badRequest, Message: "Field required"}},
	{"stream_options", 400, body("Unrecognized request argument supplied: stream_options"), overflow.Verdict{Class: badRequest}},
	{"llama.cpp, arguments", 500, `{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]","type":"server_error"}}`, overflow.Verdict{Class: badRequest}},

	// The other classes.
	{"no key", 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, overflow.Verdict{Class: denied, Message: "Incorrect API key provided"}},
	{"gemini, key", 400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"t","reason":"API_KEY_INVALID"}]}}`, overflow.Verdict{Class: denied}},
	{"forbidden", 403, "", overflow.Verdict{Class: denied, Message: "the server answered 403 Forbidden and said nothing else"}},
	{"no money", 402, `{"error":{"message":"Insufficient credits","code":402}}`, overflow.Verdict{Class: rateLimited}},
	{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, overflow.Verdict{Class: overloaded}},
	{"overloaded in a stream", 200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, overflow.Verdict{Class: overloaded}},
	{"kimi overloaded", 429, `{"error":{"type":"engine_overloaded_error","message":"The engine is currently overloaded, please try again later"}}`, overflow.Verdict{Class: overloaded}},
	{"not found", 404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"not_found_error"}}`, overflow.Verdict{Class: badRequest}},
	{"filter", 400, `{"error":{"code":"content_filter","message":"The response was filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, overflow.Verdict{Class: filtered}},
	{"dashscope, filter", 400, `{"code":"DataInspectionFailed","message":"Input data may contain inappropriate content."}`, overflow.Verdict{Class: filtered}},
	{"a timeout", 408, "", overflow.Verdict{Class: server}},
	{"a gateway", 502, "<!DOCTYPE html><html><head><style>p{}</style></head><body><h1>Bad   gateway</h1></body></html>", overflow.Verdict{Class: server, Message: "Bad gateway"}},
	{"a gateway that relays a 429", 500, `{"error":{"message":"m","code":429}}`, overflow.Verdict{Class: rateLimited}},
	{"openrouter in a stream", 200, `{"id":"x","error":{"code":502,"message":"Upstream error"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, overflow.Verdict{Class: server}},
	{"openrouter's raw text", 502, `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream sent nothing"}}}`, overflow.Verdict{Class: server, Message: "Provider returned error: upstream sent nothing"}},
	{"a string in a stream", 200, `{"error":"model runner has unexpectedly stopped"}`, overflow.Verdict{Class: server}},
	{"a bad request in a stream", 200, `{"error":{"type":"invalid_request_error","message":"no"}}`, overflow.Verdict{Class: badRequest}},
	{"bare in a stream", 200, `{"code":500,"message":"boom"}`, overflow.Verdict{Class: server}},
	{"empty error in a stream", 200, `{"error":{}}`, overflow.Verdict{Class: server, Message: "the server reported an error without saying which"}},

	// No error at all.
	{"a chunk", 200, `{"id":"x","choices":[{"index":0,"delta":{"content":"prompt is too long"}}],"error":null}`, overflow.Verdict{}},
	{"an answer", 200, `{"id":"x","choices":[{"message":{"content":"context_length_exceeded"}}],"code":"x","message":"y"}`, overflow.Verdict{}},
	{"ollama's chunk", 200, `{"model":"m","message":{"role":"assistant","content":"Prompt too long"},"done":false}`, overflow.Verdict{}},
	{"a responses event", 200, `{"type":"response.completed","response":{"id":"r","error":null}}`, overflow.Verdict{}},
	{"fine", 200, `{"code":200,"msg":"ok","data":{}}`, overflow.Verdict{}},
	{"text", 200, "prompt is too long", overflow.Verdict{}},
	{"the end", 200, "[DONE]", overflow.Verdict{}},
	{"nothing", 0, "", overflow.Verdict{}},
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range bodies {
		got := overflow.Classify(c.status, []byte(c.body))
		if c.want.Class != "" && got.Message == "" {
			t.Errorf("%s: no message", c.who)
		}
		if c.want.Message == "" {
			got.Message = ""
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %d %s\n(-want +got):\n%s", c.who, c.status, c.body, diff)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("é", 5000), "a" + strings.Repeat("漢", 5000), strings.Repeat("\xff\n", 9000), "a\x00\x1b[31mb"} {
		for _, b := range []string{text, body(text), `{"error":` + strings.Repeat(`{"error":`, 100_000)} {
			v := overflow.Classify(400, []byte(b))
			if len(v.Message) > 500 || !utf8.ValidString(v.Message) || strings.ContainsAny(v.Message, "\n\x00\x1b") || v.Message == "" {
				t.Errorf("%.40q: %d bytes: %q", b, len(v.Message), v.Message)
			}
		}
	}
}

// A body of any size and nesting costs little.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]string{
		"deep":        strings.Repeat(`{"error":`, 10_000) + `"prompt is too long"` + strings.Repeat("}", 10_000),
		"many":        `{"errors":[` + strings.Repeat(`{"message":"a"},`, 50_000) + `{"message":"b"}]}`,
		"long":        body(strings.Repeat("input ", 1<<20)),
		"many braces": strings.Repeat(`{"`, 1<<20),
		"quoted":      strings.Repeat(`"`, 1<<20),
	} {
		if v := overflow.Classify(400, []byte(b)); v.Class != badRequest {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, c := range bodies {
		f.Add(c.status, []byte(c.body))
	}
	for _, c := range wordings {
		f.Add(400, []byte(c.text))
	}
	f.Fuzz(func(t *testing.T, status int, b []byte) {
		v := overflow.Classify(status, b)
		if len(v.Message) > 500 || !utf8.ValidString(v.Message) {
			t.Errorf("message of %d bytes: %q", len(v.Message), v.Message)
		}
		if (v.Class == "") != (v.Message == "") || status >= 400 && v.Class == "" {
			t.Errorf("%d: %+v", status, v)
		}
		if v.Class != window && (v.Requested != 0 || v.Limit != 0) || v.Requested < 0 || v.Limit < 0 {
			t.Errorf("numbers: %+v", v)
		}
	})
}
