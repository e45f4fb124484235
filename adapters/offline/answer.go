package offline

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// maxAnswer bounds an answer, in tokens of the ruler; the frame around the quotes
// may add some words.
const maxAnswer = 560

// What an answer shows of texts that may be long, in characters, and how many
// words it names as missing.
const (
	maxLabel = 100
	maxStep  = 160
	maxWord  = 40
	maxNamed = 8
)

// answer answers the last message of the user from the other entries.
func answer(entries []transcript.Entry) string {
	question := -1
	for i, e := range entries {
		if e.Item.Body.Kind() == transcript.KindUserMessage {
			question = i
		}
	}
	if question < 0 {
		return english.noMessage
	}
	asked := transcript.Text(entries[question].Item.Body)
	say := phrasesFor(asked)
	if !strings.ContainsFunc(asked, inName) {
		return say.noWords
	}
	now := current(entries, question, say)
	q := newQuery(asked)
	ranked, missing := search(passages(entries, question, now, say), &q, asked)
	missing = withoutPlan(missing, &q, now)
	w := writer{say: say, labels: len(q.clauses) > 1}
	left := maxAnswer - textTokens(say.found)
	if len(missing) > 0 {
		left -= textTokens(say.notMentioned(named(missing, say)))
	}
	c := newChooser(&q, ranked, now)
	for i := range c.sections {
		left -= textTokens(w.label(&c.sections[i]))
	}
	left -= w.trimSteps(c.sections, left/2)
	sections := c.choose(func(m match) bool {
		n := textTokens(w.quote(&m))
		if n > left {
			return false
		}
		left -= n
		return true
	})
	return w.write(sections, missing, len(entries)-1, contextTokens(entries, question))
}

// withoutPlan leaves out the words by which a plan was asked for that was found.
func withoutPlan(missing []string, q *query, now *plan) []string {
	return slices.DeleteFunc(missing, func(word string) bool {
		return now != nil && slices.ContainsFunc(q.clauses, func(c clause) bool {
			return c.plan != planNone && strings.Contains(c.text, word)
		})
	})
}

// A writer puts an answer into words.
type writer struct {
	say    phrases
	labels bool // name the clauses
}

func (w *writer) write(sections []section, missing []string, entries, tokens int) string {
	var b strings.Builder
	for i := range sections {
		b.WriteString(w.section(&sections[i]))
	}
	if b.Len() == 0 {
		return w.say.nothing(named(missing, w.say), entries, tokens)
	}
	text := w.say.found + "\n" + strings.TrimSuffix(b.String(), "\n")
	if len(missing) > 0 {
		text += "\n\n" + w.say.notMentioned(named(missing, w.say))
	}
	return text
}

// section is the answer to one clause, empty if there is nothing to say.
func (w *writer) section(s *section) string {
	var b strings.Builder
	b.WriteString(w.steps(s))
	if s.above != nil {
		b.WriteString("\n- " + w.say.above(s.above.from))
	}
	for i := range s.quotes {
		b.WriteString(w.quote(&s.quotes[i]))
	}
	if b.Len() == 0 {
		return ""
	}
	if !w.labels {
		return b.String()
	}
	return w.label(s) + b.String() + "\n"
}

// label names the clause of a section.
func (w *writer) label(s *section) string {
	if !w.labels {
		return ""
	}
	return "\n" + clip(s.clause, maxLabel) + w.say.colon
}

// trimSteps leaves out the last steps of plans that have more than n tokens, and
// returns how many tokens the others have.
func (w *writer) trimSteps(sections []section, n int) int {
	plans, used := 0, 0
	for i := range sections {
		if sections[i].plan != nil {
			plans++
		}
	}
	for i := range sections {
		s := &sections[i]
		room := n / max(plans, 1)
		for k, step := range s.steps {
			if room -= textTokens(w.step(s, step)); room < 0 && k > 0 {
				s.steps, s.more = s.steps[:k], len(s.steps)-k
				break
			}
		}
		used += textTokens(w.steps(s))
	}
	return used
}

func (w *writer) step(s *section, step planStep) string {
	return "\n- " + s.plan.from + ": " + w.say.open + clip(step.text, maxStep) + w.say.close
}

// steps lists the steps of a plan that were asked for.
func (w *writer) steps(s *section) string {
	if s.plan == nil {
		return ""
	}
	var b strings.Builder
	for _, step := range s.steps {
		b.WriteString(w.step(s, step))
	}
	if s.more > 0 {
		b.WriteString("\n- " + w.say.moreSteps(s.more))
	}
	if len(s.steps) == 0 {
		b.WriteString("\n- " + s.plan.from + ": " + w.say.noSteps(len(s.plan.steps)))
	}
	return b.String()
}

// quote is a passage with where it came from, and with the heading if that is why
// it matched.
func (w *writer) quote(m *match) string {
	from := m.from
	if m.earlier {
		from += w.say.earlier
	}
	if m.headed {
		from += " › " + strings.Trim(m.under, "#:： ")
	}
	return "\n- " + from + ": " + w.say.open + m.quote() + w.say.close
}

// clip cuts a text after n characters.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n]) + "…"
}

// named lists words in quotes.
func named(missing []string, say phrases) string {
	quoted := []string{}
	for _, w := range missing[:min(len(missing), maxNamed)] {
		quoted = append(quoted, say.open+clip(w, maxWord)+say.close)
	}
	return strings.Join(quoted, say.or)
}

func contextTokens(entries []transcript.Entry, question int) int {
	n := 0
	for i, e := range entries {
		if i != question {
			n += transcript.Tokens(e.Item.Body)
		}
	}
	return n
}

// phrases is the frame of an answer in one language.
type phrases struct {
	found, noMessage, noWords string
	open, close, or, colon    string
	earlier                   string // after the source of what was said differently later

	message, answer, reasoning, call, result, someResult string
	command, change, plan, notice, checkpoint            string

	nothing      func(words string, entries, tokens int) string
	notMentioned func(words string) string
	above        func(from string) string // instead of a quote that a section before has
	moreSteps    func(n int) string
	noSteps      func(all int) string
}

// phrasesFor picks the language of a question: Chinese if it has Chinese
// characters and no Japanese ones, else English.
func phrasesFor(question string) phrases {
	han, kana := false, false
	for _, r := range question {
		han = han || unicode.Is(unicode.Han, r)
		kana = kana || unicode.In(r, unicode.Hiragana, unicode.Katakana)
	}
	if han && !kana {
		return chinese
	}
	return english
}

var english = phrases{
	found:     "From my context:",
	noMessage: "There is no message to answer.",
	noWords:   "Your message has no words that I could look for.",
	open:      `"`, close: `"`, or: " or ", colon: ":", earlier: ", earlier",
	message: "your message", answer: "an earlier answer", reasoning: "earlier reasoning",
	call: "call of ", result: "result of ", someResult: "a tool result",
	command: "a command", change: "a file change", plan: "the plan",
	notice: "notice: ", checkpoint: "checkpoint notes",
	nothing: func(words string, entries, tokens int) string {
		if words == "" {
			words = "that"
		}
		return fmt.Sprintf("Nothing in my context mentions %s. I searched %d entries (%d tokens).", words, entries, tokens)
	},
	notMentioned: func(words string) string { return "Nothing in my context mentions " + words + "." },
	above:        func(from string) string { return from + ", as quoted above" },
	moreSteps:    func(n int) string { return fmt.Sprintf("and %d more steps", n) },
	noSteps:      func(all int) string { return fmt.Sprintf("none of its %d steps", all) },
}

var chinese = phrases{
	found:     "在我的上下文中找到：",
	noMessage: "没有需要回答的消息。",
	noWords:   "你的消息里没有可以查找的词。",
	open:      "「", close: "」", or: "或", colon: "：", earlier: "（较早）",
	message: "你的消息", answer: "之前的回答", reasoning: "之前的思考",
	call: "工具调用 ", result: "工具结果 ", someResult: "工具结果",
	command: "命令输出", change: "文件改动", plan: "计划",
	notice: "提示 ", checkpoint: "检查点笔记",
	nothing: func(words string, entries, tokens int) string {
		if words == "" {
			words = "这些内容"
		}
		return fmt.Sprintf("我的上下文没有提到%s。我查找了 %d 条记录（%d 个 token）。", words, entries, tokens)
	},
	notMentioned: func(words string) string { return "我的上下文没有提到" + words + "。" },
	above:        func(from string) string { return from + "，见上文引用" },
	moreSteps:    func(n int) string { return fmt.Sprintf("还有 %d 个步骤", n) },
	noSteps:      func(all int) string { return fmt.Sprintf("%d 个步骤中没有", all) },
}
