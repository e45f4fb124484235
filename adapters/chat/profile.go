package chat

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
)

// A profile is what is particular about one kind of server. It is data: what
// differs between servers is a field here, and no code asks for a profile's name.
type profile struct {
	name  string
	hosts []string // by which a base URL is known: a host, or a suffix of one that begins with a dot
	ports []string // the usual ports of a server on this machine

	keyHeader string // that the key is sent in; empty: Authorization
	native    bool   // Ollama's /api/chat instead of chat completions
	maxTokens string // the field that bounds the answer
	developer bool   // the system message has the role developer
	ids       prompt.Ident
	nameMax   int // characters of a tool name

	echo      string // the field that reasoning goes back under; empty: it does not
	echoEmpty bool   // also on calls that came without any
	effort    string // a form of effortForms
	usage     bool   // stream_options may be sent
	parallel  bool   // parallel_tool_calls may be sent
	bridge    bool   // no user message may follow a tool result directly
	merge     bool   // messages of one side that follow each other are one: strict templates want turns
	stubTools bool   // tools must be declared where the history holds calls
	stream    string // a further field, set to true, without which calls are not streamed
	images    bool   // sent unless the server says that the model takes none
	bytes     int    // of a request with images; 0: unknown
	think     string // a mode of thinkModes
	snapshots bool   // reasoning comes as the whole text so far each time
	leaks     bool   // tokens of the chat template can stand in the answer
	grace     time.Duration

	silent bool // it accepts more than its window and drops the beginning
	blank  bool // an answer cut at a length without any text: the prompt filled the window
	probes []probe
	count  string // a way of counters; empty: it cannot tell
	window int    // what it loads models with if nobody says; 0: unknown
}

// The forms of call ids in use. OpenAI and those that check as it does take 40
// characters (observed in their errors), Mistral exactly nine.
var (
	idsLoose = prompt.Ident{Max: 64, Chars: prompt.Word}
	idsForty = prompt.Ident{Max: 40, Chars: prompt.Word}
	idsNine  = prompt.Ident{Min: 9, Max: 9, Chars: prompt.Alnum}
)

// shortGrace is how long the usage is waited for after the end of an answer.
const shortGrace = 1500 * time.Millisecond

// base is the generic profile: what the most servers understand.
var base = profile{
	name: Generic, maxTokens: "max_tokens", ids: idsForty, nameMax: 64, effort: effortField,
	usage: true, merge: true, images: true, think: thinkTags, leaks: true, grace: shortGrace,
	probes: []probe{probeModels},
}

// with returns the generic profile with changes.
func with(name string, change func(p *profile)) profile {
	p := base
	p.name = name
	change(&p)
	return p
}

// Generic is the profile of a server that nothing is known of.
const Generic = "generic"

// profiles holds all of them, the more particular hosts first. Sources:
// the servers' own documentation, and their answers as collected in the cassettes
// under testdata.
var profiles = []profile{
	base,
	with("openai", func(p *profile) {
		p.hosts = []string{"api.openai.com"}
		p.maxTokens, p.developer, p.parallel, p.merge = "max_completion_tokens", true, true, false
		p.think, p.leaks, p.bytes = thinkOff, false, 50_000_000 // OpenAI, guide to images
	}),
	with("azure", func(p *profile) {
		p.hosts, p.keyHeader = []string{".openai.azure.com"}, "Api-Key"
		p.maxTokens, p.parallel, p.merge, p.think, p.leaks = "max_completion_tokens", true, false, thinkOff, false
	}),
	with("ollama", func(p *profile) {
		p.hosts, p.ports = []string{"ollama.com"}, []string{"11434"}
		p.native, p.effort, p.ids, p.blank = true, effortThink, idsLoose, true
		p.silent, p.probes, p.window = true, []probe{probeOllama}, ollamaWindow
	}),
	with("ollama-v1", func(p *profile) { // its chat completions: no way to make a full window loud
		p.ids, p.blank, p.silent = idsLoose, true, true
		p.probes = []probe{probeOllama}
	}),
	with("llamacpp", func(p *profile) {
		p.ports, p.ids, p.effort = []string{"8080"}, idsLoose, effortTemplate
		p.probes, p.count = []probe{probeProps, probeModels}, countTemplate
	}),
	with("vllm", func(p *profile) {
		p.ports, p.ids = []string{"8000"}, idsLoose
		p.probes, p.count = []probe{probeModels}, countTokenize
	}),
	with("lmstudio", func(p *profile) {
		p.ports, p.ids, p.silent = []string{"1234"}, idsLoose, true
		p.probes = []probe{probeLMStudio, probeModels}
	}),
	with("openrouter", func(p *profile) {
		p.hosts = []string{"openrouter.ai"}
		p.effort, p.echo, p.parallel = effortObject, "reasoning", true
		p.stubTools = true
	}),
	with("litellm", func(p *profile) {
		p.ports, p.stubTools = []string{"4000"}, true
	}),
	with("deepseek", func(p *profile) {
		p.hosts = []string{"api.deepseek.com"}
		p.echo, p.echoEmpty, p.effort, p.images = "reasoning_content", true, effortThinking, false
	}),
	with("mistral", func(p *profile) {
		p.hosts = []string{"api.mistral.ai", "codestral.mistral.ai"}
		p.ids, p.bridge, p.effort, p.parallel = idsNine, true, effortNone, true
		p.usage = false // it is always told
	}),
	with("kimi", func(p *profile) {
		p.hosts = []string{"api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"}
		p.echo, p.echoEmpty, p.effort = "reasoning_content", true, effortThinking
	}),
	with("glm", func(p *profile) {
		p.hosts = []string{"api.z.ai", "open.bigmodel.cn"}
		p.effort, p.stream, p.silent = effortThinking, "tool_stream", true
	}),
	with("groq", func(p *profile) {
		p.hosts = []string{"api.groq.com"}
		p.maxTokens, p.parallel = "max_completion_tokens", true
		p.bytes = 4_000_000 // with images in base64: Groq, guide to vision
	}),
	with("xai", func(p *profile) {
		p.hosts = []string{"api.x.ai"}
		p.parallel = true
	}),
	with("minimax", func(p *profile) {
		p.hosts = []string{"api.minimax.io", "api.minimaxi.com"}
		p.snapshots, p.effort, p.images = true, effortNone, false
	}),
	with("together", func(p *profile) { p.hosts = []string{"api.together.xyz", "api.together.ai"} }),
	with("cerebras", func(p *profile) {
		p.hosts, p.maxTokens, p.images = []string{"api.cerebras.ai"}, "max_completion_tokens", false
	}),
	with("dashscope", func(p *profile) {
		p.hosts = []string{"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"}
		p.effort = effortNone
	}),
}

// Profiles returns the names that Options.Profile may hold.
func Profiles() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}

// byName returns a profile.
func byName(name string) (profile, bool) {
	i := slices.IndexFunc(profiles, func(p profile) bool { return p.name == name })
	if i < 0 {
		return profile{}, false
	}
	return profiles[i], true
}

// guess returns the profile that a base URL speaks for: by its host, or, on this
// machine, by the usual port. Ollama under /v1 was asked for in its other
// language.
func guess(u *url.URL) profile {
	host := strings.ToLower(u.Hostname())
	p := base
	for _, c := range profiles {
		if c.serves(host) || slices.Contains(c.ports, u.Port()) && local(host) {
			p = c
			break
		}
	}
	if p.native && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1") {
		p, _ = byName("ollama-v1")
	}
	return p
}

// serves reports whether a host is one of the profile's.
func (p profile) serves(host string) bool {
	return slices.ContainsFunc(p.hosts, func(h string) bool {
		return host == h || strings.HasPrefix(h, ".") && strings.HasSuffix(host, h)
	})
}

// local reports whether a host is this machine, or has a name that only the local
// network knows.
func local(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") ||
		!strings.Contains(host, ".") || strings.HasSuffix(host, ".local")
}
