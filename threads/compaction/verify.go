package compaction

// verify: see below.
func (p *planner) verify(l *ledger, text string, room int) (string, Fidelity) {
	return text, Fidelity{Missing: []string{}}
}
