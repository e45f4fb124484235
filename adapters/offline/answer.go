package offline

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// maxAnswer bounds an answer, in tokens of the ruler; the frame around the quotes
// may add some words.
const maxAnswer = 560

// maxNamed bounds the words that an answer names as missing.
const maxNamed = 8

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
	f := search(passages(entries, question, say), asked)
	if len(f.best) == 0 {
		return say.nothing(named(f.missing, say), len(entries)-1, contextTokens(entries, question))
	}
	var b strings.Builder
	b.WriteString(say.found)
	b.WriteString("\n")
	for i, m := range f.best {
		line := fmt.Sprintf("\n- %s: %s%s%s", label(m), say.open, m.text, say.close)
		if i > 0 && textTokens(b.String()+line) > maxAnswer {
			break
		}
		b.WriteString(line)
	}
	if len(f.missing) > 0 {
		b.WriteString("\n\n" + say.notMentioned(named(f.missing, say)))
	}
	return b.String()
}

// label says where a quote came from, with the heading if that is why it matched.
func label(m match) string {
	if !m.headed {
		return m.from
	}
	return m.from + " › " + strings.Trim(m.under, "#:： ")
}

// named lists words in quotes.
func named(missing []string, say phrases) string {
	quoted := []string{}
	for _, w := range missing[:min(len(missing), maxNamed)] {
		if utf8.RuneCountInString(w) > 40 {
			w = string([]rune(w)[:40]) + "…"
		}
		quoted = append(quoted, say.open+w+say.close)
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
	open, close, or           string

	message, answer, reasoning, call, result, someResult string
	command, change, plan, notice, checkpoint            string

	nothing      func(words string, entries, tokens int) string
	notMentioned func(words string) string
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
	open:      `"`, close: `"`, or: " or ",
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
}

var chinese = phrases{
	found:     "在我的上下文中找到：",
	noMessage: "没有需要回答的消息。",
	noWords:   "你的消息里没有可以查找的词。",
	open:      "「", close: "」", or: "或",
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
}
