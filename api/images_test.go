package api

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

const pngHead = "\x89PNG\r\n\x1a\n"

func dataURL(declared, data string) string {
	return "data:" + declared + ";base64," + base64.StdEncoding.EncodeToString([]byte(data))
}

// writeFile writes a file of the test and returns its path.
func writeFile(t testing.TB, name, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Images come through both doors and in each of codex's shapes, and are shown by the
// name under which they can be sent again.
func TestImagesAreTakenOnBothDoors(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	c := d.hello("")
	file := writeFile(t, "pier.jpg", "\xff\xd8\xffjpeg")
	stored := blobScheme + events.BlobHash([]byte(pngHead+"a"))
	inputs := []struct{ part, url string }{
		{`{"type":"image","url":"` + dataURL("image/png", pngHead+"a") + `"}`, stored},
		{`{"type":"image","url":"` + stored + `","detail":"high"}`, stored},
		{`{"type":"localImage","path":` + mustEncode(t, file) + `}`, blobScheme + events.BlobHash([]byte("\xff\xd8\xffjpeg"))},
		{`{"type":"image","url":"` + dataURL("image/jpg", "\xff\xd8\xffjpg") + `"}`, blobScheme + events.BlobHash([]byte("\xff\xd8\xffjpg"))},
		{`{"type":"image","url":"` + strings.TrimRight(dataURL("image/webp", "RIFF1234WEBPx"), "=") + `"}`, blobScheme + events.BlobHash([]byte("RIFF1234WEBPx"))},
	}
	for _, in := range inputs {
		body := `"input":[{"type":"text","text":"look"},` + in.part + `]}`
		var rpc TurnStartResult
		c.must("turn/start", `{"threadId":"`+id+`",`+body, &rpc)
		d.settled(id, rpc.Turn.ID)
		rest := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{`+body)
		d.settled(id, rest.Turn.ID)
		for door, turn := range map[string]string{"rpc": rpc.Turn.ID, "rest": rest.Turn.ID} {
			r := call[TurnReadResult](d, 200, "GET", "/v1/threads/"+id+"/turns/"+turn, "")
			m := r.Turn.Items[0].ItemVariant.(protocol.UserMessageItem)
			if got := m.Content[1]; got.Type != "image" || got.URL == nil || *got.URL != in.url {
				t.Errorf("%s: %s is shown as %s", door, clip(in.part), mustEncode(t, got))
			}
		}
	}
}

func TestImagesThatCannotBeTakenAreRefused(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := writeFile(t, "large.png", pngHead+strings.Repeat("x", threads.MaxImageBytes))
	image := func(url string) string { return `{"type":"image","url":` + mustEncode(t, url) + `}` }
	local := func(path string) string { return `{"type":"localImage","path":` + mustEncode(t, path) + `}` }
	for name, in := range map[string]struct {
		part   string
		status int
		code   fault.Code
		text   string
	}{
		"http":           {image("https://example.com/a.png"), 400, fault.Invalid, "the server fetches no URLs"},
		"other scheme":   {image("file:///a.png"), 400, fault.Invalid, "must begin with data: or urn:plimsoll:blob:"},
		"not base64":     {image("data:image/png,abc"), 400, fault.Invalid, "must be like data:image/png;base64,"},
		"broken base64":  {image("data:image/png;base64,*"), 400, fault.Invalid, "not valid base64"},
		"no type":        {image("data:;base64,aaaa"), 400, fault.Invalid, "must name its type"},
		"type of a text": {image(dataURL("text/plain", pngHead)), 400, fault.Invalid, "must name its type"},
		"other bytes":    {image(dataURL("image/png", "<svg/>")), 400, fault.Invalid, "not the bytes of an image"},
		"other type":     {image(dataURL("image/png", "GIF89a")), 400, fault.Invalid, "said to be image/png and is image/gif"},
		"nothing stored": {image(blobScheme + strings.Repeat("0", 64)), 400, fault.Invalid, "no image is stored under"},
		"relative":       {local("a.png"), 400, fault.Invalid, "must be absolute"},
		"missing":        {local(filepath.Join(dir, "none")), 400, fault.Invalid, "cannot be read: no such file"},
		"folder":         {local(dir), 400, fault.Invalid, "not a regular file"},
		"pipe":           {local(pipe), 400, fault.Invalid, "not a regular file"},
		"device":         {local("/dev/zero"), 400, fault.Invalid, "not a regular file"},
		"large":          {local(large), 413, fault.TooLarge, "at most 8388608"},
		"a text":         {local(writeFile(t, "a.png", "words")), 400, fault.Invalid, "not the bytes of an image"},
	} {
		p := d.problem(in.status, "POST", "/v1/threads/"+id+"/turns", `{"input":[{"type":"text","text":"x"},`+in.part+`]}`)
		if p.Code != in.code || !strings.HasPrefix(p.Detail, "input[1]: ") || !strings.Contains(p.Detail, in.text) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if r := call[TurnListResult](d, 200, "GET", "/v1/threads/"+id+"/turns", ""); len(r.Data) != 0 {
		t.Errorf("%d turns", len(r.Data))
	}
}

// The result of a tool is taken whatever is in it: a call whose answer were refused
// would wait for ever.
func TestImagesOfToolsAreTakenOrTold(t *testing.T) {
	d := open(t)
	items := []ToolOutput{
		{Type: "inputText", Text: "see"},
		{Type: "inputImage", ImageURL: dataURL("image/png", pngHead+"a")},
		{Type: "inputImage", ImageURL: "https://example.com/a.png"},
		{Type: "inputAudio"},
	}
	for i := range threads.MaxImages {
		items = append(items, ToolOutput{Type: "inputImage", ImageURL: dataURL("image/gif", "GIF89a"+string(rune('0'+i)))})
	}
	parts, images := toolOutput(t.Context(), d.svc, items)
	var texts []string
	shown := 0
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		} else if images[p.Blob] != nil {
			shown++
		}
	}
	want := []string{
		"see",
		"[an image of the tool's output was left out: the server fetches no URLs; send the image as data:image/png;base64,… or as a localImage]",
		"[audio of the tool's output was left out: this server passes on texts and images only]",
		"[an image of the tool's output was left out: the output has too many images]",
	}
	if shown != threads.MaxImages || !slices.Equal(texts, want) {
		t.Errorf("%d images, %q", shown, texts)
	}
}
