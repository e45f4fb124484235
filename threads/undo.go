package threads

// undo folds CompactionUndone.
func (s *state) undo(p CompactionUndone) {
	if p.Boundary != nil {
		s.Transcript.Boundaries = append(s.Transcript.Boundaries, *p.Boundary)
		s.Reanchor, s.Reanchors = "", append(s.Reanchors, "")
		s.reindexContext()
	}
}
