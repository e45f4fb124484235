package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// CreateWithTools makes a thread whose clients declared tools.
func (s *Service) CreateWithTools(ctx context.Context, settings Settings, tools []DynamicTool) (ThreadRead, error) {
	settings, err := s.settle(settings)
	if err != nil {
		return ThreadRead{}, err
	}
	c := createThread{started: ThreadStarted{Settings: settings, Tools: tools, CreatedAt: transcript.Millis(s.now())}}
	return s.create(ctx, c, "thread/start", "", "")
}

// OfferedNames returns the names under which models know tools.
func OfferedNames(tools []DynamicTool, taken map[string]Tool) []string {
	specs, _ := offered(tools, taken)
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}
