package compaction

import (
	"strings"
	"testing"
)

// samples are what users of each language write to a coding agent: short, and mixed
// with names, paths and English.
var samples = map[string][]string{
	"en": {"Please fix the parser, it does not read the header.", "and then run the tests"},
	"zh": {"请修复 `ParseHeader` 的错误，不要改动 internal/api 目录。", "先写测试"},
	"ja": {"パーサーのバグを直してください。src/parser.go のテストも書いて。", "次はREADMEを更新"},
	"ko": {"파서의 버그를 고쳐 주세요. internal/api 는 건드리지 마세요.", "테스트도 작성해 주세요"},
	"ru": {"Исправь, пожалуйста, парсер: он не читает заголовок.", "потом запусти тесты"},
	"uk": {"Виправ, будь ласка, парсер: він не читає заголовок.", "і запусти тести"},
	"pt": {"Por favor, corrija o parser: ele não lê o cabeçalho.", "depois rode os testes, mas sem mexer na API"},
	"es": {"Por favor, corrige el analizador: no lee la cabecera.", "y luego ejecuta las pruebas, pero sin tocar la API"},
	"fr": {"Corrige le parseur s'il te plaît : il ne lit pas l'en-tête.", "et lance les tests sans toucher à l'API"},
	"de": {"Bitte repariere den Parser, er liest den Kopf nicht.", "und dann die Tests, aber ohne die API zu ändern"},
	"it": {"Correggi il parser: non legge l'intestazione.", "e poi lancia i test, ma senza toccare la API"},
	"ar": {"أصلح المحلل من فضلك، فهو لا يقرأ الترويسة.", "ثم شغّل الاختبارات"},
	"hi": {"कृपया पार्सर ठीक करें, वह हेडर नहीं पढ़ता।", "फिर टेस्ट चलाएँ"},
	"":   {"ls -la", "go test ./..."},
}

const pastedLog = "\nFAIL internal/api/server_test.go:42 expected 200 got 500\npanic: runtime error: index out of range [3] with length 3\nthe error is in the handler of the request and it was not caught when it came from the pool\n"

func TestTheLanguageOfTheUserIsRecognised(t *testing.T) {
	for code, messages := range samples {
		if got := detect(messages); got.code != code {
			t.Errorf("%q is taken for %q, want %q", messages, got.code, code)
		}
		if code == "" || code == "en" {
			continue
		}
		// A log in English that the user pasted does not make the user English.
		if got := detect(append([]string{messages[0] + pastedLog}, messages...)); got.code != code {
			t.Errorf("%q with a log is taken for %q, want %q", messages, got.code, code)
		}
	}
	many := []string{"继续", "好的", "再试一次", "不要改", strings.Repeat(pastedLog, 20)}
	if got := detect(many); got.code != "zh" {
		t.Errorf("short messages and a long log are taken for %q", got.code)
	}
	many = append([]string{"What does this mean?\n" + strings.Repeat(notesIn["zh"], 5)}, samples["en"]...)
	if got := detect(append(many, "thanks, and now the next file please")); got.code != "en" {
		t.Errorf("English with a Chinese text in it is taken for %q", got.code)
	}
	for name, text := range map[string]string{
		"Dutch": "Kun je dit repareren zonder iets te breken", "Persian": "لطفاً این خطا را برطرف کنید و گزارش بده", "Greek": "Διόρθωσε τον αναλυτή παρακαλώ", "nothing": "",
	} {
		if got := detect([]string{text}); got.code != "" {
			t.Errorf("%s, which has no headings here, is taken for %q", name, got.code)
		}
	}
}

func TestEveryLanguageHasAllHeadings(t *testing.T) {
	for _, l := range languages {
		seen := map[string]bool{}
		for _, h := range l.headings {
			if h == "" || seen[h] {
				t.Errorf("%s: heading %q is empty or used twice", l.code, h)
			}
			seen[h] = true
		}
	}
	if languageOf("xx").headings != languages[0].headings {
		t.Error("an unknown language has no headings")
	}
}

func TestNotesInAnotherLanguageAreNoticed(t *testing.T) {
	for want := range samples {
		for wrote, text := range notesIn {
			l := languageOf(want)
			if ok := l.speaks(text); ok != (want == wrote || want == "" || want == "ru" && wrote == "uk" || want == "uk" && wrote == "ru") {
				t.Errorf("notes in %s for a user who writes %s: speaks = %v", wrote, want, ok)
			}
		}
	}
}

// notesIn are notes as a model writes them: mostly facts with names in English.
var notesIn = map[string]string{
	"en": "## Goal\n- The parser is to read the header of each file in `internal/parse`.\n## Done\n- `ParseHeader`: the bound is fixed and it was tested with `go test`, and it passed.\n- the limit of the buffer is 4,096 and it should not be changed for now\n",
	"zh": "## 目标\n- 解析器需要读取文件头：internal/parse/header.go\n## 已完成\n- `ParseHeader` 的边界错误已修复，测试 go test ./... 通过\n- 缓冲区上限为 4096，暂时不要修改\n- 用户要求先写测试，不要改动 internal/api 目录\n",
	"ja": "## 目標\n- パーサーがヘッダーを読むようにする：internal/parse/header.go\n## 完了\n- `ParseHeader` の境界エラーを修正し、go test ./... は成功した\n- バッファの上限は 4096 のままにする\n- ユーザーは src/parser.go のテストも求めている\n",
	"ko": "## 목표\n- 파서가 헤더를 읽어야 한다: internal/parse/header.go\n## 완료\n- `ParseHeader` 경계 오류를 고쳤고 go test ./... 통과\n- 버퍼 한도는 4096 으로 유지한다\n- 사용자는 internal/api 를 건드리지 말라고 했고 테스트도 요청했다\n",
	"ru": "## Цель\n- Парсер должен читать заголовок: internal/parse/header.go\n## Сделано\n- В `ParseHeader` исправлена граница, go test ./... проходит\n- Предел буфера 4096 пока не менять\n- Пользователь просит после этого запустить тесты, ошибка индекса устранена в header.go\n",
	"pt": "## Objetivo\n- O parser deve ler o cabeçalho de cada arquivo em internal/parse.\n## Feito\n- O limite de `ParseHeader` foi corrigido e os testes passam com go test.\n- O limite do buffer é 4096 e não deve ser alterado por enquanto\n",
	"es": "## Objetivo\n- El analizador debe leer la cabecera de cada archivo en internal/parse.\n## Hecho\n- El límite de `ParseHeader` se ha corregido y las pruebas pasan con go test.\n- El límite del búfer es 4096 y no se debe cambiar por ahora\n",
	"fr": "## Objectif\n- Le parseur doit lire l'en-tête de chaque fichier dans internal/parse.\n## Fait\n- La borne de `ParseHeader` est corrigée et les tests passent avec go test.\n- La limite du tampon est de 4096 et ne doit pas changer pour le moment\n",
	"de": "## Ziel\n- Der Parser soll den Kopf von jeder Datei in internal/parse lesen.\n## Erledigt\n- Die Grenze in `ParseHeader` ist repariert und die Tests laufen mit go test durch.\n- Die Grenze des Puffers ist 4096 und wird für jetzt nicht geändert\n",
	"ar": "## الهدف\n- يجب أن يقرأ المحلل الترويسة: internal/parse/header.go\n## تم إنجازه\n- تم إصلاح الحد في `ParseHeader` والاختبارات ناجحة\n- يبقى حد المخزن المؤقت 4096 دون تغيير\n- طلب المستخدم تشغيل الاختبارات بعد ذلك، والخطأ كان في حدود الفهرس داخل header.go\n",
	"hi": "## लक्ष्य\n- पार्सर को हेडर पढ़ना है: internal/parse/header.go\n## पूरा हुआ\n- `ParseHeader` की सीमा ठीक की गई, go test ./... सफल\n- बफ़र की सीमा 4096 रहेगी, अभी न बदलें\n- उपयोगकर्ता ने इसके बाद टेस्ट चलाने को कहा, सूचकांक की त्रुटि header.go में ठीक हुई\n",
}
