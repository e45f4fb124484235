package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A parser reads the directives of a cassette.
type parser struct {
	file string
	line int      // of the directive
	arg  string   // what stands behind its name
	rest []string // the lines after it
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", p.file, p.line, fmt.Sprintf(format, args...))
}

func (p *parser) unknown(word string, known []string) error {
	return p.fail("there is no directive %q here; there are %s", word, strings.Join(known, ", "))
}

// each calls f for every directive of a text, with its name. Afterwards p.line is
// the line behind the text.
func (p *parser) each(text string, f func(word string) error) error {
	p.rest = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		p.rest = nil
	}
	for ; len(p.rest) > 0; p.line++ {
		line := strings.TrimSpace(p.rest[0])
		p.rest = p.rest[1:]
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, arg, _ := strings.Cut(line, " ")
		p.arg = strings.TrimSpace(arg)
		if err := f(word); err != nil {
			return err
		}
	}
	return nil
}

// exchange reads the directives of an exchange.
func (p *parser) exchange(x *exchange, text string) error {
	return p.each(text, func(word string) error {
		d, known := directives[word]
		if !known {
			return p.unknown(word, slices.Sorted(maps.Keys(directives)))
		}
		return d(p, x)
	})
}

// text reads a TEXT that is all of the argument.
func (p *parser) text() (string, error) {
	if end, is := strings.CutPrefix(p.arg, "<<"); is {
		i := slices.IndexFunc(p.rest, func(l string) bool { return strings.TrimSpace(l) == end })
		if end == "" || i < 0 {
			return "", p.fail("no line %q ends the text that begins here", end)
		}
		text := strings.Join(p.rest[:i], "\n")
		p.rest, p.line = p.rest[i+1:], p.line+i+1
		return text, nil
	}
	if !strings.HasPrefix(p.arg, `"`) {
		return p.arg, nil
	}
	s, err := strconv.Unquote(p.arg)
	if err != nil {
		return "", p.fail("%s is no string in Go's quotes", p.arg)
	}
	return s, nil
}

// needed reads a TEXT that must not be empty.
func (p *parser) needed() (string, error) {
	s, err := p.text()
	if err == nil && s == "" {
		err = p.fail("a text is missing")
	}
	return s, err
}

// number reads a positive number, or with zero also 0.
func (p *parser) number(s string, zero bool) (int, error) {
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil || n < 0 || n == 0 && !zero {
		return 0, p.fail("%q is no number as is needed here", s)
	}
	return n, nil
}

// pairs reads words like window=8192 into the places of their numbers.
func (p *parser) pairs(words []string, places map[string]*int) error {
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		place, known := places[k]
		if !known {
			return p.fail("%q is not known here; there are %s", w, strings.Join(slices.Sorted(maps.Keys(places)), ", "))
		}
		n, err := p.number(v, false)
		if err != nil {
			return err
		}
		*place = n
	}
	return nil
}

func (p *parser) server(name string) (server, error) {
	s, known := servers[name]
	if !known {
		return s, p.fail("there is no server %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
	}
	return s, nil
}

// limit reads "N [SERVER]".
func (p *parser) limit() (*limit, error) {
	words := strings.Fields(p.arg)
	if len(words) == 0 || len(words) > 2 {
		return nil, p.fail("limit wants a number of tokens, and may have a server")
	}
	n, err := p.number(words[0], false)
	if err != nil {
		return nil, err
	}
	l := &limit{tokens: n}
	if len(words) == 2 {
		l.server, err = p.server(words[1])
	}
	return l, err
}

func (p *parser) chunks(to *pieces) (err error) {
	to.chunks, err = p.number(p.arg, false)
	return err
}

func (p *parser) deltas(to *pieces) (err error) {
	n, pace, _ := strings.Cut(p.arg, " ")
	if to.deltas, err = p.number(n, false); err == nil && pace != "" {
		to.pace, err = p.duration(strings.TrimSpace(pace))
	}
	return err
}

func (p *parser) duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, p.fail("%q is no time such as 50ms", s)
	}
	return d, nil
}

// settingsTable reads the settings by their names.
var settingsTable = map[string]func(*parser, *settings) error{
	"server": func(p *parser, s *settings) (err error) { s.server, err = p.server(p.arg); return err },
	"model": func(p *parser, s *settings) error {
		words := strings.Fields(p.arg)
		if len(words) == 0 {
			return p.fail("model wants an id")
		}
		m := model{id: words[0]}
		err := p.pairs(words[1:], map[string]*int{"window": &m.window, "trained": &m.trained, "output": &m.output})
		s.models = append(s.models, m)
		return err
	},
	"key":       func(p *parser, s *settings) (err error) { s.key, err = p.needed(); return err },
	"reasoning": func(p *parser, s *settings) (err error) { s.reasoning, err = p.needed(); return err },
	"usage": func(p *parser, s *settings) error {
		if s.usage = p.arg; p.arg != "auto" && p.arg != "none" {
			return p.fail("usage is auto or none here")
		}
		return nil
	},
	"limit":  func(p *parser, s *settings) (err error) { s.limit, err = p.limit(); return err },
	"chunks": func(p *parser, s *settings) error { return p.chunks(&s.pieces) },
	"deltas": func(p *parser, s *settings) error { return p.deltas(&s.pieces) },
}

// directives reads those of an exchange by their names.
var directives = map[string]func(*parser, *exchange) error{
	"when":       func(p *parser, x *exchange) error { return p.condition(&x.when, condition{}) },
	"unless":     func(p *parser, x *exchange) error { return p.condition(&x.when, condition{not: true}) },
	"last":       func(p *parser, x *exchange) error { return p.condition(&x.when, condition{last: true}) },
	"writer":     writer,
	"expect":     func(p *parser, x *exchange) error { return p.condition(&x.expect, condition{}) },
	"expect-not": func(p *parser, x *exchange) error { return p.condition(&x.expect, condition{not: true}) },
	"repeat": func(p *parser, x *exchange) (err error) {
		if x.repeat = -1; p.arg != "" {
			x.repeat, err = p.number(p.arg, false)
		}
		return err
	},
	"limit": func(p *parser, x *exchange) (err error) { x.limit, err = p.limit(); return err },
	"status": func(p *parser, x *exchange) (err error) {
		if x.status, err = p.number(p.arg, false); err == nil && (x.status < 200 || x.status > 599) {
			err = p.fail("%d is no status of an answer", x.status)
		}
		return err
	},
	"header": func(p *parser, x *exchange) error {
		k, v, is := strings.Cut(p.arg, ":")
		if !is {
			return p.fail("header wants NAME: VALUE")
		}
		x.header.Add(k, strings.TrimSpace(v))
		return nil
	},
	"json": func(p *parser, x *exchange) error {
		s, err := p.needed()
		if x.body = &s; err == nil && !json.Valid([]byte(s)) {
			err = p.fail("this is no JSON; body takes any text")
		}
		x.header.Set("Content-Type", "application/json")
		return err
	},
	"body":   func(p *parser, x *exchange) error { s, err := p.text(); x.body = &s; return err },
	"chunks": func(p *parser, x *exchange) error { return p.chunks(&x.pieces) },
	"deltas": func(p *parser, x *exchange) error { return p.deltas(&x.pieces) },

	"say":        func(p *parser, x *exchange) error { return p.op(x, opSay, p.needed) },
	"compaction": func(p *parser, x *exchange) error { return p.op(x, opCompaction, p.needed) },
	"refuse":     func(p *parser, x *exchange) error { return p.op(x, opRefuse, p.needed) },
	"think":      func(p *parser, x *exchange) error { return p.op(x, opThink, p.needed) },
	"finish":     func(p *parser, x *exchange) error { return p.op(x, opFinish, p.needed) },
	"done":       func(p *parser, x *exchange) error { return p.op(x, opDone, p.nothing) },
	"hold":       func(p *parser, x *exchange) error { return p.op(x, opHold, p.needed) },
	"hang":       func(p *parser, x *exchange) error { return p.op(x, opHang, p.text) },
	"cut":        func(p *parser, x *exchange) error { return p.op(x, opCut, p.nothing) },
	"eof":        func(p *parser, x *exchange) error { return p.op(x, opEOF, p.nothing) },
	"raw":        func(p *parser, x *exchange) error { return p.op(x, opRaw, p.needed) },
	"data":       func(p *parser, x *exchange) error { return p.frame(x, "") },
	"event": func(p *parser, x *exchange) error {
		name, arg, _ := strings.Cut(p.arg, " ")
		p.arg = strings.TrimSpace(arg)
		return p.frame(x, "event: "+name+"\n")
	},
	"pad": func(p *parser, x *exchange) error {
		n, err := p.number(p.arg, false)
		x.ops = append(x.ops, op{kind: opPad, n: n})
		return err
	},
	"delay": func(p *parser, x *exchange) error {
		d, err := p.duration(p.arg)
		x.ops = append(x.ops, op{kind: opDelay, wait: d})
		return err
	},
	"call":   tool,
	"custom": custom,
	"fail":   failure,
	"usage":  report,
}

func (p *parser) nothing() (string, error) {
	if p.arg != "" {
		return "", p.fail("nothing may stand behind this, as %q does", p.arg)
	}
	return "", nil
}

func (p *parser) op(x *exchange, k kind, text func() (string, error)) error {
	s, err := text()
	x.ops = append(x.ops, op{kind: k, text: s})
	return err
}

// frame takes the data of a raw event.
func (p *parser) frame(x *exchange, head string) error {
	s, err := p.text()
	x.ops = append(x.ops, op{kind: opRaw, text: head + "data: " + strings.ReplaceAll(s, "\n", "\ndata: ") + "\n\n"})
	return err
}

func (p *parser) condition(to *[]condition, c condition) (err error) {
	c.line = p.line
	c.text, err = p.needed()
	*to = append(*to, c)
	return err
}

func writer(p *parser, x *exchange) error {
	x.when = append(x.when, condition{writer: true, line: p.line})
	_, err := p.nothing()
	return err
}

// tool reads "NAME ARGS [ID]".
func tool(p *parser, x *exchange) error {
	name, arg, _ := strings.Cut(p.arg, " ")
	c := call{name: name}
	d := json.NewDecoder(strings.NewReader(arg))
	var args json.RawMessage
	if err := d.Decode(&args); err != nil {
		return p.fail("call wants a name, arguments and perhaps an id: %v", err)
	}
	c.args = string(args)
	c.id = strings.TrimSpace(arg[d.InputOffset():])
	if strings.HasPrefix(c.args, `"`) {
		if err := json.Unmarshal(args, &c.args); err != nil {
			return p.fail("%s is no string", args)
		}
	}
	x.ops = append(x.ops, op{kind: opCall, call: c})
	return nil
}

// custom reads "NAME TEXT".
func custom(p *parser, x *exchange) error {
	name, arg, _ := strings.Cut(p.arg, " ")
	p.arg = strings.TrimSpace(arg)
	text, err := p.needed()
	if err == nil && name == "" {
		err = p.fail("custom wants a name and a text")
	}
	x.ops = append(x.ops, op{kind: opCall, call: call{name: name, args: text, custom: true}})
	return err
}

// failure reads "CODE [TEXT]".
func failure(p *parser, x *exchange) error {
	code, arg, _ := strings.Cut(p.arg, " ")
	if code == "" {
		return p.fail("fail wants the code of an error, and may have a text")
	}
	p.arg = strings.TrimSpace(arg)
	text, err := p.text()
	x.ops = append(x.ops, op{kind: opFail, code: code, text: cmp.Or(text, "scripted failure")})
	return err
}

// report reads "auto", "none", or numbers.
func report(p *parser, x *exchange) (err error) {
	o := op{kind: opUsage, auto: p.arg == "auto", text: p.arg}
	if p.arg != "auto" && p.arg != "none" {
		words := strings.Fields(p.arg)
		if len(words) < 2 {
			return p.fail("usage wants auto, none, or the tokens of input and output")
		}
		if o.usage.input, err = p.number(words[0], true); err != nil {
			return err
		}
		if o.usage.output, err = p.number(words[1], true); err != nil {
			return err
		}
		err = p.pairs(words[2:], map[string]*int{"cached": &o.usage.cached, "written": &o.usage.written, "reasoning": &o.usage.reasoning})
		if u := o.usage; err == nil && u.cached+u.written > u.input {
			err = p.fail("of %d tokens of input %d cannot be those of a cache", u.input, u.cached+u.written)
		}
	}
	x.ops = append(x.ops, o)
	return err
}
