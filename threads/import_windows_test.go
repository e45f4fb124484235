package threads_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// A file that is imported teaches nothing about this machine's providers.
func TestAnImportTeachesNoWindow(t *testing.T) {
	there := newPlayer(100_000)
	there.play = func(*player, adapters.Request) played { return played{err: errOverflow} }
	b := playing(t, there, never)
	id := b.create()
	b.played(id, "go")
	var file bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &file); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(file.String(), `"tokens":20000`) {
		t.Fatal("nothing was learned")
	}
	text := strings.Replace(file.String(), `"tokens":20000`, `"source":"provider","tokens":300`, 1) // another machine's, or forged

	here := playing(t, newPlayer(100_000))
	other := here.create()
	if _, err := here.svc.Import(t.Context(), strings.NewReader(text), threads.ImportParams{}); err != nil {
		t.Fatal(err)
	}
	other = here.create()
	if w := here.read(other).Occupancy.Window; w != 100_000 {
		t.Errorf("after an import the window of another thread is %d", w)
	}
}
