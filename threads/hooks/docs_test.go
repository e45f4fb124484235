package hooks

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestEveryFieldThatAHookReadsIsDescribed(t *testing.T) {
	doc, err := os.ReadFile("../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[input]().Fields() {
		if name := f.Tag.Get("json"); !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/hooks.md does not describe %s", name)
		}
	}
}
