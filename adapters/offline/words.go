package offline

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// words calls f with each word of a text in the form it is matched in: lower
// case, without plural and verb endings. An identifier gives its parts and, if
// there is more than one, itself as written; a run of a script without spaces
// gives each pair of neighbours. f must not keep the word: its bytes are reused,
// since a search looks at every word of a context.
func words(text string, f func(word []byte)) {
	var buf [64]byte
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		var run string
		switch {
		case unspaced(r):
			run = prefix(text[i:], unspaced)
			pairs(run, f)
		case inName(r):
			run = prefix(text[i:], func(r rune) bool { return inName(r) && !unspaced(r) })
			name(run, buf[:0], f)
		default:
			run = text[i : i+size]
		}
		i += len(run)
	}
}

// prefix returns the first characters of s that are all in a set.
func prefix(s string, in func(rune) bool) string {
	for i, r := range s {
		if !in(r) {
			return s[:i]
		}
	}
	return s
}

// inName reports whether r belongs to a word or an identifier.
func inName(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

// unspaced reports whether r belongs to a script that does not space its words.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// pairs passes on the bigrams of a run, or its only character.
func pairs(run string, f func([]byte)) {
	before := -1 // start of the character before
	for i, r := range run {
		end := i + utf8.RuneLen(r)
		if before >= 0 || end == len(run) {
			f([]byte(run[max(before, 0):end]))
		}
		before = i
	}
}

// name passes on the parts of an identifier and the whole of it.
func name(run string, buf []byte, f func([]byte)) {
	start, parts := 0, 0
	cut := func(end int) {
		if part := bytes.Trim(lower(buf, run[start:end]), "_"); len(part) > 0 {
			f(stem(part))
			parts++
		}
		start = end
	}
	var before rune
	for i, r := range run {
		if i > 0 && (boundary(before, r) || unicode.IsUpper(before) && unicode.IsUpper(r) && startsLower(run[i+utf8.RuneLen(r):])) {
			cut(i)
		}
		before = r
	}
	cut(len(run))
	if parts > 1 {
		f(lower(buf, run))
	}
}

// boundary reports whether an identifier has a new part between a and b.
func boundary(a, b rune) bool {
	return a == '_' || b == '_' ||
		unicode.IsDigit(a) != unicode.IsDigit(b) ||
		unicode.IsLower(a) && unicode.IsUpper(b)
}

// startsLower reports whether s starts with a lower-case letter: the last capital
// of HTTPServer belongs to the word after it.
func startsLower(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLower(r)
}

// lower appends s in lower case.
func lower(buf []byte, s string) []byte {
	for _, r := range s {
		buf = utf8.AppendRune(buf, unicode.ToLower(r))
	}
	return buf
}

// endings are cut by stem, the first one that fits.
var endings = [][]byte{[]byte("ing"), []byte("ed"), []byte("es"), []byte("s")}

// stem cuts the commonest English endings, so that "keys" finds "key" and
// "deployed" finds "deploy". Both sides are cut alike, so a wrong cut costs
// little.
func stem(w []byte) []byte {
	for _, end := range endings {
		if rest, cut := bytes.CutSuffix(w, end); cut && len(rest) >= 3 && rest[len(rest)-1] != 's' {
			w = rest
			break
		}
	}
	if n := len(w); n > 3 && w[n-1] == 'e' {
		w = w[:n-1]
	}
	return w
}

// stopWords are question words and the like: they say nothing about a topic. They
// are compared after stem; the Chinese ones as pairs.
var stopWords = func() map[string]bool {
	set := map[string]bool{}
	for _, list := range []string{
		`a about again all also am an and any are as at be been but by can could did do does doing done each for from get give
		had has have he her here him his how i if in into is it its just know let like make me more most my need no not now of
		on once one only or our out over please said say see she should so some still such tell than that the their them then there
		these they thing this those to too up us use very was we were what when where which who whom whose why will with would
		you your yes remember mention recall again`,
		`aber als am an auch auf aus bei bin bist das dem den der des die dir du ein eine einem einen einer es für hat haben
		hatte ich ihr im in ist ja kann man mich mir mit nach nicht noch nur oder sich sie sind so und uns von war was welche
		welcher welches wenn wer wie wir wird wo zu zum zur bitte`,
		`au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur lui ma mais me mon nous on ou où par
		pas pour que quel quelle qui sa se ses son sont sur ta te tu un une vous était quoi comment`,
		`al como con cual cuál de del donde dónde el ella en era es esta está este la las lo los me mi muy no nos para pero por
		que qué quien quién se ser si sin son su sus te tu un una y ya o os da das do dos em na nas não no nos onde para pela
		pelo qual quem são sua seu um uma você`,
	} {
		for w := range strings.FieldsSeq(list) {
			set[string(stem([]byte(w)))] = true
		}
	}
	for pair := range strings.FieldsSeq(`什么 甚么 什麼 怎么 怎麼 怎样 怎樣 如何 哪里 哪裡 哪个 哪個 哪些 是什 么是 是哪 多少 几个
		幾個 为什 為什 谁是 是谁 请问 請問 告诉 告訴 诉我 訴我 我们 我們 你们 你們 他们 他們 这个 這個 那个 那個 可以 一下 还有 還有
		是不 不是 有没 没有 有沒 沒有 吗 嗎 呢 的 了 是 在 我 你 他 我的 你的 们的 的是 是的 です ます した どこ なに なん 何で
		は何 でし すか の は を に が`) {
		set[pair] = true
	}
	return set
}()

// kindred are words that say nearly the same, in the languages of the stop words:
// users ask for the folder and wrote "directory". They are compared after stem;
// the Chinese ones as pairs.
var kindred = func() [][]string {
	var out [][]string
	for _, list := range []string{
		`keep keeps kept stay stays stayed remain remains unchanged stable same preserve preserved retain constant
		bleiben bleibt behalten unverändert stabil gleich 保持 不变 不變 稳定 穩定`,
		`change changed modify edit alter touch touched rewrite ändern geändert anfassen angefasst verändern 修改 更改 改动 變更`,
		`must never always forbidden forbid required mandatory muss müssen darf dürfen nie niemals immer verboten 必须 必須 不能 不要 不得 禁止 务必`,
		`folder directory dir ordner verzeichnis dossier répertoire carpeta pasta 目录 目錄 件夹`,
		`open opened pending outstanding unfinished todo offen offene ausstehend 待办 未完`,
		`done complete completed finish finished fertig erledigt 完成`,
		`error errors fehler erreur 错误 錯誤`,
		`fail failed failing failure broken fehlgeschlagen 失败 失敗`,
		`delete deleted remove removed drop dropped erase löschen entfernen 删除 刪除 移除`,
		`decide decided decision entschieden entscheidung 决定 決定`,
		`maximum max most höchstens maximal 最大 最多`,
		`minimum min least mindestens minimal 最小 最少`,
	} {
		seen := map[string]bool{}
		var group []string
		for w := range strings.FieldsSeq(list) {
			if k := string(stem([]byte(w))); !seen[k] {
				seen[k] = true
				group = append(group, k)
			}
		}
		out = append(out, group)
	}
	return out
}()

// kinCounts is what a kindred word counts beside the word itself.
const kinCounts = 0.6

// kin has the group of each kindred word.
var kin = func() map[string]int {
	out := map[string]int{}
	for g, list := range kindred {
		for _, w := range list {
			out[w] = g
		}
	}
	return out
}()
