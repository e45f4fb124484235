package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// on returns the model on a server in memory.
func on(t *testing.T, s *upstream.Server, o Options) *Model {
	t.Helper()
	if o.BaseURL == "" {
		o.BaseURL = s.URL
		if o.Profile != "ollama" {
			o.BaseURL += "/v1"
		}
	}
	o.Name, o.dial = "test", s.Dial
	if o.Model == "" {
		o.Model = "m"
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// hello is a request of one message.
func hello() adapters.Request {
	return adapters.Request{Model: "m", Base: adapters.Base{System: "S"}, Entries: entries(user(text("hello")))}
}

// answers performs a request and returns what came of it.
func answers(m *Model, req adapters.Request) (lines []string, err error) {
	var chunks []adapters.Chunk
	for c, e := range m.Stream(context.Background(), req) {
		if e != nil {
			err = e
			continue
		}
		chunks = append(chunks, c)
	}
	return told(chunks, err), err
}

// inBubble runs f with a fake clock and closes what it opened on the cassette.
func inBubble(t *testing.T, cassette string, f func(t *testing.T, s *upstream.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, upstream.NewInMemory(t, cassette)) })
}

// classOf is the class of a provider's error; empty if err is none.
func classOf(err error) adapters.Class {
	if e, is := errors.AsType[*adapters.Error](err); is {
		return e.Class
	}
	return ""
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what came (-want +got):\n%s", diff)
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		first string
		tries int
		most  time.Duration // of waiting
	}{
		"a rate limit":           {first: "status 429\nheader Retry-After: 7", tries: 2, most: 8 * time.Second},
		"overload":               {first: "status 529", tries: 2, most: time.Second},
		"a server's error":       {first: "status 500", tries: 2, most: time.Second},
		"an error event":         {first: `event error {"error":{"message":"model is overloaded","type":"overloaded_error"}}`, tries: 2, most: time.Second},
		"an empty stream":        {first: "eof", tries: 2, most: time.Second},
		"a broken stream":        {first: "data {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\ncut", tries: 2, most: time.Second},
		"a failed finish_reason": {first: "finish network_error", tries: 2, most: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "usage none\n-- first --\n"+c.first+"\n-- second --\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
				start := time.Now()
				lines, err := answers(on(t, s, Options{Profile: Generic}), hello())
				if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "retried ") {
					t.Fatalf("got %q and %v, want one Retried and the answer", lines, err)
				}
				want(t, lines[1:], `say "Hi."`, "done end")
				if n := len(s.Asked()); n != c.tries {
					t.Errorf("%d requests, want %d", n, c.tries)
				}
				if waited := time.Since(start); waited > c.most {
					t.Errorf("waited %v, want at most %v", waited, c.most)
				}
			})
		})
	}
}

// The writer of a checkpoint has its own ways to try again, none of them with the
// same request.
func TestAWritersRequestIsMadeOnce(t *testing.T) {
	for name, first := range map[string]string{
		"a rate limit": "status 429\nheader Retry-After: 7", "a server's error": "status 500", "an empty stream": "eof",
		"an error event": `event error {"error":{"message":"model is overloaded","type":"overloaded_error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "usage none\n-- first --\nwriter\n"+first+"\n-- second --\nwriter\nsay never\n", func(t *testing.T, s *upstream.Server) {
				req := hello()
				req.Writer, req.Base.System = true, transcript.WriterMark
				if _, err := answers(on(t, s, Options{Profile: Generic}), req); classOf(err) == "" {
					t.Errorf("got %v, want the provider's error", err)
				}
				if n := len(s.Asked()); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		})
	}
}

func TestWhatStaysIsNotTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		first string
		class adapters.Class
	}{
		"a bad request":                       {"status 400\njson {\"error\":{\"message\":\"temperature must be a number\"}}", adapters.ClassBadRequest},
		"a wrong key":                         {"status 401", adapters.ClassDenied},
		"no such model":                       {"status 404\njson {\"error\":{\"message\":\"no such model\"}}", adapters.ClassBadRequest},
		"an overflow":                         {"status 400\njson {\"error\":{\"message\":\"prompt is too long\"}}", adapters.ClassOverflow},
		"an overflow with 500":                {"status 500\njson {\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"x\"}}", adapters.ClassOverflow},
		"an overflow in a stream":             {`data {"error":{"code":"context_length_exceeded","message":"x"}}`, adapters.ClassOverflow},
		"unparsable calls":                    {"status 500\njson {\"error\":{\"message\":\"Failed to parse tool call arguments as JSON\",\"code\":500}}", adapters.ClassBadRequest},
		"nobody paid":                         {"status 429\njson {\"error\":{\"message\":\"You exceeded your current quota\",\"code\":\"insufficient_quota\"}}", adapters.ClassRateLimited},
		"a wait that is too long":             {"status 429\nheader Retry-After: 86400", adapters.ClassRateLimited},
		"too many bytes":                      {"status 413\njson {\"error\":{\"message\":\"Request Entity Too Large\"}}", adapters.ClassTooLarge},
		"an answer that broke off after text": {"say Hi\ncut", adapters.ClassCut},
		"an answer that broke off in a call":  {"call read {}\neof", adapters.ClassCut},
		"a web page":                          {"header Content-Type: text/html\nbody <html>hello</html>", adapters.ClassBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "usage none\n-- first --\n"+c.first+"\n-- second --\nsay never\n", func(t *testing.T, s *upstream.Server) {
				_, err := answers(on(t, s, Options{Profile: Generic}), hello())
				e, is := errors.AsType[*adapters.Error](err)
				if !is || e.Class != c.class {
					t.Errorf("got %v, want class %s", err, c.class)
				}
				if is && strings.HasPrefix(name, "a wait") && e.RetryAfter != 24*time.Hour {
					t.Errorf("the server asks to wait %v", e.RetryAfter)
				}
				if n := len(s.Asked()); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		})
	}
}

// A request that the server counts nothing of is reported with zeros, once, so that
// its size is estimated; a broken one is not reported.
func TestARequestThatNobodyCountedIsReportedAsZeros(t *testing.T) {
	for script, want := range map[string]int{"usage none\nsay Hi.": 1, "usage 5 2\nsay Hi.": 0, "usage none\nsay Hi\ncut": 0} {
		inBubble(t, "-- a --\n"+script+"\n", func(t *testing.T, s *upstream.Server) {
			zeros, last := 0, adapters.Chunk(nil)
			for c, err := range on(t, s, Options{Profile: Generic}).Stream(t.Context(), hello()) {
				if err != nil {
					break
				}
				if c == (adapters.UsageChunk{}) {
					zeros++
				}
				last = c
			}
			if _, done := last.(adapters.Done); zeros != want || done == strings.Contains(script, "cut") {
				t.Errorf("%q: %d reports of zeros, want %d; the last chunk is %T", script, zeros, want, last)
			}
		})
	}
}

func TestAttemptsHaveABound(t *testing.T) {
	inBubble(t, "usage none\n-- never --\nrepeat\nstatus 503\n", func(t *testing.T, s *upstream.Server) {
		lines, err := answers(on(t, s, Options{Timeouts: Timeouts{Attempts: 3}}), hello())
		if e, is := errors.AsType[*adapters.Error](err); !is || e.Class != adapters.ClassOverloaded || len(lines) != 3 || len(s.Asked()) != 3 {
			t.Errorf("%d requests, %q", len(s.Asked()), lines)
		}
	})
	inBubble(t, "usage none\n-- never --\nrepeat\neof\n", func(t *testing.T, s *upstream.Server) {
		_, err := answers(on(t, s, Options{}), hello())
		if e, is := errors.AsType[*adapters.Error](err); !is || e.Class != adapters.ClassCut || len(s.Asked()) != 1+maxSilent {
			t.Errorf("%d requests, error %v", len(s.Asked()), err)
		}
	})
}

func TestAFieldThatAServerRefusesIsLeftOutFromThenOn(t *testing.T) {
	tools := hello()
	tools.Base.Tools = []adapters.ToolSpec{{Name: "read"}}
	tools.Effort, tools.MaxOutput = "low", 100
	withImage := story()
	withImage.Model = "m"
	for name, c := range map[string]struct {
		profile string
		req     adapters.Request
		refusal string
		without string
	}{
		"stream_options": {Generic, hello(), "Unrecognized request argument supplied: stream_options", "stream_options"},
		"its member":     {Generic, hello(), "include_usage: extra fields not permitted", "stream_options"},
		"parallel calls": {"openai", tools, "'parallel_tool_calls' is not supported with this model.", "parallel_tool_calls"},
		"effort":         {"openai", tools, "Unsupported parameter: 'reasoning_effort' is not supported with this model.", "reasoning_effort"},
		"max_tokens":     {Generic, tools, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", `"max_tokens"`},
		"the other name": {"openai", tools, "Unknown parameter: max_completion_tokens", "max_completion_tokens"},
		"developer":      {"openai", hello(), "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`", `"developer"`},
		"images":         {Generic, withImage, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "image_url"},
		"tools":          {"ollama", tools, "registry.ollama.ai/library/gemma does not support tools", `"tools"`},
		"think":          {"ollama", tools, `"gemma" does not support thinking`, `"think"`},
		"tool_stream":    {"glm", tools, "unknown field tool_stream", "tool_stream"},
	} {
		t.Run(name, func(t *testing.T) {
			cassette := fmt.Sprintf("usage none\n-- first --\nstatus 400\njson {\"error\":{\"message\":%q}}\nexpect %s\n"+
				"-- second --\nexpect-not %s\nsay Hi.\n-- third --\nexpect-not %s\nsay Again.\n", c.refusal, c.without, c.without, c.without)
			inBubble(t, cassette, func(t *testing.T, s *upstream.Server) {
				m := on(t, s, Options{Profile: c.profile, ContextWindow: 100_000})
				lines, err := answers(m, c.req)
				if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "retried the server takes no ") {
					t.Fatalf("got %q and %v, want one Retried and the answer", lines, err)
				}
				lines, err = answers(m, c.req)
				if c.without == "image_url" && len(lines) > 0 && strings.HasPrefix(lines[0], "repaired images ") {
					lines = lines[1:] // that they are told in words
				}
				if err != nil || len(lines) != 2 {
					t.Errorf("the request after it: %q and %v", lines, err)
				}
			})
		})
	}
}

func TestTheBoundOfAnAnswerThatDoesNotFitIsLoweredOnce(t *testing.T) {
	req := hello()
	req.MaxOutput = 4000
	for _, refusal := range []string{
		"This model's maximum context length is 8000 tokens. However, you requested 9000 tokens (5000 in the messages, 4000 in the completion). Please reduce the length.",
		"You passed 5000 input tokens and requested 4000 output tokens. However, the model's context length is only 8000 tokens, resulting in a maximum input length of 4000 tokens.",
		"This model's maximum context length is 8000 tokens. However, you requested 4000 output tokens and your prompt contains at least 5000 input tokens, for a total of 9000.",
	} {
		body := fmt.Sprintf("status 400\njson {\"object\":\"error\",\"message\":%q,\"type\":\"BadRequestError\",\"code\":400}\n", refusal)
		inBubble(t, "usage none\n-- first --\n"+body+"-- second --\nexpect max_tokens\":2904\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
			lines, err := answers(on(t, s, Options{Profile: "vllm"}), req)
			if err != nil || len(lines) != 3 {
				t.Errorf("got %q and %v", lines, err)
			}
		})
		inBubble(t, "usage none\n-- always --\nrepeat\n"+body, func(t *testing.T, s *upstream.Server) {
			_, err := answers(on(t, s, Options{Profile: "vllm"}), req)
			if e, is := errors.AsType[*adapters.Error](err); !is || e.Class != adapters.ClassOverflow || e.Limit != 8000 || len(s.Asked()) != 2 {
				t.Errorf("%d requests, %v; want the overflow after two", len(s.Asked()), err)
			}
		})
	}
}

func TestAnAnswerThatSaysNothingButStatusIsJudgedByOurCount(t *testing.T) {
	long := hello()
	long.Entries = entries(user(text(strings.Repeat("A ship has a line. ", 2000))))
	cassette := "usage none\n-- first --\nrepeat\nstatus 400\nbody \"\"\n"
	for _, c := range []struct {
		req   adapters.Request
		class adapters.Class
	}{{long, adapters.ClassOverflow}, {hello(), adapters.ClassBadRequest}} {
		inBubble(t, cassette, func(t *testing.T, s *upstream.Server) {
			_, err := answers(on(t, s, Options{Profile: "cerebras", ContextWindow: 8192}), c.req)
			if e, is := errors.AsType[*adapters.Error](err); !is || e.Class != c.class {
				t.Errorf("got %v, want class %s", err, c.class)
			}
		})
	}
}

func TestKeysAreNowhereButInTheRequest(t *testing.T) {
	const key, other = "sk-test-1234567890", "tok-abcdefgh"
	for name, reply := range map[string]string{
		"an error body":    "status 401\njson {\"error\":{\"message\":\"Incorrect API key provided: " + key + " or " + other + "\"}}",
		"an error event":   "event error {\"error\":{\"message\":\"bad key " + key + " " + other + "\"}}",
		"no JSON":          "data key " + key + " " + other,
		"a plain text":     "status 400\nbody " + key + " is bad, " + other + " too",
		"a rate limit":     "status 429\njson {\"error\":{\"message\":\"" + key + " is over its limit\"}}",
		"a refused option": "status 400\njson {\"error\":{\"message\":\"stream_options " + key + " " + other + "\"}}",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "key "+key+"\nusage none\n-- first --\nrepeat\n"+reply+"\n", func(t *testing.T, s *upstream.Server) {
				var log bytes.Buffer
				asked := 0
				m := on(t, s, Options{
					APIKey:  func() string { asked++; return " " + key + "\n" },
					Headers: map[string]string{"X-Extra-Token": other},
					Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				})
				lines, err := answers(m, hello())
				if err == nil {
					t.Fatal("no error")
				}
				_, _ = m.Models(t.Context())
				all := strings.Join(lines, "\n") + fmt.Sprintf("%v %+v %#v", err, err, err) + log.String()
				if strings.Contains(all, key) || strings.Contains(all, other) {
					t.Errorf("a key is in: %s", all)
				}
				if !strings.Contains(all, "[redacted]") && name != "no JSON" && name != "an error event" {
					t.Errorf("nothing was redacted in %s", all)
				}
				if asked == 0 || log.Len() == 0 {
					t.Errorf("the key was asked for %d times, the log has %d bytes", asked, log.Len())
				}
			})
		})
	}
}

func TestAWrongKeyIsTold(t *testing.T) {
	inBubble(t, "key sk-right-key-1\nusage none\n-- first --\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		key := "sk-wrong-key-1"
		m := on(t, s, Options{APIKey: func() string { return key }})
		if _, err := answers(m, hello()); classOf(err) != adapters.ClassDenied {
			t.Errorf("got %v, want class %s", err, adapters.ClassDenied)
		}
		key = "sk-right-key-1" // the next request asks for it again
		if lines, err := answers(m, hello()); err != nil || len(lines) != 2 {
			t.Errorf("got %q and %v", lines, err)
		}
	})
}

func TestAServerThatNeverClosesIsLeftAfterAMoment(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		most   time.Duration
		lines  int
	}{
		"without a usage":             {"say Hi.\nfinish stop\nhang", 1500 * time.Millisecond, 2},
		"with a usage after a second": {"say Hi.\nfinish stop\ndelay 1s\nusage 5 2\nhang", 1500 * time.Millisecond, 3},
		"with a usage":                {"say Hi.\nfinish stop\nusage 5 2\nhang", 250 * time.Millisecond, 3},
		"after [DONE]":                {"say Hi.\nfinish stop\nusage 5 2\ndone\nhang", 50 * time.Millisecond, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "-- first --\n"+c.answer+"\n", func(t *testing.T, s *upstream.Server) {
				start := time.Now()
				lines, err := answers(on(t, s, Options{}), hello())
				if err != nil || len(lines) != c.lines || lines[len(lines)-1] != "done end" {
					t.Errorf("got %q and %v", lines, err)
				}
				if took := time.Since(start); took > c.most {
					t.Errorf("took %v, want at most %v", took, c.most)
				}
			})
		})
	}
}

func TestStoppingTheIterationCancelsTheRequest(t *testing.T) {
	inBubble(t, "-- first --\nsay Hi.\nhang\n", func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{})
		for _, err := range m.Stream(t.Context(), hello()) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		synctest.Wait() // the bubble fails if a goroutine of the request is left
	})
}

func TestADoneContextEndsTheStream(t *testing.T) {
	inBubble(t, "-- first --\nsay Hi.\nhang\n", func(t *testing.T, s *upstream.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for c, err := range on(t, s, Options{}).Stream(ctx, hello()) {
			if _, is := c.(adapters.MessageText); is {
				cancel()
			}
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("ended with %v, want %v", last, context.Canceled)
		}
	})
}

func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := upstream.NewInMemory(t, "-- first --\nsay Hi.\n")
		s.Close()
		m := on(t, s, Options{Timeouts: Timeouts{Attempts: 2}})
		lines, err := answers(m, hello())
		e, is := errors.AsType[*adapters.Error](err)
		if !is || e.Class != adapters.ClassUnreachable || len(lines) != 2 {
			t.Errorf("got %q and %v, want one Retried and class %s", lines, err, adapters.ClassUnreachable)
		}
		infos, err := m.Models(t.Context())
		if err != nil || len(infos) != 1 || infos[0].ID != "m" || infos[0].ContextWindow != 0 {
			t.Errorf("models %+v and %v, want the configured one", infos, err)
		}
	})
}

func TestARequestThatHadToBeMendedIsTold(t *testing.T) {
	req := hello()
	req.Entries = entries(user(text("go")), call("c1", "read", `{}`), user(text("and?")))
	inBubble(t, "usage none\n-- first --\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		lines, err := answers(on(t, s, Options{}), req)
		if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "repaired L2 ") {
			t.Errorf("got %q and %v, want what was mended first", lines, err)
		}
	})
}

func TestWhereAFullWindowIsSilentARequestThatCannotFitIsNotSent(t *testing.T) {
	req := hello()
	req.Entries = entries(user(text(strings.Repeat("A ship has a line. ", 2000))))
	inBubble(t, "usage none\n-- first --\nrepeat\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		_, err := answers(on(t, s, Options{Profile: "lmstudio", ContextWindow: 4096}), req)
		if e, is := errors.AsType[*adapters.Error](err); !is || e.Class != adapters.ClassOverflow || e.Limit != 4096 || len(s.Asked()) != 0 {
			t.Errorf("%d requests, %v; want the overflow before the first", len(s.Asked()), err)
		}
	})
}

func TestAServerThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	inBubble(t, "server ollama\n-- GET /api/tags --\nhang\n-- first --\nrepeat\nexpect num_ctx\":16384\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{Profile: "ollama"})
		start := time.Now()
		list, err := m.Models(t.Context())
		if err != nil || len(list) != 1 || time.Since(start) > askTime {
			t.Errorf("%+v, %v after %v", list, err, time.Since(start))
		}
		if lines, err := answers(m, hello()); err != nil {
			t.Errorf("%q, %v", lines, err)
		}
	})
}

func TestALearnedWindowIsForgottenWhenItIsOutgrown(t *testing.T) {
	inBubble(t, "-- first --\nstatus 400\njson {\"error\":{\"message\":\"This model's maximum context length is 1000 tokens\"}}\n"+
		"-- second --\nsay Hi.\nusage 5 1\n-- third --\nsay Hi.\nusage 3000 1\n", func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{ContextWindow: 9000})
		for _, want := range []int{1000, 1000, 0} {
			_, _ = answers(m, hello())
			if got := m.limit("m"); got != want {
				t.Errorf("after %d requests the learned window is %d, want %d", len(s.Asked()), got, want)
			}
		}
	})
}

func TestADiscoveredBoundOfTheAnswerBoundsOnlyWhatIsAskedFor(t *testing.T) {
	inBubble(t, "server openrouter\nmodel m window=100000 output=2048\nusage none\n-- first --\nexpect-not max_tokens\nsay Hi.\n"+
		"-- second --\nexpect max_tokens\":2048\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{Profile: "openrouter"})
		if _, err := m.Models(t.Context()); err != nil {
			t.Fatal(err)
		}
		req := hello()
		for _, n := range []int{0, 9000} {
			req.MaxOutput = n
			if _, err := answers(m, req); err != nil {
				t.Error(err)
			}
		}
	})
}
