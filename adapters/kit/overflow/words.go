package overflow

import (
	"regexp"
	"strings"
)

// The wordings and codes below are facts of the named servers' interfaces, from
// their documentation, sources and error reports. Each has a sample in the test.

// windowCodes are codes that mean overflow wherever they stand.
var windowCodes = set("context_length_exceeded", // OpenAI, Groq and many that follow them
	"exceed_context_size_error",        // llama.cpp
	"model_context_window_exceeded",    // Anthropic, z.ai
	"model_max_prompt_tokens_exceeded", // Copilot
	"contextwindowexceedederror",       // LiteLLM
	"1261",                             // z.ai
)

// specific are codes that say more than a status does.
var specific = []struct {
	class string
	codes map[string]bool
}{
	{filtered, set("content_filter", "content_policy_violation", "responsibleaipolicyviolation",
		"data_inspection_failed", "datainspectionfailed", "invalid_prompt", "1301")},
	{tooLarge, set("request_too_large", "payload_too_large")},
	{rateLimited, set("rate_limit_exceeded", "rate_limit_error", "rate_limit_reached_error", "too_many_requests",
		"insufficient_quota", "quota_exceeded", "exceeded_current_quota_error", "resource_exhausted", "billing_error",
		"throttlingexception", "servicequotaexceededexception")},
	{denied, set("invalid_api_key", "api_key_invalid", "authentication_error", "permission_error", "permission_denied",
		"unauthenticated", "accessdeniedexception", "unrecognizedclientexception", "invalid_authentication_error")},
	{overloaded, set("overloaded_error", "engine_overloaded_error", "server_overloaded", "service_unavailable", "unavailable",
		"serviceunavailableexception", "insufficient_system_resource", "slow_down")},
}

// requestCodes blame the request, where there is no status that does.
var requestCodes = set("invalid_request_error", "badrequesterror", "invalid_argument", "validationexception",
	"not_found_error", "not_found", "model_not_found", "failed_precondition", "invalidparameter", "invalid_request")

func set(codes ...string) map[string]bool {
	m := make(map[string]bool, len(codes))
	for _, c := range codes {
		m[c] = true
	}
	return m
}

// any of some expressions, whatever the case of letters.
func anyOf(exprs ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.Join(exprs, "|"))
}

// codeInText is a code of overflow inside a text, as wrapped errors have it.
var codeInText = anyOf(`\b(context_length_exceeded|exceed_context_size_error|model_context_window_exceeded|` +
	`model_max_prompt_tokens_exceeded|ContextWindowExceededError)\b`)

// negative is wording that resembles overflow or hides it, with what it means.
var negative = []struct {
	class string
	words *regexp.Regexp
}{
	{badRequest, anyOf(
		`max_(completion_|output_)?tokens[^.]{0,60}(must be|less than or equal|exceeds model'?s maximum output|参数)`,
		`range of max_(completion_|output_)?tokens`,
		`failed to parse tool call arguments`, // llama.cpp, with status 500: the same request fails again
	)},
	{rateLimited, anyOf(
		`(\b|_)rate.?limit`, `too many requests`, `tokens per (minute|day|hour)`, `\bT[PR][MD]\b`, `throttl`, `\bquotas?\b`,
		`please wait before trying again`,
		`频率`, `速率`, `限流`, `并发`, `余额`, `额度`, `配额`,
	)},
	{overloaded, anyOf(`service (is )?(temporarily )?unavailable`)},
}

// positive is wording that means overflow.
var positive = anyOf(
	`context[ _-]?(length|window|size)[ _-]?(is |was |has been )?exceed`,
	`exceed[a-z]*( the| this| available)*( model'?s?)?( maximum| available)? (context|prompt|input)[ _-]?(length|window|size)`,
	`(maximum|max) (context|prompt|input|model) length`,
	`context length is only \d+`,
	`context window exceeds? (the )?limit`,
	`context limit`,
	`prompt (is )?too long`,
	`prompt exceeds (the )?max(imum)? (context )?length`,
	`input (is )?too long`,
	`input token count.*exceeds the maximum`,
	`(max|maximum) (input|prompt) token limit`,
	`input (length|\()[^.]{0,60}(exceeds|longer than)[^.]{0,60}(context|input) length`,
	`greater than the context length`,
	`(keep|n_keep)[^.]{0,80}(n_ctx|context the overflows)`,
	`reduce the length of (the |your |either )?(messages|input|prompt|one)`,
	`exceeded model token limit`,
	`total tokens exceeds? the model'?s max`,
	`too many (input |prompt )?tokens\b`,
	`your prompt contains at least [\d,]+ input tokens`,
	`(prompt|request|input)[^.]{0,60}\btokens?\b[^.]{0,80}(too large for model|configured context size|available context size|exceeds the limit of [\d,]+)`,
	`(prompt|input)[^.]{0,40}token count[^.]{0,40}exceeds the limit of [\d,]+`,
	`range of input length should be`,
	`length of prompt_tokens \([\d,]+\) must be less than`,
	`longer than the (context length|maximum model length)`,
	`prompt filled the context window`,
	`(上下文|提示词|输入|prompt) ?(tokens? ?)?(内容|文本|窗口)?(数量?|总?长度|总数)?已?(超长|过长|太长|超出|超过)`,
)

// manyBytes is wording about the size of the body.
var manyBytes = anyOf(
	`request exceeds the maximum size`,
	`request entity too large`, `(payload|content|request body|request) (is )?too large`,
	`message size [\d,]+ exceeds`, // Kimi, in bytes, with status 400
)
