package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	root      = "/code/harbour-api"
	sessionID = "7d1f3c52-9b0e-4c1b-8a55-2f60c8b1e7a4"
	model     = "claude-sonnet-4-5-20250929"
)

// story writes a session record by record. Its tools work on files in memory:
// an edit changes what later reads and searches show, so that the session never
// contradicts itself.
type story struct {
	files   map[string]string
	base    map[string]string // as at the last commit
	out     bytes.Buffer
	now     time.Time
	n       int    // records written
	parent  string // uuid of the record before
	message string // id of the open assistant message, "" if none
	context int    // characters so far, for the usage figures
	queued  []func()
	queuing bool
}

func newStory(files map[string]string) *story {
	return &story{files: files, base: maps.Clone(files), now: time.Date(2040, 5, 11, 8, 2, 11, 0, time.UTC)}
}

func (s *story) hash(kind string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "harbour %s %d", kind, s.n))
	return hex.EncodeToString(sum[:])
}

// tick advances the clock by a time that looks natural and is the same each run.
func (s *story) tick() string {
	h := sha256.Sum256(fmt.Appendf(nil, "clock %d", s.n))
	s.now = s.now.Add(time.Duration(900+int(h[0])*40+int(h[1])) * time.Millisecond)
	return s.now.Format("2006-01-02T15:04:05.000Z")
}

// record is one line of the file, in the member order of Claude Code.
type record struct {
	Parent    *string `json:"parentUuid"`
	Sidechain bool    `json:"isSidechain"`
	Cwd       string  `json:"cwd"`
	Session   string  `json:"sessionId"`
	Version   string  `json:"version"`
	Type      string  `json:"type"`
	Message   any     `json:"message"`
	UUID      string  `json:"uuid"`
	Timestamp string  `json:"timestamp"`
}

type userMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type assistantMessage struct {
	Model   string `json:"model"`
	ID      string `json:"id"`
	Type    string `json:"type"`
	Role    string `json:"role"`
	Content []any  `json:"content"`
	Usage   usage  `json:"usage"`
}

type usage struct {
	Input  int `json:"input_tokens"`
	Cached int `json:"cache_read_input_tokens"`
	Output int `json:"output_tokens"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type toolUse struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	Input any    `json:"input"`
}

type toolResult struct {
	ID      string `json:"tool_use_id"`
	Type    string `json:"type"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

func (s *story) write(kind string, message any) {
	s.n++
	h := s.hash("record")
	r := record{
		Cwd: root, Session: sessionID, Version: "2.1.42", Type: kind, Message: message,
		UUID: h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-9" + h[17:20] + "-" + h[20:32], Timestamp: s.tick(),
	}
	if s.parent != "" {
		p := s.parent
		r.Parent = &p
	}
	s.parent = r.UUID
	enc := json.NewEncoder(&s.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic(err)
	}
}

// User is a message of the user; it begins a turn.
func (s *story) User(text string) {
	s.message = ""
	s.now = s.now.Add(95 * time.Second)
	s.context += len(text)
	s.write("user", userMessage{"user", text})
}

func (s *story) block(size int, b any) {
	if s.message == "" {
		s.message = "msg_" + s.hash("message")[:22]
	}
	s.context += size
	s.write("assistant", assistantMessage{model, s.message, "message", "assistant", []any{b}, usage{4, 18000 + s.context*10/28, 40 + size/4}})
}

// Think is reasoning, Say is what the agent tells the user.
func (s *story) Think(text string) { s.block(len(text), thinkingBlock{"thinking", text, "demo"}) }
func (s *story) Say(text string)   { s.block(len(text), textBlock{"text", text}) }

// tool is a call with its result. Calls inside Together share a message.
func (s *story) tool(name string, input any, result string, failed bool) {
	id := "toolu_" + s.hash("call")[:24]
	raw, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	s.block(len(raw), toolUse{"tool_use", id, name, input})
	answer := func() {
		s.context += len(result)
		s.write("user", userMessage{"user", []toolResult{{id, "tool_result", result, failed}}})
	}
	if s.queuing {
		s.queued = append(s.queued, answer)
		return
	}
	s.message = ""
	answer()
}

// Together makes the calls of f parallel calls of one message.
func (s *story) Together(f func()) {
	s.queuing = true
	f()
	s.queuing = false
	s.message = ""
	for _, answer := range s.queued {
		answer()
	}
	s.queued = nil
}

// Interrupted is a command that the user stops: it never gets a result.
func (s *story) Interrupted(command, description string) {
	id := "toolu_" + s.hash("call")[:24]
	s.block(len(command), toolUse{"tool_use", id, "Bash", bashInput{command, description}})
	s.message = ""
	s.write("user", userMessage{"user", []textBlock{{"text", "[Request interrupted by user for tool use]"}}})
}

type readInput struct {
	Path   string `json:"file_path"`
	Offset int    `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

func (s *story) content(path string) string {
	text, ok := s.files[path]
	if !ok {
		panic("no such file: " + path)
	}
	return text
}

// Read reads a whole file, Lines a part of one.
func (s *story) Read(path string) { s.Lines(path, 0, 0) }

func (s *story) Lines(path string, offset, limit int) {
	lines := strings.Split(strings.TrimSuffix(s.content(path), "\n"), "\n")
	first := max(offset, 1)
	lines = lines[first-1:]
	if limit > 0 && limit < len(lines) {
		lines = lines[:limit]
	}
	s.tool("Read", readInput{root + "/" + path, offset, limit}, numbered(lines, first), false)
}

func numbered(lines []string, first int) string {
	var out strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&out, "%6d→%s\n", first+i, l)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Missing is a read of a file that does not exist.
func (s *story) Missing(path string) {
	s.tool("Read", readInput{Path: root + "/" + path}, "File does not exist.", true)
}

type grepInput struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Mode    string `json:"output_mode"`
	Numbers bool   `json:"-n"`
}

// Grep searches the files whose path begins with under.
func (s *story) Grep(pattern, under string) {
	re := regexp.MustCompile(pattern)
	var out []string
	for _, path := range s.paths(under) {
		for i, l := range strings.Split(s.files[path], "\n") {
			if re.MatchString(l) {
				out = append(out, fmt.Sprintf("%s:%d:%s", path, i+1, l))
			}
		}
	}
	result := strings.Join(out, "\n")
	if result == "" {
		result = "No matches found"
	}
	s.tool("Grep", grepInput{pattern, root + "/" + under, "content", true}, result, false)
}

func (s *story) paths(under string) []string {
	var out []string
	for path := range s.files {
		if strings.HasPrefix(path, under) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

type globInput struct {
	Pattern string `json:"pattern"`
}

// Glob lists the files whose path begins with under.
func (s *story) Glob(pattern, under, suffix string) {
	var out []string
	for _, p := range s.paths(under) {
		if strings.HasSuffix(p, suffix) {
			out = append(out, root+"/"+p)
		}
	}
	s.tool("Glob", globInput{pattern}, strings.Join(out, "\n"), false)
}

type editInput struct {
	Path string `json:"file_path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
}

// Edit replaces the only occurrence of old and shows the place afterwards.
func (s *story) Edit(path, old, new string) {
	text := s.content(path)
	if n := strings.Count(text, old); n != 1 {
		panic(fmt.Sprintf("%s: %d occurrences of %q", path, n, old))
	}
	at := strings.Index(text, old)
	s.files[path] = text[:at] + new + text[at+len(old):]
	lines := strings.Split(s.files[path], "\n")
	first := max(strings.Count(text[:at], "\n")-3, 0)
	last := min(strings.Count(text[:at], "\n")+strings.Count(new, "\n")+5, len(lines))
	s.tool("Edit", editInput{root + "/" + path, old, new},
		fmt.Sprintf("The file %s/%s has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n%s", root, path, numbered(lines[first:last], first+1)), false)
}

type writeInput struct {
	Path    string `json:"file_path"`
	Content string `json:"content"`
}

// Write creates a file.
func (s *story) Write(path, content string) {
	s.files[path] = content
	s.tool("Write", writeInput{root + "/" + path, content}, "File created successfully at: "+root+"/"+path, false)
}

type bashInput struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

// Bash is a command that succeeds, Fails one that does not.
func (s *story) Bash(command, description, output string) {
	s.tool("Bash", bashInput{command, description}, output, false)
}

func (s *story) Fails(command, description string, exit int, output string) {
	s.tool("Bash", bashInput{command, description}, fmt.Sprintf("Exit code %d\n%s", exit, output), true)
}

type todo struct {
	Content string `json:"content"`
	Status  string `json:"status"`
	Active  string `json:"activeForm"`
}

// Plan writes the plan: each step as "x text" (done), "> text" (in progress) or
// "- text" (pending).
func (s *story) Plan(steps ...string) {
	var list []todo
	for _, step := range steps {
		status := map[byte]string{'x': "completed", '>': "in_progress", '-': "pending"}[step[0]]
		list = append(list, todo{step[2:], status, "Working on: " + step[2:]})
	}
	s.tool("TodoWrite", map[string]any{"todos": list}, "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress. Please proceed with the current tasks if applicable", false)
}
