// Package upstream plays a model server from a cassette, for tests, the README, the
// demo and the benches. It speaks OpenAI's chat completions, Ollama's native chat,
// OpenAI's Responses as codex uses them and Anthropic's Messages as Claude Code uses
// them, streaming and not, and the endpoints by which windows are discovered. Each
// wire is one file of this package; what a cassette says is the same on all.
//
// A cassette is a txtar archive. The text before its first file holds settings,
// each file is one exchange: a request and its answer. Both are lines of
// directives; # begins a comment line. A TEXT is the rest of its line, or a string in
// Go's double quotes, or, after <<END, the lines up to one that is END. In the
// texts of answers ${n} stands for how often the exchange was played.
//
// Settings, all optional:
//
//	server NAME          whose habits: generic, openai, anthropic, llama.cpp, ollama, vllm, lmstudio, openrouter,
//	                     litellm, groq, xai, deepseek, mistral, kimi, glm
//	model ID [window=N] [trained=N] [output=N]   one that is listed; window is the loaded one
//	key TEXT             requests without this key get 401
//	reasoning FIELD      the field of thinking in chat completions; else the server's
//	usage auto|none      what answers report that do not say it themselves; auto
//	limit N [SERVER]     requests of more than N tokens get the server's overflow error; so does,
//	                     with vLLM, a request whose output would not fit beside it
//	chunks, deltas       as below, for every exchange
//
// Which exchange answers a request: of those that are not used up the first whose
// conditions hold; if there is none, the first that has no conditions. So
// the plain ones are a conversation in order, whatever else is asked between. A
// request of a checkpoint writer, which holds transcript.WriterMark, or one by which
// codex or Claude Code compact by themselves, is only answered by an exchange with
// conditions. Conditions, all of which must hold:
//
//	when TEXT            the request contains it, as it stands or in a JSON string
//	unless TEXT          it does not
//	last TEXT            its last message does
//	writer               it is the request of a checkpoint writer
//
// What is held against the request that comes; a failure is a mistake:
//
//	expect TEXT
//	expect-not TEXT
//
// How it answers:
//
//	repeat [N]           any number of times, or N
//	limit N [SERVER]     as the setting, in place of it
//	status N             of HTTP; from 400 on with an error body unless one is given
//	header NAME: VALUE
//	json JSON, body TEXT the whole body
//	chunks N             its bytes leave in pieces of N, wherever that cuts
//	deltas N [PACE]      its texts and arguments leave in deltas of N characters, PACE apart
//
// What it says, in order:
//
//	say TEXT             text of the answer
//	pad N                N characters of generated prose, the same every time
//	think TEXT           text of the thinking
//	compaction TEXT      the item of a provider's own compaction (Responses only)
//	call NAME ARGS [ID]  a tool call; ARGS is JSON, or a quoted string that need not be; the ID "-" is none
//	usage IN OUT [cached=N] [reasoning=N]
//	usage auto           the input is the request's characters/4, the output the answer's
//	usage none
//	finish REASON        stop, length, tool_calls, content_filter, or any word
//	done                 the end marker of the wire
//	data TEXT            a raw frame
//	event NAME TEXT      one with a name
//	raw TEXT             raw bytes
//	delay TIME           such as 50ms
//	hold NAME            waits for Server.Release
//	hang                 says nothing more until the client leaves or the server closes
//	cut                  breaks the connection
//	eof                  ends the answer as it is
//
// An answer that has none of done, eof, cut, hang and raw frames gets what is missing of
// finish, usage and done.
//
// A file that is named like a request, such as "GET /props" or "POST /api/show",
// answers that request, any number of times: with its text if that begins with { or
// [, else by its directives. Without such files the endpoints that the server has
// answer with the models of the settings. What nobody serves is a 404.
//
// A mistake in a cassette names file and line. A mistake while it is played, such as
// a request that nothing answers, is reported, and answered with status 400.
package upstream
