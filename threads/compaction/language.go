package compaction

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A language is one that notes are written in. The zero language is one that was
// not recognised: a model is then asked for the language of the user's messages.
type language struct {
	code     string
	name     string // in English, and in itself if that differs
	headings headings
}

// headings are those of notes: goal, constraints, decisions, done, in progress, next,
// open questions, errors and fixes, facts.
type headings [9]string

var languages = []language{
	{"en", "English", headings{"Goal", "Constraints", "Decisions", "Done", "In progress", "Next", "Open questions", "Errors and fixes", "Facts"}},
	{"zh", "Chinese (中文)", headings{"目标", "约束", "决定", "已完成", "进行中", "下一步", "未决问题", "错误与修复", "事实"}},
	{"ja", "Japanese (日本語)", headings{"目標", "制約", "決定事項", "完了", "作業中", "次の作業", "未解決の問い", "エラーと修正", "事実"}},
	{"ko", "Korean (한국어)", headings{"목표", "제약", "결정", "완료", "진행 중", "다음", "미해결 질문", "오류와 해결", "사실"}},
	{"ru", "Russian (русский)", headings{"Цель", "Ограничения", "Решения", "Сделано", "В работе", "Дальше", "Открытые вопросы", "Ошибки и исправления", "Факты"}},
	{"uk", "Ukrainian (українська)", headings{"Мета", "Обмеження", "Рішення", "Зроблено", "У роботі", "Далі", "Відкриті питання", "Помилки та виправлення", "Факти"}},
	{"ar", "Arabic (العربية)", headings{"الهدف", "القيود", "القرارات", "تم إنجازه", "قيد التنفيذ", "التالي", "أسئلة مفتوحة", "الأخطاء وإصلاحها", "حقائق"}},
	{"hi", "Hindi (हिन्दी)", headings{"लक्ष्य", "शर्तें", "निर्णय", "पूरा हुआ", "जारी", "आगे", "खुले प्रश्न", "त्रुटियाँ और सुधार", "तथ्य"}},
	{"pt", "Portuguese (português)", headings{"Objetivo", "Restrições", "Decisões", "Feito", "Em andamento", "A seguir", "Questões em aberto", "Erros e correções", "Fatos"}},
	{"es", "Spanish (español)", headings{"Objetivo", "Restricciones", "Decisiones", "Hecho", "En curso", "A continuación", "Preguntas abiertas", "Errores y correcciones", "Datos"}}, //nolint:misspell // Spanish
	{"fr", "French (français)", headings{"Objectif", "Contraintes", "Décisions", "Fait", "En cours", "À faire ensuite", "Questions ouvertes", "Erreurs et corrections", "Faits"}},
	{"de", "German (Deutsch)", headings{"Ziel", "Vorgaben", "Entscheidungen", "Erledigt", "In Arbeit", "Als Nächstes", "Offene Fragen", "Fehler und Lösungen", "Fakten"}},
	{"it", "Italian (italiano)", headings{"Obiettivo", "Vincoli", "Decisioni", "Fatto", "In corso", "Prossimi passi", "Domande aperte", "Errori e correzioni", "Fatti"}},
}

// languageOf returns the language of a code; one that is not recognised has the
// headings of English.
func languageOf(code string) language {
	for _, l := range languages {
		if l.code == code {
			return l
		}
	}
	return language{name: "the language of the user's messages", headings: languages[0].headings}
}

// perToken is how many letters of the language a token has, about, in tenths. What
// is counted in letters must not have three times the tokens in some scripts.
func (l language) perToken() int {
	switch l.code {
	case "zh", "ja", "ko":
		return 13
	case "ru", "uk", "ar", "hi", "":
		return 22
	default:
		return 40
	}
}

// functionWords are words that hardly a sentence of a language does without. Words
// of several languages count for each of them.
var functionWords = wordSets(map[string]string{
	"en": "the and is are was to of in it that this for with you not but have has be on can should please what which then when from there does do",
	"pt": "o os e é não que de do da dos das em um uma para com por se mais isso este esta está você favor também mas foi ser ao à pelo pela quando já só sem",
	"es": "el la los las y es que de del en un una para con por se más esto este esta está usted favor también pero fue ser al cuando ya solo sin hay lo",
	"fr": "le la les et est ne pas que de du des en un une pour avec par se plus ce cette ces vous nous il elle je sur dans mais aussi au aux quand sans sont qui",
	"de": "der die das und ist nicht dass zu von in ein eine einen für mit bitte auch aber war sein auf wenn ohne sind wird werden dem den des im es ich wir noch nur",
	"it": "il lo la gli le e è non che di del della in un una per con più questo questa anche ma era essere al quando già solo senza sono ho dei nel",
})

func wordSets(lists map[string]string) map[string][]string {
	sets := map[string][]string{}
	for code, list := range lists {
		for w := range strings.FieldsSeq(list) {
			sets[w] = append(sets[w], code)
		}
	}
	return sets
}

// A census counts, in about words, what a text is written in.
type census struct {
	script map[string]int // letters of scripts that are not Latin
	latin  int            // words of prose in Latin letters
	hits   map[string]int // function words by language
	own    map[string]int // of those, the ones that English does not have
}

func newCensus() *census {
	return &census{script: map[string]int{}, hits: map[string]int{}, own: map[string]int{}}
}

// Bounds of what one message counts for: a long one may be pasted, and many short
// ones are not.
const (
	mostLetters = 150
	mostWords   = 60
	mostHits    = 10
)

// add counts a message.
func (c *census) add(one *census) {
	c.latin += min(one.latin, mostWords)
	for _, t := range []struct {
		to, from map[string]int
		most     int
	}{{c.script, one.script, mostLetters}, {c.hits, one.hits, mostHits}, {c.own, one.own, mostHits}} {
		for k, n := range t.from {
			t.to[k] += min(n, t.most)
		}
	}
}

// Marks of a script's letters that tell one of its languages from the others.
const (
	letterHan       = "Han"
	letterKana      = "Kana"
	letterHangul    = "Hangul"
	letterCyrillic  = "Cyrillic"
	letterUkrainian = "Ukrainian"
	letterArabic    = "Arabic"
	letterPersian   = "Persian"
	letterHindi     = "Devanagari"
	letterOther     = "other"
)

// lettersPerWord is how long words are, about. A function word stands for two words.
var lettersPerWord = map[string]int{letterHan: 2, letterKana: 3, letterHangul: 3, letterCyrillic: 6, letterArabic: 5, letterHindi: 4, letterOther: 5}

// letterOf names the script of a letter, empty for Latin and for what is no letter.
func letterOf(r rune) string {
	switch {
	case r < 0x250 || !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Mc, r):
		return ""
	case unicode.Is(unicode.Han, r):
		return letterHan
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		return letterKana
	case unicode.Is(unicode.Hangul, r):
		return letterHangul
	case unicode.Is(unicode.Cyrillic, r):
		return letterCyrillic
	case unicode.Is(unicode.Arabic, r):
		return letterArabic
	case unicode.Is(unicode.Devanagari, r):
		return letterHindi
	case unicode.Is(unicode.Latin, r) || unicode.Is(unicode.Mn, r):
		return ""
	}
	return letterOther
}

// count reads prose: code, paths, addresses and names that somebody composed say
// nothing about the language around them.
func (c *census) count(s string) {
	fenced := false
	for line := range strings.Lines(s) {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "```") {
			fenced = !fenced
			continue
		}
		if fenced || len(line) > 8_000 {
			continue
		}
		for w := range strings.FieldsSeq(withoutSpans(line)) {
			c.word(w)
		}
	}
}

// withoutSpans takes out what stands between backticks.
func withoutSpans(line string) string {
	if strings.Count(line, "`") < 2 {
		return line
	}
	var b strings.Builder
	for i, part := range strings.Split(line, "`") {
		if i%2 == 0 {
			b.WriteString(part + " ")
		}
	}
	return b.String()
}

func (c *census) word(w string) {
	foreign := false
	for _, r := range w {
		l := letterOf(r)
		if l == "" {
			continue
		}
		foreign = true
		c.script[l]++
		switch r {
		case 'і', 'ї', 'є', 'ґ', 'І', 'Ї', 'Є':
			c.script[letterUkrainian]++
		case 'گ', 'چ', 'پ', 'ژ', 'ک', 'ی', 'ٹ', 'ڈ', 'ے':
			c.script[letterPersian]++
		}
	}
	w = strings.ToLower(strings.Trim(w, ".,;:!?()[]{}\"'«»“”’…*-–—"))
	if foreign || w == "" || strings.ContainsFunc(w, notProse) {
		return
	}
	c.latin++
	for _, code := range functionWords[w] {
		c.hits[code]++
		if !slices.Contains(functionWords[w], "en") {
			c.own[code]++
		}
	}
}

// notProse reports runes that words of prose do not have.
func notProse(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '’' && r != '-' }

// words is about how many words are written in a script.
func (c *census) words(script string) int { return c.script[script] / lettersPerWord[script] }

// foreign returns the language of the letters that are not Latin, empty if none is
// known, and how many words it has.
func (c *census) foreign() (code string, words int) {
	cjk := c.words(letterHan) + c.words(letterKana)
	code, words = "zh", cjk
	if c.script[letterKana]*10 >= c.script[letterHan]+c.script[letterKana] {
		code = "ja"
	}
	for _, s := range []struct{ script, code string }{{letterHangul, "ko"}, {letterCyrillic, "ru"}, {letterArabic, "ar"}, {letterHindi, "hi"}, {letterOther, ""}} {
		if n := c.words(s.script); n > words {
			code, words = s.code, n
		}
	}
	switch {
	case code == "ru" && c.script[letterUkrainian]*25 > c.script[letterCyrillic]:
		code = "uk"
	case code == "ar" && c.script[letterPersian]*25 > c.script[letterArabic]:
		code = ""
	}
	return code, words
}

// best returns the Latin language with the most function words, and how many.
func (c *census) best() (code string, hits int) {
	for _, l := range languages { // in order: the result must not depend on a map
		if n := c.hits[l.code]; n > hits {
			code, hits = l.code, n
		}
	}
	return code, hits
}

// besideEnglish returns the language of a user whose messages have English in them,
// that of tools and logs, or English.
func (c *census) besideEnglish(hits int) string {
	code, most := "en", 2
	for _, l := range languages {
		if n := c.own[l.code]; n > most && n*foreignFactor >= hits {
			code, most = l.code, n
		}
	}
	return code
}

// Bounds of the recognition.
const (
	proseHead     = 2_000 // characters of a message that count, from its beginning
	proseTail     = 500   // and from its end: what was pasted stands in between
	foreignFactor = 3     // English that was pasted may have this many times the words of the user
)

// detect returns the language that messages are written in: that of most of them,
// or if there is none, that of most of their words.
func detect(messages []string) language {
	all, votes, voters := newCensus(), map[string]int{}, 0
	for _, m := range messages {
		one := newCensus()
		one.count(headOf(m, proseHead))
		if utf8.RuneCountInString(m) > proseHead {
			one.count(tailOf(m[len(headOf(m, proseHead)):], proseTail))
		}
		if code, ok := one.language(); ok {
			votes[code]++
			voters++
		}
		all.add(one)
	}
	for code, n := range votes {
		if 2*n > voters && voters > 2 {
			return languageOf(code)
		}
	}
	code, _ := all.language()
	return languageOf(code)
}

// language returns the language of a census. It reports false if there is too little
// to tell.
func (c *census) language() (code string, ok bool) {
	latin, hits := c.best()
	code, words := c.foreign()
	if latin == "en" {
		latin = c.besideEnglish(hits)
	}
	switch {
	case words > 0 && words*foreignFactor >= 2*hits:
		return code, true
	case hits >= 2 && hits*12 >= c.latin:
		return latin, true
	}
	return "", false
}

// speaks reports whether a text is written in the language. Doubt counts in favour
// of the text: facts are often short and full of names.
func (l language) speaks(text string) bool {
	c := newCensus()
	c.count(text)
	code, words := c.foreign()
	latin, hits := c.best()
	switch l.code {
	case "":
		return true
	case "zh", "ja", "ko", "ru", "uk", "ar", "hi":
		if words*6 < c.latin {
			return false
		}
		related := l.code == "ru" && code == "uk" || l.code == "uk" && code == "ru" || l.code == "ar" && code == ""
		return code == l.code || related || words < 10
	}
	if words > c.latin {
		return false
	}
	return latin == l.code || hits < 8 || hits <= 2*c.hits[l.code]
}
