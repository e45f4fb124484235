package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Cassette is what a server plays. It is not changed by being played.
type Cassette struct {
	name      string
	settings  settings
	exchanges []*exchange
	side      map[string]*exchange // by "METHOD /path"
}

// settings hold for a whole cassette.
type settings struct {
	server    server
	models    []model
	key       string
	reasoning string
	usage     string
	limit     *limit
	pieces    pieces
}

// A model is one that the server lists. Zero numbers are not told.
type model struct {
	id                      string
	window, trained, output int
}

// A limit is the number of tokens from which on requests are refused.
type limit struct {
	tokens int
	server server
}

// pieces say how an answer is cut up.
type pieces struct {
	chunks int // bytes; 0: as it comes
	deltas int // characters; 0: whole texts
	pace   time.Duration
}

// An exchange is a request and its answer.
type exchange struct {
	name   string
	line   int
	when   []condition
	expect []condition
	repeat int // how often; -1: any number of times
	limit  *limit
	status int
	header http.Header
	body   *string
	pieces pieces
	ops    []op
}

// A condition is a text that a request must hold or, if not, must not.
type condition struct {
	text string
	last bool // in its last message
	not  bool
	line int

	writer bool // the request is that of a checkpoint writer, or by which a program compacts
}

// An op is one thing that an answer does.
type op struct {
	kind  kind
	text  string
	code  string // of a failure
	n     int
	wait  time.Duration
	call  call
	usage usage
	auto  bool // the usage is computed
}

type kind int

const (
	opSay kind = iota
	opPad
	opThink
	opRefuse
	opCompaction
	opCall
	opUsage
	opFinish
	opDone
	opFail
	opRaw
	opDelay
	opHold
	opHang
	opCut
	opEOF
)

// speaks reports whether it is part of what a model says.
func (k kind) speaks() bool {
	switch k {
	case opDelay, opHold, opHang, opCut, opEOF:
		return false
	default:
		return true
	}
}

// A call is a tool call as the cassette has it: arguments may be no JSON.
type call struct {
	name, args, id string
	custom         bool // its tool takes a text
}

// usage is what an answer reports. What was read from a cache or written to it is part
// of the input.
type usage struct{ input, output, cached, written, reasoning int }

// Load reads a cassette from a file.
func Load(file string) (*Cassette, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(filepath.Base(file), text)
}

// Parse reads a cassette. The name is that of errors.
func Parse(name string, text []byte) (*Cassette, error) {
	comment, files := archive(string(text))
	c := &Cassette{name: name, side: map[string]*exchange{}, settings: settings{server: servers["generic"], usage: "auto"}}
	p := parser{file: name, line: 1}
	err := p.each(comment, func(word string) error {
		d, known := settingsTable[word]
		if !known {
			return p.unknown(word, slices.Sorted(maps.Keys(settingsTable)))
		}
		return d(&p, &c.settings)
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		x := &exchange{name: f.name, line: f.line, repeat: 1, header: http.Header{}, pieces: c.settings.pieces, limit: c.settings.limit}
		p.line = f.line + 1
		if err := c.add(&p, x, f.text); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// A file is one of a txtar archive; line is that of its marker.
type file struct {
	name, text string
	line       int
}

// archive reads the txtar format (golang.org/x/tools/txtar, package comment): a
// comment, then files, each behind a line "-- NAME --".
func archive(text string) (comment string, files []file) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	n, at, begin := 0, 0, 0
	end := func(to int) {
		if len(files) == 0 {
			comment = text[:to]
		} else {
			files[len(files)-1].text = text[begin:to]
		}
	}
	for line := range strings.Lines(text) {
		n++
		name, is := strings.CutPrefix(strings.TrimRight(line, " \n"), "-- ")
		name, ends := strings.CutSuffix(name, " --")
		if name = strings.TrimSpace(name); is && ends && name != "" {
			end(at)
			files, begin = append(files, file{name: name, line: n}), at+len(line)
		}
		at += len(line)
	}
	end(at)
	return comment, files
}

// place is the name of an exchange that answers one endpoint.
var place = regexp.MustCompile(`^[A-Z]+ /`)

// add takes the file of an exchange.
func (c *Cassette) add(p *parser, x *exchange, text string) error {
	side := place.MatchString(x.name)
	if start := strings.TrimSpace(text); side && (strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[")) {
		if !json.Valid([]byte(text)) {
			return p.fail("what answers %s is no JSON", x.name)
		}
		x.body = &text
		x.header.Set("Content-Type", "application/json")
	} else if err := p.exchange(x, text); err != nil {
		return err
	}
	if !side {
		x.complete(c.settings.usage)
		c.exchanges = append(c.exchanges, x)
		return nil
	}
	if c.side[x.name] != nil {
		return fmt.Errorf("%s:%d: %s is answered twice", p.file, x.line, x.name)
	}
	if slices.ContainsFunc(x.ops, func(o op) bool { return o.kind.speaks() }) {
		return fmt.Errorf("%s:%d: %s is answered by json or body, or by a failure: only requests to models are spoken to", p.file, x.line, x.name)
	}
	x.repeat = -1
	c.side[x.name] = x
	return nil
}

// complete adds what an answer lacks at its end, unless it is in control of that
// itself.
func (x *exchange) complete(usage string) {
	var finish, told, calls bool
	for _, o := range x.ops {
		switch o.kind {
		case opDone, opFail, opRaw, opEOF, opCut, opHang:
			return
		case opFinish:
			finish = true
		case opUsage:
			told = true
		case opCall:
			calls = true
		case opSay, opPad, opThink, opRefuse, opCompaction, opDelay, opHold:
		}
	}
	if !finish {
		reason := "stop"
		if calls {
			reason = "tool_calls"
		}
		at := len(x.ops)
		for at > 0 && x.ops[at-1].kind == opUsage { // which comes last
			at--
		}
		x.ops = slices.Insert(x.ops, at, op{kind: opFinish, text: reason})
	}
	if !told {
		x.ops = append(x.ops, op{kind: opUsage, auto: usage == "auto", text: usage})
	}
	x.ops = append(x.ops, op{kind: opDone})
}
