// Package chat is the model on servers that speak OpenAI's chat completions, and on
// Ollama's own /api/chat.
//
// What differs between servers is data: a profile, guessed from the base URL or
// named in the configuration, whose fields the configuration can set one by one.
//
// Guarantees:
//
//   - A request is mended by adapters/kit/prompt as the last step before its body;
//     what had to be is told (adapters.Repaired). There is one system message, the
//     first; checkpoints and notices are user messages.
//   - The same history is the same bytes, whatever the order in which tools were
//     declared, and a longer history begins with the same messages.
//   - An answer is complete only if the server said so, by a finish_reason or
//     [DONE]; a stream that ends without either is an error of class
//     responseStreamDisconnected, and its calls are dropped. So are calls of an
//     answer that was cut whose arguments are not whole.
//   - A full window is told apart from the bound of the answer, also where the server
//     does not say it; a request that a server cut in silence is an overflow.
//   - Everything that a server can send has a bound, and reading it takes time that
//     is linear in its bytes, whatever the pieces in which they come.
//   - A request is repeated only while nothing of an answer was given out: after what
//     may pass (by kit/httpx), and without a field that the server refused, which is
//     remembered for the model. Nothing is sent twice after an overflow.
//   - Keys are asked for with each request and are in no error and no log.
package chat
