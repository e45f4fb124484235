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
//	limit N [SERVER]     requests of more than N tokens get the server's overflow error, or for generic
//	                     that of the wire's own provider; so does, with vLLM, a request whose output would
//	                     not fit beside it
//	chunks, deltas       as below, for every exchange
//
// Which exchange answers a request: of those that are not used up the first whose
// conditions hold; if there is none, the first that has no conditions. So
// the plain ones are a conversation in order, whatever else is asked between. A
// request of a checkpoint writer, which holds transcript.WriterMark, or one by which
// codex or Claude Code compact by themselves, is only answered by an exchange with
// conditions. codex says what a request is for in a header and in its metadata, or asks
// for an item of a compaction; Claude Code begins a line of a text of the user with an
// order (codex 0.171, Claude Code 2.1.332, observed). Conditions, all of which must hold:
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
//	status N             of HTTP; from 400 on with an error body unless one is given; that of Responses
//	                     and Messages is what OpenAI and Anthropic say with this status
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
//	refuse TEXT          the model refuses, and says so
//	compaction TEXT      the item of a provider's own compaction (Responses only)
//	call NAME ARGS [ID]  a tool call; ARGS is JSON, or a quoted string that need not be; the ID "-" is none;
//	                     in Responses NAME may be NAMESPACE/NAME
//	custom NAME TEXT     a call of a tool whose input is a text, such as codex's apply_patch (Responses only)
//	usage IN OUT [cached=N] [written=N] [reasoning=N]
//	                     cached and written are the parts of IN that were read from a cache or put into it
//	usage auto           the input is the request's characters/4, the output the answer's
//	usage none
//	finish REASON        stop, length, tool_calls, content_filter, or any word
//	done                 the end marker of the wire
//	data TEXT            a raw frame
//	event NAME TEXT      one with a name
//	raw TEXT             raw bytes
//	delay TIME           such as 50ms
//	fail CODE [TEXT]     breaks off with an error of the wire: response.failed, an error event, an error chunk
//	hold NAME            waits for Server.Release; Server.Reached tells when it begins to
//	hang [NAME]          says nothing more until the client leaves or the server closes; Server.Reached as above
//	cut                  breaks the connection
//	eof                  ends the answer as it is
//
// An answer that has none of done, fail, eof, cut, hang and raw frames gets what is missing of
// finish, usage and done.
//
// A file that is named like a request, such as "GET /props" or "POST /api/show",
// answers that request, any number of times: with its text if that begins with { or
// [, else by its directives. Without such files the endpoints that the server has
// answer with the models of the settings. What nobody serves is a 404.
//
// Who times an interrupt or a kill by a server needs no clock: Server.Await returns when
// a request came, Server.Reached when an answer has said all that stands before a hold
// or a hang.
//
// The models of the settings are listed for codex and Claude Code too, though neither
// asks for them, and tokens are counted for the latter (/v1/messages/count_tokens).
//
// A mistake in a cassette names file and line. A mistake while it is played, such as
// a request that nothing answers, is reported, and answered with status 400. So is a
// request of Responses or Messages in which a call and its result are apart, which the
// providers refuse in the same words.
package upstream
