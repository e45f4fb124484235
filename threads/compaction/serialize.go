package compaction

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A source is what a model that writes notes gets to read, and what is known of it
// without a model. It is made of one plan and does not change while models are asked.
type source struct {
	blocks   []block // the history that the notes stand for, oldest first
	visible  []block // items behind it, which the agent goes on seeing
	previous string  // the notes so far, of a model, a provider or this server
	facts    []fact  // what nothing but the notes will hold
	lang     language
	limit    int // code points that the notes may have
}

// A block is a call with its results, or any other item that a model can read.
type block struct {
	nodes  []*node
	turn   int  // of the thread's epoch, from 1
	stays  bool // it is retained whole, although its neighbours are not
	splits bool // the turn of the last block goes on in what stays visible
}

// A style says how much of a history is shown. Each is smaller than the one before.
type style struct {
	level level
	clip  int  // code points that are left of a result, head and tail
	alone bool // without the items that stay visible
}

// A level says which items are shown.
type level int

// The levels.
const (
	levelAll      level = iota
	levelNoOutput       // results say only how long they were
	levelTalk           // messages of user and agent
	levels
)

// Bounds of what is shown of one item, in code points, and of what stays visible.
const (
	clipOutput  = 2_000
	clipArg     = 1_000
	clipTalk    = 8_000
	clipNotice  = 800
	clipVisible = 300
	maxVisible  = 24 // items
)

// newSource reads a plan: everything up to the last item that will no longer be
// readable is history, also what stays between.
func (p *planner) newSource() *source {
	p.settle()
	s := &source{lang: detect(p.userTexts()), previous: p.previousNotes()}
	s.limit = min(p.notesLimit()*4-utf8.RuneCountInString(p.notesHead())-1, notesMax*s.lang.perToken()/10)
	end := 0
	for i := range p.nodes {
		if p.nodes[i].lost() {
			end = i + 1
		}
	}
	turns := map[transcript.TurnID]int{}
	for i, t := range turnsOf(p.in.Entries) {
		turns[t] = i + 1
	}
	done := make([]bool, len(p.units))
	for i := range p.nodes {
		n := &p.nodes[i]
		if done[n.unit] {
			continue
		}
		done[n.unit] = true
		b := block{turn: turns[n.item.Turn], stays: true}
		for _, m := range p.units[n.unit].members {
			if member := &p.nodes[m]; member.readable() {
				b.nodes = append(b.nodes, member)
				b.stays = b.stays && member.kept && !member.lost()
			}
		}
		switch {
		case len(b.nodes) == 0:
		case i < end:
			s.blocks = append(s.blocks, b)
		default:
			s.visible = append(s.visible, b)
		}
	}
	s.visible = s.visible[max(0, len(s.visible)-maxVisible):]
	if n := len(s.blocks); n > 0 && len(s.visible) > 0 {
		s.blocks[n-1].splits = s.blocks[n-1].turn == s.visible[0].turn
	}
	return s
}

// readable reports whether a model that writes is shown the node. What another one
// thought is not: it belongs to that model, and says nothing that was not done.
func (n *node) readable() bool {
	switch b := n.item.Body.(type) {
	case transcript.Reasoning, transcript.ContextCompaction:
		return false
	case transcript.Opaque:
		return b.Text != ""
	default:
		return strings.TrimSpace(n.text) != ""
	}
}

// lost reports whether hardly anything of the node can be read after the boundary.
func (n *node) lost() bool {
	if !n.readable() {
		return false
	}
	return !n.kept || n.now.form == transcript.FormStub && n.form != transcript.FormStub || n.now.tokens*2 < n.tokens
}

// userTexts are the messages of the user, those of earlier epochs among them.
func (p *planner) userTexts() []string {
	var out []string
	for _, u := range p.led.Users {
		out = append(out, u.Text)
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; n.kind == transcript.KindUserMessage {
			out = append(out, n.text)
		}
	}
	return out
}

// previousNotes is what is known of the time before the items: the last notes of a
// model, and of what came after them the summary of a provider or our own quotes.
func (p *planner) previousNotes() string {
	var parts []string
	for i, it := range p.prev {
		c := it.Body.(transcript.Checkpoint)
		l := readLedger(c)
		switch {
		case l != nil && c.Version == VersionModel && l.Notes != nil:
			parts = append(parts, l.Notes.Text)
		case l != nil && i == len(p.prev)-1:
			if l.Notes != nil {
				parts = append(parts, l.Notes.Text)
			}
			parts = append(parts, unframed(c))
		case l == nil:
			parts = append(parts, c.Text)
		}
	}
	return clipSaid(strings.TrimSpace(strings.Join(parts, "\n\n")), maxCarried)
}

// unframed is the text of one of our checkpoints without its first sentence and
// without notes that it quotes of another one.
func unframed(c transcript.Checkpoint) string {
	text := strings.TrimPrefix(c.Text, opening(c.Version))
	before, after, ok := strings.Cut(text, earlierNotes)
	if !ok {
		return text
	}
	if i := strings.Index(after, "\n## "); i >= 0 { // quoted lines are indented
		return before + after[i:]
	}
	return before
}

// render shows a block.
func (b *block) render(st style) string {
	var out strings.Builder
	for _, n := range b.nodes {
		if st.level == levelTalk && n.kind != transcript.KindUserMessage && n.kind != transcript.KindAgentMessage {
			continue
		}
		label, text := n.show(st)
		if b.stays {
			label += ", stays visible"
		}
		out.WriteString("[" + label + "]\n")
		out.WriteString(indent(text))
	}
	return out.String()
}

// show names a node and says what a model reads of it.
func (n *node) show(st style) (label, text string) {
	switch b := n.item.Body.(type) {
	case transcript.UserMessage:
		return "user", n.clipTo(clipTalk * st.clip / clipOutput)
	case transcript.AgentMessage:
		return "assistant", n.clipTo(clipTalk * st.clip / clipOutput)
	case transcript.ToolCall:
		return "call " + oneLine(neutralise(b.Name), 60), n.showArgs(clipArg * st.clip / clipOutput)
	case transcript.ToolResult:
		label = "result"
		if n.refused {
			label = "result, refused by the user"
		} else if n.failed {
			label = "result, failed"
		}
		return label, n.showOutput(st)
	case transcript.Command:
		return "command, " + oneLine(neutralise(b.Status), 20), oneLine(b.Command, clipArg) + "\n" + n.showOutput(st)
	case transcript.FileChange:
		return "files changed", n.clipTo(st.clip)
	case transcript.Plan:
		return "plan", n.clipTo(clipTalk)
	case transcript.Image:
		return "image", "(not shown)"
	default:
		return "note of the program", n.clipTo(clipNotice)
	}
}

func (n *node) showOutput(st style) string {
	if st.level >= levelNoOutput {
		return fmt.Sprintf("(output of %d characters, not shown)", n.piece().total)
	}
	return n.piece().clip(st.clip*7/10, st.clip*3/10, "")
}

// clipTo is the text of the node, shortened as a result is.
func (n *node) clipTo(limit int) string {
	p := wholePiece(n.text, utf8.RuneCountInString(n.text))
	if n.form != transcript.FormWhole {
		p = parsePiece(n.text)
	}
	return p.clip(limit*7/10, limit*3/10, "")
}

// showArgs shows the arguments of a call, each shortened.
func (n *node) showArgs(limit int) string {
	if n.form != transcript.FormWhole || n.act == nil || len(n.act.fields) == 0 {
		return parsePiece(n.body).clip(limit*7/10, limit*3/10, "")
	}
	lines := make([]string, 0, len(n.act.fields))
	for _, f := range n.act.fields {
		text := wholePiece(f.text, utf8.RuneCountInString(f.text)).clip(limit*7/10, limit*3/10, "")
		lines = append(lines, oneLine(f.key, 60)+": "+text)
	}
	return strings.Join(lines, "\n")
}

// indent makes text data: without power, and no line of it at the margin, where
// only the frame stands.
func indent(s string) string {
	s = strings.ReplaceAll(neutralise(s), transcript.WriterMark, "[…]")
	s = strings.Trim(s, "\n")
	return "  " + strings.ReplaceAll(s, "\n", "\n  ") + "\n"
}

// serialise shows blocks with their turns. From is where they begin in the history:
// a turn that began before goes on.
func (s *source) serialise(blocks []block, from int, st style) string {
	var out strings.Builder
	turn := 0
	for i := range blocks {
		b := &blocks[i]
		text := b.render(st)
		if text == "" {
			continue
		}
		if b.turn != turn {
			turn = b.turn
			out.WriteString(turnLine(turn, i == 0 && from > 0 && s.blocks[from-1].turn == turn))
		}
		out.WriteString(text)
	}
	to := from + len(blocks)
	switch {
	case len(blocks) == 0:
	case to < len(s.blocks) && s.blocks[to].turn == turn:
		fmt.Fprintf(&out, "=== turn %d goes on in the next part ===\n", turn)
	case to == len(s.blocks) && blocks[len(blocks)-1].splits:
		fmt.Fprintf(&out, "=== turn %d goes on in what stays visible ===\n", turn)
	}
	return out.String()
}

func turnLine(turn int, goesOn bool) string {
	if goesOn {
		return fmt.Sprintf("=== turn %d, continued ===\n", turn)
	}
	return fmt.Sprintf("=== turn %d ===\n", turn)
}

// serialiseVisible shows the beginnings of what stays visible, the newest within
// limit tokens.
func (s *source) serialiseVisible(st style, limit int) string {
	if st.alone {
		return ""
	}
	short := style{level: st.level, clip: clipVisible}
	var parts []string
	for i := range slices.Backward(s.visible) {
		b := s.visible[i]
		b.stays = false
		text := clipBlock(b.render(short), 4*clipVisible)
		if limit -= transcript.EstimateText(text); limit < 0 {
			break
		}
		parts = append(parts, text)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "")
}

// clipBlock bounds a block that is already shown; what is left stays data.
func clipBlock(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	frame := map[string]bool{} // a line that the cut leaves half of is none
	for line := range strings.Lines(text) {
		frame[line] = !strings.HasPrefix(line, "  ")
	}
	var out strings.Builder
	for line := range strings.Lines(wholePiece(text, utf8.RuneCountInString(text)).clip(limit*2/3, limit/3, "") + "\n") {
		if !frame[line] && !strings.HasPrefix(line, "  ") {
			line = "  " + line
		}
		out.WriteString(line)
	}
	return out.String()
}
