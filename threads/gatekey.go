package threads

import (
	"fmt"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// gateKey names what a gate is shut for: another model or another policy arms it.
func gateKey(p compaction.Policy, s Settings) string {
	return fmt.Sprintf("%s %s %d %d %d", s.model(), p.Preset, p.Limit, p.Reserve, p.Cap)
}

func (e env) gateKey(s Settings) string { return gateKey(e.policy, s) }
