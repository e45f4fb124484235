package chat

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// maxModels bounds the list of a server; the largest known one has 600.
const maxModels = 5_000

// found is what a server says about one of its models.
type found struct {
	id, name  string
	window    int // as it is loaded, or as the server bounds it
	trained   int // the most that the model could take; not what it takes now
	maxOutput int
	images    *bool
	price     *adapters.Price
	loaded    bool
}

// A probe asks a server about its models. want is the model of the configuration,
// for servers that tell more about a single one.
type probe func(ctx context.Context, m *Model, want string) ([]found, error)

// wireModel is an entry of /models in the shapes in use. The window has a different
// name everywhere: vLLM, OpenRouter and Moonshot, Groq, Mistral, LM Studio.
type wireModel struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Type     string `json:"type"`
	Max      count  `json:"max_model_len"`
	Length   count  `json:"context_length"`
	Window   count  `json:"context_window"`
	Longest  count  `json:"max_context_length"`
	Loaded   count  `json:"loaded_context_length"`
	State    string `json:"state"`
	MaxOut   count  `json:"max_completion_tokens"`
	MaxOut2  count  `json:"max_output_tokens"`
	Provider struct {
		Length count `json:"context_length"`
		MaxOut count `json:"max_completion_tokens"`
	} `json:"top_provider"`
	Meta struct {
		Now     count `json:"n_ctx"`
		Trained count `json:"n_ctx_train"`
	} `json:"meta"`
	Pricing struct {
		Prompt     price `json:"prompt"`
		Completion price `json:"completion"`
		Read       price `json:"input_cache_read"`
	} `json:"pricing"`
	Architecture struct {
		Inputs []string `json:"input_modalities"`
	} `json:"architecture"`
	Capabilities struct {
		Vision *bool `json:"vision"`
	} `json:"capabilities"`
}

// price is dollars per token; servers write it as a text. What is no number is
// unknown.
type price struct {
	value float64
	known bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *price) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*p = price{f, err == nil && f >= 0} // OpenRouter writes -1 for "it depends"
	return nil
}

// probeModels asks /models, which nearly every server has.
func probeModels(ctx context.Context, m *Model, _ string) ([]found, error) {
	var raw json.RawMessage
	if err := m.get(ctx, m.base+"/models", &raw); err != nil {
		return nil, err
	}
	list, err := modelList(raw)
	if err != nil {
		return nil, err
	}
	var out []found
	for _, w := range list {
		out = append(out, w.found())
	}
	return out, nil
}

// modelList reads a list of models, alone (Together) or under data or models.
func modelList(raw json.RawMessage) ([]wireModel, error) {
	var list []wireModel
	if len(raw) > 0 && raw[0] == '[' {
		return list, lenientList(raw, &list)
	}
	var in struct {
		Data   json.RawMessage `json:"data"`
		Models json.RawMessage `json:"models"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	if len(in.Data) == 0 {
		in.Data = in.Models
	}
	return list, lenientList(in.Data, &list)
}

// lenientList decodes a list; a field of another type than expected is left out.
func lenientList(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	err := json.Unmarshal(raw, v)
	if _, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return nil
	}
	return err
}

func (w wireModel) found() found {
	f := found{
		id: w.ID, name: w.Name, loaded: w.State == "loaded",
		window:    first(w.Provider.Length, w.Max, w.Loaded, w.Meta.Now, w.Length, w.Window, w.Longest),
		trained:   int(w.Meta.Trained),
		maxOutput: first(w.Provider.MaxOut, w.MaxOut, w.MaxOut2),
		images:    w.Capabilities.Vision,
	}
	if len(w.Architecture.Inputs) > 0 {
		takes := slices.Contains(w.Architecture.Inputs, "image")
		f.images = &takes
	}
	if p := w.Pricing; p.Prompt.known && p.Completion.known {
		f.price = &adapters.Price{Input: p.Prompt.value * 1e6, CachedInput: p.Prompt.value * 1e6, Output: p.Completion.value * 1e6}
		if p.Read.known {
			f.price.CachedInput = p.Read.value * 1e6
		}
	}
	return f
}

// first returns the first number that is not zero.
func first(ns ...count) int {
	for _, n := range ns {
		if n > 0 {
			return int(n)
		}
	}
	return 0
}

// probeProps asks llama.cpp, which tells the window of one slot: what a request
// has, however the server was started.
func probeProps(ctx context.Context, m *Model, want string) ([]found, error) {
	var props struct {
		Settings struct {
			Window count `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Alias      string `json:"model_alias"`
		Modalities struct {
			Vision *bool `json:"vision"`
		} `json:"modalities"`
	}
	if err := m.get(ctx, m.root+"/props", &props); err != nil {
		return nil, err
	}
	id := want
	if id == "" {
		id = props.Alias // without either it is about whatever the server lists
	}
	return []found{{id: id, window: int(props.Settings.Window), images: props.Modalities.Vision, loaded: true}}, nil
}

// probeLMStudio asks LM Studio, which tells the window of a loaded model apart from
// what the model could take.
func probeLMStudio(ctx context.Context, m *Model, _ string) ([]found, error) {
	var raw json.RawMessage
	if err := m.get(ctx, m.root+"/api/v0/models", &raw); err != nil {
		return nil, err
	}
	list, err := modelList(raw)
	if err != nil {
		return nil, err
	}
	var out []found
	for _, w := range list {
		if w.Type == "embeddings" {
			continue
		}
		f := w.found()
		f.window, f.trained = int(w.Loaded), int(w.Longest)
		if !f.loaded {
			f.window = 0
		}
		if w.Type != "" {
			vision := w.Type == "vlm"
			f.images = &vision
		}
		out = append(out, f)
	}
	return out, nil
}

// probeOllama asks what is loaded, and with which window; then, for the model that
// is wanted and is not loaded, what it would be loaded with.
func probeOllama(ctx context.Context, m *Model, want string) ([]found, error) {
	var tags, running struct {
		Models []struct {
			Name   string `json:"name"`
			Window count  `json:"context_length"`
		} `json:"models"`
	}
	if err := m.get(ctx, m.root+"/api/tags", &tags); err != nil {
		return nil, err
	}
	windows := map[string]int{}
	if err := m.get(ctx, m.root+"/api/ps", &running); err == nil {
		for _, r := range running.Models {
			windows[r.Name] = int(r.Window)
		}
	}
	var out []found
	for _, t := range tags.Models {
		out = append(out, found{id: t.Name, window: windows[t.Name], loaded: windows[t.Name] > 0})
	}
	if want == "" && len(out) > 0 {
		want = out[0].id
	}
	i := slices.IndexFunc(out, func(f found) bool { return sameModel(f.id, want) })
	if want != "" {
		f, err := m.show(ctx, want)
		switch {
		case err != nil && i < 0:
			return out, nil
		case err == nil && i < 0:
			out = append(out, f)
		case err == nil:
			f.id, f.loaded = out[i].id, out[i].loaded
			if out[i].window > 0 {
				f.window = out[i].window
			}
			out[i] = f
		}
	}
	return out, nil
}

// sameModel compares names of Ollama's, where a missing tag is latest.
func sameModel(a, b string) bool {
	return strings.TrimSuffix(a, ":latest") == strings.TrimSuffix(b, ":latest")
}

var numCtx = regexp.MustCompile(`(?m)^\s*num_ctx\s+(\d+)`)

// show asks Ollama about one model.
func (m *Model) show(ctx context.Context, id string) (found, error) {
	var shown struct {
		Info         map[string]json.RawMessage `json:"model_info"`
		Parameters   string                     `json:"parameters"`
		Capabilities []string                   `json:"capabilities"`
	}
	if err := m.post(ctx, m.root+"/api/show", map[string]string{"model": id}, &shown); err != nil {
		return found{}, err
	}
	f := found{id: id}
	for key, raw := range shown.Info {
		var n count
		if strings.HasSuffix(key, ".context_length") && json.Unmarshal(raw, &n) == nil {
			f.trained = max(f.trained, int(n))
		}
	}
	if set := numCtx.FindStringSubmatch(shown.Parameters); set != nil {
		f.window, _ = strconv.Atoi(set[1])
	}
	if len(shown.Capabilities) > 0 {
		vision := slices.Contains(shown.Capabilities, "vision")
		f.images = &vision
	}
	return f, nil
}

// Models implements adapters.Model: the configured model first, then what the
// server lists. A server that lists nothing, or cannot be asked, still has the
// configured model.
func (m *Model) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	list, err := m.discover(ctx)
	if m.o.Model != "" && !slices.ContainsFunc(list, func(f found) bool { return m.names(f.id) }) {
		list = append([]found{{id: m.o.Model}}, list...)
	}
	if len(list) == 0 {
		return nil, err
	}
	var out []adapters.ModelInfo
	for _, f := range list {
		info := m.info(f)
		if m.names(f.id) {
			info.ID = m.o.Model
			out = slices.Insert(out, 0, info)
			continue
		}
		out = append(out, info)
	}
	return out, nil
}

// names reports whether an id of the server's is the configured model.
func (m *Model) names(id string) bool {
	return id == m.o.Model || m.p.native && m.o.Model != "" && sameModel(id, m.o.Model)
}

// discover asks the server in the ways of its profile and joins what they tell: of
// each model the first answer counts. It remembers the result.
func (m *Model) discover(ctx context.Context) ([]found, error) {
	var all []found
	var only found // what a server says of the one model that it has
	var failed error
	for _, p := range m.p.probes {
		list, err := p(ctx, m, m.o.Model)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		for _, f := range list[:min(len(list), maxModels)] {
			i := slices.IndexFunc(all, func(g found) bool { return g.id == f.id })
			switch {
			case f.id == "":
				only = only.or(f)
			case i < 0:
				all = append(all, f)
			default:
				all[i] = all[i].or(f)
			}
		}
	}
	for i := range all {
		all[i] = all[i].or(only)
	}
	if len(all) > 0 {
		failed = nil
	}
	m.remember(all)
	return all, failed
}

// or fills what is not known of a model.
func (f found) or(g found) found {
	if f.name == "" {
		f.name = g.name
	}
	if f.window == 0 {
		f.window = g.window
	}
	if f.trained == 0 {
		f.trained = g.trained
	}
	if f.maxOutput == 0 {
		f.maxOutput = g.maxOutput
	}
	if f.images == nil {
		f.images = g.images
	}
	if f.price == nil {
		f.price = g.price
	}
	f.loaded = f.loaded || g.loaded
	return f
}

// The sources of a window.
const (
	fromConfig  = "config"
	fromServer  = "server"
	fromBuiltin = "builtin"
)

// info is what is known of a model, the configuration first.
func (m *Model) info(f found) adapters.ModelInfo {
	info := adapters.ModelInfo{ID: f.id, DisplayName: f.name, MaxOutput: f.maxOutput, Price: f.price}
	if info.DisplayName == "" {
		info.DisplayName = f.id
	}
	info.ContextWindow, info.WindowSource = m.windowOf(f)
	if n := m.configured(f.id, m.o.MaxOutput); n > 0 {
		info.MaxOutput = n
	}
	info.Images = m.p.images && (f.images == nil || *f.images)
	return info
}

// windowOf is the window of a model and who says so.
func (m *Model) windowOf(f found) (tokens int, source string) {
	if n := m.configured(f.id, m.o.ContextWindow); n > 0 {
		return n, fromConfig
	}
	if f.window > 0 {
		return f.window, fromServer
	}
	if n := m.p.window; n > 0 {
		return bounded(n, f.trained), fromBuiltin
	}
	return 0, ""
}

// configured is a limit of the configuration, which is about the configured model,
// or about all of them if none is named.
func (m *Model) configured(id string, limit int) int {
	if m.o.Model == "" || m.names(id) {
		return limit
	}
	return 0
}
