package threads

import "fmt"

// gateKey names what a gate is shut for: another model or another policy arms it.
func (e env) gateKey(s Settings) string {
	p := e.policy
	return fmt.Sprintf("%s/%s %s %d %d %d", s.Provider, s.Model, p.Preset, p.Limit, p.Reserve, p.Cap)
}
