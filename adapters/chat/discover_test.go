package chat

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func TestWindowsAreDiscovered(t *testing.T) {
	models := "model m window=8192 trained=131072 output=2048\nmodel other window=4096\n-- first --\nsay Hi.\n"
	info := func(id string, window, output int, source string) adapters.ModelInfo {
		return adapters.ModelInfo{ID: id, DisplayName: id, ContextWindow: window, MaxOutput: output, WindowSource: source, Images: true}
	}
	dark := func(i adapters.ModelInfo) adapters.ModelInfo { i.Images = false; return i }
	price := &adapters.Price{Input: 1, CachedInput: 1, Output: 2}
	priced := func(i adapters.ModelInfo) adapters.ModelInfo { i.Price = price; return i }
	for name, c := range map[string]struct {
		profile  string
		cassette string
		options  Options
		want     []adapters.ModelInfo
	}{
		"vLLM: max_model_len": {
			profile: "vllm", cassette: "server vllm\n" + models,
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer), info("other", 4096, 0, fromServer)},
		},
		"llama.cpp: the window of a slot, not the trained one": {
			profile: "llamacpp", cassette: "server llama.cpp\nmodel m window=8192 trained=131072\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer)},
		},
		"llama.cpp without a configured model": {
			profile: "llamacpp", cassette: "server llama.cpp\nmodel x window=8192 trained=131072\n-- first --\nsay Hi.\n", options: Options{Model: "-"},
			want: []adapters.ModelInfo{info("x", 8192, 0, fromServer)},
		},
		"Ollama: what is loaded": {
			profile: "ollama", cassette: "server ollama\n" + models,
			want: []adapters.ModelInfo{dark(info("m", 8192, 0, fromServer)), info("other", 4096, 0, fromServer)},
		},
		"Ollama: what the model's file says": {
			profile: "ollama", cassette: "server ollama\nmodel m window=8192 trained=131072\n-- GET /api/ps --\n{\"models\":[]}\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{dark(info("m", 8192, 0, fromServer))},
		},
		"Ollama: nothing but what it was trained with": {
			profile: "ollama",
			cassette: "server ollama\nmodel m\n-- GET /api/ps --\n{\"models\":[]}\n-- POST /api/show --\n" +
				`{"model_info":{"general.architecture":"x","x.context_length":8000},"parameters":"temperature 1","capabilities":["completion","vision"]}` + "\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8000, 0, fromBuiltin)},
		},
		"Ollama: a tag that is left out": {
			profile: "ollama", cassette: "server ollama\nmodel m:latest window=8192\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{{ID: "m", DisplayName: "m:latest", ContextWindow: 8192, WindowSource: fromServer}},
		},
		"Ollama under /v1": {
			profile: "ollama-v1", cassette: "server ollama\nmodel m window=8192\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{dark(info("m", 8192, 0, fromServer))},
		},
		"LM Studio: what is loaded": {
			profile: "lmstudio",
			cassette: "-- GET /api/v0/models --\n" + `{"data":[{"id":"m","type":"vlm","state":"loaded","max_context_length":131072,"loaded_context_length":4096},
				{"id":"idle","type":"llm","state":"not-loaded","max_context_length":32768},{"id":"e","type":"embeddings","state":"loaded"}]}` + "\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 4096, 0, fromServer), dark(info("idle", 0, 0, ""))},
		},
		"OpenRouter: the provider's window and prices": {
			profile: "openrouter", cassette: "server openrouter\nmodel m window=8192 output=2048\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{priced(info("m", 8192, 2048, fromServer))},
		},
		"Groq: context_window": {
			profile: "groq", cassette: "server groq\nmodel m window=8192\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer)},
		},
		"Mistral: max_context_length": {
			profile: "mistral", cassette: "server mistral\nmodel m window=8192\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer)},
		},
		"Moonshot: context_length": {
			profile: "kimi", cassette: "server kimi\nmodel m window=8192\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer)},
		},
		"a list alone": {
			profile: "together", cassette: "-- GET /v1/models --\n" + `[{"id":"m","context_length":8192}]` + "\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer)},
		},
		"odd types": {
			profile: Generic, cassette: "-- GET /v1/models --\n" + `{"data":[{"id":"m","context_length":"8192","pricing":"free","meta":null},{"id":7}]}` + "\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 8192, 0, fromServer)},
		},
		"a server that does not know the configured model": {
			profile: "vllm", cassette: "server vllm\nmodel other window=4096\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 0, 0, ""), info("other", 4096, 0, fromServer)},
		},
		"a server that lists nothing": {
			profile: Generic, cassette: "-- GET /v1/models --\nstatus 404\n-- first --\nsay Hi.\n",
			want: []adapters.ModelInfo{info("m", 0, 0, "")},
		},
		"the configuration wins": {
			profile: "vllm", cassette: "server vllm\n" + models, options: Options{ContextWindow: 6000, MaxOutput: 500},
			want: []adapters.ModelInfo{info("m", 6000, 500, fromConfig), info("other", 4096, 0, fromServer)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.cassette, func(t *testing.T, s *upstream.Server) {
				c.options.Profile = c.profile
				m := on(t, s, c.options)
				if c.options.Model == "-" {
					m.o.Model = ""
				}
				got, err := m.Models(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("models (-want +got):\n%s", diff)
				}
				if n := len(s.Asked()); n != 0 {
					t.Errorf("%d requests that cost", n)
				}
			})
		})
	}
}

func TestAServerThatListsNothingAndHasNoConfiguredModelIsAnError(t *testing.T) {
	inBubble(t, "-- GET /v1/models --\nstatus 401\n-- first --\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{})
		m.o.Model = ""
		if list, err := m.Models(t.Context()); err == nil {
			t.Errorf("got %+v, want an error", list)
		}
	})
}

func TestARequestAsksNothingBeside(t *testing.T) {
	for _, p := range profiles {
		if p.native {
			continue
		}
		inBubble(t, "usage none\n-- first --\nrepeat\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
			m := on(t, s, Options{Profile: p.name})
			for range 2 {
				if _, err := answers(m, hello()); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(s.Requests()); n != 2 {
				t.Errorf("%s: %d requests for 2 answers", p.name, n)
			}
		})
	}
}

func TestOllamaIsToldTheWindowAndAskedForItOnce(t *testing.T) {
	for name, c := range map[string]struct {
		cassette string
		options  Options
		want     string
		asked    int // beside the two answers
	}{
		"as it is loaded":        {"model m window=8192 trained=131072", Options{}, `num_ctx":8192`, 3},
		"as it is configured":    {"model m window=8192", Options{ContextWindow: 20_000}, `num_ctx":20000`, 0},
		"where nobody knows one": {"model n", Options{}, `num_ctx":16384`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			cassette := "server ollama\n" + c.cassette + "\n-- first --\nrepeat\nexpect " + c.want + "\nexpect truncate\":false\nexpect shift\":false\nsay Hi.\n"
			inBubble(t, cassette, func(t *testing.T, s *upstream.Server) {
				c.options.Profile = "ollama"
				m := on(t, s, c.options)
				for range 2 {
					if lines, err := answers(m, hello()); err != nil {
						t.Fatalf("%q, %v", lines, err)
					}
				}
				if n := len(s.Requests()); n != 2+c.asked {
					t.Errorf("%d requests, want %d", n, 2+c.asked)
				}
			})
		})
	}
}

// TestEveryServersOverflowIsOne: the request is sent once, and the window that the
// server names bounds the answer of the next one.
func TestEveryServersOverflowIsOne(t *testing.T) {
	for server, profile := range map[string]string{
		"generic": Generic, "openai": "openai", "llama.cpp": "llamacpp", "ollama": "ollama", "vllm": "vllm", "lmstudio": "lmstudio",
		"openrouter": "openrouter", "litellm": "litellm", "groq": "groq", "xai": "xai", "deepseek": "deepseek",
		"mistral": "mistral", "kimi": "kimi", "glm": "glm",
	} {
		t.Run(server, func(t *testing.T) {
			silent := map[string]bool{"groq": true, "glm": true}
			inBubble(t, "server "+server+"\nlimit 1000\n-- first --\nrepeat\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
				m := on(t, s, Options{Profile: profile})
				req := hello()
				req.Entries = entries(user(text(strings.Repeat("A ship has a line. ", 400))))
				_, err := answers(m, req)
				e, is := errors.AsType[*adapters.Error](err)
				if !is || e.Class != adapters.ClassOverflow || len(s.Asked()) != 1 {
					t.Fatalf("%d requests, %v; want one overflow", len(s.Asked()), err)
				}
				if !silent[server] && e.Limit != 1000 {
					t.Errorf("the window is %d, the server said 1000", e.Limit)
				}
				if got := m.limit("m"); !silent[server] && got != 1000 {
					t.Errorf("the window that was learned is %d", got)
				}
				if lines, err := answers(m, hello()); err != nil {
					t.Errorf("a small request afterwards: %q, %v", lines, err)
				}
			})
		})
	}
}

func TestCounting(t *testing.T) {
	for name, c := range map[string]struct {
		cassette, profile string
		known             bool
		asked             int // by two counts
	}{
		"llama.cpp":         {"server llama.cpp\nmodel m window=8192\n-- first --\nsay Hi.\n", "llamacpp", true, 4},
		"vLLM":              {"server vllm\nmodel m window=8192\n-- first --\nsay Hi.\n", "vllm", true, 2},
		"a server without":  {"server generic\n-- first --\nsay Hi.\n", "vllm", false, 1},
		"a profile without": {"server openai\n-- first --\nsay Hi.\n", "openai", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.cassette, func(t *testing.T, s *upstream.Server) {
				m := on(t, s, Options{Profile: c.profile})
				for range 2 {
					n, known, err := m.Count(t.Context(), hello())
					if err != nil || known != c.known || known != (n > 0) {
						t.Errorf("got %d, %v, %v", n, known, err)
					}
				}
				if n := len(s.Requests()); n != c.asked {
					t.Errorf("%d requests, want %d", n, c.asked)
				}
			})
		})
	}
}

func TestCountFailsWhereTheServerDoes(t *testing.T) {
	inBubble(t, "server vllm\n-- POST /tokenize --\nstatus 500\n-- first --\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{Profile: "vllm"})
		for range 2 { // it may be there the next time
			if _, known, err := m.Count(t.Context(), hello()); known || err == nil {
				t.Errorf("known %v, error %v", known, err)
			}
		}
		if n := len(s.Requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

func TestProfilesAreGuessed(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.openai.com/v1":                 "openai",
		"https://me.openai.azure.com/openai/v1":     "azure",
		"https://openrouter.ai/api/v1":              "openrouter",
		"https://api.deepseek.com":                  "deepseek",
		"https://api.mistral.ai/v1":                 "mistral",
		"https://api.moonshot.ai/v1":                "kimi",
		"https://api.z.ai/api/coding/paas/v4":       "glm",
		"https://api.groq.com/openai/v1":            "groq",
		"https://api.x.ai/v1":                       "xai",
		"http://localhost:11434":                    "ollama",
		"http://127.0.0.1:11434/v1":                 "ollama-v1",
		"http://gpu-box:8000/v1":                    "vllm",
		"http://localhost:8080/v1":                  "llamacpp",
		"http://studio.local:1234/v1":               "lmstudio",
		"http://localhost:9999/v1":                  Generic,
		"https://example.com:8000/v1":               Generic,
		"https://api.openai.com.evil.example/v1":    Generic,
		"https://notapi.openai.com.example:8000/v1": Generic,
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := guess(u).name; got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
	names := Profiles()
	slices.Sort(names)
	if len(slices.Compact(names)) != len(profiles) {
		t.Error("two profiles have one name")
	}
}

func TestBaseURLsMayNameTheWholeAddress(t *testing.T) {
	for base, want := range map[string][2]string{
		"http://h/v1":                  {"http://h/v1", "http://h"},
		"http://h/v1/":                 {"http://h/v1", "http://h"},
		"http://h/v1/chat/completions": {"http://h/v1", "http://h"},
		"http://h":                     {"http://h", "http://h"},
		"http://h/api/chat":            {"http://h", "http://h"},
		"http://h/api":                 {"http://h/api", "http://h"},
	} {
		m, err := New(Options{BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{m.base, m.root}; got != want {
			t.Errorf("%s: %q, want %q", base, got, want)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	ok := "http://localhost:1/v1"
	for name, c := range map[string]struct {
		o    Options
		says string
	}{
		"no URL":           {Options{}, "base URL"},
		"another scheme":   {Options{BaseURL: "ftp://h/v1"}, "http"},
		"a key in the URL": {Options{BaseURL: "http://u:sk-secret-1@h/v1"}, "environment variable"},
		"a query":          {Options{BaseURL: "http://h/v1?key=sk-secret-1"}, "environment variable"},
		"a profile":        {Options{BaseURL: ok, Profile: "gpt"}, "generic, openai"},
		"a setting":        {Options{BaseURL: ok, Overrides: map[string]string{"tools": "x"}}, "tool_ids"},
		"a boolean":        {Options{BaseURL: ok, Overrides: map[string]string{"images": "maybe"}}, "true or false"},
		"a number":         {Options{BaseURL: ok, Overrides: map[string]string{"tool_name_length": "1000"}}, "16 to 256"},
		"a choice":         {Options{BaseURL: ok, Overrides: map[string]string{"think": "hard"}}, "off, tags, prefilled"},
		"ids":              {Options{BaseURL: ok, Overrides: map[string]string{"tool_ids": "12"}}, "9"},
		"a window":         {Options{BaseURL: ok, ContextWindow: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.o)
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sk-secret-1") {
				t.Errorf("got %v, want an error that says %q", err, c.says)
			}
		})
	}
}

func TestSettingsChangeAProfile(t *testing.T) {
	p, err := override(base, map[string]string{
		"max_tokens_field": "max_completion_tokens", "developer_role": "true", "tool_ids": "9", "tool_name_length": "32",
		"reasoning_echo": "reasoning", "effort": "off", "stream_usage": "false", "parallel_tools": "true", "assistant_bridge": "true",
		"merge_messages": "false", "images": "false", "think": "prefilled", "reasoning_repeats": "true", "template_tokens": "false",
		"silent_truncation": "true", "count": "tokenize", "max_request_bytes": "5000000",
	})
	if err != nil {
		t.Fatal(err)
	}
	b := string(bodyOf(t, p, story(), 0))
	for _, has := range []string{"max_completion_tokens", `"developer"`, `"reasoning":"I should look."`, "parallel_tool_calls"} {
		if !strings.Contains(b, has) {
			t.Errorf("the body has no %s", has)
		}
	}
	for _, no := range []string{"reasoning_effort", "stream_options", "image_url"} {
		if strings.Contains(b, no) {
			t.Errorf("the body has %s", no)
		}
	}
	if p.snapshots != true || p.leaks || !p.silent || p.count != countTokenize || p.think != thinkPrefilled || p.nameMax != 32 || p.bytes != 5_000_000 || !p.bridge || p.merge {
		t.Errorf("got %+v", p)
	}
	if len(overrides) != 17 {
		t.Errorf("there are %d settings: this test knows 17", len(overrides))
	}
}
