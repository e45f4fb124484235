package compaction

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of the rules of a ledger.
const (
	maxRules        = 120
	maxRulesPerText = 24 // a longer list is a document that was pasted
	maxRuleChars    = 400
)

// A rule is something that the user laid down for the work to come. Its weight
// says how much.
type rule struct {
	ID     transcript.ItemID `json:"id"`
	Text   string            `json:"text"` // one line, without the mark of a list
	Weight int               `json:"weight,omitempty"`
}

// standingWords mark a sentence that forbids or demands something for good, in
// the languages that threads are written in most. A word that begins or ends
// with a letter of an alphabet is only found as a word of its own.
var standingWords = []string{
	"must", "never", "always", "don't", "don’t", "do not", "dont", "only", "make sure", "important", "avoid", "under no circumstances", "not allowed", "forbidden", "mandatory", "required", "at all costs", "no longer", "at most", "at least",
	"nie", "niemals", "immer", "nicht", "nur", "muss", "müssen", "darf", "dürfen", "kein", "keine", "keinen", "keinesfalls", "unbedingt", "stets", "verboten", "höchstens", "mindestens",
	"nunca", "jamás", "siempre", "solo", "sólo", "solamente", "debe", "deben", "ningún", "ninguna", "prohibido", "obligatorio",
	"jamais", "toujours", "seulement", "uniquement", "doit", "doivent", "aucun", "aucune", "interdit", "ne pas",
	"sempre", "apenas", "somente", "deve", "devem", "mai", "não", "nenhum", "nenhuma", "proibido",
	"никогда", "всегда", "нельзя", "только", "обязательно", "не надо", "запрещено",
	"必须", "不要", "禁止", "务必", "一定要", "不能", "不得", "不可", "不许", "只能", "只用", "永远不", "从不", "总是", "始终", "切勿", "请勿", "別", "别改", "必須", "してはいけない", "しないで", "必ず", "絶対", "常に", "のみ", "반드시", "하지 마", "절대", "항상",
}

// wishWords mark a sentence in which the user wishes or decides something.
var wishWords = []string{
	"please", "should", "prefer", "instead", "without", "decision", "decided", "decide", "agreed", "declined", "has to", "have to", "stay", "stays", "remains", "is enough", "is fine", "per", "rather than", "from now on", "belongs to", "no need", "wait",
	"bitte", "soll", "sollte", "sollen", "statt", "ohne", "lieber", "entschieden", "bleibt", "bleiben", "reicht", "ab jetzt",
	"por favor", "debería", "sin", "en lugar de", "en vez de", "decidido", "prefiero", "hay que", "tiene que",
	"s'il vous plaît", "s'il te plaît", "devrait", "sans", "au lieu de", "plutôt", "il faut",
	"per favore", "senza", "invece", "deveria", "sem", "em vez de", "пожалуйста", "нужно", "надо", "вместо", "без",
	"请", "应该", "需要", "改为", "改成", "而不是", "决定", "保持", "ください", "べき", "代わりに", "해주세요", "대신",
}

// commands are verbs that begin a standing rule when they begin a sentence.
var commands = []string{
	"keep", "use", "leave", "ensure", "follow", "respect", "stick", "remember", "stop", "refrain", "no", "not", "write", "run", "ask", "prefer",
	"behalte", "verwende", "benutze", "nutze", "lass", "achte", "halte", "vermeide", "lasse",
	"usa", "mantén", "mantenga", "evita", "utiliza", "respeta", "no", "deja", "ejecuta",
	"garde", "gardez", "utilise", "utilisez", "évite", "évitez", "ne", "pas",
	"usa", "mantieni", "use", "mantenha", "evite", "используй", "используйте", "не",
	"使用", "保留", "保持", "不", "别", "勿",
}

// leadWords are found in the line over a list of rules.
var leadWords = []string{
	"rule", "constraint", "requirement", "convention", "guideline", "ground rules", "remember", "note that", "conditions", "decisions", "restrictions", "important",
	"regel", "vorgabe", "bedingung", "anforderung", "wichtig", "beachte",
	"regla", "norma", "requisito", "restricci", "condicion", "condición", "importante",
	"règle", "consigne", "contrainte", "exigence", "regole", "vincoli", "regra", "restriç", "правил", "требован", "важно",
	"规则", "規則", "要求", "约束", "规定", "注意", "原则", "ルール", "制約", "規約", "규칙", "요구",
}

// Weights of rules.
const (
	wished   = iota // a decision or a wish about one part of the work
	standing        // forbids or demands something for good
	listed          // in a list that the user called rules
	weights
)

// rulesOf returns the rules in a message of the user, in order.
func rulesOf(id transcript.ItemID, text string) []rule {
	var out []rule
	inList, fenced := false, false
	for raw := range strings.Lines(text) {
		if len(out) >= maxRulesPerText {
			break
		}
		l := strings.TrimSpace(raw)
		if strings.HasPrefix(l, "```") {
			fenced = !fenced
			continue
		}
		if fenced || l == "" || len(raw) > 4_000 || l[0] == '<' {
			continue
		}
		item, isItem := cutBullet(l)
		if isItem && inList {
			out = append(out, rule{id, clipRule(item), listed})
			continue
		}
		inList = leadsRules(l) || inList && raw[0] == ' ' // a further line of the item
		for _, s := range sentences(item) {
			if weight, ok := weigh(s); ok && len(out) < maxRulesPerText {
				out = append(out, rule{id, clipRule(s), weight})
			}
		}
	}
	return out
}

// clipRule bounds a rule. One that is longer is known by its beginning.
func clipRule(s string) string {
	return strings.TrimSuffix(oneLine(strings.ToValidUTF8(s, "\uFFFD"), maxRuleChars), "…")
}

// cutBullet takes the mark of a list item off a line.
func cutBullet(l string) (string, bool) {
	for _, mark := range []string{"- ", "* ", "+ ", "• ", "– ", "— ", "·"} {
		if rest, ok := strings.CutPrefix(l, mark); ok {
			rest, _ = cutBullet(strings.TrimSpace(rest))
			return rest, true
		}
	}
	i := 0
	for i < len(l) && i < 3 && l[i] >= '0' && l[i] <= '9' {
		i++
	}
	if i > 0 {
		for _, mark := range []string{". ", ") ", "、", "．", "）"} {
			if rest, ok := strings.CutPrefix(l[i:], mark); ok {
				return strings.TrimSpace(rest), true
			}
		}
	}
	return l, false
}

// leadsRules reports whether a line announces a list of rules.
func leadsRules(l string) bool {
	l = strings.TrimRight(l, "* _")
	heading := strings.HasPrefix(l, "#")
	if !heading && !strings.HasSuffix(l, ":") && !strings.HasSuffix(l, "：") {
		return false
	}
	l = strings.ToLower(l)
	return utf8.RuneCountInString(l) <= 160 && slices.ContainsFunc(leadWords, func(w string) bool { return strings.Contains(l, w) })
}

// weigh reports whether a sentence lays something down, and with what weight. A
// question does not.
func weigh(s string) (weight int, ok bool) {
	s = strings.TrimSpace(s)
	n := utf8.RuneCountInString(s)
	if n < 4 || n > 2*maxRuleChars || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "？") {
		return 0, false
	}
	low := strings.ToLower(s)
	switch {
	case slices.ContainsFunc(standingWords, func(w string) bool { return hasWord(low, w) }):
		return standing, true
	case slices.ContainsFunc(commands, func(w string) bool { return strings.HasPrefix(low, w) && endsWord(low, len(w)) }):
		return standing, true
	case slices.ContainsFunc(wishWords, func(w string) bool { return hasWord(low, w) }):
		return wished, true
	}
	return wished, decides(low)
}

// decides reports a sentence that settles a number: by contrast, as a setting, or
// after a colon.
func decides(low string) bool {
	if strings.ContainsAny(low, "0123456789") && (strings.Contains(low, ", not ") || strings.Contains(low, " = ")) {
		return true
	}
	_, after, ok := strings.Cut(low, ": ")
	return ok && slices.ContainsFunc(strings.Fields(after), func(w string) bool { return digits(strings.Trim(w, ".,;()%")) })
}

// hasWord reports whether w stands in s, as a word of its own unless its script
// has no blanks between words.
func hasWord(s, w string) bool {
	for at := 0; ; {
		i := strings.Index(s[at:], w)
		if i < 0 {
			return false
		}
		i += at
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		first, size := utf8.DecodeRuneInString(w)
		if (!isSpaced(first) || i == 0 || !isSpaced(before)) && endsWord(s, i+len(w)) {
			return true
		}
		at = i + size
	}
}

// endsWord reports whether no word of a spaced script goes on at end.
func endsWord(s string, end int) bool {
	last, _ := utf8.DecodeLastRuneInString(s[:end])
	next, _ := utf8.DecodeRuneInString(s[end:])
	return end == len(s) || !isSpaced(last) || !isSpaced(next)
}

// isSpaced reports letters and digits of scripts that put blanks between words.
func isSpaced(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}

// capRules bounds the rules: each text once, at its last mention, the oldest of
// the least weight dropped first.
func capRules(rules []rule) []rule {
	rules = newTable(rules, func(r rule) string { return r.Text }).newest(len(rules))
	for weight := range weights {
		over := len(rules) - maxRules
		rules = slices.DeleteFunc(rules, func(r rule) bool {
			if r.Weight != weight || over <= 0 {
				return false
			}
			over--
			return true
		})
	}
	return rules
}

// byWeight lists the rules in the order in which they must not be lost: the
// weightiest first, each group from new to old.
func (l *ledger) byWeight() []rule {
	out := slices.Clone(l.Rules)
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b rule) int { return b.Weight - a.Weight })
	return out
}

// ruleLines shows, in the order of byWeight, the rules of messages that are not
// quoted whole. In place of its rules a short message is shown as it is.
func (l *ledger) ruleLines(quoted map[transcript.ItemID]bool, short map[transcript.ItemID]string) []line {
	at := make(map[string]int, len(l.Rules))
	for i, r := range l.Rules {
		at[r.Text] = i
	}
	done := map[transcript.ItemID]bool{}
	var lines []line
	for _, r := range l.byWeight() {
		text, isShort := short[r.ID]
		switch {
		case quoted[r.ID] || done[r.ID]:
			continue
		case isShort:
			done[r.ID] = true
		default:
			text = r.Text
		}
		lines = append(lines, line{quote(text), at[r.Text]})
	}
	return lines
}

// saysNothing reports a message in which the user said nothing that could be of
// use later: the note of a program that a request was interrupted, a command to
// the program, a single word.
func saysNothing(text string) bool {
	t := strings.TrimSpace(text)
	if isInterruption(t) {
		return true
	}
	t = strings.TrimPrefix(t, "/")
	return t == "" || len(t) <= 24 && strings.IndexFunc(t, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != ':' }) < 0
}

// isInterruption reports what programs write when the user stops a request.
func isInterruption(text string) bool {
	t := strings.ToLower(strings.Trim(strings.TrimSpace(text), "[]."))
	for _, s := range []string{"request interrupted by user", "interrupted by user", "operation aborted", "conversation interrupted"} {
		if rest, ok := strings.CutPrefix(t, s); ok && len(rest) <= len(" for tool use") {
			return true
		}
	}
	return false
}
