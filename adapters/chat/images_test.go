package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
)

// A model that takes no images is told of them in words, which is told before
// anything else: where the profile, the server or a refusal says so.
func TestImagesThatAreToldInWordsAreToldOf(t *testing.T) {
	req := story()
	req.Model = "m"
	for name, c := range map[string]struct {
		overrides map[string]string
		images    bool
	}{
		"shown":      {nil, true},
		"switch off": {map[string]string{"images": "false"}, false},
	} {
		inBubble(t, "usage none\n-- one --\nsay Hi.\n", func(t *testing.T, s *upstream.Server) {
			m := on(t, s, Options{Overrides: c.overrides, ContextWindow: 100_000})
			lines, err := answers(m, req)
			told := len(lines) > 0 && strings.Contains(lines[0], "the model takes no images: the 2 in the context are told as text")
			if err != nil || told == c.images {
				t.Errorf("%s: got %q and %v", name, lines, err)
			}
			if images, _ := m.Carries("m"); images != c.images {
				t.Errorf("%s: images are carried: %v", name, images)
			}
		})
	}
	refusal := `{"error":{"message":"this model does not support image input"}}`
	cassette := fmt.Sprintf("usage none\n-- first --\nstatus 400\njson %s\nexpect image_url\n-- second --\nexpect-not image_url\nsay Hi.\n-- third --\nexpect-not image_url\nsay Again.\n", refusal)
	inBubble(t, cassette, func(t *testing.T, s *upstream.Server) {
		m := on(t, s, Options{ContextWindow: 100_000})
		for i := range 2 {
			lines, err := answers(m, req)
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(lines[0], "told as text"); told != (i == 1) {
				t.Errorf("request %d: %q", i+1, lines)
			}
		}
		if images, limit := m.Carries("m"); images || limit != 0 {
			t.Errorf("after the refusal: %v, %d", images, limit)
		}
	})
}

func TestAProfileKnowsTheBytesOfARequest(t *testing.T) {
	for _, c := range []struct {
		o      Options
		images bool
		bytes  int
	}{
		{Options{BaseURL: "https://api.openai.com/v1"}, true, 50_000_000},
		{Options{BaseURL: "https://api.groq.com/openai/v1"}, true, 4_000_000},
		{Options{BaseURL: "https://api.deepseek.com"}, false, 0},
		{Options{BaseURL: "http://localhost:8000/v1"}, true, 0},
		{Options{BaseURL: "http://localhost:8000/v1", Overrides: map[string]string{"max_request_bytes": "30000000"}}, true, 30_000_000},
	} {
		m, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if images, bytes := m.Carries("any"); images != c.images || bytes != c.bytes {
			t.Errorf("%s: %v, %d", c.o.BaseURL, images, bytes)
		}
		m.Close()
	}
}
